//! Goal: a signature proves the message, its sender and its key, and has one spelling.
//! Method: each algorithm signs; then keys, algorithms and bytes are exchanged.

use super::*;
use crate::keys::Algorithm;

fn now() -> jiff::Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn message() -> Envelope<'static> {
    let mut envelope = Envelope::new("chat")
        .to("bob")
        .payload_of(&[1.5, 2.0])
        .unwrap();
    envelope.id = "m-1".into();
    envelope.sender = crate::envelope::Endpoint::new("alice");
    envelope
}

fn check(frame: &str, keys: &[&Key]) -> Result<String, (Code, String)> {
    let envelope = Envelope::decode(frame).map_err(|refused| refused.refusal);
    envelope
        .and_then(|envelope| verify(&envelope, frame, keys, now()).map(|key| key.kid.clone()))
        .map_err(|refusal| (refusal.code, refusal.field.unwrap_or_default().into_owned()))
}

fn bad(field: &str) -> Result<String, (Code, String)> {
    Err((Code::BadSignature, field.to_owned()))
}

#[test]
fn each_algorithm_signs_and_only_the_signer_is_found() {
    let keys = Algorithm::ALL.map(|algorithm| {
        let kid = algorithm.wire();
        Key::generate(kid, "alice", algorithm).unwrap()
    });
    let all: Vec<&Key> = keys.iter().collect();
    for key in &keys {
        let frame = signed(message(), key).unwrap();
        assert_eq!(check(&frame, &all), Ok(key.kid.clone()));
        let another = Key::generate("x", "alice", key.algorithm()).unwrap();
        assert_eq!(
            check(&frame, &[&another, key]),
            Ok(key.kid.clone()),
            "rotation"
        );
        assert_eq!(check(&frame, &[&another]), bad("signature"));
        let others: Vec<&Key> = all
            .iter()
            .copied()
            .filter(|other| other.kid != key.kid)
            .collect();
        assert_eq!(check(&frame, &others), bad("signature"));
        // A receiver verifies what Harbor added to, and what was spelled otherwise on the way.
        let spliced = crate::envelope::splice_harbor(&frame, r#"{"seq":1}"#);
        assert_eq!(check(&spliced, &all), Ok(key.kid.clone()));
        let spaced = frame.replace(",\"", " , \"");
        assert_eq!(check(&spaced, &all), Ok(key.kid.clone()));
    }
}

#[test]
fn a_key_that_is_not_live_proves_nothing() {
    let mut key = Key::generate("k", "alice", Algorithm::HmacSha256).unwrap();
    let frame = signed(message(), &key).unwrap();
    key.not_after = Some(now());
    assert_eq!(check(&frame, &[&key]), bad("signature"));
    key.not_after = None;
    key.not_before = Some("2026-03-01T12:00:01Z".parse().unwrap());
    assert_eq!(check(&frame, &[&key]), bad("signature"));
}

#[test]
fn what_stands_in_the_signature_fields_is_matched_exactly() {
    let key = Key::generate("k", "alice", Algorithm::HmacSha256).unwrap();
    let frame = signed(message(), &key).unwrap();
    let signature = Envelope::decode(&frame).unwrap().signature.into_owned();
    for other in [
        format!("{signature}="),
        format!("{signature}A"),
        signature[1..].to_owned(),
        signature.replace(['-', '_'], "+"),
        "!".to_owned(),
    ] {
        if other != signature {
            let tampered = frame.replace(&signature, &other);
            assert_eq!(check(&tampered, &[&key]), bad("signature"), "{other}");
        }
    }
    for (other, field) in [
        ("hmac-sha256", "signature_algorithm"),
        ("none", "signature_algorithm"),
        ("HS256", "signature_algorithm"),
        ("HMAC-SHA512", "signature"),
        ("Ed25519", "signature"),
    ] {
        let tampered = frame.replace("HMAC-SHA256", other);
        assert_eq!(check(&tampered, &[&key]), bad(field), "{other}");
    }
}

#[test]
fn a_key_that_can_only_verify_does_not_sign() {
    let key = Key::generate("k", "alice", Algorithm::Ed25519).unwrap();
    let public = key.public().unwrap();
    assert_eq!(
        signed(message(), &public).unwrap_err().code,
        Code::BadSignature
    );
    let frame = signed(message(), &key).unwrap();
    assert_eq!(check(&frame, &[&public]), Ok("k".to_owned()));
}

/// A signature with S beyond the group order, which lax verifiers take for a second spelling.
#[test]
fn a_signature_has_one_spelling() {
    let key = Key::generate("k", "alice", Algorithm::Ed25519).unwrap();
    let frame = signed(message(), &key).unwrap();
    let envelope = Envelope::decode(&frame).unwrap();
    let input = SigningInput::of(&frame).unwrap();
    let mut signature = URL_SAFE_NO_PAD.decode(&*envelope.signature).unwrap();
    assert!(key.has_signed(&input, &signature));
    // L = 2^252 + 27742317777372353535851937790883648493, little endian.
    let order: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0_u16;
    for (byte, add) in signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    assert!(!key.has_signed(&input, &signature));
}

fn hex(value: &serde_json::Value) -> Vec<u8> {
    let digits = value.as_str().unwrap().as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The published values whose input is text, by the library's own keys; tests/vectors/published.rs
/// has them all.
#[test]
fn keys_sign_as_the_rfcs_print() {
    let published = include_str!("../../tests/vectors/published.json");
    let published: serde_json::Value = serde_json::from_str(published).unwrap();
    let list = |kind: &str| published[kind].as_array().unwrap().iter();
    let mut cases = Vec::new();
    for (algorithm, block) in [(Algorithm::HmacSha256, 64), (Algorithm::HmacSha512, 128)] {
        for case in list("hmac") {
            // Zeros up to the block length make no other key (RFC 2104 section 2), but one long enough.
            let mut secret = hex(&case["key"]);
            secret.resize(secret.len().max(block), 0);
            let signature = hex(&case[algorithm.wire()]);
            cases.push((algorithm, secret, hex(&case["data"]), signature));
        }
    }
    for case in list("ed25519") {
        let [seed, message, signature] =
            ["seed", "message", "signature"].map(|member| hex(&case[member]));
        cases.push((Algorithm::Ed25519, seed, message, signature));
    }
    for (case, (algorithm, secret)) in
        list("jws").zip([(Algorithm::HmacSha256, "k"), (Algorithm::Ed25519, "d")])
    {
        let bytes = |text: &serde_json::Value| URL_SAFE_NO_PAD.decode(text.as_str().unwrap());
        let secret = bytes(&case["key"][secret]).unwrap();
        let input = case["input"].as_str().unwrap().as_bytes().to_vec();
        cases.push((algorithm, secret, input, bytes(&case["signature"]).unwrap()));
    }
    let mut tried = 0;
    for (algorithm, secret, input, signature) in cases {
        let Ok(input) = String::from_utf8(input) else {
            continue;
        };
        let key = Key::from_secret("k", "alice", algorithm, &secret).unwrap();
        let input = SigningInput::of_any(&input);
        let made = URL_SAFE_NO_PAD.decode(key.sign(&input).unwrap()).unwrap();
        // One of them is printed in part.
        assert!(made.starts_with(&signature) && signature.len() >= 16);
        assert!(key.has_signed(&input, &made));
        assert_eq!(key.has_signed(&input, &signature), made == signature);
        tried += 1;
    }
    assert_eq!(tried, 2 * 5 + 2 + 2);
}
