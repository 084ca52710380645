//! The frames Harbor itself writes: one function builds them all.
//!
//! Stands at the end of a frame's way, where the sender is told what became of it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use synapse::{
    Refusal,
    control::{RefusedPayload, kind},
    limits::{HARBOR_AGENT_ID, VERSION},
    timestamp::Timestamp,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::clock;

/// Builds Harbor's frames, each with an id of its own.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Differs from node start to node start, so that ids do not repeat.
    run: u64,
    count: AtomicU64,
}

#[derive(Serialize)]
struct Frame<'a, P> {
    id: String,
    version: &'static str,
    #[serde(rename = "type")]
    kind: &'a str,
    sender: Sender,
    #[serde(skip_serializing_if = "str::is_empty")]
    correlation_id: &'a str,
    payload: &'a P,
    timestamp: Timestamp<'static>,
}

#[derive(Serialize)]
struct Sender {
    agent_id: &'static str,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Answers {
            run: fastrand::u64(..),
            count: AtomicU64::new(0),
        }
    }

    /// A frame of this type; `correlation_id` is the id it answers, empty for none.
    pub(crate) fn frame<P: Serialize>(
        &self,
        kind: &str,
        correlation_id: &str,
        payload: &P,
    ) -> Utf8Bytes {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let frame = Frame {
            id: format!("{:016x}-{number}", self.run),
            version: VERSION,
            kind,
            sender: Sender {
                agent_id: HARBOR_AGENT_ID,
            },
            correlation_id,
            payload,
            timestamp: clock::wall().into(),
        };
        // Strings, numbers and times always serialise.
        serde_json::to_string(&frame).unwrap_or_default().into()
    }

    /// The frame that says no.
    pub(crate) fn refused(&self, correlation_id: Option<&str>, refusal: &Refusal) -> Utf8Bytes {
        let payload = RefusedPayload::from(refusal);
        self.frame(kind::REFUSED, correlation_id.unwrap_or_default(), &payload)
    }
}
