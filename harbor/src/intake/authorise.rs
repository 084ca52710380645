//! May this agent send this? Stage 3 of a frame's way.
//!
//! The one place that decides. [`Permitted`] is made nowhere else, and only from a `Verified`.

use synapse::{Code, Envelope, Refusal, envelope::Destination};

use super::verify::Verified;
use crate::session::Session;

/// A message its sender may send.
#[derive(Debug)]
pub(crate) struct Permitted<'f>(Envelope<'f>);

impl<'f> Permitted<'f> {
    pub(crate) fn envelope(&self) -> &Envelope<'f> {
        &self.0
    }

    /// Where it goes.
    pub(crate) fn destination<'e>(
        &'e self,
        session: &'e Session,
    ) -> Result<Destination<'e>, Refusal> {
        self.0.destination(&session.system_id)
    }
}

/// Checks that the sender is who is registered here.
pub(crate) fn authorise<'f>(
    verified: Verified<'f>,
    session: &Session,
) -> Result<Permitted<'f>, Refusal> {
    let envelope = verified.into_envelope();
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
    Ok(Permitted(envelope))
}
