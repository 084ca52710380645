//! How a node goes away: agents are told when to come back, their queues are flushed, and they are
//! closed with 1001. The listener stays until the end, to answer 503.
//!
//! No agent is missed: the node is draining before the registry is walked, and a connection looks
//! whether it is after it has registered. Either the walk meets the agent, or the agent finds out.
//!
//! The end of every frame's way.

use std::sync::Arc;

use synapse::{
    control::{Draining, kind},
    refusal::Close,
};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{limits::RECONNECT_AFTER_MS, node::Node};

/// Ends every connection. Whether all ended within the configured time.
pub(crate) async fn drain(node: &Arc<Node>) -> bool {
    node.start_draining();
    close_agents(node);
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

/// Closes every agent there is. Each is told by its own connection, which may be a newer one by now.
fn close_agents(node: &Node) {
    for agent in node.registry.all() {
        agent.outbox.close(Close::Draining);
    }
}

/// What agents are told.
pub(crate) fn notice(node: &Node) -> Utf8Bytes {
    let payload = Draining {
        reconnect_after_ms: fastrand::u64(RECONNECT_AFTER_MS),
    };
    node.answers.frame(kind::DRAINING, "", &payload)
}
