//! Goal: an agent that does not read costs a bounded amount and delays nobody but itself.
//! Method: real sockets of which one is not read; the others go on meanwhile.

use std::time::Duration;

use harbor::Settings;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Agent, Harbor, Raw, eventually, raw};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_is_closed_and_the_rest_of_the_group_goes_on() {
    let harbor = Harbor::with(Settings {
        outbox_bytes: Some(2 << 20),
        max_frame_bytes: Some(1 << 20),
        ..Settings::default()
    })
    .await;
    let mut sender = Agent::register(&harbor, "sender").await;
    let mut stuck = Agent::in_groups(&harbor, "stuck", &[("g", &[])]).await;
    let mut lively = Agent::in_groups(&harbor, "lively", &[("g", &[])]).await;
    let text = "x".repeat(100_000);
    let mut sent = 0;
    let mut recipients = 2;
    let mut slowest = Duration::ZERO;
    // Kernel buffers of loopback take some MB before the outbox fills.
    while recipients == 2 {
        assert!(sent < 1_000, "the outbox never fills");
        let started = Instant::now();
        recipients = sender
            .deliver(json!({"group_id": "g", "payload": {"n": sent, "text": text}}))
            .await;
        sent += 1;
        assert_eq!(lively.next().await["payload"]["n"], sent - 1);
        slowest = slowest.max(started.elapsed());
        assert!(harbor.metric("harbor_outbox_bytes") <= 3.0 * f64::from(2 << 20));
    }
    assert_eq!(recipients, 1, "the slow one is no recipient any more");
    assert!(
        slowest < Duration::from_secs(5),
        "nobody waits for the slow one: {slowest:?}"
    );
    assert_eq!(sender.deliver(json!({"group_id": "g"})).await, 1);
    let reason = "reason=\"too_slow\"";
    eventually("the slow one is closed", || {
        harbor.metric_with("harbor_connections_closed_total", reason) == 1.0
    })
    .await;
    assert!(harbor.metric("harbor_deliveries_dropped_total") >= 1.0);
    eventually("its bytes are given back", || {
        harbor.metric("harbor_outbox_bytes") == 0.0
    })
    .await;
    // It may read what was on its way; then it is told, or cut off if it left no room for that.
    let code = stuck.closed().await;
    assert!(matches!(code, Some(4008) | None), "{code:?}");
    let mut back = Agent::in_groups(&harbor, "stuck", &[("g", &[])]).await;
    assert_eq!(
        sender
            .deliver(json!({"group_id": "g", "payload": "again"}))
            .await,
        2
    );
    assert_eq!(back.received().await, ["again"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_reads_its_answers_is_closed_too() {
    use futures_util::SinkExt;
    let harbor = Harbor::with(Settings {
        outbox_bytes: Some(256 << 10),
        max_frame_bytes: Some(64 << 10),
        ..Settings::default()
    })
    .await;
    let mut deaf = Agent::register(&harbor, "deaf").await;
    let flood = async {
        loop {
            let frame = deaf
                .envelope(json!({"receiver": {"agent_id": "nobody"}}))
                .to_string();
            if deaf.socket.send(frame.into()).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), flood)
        .await
        .expect("it is cut off");
    assert_eq!(
        harbor.metric_with("harbor_connections_closed_total", "reason=\"too_slow\""),
        1.0
    );
    drop(deaf);
    harbor.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_flushes_what_waits_and_tells_when_to_come_back() {
    let harbor = Harbor::start().await;
    let mut sender = Agent::register(&harbor, "sender").await;
    let mut reader = Agent::register(&harbor, "reader").await;
    let text = "x".repeat(200_000);
    for n in 0..20 {
        let members =
            json!({"receiver": {"agent_id": "reader"}, "payload": {"n": n, "text": text}});
        assert_eq!(sender.deliver(members).await, 1);
    }
    let draining = tokio::spawn(harbor.drain());
    let mut seen = Vec::new();
    let mut reconnect_after_ms = None;
    while seen.len() < 20 || reconnect_after_ms.is_none() {
        let frame = reader.next().await;
        match frame["type"].as_str().unwrap() {
            "synapse.draining" => {
                reconnect_after_ms = frame["payload"]["reconnect_after_ms"].as_u64();
            }
            _ => seen.push(frame["payload"]["n"].as_u64().unwrap()),
        }
    }
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
    assert_eq!(reader.closed().await, Some(1001));
    assert_eq!(sender.closed().await, Some(1001));
    assert!(draining.await.unwrap(), "in time");
}

/// T63: every byte is a sign of life. A large frame over a slow line takes more than two heartbeats,
/// and a client that is in the middle of it cannot answer a ping.
#[tokio::test]
async fn a_frame_that_takes_several_heartbeats_is_not_cut() {
    let harbor = Harbor::with(Settings {
        heartbeat_seconds: Some(1),
        ..Settings::default()
    })
    .await;
    let mut slow = Raw::register(&harbor, "slow").await;
    let message = raw::text(&json!({
        "id": "m", "version": "1.0.0", "type": "t", "sender": {"agent_id": "slow"},
        "receiver": {"agent_id": "slow"}, "payload": 1, "timestamp": "2026-03-01T12:00:00Z",
    }));
    let started = Instant::now();
    for piece in message.chunks(message.len() / 35) {
        slow.write(piece).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(started.elapsed() > Duration::from_secs(3));
    let kinds = [slow.next_json().await, slow.next_json().await].map(|frame| frame["type"].clone());
    assert!(kinds.contains(&json!("t")), "{kinds:?}");
}
