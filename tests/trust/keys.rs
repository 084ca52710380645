//! Goal: a key is good for its agent, from its first moment to before its last, while it is in the file.
//! Method: keys that are not valid yet, no longer, of another agent, taken out of the file and put in; for registrations,
//! for messages, and for connections that are open. Files and keys that are wrong.

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use harbor::Settings;
use serde_json::{Value, json};
use synapse::keys::{Algorithm, Key, SealingKey};

use crate::support::{
    Agent,
    agent::refusal_of,
    guarded::{
        KeysFile, accepted, bad_signature, guarded, key, message, nothing_came, refusal, register,
        registration, ring_of, signed,
    },
    soon,
};

fn named(kid: &str, agent: &str, algorithm: Algorithm) -> Key {
    Key::generate(kid, agent, algorithm).unwrap()
}

fn in_seconds(seconds: i64) -> Option<jiff::Timestamp> {
    Some(jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds))
}

fn to_bob() -> Value {
    json!({"receiver": {"agent_id": "bob"}})
}

/// A registration with this key, which must be refused.
async fn stays_out(url: &str, key: &Key) {
    let mut peer = Agent::connect_to(url).await;
    let frame = signed(registration(&key.agent_id, &peer.challenge["nonce"]), key);
    assert_eq!(
        refusal(&mut peer, &frame).await,
        bad_signature(),
        "{}",
        key.kid
    );
}

#[tokio::test]
async fn a_key_that_is_not_live_and_hers_signs_nothing() {
    for algorithm in Algorithm::ALL {
        let (good, bob_key) = (key("alice", algorithm), key("bob", algorithm));
        let (mut ended, mut future) = (
            named("ended", "alice", algorithm),
            named("future", "alice", algorithm),
        );
        ended.not_after = in_seconds(-1);
        future.not_before = in_seconds(3_600);
        let mut her_name = bob_key.clone();
        her_name.agent_id = "alice".to_owned();
        let guarded = guarded(&[&good, &bob_key, &ended, &future], Settings::default()).await;
        let url = guarded.harbor.url();
        let mut alice = register(&url, &good).await;
        let mut bob = register(&url, &bob_key).await;
        let never = named("never", "alice", algorithm);
        for key in [&ended, &future, &never, &her_name] {
            let frame = message(&alice, key, to_bob());
            assert_eq!(
                refusal(&mut alice, &frame).await,
                bad_signature(),
                "{}",
                key.kid
            );
            nothing_came(&mut alice, &good, &mut [&mut bob]).await;
            stays_out(&url, key).await;
        }
        assert_eq!(guarded.harbor.metric("harbor_takeovers_total"), 0.0);
    }
}

/// Sends messages signed with a key until Harbor's answer is the one that is waited for.
async fn until(agent: &mut Agent, key: &Key, is_taken: bool) {
    soon("the file is seen", async {
        loop {
            let frame = message(agent, key, json!({"group_id": "nobody"}));
            agent.send(&frame).await;
            let answer = agent.next().await;
            if answer["type"] != "synapse.accepted" {
                assert_eq!(refusal_of(&answer), bad_signature());
            }
            if is_taken == (answer["type"] == "synapse.accepted") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_comes_and_goes_with_the_file() {
    for algorithm in Algorithm::ALL {
        let (older, bob_key) = (key("alice", algorithm), key("bob", algorithm));
        let newer = named("alice-2", "alice", algorithm);
        let guarded = guarded(&[&older, &bob_key], Settings::default()).await;
        let url = guarded.harbor.url();
        let mut alice = register(&url, &older).await;
        let mut bob = register(&url, &bob_key).await;
        stays_out(&url, &newer).await;
        // The newer key works as soon as the file was seen; the older connection stays.
        guarded.replace(&[&older, &bob_key, &newer]);
        until(&mut alice, &newer, true).await;
        let frame = message(&alice, &older, to_bob());
        accepted(&mut alice, &frame).await;
        assert_eq!(bob.next().await["harbor"], json!({"verified": older.kid}));
        let mut second = register(&url, &newer).await;
        assert_eq!(alice.closed().await, Some(4001));
        // Revoked: neither a message nor a registration, on whatever connection. It goes on with the newer one.
        guarded.replace(&[&newer, &bob_key]);
        until(&mut second, &older, false).await;
        stays_out(&url, &older).await;
        nothing_came(&mut second, &newer, &mut [&mut bob]).await;
        // Revoked, and the connection that registered with it goes.
        guarded.replace(&[&bob_key]);
        assert_eq!(second.closed().await, Some(4003));
        stays_out(&url, &newer).await;
        nothing_came(&mut bob, &bob_key, &mut []).await;
        // A name is no key.
        let mut renamed = named(&bob_key.kid, "bob", algorithm);
        renamed.not_after = None;
        guarded.replace(&[&renamed]);
        assert_eq!(
            bob.closed().await,
            Some(4003),
            "the same kid with another secret"
        );
    }
}

#[tokio::test]
async fn a_key_that_ends_closes_its_connection() {
    for algorithm in Algorithm::ALL {
        let mut short = key("alice", algorithm);
        short.not_after = in_seconds(2);
        let guarded = guarded(&[&short], Settings::default()).await;
        let mut alice = register(&guarded.harbor.url(), &short).await;
        assert_eq!(alice.closed().await, Some(4003));
        stays_out(&guarded.harbor.url(), &short).await;
        guarded.harbor.is_left_by_all_agents().await;
    }
}

/// A point of small order, with which one signature fits many messages, as `x` of a key.
const SMALL_ORDER: [&str; 4] = [
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "7P_______________________________________38",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA3o",
];

fn with_x(x: &str) -> String {
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "weak", "alg": "EdDSA", "use": "sig", "x": x,
        "agent_id": "mallory"}]})
    .to_string()
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing() {
    let (older, newer) = (
        key("alice", Algorithm::Ed25519),
        named("2", "alice", Algorithm::HmacSha256),
    );
    let guarded = guarded(&[&older], Settings::default()).await;
    let mut alice = register(&guarded.harbor.url(), &older).await;
    let good = std::fs::read_to_string(&guarded.keys.path).unwrap();
    for content in ["{", &good.replace("EdDSA", "none"), &with_x(SMALL_ORDER[0])] {
        std::fs::write(&guarded.keys.path, content).unwrap();
        // Long enough to be seen; nothing tells that it was.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let frame = message(&alice, &older, json!({"group_id": "nobody"}));
        accepted(&mut alice, &frame).await;
    }
    // It was looked at all the while: the next good one is taken.
    guarded.replace(&[&older, &newer]);
    until(&mut alice, &newer, true).await;
}

/// What cannot be sealed for want of Harbor's own key does not keep anybody in.
#[tokio::test]
async fn a_key_is_revoked_whatever_else_the_file_lacks() {
    let (alice_key, bob_key) = (
        key("alice", Algorithm::Ed25519),
        key("bob", Algorithm::HmacSha256),
    );
    let guarded = guarded(&[&alice_key, &bob_key], Settings::default()).await;
    let url = guarded.harbor.url();
    let mut alice = register(&url, &alice_key).await;
    let mut ring = ring_of(&[&bob_key]);
    ring.add_sealing(SealingKey::generate("bob-seal", "bob").unwrap())
        .unwrap();
    ring.write(&guarded.keys.path).unwrap();
    assert_eq!(alice.closed().await, Some(4003));
    stays_out(&url, &alice_key).await;
    register(&url, &bob_key).await;
}

#[test]
fn what_is_wrong_with_the_keys_is_said_at_the_start() {
    let good = key("alice", Algorithm::HmacSha256);
    let file = KeysFile::new(&ring_of(&[&good]));
    let problems = |settings: Settings| settings.into_config().unwrap_err().join("\n");
    let without = Settings {
        auth: Some("required".to_owned()),
        ..Settings::default()
    };
    assert!(problems(without).contains("keys"));
    let nowhere = Settings {
        keys: Some(PathBuf::from("/nowhere/keys.json")),
        ..file.settings()
    };
    assert!(problems(nowhere).contains("keys.json"));
    std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(problems(file.settings()).contains("600"));
    std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = std::fs::read_to_string(&file.path).unwrap();
    std::fs::write(
        &file.path,
        text.replace(r#""alg": "HS256""#, r#""alg": "none""#),
    )
    .unwrap();
    assert!(problems(file.settings()).contains("alice-HS256"));
    // T61.
    for x in SMALL_ORDER {
        std::fs::write(&file.path, with_x(x)).unwrap();
        let told = problems(file.settings());
        assert!(
            told.contains("weak") && told.contains("small order"),
            "{x}: {told}"
        );
    }
}
