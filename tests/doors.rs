//! Goal: the HTTP doors serve monitoring, and a connection at them ends when it is of no use.
//! Method: hand-written requests over raw TCP; where only time must pass, it is leapt over.

use std::time::Duration;

use harbor::Settings;
use serde_json::json;

use crate::support::{Agent, Harbor, Raw, leap, raw::UPGRADE, soon};

/// A Harbor that waits one second.
async fn hasty() -> Harbor {
    Harbor::with(Settings {
        connect_deadline_seconds: Some(1),
        ..Settings::default()
    })
    .await
}

/// The doors of monitoring: health, readiness while draining, and metrics as OpenMetrics text.
#[tokio::test]
async fn health_readiness_and_metrics() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    a.deliver(json!({"receiver": {"agent_id": "a"}})).await;
    let mut peer = Raw::connect(&harbor).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: harbor\r\n\r\n");
    assert_eq!(peer.ask(&get("/healthz")).await.body, "ok\n");
    assert_eq!(peer.ask(&get("/readyz")).await.body, "ready\n");
    let metrics = peer.ask(&get("/metrics")).await;
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(metrics.head.contains(kind), "{}", metrics.head);
    for line in [
        "harbor_connections 1",
        "harbor_agents 1",
        "harbor_messages_accepted_total 1",
        "harbor_connections_opened_total 1",
        "harbor_outbox_bytes 0",
        "harbor_fanout_recipients_bucket{le=\"1.0\"} 1",
        "harbor_delivery_seconds_count 1",
        "# TYPE harbor_refusals counter",
        "# HELP harbor_agents Agents registered now.",
    ] {
        let found = metrics.body.lines().any(|found| found == line);
        assert!(found, "no {line} in\n{}", metrics.body);
    }
    assert!(metrics.body.ends_with("# EOF\n"));
    assert_eq!(peer.ask(&get("/healthz?x=1")).await.status, 200);
}

/// T01, T63: an HTTP connection that asked once and says nothing more is not kept for ever.
#[tokio::test]
async fn an_idle_http_connection_ends() {
    let harbor = hasty().await;
    let mut peer = Raw::connect(&harbor).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: harbor\r\n\r\n";
    assert_eq!(peer.ask(request).await.status, 200);
    assert_eq!(peer.ask(request).await.status, 200, "kept alive meanwhile");
    peer.ended().await;
}

/// T63: a peer that asks and asks and reads no answer is not kept for ever.
#[tokio::test]
async fn who_reads_no_http_answers_ends_at_the_deadline() {
    let harbor = hasty().await;
    let mut deaf = Raw::with_buffers(&harbor, 4096).await;
    let requests = "GET /metrics HTTP/1.1\r\nHost: harbor\r\n\r\n".repeat(100);
    let ask = async { while deaf.try_write(requests.as_bytes()).await {} };
    soon("the deaf one ends", ask).await;
    Agent::register(&harbor, "well").await;
}

/// An HTTP connection that is used lives longer than the deadline, and an upgrade on it has its own.
#[tokio::test]
async fn the_deadline_of_a_later_request_counts_from_it() {
    let harbor = Harbor::start().await;
    let mut peer = Raw::connect(&harbor).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: harbor\r\n\r\n";
    for _ in 0..4 {
        assert_eq!(peer.ask(request).await.status, 200);
        leap(Duration::from_secs(10)).await;
    }
    peer.registered(json!({"agent_id": "late"}), json!({}))
        .await;
    assert_eq!(harbor.metric("harbor_agents"), 1.0);

    let mut first = Raw::connect(&harbor).await;
    first.write(UPGRADE.as_bytes()).await;
    // The accept is behind this.
    assert_eq!(Raw::connect(&harbor).await.ask(request).await.status, 200);
    leap(Duration::from_secs(10)).await;
    first.write(b"\r\n").await;
    assert_eq!(first.answer().await.status, 101);
    assert_eq!(first.next_json().await["type"], "synapse.challenge");
    leap(Duration::from_secs(6)).await;
    assert_eq!(
        first.close_code().await,
        Some(4008),
        "from the TCP connection"
    );
}
