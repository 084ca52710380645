//! Goal: what Python, Node and Go seal and sign by libraries of their own opens everywhere, and they open what we seal.
//! Method: the frozen sealed payloads are opened by each; then each two of them, and each with a Rust client, register
//! signed with a real Harbor that requires it, and exchange signed and sealed messages.

use std::{fs, path::Path, process::Command};

use harbor::Settings;
use serde_json::{Value, json};
use synapse::{
    Envelope,
    client::{Client, Options},
    keys::{Algorithm, Key, Keyring, SealingKey},
};

use crate::{
    foreign_clients::{LANGUAGES, Language, python, run, tests},
    support::{
        guarded::{Guarded, guarded, key},
        soon,
    },
};

/// What a program prints after registering, sending and opening.
const STEPS: [&str; 3] = ["ok   registered", "ok   sent", "ok   opened"];

#[test]
fn every_language_opens_the_frozen_payloads_and_no_other() {
    let file = tests().join("vectors/sealed.json");
    let vectors: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let want: Vec<String> = ["opened", "shut"]
        .iter()
        .flat_map(|kind| vectors[kind].as_array().unwrap())
        .map(|entry| format!("ok   {}", entry["name"].as_str().unwrap()))
        .collect();
    for language in LANGUAGES {
        let Some(mut program) = language.program("sealing") else {
            continue;
        };
        program.arg("--vectors").arg(&file);
        let printed = run(program, &format!("{language:?}"));
        assert_eq!(printed.lines().collect::<Vec<_>>(), want, "{language:?}");
    }
}

#[test]
fn the_frozen_payloads_are_sealed_again_byte_for_byte() {
    let made = run(python("make_sealed_vectors.py"), "make_sealed_vectors.py");
    let frozen = fs::read_to_string(tests().join("vectors/sealed.json")).unwrap();
    assert!(made == frozen, "make_sealed_vectors.py makes another file");
}

/// Two agents, each with a key that signs and one to seal for it, and a Harbor that requires signatures.
struct Pair {
    guarded: Guarded,
    ring: Keyring,
    _folder: tempfile::TempDir,
    file: std::path::PathBuf,
}

impl Pair {
    async fn new(agents: [&str; 2], algorithms: [Algorithm; 2]) -> Pair {
        let keys = [0, 1].map(|at| key(agents[at], algorithms[at]));
        let guarded = guarded(&[&keys[0], &keys[1]], Settings::default()).await;
        let mut ring = Keyring::default();
        for key in keys {
            let sealing = SealingKey::generate(format!("für {}", key.agent_id), &key.agent_id);
            ring.add_sealing(sealing.unwrap()).unwrap();
            ring.add(key).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        ring.write(&file).unwrap();
        Pair {
            guarded,
            ring,
            _folder: folder,
            file,
        }
    }

    fn key(&self, agent: &str) -> &Key {
        &self.ring.of(agent)[0]
    }

    fn play(&self, program: Command, agents: [&str; 2]) -> tokio::task::JoinHandle<String> {
        let url = self.guarded.harbor.url();
        let (file, agents) = (self.file.clone(), agents.map(str::to_owned));
        tokio::task::spawn_blocking(move || play(program, &url, &file, &agents))
    }
}

fn play(mut program: Command, url: &str, keys: &Path, agents: &[String; 2]) -> String {
    program.arg(url).arg(keys).args(agents);
    run(program, "the sealer")
}

/// What every agent of this test tells its peer.
fn secret(agent: &str) -> Value {
    json!({"from": agent, "text": "é😀\u{2028}\0<&>", "numbers": [0.1, -7, 1e21], "none": null, "": {"b": [], "a": {}}})
}

fn played(printed: &str, language: Language) {
    assert_eq!(printed.lines().collect::<Vec<_>>(), STEPS, "{language:?}");
}

/// A program as agent "afar" and a Rust client as agent "rust".
async fn with_rust(language: Language, afar: Algorithm, rust: Algorithm) {
    let Some(program) = language.program("sealing") else {
        return;
    };
    let pair = Pair::new(["afar", "rust"], [afar, rust]).await;
    let options = Options::new(pair.guarded.harbor.url(), "rust").key(pair.key("rust").clone());
    let client = Client::connect(options.sealing_keys(&pair.ring))
        .await
        .unwrap();
    let mut program = pair.play(program, ["afar", "rust"]);
    let got = tokio::select! {
        got = soon("the message from afar", client.next()) => got.unwrap(),
        printed = &mut program => panic!("{language:?} ended: {printed:?}"),
    };
    assert!(got.is_opened() && got.encrypt);
    let payload: Value = serde_json::from_str(got.payload.get()).unwrap();
    assert_eq!(payload, secret("afar"));
    let mark = json!({"verified": pair.key("afar").kid}).to_string();
    assert_eq!(got.harbor.as_ref().unwrap().get(), mark);

    let message = Envelope::new("secret").to("afar").seal_with("für afar");
    let message = message.payload_of(&secret("rust")).unwrap();
    assert_eq!(client.send(message).await.unwrap().recipients, 1);
    played(&program.await.unwrap(), language);
    client.close().await;
    pair.guarded.harbor.is_empty().await;
}

#[tokio::test]
async fn python_and_rust_exchange_sealed_messages() {
    with_rust(
        Language::Python,
        Algorithm::HmacSha256,
        Algorithm::HmacSha512,
    )
    .await;
}

#[tokio::test]
async fn node_and_rust_exchange_sealed_messages() {
    with_rust(Language::Node, Algorithm::Ed25519, Algorithm::HmacSha256).await;
}

#[tokio::test]
async fn go_and_rust_exchange_sealed_messages() {
    with_rust(Language::Go, Algorithm::HmacSha512, Algorithm::Ed25519).await;
}

/// No line of this project seals, opens, signs or verifies here but Harbor's own verification.
#[tokio::test]
async fn each_two_other_languages_exchange_sealed_messages() {
    for [one, other] in [
        [Language::Python, Language::Node],
        [Language::Node, Language::Go],
        [Language::Go, Language::Python],
    ] {
        let programs = [one, other].map(|language| language.program("sealing"));
        let [Some(first), Some(second)] = programs else {
            continue;
        };
        let pair = Pair::new(
            ["one", "other"],
            [Algorithm::Ed25519, Algorithm::HmacSha256],
        )
        .await;
        let first = pair.play(first, ["one", "other"]);
        let second = pair.play(second, ["other", "one"]);
        played(&first.await.unwrap(), one);
        played(&second.await.unwrap(), other);
        pair.guarded.harbor.is_empty().await;
    }
}
