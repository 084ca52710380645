//! Goal: a takeover from a connection that is blocked loses nothing and doubles nothing.
//! Method: an older connection that is not read while messages pile up; the newer one takes over,
//! and afterwards the older one is read to its end.

use futures_util::StreamExt;
use harbor::Settings;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Agent, Harbor, soon};

/// The numbers of the messages that come until the connection ends.
async fn numbers_to_the_end(agent: &mut Agent) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(Ok(message)) = soon("the end", agent.socket.next()).await {
        if let Message::Text(text) = message {
            let frame: Value = serde_json::from_str(&text).unwrap();
            numbers.extend(frame["payload"]["n"].as_u64());
        }
    }
    numbers
}

/// The numbers of the messages that come up to `last`. Nothing is sent, so that a full backlog stays as it is.
async fn numbers_through(agent: &mut Agent, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        let frame = agent.next().await;
        numbers.extend(frame["payload"]["n"].as_u64());
    }
    numbers
}

/// T34: whole messages reach the older connection, the rest the newer one, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_a_blocked_connection_nothing_is_lost_and_nothing_comes_twice() {
    const COUNT: u64 = 120;
    let harbor = Harbor::start().await;
    let mut sender = Agent::register(&harbor, "sender").await;
    let mut older = Agent::register(&harbor, "a").await;
    for n in 0..COUNT {
        let payload = json!({"n": n, "text": "x".repeat(90_000)});
        let members = json!({"receiver": {"agent_id": "a"}, "payload": payload});
        assert_eq!(sender.deliver(members).await, 1, "message {n}");
    }
    assert!(harbor.metric("harbor_outbox_bytes") > 0.0, "some wait");
    let mut newer = Agent::register(&harbor, "a").await;
    let on_newer = numbers_through(&mut newer, COUNT - 1).await;
    let mut all = numbers_to_the_end(&mut older).await;
    assert!(!all.is_empty() && !on_newer.is_empty());
    all.extend(on_newer);
    assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
    assert_eq!(harbor.metric("harbor_deliveries_dropped_total"), 0.0);
    newer.close().await;
    drop(sender);
    harbor.is_empty().await;
    assert_eq!(
        harbor.metric("harbor_deliveries_written_total"),
        COUNT as f64
    );
}

/// A backlog that leaves no room does not keep the newer connection out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_backlog_is_taken_over() {
    let harbor = Harbor::with(Settings {
        max_frame_bytes: Some(64 << 10),
        outbox_bytes: Some(128 << 10),
        ..Settings::default()
    })
    .await;
    let mut sender = Agent::register(&harbor, "sender").await;
    let mut older = Agent::register(&harbor, "a").await;
    let mut sent = 0_u64;
    // The last one leaves less room than `synapse.registered` takes.
    while harbor.metric("harbor_outbox_bytes") + 1_200.0 < f64::from(128 << 10) {
        let payload = json!({"n": sent, "text": "x".repeat(1_000)});
        let members = json!({"receiver": {"agent_id": "a"}, "payload": payload});
        assert_eq!(sender.deliver(members).await, 1);
        sent += 1;
    }
    let room = f64::from(128 << 10) - harbor.metric("harbor_outbox_bytes");
    assert!(room < 1_300.0 && sent > 100);
    let mut newer = Agent::register(&harbor, "a").await;
    let on_newer = numbers_through(&mut newer, sent - 1).await;
    assert!(
        on_newer.len() > 90,
        "{} of the backlog came",
        on_newer.len()
    );
    let mut all = numbers_to_the_end(&mut older).await;
    all.extend(on_newer);
    assert_eq!(all, (0..sent).collect::<Vec<_>>());
    assert_eq!(harbor.metric("harbor_deliveries_dropped_total"), 0.0);
}
