//! What a node does once a second beside all frames: it follows the files that it was given, and
//! ends what they no longer allow.
//!
//! Started by `harbor`; what each file means is known to the part that it belongs to.

use std::{sync::Arc, time::Duration};

use synapse::refusal::Close;
use tokio::task::JoinHandle;

use crate::{keys::Expiry, node::Node, permissions};

const EVERY: Duration = Duration::from_secs(1);

/// How often the agents are looked through after a change of permissions: the second time for who
/// was just being let in by the older ones at the first.
const LOOKS_AFTER_CHANGE: u32 = 2;

/// Goes on until the node stops.
pub(crate) async fn keep_up(node: Arc<Node>) {
    let mut expiry = Expiry::default();
    expiry.look(&node.keys.ring(), &node.metrics);
    if let Some(tokens) = &node.config.tokens {
        tokens.tell();
    }
    let mut looks = 0;
    let mut following: Option<JoinHandle<bool>> = None;
    while tokio::time::timeout(EVERY, node.stopping.cancelled())
        .await
        .is_err()
    {
        // Files may be far away, and one that hangs must not put off what has ended.
        let mut followed = following.take().unwrap_or_else(|| {
            let looking = Arc::clone(&node);
            tokio::task::spawn_blocking(move || follow_files(&looking))
        });
        match tokio::time::timeout(EVERY, &mut followed).await {
            Ok(Ok(true)) => looks = LOOKS_AFTER_CHANGE,
            Ok(Ok(false) | Err(_)) => {}
            Err(_) => following = Some(followed),
        }
        expiry.look(&node.keys.ring(), &node.metrics);
        close_lapsed(&node);
        if looks > 0 {
            looks -= 1;
            permissions::look_through(&node);
        }
    }
}

/// Reads what has changed; one that cannot be read changes nothing. Whether permissions have.
fn follow_files(node: &Node) -> bool {
    if let Some(outcome) = node.keys.look_again() {
        node.metrics.keys_reloaded(&outcome);
        match outcome {
            Ok(()) => {
                let keys = node.keys.ring().all().count();
                tracing::info!(keys, "read the keyring again");
            }
            Err(problem) => tracing::error!("the keyring stays as it was: {problem}"),
        }
    }
    if let Some(tokens) = &node.config.tokens {
        tokens.look_again();
    }
    if let Some(outcome) = node.config.tls.as_ref().and_then(|tls| tls.look_again()) {
        node.metrics.tls_reloaded(&outcome);
        match outcome {
            Ok(()) => tracing::info!("new TLS certificate taken"),
            Err(problem) => tracing::error!("keeping the older TLS certificate: {problem}"),
        }
    }
    node.config.permissions.look_again()
}

/// Closes the connections whose key or token has ended.
fn close_lapsed(node: &Node) {
    for agent in node.registry.all() {
        if let Some(generation) = agent.lapsed(node) {
            tracing::info!(agent = %agent.id, "closing an agent whose key or token has ended");
            let close = Close::Unauthorised;
            agent.outbox.close_connection(generation, close);
        }
    }
}
