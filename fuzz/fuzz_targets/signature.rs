//! Feeds arbitrary bytes to the verifier of signatures; what must hold is in `tests/support/invariants/signature.rs`.
//!
//! `cargo +nightly fuzz run signature target/fuzz-signature fuzz/corpus/signature`, from the root of the repository,
//! adds what it finds to the first folder and leaves the committed seeds alone.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/invariants/signature.rs"]
mod invariants;

fuzz_target!(|bytes: &[u8]| {
    invariants::check(bytes);
});
