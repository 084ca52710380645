//! Goal: signatures are those of every other implementation, byte for byte.
//! Method: tests/vectors/signatures.json, made by Python libraries that share no code with this
//! project; tests/foreign_signers.rs has other languages check the same file.

mod published;
mod sealed;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use synapse::{
    Code, Envelope,
    canonical::SigningInput,
    keys::{Algorithm, Jwk, Key},
    refusal::Refusal,
    signature,
};

#[derive(Deserialize)]
struct Vectors {
    signed: Vec<Signed>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
struct Signed {
    name: String,
    envelope: String,
    canonical: String,
    key: Jwk,
    algorithm: String,
    signature: String,
}

#[derive(Deserialize)]
struct Refused {
    name: String,
    envelope: String,
    key: Jwk,
    code: String,
    field: String,
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/signatures.json")
}

fn vectors() -> Vectors {
    serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap()
}

/// What Harbor does with a frame's signature.
fn check(frame: &str, key: &Key) -> Result<(), Refusal> {
    let envelope = Envelope::decode(frame).map_err(|refused| refused.refusal)?;
    let now = jiff::Timestamp::now();
    signature::verify(&envelope, frame, std::slice::from_ref(key), now).map(|_| ())
}

#[test]
fn what_libraries_signed_is_covered_signed_and_verified_alike() {
    let Vectors { signed, .. } = vectors();
    let mut algorithms = HashSet::new();
    let mut disagreements = Vec::new();
    let mut grown_integers = 0;
    for vector in &signed {
        let name = &vector.name;
        let key = vector.key.to_key().unwrap();
        assert_eq!(key.algorithm().wire(), vector.algorithm, "{name}");
        algorithms.insert(key.algorithm());
        let input = match SigningInput::of(&vector.envelope) {
            Ok(input) if input.to_text() == vector.canonical => input,
            other => {
                disagreements.push(format!("{name}: covers {other:?}"));
                continue;
            }
        };
        // What is canonical stays as it is, unless a number written as 1e20 became an integer that
        // is refused when a sender writes it so.
        match SigningInput::of(&vector.canonical) {
            Ok(again) if again.to_text() == vector.canonical => {}
            Err(refusal) if refusal.code == Code::UnsafeNumber => grown_integers += 1,
            other => disagreements.push(format!("{name}: its canonical form: {other:?}")),
        }
        if key.can_sign() {
            assert_eq!(key.sign(&input).unwrap(), vector.signature, "{name}");
        }
        if let Err(refusal) = check(&vector.envelope, &key) {
            disagreements.push(format!("{name}: {refusal:?}"));
        }
        let signature = URL_SAFE_NO_PAD.decode(&vector.signature).unwrap();
        assert!(key.has_signed(&input, &signature), "{name}");
        for at in [0, signature.len() / 2, signature.len() - 1] {
            let mut other = signature.clone();
            other[at] ^= 0x10;
            assert!(!key.has_signed(&input, &other), "{name}: byte {at}");
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    assert_eq!(grown_integers, 5);
    assert_eq!(algorithms.len(), Algorithm::ALL.len());
    assert!(signed.len() >= 100, "{}", signed.len());
}

#[test]
fn what_must_be_refused_is() {
    let Vectors { refused, .. } = vectors();
    let mut disagreements = Vec::new();
    for vector in &refused {
        let found = match check(&vector.envelope, &vector.key.to_key().unwrap()) {
            Ok(()) => "accepted".to_owned(),
            Err(refusal) => format!(
                "{} at {}",
                refusal.code.row().wire,
                refusal.field.as_deref().unwrap_or_default()
            ),
        };
        if found != format!("{} at {}", vector.code, vector.field) {
            disagreements.push(format!(
                "{}: {found}, not {} at {}",
                vector.name, vector.code, vector.field
            ));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    assert!(refused.len() >= 70, "{}", refused.len());
}
