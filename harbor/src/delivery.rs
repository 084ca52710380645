//! Carries out a route: one copy into each recipient's outbox.
//!
//! Stage 6 of a frame's way. Copies that are alike share the frame's bytes; a full outbox concerns
//! its own agent only.

use crate::{
    clock::Instant,
    connection::outbox::{Delivery, Pushed},
    intake::reseal::Copies,
    metrics::Metrics,
};

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Agents in whose outbox it is.
    pub(crate) recipients: u64,
}

/// Delivers what was received and ends to be wanted at these times, and counts.
pub(crate) fn deliver(
    copies: Copies<'_>,
    (received_at, deadline): (Instant, Instant),
    metrics: &Metrics,
) -> Receipt {
    let mut recipients = 0;
    let mut dropped = 0;
    for (agent, frame) in copies {
        let delivery = Delivery {
            frame,
            received_at,
            deadline,
        };
        match agent.outbox.push(delivery, metrics) {
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
