//! The integration tests: one binary, a module per theme, each against a real Harbor on a free
//! port over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod support;

mod groups;
mod path;
mod process;
mod refusals;
mod slow;
mod stress;
mod tidy;
