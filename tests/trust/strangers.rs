//! Goal: whoever has not registered learns nothing but the challenge: not which agents, groups, systems or keys there are.
//! Method: every kind of frame from strangers to a Harbor full of agents and to an empty one, about names that exist and
//! names that do not; all that is answered is the same, byte for byte but for ids and times.

use futures_util::SinkExt as _;
use harbor::Settings;
use serde_json::{Value, json};
use synapse::keys::{Algorithm, Key};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    Agent, Raw,
    guarded::{Guarded, accepted, guarded, key, message, now, register_with, registration, signed},
    soon,
};

/// Names to ask about, of one length each, so that answers that repeat one are as long.
#[derive(Clone, Copy)]
struct Names {
    agent: &'static str,
    group: &'static str,
    role: &'static str,
}

const THERE: Names = Names {
    agent: "alice",
    group: "crew",
    role: "worker",
};
const NOT_THERE: Names = Names {
    agent: "nobdy",
    group: "none",
    role: "nothin",
};

/// A Harbor, and who is connected to it.
struct World {
    guarded: Guarded,
    agents: Vec<(Agent, Key)>,
    /// A key of Alice's that was good once.
    ended: Key,
}

/// Alice and Bob are connected, in a group, and have keys of each algorithm.
async fn full() -> World {
    let keys: Vec<Key> = ["alice", "bob"]
        .iter()
        .flat_map(|agent| Algorithm::ALL.map(|algorithm| key(agent, algorithm)))
        .collect();
    let mut ended = Key::generate("alice-past", "alice", Algorithm::Ed25519).unwrap();
    ended.not_after = Some(jiff::Timestamp::now() - jiff::SignedDuration::from_secs(60));
    let mut all: Vec<&Key> = keys.iter().collect();
    all.push(&ended);
    let guarded = guarded(&all, Settings::default()).await;
    let url = guarded.harbor.url();
    let mut agents = Vec::new();
    for key in [&keys[0], &keys[3]] {
        let in_crew = json!({"groups": [{"group_id": "crew", "roles": ["worker"]}]});
        agents.push((register_with(&url, key, in_crew).await, key.clone()));
    }
    World {
        guarded,
        agents,
        ended,
    }
}

/// Nobody is there, and the only key is Zoe's.
async fn empty(ended: &Key) -> World {
    let guarded = guarded(&[&key("zoe", Algorithm::Ed25519)], Settings::default()).await;
    World {
        guarded,
        agents: Vec::new(),
        ended: ended.clone(),
    }
}

/// Frames that are envelopes about these names.
fn envelopes(names: Names, nonce: &Value, ended: &Key) -> Vec<Value> {
    let Names { agent, group, role } = names;
    let envelope = |kind: &str, members: Value| {
        let mut envelope = json!({"id": "s", "version": "1.0.0", "type": kind, "sender": {"agent_id": agent},
            "payload": {}, "timestamp": now()});
        for (key, value) in members.as_object().unwrap() {
            envelope[key] = value.clone();
        }
        envelope
    };
    let mut frames = Vec::new();
    for (kind, payload) in [
        (
            "synapse.group.join",
            json!({"group_id": group, "role": role}),
        ),
        ("synapse.group.leave", json!({"group_id": group})),
        ("synapse.group.members", json!({"group_id": group})),
        ("synapse.presence.watch", json!({"group_id": group})),
        ("synapse.presence.watch", json!({"system_id": group})),
        ("synapse.presence.unwatch", json!({"group_id": group})),
        ("synapse.presence", json!({"group_id": group})),
        ("synapse.discover", json!({})),
        ("synapse.discover", json!({"role": role})),
        (
            "synapse.discover",
            json!({"group_id": group, "after": agent}),
        ),
        ("synapse.ack", json!({"through": 1})),
        ("synapse.nack", json!({"seqs": [1]})),
        ("synapse.renew", json!({"token": "x"})),
        (
            "synapse.conversation.read",
            json!({"conversation_id": group}),
        ),
        (
            "synapse.conversation.follow",
            json!({"conversation_id": group}),
        ),
        (
            "synapse.conversation.unfollow",
            json!({"conversation_id": group}),
        ),
        ("synapse.challenge", json!({})),
        ("synapse.registered", json!({"generation": 1})),
        ("synapse.accepted", json!({"recipients": 1})),
        ("synapse.refused", json!({"code": "expired"})),
        ("synapse.draining", json!({"reconnect_after_ms": 1})),
        ("synapse.receipt", json!({"agent_id": agent})),
        ("synapse.unheard.of", json!({})),
    ] {
        frames.push(envelope(kind, json!({"payload": payload})));
    }
    for address in [
        json!({"receiver": {"agent_id": agent}}),
        json!({"receiver": {"agent_id": "harbor"}}),
        json!({"group_id": group}),
        json!({"group_id": group, "target_type": "role", "target_ids": [role]}),
        json!({"group_id": group, "target_type": "specific", "target_ids": [agent]}),
        json!({"broadcast": true}),
        json!({"receiver": {"agent_id": agent}, "signature": "AAAA", "signature_algorithm": "Ed25519"}),
        json!({"receiver": {"agent_id": agent}, "encrypt": true}),
        json!({"receiver": {"agent_id": agent}, "harbor": {"verified": format!("{agent}-EdDSA")}}),
        json!({}),
    ] {
        frames.push(envelope("chat", address));
    }
    // Registrations: unsigned, and signed with keys that are no live ones of this agent.
    let register = |payload: Value| {
        let mut frame = registration(agent, nonce);
        for (key, value) in payload.as_object().unwrap() {
            frame["payload"][key] = value.clone();
        }
        frame
    };
    let payloads = [
        json!({}),
        json!({"takeover": false}),
        json!({"groups": [{"group_id": group, "roles": [role]}]}),
        json!({"nonce": "another"}),
        json!({"nonce": ""}),
        json!({"ack": "manual"}),
    ];
    for payload in payloads {
        let frame = register(payload);
        for algorithm in Algorithm::ALL {
            frames.push(signed(frame.clone(), &key(agent, algorithm)));
        }
        frames.push(signed(frame.clone(), ended));
        for (signature, algorithm) in [("AAAA", "Ed25519"), ("AAAA", "none"), ("A", "HMAC-SHA256")]
        {
            let mut frame = frame.clone();
            frame["signature"] = signature.into();
            frame["signature_algorithm"] = algorithm.into();
            frames.push(frame);
        }
        frames.push(frame);
    }
    let mut old = register(json!({}));
    old["timestamp"] = "2020-01-01T00:00:00Z".into();
    frames.push(signed(old, &key(agent, Algorithm::Ed25519)));
    frames
}

/// An answer without what differs each time, and with other names in place of these.
fn without_chance(answer: &str, names: Names) -> String {
    let mut text = answer.to_owned();
    let frame: Value = serde_json::from_str(answer).unwrap();
    for member in ["id", "timestamp"] {
        let value = frame[member].as_str().unwrap();
        text = text.replacen(value, &format!("<{member}>"), 1);
    }
    for (name, it) in [
        (names.agent, "<agent>"),
        (names.group, "<group>"),
        (names.role, "<role>"),
    ] {
        text = text.replace(name, it);
    }
    text
}

/// All that strangers are answered, each on a connection of its own, with life going on around them.
async fn all_answers(world: &mut World, names: Names) -> Vec<String> {
    let url = world.guarded.harbor.url();
    let count = envelopes(names, &Value::Null, &world.ended).len();
    let mut strangers = Vec::new();
    let mut answers = Vec::new();
    for at in 0..count + 3 {
        let mut stranger = Agent::connect_to(&url).await;
        let mut members: Vec<_> = stranger
            .challenge
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        members.sort();
        let told = [
            "auth",
            "heartbeat_seconds",
            "max_frame_bytes",
            "node",
            "nonce",
        ];
        assert_eq!(members, told, "the challenge tells no more");
        let frames = envelopes(names, &stranger.challenge["nonce"], &world.ended);
        let frame = match at.checked_sub(count) {
            None => Message::text(frames[at].to_string()),
            Some(0) => Message::text(format!("hello {}", names.agent)),
            Some(1) => Message::binary(names.agent.as_bytes().to_vec()),
            Some(_) => Message::text("[".repeat(200)),
        };
        soon("a frame is written", stranger.socket.send(frame))
            .await
            .unwrap();
        let answer = stranger.next_text().await;
        assert!(
            answer.contains(r#""type":"synapse.refused""#),
            "{at}: {answer}"
        );
        answers.push(without_chance(&answer, names));
        strangers.push(stranger);
    }
    // Messages and changes of presence, of which no stranger hears.
    if let [(alice, alice_key), (bob, bob_key)] = &mut world.agents[..] {
        let frame = message(alice, alice_key, json!({"group_id": "crew"}));
        accepted(alice, &frame).await;
        assert_eq!(bob.next().await["id"], frame["id"]);
        for kind in ["synapse.group.leave", "synapse.group.join"] {
            let members =
                json!({"type": kind, "payload": {"group_id": "crew", "roles": ["worker"]}});
            bob.send(&message(bob, bob_key, members)).await;
            assert_eq!(bob.next().await["type"], kind);
        }
    }
    for mut stranger in strangers {
        stranger.send_text("last").await;
        let last = stranger.next().await;
        assert_eq!(
            last["payload"]["code"], "malformed",
            "something came before: {last}"
        );
        assert!(last.get("correlation_id").is_none());
    }
    answers
}

#[tokio::test]
async fn who_and_what_is_there_shows_in_no_answer() {
    let mut full = full().await;
    let mut empty = empty(&full.ended).await;
    let there = all_answers(&mut full, THERE).await;
    let not_there = all_answers(&mut full, NOT_THERE).await;
    let in_empty = all_answers(&mut empty, THERE).await;
    assert!(there.len() > 80, "{}", there.len());
    for (at, answer) in there.iter().enumerate() {
        assert_eq!(*answer, not_there[at], "names that are not there");
        assert_eq!(*answer, in_empty[at], "where nobody is");
    }
    assert_eq!(full.guarded.harbor.metric("harbor_takeovers_total"), 0.0);
    assert_eq!(full.guarded.harbor.metric("harbor_agents"), 2.0);
}

/// The doors of HTTP say that Harbor is there, and not who else or how many.
#[tokio::test]
async fn no_name_shows_at_a_door() {
    let full = full().await;
    let mut http = Raw::connect(&full.guarded.harbor).await;
    for path in [
        "/metrics",
        "/healthz",
        "/readyz",
        "/",
        "/ws",
        "/console",
        "/agents",
        "/keys.json",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: harbor\r\n\r\n");
        let answer = http.ask(&request).await;
        for name in ["alice", "bob", "crew", "worker", "EdDSA", "HS256"] {
            assert!(
                !answer.body.contains(name) && !answer.head.contains(name),
                "{path}: {name}"
            );
        }
        let is_open = ["/healthz", "/readyz"].contains(&path);
        assert_eq!(answer.status == 200, is_open, "{path}");
        assert!(!answer.body.contains("harbor_"), "{path}: a metric");
    }
}
