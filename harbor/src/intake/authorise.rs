//! May this agent do this? Stage 3 of a frame's way.
//!
//! The one place that decides, for messages, registrations and HTTP doors. [`Permitted`] is made
//! nowhere else, and only from a `Verified`; [`Admitted`] likewise.

use synapse::{
    Code, Envelope, Refusal,
    control::{Auth, Register},
    envelope::{Audience, Destination, Endpoint},
    keys::Key,
};

use super::{request::Request, verify::Verified};
use crate::{
    handshake::presented::Presented,
    node::Node,
    permissions::{Action, Grants},
    session::Session,
    tls::identity::Identity,
};

/// A message that asks for what its sender may have.
#[derive(Debug)]
pub(crate) struct Permitted<'e, 'f> {
    verified: &'e Verified<'f>,
    request: Request<'e>,
}

impl<'e, 'f> Permitted<'e, 'f> {
    pub(crate) fn envelope(&self) -> &'e Envelope<'f> {
        self.verified.envelope()
    }

    /// The key that signed it, if one did.
    pub(crate) fn key(&self) -> Option<&'e Key> {
        self.verified.key()
    }

    /// What it asks for.
    pub(crate) fn request(&self) -> &Request<'e> {
        &self.request
    }
}

/// What a registered agent may do. Made for those only who may register as they want to.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) grants: Grants,
}

/// Checks that the sender is who is registered here, and has permission.
pub(crate) fn authorise<'e, 'f>(
    verified: &'e Verified<'f>,
    session: &Session,
    own_system_id: &'e str,
) -> Result<Permitted<'e, 'f>, Refusal> {
    let envelope = verified.envelope();
    check_sender(envelope, session)?;
    let request = Request::read(envelope, own_system_id)?;
    let asker = Asker {
        agent_id: &session.lease.agent.id,
        grants: &session.grants,
    };
    asker.check(&request, &envelope.kind)?;
    Ok(Permitted { verified, request })
}

/// Checks that an agent may be in the system and the groups that it names.
pub(crate) fn registration(
    node: &Node,
    endpoint: &Endpoint<'_>,
    register: &Register,
) -> Result<Admitted, Refusal> {
    let grants = node.config.permissions.of(&endpoint.agent_id);
    let asker = Asker {
        agent_id: &endpoint.agent_id,
        grants: &grants,
    };
    let system_id = &*endpoint.system_id;
    if !system_id.is_empty() {
        asker.needs(&Action::BeIn { system_id }, "sender.system_id")?;
    }
    for (at, join) in register.groups.iter().enumerate() {
        asker.check_join(
            &join.group_id,
            &join.all_roles(),
            &format!("payload.groups[{at}]"),
        )?;
    }
    Ok(Admitted { grants })
}

/// Checks that whoever calls an HTTP door may. While nobody has to prove who they are, anybody may.
pub(crate) fn door(node: &Node, presented: &Presented, path: &str) -> Result<(), Refusal> {
    let Some(agent_id) = presented.agent_id()? else {
        if node.config.auth == Auth::Open && presented.certificate == Identity::Unasked {
            return Ok(());
        }
        let reason = format!("{path} needs a bearer token, or a client certificate with a name");
        return Err(Refusal::of_field(Code::BadToken, "Authorization", reason));
    };
    let grants = node.config.permissions.of(agent_id);
    let asker = Asker {
        agent_id,
        grants: &grants,
    };
    asker.needs(&Action::CallDoor { path }, "Authorization")
}

fn check_sender(envelope: &Envelope<'_>, session: &Session) -> Result<(), Refusal> {
    let refused = |field, reason| Err(Refusal::of_field(Code::SenderMismatch, field, reason));
    let registered = &session.lease.agent.id;
    if *envelope.sender.agent_id != **registered {
        let reason = format!("this connection is registered as {registered:?}");
        return refused("sender.agent_id", reason);
    }
    let system_id = &*envelope.sender.system_id;
    if !system_id.is_empty() && *system_id != *session.system_id {
        let registered = &session.system_id;
        let reason = format!("this connection is registered in system {registered:?}");
        return refused("sender.system_id", reason);
    }
    Ok(())
}

/// Who asks, and what it may do.
struct Asker<'a> {
    agent_id: &'a str,
    grants: &'a Grants,
}

impl Asker<'_> {
    fn check(&self, request: &Request<'_>, kind: &str) -> Result<(), Refusal> {
        match request {
            Request::Deliver(destination) => self.check_send(destination, kind),
            Request::Join(join) => self.check_join(&join.group_id, &join.all_roles(), "payload"),
            // Leaving is always allowed, and a renewal proves itself; discovery shows only what may be
            // seen.
            Request::Leave(_) | Request::Unwatch(_) | Request::Renew(_) | Request::Discover(_) => {
                Ok(())
            }
            Request::Members(group) => {
                let group_id = &group.group_id;
                self.needs(&Action::SeeGroup { group_id }, "payload.group_id")
            }
            Request::Watch(scope) if scope.system_id.is_empty() => {
                let group_id = &scope.group_id;
                self.needs(&Action::SeeGroup { group_id }, "payload.group_id")
            }
            Request::Watch(scope) => {
                let system_id = &scope.system_id;
                self.needs(&Action::SeeSystem { system_id }, "payload.system_id")
            }
            Request::ReadConversation(conversation) => {
                let conversation_id = &conversation.conversation_id;
                let action = Action::ReadConversation { conversation_id };
                self.needs(&action, "payload.conversation_id")
            }
        }
    }

    fn check_send(&self, destination: &Destination<'_>, kind: &str) -> Result<(), Refusal> {
        if let Some(receiver) = destination.receiver {
            let agent_id = &*receiver.agent_id;
            let action = Action::SendToAgent { agent_id, kind };
            self.needs(&action, "receiver.agent_id")?;
        }
        match destination.audience {
            None => Ok(()),
            Some(Audience::Group { group_id, .. }) => {
                self.needs(&Action::SendToGroup { group_id, kind }, "group_id")
            }
            Some(Audience::System(system_id)) => {
                self.needs(&Action::Broadcast { system_id, kind }, "broadcast")
            }
        }
    }

    fn check_join(&self, group_id: &str, roles: &[&str], path: &str) -> Result<(), Refusal> {
        self.needs(&Action::Join { group_id }, &format!("{path}.group_id"))?;
        for role in roles {
            let action = Action::JoinAs { group_id, role };
            self.needs(&action, &format!("{path}.roles"))?;
        }
        Ok(())
    }

    /// Refuses what the agent has no permission for.
    fn needs(&self, action: &Action<'_>, field: &str) -> Result<(), Refusal> {
        if self.grants.allow(action) {
            return Ok(());
        }
        let reason = format!("{} may not {action}", self.agent_id);
        Err(Refusal::of_field(
            Code::NotPermitted,
            field.to_owned(),
            reason,
        ))
    }
}
