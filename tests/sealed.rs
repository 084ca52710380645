//! Goal: what is sealed is read by those who hold its key, in any language, and by nobody between.
//! Method: clients and raw agents at a real Harbor; jwcrypto in Python on the other side.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use harbor::Settings;
use serde_json::{Value, json};
use synapse::{
    Envelope,
    client::{Client, Options, SendErrorKind},
    envelope::{Endpoint, Sealing},
    keys::{Algorithm, Jwk, Key, Keyring, SealingKey},
    sealed,
};

use crate::support::{Agent, Harbor, agent::refusal_of, guarded::Guarded, python, soon};

fn sealing_key(kid: &str, owner: &str) -> SealingKey {
    SealingKey::generate(kid, owner).unwrap()
}

async fn connect(harbor: &Harbor, agent_id: &str, keys: &[&SealingKey]) -> Client {
    let options = Options::new(harbor.url(), agent_id);
    let options = keys
        .iter()
        .fold(options, |options, key| options.sealing_key((*key).clone()));
    Client::connect(options).await.unwrap()
}

async fn next(client: &Client) -> Envelope<'static> {
    soon("a message", client.next()).await.unwrap()
}

fn note(text: &str) -> Envelope<'static> {
    Envelope::new("note").payload_of(&text).unwrap()
}

#[tokio::test]
async fn two_clients_exchange_what_harbor_cannot_read() {
    let harbor = Harbor::start().await;
    let (for_alice, for_bob) = (sealing_key("a", "alice"), sealing_key("b", "bob"));
    let alice = connect(&harbor, "alice", &[&for_alice, &for_bob]).await;
    let bob = connect(&harbor, "bob", &[&for_alice, &for_bob]).await;
    let answering = tokio::spawn({
        let bob = bob.clone();
        async move {
            let question = next(&bob).await;
            let answer = note("at noon").seal_with("a");
            bob.reply(&question, answer).await.unwrap();
            question
        }
    });
    let question = note("when?").to("bob").seal_with("b");
    let answer = alice.request(question, crate::support::SOON).await.unwrap();
    assert_eq!(answer.payload.get(), r#""at noon""#);
    assert_eq!(answer.sealing, Sealing::Opened("a".to_owned()));
    assert!(answer.encrypt && answer.is_opened());
    let question = answering.await.unwrap();
    assert_eq!(question.payload.get(), r#""when?""#);
    assert!(question.is_opened());

    // What is between them, and whoever has no key, sees this.
    let mut carol = Agent::in_groups(&harbor, "carol", &[("crew", &[])]).await;
    let dave = connect(&harbor, "dave", &[]).await;
    dave.join("crew", [""; 0]).await.unwrap();
    bob.join("crew", [""; 0]).await.unwrap();
    let secret = note("the secret place").to_group("crew").seal_with("b");
    assert_eq!(alice.send(secret).await.unwrap().recipients, 3);
    let raw = carol.next().await;
    assert_eq!(raw["encrypt"], true);
    assert!(!raw.to_string().contains("secret place"));
    assert_eq!(next(&bob).await.payload.get(), r#""the secret place""#);
    let came = next(&dave).await;
    assert!(came.is_sealed() && came.sealing == Sealing::Untouched);
    let sealed: Value = serde_json::from_str(came.payload.get()).unwrap();
    assert_eq!(sealed, raw["payload"]);

    // Another member says it again as its own, or in another message: it stays shut.
    for members in [
        json!({"receiver": {"agent_id": "bob"}, "encrypt": true, "payload": sealed}),
        json!({"group_id": "crew", "encrypt": true, "payload": sealed, "target_type": "specific",
            "target_ids": ["bob"]}),
    ] {
        assert_eq!(carol.deliver(members).await, 1);
        let got = next(&bob).await;
        assert!(got.is_sealed() && !got.is_opened());
    }
    let unknown = alice.send(note("x").to("bob").seal_with("c")).await;
    assert_eq!(unknown.unwrap_err().kind(), SendErrorKind::Invalid);
}

#[tokio::test]
async fn one_keyring_holds_both_kinds_and_a_signature_covers_the_sealed_form() {
    let [alice_key, bob_key, harbor_key] = ["alice", "bob", "harbor"]
        .map(|agent| Key::generate(agent, agent, Algorithm::Ed25519).unwrap());
    let for_bob = sealing_key("b", "bob");
    let mut ring = Keyring::default();
    for key in [&alice_key, &bob_key, &harbor_key] {
        ring.add(key.clone()).unwrap();
    }
    ring.add_sealing(for_bob.clone()).unwrap();
    let Guarded { harbor, keys } = Guarded::start(&ring, Settings::default()).await;
    let path = &keys.path;
    let signed = |key: &Key| {
        let ring = Keyring::from_file(path).unwrap();
        let options = Options::new(harbor.url(), &key.agent_id).key(key.clone());
        Client::connect(options.sealing_keys(&ring))
    };
    let alice = signed(&alice_key).await.unwrap();
    let bob = signed(&bob_key).await.unwrap();
    // A key for sealing comes into the file, and no connection is ended by it.
    ring.add_sealing(sealing_key("c", "carol")).unwrap();
    ring.write(path).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    let message = note("signed and sealed").to("bob").seal_with("b");
    assert_eq!(alice.send(message).await.unwrap().recipients, 1);
    let got = next(&bob).await;
    assert!(got.is_opened());
    assert_eq!(got.payload.get(), r#""signed and sealed""#);
    // Harbor holds the key as well, and has opened it and sealed it again.
    assert_eq!(
        got.harbor.unwrap().get(),
        r#"{"verified":"alice","resealed":{"opened":"b","under":"b","signed_by":"harbor"}}"#
    );
    // A sealing key proves nobody: its agent has no key for signatures.
    let mut carol = Agent::connect(&harbor).await;
    let nonce = carol.challenge["nonce"].clone();
    let as_hmac = Jwk::from(ring.sealing("c").unwrap().as_ref()).k;
    let secret = URL_SAFE_NO_PAD.decode(&*as_hmac).unwrap();
    let forged = Key::from_secret("c", "carol", Algorithm::HmacSha256, &secret).unwrap();
    let mut registration = Envelope::new("synapse.register")
        .payload_of(&json!({"nonce": nonce}))
        .unwrap();
    registration.id = "r".into();
    registration.sender = Endpoint::new("carol");
    registration.timestamp = jiff::Timestamp::now().into();
    let frame = synapse::signature::signed(registration, &forged).unwrap();
    carol.send_text(frame).await;
    let (code, field) = refusal_of(&carol.next().await);
    assert_eq!((&*code, &*field), ("bad_signature", "signature"));
}

/// Runs the Python side over these lines.
fn in_python(what: &str, keys: &Path, lines: &str) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/sealed.py");
    let mut python = Command::new(python())
        .arg(program)
        .arg(what)
        .arg(keys)
        .arg("b")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("scripts/test installs it");
    let mut stdin = python.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{what}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn jwcrypto_opens_what_we_seal_and_we_open_what_it_seals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let mut ring = Keyring::default();
    ring.add_sealing(sealing_key("b", "bob")).unwrap();
    ring.write(&path).unwrap();
    let (key, now) = (ring.sealing("b").unwrap(), jiff::Timestamp::now());
    let payloads = [
        json!(null),
        json!(""),
        json!({"text": "é😀\u{0}", "n": [1.5, -7, 9_007_199_254_740_993_u64]}),
        json!("x".repeat(100_000)),
    ];
    let envelopes: Vec<_> = payloads
        .iter()
        .enumerate()
        .map(|(at, payload)| {
            let mut envelope = Envelope::new("note").payload_of(payload).unwrap();
            envelope.id = format!("m-{at}\"é").into();
            envelope.sender = Endpoint::new("alice");
            match at % 2 {
                0 => envelope.to("bob"),
                _ => envelope.to_group("crew"),
            }
        })
        .collect();
    let lines = |envelopes: &[Envelope<'_>]| {
        let lines = envelopes.iter().map(|envelope| envelope.to_json() + "\n");
        lines.collect::<String>()
    };

    let sealed: Vec<_> = envelopes
        .iter()
        .map(|envelope| sealed::seal(envelope.clone(), key, now).unwrap())
        .collect();
    let opened = in_python("open", &path, &lines(&sealed));
    let expected: Vec<_> = envelopes.iter().map(|each| each.payload.get()).collect();
    assert_eq!(opened.lines().collect::<Vec<_>>(), expected);

    let sealed = in_python("seal", &path, &lines(&envelopes));
    assert_eq!(sealed.lines().count(), payloads.len());
    for (line, payload) in sealed.lines().zip(&payloads) {
        let envelope = Envelope::decode(line).unwrap();
        let opened = sealed::open(&envelope, &ring, now).unwrap();
        let value: Value = serde_json::from_str(opened.payload.get()).unwrap();
        assert_eq!(value, *payload);
        let mut moved = envelope.clone();
        moved.id = "another".into();
        assert!(sealed::open(&moved, &ring, now).is_err());
    }
}

#[test]
fn the_example_of_the_protocol_opens() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/PROTOCOL.md")).unwrap();
    let (_, section) = document.split_once("\n## Sealed payloads\n").unwrap();
    let example = |at: usize| {
        let text = section.split("```json\n").nth(at).unwrap();
        text.split("```").next().unwrap().trim()
    };
    let ring = Keyring::from_json(example(2)).unwrap();
    let envelope = Envelope::decode(example(1)).unwrap();
    let opened = sealed::open(&envelope, &ring, jiff::Timestamp::now()).unwrap();
    let told = format!("opens to `{}` with this key", opened.payload.get());
    assert!(section.contains(&told), "{told}");
}
