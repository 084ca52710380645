//! Feeds arbitrary bytes to the decoder; what must hold is in `tests/support/invariants/envelope.rs`.
//!
//! `cargo +nightly fuzz run envelope target/fuzz-envelope fuzz/corpus/envelope`, from the root of the repository,
//! adds what it finds to the first folder and leaves the committed seeds alone.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/invariants/envelope.rs"]
mod invariants;

fuzz_target!(|bytes: &[u8]| {
    invariants::check(bytes);
});
