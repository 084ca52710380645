//! Goal: who bears a good token is let in as its agent for as long as it lasts, and nobody else is.
//! Method: a Harbor that requires authentication, tokens of keys that the RFCs publish, made here and
//! by libraries of other languages, and tokens that are wrong in one thing each.

use futures_util::SinkExt;
use harbor::Settings;
use serde_json::{Value, json};
use synapse::keys::Algorithm;

use crate::bad_tokens::{NOT_ACCEPTED, refused};
use crate::support::{
    Agent, Harbor, Raw,
    agent::refusal_of,
    guarded,
    harbor::EVERYTHING_PERMITTED,
    issuer::{ALGORITHMS, Issuer, Trusting, claims, now},
    raw, soon,
};

fn pair(code: &str, field: &str) -> (String, String) {
    (code.to_owned(), field.to_owned())
}

async fn register(harbor: &Harbor, id: &str, token: &str) -> (Agent, Value) {
    let mut agent = Agent::bearing(harbor, token).await;
    let answer = agent.try_register(json!({"agent_id": id}), json!({})).await;
    assert_eq!(answer["type"], "synapse.registered", "{answer}");
    (agent, answer["payload"].clone())
}

/// An unsigned registration without a nonce.
fn registration(agent_id: &str) -> Value {
    json!({"id": "r", "version": "1.0.0", "type": "synapse.register",
        "sender": {"agent_id": agent_id}, "payload": {}, "timestamp": "2026-03-01T12:00:00Z"})
}

/// A time of Harbor's in seconds since 1970.
fn seconds(time: &Value) -> i64 {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    time.as_second()
}

#[tokio::test]
async fn a_token_of_every_algorithm_registers_its_agent_and_no_other() {
    let issuers = ALGORITHMS.map(Issuer::new);
    let all: Vec<&Issuer> = issuers.iter().collect();
    let trusting = Trusting::start(&all, Settings::default()).await;
    for issuer in &issuers {
        let mut claims = claims("alice", 60);
        claims["aud"] = json!(["elsewhere", "synapse-harbor"]);
        // Those that a registration does not need stand beside.
        claims["scope"] = json!("anything");
        let token = issuer.token_of(&claims);
        let mut agent = Agent::bearing(&trusting.harbor, &token).await;
        assert_eq!(agent.challenge["auth"], "required");
        let answer = agent
            .try_register(json!({"agent_id": "mallory"}), json!({}))
            .await;
        assert_eq!(
            refusal_of(&answer),
            pair("sender_mismatch", "sender.agent_id")
        );
        let answer = agent
            .try_register(json!({"agent_id": "alice"}), json!({}))
            .await;
        assert_eq!(answer["type"], "synapse.registered", "{answer}");
        let expires_at = seconds(&answer["payload"]["expires_at"]);
        assert_eq!(expires_at, claims["exp"].as_i64().unwrap());
        assert_eq!(
            agent
                .deliver(json!({"receiver": {"agent_id": "alice"}}))
                .await,
            1
        );
    }
    // Without a kid each key of the algorithm is tried.
    for issuer in &issuers {
        let header = json!({"alg": issuer.alg}).to_string();
        let token = issuer.jws(&header, &claims("bob", 60).to_string());
        register(&trusting.harbor, "bob", &token).await;
    }
    // And without a token, a signature is still asked for.
    let mut nobody = Agent::connect(&trusting.harbor).await;
    let answer = nobody
        .try_register(json!({"agent_id": "alice"}), json!({}))
        .await;
    assert_eq!(refusal_of(&answer), pair("missing_field", "signature"));
}

#[tokio::test]
async fn clocks_may_differ_a_little_and_a_token_lasts_to_its_second() {
    let hmac = Issuer::new("HS256");
    let settings = Settings {
        clock_window_seconds: Some(30),
        token_audience: Some("ours".to_owned()),
        ..Settings::default()
    };
    let trusting = Trusting::start(&[&hmac], settings).await;
    for (nbf, typ) in [
        (json!(now() + 20), "JWT"),
        (json!(now() as f64 - 0.5), "at+JWT"),
        (Value::Null, "application/at+jwt"),
    ] {
        let claims =
            json!({"sub": "a", "aud": "ours", "exp": now() as f64 + 9.5, "nbf": nbf, "iat": nbf});
        let header = json!({"alg": "HS256", "typ": typ}).to_string();
        register(
            &trusting.harbor,
            "a",
            &hmac.jws(&header, &claims.to_string()),
        )
        .await;
    }
}

#[tokio::test]
async fn the_token_may_come_as_a_subprotocol_and_is_never_echoed() {
    let ed = Issuer::new("EdDSA");
    let trusting = Trusting::start(&[&ed], Settings::default()).await;
    let (token, other) = (ed.token("a", 60), ed.token("b", 60));
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let offered =
        |token: &str| format!("Sec-WebSocket-Protocol: synapse.v1, synapse.bearer.{token}\r\n");
    for lines in [offered(&token), offered(&token) + &authorization] {
        let mut peer = Raw::connect(&trusting.harbor).await;
        let answer = peer.upgrade(&lines).await;
        assert_eq!(answer.status, 101);
        assert!(
            answer
                .head
                .contains("sec-websocket-protocol: synapse.v1\r\n")
        );
        assert!(!answer.head.contains("bearer"), "{}", answer.head);
        peer.next_json().await;
        peer.write(&raw::text(&registration("a"))).await;
        assert_eq!(peer.next_json().await["type"], "synapse.registered");
    }
    for lines in [
        offered(&other) + &authorization,
        offered(&token) + &offered(&other),
        authorization.clone() + &format!("Authorization: Bearer {other}\r\n"),
    ] {
        let body = refused(&trusting.harbor, &lines).await;
        assert!(
            body["reason"].as_str().unwrap().contains("two different"),
            "{body}"
        );
    }
    // A token in the URL is none.
    let request = raw::UPGRADE.replacen("/ws", &format!("/ws?access_token={token}"), 1);
    let mut peer = Raw::connect(&trusting.harbor).await;
    assert_eq!(peer.ask(&format!("{request}\r\n")).await.status, 101);
    peer.next_json().await;
    peer.write(&raw::text(&registration("a"))).await;
    assert_eq!(
        refusal_of(&peer.next_json().await),
        pair("missing_field", "signature")
    );
}

#[tokio::test]
async fn a_harbor_that_takes_no_tokens_refuses_them() {
    let harbor = Harbor::start().await;
    let token = Issuer::new("HS256").token("a", 60);
    let body = refused(&harbor, &format!("Authorization: Bearer {token}\r\n")).await;
    assert_eq!(body["reason"], NOT_ACCEPTED);
    let mut agent = Agent::register(&harbor, "a").await;
    let renewal = json!({"type": "synapse.renew", "payload": {"token": token}});
    assert_eq!(
        agent.refused(renewal).await,
        pair("bad_token", "payload.token")
    );
}

#[tokio::test]
async fn a_token_and_a_signature_must_both_hold() {
    let (ed, alice) = (
        Issuer::new("EdDSA"),
        guarded::key("alice", Algorithm::HmacSha256),
    );
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    guarded::ring_of(&[&alice]).write(&keys).unwrap();
    let settings = Settings {
        keys: Some(keys.clone()),
        signatures: Some("required".to_owned()),
        ..Settings::default()
    };
    let trusting = Trusting::start(&[&ed], settings).await;
    let wrong = guarded::key("alice", Algorithm::HmacSha256);
    let mut agent = Agent::bearing(&trusting.harbor, &ed.token("alice", 60)).await;
    let frame = guarded::registration("alice", &agent.challenge["nonce"]);
    agent.send(&guarded::signed(frame.clone(), &wrong)).await;
    assert_eq!(
        refusal_of(&agent.next().await),
        pair("bad_signature", "signature")
    );
    agent.send(&guarded::signed(frame, &alice)).await;
    let answer = agent.next().await;
    assert!(answer["payload"]["expires_at"].is_string(), "{answer}");
    // The policy for messages is not loosened by a token.
    let (mut bob, _) = register(&trusting.harbor, "bob", &ed.token("bob", 60)).await;
    let unsigned = json!({"receiver": {"agent_id": "alice"}});
    assert_eq!(
        bob.refused(unsigned).await,
        pair("missing_field", "signature")
    );
    // Either's end ends the connection.
    guarded::ring_of(&[]).write(&keys).unwrap();
    assert_eq!(agent.closed().await, Some(4003));
}

/// T57: an open socket does not outlive its token, idle or busy.
#[tokio::test]
async fn a_token_that_lapses_closes_its_connection() {
    use tokio_tungstenite::tungstenite::Message;
    let ed = Issuer::new("EdDSA");
    let trusting = Trusting::start(&[&ed], Settings::default()).await;
    let (mut idle, _) = register(&trusting.harbor, "idle", &ed.token("idle", 2)).await;
    let (mut stays, _) = register(&trusting.harbor, "stays", &ed.token("stays", 600)).await;
    let (mut busy, payload) = register(&trusting.harbor, "busy", &ed.token("busy", 2)).await;
    let end = seconds(&payload["expires_at"]);
    let code = loop {
        let message = busy.envelope(json!({"receiver": {"agent_id": "stays"}}));
        if busy.socket.send(message.to_string().into()).await.is_err() {
            break busy.closed().await;
        }
        match soon("an answer", futures_util::StreamExt::next(&mut busy.socket)).await {
            Some(Ok(Message::Close(Some(frame)))) => break Some(frame.code.into()),
            Some(Ok(Message::Text(_))) => {}
            other => panic!("{other:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    assert_eq!(code, Some(4003));
    let late = now() - end;
    assert!((0..10).contains(&late), "{late} s after its end");
    assert_eq!(idle.closed().await, Some(4003));
    let closed = "harbor_connections_closed_total";
    assert_eq!(trusting.harbor.metric_with(closed, "unauthorised"), 2.0);
    // With the token that has ended nobody gets in again.
    let token = ed.token("idle", -1);
    let body = refused(
        &trusting.harbor,
        &format!("Authorization: Bearer {token}\r\n"),
    )
    .await;
    assert!(body["reason"].as_str().unwrap().contains("expired"));
    stays.received().await;
}

/// T57: who does not read cannot put the end off, and speak on meanwhile.
#[tokio::test]
async fn a_token_that_lapses_closes_who_does_not_read() {
    let ed = Issuer::new("EdDSA");
    let settings = Settings {
        outbox_bytes: Some(64 << 20),
        ..Settings::default()
    };
    let trusting = Trusting::start(&[&ed], settings).await;
    let mut deaf = Raw::with_buffers(&trusting.harbor, 4_096).await;
    let lines = format!("Authorization: Bearer {}\r\n", ed.token("deaf", 4));
    assert_eq!(deaf.upgrade(&lines).await.status, 101);
    deaf.next_json().await;
    deaf.write(&raw::text(&registration("deaf"))).await;
    assert_eq!(deaf.next_json().await["type"], "synapse.registered");
    let (mut feeder, _) = register(&trusting.harbor, "feeder", &ed.token("feeder", 600)).await;
    let much = json!({"receiver": {"agent_id": "deaf"}, "payload": "x".repeat(500_000)});
    for _ in 0..20 {
        assert_eq!(feeder.deliver(much.clone()).await, 1);
    }
    assert!(
        trusting.harbor.metric("harbor_outbox_bytes") > 0.0,
        "its socket is blocked"
    );
    let closed = || {
        trusting
            .harbor
            .metric_with("harbor_connections_closed_total", "unauthorised")
    };
    soon("it is closed", async {
        while closed() == 0.0 {
            deaf.try_write(&raw::frame(raw::FIN | raw::PING, b"here"))
                .await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(feeder.deliver(much).await, 0, "it is gone");
}

/// T57: a renewal in band keeps the connection, while it is idle and while it is busy.
#[tokio::test]
async fn a_renewal_keeps_the_connection() {
    let (ed, hmac) = (Issuer::new("EdDSA"), Issuer::new("HS256"));
    let trusting = Trusting::start(&[&ed, &hmac], Settings::default()).await;
    let (mut idle, first) = register(&trusting.harbor, "idle", &ed.token("idle", 3)).await;
    let (mut busy, _) = register(&trusting.harbor, "busy", &ed.token("busy", 3)).await;
    let renewed = |token: String| json!({ "token": token });
    // Each refusal leaves the connection and its end as they were.
    for (payload, code) in [
        (json!({}), "missing_field"),
        (json!({"token": null}), "missing_field"),
        (json!({"token": 5}), "invalid_field"),
        (renewed(Issuer::impostor().token("idle", 60)), "bad_token"),
        (renewed(ed.token("idle", -1)), "bad_token"),
        (renewed(ed.token("busy", 60)), "bad_token"),
    ] {
        let refusal = idle
            .refused(json!({"type": "synapse.renew", "payload": payload}))
            .await;
        assert_eq!(refusal, pair(code, "payload.token"), "{payload}");
    }
    for agent in [&mut idle, &mut busy] {
        // Another issuer may renew it.
        let token = hmac.token(&agent.id, 60);
        let answer = agent.control("synapse.renew", renewed(token)).await;
        assert!(seconds(&answer["expires_at"]) > seconds(&first["expires_at"]) + 50);
    }
    while now() <= seconds(&first["expires_at"]) + 2 {
        assert_eq!(
            busy.deliver(json!({"receiver": {"agent_id": "idle"}, "payload": 1}))
                .await,
            1
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(
        !idle.received().await.is_empty(),
        "and so does what it is sent"
    );
    // A shorter one counts as well: the newest token is the one.
    let token = ed.token("idle", 1);
    idle.control("synapse.renew", renewed(token)).await;
    assert_eq!(idle.closed().await, Some(4003));
    busy.received().await;
}

#[tokio::test]
async fn who_registered_without_a_token_has_none_to_renew() {
    let ed = Issuer::new("EdDSA");
    let settings = Settings {
        auth: Some("open".to_owned()),
        ..Settings::default()
    };
    let trusting = Trusting::start(&[&ed], settings).await;
    let mut agent = Agent::register(&trusting.harbor, "a").await;
    let renewal = json!({"type": "synapse.renew", "payload": {"token": ed.token("a", 1)}});
    assert_eq!(
        agent.refused(renewal).await,
        pair("bad_token", "payload.token")
    );
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    agent.received().await;
}

#[tokio::test]
async fn a_takeover_has_an_end_of_its_own() {
    let ed = Issuer::new("EdDSA");
    let trusting = Trusting::start(&[&ed], Settings::default()).await;
    let (mut older, first) = register(&trusting.harbor, "a", &ed.token("a", 2)).await;
    let (mut newer, payload) = register(&trusting.harbor, "a", &ed.token("a", 60)).await;
    assert_eq!(payload["resumed"], true);
    assert_eq!(older.closed().await, Some(4001));
    while now() <= seconds(&first["expires_at"]) + 2 {
        assert_eq!(
            newer.deliver(json!({"receiver": {"agent_id": "a"}})).await,
            1
        );
        newer.next().await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_issuer_that_is_trusted_no_more_takes_its_bearers_along() {
    let (ed, hmac) = (Issuer::new("EdDSA"), Issuer::new("HS256"));
    let trusting = Trusting::start(&[&ed], Settings::default()).await;
    let (mut of_ed, _) = register(&trusting.harbor, "a", &ed.token("a", 600)).await;
    let token = hmac.token("b", 600);
    refused(
        &trusting.harbor,
        &format!("Authorization: Bearer {token}\r\n"),
    )
    .await;
    trusting.trust(&[&ed, &hmac]);
    let mut of_hmac = loop {
        let mut peer = Raw::connect(&trusting.harbor).await;
        let lines = format!("Authorization: Bearer {token}\r\n");
        if peer.upgrade(&lines).await.status == 101 {
            break register(&trusting.harbor, "b", &token).await.0;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    of_ed.received().await;
    // What cannot be used changes nothing: no JSON, or a secret that others may read.
    std::fs::write(&trusting.path, "{").unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    of_ed.received().await;
    trusting.trust(&[&hmac]);
    assert_eq!(of_ed.closed().await, Some(4003));
    of_hmac.received().await;
    // An empty set is a set: nobody's tokens are taken.
    trusting.trust(&[]);
    assert_eq!(of_hmac.closed().await, Some(4003));
}

/// T57: a file on a disk that does not answer is waited for beside everything else. A pipe that
/// nobody writes to stands for it.
#[tokio::test]
async fn a_file_that_hangs_puts_no_end_off() {
    let ed = Issuer::new("EdDSA");
    let trusting = Trusting::start(&[&ed], Settings::default()).await;
    let (mut ends, _) = register(&trusting.harbor, "ends", &ed.token("ends", 4)).await;
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    std::fs::rename(&link, &trusting.path).unwrap();
    assert_eq!(ends.closed().await, Some(4003));
    // Once it answers, the file is followed as before.
    trusting.trust(&[&ed]);
    let writer = tokio::task::spawn_blocking(move || std::fs::write(pipe, "{}"));
    soon("the pipe is read", writer).await.unwrap().unwrap();
    register(&trusting.harbor, "later", &ed.token("later", 60)).await;
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.json");
    let problems = |settings: Settings| settings.into_config().err().unwrap_or_default();
    let with = |path: &std::path::Path| Settings {
        tokens: Some(path.to_owned()),
        ..Settings::default()
    };
    assert!(problems(with(&path))[0].starts_with("tokens: "), "no file");
    for (issuer, opened) in [(Issuer::new("HS256"), false), (Issuer::new("ES256"), true)] {
        crate::support::issuer::write(&path, &[&issuer]);
        assert!(problems(with(&path)).is_empty());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(problems(with(&path)).is_empty(), opened, "{}", issuer.alg);
    }
    let beyond = Settings {
        listen: Some("0.0.0.0:0".parse().unwrap()),
        auth: Some("required".to_owned()),
        permissions: Some(EVERYTHING_PERMITTED.into()),
        ..with(&path)
    };
    assert!(problems(beyond).is_empty(), "tokens prove who agents are");
    let empty = Settings {
        token_audience: Some(String::new()),
        ..with(&path)
    };
    assert!(problems(empty)[0].starts_with("token_audience"));
    let nothing = Settings {
        auth: Some("required".to_owned()),
        ..Settings::default()
    };
    assert!(problems(nothing)[0].starts_with("keys: "));
}
