//! Feeds arbitrary bytes to what a signature covers; what must hold is in `tests/support/invariants/canonical.rs`.
//!
//! `cargo +nightly fuzz run canonical target/fuzz-canonical fuzz/corpus/canonical`, from the root of the repository,
//! adds what it finds to the first folder and leaves the committed seeds alone.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/invariants/canonical.rs"]
mod invariants;

fuzz_target!(|bytes: &[u8]| {
    invariants::check(bytes);
});
