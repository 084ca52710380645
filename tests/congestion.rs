//! Goal: congestion passes. A receiver that reads late gets what it missed, however large the
//! messages, and afterwards all goes as before.
//! Method: rounds of messages near the limit to a receiver that does not read, then reads all.

use serde_json::{Value, json};

use crate::support::{Agent, Harbor, Raw, raw, soon};

async fn reader(harbor: &Harbor) -> Raw {
    let groups = json!({"groups": [{"group_id": "g"}]});
    let raw = Raw::with_buffers(harbor, 32_768).await;
    raw.registered(json!({"agent_id": "reader"}), groups).await
}

/// T44: size alone never loses a message, and after each congestion the same connection goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_arrives_and_the_flow_returns_by_itself() {
    let harbor = Harbor::start().await;
    let mut reader = reader(&harbor).await;
    let mut sender = Agent::register(&harbor, "sender").await;
    for round in 0..4 {
        let large: Vec<Value> = (0..7)
            .map(|n| json!([round, n, "L".repeat(1_040_000)]))
            .collect();
        for payload in &large {
            let members = json!({"group_id": "g", "payload": payload});
            assert_eq!(sender.deliver(members).await, 1);
        }
        assert!(
            harbor.metric("harbor_outbox_bytes") > 2_000_000.0,
            "congested"
        );
        for payload in &large {
            assert!(
                reader.next_json().await["payload"] == *payload,
                "round {round}"
            );
        }
        // Small ones, one after the other, as if nothing had been.
        for n in 0..200 {
            let members = json!({"receiver": {"agent_id": "reader"}, "payload": n});
            assert_eq!(sender.deliver(members).await, 1);
            assert_eq!(reader.next_json().await["payload"], n);
        }
    }
    assert_eq!(harbor.metric("harbor_deliveries_dropped_total"), 0.0);
    assert_eq!(
        harbor.metric("harbor_deliveries_written_total"),
        4.0 * 207.0
    );
}

/// T44: a sender is never stuck behind a receiver that it once overwhelmed: that one is closed, and
/// after it came back everything arrives again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_too_much_congestion_the_flow_returns_with_the_receiver() {
    let harbor = Harbor::start().await;
    let mut sender = Agent::register(&harbor, "sender").await;
    let large = json!("L".repeat(1_040_000));
    for _ in 0..2 {
        let mut overwhelmed = reader(&harbor).await;
        let members = json!({"group_id": "g", "payload": large});
        soon("it is overwhelmed", async {
            while sender.deliver(members.clone()).await > 0 {}
        })
        .await;
        let mut back = reader(&harbor).await;
        for _ in 0..7 {
            assert_eq!(sender.deliver(members.clone()).await, 1);
            assert!(back.next_json().await["payload"] == large);
        }
        back.write(&raw::frame(raw::FIN | raw::CLOSE, &[])).await;
        assert_eq!(back.close_code().await, Some(0));
        // What it did read were whole messages.
        while let Some(text) = overwhelmed.text_or_end().await {
            let delivery: Value = serde_json::from_slice(&text).unwrap();
            assert!(delivery["payload"] == large);
        }
    }
    drop(sender);
    harbor.is_empty().await;
}
