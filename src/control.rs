//! The payloads of the `synapse.*` vocabulary, which agents and Harbor speak with each other.
//!
//! Used at both ends of a connection: Harbor reads what an agent asks and writes what it answers,
//! the client library does the reverse. `docs/PROTOCOL.md`, "Control messages", is their source.
//! Absent, zero value and `null` mean the same; members a reader does not know are passed over.

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{
    address::{self, Kind},
    envelope::{Endpoint, Envelope},
    refusal::{Code, Refusal},
    timestamp::Timestamp,
};

mod plain;
mod token;

pub use self::{
    plain::in_plain_words,
    token::{Renew, Renewed},
};

/// The `type` of each control message.
pub mod kind {
    /// Harbor's first frame.
    pub const CHALLENGE: &str = "synapse.challenge";
    /// The agent's first frame.
    pub const REGISTER: &str = "synapse.register";
    /// Harbor's answer to [`REGISTER`].
    pub const REGISTERED: &str = "synapse.registered";
    /// Harbor took a message and keeps the promise named in it.
    pub const ACCEPTED: &str = "synapse.accepted";
    /// Harbor did not take a frame.
    pub const REFUSED: &str = "synapse.refused";
    /// Join a group, or change one's roles in it.
    pub const GROUP_JOIN: &str = "synapse.group.join";
    /// Leave a group.
    pub const GROUP_LEAVE: &str = "synapse.group.leave";
    /// Ask for a group's members.
    pub const GROUP_MEMBERS: &str = "synapse.group.members";
    /// Ask for a group's or system's members and every change after.
    pub const PRESENCE_WATCH: &str = "synapse.presence.watch";
    /// End a watch.
    pub const PRESENCE_UNWATCH: &str = "synapse.presence.unwatch";
    /// One change of a watched group or system.
    pub const PRESENCE: &str = "synapse.presence";
    /// Find agents.
    pub const DISCOVER: &str = "synapse.discover";
    /// Read a conversation from a position on.
    pub const CONVERSATION_READ: &str = "synapse.conversation.read";
    /// Read a conversation, and what is added to it.
    pub const CONVERSATION_FOLLOW: &str = "synapse.conversation.follow";
    /// Give a newer token, before the one that was registered with ends.
    pub const RENEW: &str = "synapse.renew";
    /// The node is going away.
    pub const DRAINING: &str = "synapse.draining";
    /// The rest of the vocabulary, which this version of Harbor does not offer yet.
    pub const NOT_OFFERED: [&str; 6] = [
        "synapse.ack",
        "synapse.nack",
        "synapse.receipt",
        CONVERSATION_READ,
        CONVERSATION_FOLLOW,
        "synapse.conversation.unfollow",
    ];
}

/// [`kind::CHALLENGE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// To be repeated in `synapse.register`; single-use, bound to the connection.
    pub nonce: String,
    /// Whether identity must be proven.
    pub auth: Auth,
    /// Name of the node.
    pub node: String,
    /// How often Harbor pings, in seconds.
    pub heartbeat_seconds: u64,
    /// Largest frame it reads, in bytes.
    pub max_frame_bytes: usize,
}

/// Whether identity must be proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Any agent id is taken at its word.
    Open,
    /// The register frame must be signed, or the connection bear a token.
    Required,
}

/// [`kind::REGISTER`]; the agent itself is the envelope's `sender`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Register {
    /// The nonce of the challenge; may be absent while authentication is open.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub nonce: String,
    /// How deliveries are acknowledged.
    #[serde(deserialize_with = "null_as_default")]
    pub ack: Ack,
    /// Which messages are answered.
    #[serde(deserialize_with = "null_as_default")]
    pub confirm: Confirm,
    /// Whether the sender wants `synapse.receipt`.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub receipts: bool,
    /// Groups to join at once.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub groups: Vec<Join>,
    /// Whether to replace a connection the agent already has; absent means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<bool>,
}

/// How deliveries are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// By being written to the socket.
    #[default]
    Auto,
    /// By `synapse.ack`.
    Manual,
}

/// Which messages are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    /// Every one, with `synapse.accepted` or `synapse.refused`.
    #[default]
    Each,
    /// Only refused ones.
    Refusals,
}

/// [`kind::GROUP_JOIN`], and an entry of `groups` in [`Register`]. The roles named are all the roles
/// the agent has in the group from then on; none is fine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Join {
    /// The group.
    #[serde(deserialize_with = "null_as_default")]
    pub group_id: String,
    /// One role.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub role: String,
    /// Several roles.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub roles: Vec<String>,
}

impl Join {
    /// Joins `group_id` with `roles`.
    pub fn new<R: Into<String>>(
        group_id: impl Into<String>,
        roles: impl IntoIterator<Item = R>,
    ) -> Self {
        let roles = roles.into_iter().map(Into::into).collect();
        Join {
            group_id: group_id.into(),
            role: String::new(),
            roles,
        }
    }

    /// `role` and `roles` together, each once, sorted.
    pub fn all_roles(&self) -> Vec<&str> {
        let mut roles: Vec<&str> = self
            .roles
            .iter()
            .chain([&self.role])
            .map(String::as_str)
            .collect();
        roles.retain(|role| !role.is_empty());
        roles.sort_unstable();
        roles.dedup();
        roles
    }

    /// Checks the names.
    ///
    /// # Errors
    ///
    /// [`Code::MissingField`] without `group_id`, [`Code::InvalidField`] for a bad name; `path` is
    /// where this stands in the envelope (`payload`).
    pub fn check(&self, path: &str) -> Result<(), Refusal> {
        require_name(&format!("{path}.group_id"), &self.group_id)?;
        for role in self.all_roles() {
            address::check(Kind::Name, &format!("{path}.roles"), role)?;
        }
        Ok(())
    }
}

/// [`kind::REGISTERED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// Number of this connection among all the node has had; a later one is larger.
    pub generation: u64,
    /// Whether it took over from a connection the agent had, with its groups.
    pub resumed: bool,
    /// Stored messages about to come.
    pub pending: u64,
    /// When the token ends that the agent registered with; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp<'static>>,
}

/// [`kind::ACCEPTED`]. Sent after the promise it names holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The weakest promise over all recipients.
    pub durability: Durability,
    /// How many agents it was routed to.
    pub recipients: u64,
    /// Whether this `id` was accepted before; then it was not delivered again.
    pub duplicate: bool,
}

/// What an accepted message survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing yet: it is in the outbox of each live recipient.
    Routed,
    /// A crash of the node: it is on disk.
    Stored,
    /// The loss of a node: the cluster has it.
    Replicated,
}

/// [`kind::REFUSED`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPayload {
    /// The row of the table, [`crate::refusal::Row::wire`].
    pub code: String,
    /// One sentence for a person.
    pub reason: String,
    /// The field at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// When trying again makes sense, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl From<&Refusal> for RefusedPayload {
    fn from(refusal: &Refusal) -> Self {
        RefusedPayload {
            code: refusal.code.row().wire.to_owned(),
            reason: refusal.reason.clone().into_owned(),
            field: refusal.field.clone().map(Into::into),
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}

/// Names one group: [`kind::GROUP_LEAVE`], [`kind::GROUP_MEMBERS`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupRef {
    /// The group.
    #[serde(deserialize_with = "null_as_default")]
    pub group_id: String,
}

/// Names a group or a system: [`kind::PRESENCE_WATCH`], [`kind::PRESENCE_UNWATCH`], and what every
/// answer about members starts with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// The group, or empty.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub group_id: String,
    /// The system, or empty.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub system_id: String,
}

/// The answer to [`kind::GROUP_JOIN`], [`kind::GROUP_LEAVE`], [`kind::GROUP_MEMBERS`],
/// [`kind::PRESENCE_WATCH`]: the members as they are at `position`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Of what.
    #[serde(flatten)]
    pub scope: Scope,
    /// Counts changes; those of a watch that come later have a higher one.
    pub position: u64,
    /// Sorted by `agent_id`.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Whether more members follow in another frame with the same `correlation_id`: no frame of
    /// Harbor's is larger than the frames it reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Roster {
    /// That of a group of which the asker is told nothing.
    pub fn unseen(group_id: &str) -> Self {
        let scope = Scope {
            group_id: group_id.to_owned(),
            system_id: String::new(),
        };
        Roster {
            scope,
            position: 0,
            members: Vec::new(),
            more: false,
        }
    }
}

/// One member of a group or system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub agent_id: String,
    /// Its roles, sorted; always empty in a system.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Whether it is connected.
    pub online: bool,
}

/// [`kind::PRESENCE`]: one change after the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Of what.
    #[serde(flatten)]
    pub scope: Scope,
    /// Higher than that of the snapshot and of every earlier change.
    pub position: u64,
    /// What happened.
    pub change: Change,
    /// To whom, as it is after the change.
    #[serde(flatten)]
    pub member: Member,
}

/// What happened to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It was not there before.
    Joined,
    /// Its roles are others now.
    Changed,
    /// It is gone.
    Left,
}

/// [`kind::DISCOVER`]: agents for which all the given conditions hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Discover {
    /// Has this capability.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub capability: String,
    /// Has this role: in `group_id` if given, else in any group.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub role: String,
    /// Belongs to this system.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub system_id: String,
    /// Is a member of this group.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub group_id: String,
    /// Only agents whose id is greater, to go on where an earlier answer ended.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub after: String,
    /// Most agents to list; 0 or absent for 100, at most 1,000.
    #[serde(deserialize_with = "null_as_default")]
    pub limit: u32,
}

/// The answer to [`kind::DISCOVER`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovered {
    /// Those found after `after`, sorted by `agent_id`: at most `limit`, and no more than fit in a
    /// frame.
    pub agents: Vec<Endpoint<'static>>,
    /// How many there are in all, `after` and `limit` left aside.
    pub total: u64,
}

/// [`kind::DRAINING`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// When to connect again, in milliseconds.
    pub reconnect_after_ms: u64,
}

/// Reads the payload of a control message.
///
/// # Errors
///
/// [`Code::InvalidField`] with the path of the member that has the wrong type or value.
pub fn read<T: DeserializeOwned>(envelope: &Envelope<'_>) -> Result<T, Refusal> {
    let payload = match envelope.payload.get() {
        "null" => "{}",
        object if object.starts_with('{') => object,
        _ => {
            let reason = "payload is not a JSON object";
            return Err(Refusal::of_field(Code::InvalidField, "payload", reason));
        }
    };
    let mut reader = serde_json::Deserializer::from_str(payload);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = match error.path().to_string().as_str() {
            "." => "payload".to_owned(),
            inner => format!("payload.{inner}"),
        };
        let text = error.inner().to_string();
        let what = text
            .rsplit_once(" at line ")
            .map_or(&*text, |(what, _)| what);
        let what = in_plain_words(what);
        Refusal::of_field(Code::InvalidField, path.clone(), format!("{path}: {what}"))
    })
}

/// Checks a name that must be there.
///
/// # Errors
///
/// [`Code::MissingField`] when it is empty, [`Code::InvalidField`] when it is no valid name.
pub fn require_name(field: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        let reason = format!("{field} is required");
        return Err(Refusal::of_field(
            Code::MissingField,
            field.to_owned(),
            reason,
        ));
    }
    address::check(Kind::Name, field, name)
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_payload<T: DeserializeOwned>(payload: &str) -> Result<T, Refusal> {
        let raw = serde_json::value::RawValue::from_string(payload.to_owned()).unwrap();
        read(&Envelope::new("synapse.x").payload(raw))
    }

    #[test]
    fn absent_zero_and_null_are_the_default() {
        let zero = r#"{"nonce":"","ack":"auto","confirm":"each","receipts":false,"groups":[]}"#;
        let null = r#"{"nonce":null,"ack":null,"confirm":null,"receipts":null,"groups":null,"takeover":null}"#;
        for payload in ["{}", "null", zero, null] {
            assert_eq!(
                read_payload::<Register>(payload).unwrap(),
                Register::default()
            );
        }
    }

    #[test]
    fn a_wrong_member_is_named_by_its_path() {
        let field = |payload| {
            let refusal = read_payload::<Register>(payload).unwrap_err();
            (refusal.code, refusal.field.unwrap().into_owned())
        };
        let path = "payload.groups[0].roles[1]".to_owned();
        assert_eq!(
            field(r#"{"groups":[{"group_id":"g","roles":["a",1]}]}"#),
            (Code::InvalidField, path)
        );
        assert_eq!(
            field(r#"{"ack":"maybe"}"#),
            (Code::InvalidField, "payload.ack".into())
        );
        assert_eq!(field("[1]"), (Code::InvalidField, "payload".into()));
    }

    #[test]
    fn a_wrong_type_is_said_without_rust() {
        let reason = |limit: &str| {
            let payload = format!(r#"{{"limit":{limit}}}"#);
            read_payload::<Discover>(&payload).unwrap_err().reason
        };
        for limit in [r#""x""#, "-1", "1.5", "4294967296"] {
            let reason = reason(limit);
            assert!(reason.starts_with("payload.limit: invalid "), "{reason}");
            assert!(reason.ends_with(", expected a whole number"), "{reason}");
        }
        assert!(reason(r#""x at line 7""#).contains("x at line 7"));
    }

    #[test]
    fn role_and_roles_are_one_set() {
        let join: Join =
            read_payload(r#"{"group_id":"g","role":"b","roles":["a","b",""]}"#).unwrap();
        assert_eq!(join.all_roles(), ["a", "b"]);
        assert_eq!(join.check("payload"), Ok(()));
        let nameless: Join = read_payload(r#"{"role":"b"}"#).unwrap();
        assert_eq!(
            nameless.check("payload").unwrap_err().code,
            Code::MissingField
        );
    }
}
