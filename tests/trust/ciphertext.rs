//! Goal: a sealed payload opens in its own message only, and not with any bit of it changed; not even when its sender
//! signs that.
//! Method: with each algorithm, sealed payloads moved, mixed and flipped, unsigned and signed anew, from one raw agent
//! through a real Harbor to a client that holds the key.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use harbor::Settings;
use serde_json::{Value, json};
use synapse::{
    Envelope,
    client::{Client, Options},
    envelope::Endpoint,
    keys::{Algorithm, Key, SealingKey},
    sealed,
};

use crate::support::{
    Agent,
    agent::{new_id, refusal_of},
    guarded::{Guarded, accepted, bad_signature, guarded, key, message, pair, refusal, register},
    soon,
};

const PARTS: [&str; 4] = ["protected", "iv", "ciphertext", "tag"];

/// Alice, who seals and signs; Mallory, who signs; Bob, who opens what he can.
struct Scene {
    alice: Agent,
    mallory: Agent,
    alice_key: Key,
    mallory_key: Key,
    for_bob: SealingKey,
    bob: Client,
    _guarded: Guarded,
}

/// Where a message goes.
#[derive(Clone, Copy)]
enum To {
    Agent(&'static str),
    Group(&'static str),
}

impl Scene {
    async fn new(algorithm: Algorithm) -> Scene {
        let [alice_key, mallory_key, bob_key] =
            ["alice", "mallory", "bob"].map(|agent| key(agent, algorithm));
        let keys = [&alice_key, &mallory_key, &bob_key];
        let guarded = guarded(&keys, Settings::default()).await;
        let url = guarded.harbor.url();
        let for_bob = SealingKey::generate("b", "bob").unwrap();
        let options = Options::new(&url, "bob").key(bob_key);
        let bob = Client::connect(options.sealing_key(for_bob.clone()))
            .await
            .unwrap();
        bob.join("crew", [""; 0]).await.unwrap();
        Scene {
            alice: register(&url, &alice_key).await,
            mallory: register(&url, &mallory_key).await,
            alice_key,
            mallory_key,
            for_bob,
            bob,
            _guarded: guarded,
        }
    }

    /// What Alice seals into a message of hers.
    fn sealed(&self, id: &str, to: To) -> Value {
        let mut envelope = Envelope::new("secret").payload_of(&"for bob").unwrap();
        envelope.id = id.to_owned().into();
        envelope.sender = Endpoint::new("alice");
        let envelope = match to {
            To::Agent(agent) => envelope.to(agent),
            To::Group(group) => envelope.to_group(group),
        };
        let sealed = sealed::seal(envelope, &self.for_bob, jiff::Timestamp::now()).unwrap();
        serde_json::from_str(sealed.payload.get()).unwrap()
    }

    /// A message of Alice's around a payload, signed.
    fn message(&self, id: &str, to: To, payload: Value) -> Value {
        message(&self.alice, &self.alice_key, members(id, to, payload))
    }

    /// The next thing Bob gets, which must be this message.
    async fn got(&self, frame: &Value) -> Envelope<'static> {
        let got = soon("bob gets it", self.bob.next()).await.unwrap();
        assert_eq!(got.id, frame["id"].as_str().unwrap());
        got
    }

    async fn opens(&mut self) {
        let id = new_id();
        let payload = self.sealed(&id, To::Agent("bob"));
        let frame = self.message(&id, To::Agent("bob"), payload);
        accepted(&mut self.alice, &frame).await;
        let got = self.got(&frame).await;
        assert!(got.is_opened());
        assert_eq!(got.payload.get(), r#""for bob""#);
    }

    /// Harbor, which has no key, forwards it as it is, and Bob does not open it; or Harbor finds
    /// that it names no key at all.
    async fn stays_shut(&mut self, frame: &Value, what: &str) {
        let sender = match frame["sender"]["agent_id"].as_str() {
            Some("alice") => &mut self.alice,
            _ => &mut self.mallory,
        };
        sender.send(frame).await;
        let answer = sender.next().await;
        if answer["type"] == "synapse.refused" {
            assert_eq!(refusal_of(&answer), pair("bad_seal", "payload"), "{what}");
            assert!(!names_a_key(frame), "{what}: {frame}");
            return;
        }
        assert_eq!(answer["type"], "synapse.accepted", "{answer}");
        let got = self.got(frame).await;
        assert!(!got.is_opened(), "{what}: {frame}");
        let payload: Value = serde_json::from_str(got.payload.get()).unwrap();
        assert_eq!(payload, frame["payload"], "{what}");
    }
}

/// Whether the header of a sealed payload is JSON with a `kid`.
fn names_a_key(frame: &Value) -> bool {
    let header = frame["payload"]["protected"].as_str().unwrap();
    let header = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let header: Value = serde_json::from_slice(&header).unwrap_or_default();
    header["kid"].is_string()
}

fn members(id: &str, to: To, payload: Value) -> Value {
    let mut members = json!({"id": id, "type": "secret", "encrypt": true, "payload": payload});
    match to {
        To::Agent(agent) => members["receiver"] = json!({"agent_id": agent}),
        To::Group(group) => members["group_id"] = group.into(),
    }
    members
}

#[tokio::test]
async fn moved_ciphertext_is_refused_or_stays_shut() {
    let (bob, crew) = (To::Agent("bob"), To::Group("crew"));
    for algorithm in Algorithm::ALL {
        let mut scene = Scene::new(algorithm).await;
        scene.opens().await;
        let next = |scene: &Scene, to| {
            let id = new_id();
            let payload = scene.sealed(&id, to);
            (id, payload)
        };
        // Into a message that its own signature does not cover: it is not even delivered.
        let (id, payload) = next(&scene, bob);
        let signed = scene.message(&id, bob, payload.clone());
        let (other_id, other) = next(&scene, bob);
        let mut mixed = scene.message(&other_id, bob, other.clone());
        mixed["payload"] = payload.clone();
        assert_eq!(refusal(&mut scene.alice, &mixed).await, bad_signature());
        for part in PARTS {
            let mut mixed = signed.clone();
            mixed["payload"][part] = other[part].clone();
            assert_eq!(
                refusal(&mut scene.alice, &mixed).await,
                bad_signature(),
                "{part}"
            );
        }
        for (member, value) in [
            ("id", json!(other_id)),
            ("receiver", json!({"agent_id": "alice"})),
            ("group_id", json!("crew")),
            ("encrypt", json!(false)),
        ] {
            let mut moved = signed.clone();
            moved[member] = value;
            assert_eq!(
                refusal(&mut scene.alice, &moved).await,
                bad_signature(),
                "{member}"
            );
        }
        scene.opens().await;

        // Signed anew by who moved it.
        let moved = scene.message(&new_id(), bob, payload.clone());
        scene.stays_shut(&moved, "to another id").await;
        let stolen = message(
            &scene.mallory,
            &scene.mallory_key,
            members(&id, bob, payload.clone()),
        );
        scene.stays_shut(&stolen, "to another sender").await;
        for (from, to, what) in [
            (bob, crew, "from bob to the crew"),
            (crew, bob, "from the crew to bob"),
            (To::Agent("carol"), bob, "from carol to bob"),
            (To::Group("other"), crew, "from another group"),
        ] {
            let (id, payload) = next(&scene, from);
            let frame = scene.message(&id, to, payload);
            scene.stays_shut(&frame, what).await;
        }
        for part in PARTS {
            let (id, mut payload) = next(&scene, bob);
            payload[part] = other[part].clone();
            let frame = scene.message(&id, bob, payload);
            scene.stays_shut(&frame, part).await;
        }
        let (id, payload) = next(&scene, bob);
        let open = json!({"id": id, "receiver": {"agent_id": "bob"}, "payload": payload});
        let frame = message(&scene.alice, &scene.alice_key, open);
        scene
            .stays_shut(&frame, "to a message that is not sealed")
            .await;
        // The message it is of: nothing of the above has used it up.
        accepted(&mut scene.alice, &signed).await;
        assert!(scene.got(&signed).await.is_opened());
    }
}

/// Every bit of the header, the iv, the ciphertext and the tag, in a message that its sender signs.
#[tokio::test]
async fn no_flipped_bit_opens_though_it_is_signed() {
    let mut scene = Scene::new(Algorithm::HmacSha256).await;
    let bob = To::Agent("bob");
    let bytes = |payload: &Value, part: &str| {
        URL_SAFE_NO_PAD
            .decode(payload[part].as_str().unwrap())
            .unwrap()
    };
    // As many bytes of header each time, as ids are as long.
    let template = scene.sealed("flip-0000", bob);
    let mut tried = 0;
    for part in PARTS {
        for bit in 0..8 * bytes(&template, part).len() {
            let id = format!("flip-{tried:04}");
            let mut payload = scene.sealed(&id, bob);
            let mut flipped = bytes(&payload, part);
            flipped[bit / 8] ^= 1 << (bit % 8);
            payload[part] = URL_SAFE_NO_PAD.encode(flipped).into();
            let frame = scene.message(&id, bob, payload);
            scene
                .stays_shut(&frame, &format!("bit {bit} of {part}"))
                .await;
            tried += 1;
        }
    }
    assert!(tried > 900, "{tried}");
    scene.opens().await;
}

/// Every bit of the payload's text, braces, names and quotes included, under the signature over the original.
#[tokio::test]
async fn no_flipped_bit_is_delivered() {
    let mut scene = Scene::new(Algorithm::HmacSha512).await;
    let bob = To::Agent("bob");
    let id = new_id();
    let payload = scene.sealed(&id, bob);
    let signed = scene.message(&id, bob, payload.clone());
    let (frame, payload) = (signed.to_string(), payload.to_string());
    let start = frame.find(&payload).unwrap();
    let mut tried = 0;
    for bit in 8 * start..8 * (start + payload.len()) {
        let mut flipped = frame.clone().into_bytes();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // What is no UTF-8 is no text frame; tests/framing.rs has those.
        let Ok(flipped) = String::from_utf8(flipped) else {
            continue;
        };
        scene.alice.send_text(flipped.as_str()).await;
        let (code, _) = refusal_of(&scene.alice.next().await);
        let malformed = ["malformed", "invalid_field", "invalid_unicode"].contains(&&*code);
        assert!(malformed || code == "bad_signature", "{code}: {flipped}");
        tried += 1;
    }
    assert!(tried > 1_300, "{tried}");
    scene.opens().await;
    accepted(&mut scene.alice, &signed).await;
    assert!(scene.got(&signed).await.is_opened());
}
