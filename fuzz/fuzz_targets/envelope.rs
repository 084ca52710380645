//! Feeds arbitrary bytes to the decoder; what it must hold is in `tests/support/invariants.rs`.
//!
//! `cargo +nightly fuzz run envelope target/fuzz-corpus fuzz/corpus/envelope`, from the root of the
//! repository, adds what it finds to the first folder and leaves the committed seeds alone.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/invariants.rs"]
mod invariants;

fuzz_target!(|bytes: &[u8]| {
    let _ = invariants::check(bytes);
});
