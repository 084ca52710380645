//! What holds whatever the bytes are, a file per reader of what strangers wrote. The fuzzer calls each
//! `check` (`fuzz/`), and so does the replay of its corpus (`tests/fuzz_corpus.rs`). It panics where a
//! promise is broken, and else says in a word what became of the bytes.

pub mod canonical;
pub mod envelope;
pub mod keyring;
pub mod sealed;
pub mod signature;

/// A check, under the name of its target and of the folder with its corpus.
pub type Target = (&'static str, fn(&[u8]) -> &'static str);

/// All of them.
pub const TARGETS: [Target; 5] = [
    ("canonical", canonical::check),
    ("envelope", envelope::check),
    ("keyring", keyring::check),
    ("sealed", sealed::check),
    ("signature", signature::check),
];
