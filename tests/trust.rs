//! Goal: nobody gets in, speaks as another or alters what is not theirs.
//! Method: a Harbor that requires signatures; frames that were signed rightly and then touched; at
//! the end of each the receiver's next message shows that nothing came before it.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use harbor::Settings;
use serde_json::{Value, json};
use synapse::{
    Envelope,
    canonical::SigningInput,
    client::{Client, ConnectErrorKind, Options},
    keys::{Algorithm, Key, Keyring},
};

use crate::support::{Agent, Harbor, agent::refusal_of, eventually, soon};

/// A Harbor with a file of keys.
pub struct Guarded {
    pub harbor: Harbor,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

pub fn ring_of(keys: &[&Key]) -> Keyring {
    let mut ring = Keyring::default();
    for key in keys {
        ring.add((*key).clone()).unwrap();
    }
    ring
}

pub async fn guarded(keys: &[&Key], settings: Settings) -> Guarded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    ring_of(keys).write(&path).unwrap();
    let settings = settings.or(Settings {
        keys: Some(path.clone()),
        auth: Some("required".to_owned()),
        ..Settings::default()
    });
    Guarded {
        harbor: Harbor::with(settings).await,
        path,
        _folder: folder,
    }
}

pub fn key(agent_id: &str, algorithm: Algorithm) -> Key {
    Key::generate(
        format!("{agent_id}-{}", algorithm.jwk()),
        agent_id,
        algorithm,
    )
    .unwrap()
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Signs an envelope as an agent in any language would: from its JSON.
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

async fn register(harbor: &Harbor, key: &Key) -> Agent {
    let mut agent = Agent::connect(harbor).await;
    assert_eq!(agent.challenge["auth"], "required");
    agent.id = key.agent_id.clone();
    let frame = signed(registration(&key.agent_id, &agent.challenge["nonce"]), key);
    agent.send(&frame).await;
    let answer = agent.next().await;
    assert_eq!(answer["type"], "synapse.registered", "{answer}");
    agent
}

/// What Harbor answers to a frame, as code and field.
async fn refusal(agent: &mut Agent, frame: &Value) -> (String, String) {
    agent.send(frame).await;
    refusal_of(&agent.next().await)
}

fn pair(code: &str, field: &str) -> (String, String) {
    (code.to_owned(), field.to_owned())
}

/// A message with every field that a sender may set.
fn full(agent: &Agent) -> Value {
    agent.envelope(json!({
        "sender": {"agent_id": agent.id, "agent_name": "A", "capabilities": ["x"]},
        "receiver": {"agent_id": "bob", "agent_name": "B"}, "correlation_id": "c-1", "reply_to": "alice",
        "group_id": "crew", "payload": {"b": [1.5, 1e21, "é\u{e000}😀"], "a": null}, "timestamp": now(),
        "conversation_id": "talk", "ttl": 60, "broadcast": false, "encrypt": false,
        "target_type": "role", "target_ids": ["worker"], "priority": 7,
        "expires_at": "2099-01-01T00:00:00Z", "unknown": {"k": 1},
    }))
}

/// The same member with another value of its own type.
fn altered(value: &Value) -> Value {
    match value {
        Value::String(text) => format!("{text}x").into(),
        Value::Number(_) => 9.into(),
        Value::Bool(on) => (!on).into(),
        Value::Array(_) => json!(["reviewer"]),
        Value::Object(object) => {
            let mut object = object.clone();
            object.insert("added".to_owned(), 1.into());
            object.into()
        }
        Value::Null => 0.into(),
    }
}

#[tokio::test]
async fn every_field_of_a_signed_message_is_held() {
    for algorithm in Algorithm::ALL {
        let (alice_key, bob_key) = (key("alice", algorithm), key("bob", algorithm));
        let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
        let mut alice = register(&guarded.harbor, &alice_key).await;
        let mut bob = register(&guarded.harbor, &bob_key).await;
        let (original, other) = (
            signed(full(&alice), &alice_key),
            signed(full(&alice), &alice_key),
        );
        let fields: Vec<String> = original.as_object().unwrap().keys().cloned().collect();
        for field in &fields {
            let mut tampered = Vec::new();
            for value in [
                Some(altered(&original[field])),
                None,
                Some(other[field].clone()),
            ] {
                let mut frame = original.clone();
                match value {
                    Some(value) => frame[field] = value,
                    None => drop(frame.as_object_mut().unwrap().remove(field)),
                }
                if frame != original {
                    tampered.push(frame);
                }
            }
            for frame in tampered {
                let (code, at) = refusal(&mut alice, &frame).await;
                let expected = [
                    "bad_signature",
                    "missing_field",
                    "invalid_field",
                    "unsupported_version",
                ];
                assert!(
                    expected.contains(&code.as_str()),
                    "{field}: {code} at {at}: {frame}"
                );
            }
        }
        let mut added = original.clone();
        added["another"] = json!({});
        assert_eq!(
            refusal(&mut alice, &added).await,
            pair("bad_signature", "signature")
        );
        for foreign in [
            signed(full(&alice), &bob_key),
            signed(full(&alice), &key("alice", algorithm)),
        ] {
            assert_eq!(
                refusal(&mut alice, &foreign).await,
                pair("bad_signature", "signature")
            );
        }
        // Untouched, and spelled otherwise, it is what it was; and it is the first that arrives.
        alice.send(&original).await;
        assert_eq!(alice.next().await["type"], "synapse.accepted");
        let mut got = bob.next().await;
        assert_eq!(got["harbor"], json!({"verified": alice_key.kid}));
        got.as_object_mut().unwrap().remove("harbor");
        assert_eq!(got, original);
    }
}

#[tokio::test]
async fn an_algorithm_belongs_to_its_key() {
    let keys = Algorithm::ALL.map(|algorithm| key("alice", algorithm));
    let guarded = guarded(&[&keys[0], &keys[2]], Settings::default()).await;
    let mut alice = register(&guarded.harbor, &keys[2]).await;
    let frame = signed(
        alice.envelope(json!({"group_id": "g", "timestamp": now()})),
        &keys[2],
    );
    for (algorithm, field) in [
        ("HMAC-SHA256", "signature"),
        ("HMAC-SHA512", "signature"),
        ("ed25519", "signature_algorithm"),
        ("none", "signature_algorithm"),
    ] {
        let mut frame = frame.clone();
        frame["signature_algorithm"] = algorithm.into();
        assert_eq!(
            refusal(&mut alice, &frame).await,
            pair("bad_signature", field)
        );
    }
    // A public key is no HMAC secret: the classic confusion.
    let public = synapse::keys::Jwk::from(&keys[2].public().unwrap()).x;
    let bytes = URL_SAFE_NO_PAD.decode(public).unwrap();
    let forged = Key::from_secret("x", "alice", Algorithm::HmacSha256, &bytes).unwrap();
    let forged = signed(
        alice.envelope(json!({"group_id": "g", "timestamp": now()})),
        &forged,
    );
    assert_eq!(
        refusal(&mut alice, &forged).await,
        pair("bad_signature", "signature")
    );
    let unsigned = alice.envelope(json!({"group_id": "g"}));
    assert_eq!(
        refusal(&mut alice, &unsigned).await,
        pair("missing_field", "signature")
    );
}

/// T25, T31: numbers that readers differ on, and clocks that are wrong.
#[tokio::test]
async fn unsafe_numbers_and_far_clocks_are_refused() {
    let alice_key = key("alice", Algorithm::Ed25519);
    let guarded = guarded(&[&alice_key], Settings::default()).await;
    let mut alice = register(&guarded.harbor, &alice_key).await;
    for (literal, is_accepted) in [
        ("9007199254740991", true),
        ("10.0", true),
        ("-0.0", true),
        ("1e21", true),
        ("1e-7", true),
        ("9007199254740992", false),
        ("9007199254740993", false),
        ("9007199254740993.0", false),
        ("0.1000000000000000055", false),
    ] {
        let frame = signed(
            alice.envelope(json!({"group_id": "g", "payload": [1], "timestamp": now()})),
            &alice_key,
        );
        let text = frame.to_string().replace("[1]", &format!("[{literal}]"));
        if is_accepted {
            let mut unsigned: Value = serde_json::from_str(&text).unwrap();
            unsigned["id"] = crate::support::agent::new_id().into();
            alice.send(&signed(unsigned, &alice_key)).await;
            assert_eq!(alice.next().await["type"], "synapse.accepted", "{literal}");
        } else {
            alice.send_text(text).await;
            assert_eq!(
                refusal_of(&alice.next().await),
                pair("unsafe_number", "payload"),
                "{literal}"
            );
        }
    }
    for (seconds, is_accepted) in [
        (0, true),
        (-290, true),
        (290, true),
        (-320, false),
        (320, false),
        (-94_608_000, false),
    ] {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let members = json!({"group_id": "g", "timestamp": at.to_string()});
        alice
            .send(&signed(alice.envelope(members), &alice_key))
            .await;
        let answer = alice.next().await;
        if is_accepted {
            assert_eq!(answer["type"], "synapse.accepted", "{seconds}");
        } else {
            assert_eq!(
                refusal_of(&answer),
                pair("clock_skew", "timestamp"),
                "{seconds}"
            );
        }
    }
}

#[tokio::test]
async fn only_who_signs_the_nonce_of_this_connection_gets_in() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::Ed25519),
        key("bob", Algorithm::HmacSha512),
    );
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let mut seen = Agent::connect(&guarded.harbor).await;
    let recorded = signed(registration("alice", &seen.challenge["nonce"]), &alice_key);
    seen.send(&recorded).await;
    assert_eq!(seen.next().await["type"], "synapse.registered");

    let mut peer = Agent::connect(&guarded.harbor).await;
    let nonce = peer.challenge["nonce"].clone();
    assert_ne!(nonce, seen.challenge["nonce"]);
    let mut old = registration("alice", &nonce);
    old["timestamp"] = "2026-01-01T00:00:00Z".into();
    let mut without = registration("alice", &nonce);
    without["payload"] = json!({});
    let (bad, unknown) = (
        pair("bad_signature", "signature"),
        key("nobody", Algorithm::Ed25519),
    );
    for (frame, want) in [
        (recorded, pair("nonce_mismatch", "payload.nonce")),
        (
            registration("alice", &nonce),
            pair("missing_field", "signature"),
        ),
        (signed(registration("alice", &nonce), &bob_key), bad.clone()),
        (signed(registration("bob", &nonce), &alice_key), bad.clone()),
        // Whether an agent exists is not told.
        (signed(registration("nobody", &nonce), &unknown), bad),
        (signed(old, &alice_key), pair("clock_skew", "timestamp")),
        (
            signed(without, &alice_key),
            pair("missing_field", "payload.nonce"),
        ),
    ] {
        assert_eq!(refusal(&mut peer, &frame).await, want, "{frame}");
    }
    let first = json!({"id": "x", "version": "1.0.0", "type": "synapse.discover",
        "sender": {"agent_id": "alice"}, "payload": {}, "timestamp": now()});
    assert_eq!(
        refusal(&mut peer, &first).await,
        pair("not_registered", "type")
    );
    // Nobody was driven out by all this, and the right signature still gets in.
    assert_eq!(guarded.harbor.metric("harbor_takeovers_total"), 0.0);
    peer.send(&signed(registration("bob", &nonce), &bob_key))
        .await;
    assert_eq!(peer.next().await["type"], "synapse.registered");
}

#[tokio::test]
async fn a_revoked_key_ends_its_connections_and_a_rotated_one_does_not() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::Ed25519),
        key("bob", Algorithm::Ed25519),
    );
    let newer = Key::generate("alice-2", "alice", Algorithm::Ed25519).unwrap();
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let mut alice = register(&guarded.harbor, &alice_key).await;
    let mut bob = register(&guarded.harbor, &bob_key).await;
    ring_of(&[&alice_key, &bob_key, &newer])
        .write(&guarded.path)
        .unwrap();
    // The newer key works as soon as the file was seen; the older connection stays.
    loop {
        let frame = signed(
            alice.envelope(json!({"group_id": "g", "timestamp": now()})),
            &newer,
        );
        alice.send(&frame).await;
        let answer = alice.next().await;
        if answer["type"] == "synapse.accepted" {
            break;
        }
        assert_eq!(refusal_of(&answer), pair("bad_signature", "signature"));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    ring_of(&[&bob_key, &newer]).write(&guarded.path).unwrap();
    assert_eq!(alice.closed().await, Some(4003));
    let frame = signed(
        bob.envelope(json!({"group_id": "g", "timestamp": now()})),
        &bob_key,
    );
    bob.send(&frame).await;
    assert_eq!(
        bob.next().await["type"],
        "synapse.accepted",
        "bob is not concerned"
    );
    // A broken file changes nothing.
    std::fs::write(&guarded.path, "{").unwrap();
    register(&guarded.harbor, &newer).await;
}

#[tokio::test]
async fn a_key_that_ends_closes_its_connection() {
    let mut short = key("alice", Algorithm::HmacSha256);
    short.not_after = Some(jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2));
    let guarded = guarded(&[&short], Settings::default()).await;
    let mut alice = register(&guarded.harbor, &short).await;
    assert_eq!(alice.closed().await, Some(4003));
    let mut late = Agent::connect(&guarded.harbor).await;
    let frame = signed(registration("alice", &late.challenge["nonce"]), &short);
    assert_eq!(
        refusal(&mut late, &frame).await,
        pair("bad_signature", "signature")
    );
    eventually("nobody is left", || {
        guarded.harbor.metric("harbor_agents") == 0.0
    })
    .await;
}

#[tokio::test]
async fn the_client_signs_by_itself() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::Ed25519),
        key("bob", Algorithm::HmacSha256),
    );
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let url = guarded.harbor.url();
    let connect = async |key: &Key| {
        Client::connect(Options::new(&url, &key.agent_id).key(key.clone()))
            .await
            .unwrap()
    };
    let (alice, bob) = (connect(&alice_key).await, connect(&bob_key).await);
    alice.join("crew", ["worker"]).await.unwrap();
    let message = Envelope::new("chat")
        .to_group("crew")
        .payload_of(&json!({"n": 1.5}))
        .unwrap();
    assert_eq!(bob.send(message).await.unwrap().recipients, 1);
    let got = soon("the message", alice.next()).await.unwrap();
    assert_eq!(
        got.harbor.as_ref().unwrap().get(),
        r#"{"verified":"bob-HS256"}"#
    );
    let refused = Client::connect(Options::new(&url, "alice"))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ConnectErrorKind::Refused);
    let not_its_own = Options::new(&url, "alice").key(bob_key);
    let wrong = Client::connect(not_its_own).await.unwrap_err();
    assert_eq!(wrong.kind(), ConnectErrorKind::InvalidOptions);
}

/// While authentication is open, what is signed must be signed rightly; `off` forwards.
#[tokio::test]
async fn the_policy_decides_what_a_signature_means() {
    let alice_key = key("alice", Algorithm::Ed25519);
    let junk = json!({"group_id": "g", "signature": "c2ln", "signature_algorithm": "Ed25519"});
    let open = Settings {
        auth: Some("open".to_owned()),
        ..Settings::default()
    };
    let here = guarded(&[&alice_key], open.clone()).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    assert_eq!(alice.deliver(json!({"group_id": "g"})).await, 0);
    assert_eq!(
        alice.refused(junk.clone()).await,
        pair("bad_signature", "signature")
    );
    let off = Settings {
        signatures: Some("off".to_owned()),
        ..open
    };
    let there = guarded(&[&alice_key], off).await;
    let mut alice = Agent::register(&there.harbor, "alice").await;
    assert_eq!(alice.deliver(junk).await, 0);
}

#[test]
fn what_is_wrong_with_the_keys_is_said_at_the_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let problems = |keys: Option<PathBuf>| {
        let settings = Settings {
            keys,
            auth: Some("required".to_owned()),
            ..Settings::default()
        };
        settings.into_config().unwrap_err().join("\n")
    };
    assert!(problems(None).contains("keys"));
    assert!(problems(Some(path.clone())).contains("keys.json"));
    let alice_key = key("alice", Algorithm::HmacSha256);
    ring_of(&[&alice_key]).write(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(problems(Some(path.clone())).contains("600"));
    ring_of(&[&alice_key]).write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(r#""alg": "HS256""#, r#""alg": "none""#)).unwrap();
    assert!(problems(Some(path)).contains("alice-HS256"));
}
