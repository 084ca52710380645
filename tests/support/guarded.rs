//! A Harbor that requires signatures, and agents that sign what they send by hand, as in any language.
//!
//! The one place that knows what such a Harbor is given.

use std::path::PathBuf;

use harbor::Settings;
use serde_json::{Value, json};
use synapse::{
    canonical::SigningInput,
    keys::{Algorithm, Key, Keyring},
};

use super::{
    Agent, Harbor,
    agent::refusal_of,
    issuer::{self, Issuer},
};

/// A file of keys, for as long as this lives.
#[derive(Debug)]
pub struct KeysFile {
    pub path: PathBuf,
    tokens: PathBuf,
    _folder: tempfile::TempDir,
}

impl KeysFile {
    pub fn new(ring: &Keyring) -> KeysFile {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        ring.write(&path).unwrap();
        let tokens = folder.path().join("tokens.json");
        issuer::write(&tokens, &[&Issuer::new("EdDSA")]);
        KeysFile {
            path,
            tokens,
            _folder: folder,
        }
    }

    /// What makes a Harbor require the signatures of these keys.
    pub fn settings(&self) -> Settings {
        requiring(&self.path)
    }

    /// The same on a command line; with [`KeysFile::monitor`] it tells its metrics.
    pub fn arguments(&self) -> [&str; 6] {
        let path = self.path.to_str().unwrap();
        let tokens = self.tokens.to_str().unwrap();
        ["--auth", "required", "--keys", path, "--tokens", tokens]
    }

    /// A token of one who may ask for metrics.
    pub fn monitor(&self) -> String {
        Issuer::new("EdDSA").token("monitor", 3_600)
    }
}

/// What makes a Harbor require the signatures of the keys in a file.
pub fn requiring(path: impl Into<PathBuf>) -> Settings {
    Settings {
        keys: Some(path.into()),
        auth: Some("required".to_owned()),
        ..Settings::default()
    }
}

/// A Harbor with a file of keys.
#[derive(Debug)]
pub struct Guarded {
    pub harbor: Harbor,
    pub keys: KeysFile,
}

impl Guarded {
    /// With these keys, and these settings over those of [`KeysFile::settings`].
    pub async fn start(ring: &Keyring, settings: Settings) -> Guarded {
        let keys = KeysFile::new(ring);
        let harbor = Harbor::with(settings.or(keys.settings())).await;
        Guarded { harbor, keys }
    }

    /// Puts other keys in place of those that are there; Harbor sees it within a second or two.
    pub fn replace(&self, keys: &[&Key]) {
        ring_of(keys).write(&self.keys.path).unwrap();
    }
}

/// A Harbor with these keys.
pub async fn guarded(keys: &[&Key], settings: Settings) -> Guarded {
    Guarded::start(&ring_of(keys), settings).await
}

pub fn ring_of(keys: &[&Key]) -> Keyring {
    let mut ring = Keyring::default();
    for key in keys {
        ring.add((*key).clone()).unwrap();
    }
    ring
}

/// A new key, named after its agent and its algorithm.
pub fn key(agent_id: &str, algorithm: Algorithm) -> Key {
    let kid = format!("{agent_id}-{}", algorithm.jwk());
    Key::generate(kid, agent_id, algorithm).unwrap()
}

pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Signs an envelope from its JSON.
pub fn signed(mut envelope: Value, key: &Key) -> Value {
    envelope["signature_algorithm"] = key.algorithm().wire().into();
    envelope.as_object_mut().unwrap().remove("signature");
    let text = envelope.to_string();
    envelope["signature"] = key.sign(&SigningInput::of(&text).unwrap()).unwrap().into();
    envelope
}

pub fn registration(agent_id: &str, nonce: &Value) -> Value {
    json!({
        "id": "r", "version": "1.0.0", "type": "synapse.register", "sender": {"agent_id": agent_id},
        "payload": {"nonce": nonce}, "timestamp": now(),
    })
}

/// Connects and registers the key's agent.
pub async fn register(url: &str, key: &Key) -> Agent {
    register_with(url, key, json!({})).await
}

/// The same with this payload; the nonce is added.
pub async fn register_with(url: &str, key: &Key, mut payload: Value) -> Agent {
    let mut agent = Agent::connect_to(url).await;
    assert_eq!(agent.challenge["auth"], "required");
    agent.id = key.agent_id.clone();
    payload["nonce"] = agent.challenge["nonce"].clone();
    let mut frame = registration(&key.agent_id, &Value::Null);
    frame["payload"] = payload;
    agent.send(&signed(frame, key)).await;
    let answer = agent.next().await;
    assert_eq!(answer["type"], "synapse.registered", "{answer}");
    agent
}

/// A message of this agent's, signed now.
pub fn message(agent: &Agent, key: &Key, mut members: Value) -> Value {
    if members.get("timestamp").is_none() {
        members["timestamp"] = now().into();
    }
    signed(agent.envelope(members), key)
}

/// Sends what must be accepted.
pub async fn accepted(agent: &mut Agent, frame: &Value) {
    agent.send(frame).await;
    let answer = agent.next().await;
    assert_eq!(answer["type"], "synapse.accepted", "{answer}: {frame}");
}

/// What Harbor answers to a frame that it refuses, as code and field.
pub async fn refusal(agent: &mut Agent, frame: &Value) -> (String, String) {
    agent.send(frame).await;
    refusal_of(&agent.next().await)
}

pub fn pair(code: &str, field: &str) -> (String, String) {
    (code.to_owned(), field.to_owned())
}

/// The refusal of a signature that is not the sender's.
pub fn bad_signature() -> (String, String) {
    pair("bad_signature", "signature")
}

/// Sends one more message from `from` to each of `to`, which must be the next thing that each gets: nothing of what
/// was refused before was delivered.
pub async fn nothing_came(from: &mut Agent, key: &Key, to: &mut [&mut Agent]) {
    for receiver in to {
        let members = json!({"type": "sentinel", "receiver": {"agent_id": receiver.id}});
        let sentinel = message(from, key, members);
        accepted(from, &sentinel).await;
        let got = receiver.next().await;
        assert_eq!(got["id"], sentinel["id"], "{} got {got}", receiver.id);
    }
}
