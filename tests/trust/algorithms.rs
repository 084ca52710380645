//! Goal: an algorithm belongs to its key, and a signature has one spelling.
//! Method: an agent with a key of each algorithm; their names exchanged and misspelt, the signature's text and bytes
//! changed in each way that a lax reader would take.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use harbor::Settings;
use serde_json::{Value, json};
use synapse::keys::{Algorithm, Jwk, Key};

use crate::support::{
    Agent,
    guarded::{
        Guarded, accepted, bad_signature, guarded, key, message, nothing_came, pair, refusal,
        register,
    },
};

/// Alice with a key of each algorithm, and Bob.
struct Scene {
    keys: [Key; 3],
    alice: Agent,
    bob: Agent,
    _guarded: Guarded,
}

impl Scene {
    async fn new() -> Scene {
        let keys = Algorithm::ALL.map(|algorithm| key("alice", algorithm));
        let bob_key = key("bob", Algorithm::Ed25519);
        let all = [&keys[0], &keys[1], &keys[2], &bob_key];
        let guarded = guarded(&all, Settings::default()).await;
        let url = guarded.harbor.url();
        Scene {
            alice: register(&url, &keys[0]).await,
            bob: register(&url, &bob_key).await,
            keys,
            _guarded: guarded,
        }
    }

    fn message(&self, key: &Key) -> Value {
        let members = json!({"receiver": {"agent_id": "bob"}, "payload": "as signed"});
        message(&self.alice, key, members)
    }

    async fn refuses(&mut self, frame: &Value, want: (String, String)) {
        let told = refusal(&mut self.alice, frame).await;
        assert_eq!(told, want, "{frame}");
        nothing_came(&mut self.alice, &self.keys[1], &mut [&mut self.bob]).await;
    }

    async fn delivers(&mut self, frame: &Value) {
        accepted(&mut self.alice, frame).await;
        assert_eq!(self.bob.next().await["id"], frame["id"]);
    }
}

#[tokio::test]
async fn each_key_signs_with_its_own_algorithm_only() {
    let mut scene = Scene::new().await;
    for key in scene.keys.clone() {
        let frame = scene.message(&key);
        for other in Algorithm::ALL {
            if other == key.algorithm() {
                continue;
            }
            // The key of that algorithm is there and live, and did not sign this.
            let mut exchanged = frame.clone();
            exchanged["signature_algorithm"] = other.wire().into();
            scene.refuses(&exchanged, bad_signature()).await;
        }
        scene.delivers(&frame).await;
    }
}

#[tokio::test]
async fn an_algorithm_has_one_name() {
    let mut scene = Scene::new().await;
    let unknown = || pair("bad_signature", "signature_algorithm");
    let missing = || pair("missing_field", "signature_algorithm");
    let invalid = || pair("invalid_field", "signature_algorithm");
    for key in scene.keys.clone() {
        let frame = scene.message(&key);
        let name = key.algorithm().wire();
        let mut cases: Vec<(Value, _)> = [
            name.to_lowercase(),
            name.to_uppercase() + " ",
            format!(" {name}"),
            format!("{name},none"),
            name.replace('-', "_"),
            name.replace('-', "\u{2010}"),
            name.replace("HMAC-", "hmac-").replace("Ed", "ED"),
        ]
        .into_iter()
        .filter(|other| other != name)
        .map(|other| (other.into(), unknown()))
        .collect();
        for other in [
            "none",
            "None",
            "NONE",
            "HS256",
            "HS512",
            "HS384",
            "EdDSA",
            "HMAC-SHA1",
            "HMAC-SHA384",
            "HMAC-SHA3-256",
            "SHA256",
            "Ed448",
            "RS256",
            "ES256",
            "dir",
            "null",
        ] {
            cases.push((other.into(), unknown()));
        }
        cases.push(("".into(), missing()));
        cases.push((Value::Null, missing()));
        for other in [
            json!(0),
            json!(true),
            json!([name]),
            json!({"name": name}),
            json!(format!("{name}\n")),
            json!(format!("{name}\0")),
        ] {
            cases.push((other, invalid()));
        }
        for (other, want) in cases {
            let mut named = frame.clone();
            named["signature_algorithm"] = other;
            scene.refuses(&named, want).await;
        }
        scene.delivers(&frame).await;
    }
}

/// The signature's text with one bit changed that is in no byte of it: a lax decoder passes over it.
fn other_last_character(signature: &str) -> String {
    const BASIC: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (rest, last) = signature.split_at(signature.len() - 1);
    let at = BASIC
        .iter()
        .position(|basic| *basic == last.as_bytes()[0])
        .unwrap();
    format!("{rest}{}", char::from(BASIC[at ^ 1]))
}

#[tokio::test]
async fn a_signature_has_one_spelling() {
    let mut scene = Scene::new().await;
    let missing = || pair("missing_field", "signature");
    let invalid = || pair("invalid_field", "signature");
    for key in scene.keys.clone() {
        // One that the two alphabets spell differently.
        let (frame, signature) = loop {
            let frame = scene.message(&key);
            let signature = frame["signature"].as_str().unwrap().to_owned();
            if signature.contains(['-', '_']) {
                break (frame, signature);
            }
        };
        let bytes = URL_SAFE_NO_PAD.decode(&signature).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut cases: Vec<(Value, _)> = [
            URL_SAFE.encode(&bytes),
            STANDARD_NO_PAD.encode(&bytes),
            other_last_character(&signature),
            format!("{signature}="),
            format!("{signature}\n"),
            format!(" {signature}"),
            format!("{signature}A"),
            format!("{}.{}", &signature[..8], &signature[8..]),
            signature.to_lowercase(),
            hex,
            encode(&bytes[..bytes.len() - 1]),
            encode(&bytes[..16]),
            encode(&bytes[..1]),
            encode(&[&bytes[..], &[0]].concat()),
            encode(&[&bytes[..], &bytes[..]].concat()),
            encode(&vec![0; bytes.len()]),
            encode(&vec![0xff; bytes.len()]),
            "=".to_owned(),
            "null".to_owned(),
        ]
        .into_iter()
        .map(|other| (other.into(), bad_signature()))
        .collect();
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            cases.push((encode(&flipped).into(), bad_signature()));
        }
        cases.push(("".into(), missing()));
        cases.push((Value::Null, missing()));
        for other in [json!(0), json!([signature]), json!({}), json!(false)] {
            cases.push((other, invalid()));
        }
        for (other, want) in cases {
            assert_ne!(other, frame["signature"]);
            let mut spelled = frame.clone();
            spelled["signature"] = other;
            scene.refuses(&spelled, want).await;
        }
        scene.delivers(&frame).await;
    }
}

/// T61. With S + L for S, where L is the order of the group, the equation holds as well (RFC 8032 section 5.1.7).
#[tokio::test]
async fn an_ed25519_signature_is_not_malleable() {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut scene = Scene::new().await;
    let frame = scene.message(&scene.keys[2].clone());
    let mut signature = URL_SAFE_NO_PAD
        .decode(frame["signature"].as_str().unwrap())
        .unwrap();
    for _ in 0..7 {
        let mut carry = 0;
        for (byte, add) in signature[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(add) + carry;
            *byte = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert_eq!(carry, 0);
        let mut malleable = frame.clone();
        malleable["signature"] = URL_SAFE_NO_PAD.encode(&signature).into();
        scene.refuses(&malleable, bad_signature()).await;
    }
    scene.delivers(&frame).await;
}

/// A public key is no HMAC secret: the classic confusion.
#[tokio::test]
async fn a_public_key_is_no_secret() {
    let mut scene = Scene::new().await;
    let public = Jwk::from(&scene.keys[2].public().unwrap()).x;
    let bytes = URL_SAFE_NO_PAD.decode(&public).unwrap();
    let twice = [&bytes[..], &bytes[..]].concat();
    for (algorithm, secret) in [
        (Algorithm::HmacSha256, &bytes[..]),
        (Algorithm::HmacSha512, &twice),
        (Algorithm::HmacSha256, public.as_bytes()),
    ] {
        let forged = Key::from_secret("x", "alice", algorithm, secret).unwrap();
        let frame = scene.message(&forged);
        scene.refuses(&frame, bad_signature()).await;
    }
    let mut unsigned = scene.message(&scene.keys[0].clone());
    unsigned.as_object_mut().unwrap().remove("signature");
    scene
        .refuses(&unsigned, pair("missing_field", "signature"))
        .await;
    unsigned
        .as_object_mut()
        .unwrap()
        .remove("signature_algorithm");
    scene
        .refuses(&unsigned, pair("missing_field", "signature"))
        .await;
}
