//! Which key is taken, and what the file of keys needs.

use super::*;

#[tokio::test]
async fn the_newest_of_a_receivers_keys_is_taken() {
    let mut ring = ring_with(&["alice"]);
    let now = jiff::Timestamp::now();
    let hour = jiff::SignedDuration::from_hours(1);
    for (kid, not_before, not_after) in [
        ("z-oldest", None, None),
        ("second", Some(now - hour - hour), None),
        ("newest-a", Some(now - hour), None),
        ("a-newest", Some(now - hour), None),
        ("ended", Some(now - hour / 2), Some(now)),
        ("to-come", Some(now + hour), None),
    ] {
        let mut key = SealingKey::from_secret(kid, "bob", &secret("bob")).unwrap();
        (key.not_before, key.not_after) = (not_before, not_after);
        ring.add_sealing(key).unwrap();
    }
    let here = started(ring, Settings::default()).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    let message = sealed_by(
        &alice,
        json!({"receiver": {"agent_id": "bob"}}),
        "alice",
        "1",
    );
    assert_eq!(recipients(&mut alice, &message).await, 1);
    let came = bob.next().await;
    assert_eq!(came["harbor"]["resealed"]["under"], "a-newest");
}

#[tokio::test]
async fn harbor_needs_a_key_of_its_own_from_start_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let problems = |change: &dyn Fn(&mut Keyring)| {
        let mut ring = ring_with(&["alice"]);
        change(&mut ring);
        ring.write(&path).unwrap();
        let settings = Settings {
            keys: Some(path.clone()),
            ..Settings::default()
        };
        settings.into_config().err().unwrap_or_default().join("\n")
    };
    let own = || Key::generate("harbor-1", "harbor", Algorithm::Ed25519).unwrap();
    let ended = |mut key: Key| {
        key.not_after = Some(jiff::Timestamp::now());
        key
    };
    assert_eq!(problems(&|_| {}), "");
    for wrong in [
        None,
        Some(own().public().unwrap()),
        Some(ended(own())),
        Some(Key::generate("harbor-1", "alice", Algorithm::Ed25519).unwrap()),
        Some(Key::generate("h", "harbor", Algorithm::HmacSha256).unwrap()),
    ] {
        let told = problems(&|ring| {
            ring.remove("harbor-1");
            if let Some(wrong) = &wrong {
                ring.add(wrong.clone()).unwrap();
            }
        });
        assert!(
            told.contains("agent_id harbor") && told.contains("Ed25519"),
            "{told}"
        );
    }
    let unknown = Settings {
        sealed_without_key: Some("perhaps".to_owned()),
        ..Settings::default()
    };
    let told = unknown.into_config().unwrap_err().join("\n");
    assert_eq!(told, "sealed_without_key is refuse or clear");
}

#[tokio::test]
async fn a_file_without_harbors_key_stops_what_is_sealed_and_no_revocation() {
    let here = holding(&["alice", "bob"]).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    let write = |agents: &[&str], keeps: bool| {
        let mut ring = ring_with(agents);
        ring.remove("harbor-1");
        if keeps {
            ring.add((*here.ring.of("harbor")[0]).clone()).unwrap();
        }
        ring.write(&here.path).unwrap();
    };
    let kept = async |alice: &mut Agent, bob: &mut Agent| {
        let message = sealed_by(
            alice,
            json!({"receiver": {"agent_id": "bob"}}),
            "alice",
            "1",
        );
        assert_eq!(recipients(alice, &message).await, 1);
        let came = bob.next_text().await;
        assert_eq!(checked(&came, &message, Some("bob"), &here.ring), "1");
    };
    kept(&mut alice, &mut bob).await;
    write(&["alice", "bob"], false);
    soon("the signer is gone", async {
        loop {
            let message = sealed_by(
                &alice,
                json!({"receiver": {"agent_id": "bob"}}),
                "alice",
                "1",
            );
            alice.send(&message).await;
            let answer = alice.next().await;
            if answer["type"] == "synapse.refused" {
                assert_eq!(refusal_of(&answer).0, "no_sealing_key");
                break;
            }
            bob.next().await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    // Without the signer too, a key that was taken out is held no more.
    write(&["bob"], false);
    soon("the key is forgotten", async {
        loop {
            let message = sealed_by(
                &alice,
                json!({"receiver": {"agent_id": "bob"}}),
                "alice",
                "1",
            );
            alice.send(&message).await;
            if alice.next().await["type"] == "synapse.accepted" {
                assert_eq!(bob.next().await, message, "between its two ends");
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    write(&["alice", "bob"], true);
    soon("it is taken over again", async {
        loop {
            let message = sealed_by(
                &alice,
                json!({"receiver": {"agent_id": "bob"}}),
                "alice",
                "1",
            );
            alice.send(&message).await;
            if alice.next().await["type"] == "synapse.accepted"
                && bob.next().await["harbor"]["resealed"].is_object()
            {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    write(&["bob"], true);
    // Revoked: Harbor does not hold it any more, so it is between those who do.
    soon("the key is forgotten", async {
        loop {
            let message = sealed_by(
                &alice,
                json!({"receiver": {"agent_id": "bob"}}),
                "alice",
                "1",
            );
            assert_eq!(recipients(&mut alice, &message).await, 1);
            if bob.next().await == message {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn once_harbors_key_has_ended_nothing_sealed_goes_on() {
    let mut ring = ring_with(&["alice", "bob"]);
    let mut harbors = (*ring.of("harbor")[0]).clone();
    ring.remove("harbor-1");
    harbors.not_after = Some(jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2));
    ring.add(harbors).unwrap();
    let here = started(ring, Settings::default()).await;
    let mut alice = Agent::register(&here.harbor, "alice").await;
    let mut bob = Agent::register(&here.harbor, "bob").await;
    let to_bob = json!({"receiver": {"agent_id": "bob"}});
    let mut delivered = 0;
    let refused = soon("the key ends", async {
        loop {
            let message = sealed_by(&alice, to_bob.clone(), "alice", "1");
            let answer = ask(&mut alice, &message).await;
            if answer["type"] == "synapse.refused" {
                break refusal_of(&answer);
            }
            delivered += 1;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await;
    let expected = ("no_sealing_key".to_owned(), "receiver.agent_id".to_owned());
    assert_eq!(refused, expected);
    assert_eq!(bob.received().await.len(), delivered);
}
