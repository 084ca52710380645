//! Goal: what Python, Node and Go sign by libraries of their own is taken, and they take what we sign.
//! Method: the frozen signatures are checked by each; then each registers signed with a real Harbor
//! that requires it, and exchanges signed messages with a Rust client.

use std::{fs, process::Command};

use harbor::Settings;
use serde_json::{Value, json};
use synapse::{
    Envelope,
    client::{Client, Options},
    keys::{Algorithm, Key, Keyring},
    signature,
};

use crate::{
    foreign_clients::{LANGUAGES, Language, python, run, tests},
    support::{
        guarded::{guarded, key, ring_of},
        soon,
    },
};

/// What a program prints after registering, sending and verifying.
const STEPS: [&str; 3] = ["ok   registered", "ok   sent", "ok   verified"];

#[test]
fn every_language_verifies_the_frozen_signatures() {
    let file = tests().join("vectors/signatures.json");
    let vectors: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let want: Vec<String> = vectors["signed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("ok   {}", entry["name"].as_str().unwrap()))
        .collect();
    for language in LANGUAGES {
        let Some(mut program) = language.program("signing") else {
            continue;
        };
        program.arg("--vectors").arg(&file);
        let printed = run(program, &format!("{language:?}"));
        assert_eq!(printed.lines().collect::<Vec<_>>(), want, "{language:?}");
    }
}

#[test]
fn the_frozen_signatures_are_made_again_byte_for_byte() {
    let made = run(python("make_vectors.py"), "make_vectors.py");
    let frozen = fs::read_to_string(tests().join("vectors/signatures.json")).unwrap();
    assert!(made == frozen, "make_vectors.py makes another file");
}

/// A program as agent "afar" and a Rust client as agent "rust", each with a key of its own.
async fn exchange(language: Language, afar: Algorithm, rust: Algorithm, answer: Value) {
    let Some(program) = language.program("signing") else {
        return;
    };
    let (afar, rust) = (key("afar", afar), key("rust", rust));
    let guarded = guarded(&[&afar, &rust], Settings::default()).await;
    let options = Options::new(guarded.harbor.url(), "rust").key(rust.clone());
    let client = Client::connect(options).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    // The other side needs no more of our key than verifies.
    let ours = rust.public().unwrap_or(rust);
    ring_of(&[&afar, &ours]).write(&file).unwrap();
    let url = guarded.harbor.url();
    let mut played = tokio::task::spawn_blocking(move || play(program, &url, &file));

    let got = tokio::select! {
        got = soon("the message from afar", client.next()) => got.unwrap(),
        printed = &mut played => panic!("{language:?} ended: {printed:?}"),
    };
    is_verified(&got, &afar);
    let answer = Envelope::new("greeting").payload_of(&answer).unwrap();
    assert_eq!(client.reply(&got, answer).await.unwrap().recipients, 1);
    let printed = played.await.unwrap();
    assert_eq!(printed.lines().collect::<Vec<_>>(), STEPS, "{language:?}");
    client.close().await;
    guarded.harbor.is_empty().await;
}

fn play(mut program: Command, url: &str, keys: &std::path::Path) -> String {
    program.arg(url).arg(keys).args(["afar", "rust"]);
    run(program, "the signer")
}

/// Harbor names the key, and this side finds the same one; and none for another message.
fn is_verified(got: &Envelope<'_>, key: &Key) {
    let mark: Value = serde_json::from_str(got.harbor.as_ref().unwrap().get()).unwrap();
    assert_eq!(mark, json!({"verified": key.kid}));
    let mut ring = Keyring::default();
    ring.add(key.clone()).unwrap();
    let now = jiff::Timestamp::now();
    let frame = got.to_json();
    let found = signature::verify(got, &frame, ring.of("afar"), now).unwrap();
    assert_eq!(found.kid, key.kid);
    let other = frame.replace("greeting", "parting");
    assert_ne!(other, frame);
    assert!(signature::verify(got, &other, ring.of("afar"), now).is_err());
}

/// An answer with all that makes the canonical form hard.
fn hard() -> Value {
    json!({"\u{e000}": [1e21, 1e-7, 0.1, -0.0, 5e-324, 10.0], "😀": "\u{2028}\u{1f}\u{fffd}e\u{301}", "": {"b": null, "a": []}})
}

#[tokio::test]
async fn python_signs_with_hmac_sha256() {
    exchange(
        Language::Python,
        Algorithm::HmacSha256,
        Algorithm::Ed25519,
        hard(),
    )
    .await;
}

#[tokio::test]
async fn python_signs_with_ed25519() {
    exchange(
        Language::Python,
        Algorithm::Ed25519,
        Algorithm::HmacSha512,
        hard(),
    )
    .await;
}

#[tokio::test]
async fn node_signs_with_ed25519() {
    exchange(
        Language::Node,
        Algorithm::Ed25519,
        Algorithm::HmacSha256,
        hard(),
    )
    .await;
}

/// Go's encoder alone is canonical for texts and integers only.
#[tokio::test]
async fn go_signs_with_hmac_sha512() {
    let answer = json!({"z": [1, -1, 9_007_199_254_740_991_i64], "a": "<é😀\"\\\n>", "b": {}});
    exchange(
        Language::Go,
        Algorithm::HmacSha512,
        Algorithm::Ed25519,
        answer,
    )
    .await;
}
