//! May this agent send this? Stage 3 of a frame's way.
//!
//! The one place that decides. [`Permitted`] is made nowhere else, and only from a `Verified`.

use std::sync::Arc;

use synapse::{Code, Envelope, Refusal, envelope::Destination, keys::Key};

use super::verify::Verified;
use crate::session::Session;

/// A message its sender may send.
#[derive(Debug)]
pub(crate) struct Permitted<'f> {
    envelope: Envelope<'f>,
    key: Option<Arc<Key>>,
}

impl<'f> Permitted<'f> {
    pub(crate) fn envelope(&self) -> &Envelope<'f> {
        &self.envelope
    }

    /// The key that signed it, if one did.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }

    /// Where it goes.
    pub(crate) fn destination<'e>(
        &'e self,
        session: &'e Session,
    ) -> Result<Destination<'e>, Refusal> {
        self.envelope.destination(&session.system_id)
    }
}

/// Checks that the sender is who is registered here.
pub(crate) fn authorise<'f>(
    verified: Verified<'f>,
    session: &Session,
) -> Result<Permitted<'f>, Refusal> {
    let (envelope, key) = verified.into_parts();
    let registered = &session.lease.agent.id;
    if *envelope.sender.agent_id != **registered {
        let reason = format!("this connection is registered as {registered:?}");
        return Err(Refusal::of_field(
            Code::SenderMismatch,
            "sender.agent_id",
            reason,
        ));
    }
    let system_id = &*envelope.sender.system_id;
    if !system_id.is_empty() && *system_id != *session.system_id {
        let reason = format!(
            "this connection is registered in system {:?}",
            session.system_id
        );
        return Err(Refusal::of_field(
            Code::SenderMismatch,
            "sender.system_id",
            reason,
        ));
    }
    Ok(Permitted { envelope, key })
}
