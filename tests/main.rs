//! The integration tests: one binary, a module per theme, each against a real Harbor on a free
//! port over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]
#![allow(unreachable_pub, reason = "support is public to the themes")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "json! literals read best unborrowed"
)]
#![allow(clippy::too_many_lines, reason = "tables of cases are long")]
#![allow(clippy::print_stdout, reason = "a failing seed has to be told")]

mod support;

mod abuse;
mod bad_tokens;
mod bounds;
mod client_library;
mod command_line;
mod congestion;
mod docs;
mod doors;
mod draining;
mod duplicates;
mod foreign_clients;
mod foreign_sealers;
mod foreign_signers;
mod foreign_tokens;
mod framing;
mod fuzz_corpus;
mod groups;
mod handshake;
mod identity;
mod json;
mod keyring;
mod path;
mod permissions;
mod presence;
mod process;
mod refusals;
mod resealed;
mod sealed;
mod secrets;
mod slow;
mod stress;
mod takeover;
mod tidy;
mod time;
mod tls;
mod token_client;
mod tokens;
mod trust;
mod vectors;
