//! Goal: a signature stands for one value and one time.
//! Method: T25, T31: numbers that readers differ on, and clocks that are wrong.

use harbor::Settings;
use serde_json::json;
use synapse::keys::Algorithm;

use crate::support::{
    agent::refusal_of,
    guarded::{accepted, guarded, key, message, nothing_came, pair, refusal, register},
};

#[tokio::test]
async fn numbers_that_readers_differ_on_are_not_signed() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::Ed25519),
        key("bob", Algorithm::Ed25519),
    );
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let mut alice = register(&guarded.harbor.url(), &alice_key).await;
    let mut bob = register(&guarded.harbor.url(), &bob_key).await;
    for literal in [
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "0.1000000000000000055",
    ] {
        let members = json!({"receiver": {"agent_id": "bob"}, "payload": [1]});
        let frame = message(&alice, &alice_key, members).to_string();
        alice
            .send_text(frame.replace("[1]", &format!("[{literal}]")))
            .await;
        let told = refusal_of(&alice.next().await);
        assert_eq!(told, pair("unsafe_number", "payload"), "{literal}");
        nothing_came(&mut alice, &alice_key, &mut [&mut bob]).await;
    }
    for literal in ["9007199254740991", "10.0", "-0.0", "1e21", "1e-7"] {
        let number: serde_json::Value = serde_json::from_str(literal).unwrap();
        let members = json!({"receiver": {"agent_id": "bob"}, "payload": [number]});
        let frame = message(&alice, &alice_key, members);
        accepted(&mut alice, &frame).await;
        assert_eq!(bob.next().await["payload"], json!([number]), "{literal}");
    }
}

#[tokio::test]
async fn a_message_far_from_the_clock_is_refused() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::Ed25519),
        key("bob", Algorithm::Ed25519),
    );
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let mut alice = register(&guarded.harbor.url(), &alice_key).await;
    let mut bob = register(&guarded.harbor.url(), &bob_key).await;
    for (seconds, is_accepted) in [
        (0, true),
        (-290, true),
        (290, true),
        (-320, false),
        (320, false),
        (-94_608_000, false),
        (94_608_000, false),
    ] {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let members = json!({"receiver": {"agent_id": "bob"}, "timestamp": at.to_string()});
        let frame = message(&alice, &alice_key, members);
        if is_accepted {
            accepted(&mut alice, &frame).await;
            assert_eq!(bob.next().await["id"], frame["id"], "{seconds}");
        } else {
            let told = refusal(&mut alice, &frame).await;
            assert_eq!(told, pair("clock_skew", "timestamp"), "{seconds}");
            nothing_came(&mut alice, &alice_key, &mut [&mut bob]).await;
        }
    }
}
