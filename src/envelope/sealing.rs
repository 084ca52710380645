//! What this end does about a sealed payload.
//!
//! Beside the envelope's fields, never in a frame: the sender says by it which key is meant, the
//! receiver learns whether the payload was opened.

use super::Envelope;

/// What is done about sealing at this end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sealing {
    /// Nothing: the payload is as it is on the wire, sealed if `encrypt` is true.
    #[default]
    Untouched,
    /// The client seals the payload with the key of this `kid` before it signs and sends.
    With(String),
    /// The payload came sealed and was opened with the key of this `kid`. `encrypt` is still true,
    /// and the signature is that of the sealed form.
    Opened(String),
}

impl Envelope<'_> {
    /// Has the client seal the payload with the key of this `kid`, one of its `Options`, as it sends.
    #[must_use]
    pub fn seal_with(mut self, kid: impl Into<String>) -> Self {
        self.sealing = Sealing::With(kid.into());
        self
    }

    /// Whether the payload is still sealed: it came so, and could not be opened here.
    pub fn is_sealed(&self) -> bool {
        self.encrypt && !self.is_opened()
    }

    /// Whether the payload came sealed and was opened here.
    pub fn is_opened(&self) -> bool {
        matches!(self.sealing, Sealing::Opened(_))
    }
}
