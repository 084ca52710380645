//! Carries out a route: one copy into each recipient's outbox.
//!
//! Stage 5 of a frame's way. All copies share the frame's bytes; a full outbox concerns its own
//! agent only.

use crate::{
    connection::outbox::{Delivery, Pushed},
    metrics::Metrics,
    router::Route,
};

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Agents in whose outbox it is.
    pub(crate) recipients: u64,
}

/// Delivers, and counts.
pub(crate) fn deliver(route: &Route<'_>, delivery: &Delivery, metrics: &Metrics) -> Receipt {
    let mut recipients = 0;
    let mut dropped = 0;
    for agent in &route.hops {
        match agent.outbox.push(delivery.clone(), metrics) {
            Pushed::Queued => recipients += 1,
            Pushed::Full => dropped += 1,
            Pushed::Gone => {}
        }
    }
    if dropped > 0 {
        metrics.deliveries_dropped.inc_by(dropped);
    }
    if recipients == 0 {
        metrics.messages_unrouted.inc();
    }
    metrics.messages_accepted.inc();
    metrics.fanout.observe(recipients as f64);
    Receipt { recipients }
}
