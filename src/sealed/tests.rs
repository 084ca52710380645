//! Goal: a sealed payload opens for who holds the key, in its own envelope, unaltered; else never.
//! Method: every bit of one flipped, every field it is bound to changed, every member of it touched.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::*;
use crate::{
    envelope::Endpoint,
    keys::{Algorithm, Key, SEALS_MAX},
};

type Change<'c> = &'c dyn Fn(&mut Envelope<'static>);

fn now() -> jiff::Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

fn message() -> Envelope<'static> {
    let payload = RawValue::from_string(r#"{ "b": 1.50, "a": "é" }"#.to_owned()).unwrap();
    let mut message = Envelope::new("note").to("bob").payload(payload);
    message.id = "m-1".into();
    message.sender = Endpoint::new("alice");
    message
}

fn ring(keys: &[&SealingKey]) -> Keyring {
    let mut ring = Keyring::default();
    for key in keys {
        ring.add_sealing((*key).clone()).unwrap();
    }
    ring
}

fn key() -> SealingKey {
    SealingKey::from_secret("bob-1", "bob", &[7; 32]).unwrap()
}

fn with_payload(envelope: &Envelope<'static>, payload: &str) -> Option<Envelope<'static>> {
    let payload = RawValue::from_string(payload.to_owned()).ok()?;
    Some(envelope.clone().payload(payload))
}

fn opens(envelope: &Envelope<'_>) -> bool {
    open(envelope, &ring(&[&key()]), now()).is_ok()
}

#[test]
fn what_was_sealed_opens_byte_for_byte_and_never_looks_the_same() {
    let (one, other) = (
        seal(message(), &key(), now()).unwrap(),
        seal(message(), &key(), now()).unwrap(),
    );
    assert!(one.encrypt);
    let frame = one.to_json();
    let read = Envelope::decode(&frame).unwrap();
    let opened = open(&read, &ring(&[&key()]), now()).unwrap();
    assert_eq!(opened.payload.get(), message().payload.get());
    assert_eq!(opened.kid, "bob-1");
    let member = |envelope: &Envelope<'_>, name: &str| {
        serde_json::from_str::<Value>(envelope.payload.get()).unwrap()[name].clone()
    };
    for name in ["iv", "ciphertext", "tag"] {
        assert_ne!(member(&one, name), member(&other, name), "{name}");
    }
}

#[test]
fn its_form_is_that_of_the_rfc() {
    let sealed = seal(message(), &key(), now()).unwrap();
    let jwe: Value = serde_json::from_str(sealed.payload.get()).unwrap();
    let mut members: Vec<_> = jwe.as_object().unwrap().keys().cloned().collect();
    members.sort();
    assert_eq!(members, ["ciphertext", "iv", "protected", "tag"]);
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(jwe[name].as_str().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&bytes("protected")).unwrap();
    assert_eq!(
        header,
        json!({"alg": "dir", "enc": "A256GCM", "kid": "bob-1", "iss": "alice", "aud": "bob",
            "jti": "m-1"})
    );
    assert_eq!((bytes("iv").len(), bytes("tag").len()), (12, 16));
    assert_eq!(bytes("ciphertext").len(), message().payload.get().len());
}

#[test]
fn no_flipped_bit_opens() {
    let sealed = seal(message(), &key(), now()).unwrap();
    let jwe: Value = serde_json::from_str(sealed.payload.get()).unwrap();
    let mut tried = 0;
    for name in ["protected", "iv", "ciphertext", "tag"] {
        let bytes = URL_SAFE_NO_PAD.decode(jwe[name].as_str().unwrap()).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut jwe = jwe.clone();
            jwe[name] = URL_SAFE_NO_PAD.encode(flipped).into();
            let envelope = with_payload(&sealed, &jwe.to_string()).unwrap();
            assert!(!opens(&envelope), "bit {bit} of {name}");
            tried += 1;
        }
    }
    assert!(tried > 800, "{tried}");
    // The same of the text, its braces, names and quotes included.
    let text = sealed.payload.get().as_bytes();
    for bit in 0..8 * text.len() {
        let mut flipped = text.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let envelope = String::from_utf8(flipped)
            .ok()
            .and_then(|text| with_payload(&sealed, &text));
        assert!(
            envelope.is_none_or(|envelope| !opens(&envelope)),
            "bit {bit}"
        );
    }
    assert!(opens(&sealed));
}

#[test]
fn moved_to_another_envelope_it_does_not_open() {
    let sealed = seal(message(), &key(), now()).unwrap();
    let to_group = seal(message_to_group(), &key(), now()).unwrap();
    assert!(opens(&sealed) && opens(&to_group));
    let moves: [(&str, Change<'_>); 6] = [
        ("id", &|envelope| envelope.id = "m-2".into()),
        ("sender", &|envelope| envelope.sender = Endpoint::new("eve")),
        ("receiver", &|envelope| {
            envelope.receiver = Some(Endpoint::new("eve"))
        }),
        ("no address", &|envelope| {
            envelope.receiver = None;
            envelope.group_id = "".into();
        }),
        ("another group", &|envelope| {
            envelope.group_id = "other".into()
        }),
        ("encrypt", &|envelope| envelope.encrypt = false),
    ];
    for (what, change) in moves {
        for original in [&sealed, &to_group] {
            let mut moved = original.clone();
            change(&mut moved);
            assert!(!opens(&moved), "{what}");
        }
    }
    // Swapped between two messages of one sender to one receiver.
    let mut other = message();
    other.id = "m-2".into();
    let other = seal(other, &key(), now()).unwrap();
    assert!(!opens(&with_payload(&other, sealed.payload.get()).unwrap()));
}

fn message_to_group() -> Envelope<'static> {
    let mut message = message().to_group("crew");
    message.receiver = None;
    message
}

#[test]
fn whatever_is_wrong_the_answer_is_one() {
    let sealed = seal(message(), &key(), now()).unwrap();
    let wrong = SealingKey::from_secret("bob-1", "bob", &[8; 32]).unwrap();
    let mut ended = key();
    ended.not_after = Some(now());
    for keys in [ring(&[]), ring(&[&wrong]), ring(&[&ended])] {
        let error = open(&sealed, &keys, now()).unwrap_err();
        assert_eq!(
            format!("{error} {error:?}"),
            "the payload cannot be opened CannotOpen"
        );
    }
    let jwe: Value = serde_json::from_str(sealed.payload.get()).unwrap();
    let with = |name: &str, value: Value| {
        let mut jwe = jwe.clone();
        jwe[name] = value;
        jwe
    };
    let padded = format!("{}=", jwe["tag"].as_str().unwrap());
    for jwe in [
        with("encrypted_key", "AAAA".into()),
        with("encrypted_key", Value::Null),
        with("header", json!({"kid": "bob-1"})),
        with("unprotected", json!({})),
        with("aad", "".into()),
        with("tag", padded.into()),
        with("tag", jwe["tag"].as_str().unwrap()[..16].into()),
        with("iv", "".into()),
        json!([
            jwe["protected"],
            "",
            jwe["iv"],
            jwe["ciphertext"],
            jwe["tag"]
        ]),
        json!("sealed"),
        Value::Null,
    ] {
        let envelope = with_payload(&sealed, &jwe.to_string()).unwrap();
        assert!(!opens(&envelope), "{jwe}");
    }
    let empty = with("encrypted_key", "".into()).to_string();
    assert!(opens(&with_payload(&sealed, &empty).unwrap()));
}

#[test]
fn what_cannot_be_sealed_is_said() {
    let seal = |envelope| super::seal(envelope, &key(), now());
    let with = |change: &dyn Fn(&mut Envelope<'static>)| {
        let mut envelope = message();
        change(&mut envelope);
        envelope
    };
    let no_id = with(&|envelope| envelope.id = "".into());
    assert!(matches!(seal(no_id), Err(SealError::Missing("id"))));
    let nobodys = with(&|envelope| envelope.sender = Endpoint::default());
    assert!(matches!(
        seal(nobodys),
        Err(SealError::Missing("sender.agent_id"))
    ));
    let addresses: [Change<'_>; 3] = [
        &|envelope| envelope.group_id = "crew".into(),
        &|envelope| envelope.receiver = None,
        &|envelope| {
            envelope.receiver = None;
            envelope.broadcast = true;
        },
    ];
    for change in addresses {
        assert!(matches!(seal(with(change)), Err(SealError::Destination)));
    }
    let twice = seal(message()).unwrap();
    assert!(matches!(seal(twice), Err(SealError::Already)));
    let lone = with_payload(&message(), r#""\ud800""#).unwrap();
    assert!(matches!(seal(lone), Err(SealError::Payload(_))));
    let mut late = key();
    late.not_after = Some(now());
    let refused = super::seal(message(), &late, now());
    assert!(matches!(refused, Err(SealError::NotLive(kid)) if kid == "bob-1"));
    let worn = key();
    worn.set_seals(SEALS_MAX - 1);
    super::seal(message(), &worn, now()).unwrap();
    let refused = super::seal(message(), &worn.clone(), now());
    assert!(matches!(refused, Err(SealError::Exhausted(_))));
}

#[test]
fn a_key_goes_on_counting_when_its_file_is_read_again() {
    let (worn, fresh) = (key(), ring(&[&key()]));
    worn.set_seals(SEALS_MAX);
    let older = ring(&[&worn]);
    let other = SealingKey::from_secret("bob-1", "bob", &[8; 32]).unwrap();
    let other = ring(&[&other]);
    for (ring, is_worn) in [(&fresh, true), (&other, false)] {
        ring.keep_counts(&older);
        let sealed = seal(message(), ring.sealing("bob-1").unwrap(), now());
        assert_eq!(sealed.is_err(), is_worn);
    }
}

#[test]
fn a_worn_key_seals_nothing_for_harbor_either() {
    let harbors = Key::generate("h", "harbor", Algorithm::Ed25519).unwrap();
    let (alices, worn) = (
        key(),
        SealingKey::from_secret("w", "bob", &[9; 32]).unwrap(),
    );
    let frame = seal(message(), &alices, now()).unwrap().to_json();
    let envelope = Envelope::decode(&frame).unwrap();
    let relay = Relay::open(&envelope, &frame, &alices, now()).unwrap();
    worn.set_seals(SEALS_MAX - 1);
    relay.under(&worn, &harbors, now()).unwrap();
    let refused = relay.under(&worn, &harbors, now()).unwrap_err();
    assert!(matches!(refused, RelayError::Seal(SealError::Exhausted(_))));
    let shown = format!("{relay:?} {refused:?}");
    assert!(!shown.contains("1.50") && !shown.contains("é"), "{shown}");
    let public = harbors.public().unwrap();
    assert!(matches!(
        relay.in_the_clear(&public),
        Err(RelayError::Sign(_))
    ));
}

#[test]
fn a_rewritten_file_keeps_the_order_of_keys() {
    let mut keys = Keyring::default();
    for kid in ["z", "a", "m"] {
        let key = SealingKey::from_secret(kid, "bob", &[7; 32]).unwrap();
        keys.add_sealing(key).unwrap();
    }
    let again = Keyring::from_json(&keys.to_json().unwrap()).unwrap();
    assert_eq!(again.newest_sealing("bob", now()).unwrap().kid, "m");
    assert!(keys.remove("m"));
    assert_eq!(keys.newest_sealing("bob", now()).unwrap().kid, "a");
    assert!(keys.newest_sealing("alice", now()).is_none());
}
