//! Goal: each refusal code is told end to end, with its field, and the connection lives on.
//! Method: one way to provoke each code of the table; at the end none may be left over.

use std::collections::BTreeSet;

use harbor::Settings;
use serde_json::{Value, json};
use synapse::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Agent, Harbor, agent::refusal_of, soon};

/// Frames of a registered agent `a` that are refused, by code and field.
fn refused_messages() -> Vec<(Code, &'static str, Value)> {
    let long_ago = "2020-01-01T00:00:00Z";
    let deep = (0..130).fold(json!(1), |inner, _| json!([inner]));
    let control = |kind: &str, payload: Value| json!({"type": kind, "payload": payload});
    vec![
        (Code::TooDeep, "payload", json!({"payload": deep})),
        (Code::MissingField, "version", json!({"version": null})),
        (Code::InvalidField, "ttl", json!({"ttl": -1})),
        (
            Code::InvalidField,
            "group_id",
            json!({"group_id": "a\u{0}b"}),
        ),
        (
            Code::UnsupportedVersion,
            "version",
            json!({"version": "2.0.0"}),
        ),
        (Code::ReservedField, "harbor", json!({"harbor": {"seq": 1}})),
        (Code::NoDestination, "receiver", json!({})),
        (
            Code::NoDestination,
            "receiver",
            json!({"target_type": "all"}),
        ),
        (
            Code::MissingField,
            "sender.system_id",
            json!({"broadcast": true}),
        ),
        (
            Code::EmptyTargets,
            "target_ids",
            json!({"group_id": "g", "target_type": "role"}),
        ),
        (
            Code::InvalidField,
            "target_ids[1]",
            json!({"group_id": "g", "target_type": "specific", "target_ids": ["b", ""]}),
        ),
        (
            Code::SenderMismatch,
            "sender.agent_id",
            json!({"sender": {"agent_id": "b"}}),
        ),
        (
            Code::SenderMismatch,
            "sender.system_id",
            json!({"sender": {"agent_id": "a", "system_id": "other"}}),
        ),
        (
            Code::Expired,
            "expires_at",
            json!({"receiver": {"agent_id": "a"}, "expires_at": long_ago}),
        ),
        (
            Code::AlreadyRegistered,
            "type",
            control("synapse.register", json!({})),
        ),
        (
            Code::UnknownType,
            "type",
            control("synapse.make.tea", json!({})),
        ),
        (
            Code::Unsupported,
            "type",
            control("synapse.ack", json!({"seqs": [1]})),
        ),
        (
            Code::MissingField,
            "payload.group_id",
            control("synapse.group.join", json!({"role": "r"})),
        ),
        (
            Code::InvalidField,
            "payload.roles[0]",
            control("synapse.group.join", json!({"group_id": "g", "roles": [7]})),
        ),
        (
            Code::MissingField,
            "payload.group_id",
            control("synapse.group.leave", json!({})),
        ),
        (
            Code::MissingField,
            "payload.group_id",
            control("synapse.group.members", json!(null)),
        ),
        (
            Code::MissingField,
            "payload.group_id",
            control("synapse.presence.watch", json!({})),
        ),
        (
            Code::InvalidField,
            "payload.system_id",
            control(
                "synapse.presence.watch",
                json!({"group_id": "g", "system_id": "s"}),
            ),
        ),
        (
            Code::InvalidField,
            "payload.limit",
            control("synapse.discover", json!({"limit": -1})),
        ),
        (
            Code::InvalidField,
            "payload",
            control("synapse.discover", json!([])),
        ),
        (
            Code::LimitExceeded,
            "payload.group_id",
            control("synapse.group.join", json!({"group_id": "one more"})),
        ),
    ]
}

async fn refused_while_registered(harbor: &Harbor, told: &mut BTreeSet<&'static str>) {
    let mut a = Agent::in_groups(harbor, "a", &[("g", &[]), ("h", &[])]).await;
    for (code, field, members) in refused_messages() {
        let expected = (code.row().wire.to_owned(), field.to_owned());
        assert_eq!(a.refused(members.clone()).await, expected, "{members}");
        told.insert(code.row().wire);
    }
    let whole = a
        .envelope(json!({"receiver": {"agent_id": "b"}}))
        .to_string();
    for (code, frame, knows_id) in [
        (Code::Malformed, "hello".to_owned(), false),
        (Code::Malformed, format!("{whole} x"), true),
        (Code::Malformed, format!("\u{feff}{whole}"), false),
        (
            Code::InvalidUnicode,
            whole.replace("{}", r#""\ud800""#),
            true,
        ),
        (
            Code::DuplicateKey,
            whole.replacen('{', r#"{"type":"x","#, 1),
            true,
        ),
    ] {
        a.send_text(frame.clone()).await;
        let answer = a.next().await;
        assert_eq!(refusal_of(&answer).0, code.row().wire, "{frame}");
        assert_eq!(answer.get("correlation_id").is_some(), knows_id, "{frame}");
        told.insert(code.row().wire);
    }
    use futures_util::SinkExt;
    a.socket.send(vec![1, 2, 3].into()).await.unwrap();
    assert_eq!(refusal_of(&a.next().await).0, Code::BinaryFrame.row().wire);
    told.insert(Code::BinaryFrame.row().wire);
    assert_eq!(
        a.deliver(json!({"receiver": {"agent_id": "a"}})).await,
        1,
        "it lives on"
    );
}

async fn refused_while_registering(harbor: &Harbor, told: &mut BTreeSet<&'static str>) {
    let _holder = Agent::register(harbor, "holder").await;
    let mut peer = Agent::connect(harbor).await;
    let chat =
        peer.envelope(json!({"sender": {"agent_id": "x"}, "receiver": {"agent_id": "holder"}}));
    peer.send(&chat).await;
    let mut answers = vec![(Code::NotRegistered, "type", peer.next().await)];
    let nonce = peer.envelope(
        json!({"type": "synapse.register", "sender": {"agent_id": "x"}, "payload": {"nonce": "guess"}}),
    );
    peer.send(&nonce).await;
    answers.push((Code::NonceMismatch, "payload.nonce", peer.next().await));
    let holder = json!({"agent_id": "holder"});
    for (code, field, endpoint, payload) in [
        (
            Code::AgentInUse,
            "sender.agent_id",
            holder,
            json!({"takeover": false}),
        ),
        (
            Code::InvalidField,
            "sender.agent_id",
            json!({"agent_id": "harbor"}),
            json!({}),
        ),
        (
            Code::Unsupported,
            "payload.ack",
            json!({"agent_id": "x"}),
            json!({"ack": "manual"}),
        ),
        (
            Code::Unsupported,
            "payload.receipts",
            json!({"agent_id": "x"}),
            json!({"receipts": true}),
        ),
        (
            Code::InvalidField,
            "payload.confirm",
            json!({"agent_id": "x"}),
            json!({"confirm": "maybe"}),
        ),
        (
            Code::MissingField,
            "payload.groups[0].group_id",
            json!({"agent_id": "x"}),
            json!({"groups": [{}]}),
        ),
    ] {
        answers.push((code, field, peer.try_register(endpoint, payload).await));
    }
    for (code, field, answer) in answers {
        assert_eq!(
            refusal_of(&answer),
            (code.row().wire.to_owned(), field.to_owned())
        );
        told.insert(code.row().wire);
    }
    let answer = peer.try_register(json!({"agent_id": "x"}), json!({})).await;
    assert_eq!(
        answer["type"], "synapse.registered",
        "after all those refusals"
    );
}

/// Asks for an upgrade over plain HTTP; the status, and the code in the body.
async fn upgrade_refused(harbor: &Harbor, header: &str) -> (u16, String) {
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: harbor\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{header}\r\n"
    );
    let mut tcp = tokio::net::TcpStream::connect(harbor.addr()).await.unwrap();
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with("}\n") {
        let mut bytes = [0; 1_024];
        let length = soon("an HTTP answer", tcp.read(&mut bytes)).await.unwrap();
        assert_ne!(length, 0, "{answer}");
        answer += std::str::from_utf8(&bytes[..length]).unwrap();
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    (
        head[9..12].parse().unwrap(),
        body["code"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn every_code_of_the_table_is_told() {
    let harbor = Harbor::with(Settings {
        groups_per_agent_max: Some(2),
        connections_max: Some(3),
        max_frame_bytes: Some(64 * 1024),
        ..Settings::default()
    })
    .await;
    let mut told = BTreeSet::new();
    refused_while_registered(&harbor, &mut told).await;
    harbor.is_empty().await;
    refused_while_registering(&harbor, &mut told).await;
    harbor.is_empty().await;

    let (status, code) = upgrade_refused(&harbor, "Origin: https://evil.example\r\n").await;
    assert_eq!((status, code.as_str()), (403, "origin_denied"));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Agent::connect(&harbor).await);
    }
    let (status, code) = upgrade_refused(&harbor, "").await;
    assert_eq!((status, code.as_str()), (503, "overloaded"));
    for code in [Code::OriginDenied, Code::Overloaded] {
        told.insert(code.row().wire);
        let label = format!("code={:?}", code.row().wire);
        assert_eq!(harbor.metric_with("harbor_refusals_total", &label), 1.0);
    }
    let narrow = Harbor::with(Settings {
        connections_per_address_max: Some(1),
        ..Settings::default()
    })
    .await;
    let _only = Agent::connect(&narrow).await;
    let (status, code) = upgrade_refused(&narrow, "").await;
    assert_eq!((status, code.as_str()), (429, "rate_limited"));
    told.insert(Code::RateLimited.row().wire);
    let draining = tokio::spawn(harbor.drain());
    for mut peer in held {
        assert_eq!(refusal_of(&peer.next().await).0, Code::Draining.row().wire);
        assert_eq!(peer.closed().await, Some(1001));
    }
    assert!(draining.await.unwrap());
    told.insert(Code::Draining.row().wire);

    // Of signatures, tokens and permissions, each with its cases in `trust`, `tokens` and
    // `permissions`.
    for code in [
        Code::UnsafeNumber,
        Code::BadSignature,
        Code::ClockSkew,
        Code::NotPermitted,
        Code::BadToken,
    ] {
        told.insert(code.row().wire);
    }
    // Of sealed payloads, in `resealed`.
    for code in [Code::BadSeal, Code::NoSealingKey] {
        told.insert(code.row().wire);
    }
    let all: BTreeSet<_> = Code::ALL.iter().map(|code| code.row().wire).collect();
    assert_eq!(told, all);
}

/// A refusal repeats a little of what was sent, never all of it.
#[tokio::test]
async fn no_refusal_is_much_longer_than_it_must_be() {
    let harbor = Harbor::start().await;
    let mut agent = Agent::register(&harbor, "a").await;
    let long = "\u{85}".repeat(100_000);
    for members in [
        json!({"broadcast": long}),
        json!({"ttl": long}),
        json!({"sender": {"agent_id": long}}),
    ] {
        let frame = agent.envelope(members).to_string();
        agent.send_text(frame).await;
        assert!(agent.next_text().await.len() < 8_192);
    }
    let twice = agent.envelope(json!({})).to_string();
    let twice = twice.replacen('{', &format!("{{\"{long}\":1,\"{long}\":2,"), 1);
    agent.send_text(twice).await;
    assert!(agent.next_text().await.len() < 8_192);
}
