//! Goal: only who signs the nonce of this connection, now and with a live key, gets in.
//! Method: with each algorithm, registrations that were recorded, moved to another connection, sent twice, or signed over
//! something else; in the end the right one still gets in, and nobody was driven out.

use harbor::Settings;
use serde_json::{Value, json};
use synapse::keys::{Algorithm, Key};

use crate::support::{
    Agent,
    guarded::{
        bad_signature, guarded, key, message, nothing_came, pair, refusal, register, registration,
        signed,
    },
};

fn signed_for(agent: &Agent, key: &Key) -> Value {
    signed(registration(&key.agent_id, &agent.challenge["nonce"]), key)
}

/// The registration with another payload, signed again.
fn over(frame: &Value, payload: Value, key: &Key) -> Value {
    let mut frame = frame.clone();
    frame["payload"] = payload;
    signed(frame, key)
}

#[tokio::test]
async fn a_nonce_is_good_on_its_own_connection_only() {
    for algorithm in Algorithm::ALL {
        let alice_key = key("alice", algorithm);
        let guarded = guarded(&[&alice_key], Settings::default()).await;
        let url = guarded.harbor.url();
        let wrong = pair("nonce_mismatch", "payload.nonce");

        let mut earlier = Agent::connect_to(&url).await;
        let recorded = signed_for(&earlier, &alice_key);
        earlier.send(&recorded).await;
        assert_eq!(earlier.next().await["type"], "synapse.registered");
        // Twice on the same connection, which is registered already.
        let again = pair("already_registered", "type");
        assert_eq!(refusal(&mut earlier, &recorded).await, again);

        let (mut one, mut other) = (Agent::connect_to(&url).await, Agent::connect_to(&url).await);
        let nonces = [&earlier, &one, &other].map(|agent| agent.challenge["nonce"].clone());
        assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2]);
        // Recorded while its connection is open; of a connection that waits too; made for another and signed now.
        assert_eq!(refusal(&mut one, &recorded).await, wrong);
        let of_other = signed_for(&other, &alice_key);
        assert_eq!(refusal(&mut one, &of_other).await, wrong);
        earlier.close().await;
        guarded.harbor.is_left_by_all_agents().await;
        assert_eq!(refusal(&mut other, &recorded).await, wrong);
        let late = signed(registration("alice", &nonces[0]), &alice_key);
        assert_eq!(refusal(&mut other, &late).await, wrong);
        // Both still get in: what was refused has used up nothing.
        other.send(&of_other).await;
        assert_eq!(other.next().await["type"], "synapse.registered");
        one.send(&signed_for(&one, &alice_key)).await;
        assert_eq!(one.next().await["type"], "synapse.registered");
        assert_eq!(other.closed().await, Some(4001));
    }
}

#[tokio::test]
async fn a_nonce_is_what_was_sent_and_is_signed() {
    for algorithm in Algorithm::ALL {
        let alice_key = key("alice", algorithm);
        let guarded = guarded(&[&alice_key], Settings::default()).await;
        let url = guarded.harbor.url();
        let nonce = |agent: &Agent| agent.challenge["nonce"].as_str().unwrap().to_owned();
        let (wrong, missing, invalid) = (
            pair("nonce_mismatch", "payload.nonce"),
            pair("missing_field", "payload.nonce"),
            pair("invalid_field", "payload.nonce"),
        );
        type Payload<'p> = &'p dyn Fn(&str) -> Value;
        let cases: [(Payload<'_>, &(String, String)); 10] = [
            (
                &|nonce| json!({"nonce": nonce.to_uppercase() + "x"}),
                &wrong,
            ),
            (&|nonce| json!({"nonce": format!(" {nonce}")}), &wrong),
            (&|nonce| json!({"nonce": nonce[1..]}), &wrong),
            (&|nonce| json!({"nonce": format!("{nonce}0")}), &wrong),
            (&|nonce| json!({"Nonce": nonce}), &missing),
            (&|_| json!({"nonce": ""}), &missing),
            (&|_| json!({"nonce": null}), &missing),
            (&|_| json!({}), &missing),
            (&|nonce| json!({"nonce": [nonce]}), &invalid),
            (&|_| json!({"nonce": 1}), &invalid),
        ];
        for (payload, want) in cases {
            let mut agent = Agent::connect_to(&url).await;
            let frame = signed_for(&agent, &alice_key);
            let frame = over(&frame, payload(&nonce(&agent)), &alice_key);
            assert_eq!(refusal(&mut agent, &frame).await, *want, "{frame}");
            agent.send(&signed_for(&agent, &alice_key)).await;
            assert_eq!(agent.next().await["type"], "synapse.registered");
        }
        // A nonce that the signature does not cover proves nothing.
        let mut agent = Agent::connect_to(&url).await;
        let mut frame = signed(registration("alice", &json!("another")), &alice_key);
        frame["payload"] = json!({"nonce": nonce(&agent)});
        assert_eq!(refusal(&mut agent, &frame).await, bad_signature());
    }
}

/// Every place of a registration altered and removed; nobody is driven out by it.
#[tokio::test]
async fn a_registration_is_held_whole() {
    for algorithm in Algorithm::ALL {
        let (alice_key, bob_key) = (key("alice", algorithm), key("bob", algorithm));
        let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
        let url = guarded.harbor.url();
        let mut alice = register(&url, &alice_key).await;
        let mut bob = register(&url, &bob_key).await;
        let place = |pointer: &'static str, value: Value| (pointer, value, bad_signature());
        let cases = [
            place("/id", json!("s")),
            place("/version", json!("1.0.1")),
            place("/sender", json!({"agent_id": "bob"})),
            place("/sender/agent_name", json!("A")),
            place("/sender/system_id", json!("lab")),
            place("/sender/capabilities", json!(["all"])),
            place("/payload/takeover", json!(false)),
            place(
                "/payload/groups",
                json!([{"group_id": "crew", "role": "lead"}]),
            ),
            place("/payload/confirm", json!("refusals")),
            place("/payload/x", json!(null)),
            place("/ttl", json!(0)),
            place("/receiver", json!({"agent_id": "harbor"})),
            place("/x", json!(1)),
            (
                "/type",
                json!("synapse.discover"),
                pair("not_registered", "type"),
            ),
            ("/harbor", json!({}), pair("reserved_field", "harbor")),
            (
                "/sender/agent_id",
                json!("harbor"),
                pair("invalid_field", "sender.agent_id"),
            ),
        ];
        for chunk in cases.chunks(7) {
            let mut peer = Agent::connect_to(&url).await;
            for (pointer, value, want) in chunk {
                let mut frame = signed_for(&peer, &alice_key);
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                frame.pointer_mut(parent).unwrap()[name] = value.clone();
                assert_eq!(refusal(&mut peer, &frame).await, *want, "{frame}");
            }
        }
        let mut peer = Agent::connect_to(&url).await;
        let unknown = key("nobody", algorithm);
        let mut old = registration("alice", &peer.challenge["nonce"]);
        old["timestamp"] = "2026-01-01T00:00:00Z".into();
        let unsigned = registration("alice", &peer.challenge["nonce"]);
        for (frame, want) in [
            (unsigned, pair("missing_field", "signature")),
            (signed(old, &alice_key), pair("clock_skew", "timestamp")),
            (
                signed(registration("alice", &peer.challenge["nonce"]), &bob_key),
                bad_signature(),
            ),
            (
                signed(registration("bob", &peer.challenge["nonce"]), &alice_key),
                bad_signature(),
            ),
            // Whether an agent exists is not told.
            (signed_for(&peer, &unknown), bad_signature()),
        ] {
            assert_eq!(refusal(&mut peer, &frame).await, want, "{frame}");
        }
        // A message that is rightly signed is no registration.
        let question = json!({"type": "synapse.discover", "receiver": null});
        peer.id = "alice".to_owned();
        let first = message(&peer, &alice_key, question);
        assert_eq!(
            refusal(&mut peer, &first).await,
            pair("not_registered", "type")
        );

        nothing_came(&mut alice, &alice_key, &mut [&mut bob]).await;
        nothing_came(&mut bob, &bob_key, &mut [&mut alice]).await;
        assert_eq!(guarded.harbor.metric("harbor_takeovers_total"), 0.0);
        peer.send(&signed_for(&peer, &alice_key)).await;
        assert_eq!(peer.next().await["type"], "synapse.registered");
        assert_eq!(alice.closed().await, Some(4001));
    }
}
