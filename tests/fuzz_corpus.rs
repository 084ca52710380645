//! Goal: what the fuzzer once found interesting stays right, and its targets hold without the fuzzer.
//! Method: every seed of each corpus through the same check as in `fuzz/`; the names say what becomes
//! of each. Then bytes by chance, and seeds cut up, mixed and changed by chance.

use std::{collections::BTreeSet, fs, path::Path};

use proptest::{prelude::*, test_runner::TestRunner};
use synapse::Code;

use crate::support::invariants::TARGETS;

/// The seeds of a target: a name and the bytes of each, sorted by name.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let entries = fs::read_dir(corpus.join(target)).unwrap();
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read(&path).unwrap())
    };
    let mut seeds: Vec<_> = entries.map(read).collect();
    seeds.sort();
    seeds
}

/// Seeds are named after what becomes of them: the word that the check gives, a hyphen, why.
#[test]
fn every_seed_of_each_corpus_holds_the_invariants() {
    for (target, check) in TARGETS {
        let mut words = BTreeSet::new();
        let seeds = seeds(target);
        for (name, bytes) in &seeds {
            let word = check(bytes);
            assert_eq!(name.split('-').next(), Some(word), "{target}/{name}");
            words.insert(word);
        }
        let code = |code: Code| code.row().wire;
        let (least, wanted) = match target {
            "envelope" => (
                30,
                vec![
                    code(Code::Malformed),
                    code(Code::TooDeep),
                    code(Code::InvalidUnicode),
                    code(Code::DuplicateKey),
                    code(Code::MissingField),
                    code(Code::InvalidField),
                    code(Code::UnsupportedVersion),
                ],
            ),
            "keyring" => (10, vec!["set", "duplicate", "k", "x", "alg", "not_before"]),
            "sealed" => (6, vec!["closed"]),
            _ => (10, vec![code(Code::DuplicateKey), code(Code::UnsafeNumber)]),
        };
        assert!(seeds.len() >= least, "{target} has {} seeds", seeds.len());
        for word in wanted.into_iter().chain(["ok", "bytes"]) {
            assert!(words.contains(word), "{target} has no seed for {word}");
        }
    }
}

/// What a JSON text is made of, and what once broke a reader.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    " ",
    "\n",
    "null",
    "true",
    "-0",
    "1e21",
    "1.0",
    "9007199254740993",
    "\"a\":",
    "\"harbor\":{},",
    "\"signature\":\"\",",
    "\\u0061",
    "\\ud83d",
    "\u{e000}",
    "\u{1f600}",
    "\0",
];

/// One change of some bytes: what is done, where, and with what.
type Change = (u8, usize, usize, usize);

fn changed(bytes: &mut Vec<u8>, (what, at, length, other): Change, seeds: &[(String, Vec<u8>)]) {
    let at = at % (bytes.len() + 1);
    let end = (at + length % 24).min(bytes.len());
    match what {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (other % 8);
            }
        }
        1 => drop(bytes.drain(at..end)),
        2 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        3 => drop(bytes.splice(at..at, PIECES[other % PIECES.len()].bytes())),
        4 => drop(bytes.splice(at..end, PIECES[other % PIECES.len()].bytes())),
        _ => {
            let (_, from) = &seeds[other % seeds.len()];
            let from = &from[length % (from.len() + 1)..];
            bytes.truncate(at);
            bytes.extend_from_slice(from);
        }
    }
}

#[test]
fn the_invariants_hold_for_bytes_by_chance_and_changed_seeds() {
    for (target, check) in TARGETS {
        let seeds = seeds(target);
        let change = (0_u8..6, any::<usize>(), any::<usize>(), any::<usize>());
        let strategy = (
            prop::option::weighted(0.9, 0..seeds.len()),
            prop::collection::vec(change, 1..6),
            prop::collection::vec(any::<u8>(), 0..64),
        );
        let run = |(seed, changes, noise): (Option<usize>, Vec<Change>, Vec<u8>)| {
            let mut bytes = seed.map_or(noise, |seed| seeds[seed].1.clone());
            for change in changes {
                changed(&mut bytes, change, &seeds);
            }
            check(&bytes);
            Ok(())
        };
        if let Err(failure) = TestRunner::default().run(&strategy, run) {
            panic!("{target}: {failure}");
        }
    }
}
