//! How a node goes away: agents are told when to come back, their queues are flushed, and they are
//! closed with 1001. The listener stays until the end, to answer 503.
//!
//! The end of every frame's way.

use std::sync::Arc;

use synapse::{
    control::{Draining, kind},
    refusal::Close,
};
use tokio::time::timeout;

use crate::node::Node;

/// Longest time by which agents are told to spread their return, in milliseconds.
const RECONNECT_SPREAD_MS: u64 = 2_000;

/// Ends every connection. Whether all ended within the configured time.
pub(crate) async fn drain(node: &Arc<Node>) -> bool {
    node.stopping.cancel();
    for agent in node.registry.all() {
        let payload = Draining {
            reconnect_after_ms: fastrand::u64(100..RECONNECT_SPREAD_MS),
        };
        let frame = node.answers.frame(kind::DRAINING, "", &payload);
        let generation = agent.outbox.generation();
        agent.outbox.push_control(generation, frame, &node.metrics);
        agent.outbox.close(Close::Draining);
    }
    node.tasks.close();
    let is_done = timeout(node.config.drain, node.tasks.wait()).await.is_ok();
    if !is_done {
        tracing::warn!(
            left = node.tasks.len(),
            "not every connection ended in time"
        );
    }
    is_done
}
