//! Goal: what the operator wants of signatures is what happens, and the client library does it by itself.
//! Method: each policy; the Rust client with the right key, a wrong one and none.

use harbor::Settings;
use serde_json::json;
use synapse::{
    Envelope,
    client::{Client, ConnectErrorKind, Options},
    keys::{Algorithm, Key},
};

use crate::support::{
    Agent,
    guarded::{accepted, bad_signature, guarded, key, message, refusal, register},
    soon,
};

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
    assert_eq!(alice.refused(junk.clone()).await, bad_signature());
    let off = Settings {
        signatures: Some("off".to_owned()),
        ..open
    };
    let there = guarded(&[&alice_key], off).await;
    let mut alice = Agent::register(&there.harbor, "alice").await;
    assert_eq!(alice.deliver(junk).await, 0);
}

/// A client that reads frames of the announced length and no longer must not be closed by what Harbor adds.
#[tokio::test]
async fn what_harbor_adds_makes_no_frame_longer_than_announced() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::HmacSha256),
        key("bob", Algorithm::HmacSha256),
    );
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let url = guarded.harbor.url();
    let mut alice = register(&url, &alice_key).await;
    let mut bob = register(&url, &bob_key).await;
    let of_length = |alice: &Agent, length: usize| {
        let with = |fill: usize| {
            let extra = json!({"receiver": {"agent_id": "bob"}, "payload": "x".repeat(fill)});
            message(alice, &alice_key, extra)
        };
        let bare = with(0).to_string().len();
        with(length - bare)
    };
    let most = 1 << 20;
    let frame = of_length(&alice, most);
    assert_eq!(frame.to_string().len(), most);
    let (code, _) = refusal(&mut alice, &frame).await;
    assert_eq!(code, "limit_exceeded");
    let frame = of_length(&alice, most - 128);
    accepted(&mut alice, &frame).await;
    assert!(bob.next_text().await.len() <= most);
}
