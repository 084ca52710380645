//! Goal: what the fuzzer once found interesting stays right, without the fuzzer.
//! Method: every seed of its corpus through the same check; the names say what becomes of each.

use std::{collections::BTreeSet, fs, path::Path};

use synapse::Code;

use crate::support::invariants::check;

/// Seeds are named after what becomes of them: `ok-…`, `CODE-…`, or `bytes-…` when not UTF-8.
#[test]
fn every_seed_of_the_corpus_holds_the_invariants() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/envelope");
    let mut codes = BTreeSet::new();
    let mut seeds = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let outcome = match check(&fs::read(&path).unwrap()) {
            None => "bytes",
            Some(Ok(())) => "ok",
            Some(Err(code)) => code.row().wire,
        };
        assert_eq!(name.split('-').next(), Some(outcome), "{name}");
        codes.insert(outcome);
        seeds += 1;
    }
    assert!(seeds >= 30, "{seeds}");
    for code in [
        Code::Malformed,
        Code::TooDeep,
        Code::InvalidUnicode,
        Code::DuplicateKey,
        Code::MissingField,
        Code::InvalidField,
        Code::UnsupportedVersion,
    ] {
        assert!(codes.contains(code.row().wire), "no seed for {code}");
    }
}
