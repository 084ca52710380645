//! Goal: what is sealed opens in every implementation, byte for byte, and what is not rightly sealed in none.
//! Method: tests/vectors/sealed.json, sealed by a Python library and opened by another;
//! tests/foreign_sealers.rs has other languages open the same file.

use std::collections::HashSet;

use serde::Deserialize;
use synapse::{Envelope, canonical::SigningInput, keys::Jwk, keys::Keyring, sealed, signature};

#[derive(Deserialize)]
struct Vectors {
    opened: Vec<Opened>,
    shut: Vec<Shut>,
}

#[derive(Deserialize)]
struct Opened {
    name: String,
    key: Jwk,
    envelope: String,
    payload: String,
    signer: Option<Jwk>,
    canonical: Option<String>,
}

#[derive(Deserialize)]
struct Shut {
    name: String,
    key: Jwk,
    envelope: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("sealed.json")).unwrap()
}

/// The payload of a frame, if this key opens it.
fn open(name: &str, frame: &str, key: &Jwk) -> Result<String, sealed::CannotOpen> {
    let mut ring = Keyring::default();
    ring.add_sealing(key.to_sealing_key().unwrap()).unwrap();
    let envelope = Envelope::decode(frame).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
    let opened = sealed::open(&envelope, &ring, jiff::Timestamp::now())?;
    assert_eq!(opened.kid, key.kid, "{name}");
    Ok(opened.payload.get().to_owned())
}

#[test]
fn what_a_library_sealed_opens_byte_for_byte() {
    let Vectors { opened, .. } = vectors();
    let mut signers = HashSet::new();
    for vector in &opened {
        let name = &vector.name;
        let payload = open(name, &vector.envelope, &vector.key);
        assert_eq!(payload.as_ref(), Ok(&vector.payload), "{name}");
        let (Some(signer), Some(canonical)) = (&vector.signer, &vector.canonical) else {
            continue;
        };
        // The signature covers the sealed form.
        let input = SigningInput::of(&vector.envelope).unwrap();
        assert_eq!(input.to_text(), *canonical, "{name}");
        let envelope = Envelope::decode(&vector.envelope).unwrap();
        let signer = [signer.to_key().unwrap()];
        let now = jiff::Timestamp::now();
        signature::verify(&envelope, &vector.envelope, &signer, now).unwrap();
        signers.insert(signer[0].algorithm());
    }
    assert!(opened.len() >= 30, "{}", opened.len());
    assert_eq!(signers.len(), 3, "each algorithm signs some");
}

#[test]
fn what_is_not_rightly_sealed_stays_shut() {
    let Vectors { shut, .. } = vectors();
    for vector in &shut {
        let opened = open(&vector.name, &vector.envelope, &vector.key);
        assert_eq!(opened, Err(sealed::CannotOpen), "{}", vector.name);
    }
    assert!(shut.len() >= 140, "{}", shut.len());
}
