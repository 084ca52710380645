//! Goal: the cryptography beneath signatures and seals is that of the RFCs, value for value.
//! Method: tests/vectors/published.json, the values that they print, each with its section; computed by the crates
//! this project uses, by the library itself where its interface reaches, and by Python.

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, Signer as _, SigningKey};
use hmac::{Hmac, Mac as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha512};
use synapse::{
    Code, Envelope,
    canonical::SigningInput,
    keys::{Algorithm, Jwk, Key},
};

use crate::foreign_clients::{python, run, tests};

fn published(kind: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("published.json")).unwrap();
    all[kind].clone()
}

fn list(kind: &str) -> Vec<Value> {
    published(kind).as_array().unwrap().clone()
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap()
}

/// Bytes in hexadecimal.
fn hex(value: &Value, member: &str) -> Vec<u8> {
    let digits = text(value, member).as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn base64url(value: &Value, member: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text(value, member)).unwrap()
}

/// RFC 4231: test case 5 prints the first 16 bytes only.
#[test]
fn hmac_is_that_of_rfc_4231() {
    let cases = list("hmac");
    assert_eq!(cases.len(), 7);
    for case in &cases {
        let (key, data) = (hex(case, "key"), hex(case, "data"));
        let mut short = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        short.update(&data);
        let want = hex(case, "HMAC-SHA256");
        short.verify_truncated_left(&want).unwrap();
        let mut long = Hmac::<Sha512>::new_from_slice(&key).unwrap();
        long.update(&data);
        let want = hex(case, "HMAC-SHA512");
        long.verify_truncated_left(&want).unwrap();
    }
}

#[test]
fn ed25519_is_that_of_rfc_8032() {
    let cases = list("ed25519");
    assert_eq!(cases.len(), 5);
    for case in &cases {
        let section = text(case, "section");
        let signing = SigningKey::from_bytes(&hex(case, "seed").try_into().unwrap());
        let public = signing.verifying_key();
        assert_eq!(public.as_bytes()[..], hex(case, "public"), "{section}");
        let (message, want) = (hex(case, "message"), hex(case, "signature"));
        let signature = signing.sign(&message);
        assert_eq!(signature.to_bytes()[..], want, "{section}");
        public.verify_strict(&message, &signature).unwrap();
        let longer = [&message[..], &[0]].concat();
        assert!(public.verify_strict(&longer, &signature).is_err());
        // And the library takes these keys.
        let key = Key::from_secret("k", "a", Algorithm::Ed25519, &hex(case, "seed")).unwrap();
        let x = Jwk::from(&key.public().unwrap()).x;
        assert_eq!(x, URL_SAFE_NO_PAD.encode(hex(case, "public")), "{section}");
    }
}

/// RFC 8037 appendices A.1 to A.3. Thumbprints (RFC 7638) are not used, but are made of the canonical form.
#[test]
fn keys_are_those_of_rfc_8037() {
    let vector = published("jwk");
    let ours = |member: &str| {
        let mut jwk: Jwk = serde_json::from_value(vector[member].clone()).unwrap();
        jwk.kid = "k".to_owned();
        jwk.agent_id = "a".to_owned();
        jwk.alg = "EdDSA".to_owned();
        jwk.to_key().unwrap()
    };
    let (private, public) = (ours("private"), ours("public"));
    assert!(private.can_sign() && !public.can_sign());
    assert!(private.public().unwrap().is_same_as(&public));
    let public = vector["public"].to_string();
    let input = SigningInput::of(&public).unwrap();
    assert_eq!(input.to_text(), text(&vector, "thumbprint_input"));
    let thumbprint = URL_SAFE_NO_PAD.encode(Sha256::digest(input.to_text()));
    assert_eq!(thumbprint, text(&vector, "thumbprint"));
}

/// RFC 7515 appendix A.1, RFC 8037 appendices A.4 and A.5.
#[test]
fn signatures_are_those_of_rfc_7515_and_rfc_8037() {
    let cases = list("jws");
    assert_eq!(cases.len(), 2);
    let [hmac, ed25519] = [&cases[0], &cases[1]];
    let mut mac = Hmac::<Sha256>::new_from_slice(&base64url(&hmac["key"], "k")).unwrap();
    mac.update(text(hmac, "input").as_bytes());
    mac.verify_slice(&base64url(hmac, "signature")).unwrap();
    let seed = base64url(&ed25519["key"], "d").try_into().unwrap();
    let (public, input) = (
        SigningKey::from_bytes(&seed).verifying_key(),
        text(ed25519, "input"),
    );
    let signature = Signature::from_slice(&base64url(ed25519, "signature")).unwrap();
    public.verify_strict(input.as_bytes(), &signature).unwrap();
}

/// RFC 7516 appendix A.1, whose content is encrypted as every sealed payload is.
#[test]
fn a256gcm_is_that_of_rfc_7516() {
    for case in list("a256gcm") {
        let cipher = Aes256Gcm::new_from_slice(&base64url(&case, "key")).unwrap();
        let iv: [u8; 12] = base64url(&case, "iv").try_into().unwrap();
        let sealed = [base64url(&case, "ciphertext"), base64url(&case, "tag")].concat();
        let payload = |msg| Payload {
            msg,
            aad: text(&case, "protected").as_bytes(),
        };
        let plaintext = text(&case, "plaintext").as_bytes();
        let nonce = Nonce::from(iv);
        assert_eq!(cipher.encrypt(&nonce, payload(plaintext)).unwrap(), sealed);
        assert_eq!(cipher.decrypt(&nonce, payload(&sealed)).unwrap(), plaintext);
    }
}

/// RFC 8785 appendix B, in full.
#[test]
fn numbers_are_those_of_rfc_8785() {
    let values = published("numbers")["values"].as_array().unwrap().clone();
    assert_eq!(values.len(), 26);
    for value in &values {
        let bits = u64::from_str_radix(text(value, "ieee754"), 16).unwrap();
        let number = f64::from_bits(bits);
        let Some(want) = value["json"].as_str() else {
            // NaN and infinity: JSON has no spelling for them, so they stop at decoding.
            let frame = |payload: f64| {
                format!(
                    r#"{{"id":"m","version":"1.0.0","type":"t","sender":{{"agent_id":"a"}},"payload":{payload},"timestamp":"2026-01-01T00:00:00Z"}}"#
                )
            };
            assert!(Envelope::decode(&frame(1.5)).is_ok() && !number.is_finite());
            assert!(Envelope::decode(&frame(number)).is_err(), "{number}");
            continue;
        };
        assert_eq!(want.parse::<f64>().unwrap(), number);
        // Integers with an exponent, as one beyond 2^53 - 1 is refused when it is written as one.
        let spelled = match want.parse::<i128>() {
            Ok(_) => format!("{number:e}"),
            Err(_) => want.to_owned(),
        };
        let input = format!(r#"{{"n":{spelled}}}"#);
        let covered = SigningInput::of(&input).unwrap().to_text();
        assert_eq!(covered, format!(r#"{{"n":{want}}}"#), "{bits:016x}");
    }
}

/// The last of appendix B lies in the middle of two spellings that are as short. The RFC takes the even one, and the
/// other, which would get the same signature, is refused.
#[test]
fn of_two_spellings_of_a_number_one_is_signed() {
    let covers = |number: &str| SigningInput::of(&format!(r#"{{"n":{number}}}"#)).is_ok();
    assert!(covers("1424953923781206.2") && !covers("1424953923781206.3"));
}

/// RFC 8785 sections 3.2.2 to 3.2.4. One number of the sample has more digits than a double keeps. Readers that keep
/// them differ, so it is refused; with as many as a double keeps the covered bytes are those of the RFC.
#[test]
fn the_canonical_form_is_that_of_rfc_8785() {
    for case in list("canonical") {
        let mut input = text(&case, "input").to_owned();
        if let Err(refusal) = SigningInput::of(&input) {
            assert_eq!(refusal.code, Code::UnsafeNumber);
            input = input.replace("333333333.33333329", "333333333.3333333");
        }
        let covered = SigningInput::of(&input).unwrap().to_text();
        assert_eq!(covered.as_bytes(), hex(&case, "utf8"), "{case}");
    }
}

#[test]
fn python_computes_the_published_values_too() {
    let mut program = python("published.py");
    program.arg(tests().join("vectors/published.json"));
    let printed = run(program, "published.py");
    assert_eq!(
        printed.lines().count(),
        7 + 5 + 1 + 2 + 1 + 26 + 2,
        "{printed}"
    );
}
