//! Goal: the verifier takes what the RFCs publish and nothing beside it; a file of keys is read strictly.

use serde_json::{Value, json};

use super::*;

const VECTORS: &str = include_str!("../../../tests/vectors/tokens.json");

fn published() -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    vectors["tokens"].as_array().unwrap().clone()
}

/// The half of a published key that Harbor gets.
fn public(entry: &Value) -> Value {
    let mut jwk = entry["key"].clone();
    jwk.as_object_mut()
        .unwrap()
        .retain(|name, _| ["kty", "crv", "k", "x", "y", "n", "e"].contains(&name.as_str()));
    jwk
}

fn issuers(keys: &[Value]) -> Issuers {
    verifier::install();
    Issuers::from_json(&json!({ "keys": keys }).to_string()).unwrap()
}

fn is_verified(token: &str, key: &IssuerKey) -> bool {
    let header = jsonwebtoken::decode_header(token);
    header.is_ok_and(|header| verified(token, &header, key).is_some())
}

#[test]
fn the_published_examples_verify_and_nothing_else_does() {
    let all = published();
    assert_eq!(all.len(), 4);
    for (at, entry) in all.iter().enumerate() {
        let (name, token) = (&entry["name"], entry["token"].as_str().unwrap());
        let set = issuers(&[public(entry)]);
        assert!(is_verified(token, &set.keys[0]), "{name}");
        for (other, _) in all.iter().enumerate().filter(|(other, _)| *other != at) {
            let other = issuers(&[public(&all[other])]);
            assert!(!is_verified(token, &other.keys[0]), "{name}");
        }
        // Another character anywhere; the last of a part may hold bits that count for nothing.
        for (place, byte) in token.bytes().enumerate() {
            let swapped = if byte == b'A' { 'B' } else { 'A' };
            let mut tampered = token.to_owned();
            tampered.replace_range(place..=place, &swapped.to_string());
            assert!(!is_verified(&tampered, &set.keys[0]), "{name} at {place}");
        }
    }
}

#[test]
fn the_key_has_the_algorithm() {
    for entry in published() {
        let set = issuers(&[public(&entry)]);
        let found = |alg: &str| {
            let algorithm = alg.parse().unwrap();
            set.for_token(algorithm, None, jiff::Timestamp::UNIX_EPOCH)
                .count()
        };
        for alg in [
            "HS256", "HS384", "HS512", "RS256", "PS256", "ES256", "EdDSA",
        ] {
            assert_eq!(found(alg), usize::from(entry["alg"] == alg), "{alg}");
        }
    }
}

/// With one member changed; `null` takes it out.
fn changed(jwk: &Value, member: &str, value: Value) -> Value {
    let mut jwk = jwk.clone();
    jwk[member] = value;
    jwk.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    jwk
}

#[test]
fn a_wrong_key_refuses_the_set_and_is_named_without_its_value() {
    let [secret, rsa, ec, ed] = [0, 1, 2, 3].map(|at| public(&published()[at]));
    let private = |at: usize| changed(&published()[at]["key"], "kid", json!("mine"));
    let short = "A".repeat(342 / 2);
    for (jwk, start) in [
        (
            changed(&secret, "k", json!("c2VjcmV0")),
            "k: a secret of 6 bytes",
        ),
        (
            changed(&secret, "k", json!("not base64!")),
            "k: not base64url",
        ),
        (changed(&secret, "k", Value::Null), "k: a secret of 0 bytes"),
        (
            changed(&rsa, "n", json!(format!("_{short}"))),
            "n: a modulus of",
        ),
        (changed(&rsa, "n", json!("")), "n: a number"),
        (changed(&rsa, "e", json!("AAAA")), "e: a number"),
        (changed(&ec, "x", json!("AAAA")), "x: a coordinate"),
        (changed(&ec, "y", Value::Null), "y: a coordinate"),
        (changed(&ed, "x", json!("AAAA")), "x: "),
        (changed(&ed, "x", json!("A".repeat(43))), "x: "),
        (changed(&ed, "not_after", json!("tomorrow")), "not_after: "),
        (private(1), "d: private"),
        (private(2), "d: private"),
        (private(3), "d: private"),
    ] {
        let text = json!({ "keys": [jwk] }).to_string();
        let problem = Issuers::from_json(&text).unwrap_err().to_string();
        assert!(problem.starts_with(start), "{problem}");
        assert!(!problem.contains("c2VjcmV0") && !problem.contains("Eq5xp"));
    }
    let named = changed(&ed, "kid", json!("one"));
    let twice = json!({ "keys": [named, changed(&ec, "kid", json!("one"))] }).to_string();
    let problem = Issuers::from_json(&twice).unwrap_err();
    assert_eq!(problem.to_string(), "kid \"one\" is given twice");
    for text in ["", "[]", "{}", r#"{"keys": [{"kty": 1}]}"#] {
        assert!(Issuers::from_json(text).is_err(), "{text}");
    }
}

#[test]
fn what_no_token_could_use_is_passed_over() {
    let [secret, rsa, ec, ed] = [0, 1, 2, 3].map(|at| public(&published()[at]));
    let set = issuers(&[
        changed(&rsa, "use", json!("enc")),
        changed(&rsa, "alg", json!("RSA-OAEP")),
        changed(&rsa, "alg", json!("RS512")),
        changed(&ec, "crv", json!("P-384")),
        changed(&ed, "crv", json!("X25519")),
        changed(&secret, "alg", json!("HS512")),
        changed(&ed, "key_ops", json!(["sign"])),
        json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"}),
        changed(&rsa, "alg", json!("RS256")),
    ]);
    assert_eq!((set.keys.len(), set.passed_over), (1, 8));
    assert!(issuers(&[]).keys.is_empty(), "nobody may issue any more");
}

#[test]
fn a_key_is_found_by_its_kid_while_it_lives() {
    let ed = public(&published()[3]);
    let named = changed(&ed, "kid", json!("a"));
    let ended = changed(&named, "not_after", json!("2020-01-01T00:00:00Z"));
    let now = jiff::Timestamp::now();
    let count = |jwk: &Value, kid: Option<&str>| {
        let set = issuers(std::slice::from_ref(jwk));
        let count = set
            .for_token(jsonwebtoken::Algorithm::EdDSA, kid, now)
            .count();
        assert!(count == 0 || set.has_live(&set.keys[0], now));
        count
    };
    assert_eq!((count(&named, Some("a")), count(&named, Some("b"))), (1, 0));
    assert_eq!((count(&named, None), count(&ed, None)), (1, 1));
    assert_eq!((count(&ed, Some("a")), count(&ended, Some("a"))), (0, 0));
    let (one, other) = (issuers(&[named]), issuers(&[ed]));
    assert!(
        !other.has_live(&one.keys[0], now),
        "another kid is another key"
    );
}

#[test]
fn debug_shows_no_secret() {
    let set = issuers(&[public(&published()[0])]);
    let shown = format!("{set:?}");
    assert!(
        shown.contains("HS256") && !shown.contains("35, 53, 75"),
        "{shown}"
    );
}
