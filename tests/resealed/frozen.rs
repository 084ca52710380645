//! What others make of it: the frozen messages, the example of the protocol, and programs in other
//! languages.

use super::*;
use crate::foreign_clients::{Language, python, run, tests};

#[derive(serde::Deserialize)]
struct Vectors {
    resealed: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    keys: Vec<Value>,
    sender: String,
    sent: String,
    payload: String,
    delivered: String,
}

fn vectors() -> Vec<Vector> {
    let text = std::fs::read_to_string(tests().join("vectors/resealed.json")).unwrap();
    serde_json::from_str::<Vectors>(&text).unwrap().resealed
}

#[test]
fn the_frozen_messages_are_made_and_read_alike() {
    let now = jiff::Timestamp::now();
    for vector in vectors() {
        let keys = json!({ "keys": vector.keys }).to_string();
        let ring = Keyring::from_json(&keys).unwrap();
        let envelope = Envelope::decode(&vector.sent).unwrap();
        let signer = signature::verify(&envelope, &vector.sent, ring.of("alice"), now).unwrap();
        assert_eq!(signer.kid, vector.sender);
        let sent: Value = serde_json::from_str(&vector.sent).unwrap();
        let delivered: Value = serde_json::from_str(&vector.delivered).unwrap();
        let receiver = delivered["encrypt"].as_bool().unwrap().then_some("bob");
        let key = ring.sealing("alice-seal").unwrap();
        let relay = Relay::open(&envelope, &vector.sent, key, now).unwrap();
        let relay = relay.verified(Some(&signer.kid));
        let harbors = ring.newest_signer("harbor", now).unwrap();
        let made = match receiver {
            Some(bob) => {
                let key = ring.newest_sealing(bob, now).unwrap();
                relay.under(key, harbors, now).unwrap()
            }
            None => relay.in_the_clear(harbors).unwrap(),
        };
        for frame in [&vector.delivered, &made] {
            let read = Envelope::decode(frame).unwrap();
            signature::verify(&read, frame, ring.of("harbor"), now).unwrap();
            let payload = match receiver {
                Some(_) => sealed::open(&read, &ring, now).unwrap().payload,
                None => read.payload.into_owned(),
            };
            assert_eq!(payload.get(), vector.payload, "{}", vector.name);
            let read: Value = serde_json::from_str(frame).unwrap();
            assert_eq!(kept(&read), kept(&sent));
            assert_eq!(read["harbor"], delivered["harbor"]);
        }
        // The clear form is the same each time, as Ed25519 is; a sealed one has another nonce.
        assert_eq!(made == vector.delivered, receiver.is_none());
    }
}

#[test]
fn the_frozen_messages_are_made_again_byte_for_byte_and_read_by_others() {
    let file = tests().join("vectors/resealed.json");
    let mut make = python("resealed.py");
    make.arg("--make");
    let made = run(make, "resealed.py");
    assert!(made == std::fs::read_to_string(&file).unwrap());
    let want: Vec<String> = vectors()
        .iter()
        .map(|vector| format!("ok   {}", vector.name))
        .collect();
    for language in [Language::Python, Language::Node] {
        let mut program = language.program("resealed").unwrap();
        program.arg("--vectors").arg(&file);
        let printed = run(program, &format!("{language:?}"));
        assert_eq!(printed.lines().collect::<Vec<_>>(), want, "{language:?}");
    }
}

/// The worked example of the protocol is the first of them.
#[test]
fn the_example_of_the_protocol_is_frozen() {
    let root = tests().join("../docs/PROTOCOL.md");
    let document = std::fs::read_to_string(root).unwrap();
    let (_, section) = document.split_once("\n### By way of Harbor\n").unwrap();
    let mut examples = section.split("```json\n").skip(1).map(|text| {
        let text = text.split("```").next().unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    });
    let vector = &vectors()[0];
    for frozen in [&vector.sent, &vector.delivered] {
        let frozen: Value = serde_json::from_str(frozen).unwrap();
        assert_eq!(examples.next().unwrap(), frozen);
    }
    let keys = examples.next().unwrap();
    let without = |key: &Value, member: &str| {
        let mut key = key.clone();
        key.as_object_mut().unwrap().remove(member);
        key
    };
    let [alice, harbors, alice_seal, bob_seal] = &vector.keys[..] else {
        unreachable!()
    };
    let expected = [
        without(alice, "d"),
        harbors.clone(),
        alice_seal.clone(),
        bob_seal.clone(),
    ];
    assert_eq!(keys["keys"], json!(expected));
    let public = examples.next().unwrap();
    assert_eq!(public, without(harbors, "d"));
}

/// A program of another language as agent "afar", which knows its own key and Harbor's public one.
async fn opens_and_verifies(language: Language) {
    let here = holding(&["alice", "afar"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let mut own = Keyring::default();
    own.add_sealing(sealing_key("afar")).unwrap();
    own.add(here.ring.of("harbor")[0].public().unwrap())
        .unwrap();
    own.write(&file).unwrap();
    let Some(mut program) = language.program("resealed") else {
        return;
    };
    program
        .arg(here.harbor.url())
        .arg(&file)
        .args(["afar", "crew"]);
    let mut played = tokio::task::spawn_blocking(move || run(program, "the receiver"));
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let is_there = eventually("afar is there", || {
        here.harbor.metric("harbor_groups") == 1.0
    });
    tokio::select! {
        () = is_there => {}
        printed = &mut played => panic!("{language:?} ended: {printed:?}"),
    }
    for members in [
        json!({"receiver": {"agent_id": "afar"}, "x_own": {"é": [1.5, "😀"]}}),
        json!({"group_id": "crew"}),
    ] {
        let message = sealed_by(&alice, members, "alice", ODD);
        assert_eq!(recipients(&mut alice, &message).await, 1);
    }
    let printed = soon("the program ends", played).await.unwrap();
    assert_eq!(
        printed.lines().collect::<Vec<_>>(),
        [ODD, ODD],
        "{language:?}"
    );
}

#[tokio::test]
async fn python_opens_it_and_verifies_harbors_signature() {
    opens_and_verifies(Language::Python).await;
}

#[tokio::test]
async fn node_opens_it_and_verifies_harbors_signature() {
    opens_and_verifies(Language::Node).await;
}
