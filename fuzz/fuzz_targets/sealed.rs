//! Feeds arbitrary bytes to the opener of sealed payloads; what must hold is in `tests/support/invariants/sealed.rs`.
//!
//! `cargo +nightly fuzz run sealed target/fuzz-sealed fuzz/corpus/sealed`, from the root of the repository,
//! adds what it finds to the first folder and leaves the committed seeds alone.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/invariants/sealed.rs"]
mod invariants;

fuzz_target!(|bytes: &[u8]| {
    invariants::check(bytes);
});
