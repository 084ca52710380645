//! Goal: one stranger, or one broken agent, takes no more than its share, and is told so; everybody
//! else goes on.
//! Method: each limit made small, reached over real sockets beside agents that are not concerned.

use std::time::Duration;

use futures_util::SinkExt;
use harbor::Settings;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    Agent, Harbor, Raw, agent::refusal_of, eventually, leap, process::Process, raw, raw::Answer,
    soon,
};

fn limited(harbor: &Harbor, limit: &str) -> f64 {
    harbor.metric_with("harbor_limited_total", &format!("limit={limit:?}"))
}

/// Status, code and time to wait of an upgrade that was refused.
fn refused(answer: &Answer) -> (u16, String, u64) {
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert!(body.get("field").is_none(), "{body}");
    let code = body["code"].as_str().unwrap().to_owned();
    (
        answer.status,
        code,
        body["retry_after_ms"].as_u64().unwrap(),
    )
}

/// Upgrades from an address of this machine, again and again until there is a place.
async fn soon_upgraded(harbor: &Harbor, address: &str) -> Raw {
    let mut raw = Raw::connect_from(harbor, address).await;
    soon("a place is free", async {
        while raw.upgrade("").await.status != 101 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    raw
}

async fn talk(from: &mut Agent, to: &mut Agent) {
    let message = json!({"receiver": {"agent_id": to.id}, "payload": "as ever"});
    assert_eq!(from.deliver(message).await, 1);
    assert_eq!(to.next().await["payload"], "as ever");
}

#[tokio::test]
async fn an_address_has_so_many_connections_and_others_theirs() {
    let harbor = Harbor::with(Settings {
        connections_per_address_max: Some(2),
        ..Settings::default()
    })
    .await;
    let mut a = Agent::register(&harbor, "a").await;
    let mut b = Agent::register(&harbor, "b").await;
    let too_many = (429, "rate_limited".to_owned(), 1_000);
    let mut third = Raw::connect(&harbor).await;
    for _ in 0..3 {
        assert_eq!(refused(&third.upgrade("").await), too_many);
    }
    assert_eq!(limited(&harbor, "connections_per_address_max"), 3.0);
    assert_eq!(
        harbor.metric_with("harbor_refusals_total", r#"code="rate_limited""#),
        3.0
    );
    let elsewhere = [
        soon_upgraded(&harbor, "127.0.0.2").await,
        soon_upgraded(&harbor, "127.0.0.2").await,
    ];
    let mut one_more = Raw::connect_from(&harbor, "127.0.0.2").await;
    assert_eq!(refused(&one_more.upgrade("").await), too_many);
    let health = "GET /healthz HTTP/1.1\r\nHost: harbor\r\n\r\n";
    assert_eq!(third.ask(health).await.status, 200, "only WebSockets count");
    talk(&mut a, &mut b).await;
    drop(elsewhere);
    drop(soon_upgraded(&harbor, "127.0.0.2").await);
    b.close().await;
    soon_upgraded(&harbor, "127.0.0.1").await;
}

#[tokio::test]
async fn without_the_setting_one_address_may_have_them_all() {
    let harbor = Harbor::with(Settings {
        connections_max: Some(3),
        ..Settings::default()
    })
    .await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Agent::connect(&harbor).await);
    }
    let answer = Raw::connect(&harbor).await.upgrade("").await;
    assert_eq!(refused(&answer), (503, "overloaded".to_owned(), 1_000));
    assert_eq!(limited(&harbor, "connections_max"), 1.0);
}

#[tokio::test]
async fn those_who_do_not_register_leave_room_for_those_who_did() {
    let harbor = Harbor::with(Settings {
        unregistered_max: Some(2),
        connect_deadline_seconds: Some(60),
        heartbeat_seconds: Some(3_600),
        ..Settings::default()
    })
    .await;
    let mut a = Agent::register(&harbor, "a").await;
    let mut b = Agent::register(&harbor, "b").await;
    eventually("both hold no such place", || {
        harbor.metric("harbor_unregistered") == 0.0
    })
    .await;
    let mut first = Agent::connect(&harbor).await;
    let second = Agent::connect(&harbor).await;
    assert_eq!(harbor.metric("harbor_unregistered"), 2.0);
    let mut third = Raw::connect(&harbor).await;
    for _ in 0..3 {
        let answer = third.upgrade("").await;
        assert_eq!(refused(&answer), (503, "overloaded".to_owned(), 1_000));
    }
    assert_eq!(limited(&harbor, "unregistered_max"), 3.0);
    talk(&mut a, &mut b).await;

    // One that registers, one that leaves and one that is too slow each make room.
    let answer = first
        .try_register(json!({"agent_id": "c"}), json!({}))
        .await;
    assert_eq!(answer["type"], "synapse.registered");
    let mut slow = soon_upgraded(&harbor, "127.0.0.1").await;
    drop(second);
    let _stays = soon_upgraded(&harbor, "127.0.0.1").await;
    assert_eq!(
        refused(&third.upgrade("").await).0,
        503,
        "full with other two"
    );
    leap(Duration::from_secs(60)).await;
    assert_eq!(slow.closed().await.unwrap().0, 4008);
    soon_upgraded(&harbor, "127.0.0.1").await;
    talk(&mut a, &mut b).await;
    talk(&mut b, &mut first).await;
}

#[tokio::test]
async fn the_eighth_refused_registration_ends_the_connection() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    let mut guesser = Agent::connect(&harbor).await;
    let mut patient = Agent::connect(&harbor).await;
    let wrong = json!({"receipts": true});
    for _ in 0..7 {
        for peer in [&mut guesser, &mut patient] {
            let answer = peer
                .try_register(json!({"agent_id": "x"}), wrong.clone())
                .await;
            assert_eq!(refusal_of(&answer).1, "payload.receipts");
        }
    }
    let answer = guesser.try_register(json!({"agent_id": "x"}), wrong).await;
    assert_eq!(
        refusal_of(&answer).0,
        "unsupported",
        "the last one is told, too"
    );
    assert_eq!(guesser.closed().await, Some(4003));
    assert_eq!(limited(&harbor, "refused_registrations"), 1.0);

    let answer = patient
        .try_register(json!({"agent_id": "x"}), json!({}))
        .await;
    assert_eq!(
        answer["type"], "synapse.registered",
        "after seven in another place"
    );
    for _ in 0..20 {
        let again = json!({"type": "synapse.register"});
        assert_eq!(patient.refused(again).await.0, "already_registered");
    }
    talk(&mut patient, &mut a).await;
}

#[tokio::test]
async fn the_64th_other_refused_frame_ends_the_connection() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    let mut noisy = Agent::connect(&harbor).await;
    let chat = noisy.envelope(json!({"sender": {"agent_id": "x"}, "receiver": {"agent_id": "a"}}));
    for at in 0..64 {
        // What is no refused frame does not count.
        let ping = Message::Ping("alive".into());
        soon("a ping", noisy.socket.send(ping)).await.unwrap();
        match at % 3 {
            0 => noisy.send(&chat).await,
            1 => noisy.send_text("no JSON").await,
            _ => noisy.socket.send(vec![1, 2, 3].into()).await.unwrap(),
        }
        let expected = ["not_registered", "malformed", "binary_frame"][at % 3];
        assert_eq!(refusal_of(&noisy.next().await).0, expected);
        if at % 10 == 0 && at > 0 {
            let answer = noisy
                .try_register(json!({"agent_id": "harbor"}), json!({}))
                .await;
            assert_eq!(
                refusal_of(&answer).0,
                "invalid_field",
                "registrations are counted apart"
            );
        }
    }
    assert_eq!(noisy.closed().await, Some(4008));
    assert_eq!(limited(&harbor, "refused_frames"), 1.0);
    // Who has registered may be refused as often as it likes.
    for _ in 0..100 {
        assert_eq!(a.refused(json!({})).await.0, "no_destination");
    }
    let mut b = Agent::register(&harbor, "b").await;
    talk(&mut a, &mut b).await;
}

/// What a peer sends before it has registered is bounded in all, however it is cut; afterwards it is not.
#[tokio::test]
async fn a_peer_that_has_not_registered_sends_so_many_bytes() {
    let harbor = Harbor::start().await;
    let part = vec![b' '; 30_000];
    let whole = raw::frame(raw::FIN | raw::TEXT, &part);
    let fragments = [
        raw::frame(raw::TEXT, &part),
        raw::frame(raw::CONTINUATION, &part),
    ];
    let ping = raw::frame(raw::FIN | raw::PING, &[]);
    for (first, then) in [(&whole, &whole), (&fragments[0], &fragments[1])] {
        let mut peer = Raw::connect(&harbor).await;
        assert_eq!(peer.upgrade("").await.status, 101);
        peer.write(first).await;
        for _ in 0..8 {
            peer.try_write(&[&ping[..], then].concat()).await;
        }
        assert_eq!(peer.closed().await.unwrap().0, 1009);
    }
    let mut a = Agent::register(&harbor, "a").await;
    for _ in 0..3 {
        let large = json!({"receiver": {"agent_id": "a"}, "payload": "x".repeat(1_000_000)});
        assert_eq!(a.deliver(large).await, 1);
        a.next_text().await;
    }
}

/// Checks a `rate_limited` as PROTOCOL.md describes it; how long to wait.
fn too_fast(answer: &Value) -> Duration {
    assert_eq!(
        refusal_of(answer),
        ("rate_limited".to_owned(), String::new())
    );
    let payload = &answer["payload"];
    assert!(payload.get("field").is_none(), "{payload}");
    Duration::from_millis(payload["retry_after_ms"].as_u64().unwrap())
}

#[tokio::test]
async fn an_agent_sends_so_many_messages_a_second() {
    let harbor = Harbor::with(Settings {
        messages_per_second: Some(10),
        ..Settings::default()
    })
    .await;
    let mut fast = Agent::register(&harbor, "fast").await;
    let mut other = Agent::register(&harbor, "other").await;
    let mut receiver = Agent::register(&harbor, "receiver").await;
    let started = Instant::now();
    let mut sent = Vec::new();
    for n in 0..200 {
        let members = if n % 2 == 0 {
            json!({"receiver": {"agent_id": "receiver"}, "payload": n})
        } else {
            json!({"type": "synapse.group.members", "payload": {"group_id": "g"}})
        };
        let envelope = fast.envelope(members);
        fast.send(&envelope).await;
        sent.push(envelope);
    }
    let (mut expected, mut passed, mut wait) = (Vec::new(), 0.0, Duration::ZERO);
    for envelope in &sent {
        let answer = fast.next().await;
        assert_eq!(answer["correlation_id"], envelope["id"], "in order");
        if answer["type"] == "synapse.refused" {
            wait = too_fast(&answer);
            assert!(wait <= Duration::from_millis(100), "{wait:?}");
            continue;
        }
        passed += 1.0;
        if envelope["type"] == "chat" {
            expected.push(envelope["payload"].clone());
        }
    }
    let most = 10.0 + 10.0 * started.elapsed().as_secs_f64();
    assert!(
        (10.0..=most).contains(&passed),
        "{passed} of at most {most}"
    );
    assert_eq!(limited(&harbor, "messages_per_second"), 200.0 - passed);

    leap(wait).await;
    let last = json!({"receiver": {"agent_id": "receiver"}, "payload": "later"});
    assert_eq!(fast.deliver(last).await, 1, "the connection lives");
    expected.push("later".into());
    assert_eq!(
        receiver.received().await,
        expected,
        "nothing of what was refused"
    );
    talk(&mut other, &mut receiver).await;
}

/// A full bucket holds 8,192 bytes, and takes 13 minutes to fill.
async fn with_few_bytes() -> Harbor {
    Harbor::with(Settings {
        bytes_per_second: Some(10),
        max_frame_bytes: Some(8_192),
        heartbeat_seconds: Some(3_600),
        ..Settings::default()
    })
    .await
}

/// A message to itself of more than half a bucket.
fn large(agent: &Agent) -> Value {
    agent.envelope(json!({"receiver": {"agent_id": agent.id}, "payload": "x".repeat(5_000)}))
}

#[tokio::test]
async fn an_agent_sends_so_many_bytes_a_second() {
    let harbor = with_few_bytes().await;
    let mut a = Agent::register(&harbor, "a").await;
    let mut other = Agent::register(&harbor, "other").await;
    let full = large(&a);
    assert_eq!(a.deliver(full.clone()).await, 1);
    assert_eq!(a.next().await["payload"], full["payload"]);
    // Pings, pongs and what is no envelope cost nothing.
    for _ in 0..100 {
        let ping = Message::Ping(vec![0; 125].into());
        soon("a ping", a.socket.send(ping)).await.unwrap();
        a.send_text("x".repeat(1_000)).await;
        assert_eq!(refusal_of(&a.next().await).0, "malformed");
    }
    // Nor does what was refused.
    let mut wait = Duration::ZERO;
    for _ in 0..20 {
        wait = too_fast(&a.ask(large(&a)).await);
    }
    let missing = 2 * full.to_string().len() - 8_192;
    assert!(
        wait <= Duration::from_millis(100 * (missing as u64 + 10)),
        "{wait:?}"
    );
    assert!(wait > Duration::from_secs(60), "{wait:?}");
    assert_eq!(limited(&harbor, "bytes_per_second"), 20.0);
    let question = json!({"type": "synapse.discover", "payload": {"x": "x".repeat(5_000)}});
    too_fast(&a.ask(question).await);
    let small = json!({"receiver": {"agent_id": "other"}, "payload": "fits what is left"});
    assert_eq!(a.deliver(small).await, 1);
    assert_eq!(other.next().await["payload"], "fits what is left");
    talk(&mut other, &mut a).await;

    let wait = too_fast(&a.ask(large(&a)).await);
    leap(wait).await;
    assert_eq!(a.deliver(large(&a)).await, 1, "after the time it was told");
}

#[tokio::test]
async fn connecting_again_renews_no_pace() {
    let harbor = with_few_bytes().await;
    let mut first = Agent::register(&harbor, "a").await;
    assert_eq!(first.deliver(large(&first)).await, 1);
    first.next().await;
    let mut second = Agent::register(&harbor, "a").await;
    assert_eq!(first.closed().await, Some(4001));
    too_fast(&second.ask(large(&second)).await);
    second.close().await;
    harbor.is_empty().await;
    let mut third = Agent::register(&harbor, "a").await;
    let wait = too_fast(&third.ask(large(&third)).await);
    leap(wait).await;
    assert_eq!(third.deliver(large(&third)).await, 1);
    let mut other = Agent::register(&harbor, "b").await;
    assert_eq!(
        other.deliver(large(&other)).await,
        1,
        "another agent has its own"
    );
}

/// The value of a metric, over a connection that is there already.
async fn metric_over(http: &mut Raw, name: &str) -> f64 {
    let answer = http
        .ask("GET /metrics HTTP/1.1\r\nHost: harbor\r\n\r\n")
        .await;
    let mut lines = answer.body.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)).unwrap();
    value.trim().parse().unwrap()
}

/// Out of file descriptors, those who are there go on, and nobody's log is filled.
#[tokio::test]
async fn without_file_descriptors_connections_go_on_and_new_ones_wait() {
    let harbor = Process::with_files(64, &["--connect-deadline-seconds", "600"]).await;
    let started = Instant::now();
    let mut a = Agent::register_at(&harbor.url, "a").await;
    let mut b = Agent::register_at(&harbor.url, "b").await;
    let mut http = Raw::connect_to(harbor.addr()).await;
    assert_eq!(
        metric_over(&mut http, "harbor_accepts_failed_total").await,
        0.0
    );
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(Raw::connect_to(harbor.addr()).await);
    }
    let failed = "harbor_accepts_failed_total";
    soon("several accepts fail", async {
        while metric_over(&mut http, failed).await < 5.0 {
            talk(&mut a, &mut b).await;
        }
    })
    .await;
    talk(&mut b, &mut a).await;
    // The last in the backlog is served once there is room again.
    let mut last = held.pop().unwrap();
    drop(held);
    assert_eq!(last.upgrade("").await.status, 101);
    let mut c = Agent::register_at(&harbor.url, "c").await;
    talk(&mut a, &mut c).await;
    assert!(metric_over(&mut http, failed).await >= 5.0);
    let said = harbor.said().await;
    let told = said.matches("cannot accept a connection").count();
    let most = 1 + started.elapsed().as_secs() as usize / 10;
    assert!(
        (1..=most).contains(&told),
        "{told} of at most {most}: {said}"
    );
}
