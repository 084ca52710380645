//! What a message asks of Harbor: to route it, or a `synapse.*` request of Harbor itself.
//!
//! Read between verification and authorisation, so that permission is decided on what is meant.

use serde::Deserialize;
use synapse::{
    Code, Envelope, Refusal,
    address::{self, Kind},
    control::{self, Discover, GroupRef, Join, Renew, Scope, kind},
    envelope::Destination,
};

use crate::session;

/// What a message asks for, with all its names checked.
#[derive(Debug)]
pub(crate) enum Request<'e> {
    /// To be delivered.
    Deliver(Destination<'e>),
    /// `synapse.group.join`.
    Join(Join),
    /// `synapse.group.leave`.
    Leave(GroupRef),
    /// `synapse.group.members`.
    Members(GroupRef),
    /// `synapse.presence.watch`.
    Watch(Scope),
    /// `synapse.presence.unwatch`.
    Unwatch(Scope),
    /// `synapse.renew`.
    Renew(Renew),
    /// `synapse.discover`.
    Discover(Discover),
    /// `synapse.conversation.…`, which this version does not answer.
    ReadConversation(ConversationRef),
}

/// Names a conversation.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ConversationRef {
    /// The conversation.
    #[serde(default)]
    pub(crate) conversation_id: String,
}

impl<'e> Request<'e> {
    /// Reads a verified message of an agent that is registered in `own_system_id`.
    pub(super) fn read(
        envelope: &'e Envelope<'_>,
        own_system_id: &'e str,
    ) -> Result<Request<'e>, Refusal> {
        if !envelope.is_control() {
            return Ok(Request::Deliver(envelope.destination(own_system_id)?));
        }
        Ok(match &*envelope.kind {
            kind::GROUP_JOIN => {
                let join: Join = control::read(envelope)?;
                session::check_join(&join, "payload")?;
                Request::Join(join)
            }
            kind::GROUP_LEAVE => Request::Leave(group_of(envelope)?),
            kind::GROUP_MEMBERS => Request::Members(group_of(envelope)?),
            kind::PRESENCE_WATCH => Request::Watch(scope_of(envelope)?),
            kind::PRESENCE_UNWATCH => Request::Unwatch(scope_of(envelope)?),
            kind::RENEW => Request::Renew(control::read(envelope)?),
            kind::DISCOVER => Request::Discover(query_of(envelope)?),
            kind::CONVERSATION_READ | kind::CONVERSATION_FOLLOW => {
                Request::ReadConversation(control::read(envelope)?)
            }
            other => return Err(not_ours(other)),
        })
    }
}

fn group_of(envelope: &Envelope<'_>) -> Result<GroupRef, Refusal> {
    let group: GroupRef = control::read(envelope)?;
    control::require_name("payload.group_id", &group.group_id)?;
    Ok(group)
}

/// A group or a system, one of them.
fn scope_of(envelope: &Envelope<'_>) -> Result<Scope, Refusal> {
    let scope: Scope = control::read(envelope)?;
    match (scope.group_id.as_str(), scope.system_id.as_str()) {
        (group_id, "") => control::require_name("payload.group_id", group_id)?,
        ("", system_id) => control::require_name("payload.system_id", system_id)?,
        _ => {
            let (field, reason) = ("payload.system_id", "name group_id or system_id, not both");
            return Err(Refusal::of_field(Code::InvalidField, field, reason));
        }
    }
    Ok(scope)
}

fn query_of(envelope: &Envelope<'_>) -> Result<Discover, Refusal> {
    let query: Discover = control::read(envelope)?;
    for (field, name) in [
        ("payload.capability", &query.capability),
        ("payload.role", &query.role),
        ("payload.system_id", &query.system_id),
        ("payload.group_id", &query.group_id),
        ("payload.after", &query.after),
    ] {
        address::check(Kind::Name, field, name)?;
    }
    Ok(query)
}

/// The refusal of a type that has no answer.
fn not_ours(kind: &str) -> Refusal {
    if kind == kind::REGISTER {
        let reason = "this connection is registered; open another to register again";
        return Refusal::of_field(Code::AlreadyRegistered, "type", reason);
    }
    if kind::NOT_OFFERED.contains(&kind) {
        return not_offered(kind);
    }
    let reason = format!("{kind} is not in the control vocabulary; synapse.* is reserved");
    Refusal::of_field(Code::UnknownType, "type", reason)
}

/// The refusal of what belongs to the vocabulary and is not there yet.
pub(super) fn not_offered(kind: &str) -> Refusal {
    let reason = format!("{kind} is not offered by this version of Harbor");
    Refusal::of_field(Code::Unsupported, "type", reason)
}
