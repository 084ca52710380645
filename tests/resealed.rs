//! Goal: what is sealed with a key that Harbor holds is opened, and reaches each receiver under its own
//! key, signed by Harbor; whatever does not open reaches nobody and tells nothing.
//! Method: raw agents and clients at a real Harbor; payloads sealed by the cipher alone where the
//! library would not; every bit of one flipped.

mod frozen;
mod keyring;
mod refused;

use std::path::PathBuf;

use aes_gcm::{
    Aes256Gcm, Key as CipherKey, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use harbor::Settings;
use serde_json::{Value, json, value::RawValue};
use synapse::{
    Envelope,
    client::{Client, Options},
    envelope::Sealing,
    keys::{Algorithm, Key, Keyring, SealingKey},
    sealed::{self, Relay, Resealed},
    signature,
};

use crate::support::{Agent, Harbor, agent::new_id, agent::refusal_of, eventually, soon};

/// What is sealed mostly: bytes that a program which reads and writes JSON would change.
const ODD: &str = r#"{ "b" : 1.50,"a":"\u00e9\/", "n":9007199254740993 }"#;

/// A Harbor that holds a sealing key of each of these, named `AGENT-seal`.
struct Holding {
    harbor: Harbor,
    ring: Keyring,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// The secret of an agent's key.
fn secret(agent_id: &str) -> [u8; 32] {
    let mut secret = [7; 32];
    secret[..agent_id.len()].copy_from_slice(agent_id.as_bytes());
    secret
}

fn sealing_key(agent_id: &str) -> SealingKey {
    SealingKey::from_secret(format!("{agent_id}-seal"), agent_id, &secret(agent_id)).unwrap()
}

fn ring_with(agents: &[&str]) -> Keyring {
    let mut ring = Keyring::default();
    let harbors = Key::generate("harbor-1", "harbor", Algorithm::Ed25519).unwrap();
    ring.add(harbors).unwrap();
    for agent_id in agents {
        ring.add_sealing(sealing_key(agent_id)).unwrap();
    }
    ring
}

async fn started(ring: Keyring, settings: Settings) -> Holding {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    ring.write(&path).unwrap();
    let settings = settings.or(Settings {
        keys: Some(path.clone()),
        ..Settings::default()
    });
    Holding {
        harbor: Harbor::with(settings).await,
        ring,
        path,
        _folder: folder,
    }
}

async fn holding(agents: &[&str]) -> Holding {
    started(ring_with(agents), Settings::default()).await
}

fn clear() -> Settings {
    Settings {
        sealed_without_key: Some("clear".to_owned()),
        ..Settings::default()
    }
}

/// The protected header of a message's payload.
fn header(envelope: &Value, kid: &str) -> Value {
    let aud = envelope
        .get("receiver")
        .map_or(&envelope["group_id"], |receiver| &receiver["agent_id"]);
    json!({"alg": "dir", "enc": "A256GCM", "kid": kid, "iss": envelope["sender"]["agent_id"],
        "aud": aud, "jti": envelope["id"]})
}

/// A flattened JWE by the cipher alone.
fn jwe(header: &Value, text: &[u8], secret: &[u8; 32]) -> Value {
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    let key: &CipherKey<Aes256Gcm> = secret.into();
    let aad = protected.as_bytes();
    let sealed = Aes256Gcm::new(key)
        .encrypt(&Nonce::from([9; 12]), Payload { msg: text, aad })
        .unwrap();
    let (ciphertext, tag) = sealed.split_at(text.len());
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    json!({"protected": protected, "iv": encode(&[9; 12]), "ciphertext": encode(ciphertext),
        "tag": encode(tag)})
}

/// A message of this agent with a text sealed by the key of `owner`.
fn sealed_by(agent: &Agent, members: Value, owner: &str, text: &str) -> Value {
    let mut envelope = agent.envelope(members);
    let header = header(&envelope, &format!("{owner}-seal"));
    envelope["payload"] = jwe(&header, text.as_bytes(), &secret(owner));
    envelope["encrypt"] = true.into();
    envelope
}

/// Sends a frame and gives Harbor's answer, which must come next.
async fn ask(agent: &mut Agent, frame: &Value) -> Value {
    agent.send(frame).await;
    let answer = agent.next().await;
    assert_eq!(answer["correlation_id"], frame["id"], "{answer}");
    answer
}

async fn recipients(agent: &mut Agent, frame: &Value) -> u64 {
    let answer = ask(agent, frame).await;
    assert_eq!(answer["type"], "synapse.accepted", "{answer}");
    answer["payload"]["recipients"].as_u64().unwrap()
}

fn note(text: &str) -> Envelope<'static> {
    let payload = RawValue::from_string(text.to_owned()).unwrap();
    Envelope::new("note").payload(payload)
}

/// The members of a frame but those that Harbor changes.
fn kept(frame: &Value) -> Value {
    let mut frame = frame.clone();
    for changed in [
        "payload",
        "encrypt",
        "signature",
        "signature_algorithm",
        "harbor",
    ] {
        frame.as_object_mut().unwrap().remove(changed);
    }
    frame
}

/// What a receiver finds in a frame that Harbor sealed again with the key of `receiver`, or left in the
/// clear for nobody's: the payload, after everything else was found right.
fn checked(frame: &str, sent: &Value, receiver: Option<&str>, ring: &Keyring) -> String {
    let envelope = Envelope::decode(frame).unwrap();
    let read: Value = serde_json::from_str(frame).unwrap();
    assert_eq!(kept(&read), kept(sent));
    let under = receiver.map(|receiver| format!("{receiver}-seal"));
    let resealed = Resealed::of(&envelope).unwrap();
    assert_eq!(
        (&resealed.under, &*resealed.signed_by),
        (&under, "harbor-1")
    );
    let now = jiff::Timestamp::now();
    let harbors = signature::verify(&envelope, frame, ring.of("harbor"), now).unwrap();
    assert_eq!(harbors.kid, "harbor-1");
    assert_eq!(envelope.signature_algorithm, "Ed25519");
    assert_eq!(envelope.encrypt, receiver.is_some());
    if receiver.is_none() {
        return envelope.payload.get().to_owned();
    }
    let mut own = Keyring::default();
    own.add_sealing(sealing_key(receiver.unwrap())).unwrap();
    let opened = sealed::open(&envelope, &own, now).unwrap();
    opened.payload.get().to_owned()
}

#[tokio::test]
async fn a_message_reaches_its_receiver_under_the_receivers_key() {
    let here = holding(&["alice", "bob", "harbor"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    // By the key of the sender, of the receiver, and of Harbor.
    for owner in ["alice", "bob", "harbor"] {
        let members = json!({"receiver": {"agent_id": "bob"}, "ttl": 60, "priority": 7,
            "conversation_id": "talk", "x_own": [1.5, {"a": null}]});
        let message = sealed_by(&alice, members, owner, ODD);
        assert_eq!(recipients(&mut alice, &message).await, 1);
        let came = bob.next_text().await;
        assert_eq!(checked(&came, &message, Some("bob"), &here.ring), ODD);
        let mark: Value = serde_json::from_str::<Value>(&came).unwrap()["harbor"].clone();
        let read: Value = serde_json::from_str(&came).unwrap();
        for member in ["iv", "ciphertext", "tag"] {
            assert_ne!(read["payload"][member], message["payload"][member]);
        }
        let resealed = json!({"opened": format!("{owner}-seal"), "under": "bob-seal",
            "signed_by": "harbor-1"});
        assert_eq!(mark, json!({ "resealed": resealed }), "nobody signed it");
    }
    assert_eq!(here.harbor.metric("harbor_messages_opened_total"), 3.0);
}

#[tokio::test]
async fn all_but_the_payload_and_the_signature_stays_byte_for_byte() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    let members = json!({"receiver": {"agent_id": "bob"}});
    let message = sealed_by(&alice, members, "alice", "1");
    let [before, after] = [
        format!(
            "{{ \"x_1\" :\t1.50, \"id\":{}, \"version\":\"1.0.0\",\"\\u0074ype\" : \"ch\\u0061t\",\"encrypt\" : true, \"payload\" :\n",
            message["id"]
        ),
        r#" , "sender":{"agent_id":"alice" },"signature":null, "receiver":{"agent_id":"bob"}, "timestamp":"2026-03-01T12:00:00Z", "é\/":[ ]"#.to_owned(),
    ];
    let frame = format!("{before}{}{after} }} \n", message["payload"]);
    alice.send_text(frame).await;
    assert_eq!(alice.next().await["type"], "synapse.accepted");
    let came = bob.next_text().await;
    let read: Value = serde_json::from_str(&came).unwrap();
    let after = after.replace("null", &read["signature"].to_string());
    let payload = came.strip_prefix(&before).unwrap();
    let (_, rest) = payload.split_once(&after).unwrap();
    let added = r#" ,"signature_algorithm":"Ed25519","harbor":{"resealed":{"opened":"alice-seal","under":"bob-seal","signed_by":"harbor-1"}}}"#;
    assert_eq!(rest, added);
    assert_eq!(checked(&came, &read, Some("bob"), &here.ring), "1");
}

#[tokio::test]
async fn each_member_of_a_group_gets_it_under_its_own_key() {
    for (settings, dave_gets_it) in [(Settings::default(), false), (clear(), true)] {
        let here = started(ring_with(&["alice", "bob", "carol"]), settings).await;
        let mut alice = Agent::register(&here.harbor, "alice").await;
        let mut members = Vec::new();
        for name in ["bob", "carol", "dave"] {
            members.push(Agent::in_groups(&here.harbor, name, &[("crew", &["worker"])]).await);
        }
        // What Harbor signs in the clear cannot hold a number as large.
        let text = match dave_gets_it {
            true => ODD.replace("9007199254740993", "1e2"),
            false => ODD.to_owned(),
        };
        let message = sealed_by(&alice, json!({"group_id": "crew"}), "alice", &text);
        let expected = 2 + u64::from(dave_gets_it);
        assert_eq!(recipients(&mut alice, &message).await, expected);
        let named = json!({"group_id": "crew", "target_type": "role", "target_ids": ["worker"]});
        let narrowed = sealed_by(&alice, named, "alice", r#""narrowed""#);
        assert_eq!(recipients(&mut alice, &narrowed).await, expected);
        alice
            .deliver(json!({"group_id": "crew", "id": "end"}))
            .await;
        let [bob, carol, dave] = &mut members[..] else {
            unreachable!()
        };
        let mut seen = Vec::new();
        for (agent, key) in [(bob, Some("bob")), (carol, Some("carol")), (dave, None)] {
            if key.is_some() || dave_gets_it {
                let came = agent.next_text().await;
                assert_eq!(checked(&came, &message, key, &here.ring), text);
                seen.push(came);
                let came = agent.next_text().await;
                assert_eq!(checked(&came, &narrowed, key, &here.ring), r#""narrowed""#);
            }
            assert_eq!(agent.next().await["id"], "end", "and nothing more");
        }
        seen.dedup();
        assert_eq!(seen.len() as u64, expected, "no two are alike");
        let without = here.harbor.metric("harbor_deliveries_without_key_total");
        assert_eq!(without, if dave_gets_it { 0.0 } else { 2.0 });
    }
}

#[tokio::test]
async fn where_nobody_has_a_key_it_is_refused_and_where_nobody_is_it_is_accepted() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut dave = Agent::in_groups(&here.harbor, "dave", &[("crew", &[])]).await;
    for (members, field) in [
        (
            json!({"receiver": {"agent_id": "dave"}}),
            "receiver.agent_id",
        ),
        (json!({"group_id": "crew"}), "group_id"),
    ] {
        let message = sealed_by(&alice, members, "alice", "1");
        for _ in 0..2 {
            let answer = ask(&mut alice, &message).await;
            let (code, at) = refusal_of(&answer);
            assert_eq!((&*code, &*at), ("no_sealing_key", field));
        }
    }
    for members in [
        json!({"receiver": {"agent_id": "nobody"}}),
        json!({"group_id": "empty"}),
    ] {
        let message = sealed_by(&alice, members, "alice", "1");
        assert_eq!(recipients(&mut alice, &message).await, 0);
    }
    assert_eq!(dave.received().await, Vec::<Value>::new());
    let without = here.harbor.metric("harbor_deliveries_without_key_total");
    assert_eq!(without, 4.0);
}

#[tokio::test]
async fn the_senders_signature_is_checked_and_harbors_takes_its_place() {
    let mut ring = ring_with(&["alice", "bob"]);
    for algorithm in [Algorithm::HmacSha256, Algorithm::Ed25519] {
        let kid = format!("alice-{}", algorithm.jwk());
        let key = Key::generate(kid, "alice", algorithm).unwrap();
        ring.add(key).unwrap();
    }
    let here = started(ring, Settings::default()).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    for key in here.ring.of("alice") {
        let members = json!({"receiver": {"agent_id": "bob"},
            "timestamp": jiff::Timestamp::now().to_string()});
        let message = sealed_by(&alice, members, "alice", ODD).to_string();
        let envelope = Envelope::decode(&message).unwrap();
        let frame = signature::signed(envelope, key).unwrap();
        let message: Value = serde_json::from_str(&frame).unwrap();
        let mut touched = message.clone();
        touched["conversation_id"] = "another".into();
        assert_eq!(
            refusal_of(&ask(&mut alice, &touched).await).0,
            "bad_signature"
        );
        alice.send_text(frame).await;
        assert_eq!(alice.next().await["type"], "synapse.accepted");
        let came = bob.next_text().await;
        assert_eq!(checked(&came, &message, Some("bob"), &here.ring), ODD);
        let read: Value = serde_json::from_str(&came).unwrap();
        assert_eq!(read["harbor"]["verified"], *key.kid);
        assert_ne!(read["signature"], message["signature"]);
        // It says nothing of the sender's signature to have another's key.
        let envelope = Envelope::decode(&came).unwrap();
        let now = jiff::Timestamp::now();
        assert!(signature::verify(&envelope, &came, here.ring.of("alice"), now).is_err());
    }
}

#[tokio::test]
async fn sent_again_it_is_neither_opened_nor_delivered_again_and_order_is_kept() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    let to_bob = || json!({"receiver": {"agent_id": "bob"}});
    for number in 0..20 {
        let text = number.to_string();
        let sealed = sealed_by(&alice, to_bob(), "alice", &text);
        let mut open = alice.envelope(to_bob());
        open["payload"] = number.into();
        for message in [&sealed, &sealed, &open] {
            assert_eq!(recipients(&mut alice, message).await, 1);
        }
        // A second time it need not even open.
        let mut broken = sealed.clone();
        broken["payload"] = json!({});
        let again = ask(&mut alice, &broken).await;
        assert_eq!(again["payload"]["duplicate"], true);
    }
    for number in 0..20 {
        let came = bob.next_text().await;
        let read = serde_json::from_str(&came).unwrap();
        assert_eq!(
            checked(&came, &read, Some("bob"), &here.ring),
            number.to_string()
        );
        assert_eq!(bob.next().await["payload"], number);
    }
    assert_eq!(here.harbor.metric("harbor_messages_opened_total"), 20.0);
    assert_eq!(here.harbor.metric("harbor_messages_duplicate_total"), 40.0);
    let mut late = to_bob();
    late["expires_at"] = "2020-01-01T00:00:00Z".into();
    let late = sealed_by(&alice, late, "alice", "1");
    assert_eq!(refusal_of(&ask(&mut alice, &late).await).0, "expired");
}

#[tokio::test]
async fn the_client_library_opens_it_like_any_other() {
    let here = holding(&["alice", "bob", "carol"]).await;
    let connect = async |agent_id: &str| {
        let options = Options::new(here.harbor.url(), agent_id);
        Client::connect(options.sealing_key(sealing_key(agent_id)))
            .await
            .unwrap()
    };
    let (alice, bob) = (connect("alice").await, connect("bob").await);
    let carol = connect("carol").await;
    for client in [&bob, &carol] {
        client.join("crew", [""; 0]).await.unwrap();
    }
    let message = note(ODD).to_group("crew").seal_with("alice-seal");
    assert_eq!(alice.send(message).await.unwrap().recipients, 2);
    for (client, kid) in [(&bob, "bob-seal"), (&carol, "carol-seal")] {
        let came = soon("a message", client.next()).await.unwrap();
        assert_eq!(came.payload.get(), ODD);
        assert_eq!(came.sealing, Sealing::Opened(kid.to_owned()));
        assert_eq!(Resealed::of(&came).unwrap().opened, "alice-seal");
    }
    let answering = tokio::spawn({
        let bob = bob.clone();
        async move {
            let question = soon("a question", bob.next()).await.unwrap();
            bob.reply(&question, note(r#""at noon""#).seal_with("bob-seal"))
                .await
                .unwrap();
            question
        }
    });
    let question = note(r#""when?""#).to("bob").seal_with("alice-seal");
    let answer = alice.request(question, crate::support::SOON).await.unwrap();
    assert_eq!(answer.payload.get(), r#""at noon""#);
    assert!(answer.is_opened());
    assert_eq!(answering.await.unwrap().payload.get(), r#""when?""#);
}
