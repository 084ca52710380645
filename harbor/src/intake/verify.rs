//! Is this message what its sender made? Stage 2 of a frame's way.
//!
//! Here belongs whatever proves a message: only Harbor writes `harbor`, and signatures once keys
//! exist. [`Verified`] is made nowhere else.

use synapse::{Code, Envelope, Refusal};

/// A message that passed.
#[derive(Debug)]
pub(crate) struct Verified<'f>(Envelope<'f>);

impl<'f> Verified<'f> {
    pub(super) fn into_envelope(self) -> Envelope<'f> {
        self.0
    }
}

/// Checks a message.
pub(crate) fn verify(envelope: Envelope<'_>) -> Result<Verified<'_>, Refusal> {
    check_unmarked(&envelope)?;
    Ok(Verified(envelope))
}

/// Refuses what its sender marked as if Harbor had.
pub(crate) fn check_unmarked(envelope: &Envelope<'_>) -> Result<(), Refusal> {
    if envelope.harbor.is_none() {
        return Ok(());
    }
    let reason = "harbor is Harbor's own member; a sender leaves it out";
    Err(Refusal::of_field(Code::ReservedField, "harbor", reason))
}
