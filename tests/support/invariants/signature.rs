//! What holds for the signature of every frame. Panics where it does not hold.

use serde_json::Value;
use synapse::{
    Code, Envelope,
    canonical::SigningInput,
    envelope::splice_harbor,
    keys::{Algorithm, Key},
    signature,
};

/// Verifies a frame with a key of each algorithm whose secret is the byte 7 over and over, and signs
/// it anew: `ok`, the code of the refusal, or `bytes` for what is not UTF-8.
///
/// # Panics
///
/// When a signature is taken that the key did not make, or not taken that it made.
pub fn check(bytes: &[u8]) -> &'static str {
    let Ok(frame) = std::str::from_utf8(bytes) else {
        return "bytes";
    };
    let envelope = match Envelope::decode(frame) {
        Ok(envelope) => envelope,
        Err(refused) => return refused.refusal.code.row().wire,
    };
    let keys = Algorithm::ALL.map(|algorithm| {
        let secret = vec![7; algorithm.secret_bytes()];
        Key::from_secret(algorithm.wire(), "alice", algorithm, &secret).unwrap()
    });
    for key in &keys {
        signs_what_it_verifies(&envelope, key);
    }
    // Another place in memory, so that nothing which decoding saw is used.
    let elsewhere = frame.to_owned();
    let verified = verify(&envelope, frame, &keys);
    let kid = |verified: Result<&Key, Code>| verified.map(|key| key.kid.clone());
    assert_eq!(
        kid(verify(&envelope, &elsewhere, &keys)),
        kid(verified),
        "{frame}"
    );
    match verified {
        Ok(key) => {
            assert_eq!(key.algorithm().wire(), envelope.signature_algorithm);
            let again = key.sign(&SigningInput::of(frame).unwrap());
            assert_eq!(again.as_deref(), Some(&*envelope.signature), "{frame}");
            "ok"
        }
        Err(code) => code.row().wire,
    }
}

fn verify<'k>(envelope: &Envelope<'_>, frame: &str, keys: &'k [Key]) -> Result<&'k Key, Code> {
    let at = jiff::Timestamp::UNIX_EPOCH;
    signature::verify(envelope, frame, keys, at).map_err(|refusal| refusal.code)
}

/// Signed, the envelope is verified as it was written, as Harbor forwards it, and canonical.
fn signs_what_it_verifies(envelope: &Envelope<'_>, key: &Key) {
    let signed = match signature::signed(envelope.clone(), key) {
        Ok(signed) => signed,
        Err(refusal) => {
            let known = [Code::DuplicateKey, Code::UnsafeNumber].contains(&refusal.code);
            return assert!(known, "{refusal}");
        }
    };
    let mut value: Value = serde_json::from_str(&signed).unwrap();
    let canonical = serde_json_canonicalizer::to_string(&value).unwrap();
    for frame in [&splice_harbor(&signed, r#"{"seq":1}"#), &canonical, &signed] {
        // Written anew a number, such as 1e20, may be one that is refused.
        let Ok(envelope) = Envelope::decode(frame) else {
            panic!("{frame} was written and is not read");
        };
        match verify(&envelope, frame, std::slice::from_ref(key)) {
            Ok(_) => {}
            Err(code) => assert!(code == Code::UnsafeNumber && *frame == canonical, "{frame}"),
        }
    }
    value["type"] = "another".into();
    let tampered = value.to_string();
    if envelope.kind != "another"
        && let Ok(envelope) = Envelope::decode(&tampered)
    {
        assert!(verify(&envelope, &tampered, std::slice::from_ref(key)).is_err());
    }
}
