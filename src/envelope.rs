//! The envelope every frame carries.
//!
//! First and last on a frame's way: an agent builds one ([`Envelope::new`], [`Envelope::to_json`]),
//! Harbor reads it by borrowing from the frame ([`Envelope::decode`]) and forwards the frame's own
//! bytes. Absent, zero value and `null` mean the same for every optional field.

mod decode;
mod destination;
mod endpoint;
mod sealing;
mod splice;

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

pub use decode::Refused;
pub use destination::{Audience, Destination, Members};
pub use endpoint::Endpoint;
pub use sealing::Sealing;
pub use splice::{replace_members, splice_harbor};

use crate::{canonical::Covered, limits, timestamp::Timestamp};

/// One message, as it was read or as it will be sent. The source of each field is
/// `docs/PROTOCOL.md`, "The envelope".
#[derive(Debug, Clone)]
pub struct Envelope<'a> {
    /// Chosen by the sender, unique per sender.
    pub id: Cow<'a, str>,
    /// Protocol version, `1.x.y`.
    pub version: Cow<'a, str>,
    /// `type`: free for applications, `synapse.*` is the control vocabulary.
    pub kind: Cow<'a, str>,
    /// Who sends.
    pub sender: Endpoint<'a>,
    /// Point to point address.
    pub receiver: Option<Endpoint<'a>>,
    /// The `id` this answers; empty when it answers none.
    pub correlation_id: Cow<'a, str>,
    /// Agent id that answers should go to; empty for the sender.
    pub reply_to: Cow<'a, str>,
    /// Group address; empty for none.
    pub group_id: Cow<'a, str>,
    /// The application's JSON, byte for byte.
    pub payload: Cow<'a, RawValue>,
    /// When it was made.
    pub timestamp: Timestamp<'a>,
    /// base64url without padding; empty when unsigned.
    pub signature: Cow<'a, str>,
    /// The conversation it belongs to; empty for none.
    pub conversation_id: Cow<'a, str>,
    /// Time to live in seconds from Harbor's receipt; 0 for the broker's default.
    pub ttl_seconds: u64,
    /// With a group: to its members. Alone: to every agent of the sender's system.
    pub broadcast: bool,
    /// The payload is sealed on its way.
    pub encrypt: bool,
    /// What is done about that at this end; never on the wire.
    pub sealing: Sealing,
    /// Which members of the group.
    pub target_type: TargetType,
    /// Roles or agent ids, as `target_type` says.
    pub target_ids: Vec<Cow<'a, str>>,
    /// Algorithm the signature claims; empty when unsigned.
    pub signature_algorithm: Cow<'a, str>,
    /// 1..=9, a higher one goes first from a backlog; 4 when the sender named none (or 0).
    pub priority: u8,
    /// Absolute deadline; with a TTL too, the earlier counts.
    pub expires_at: Option<Timestamp<'a>>,
    /// What Harbor added on the way to this receiver.
    pub harbor: Option<Cow<'a, RawValue>>,
    /// What its signature covers, if decoding saw that; never on the wire.
    pub covered: Covered<'a>,
    /// Members this version does not know, in order.
    pub other: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
}

/// Which members of a group a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetType {
    /// All of them (`""`, absent or `"all"`).
    #[default]
    All,
    /// Those with one of the roles in `target_ids`.
    Role,
    /// Those named in `target_ids`.
    Specific,
}

impl TargetType {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            TargetType::All => "all",
            TargetType::Role => "role",
            TargetType::Specific => "specific",
        }
    }
}

impl Envelope<'static> {
    /// A message of this `type` with payload `null` and no address, id or sender yet. The client
    /// fills `id`, `sender` and `timestamp` in when it sends.
    pub fn new(kind: impl Into<Cow<'static, str>>) -> Self {
        Envelope {
            id: Cow::Borrowed(""),
            version: Cow::Borrowed(limits::VERSION),
            kind: kind.into(),
            sender: Endpoint::default(),
            receiver: None,
            correlation_id: Cow::Borrowed(""),
            reply_to: Cow::Borrowed(""),
            group_id: Cow::Borrowed(""),
            payload: Cow::Borrowed(RawValue::NULL),
            timestamp: Timestamp::from(jiff::Timestamp::UNIX_EPOCH),
            signature: Cow::Borrowed(""),
            conversation_id: Cow::Borrowed(""),
            ttl_seconds: 0,
            broadcast: false,
            encrypt: false,
            sealing: Sealing::Untouched,
            target_type: TargetType::All,
            target_ids: Vec::new(),
            signature_algorithm: Cow::Borrowed(""),
            priority: limits::PRIORITY_DEFAULT,
            expires_at: None,
            harbor: None,
            covered: Covered::default(),
            other: Vec::new(),
        }
    }

    /// Addresses one agent.
    #[must_use]
    pub fn to(mut self, agent_id: impl Into<Cow<'static, str>>) -> Self {
        self.receiver = Some(Endpoint::new(agent_id));
        self
    }

    /// Addresses all members of a group.
    #[must_use]
    pub fn to_group(mut self, group_id: impl Into<Cow<'static, str>>) -> Self {
        self.group_id = group_id.into();
        self
    }

    /// Addresses the members of a group that have one of these roles.
    #[must_use]
    pub fn to_roles<R: Into<Cow<'static, str>>>(
        self,
        group_id: impl Into<Cow<'static, str>>,
        roles: impl IntoIterator<Item = R>,
    ) -> Self {
        self.to_group(group_id).narrowed(TargetType::Role, roles)
    }

    /// Addresses these members of a group.
    #[must_use]
    pub fn to_members<M: Into<Cow<'static, str>>>(
        self,
        group_id: impl Into<Cow<'static, str>>,
        agent_ids: impl IntoIterator<Item = M>,
    ) -> Self {
        self.to_group(group_id)
            .narrowed(TargetType::Specific, agent_ids)
    }

    /// Addresses every agent of the sender's system (or, with a group, its members).
    #[must_use]
    pub fn broadcast(mut self) -> Self {
        self.broadcast = true;
        self
    }

    /// Sets the payload, already JSON; its bytes are kept.
    #[must_use]
    pub fn payload(mut self, payload: Box<RawValue>) -> Self {
        self.payload = Cow::Owned(payload);
        self
    }

    /// Serialises a value as the payload.
    ///
    /// # Errors
    ///
    /// When `value` has no JSON form, for instance a map with keys that are not strings.
    pub fn payload_of(self, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(self.payload(serde_json::value::to_raw_value(value)?))
    }

    /// Sets the time to live, in seconds from Harbor's receipt.
    #[must_use]
    pub fn ttl_seconds(mut self, ttl_seconds: u64) -> Self {
        self.ttl_seconds = ttl_seconds;
        self
    }

    /// Says which message this answers.
    #[must_use]
    pub fn answering(mut self, id: impl Into<Cow<'static, str>>) -> Self {
        self.correlation_id = id.into();
        self
    }

    /// Puts the message into a conversation.
    #[must_use]
    pub fn in_conversation(mut self, conversation_id: impl Into<Cow<'static, str>>) -> Self {
        self.conversation_id = conversation_id.into();
        self
    }

    fn narrowed<T: Into<Cow<'static, str>>>(
        mut self,
        target_type: TargetType,
        target_ids: impl IntoIterator<Item = T>,
    ) -> Self {
        self.target_type = target_type;
        self.target_ids = target_ids.into_iter().map(Into::into).collect();
        self
    }
}

impl Envelope<'_> {
    /// Whether `type` is of the control vocabulary, which Harbor answers itself.
    pub fn is_control(&self) -> bool {
        self.kind.starts_with("synapse.")
    }

    /// Where an answer belongs: `reply_to`, or the sender.
    pub fn reply_address(&self) -> &str {
        if self.reply_to.is_empty() {
            &self.sender.agent_id
        } else {
            &self.reply_to
        }
    }

    /// The frame: one JSON object, optional fields at their zero value left out.
    ///
    /// # Panics
    ///
    /// Never: every field has a JSON form.
    pub fn to_json(&self) -> String {
        #[allow(
            clippy::expect_used,
            reason = "strings, numbers and raw JSON always serialise"
        )]
        serde_json::to_string(self).expect("an envelope is JSON")
    }

    /// The same, owning all it holds.
    pub fn into_owned(self) -> Envelope<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let own_raw = |raw: Cow<'_, RawValue>| Cow::Owned(raw.into_owned());
        Envelope {
            id: own(self.id),
            version: own(self.version),
            kind: own(self.kind),
            sender: self.sender.into_owned(),
            receiver: self.receiver.map(Endpoint::into_owned),
            correlation_id: own(self.correlation_id),
            reply_to: own(self.reply_to),
            group_id: own(self.group_id),
            payload: own_raw(self.payload),
            timestamp: self.timestamp.into_owned(),
            signature: own(self.signature),
            conversation_id: own(self.conversation_id),
            ttl_seconds: self.ttl_seconds,
            broadcast: self.broadcast,
            encrypt: self.encrypt,
            sealing: self.sealing,
            target_type: self.target_type,
            target_ids: self.target_ids.into_iter().map(own).collect(),
            signature_algorithm: own(self.signature_algorithm),
            priority: self.priority,
            expires_at: self.expires_at.map(Timestamp::into_owned),
            harbor: self.harbor.map(own_raw),
            covered: Covered::default(),
            other: self
                .other
                .into_iter()
                .map(|(key, raw)| (own(key), own_raw(raw)))
                .collect(),
        }
    }
}

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let text = |map: &mut S::SerializeMap, key, value: &str| match value {
            "" => Ok(()),
            value => map.serialize_entry(key, value),
        };
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("version", &self.version)?;
        map.serialize_entry("type", &self.kind)?;
        map.serialize_entry("sender", &self.sender)?;
        if let Some(receiver) = &self.receiver {
            map.serialize_entry("receiver", receiver)?;
        }
        text(&mut map, "correlation_id", &self.correlation_id)?;
        text(&mut map, "reply_to", &self.reply_to)?;
        text(&mut map, "group_id", &self.group_id)?;
        map.serialize_entry("payload", &self.payload)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        text(&mut map, "signature", &self.signature)?;
        text(&mut map, "conversation_id", &self.conversation_id)?;
        if self.ttl_seconds > 0 {
            map.serialize_entry("ttl", &self.ttl_seconds)?;
        }
        for (key, on) in [("broadcast", self.broadcast), ("encrypt", self.encrypt)] {
            if on {
                map.serialize_entry(key, &true)?;
            }
        }
        if self.target_type != TargetType::All {
            map.serialize_entry("target_type", self.target_type.as_str())?;
        }
        if !self.target_ids.is_empty() {
            map.serialize_entry("target_ids", &self.target_ids)?;
        }
        text(&mut map, "signature_algorithm", &self.signature_algorithm)?;
        if self.priority != limits::PRIORITY_DEFAULT {
            map.serialize_entry("priority", &self.priority)?;
        }
        if let Some(expires_at) = &self.expires_at {
            map.serialize_entry("expires_at", expires_at)?;
        }
        for (key, value) in &self.other {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
