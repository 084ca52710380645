//! Feeds arbitrary bytes to the reader of JSON Web Key Sets; what must hold is in `tests/support/invariants/keyring.rs`.
//!
//! `cargo +nightly fuzz run keyring target/fuzz-keyring fuzz/corpus/keyring`, from the root of the repository,
//! adds what it finds to the first folder and leaves the committed seeds alone.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/invariants/keyring.rs"]
mod invariants;

fuzz_target!(|bytes: &[u8]| {
    invariants::check(bytes);
});
