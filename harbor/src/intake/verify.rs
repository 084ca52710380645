//! Is this message what its sender made? Stage 2 of a frame's way.
//!
//! Here belongs whatever proves a message: only Harbor writes `harbor`, and signatures, as the
//! configured policy wants them. [`Verified`] is made nowhere else.

use std::sync::Arc;

use synapse::{Code, Envelope, Refusal, control::Auth, keys::Key, signature};

use crate::{clock, config::Signatures, node::Node, tokens::Bearer};

/// A message that passed.
#[derive(Debug)]
pub(crate) struct Verified<'f> {
    envelope: Envelope<'f>,
    key: Option<Arc<Key>>,
}

impl<'f> Verified<'f> {
    pub(super) fn envelope(&self) -> &Envelope<'f> {
        &self.envelope
    }

    /// The key that signed it, if one did.
    pub(super) fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }
}

/// Checks a message of a registered agent.
pub(crate) fn verify<'f>(
    envelope: Envelope<'f>,
    frame: &str,
    node: &Node,
) -> Result<Verified<'f>, Refusal> {
    check_unmarked(&envelope)?;
    let key = match node.config.signatures {
        Signatures::Off => None,
        Signatures::VerifyIfPresent if envelope.signature.is_empty() => None,
        Signatures::VerifyIfPresent | Signatures::Required => Some(signer(&envelope, frame, node)?),
    };
    Ok(Verified { envelope, key })
}

/// The key that signed a registration, if it must be signed or is; who bears a token need not sign.
pub(crate) fn signer_of_registration(
    envelope: &Envelope<'_>,
    frame: &str,
    bearer: Option<&Bearer>,
    node: &Node,
) -> Result<Option<Arc<Key>>, Refusal> {
    let is_signed = !envelope.signature.is_empty();
    let is_needed = match node.config.auth {
        Auth::Required => is_signed || bearer.is_none(),
        Auth::Open => is_signed && node.config.signatures != Signatures::Off,
    };
    is_needed.then(|| signer(envelope, frame, node)).transpose()
}

/// Refuses what its sender marked as if Harbor had.
pub(crate) fn check_unmarked(envelope: &Envelope<'_>) -> Result<(), Refusal> {
    if envelope.harbor.is_none() {
        return Ok(());
    }
    let reason = "harbor is Harbor's own member; a sender leaves it out";
    Err(Refusal::of_field(Code::ReservedField, "harbor", reason))
}

/// The live key of the sender that signed this frame, not long ago.
fn signer(envelope: &Envelope<'_>, frame: &str, node: &Node) -> Result<Arc<Key>, Refusal> {
    let now = clock::wall();
    let ring = node.keys.ring();
    let keys = ring.of(&envelope.sender.agent_id);
    let signer = signature::verify(envelope, frame, keys, now)?;
    let age = now.duration_since(envelope.timestamp.at()).abs();
    let window = node.config.clock_window;
    if age.unsigned_abs() > window {
        let reason = format!(
            "timestamp is {} s from this Harbor's clock; for signed messages it is at most {}",
            age.as_secs(),
            window.as_secs()
        );
        return Err(Refusal::of_field(Code::ClockSkew, "timestamp", reason));
    }
    Ok(Arc::clone(signer))
}
