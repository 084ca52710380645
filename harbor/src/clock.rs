//! The only source of time, so that tests own it.
//!
//! Consulted at receipt (deadlines) and delivery (expiry). Deadlines are monotonic: a step of the
//! wall clock never expires or revives a message. Tests pause and advance `tokio`'s clock.

use std::time::Duration;

use synapse::{Code, Envelope, Refusal};
pub(crate) use tokio::time::Instant;

/// Monotonic time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Wall-clock time, for what people and other machines read.
pub(crate) fn wall() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// How long messages live.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeToLive {
    /// For a message that names no TTL.
    pub(crate) default: Duration,
    /// A longer one is clamped to this.
    pub(crate) max: Duration,
}

impl TimeToLive {
    /// When a message received at `received_at` expires: the earlier of its TTL and `expires_at`.
    pub(crate) fn deadline(
        self,
        envelope: &Envelope<'_>,
        received_at: Instant,
    ) -> Result<Instant, Refusal> {
        let ttl = match envelope.ttl_seconds {
            0 => self.default,
            seconds => Duration::from_secs(seconds),
        };
        let ttl = ttl.min(self.max);
        let Some(expires_at) = &envelope.expires_at else {
            return Ok(received_at + ttl);
        };
        let left = expires_at.at().duration_since(wall());
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => Ok(received_at + left.min(ttl)),
            _ => {
                let reason = format!("the message expired at {}", expires_at.as_str());
                Err(Refusal::of_field(Code::Expired, "expires_at", reason))
            }
        }
    }
}
