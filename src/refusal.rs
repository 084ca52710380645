//! The one table of refusals, and the close codes beside it.
//!
//! Stands at every stage of a frame's way: whatever stage says no, says it with a [`Refusal`], and
//! the door (WebSocket, HTTP) reads from this table how to put it.

use std::{borrow::Cow, fmt};

/// Why something was refused; each has one row in the table ([`Code::row`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// Not one JSON object: a syntax error, a byte order mark, bytes after the closing brace.
    Malformed,
    /// A binary WebSocket frame; envelopes travel in text frames.
    BinaryFrame,
    /// Nested deeper than [`crate::limits::JSON_DEPTH_MAX`].
    TooDeep,
    /// A lone surrogate escape, which no UTF-8 text can hold (RFC 8785 section 3.2.2.2).
    InvalidUnicode,
    /// A key given twice where two readers could see different meanings (RFC 8259 section 4).
    DuplicateKey,
    /// A number in a signed envelope that readers would not agree on (RFC 7493 section 2.2).
    UnsafeNumber,
    /// A required field is absent, null or empty.
    MissingField,
    /// A field has the wrong type, or a value outside its range.
    InvalidField,
    /// `version` names another major version.
    UnsupportedVersion,
    /// A member only Harbor may write (`harbor`).
    ReservedField,
    /// Neither receiver, group nor broadcast.
    NoDestination,
    /// `target_type` is `role` or `specific` and `target_ids` is empty: nobody, never everybody.
    EmptyTargets,
    /// `sender` is not the agent registered on this connection.
    SenderMismatch,
    /// The agent has no permission for it.
    NotPermitted,
    /// The signature is missing where one is required, or is not that of a live key of the sender.
    BadSignature,
    /// The token is not accepted: not signed by an issuer this Harbor knows, ended, or not for it.
    BadToken,
    /// A sealed payload that Harbor holds the key of, or could not hold any of, does not open.
    BadSeal,
    /// Nobody who is there has a key to seal with again, and policy wants one.
    NoSealingKey,
    /// The sender's `timestamp` is further from Harbor's clock than signed messages may be.
    ClockSkew,
    /// Something other than `synapse.register` came first.
    NotRegistered,
    /// A second `synapse.register` on one connection.
    AlreadyRegistered,
    /// The nonce is not the one this connection was challenged with.
    NonceMismatch,
    /// The agent is connected and `takeover` was false.
    AgentInUse,
    /// A `synapse.*` type outside the vocabulary.
    UnknownType,
    /// Part of the protocol that this Harbor does not offer.
    Unsupported,
    /// The message's deadline had passed when it arrived.
    Expired,
    /// A configured count (groups of an agent, watches) would be exceeded.
    LimitExceeded,
    /// The node is going away.
    Draining,
    /// A browser page of an origin that is not allowed.
    OriginDenied,
    /// The node holds as many connections, or as many that have not registered, as it may.
    Overloaded,
    /// An agent sends faster, or an address has more connections, than is allowed to each.
    RateLimited,
}

/// What the sender should do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same bytes will be refused again; mend them.
    AfterChange,
    /// The same bytes may pass later, after `retry_after_ms` where it is given.
    Later,
}

/// How one [`Code`] looks from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// `code` in the payload of `synapse.refused`, and the `code` label of the metric.
    pub wire: &'static str,
    /// Status at an HTTP door (RFC 9110 section 15).
    pub http_status: u16,
    /// Code the connection closes with, for the few refusals that close it.
    pub close: Option<Close>,
    /// What the sender should do.
    pub retry: Retry,
}

impl Code {
    /// Every code, in the order of the table.
    pub const ALL: [Code; 31] = [
        Code::Malformed,
        Code::BinaryFrame,
        Code::TooDeep,
        Code::InvalidUnicode,
        Code::DuplicateKey,
        Code::UnsafeNumber,
        Code::MissingField,
        Code::InvalidField,
        Code::UnsupportedVersion,
        Code::ReservedField,
        Code::NoDestination,
        Code::EmptyTargets,
        Code::SenderMismatch,
        Code::NotPermitted,
        Code::BadSignature,
        Code::BadToken,
        Code::BadSeal,
        Code::NoSealingKey,
        Code::ClockSkew,
        Code::NotRegistered,
        Code::AlreadyRegistered,
        Code::NonceMismatch,
        Code::AgentInUse,
        Code::UnknownType,
        Code::Unsupported,
        Code::Expired,
        Code::LimitExceeded,
        Code::Draining,
        Code::OriginDenied,
        Code::Overloaded,
        Code::RateLimited,
    ];

    /// The table.
    pub const fn row(self) -> Row {
        use Retry::{AfterChange, Later};
        let (wire, http_status, close, retry) = match self {
            Code::Malformed => ("malformed", 400, None, AfterChange),
            Code::BinaryFrame => ("binary_frame", 400, None, AfterChange),
            Code::TooDeep => ("too_deep", 400, None, AfterChange),
            Code::InvalidUnicode => ("invalid_unicode", 400, None, AfterChange),
            Code::DuplicateKey => ("duplicate_key", 400, None, AfterChange),
            Code::UnsafeNumber => ("unsafe_number", 400, None, AfterChange),
            Code::MissingField => ("missing_field", 400, None, AfterChange),
            Code::InvalidField => ("invalid_field", 400, None, AfterChange),
            Code::UnsupportedVersion => ("unsupported_version", 400, None, AfterChange),
            Code::ReservedField => ("reserved_field", 400, None, AfterChange),
            Code::NoDestination => ("no_destination", 400, None, AfterChange),
            Code::EmptyTargets => ("empty_targets", 400, None, AfterChange),
            Code::SenderMismatch => ("sender_mismatch", 403, None, AfterChange),
            Code::NotPermitted => ("not_permitted", 403, None, AfterChange),
            Code::BadSignature => ("bad_signature", 401, None, AfterChange),
            Code::BadToken => ("bad_token", 401, None, AfterChange),
            Code::BadSeal => ("bad_seal", 400, None, AfterChange),
            Code::NoSealingKey => ("no_sealing_key", 409, None, AfterChange),
            Code::ClockSkew => ("clock_skew", 400, None, AfterChange),
            Code::NotRegistered => ("not_registered", 401, None, AfterChange),
            Code::AlreadyRegistered => ("already_registered", 409, None, AfterChange),
            Code::NonceMismatch => ("nonce_mismatch", 401, None, AfterChange),
            Code::AgentInUse => ("agent_in_use", 409, None, Later),
            Code::UnknownType => ("unknown_type", 400, None, AfterChange),
            Code::Unsupported => ("unsupported", 501, None, AfterChange),
            Code::Expired => ("expired", 410, None, AfterChange),
            Code::LimitExceeded => ("limit_exceeded", 429, None, AfterChange),
            Code::Draining => ("draining", 503, Some(Close::Draining), Later),
            Code::OriginDenied => ("origin_denied", 403, None, AfterChange),
            Code::Overloaded => ("overloaded", 503, None, Later),
            Code::RateLimited => ("rate_limited", 429, None, Later),
        };
        Row {
            wire,
            http_status,
            close,
            retry,
        }
    }

    /// The code a wire name stands for, if it is known.
    pub fn from_wire(wire: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.row().wire == wire)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().wire)
    }
}

/// Why Harbor closes a connection (RFC 6455 section 7.4; 4000 to 4999 are the application's own).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Close {
    /// The agent connected again elsewhere. Clients must not reconnect on it.
    Replaced,
    /// Authentication failed or lapsed, or too many registrations were refused. Clients must not
    /// reconnect with the same credentials.
    Unauthorised,
    /// The peer did not register, answer pings or read in time. Reconnecting is fine.
    TooSlow,
    /// The node is going away. Reconnect after the time named in `synapse.draining`.
    Draining,
    /// A frame was over the limit named in `synapse.challenge`, or too much came before registration.
    TooLarge,
    /// The peer broke RFC 6455.
    Protocol,
    /// A text frame was not UTF-8.
    InvalidUtf8,
    /// The agent said goodbye.
    Normal,
    /// The TCP connection ended without a closing handshake. Never sent (RFC 6455 section 7.4.1).
    Lost,
}

impl Close {
    /// Every reason.
    pub const ALL: [Close; 9] = [
        Close::Replaced,
        Close::Unauthorised,
        Close::TooSlow,
        Close::Draining,
        Close::TooLarge,
        Close::Protocol,
        Close::InvalidUtf8,
        Close::Normal,
        Close::Lost,
    ];

    /// The code on the wire.
    pub const fn code(self) -> u16 {
        match self {
            Close::Normal => 1000,
            Close::Lost => 1006,
            Close::Draining => 1001,
            Close::Protocol => 1002,
            Close::InvalidUtf8 => 1007,
            Close::TooLarge => 1009,
            Close::Replaced => 4001,
            Close::Unauthorised => 4003,
            Close::TooSlow => 4008,
        }
    }

    /// The label of the metric that counts closed connections.
    pub const fn label(self) -> &'static str {
        match self {
            Close::Normal => "normal",
            Close::Lost => "lost",
            Close::Draining => "draining",
            Close::Protocol => "protocol",
            Close::InvalidUtf8 => "invalid_utf8",
            Close::TooLarge => "too_large",
            Close::Replaced => "replaced",
            Close::Unauthorised => "unauthorised",
            Close::TooSlow => "too_slow",
        }
    }

    /// The reason sent beside the code, for people.
    pub const fn reason(self) -> &'static str {
        match self {
            Close::Normal | Close::Lost => "",
            Close::Draining => "the node is going away",
            Close::Protocol => "the frame breaks RFC 6455",
            Close::InvalidUtf8 => "the text frame is not UTF-8",
            Close::TooLarge => {
                "over the max_frame_bytes of the challenge, or too much unregistered"
            }
            Close::Replaced => "the agent connected again elsewhere; do not reconnect",
            Close::Unauthorised => "authentication failed",
            Close::TooSlow => "too slow to register, answer pings or read",
        }
    }

    /// Whether a client may connect again by itself after this code.
    pub const fn allows_reconnect(code: u16) -> bool {
        code != Close::Replaced.code() && code != Close::Unauthorised.code()
    }
}

/// A refusal as it is told to the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct Refusal {
    /// Which row of the table.
    pub code: Code,
    /// One sentence for a person.
    pub reason: Cow<'static, str>,
    /// The field at fault, as a path from the envelope (`sender.agent_id`).
    pub field: Option<Cow<'static, str>>,
    /// When trying again makes sense, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// Most bytes of a reason, and of a field: both may repeat what a peer sent.
const TEXT_BYTES_MAX: usize = 512;

/// Cut where it is too long, so that an answer is never much longer than what it answers.
fn within_bounds(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    format!("{}…", &text[..end]).into()
}

impl Refusal {
    /// A refusal that names no field.
    pub fn new(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            code,
            reason: within_bounds(reason.into()),
            field: None,
            retry_after_ms: None,
        }
    }

    /// A refusal that names the field at fault.
    pub fn of_field(
        code: Code,
        field: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Refusal {
            field: Some(within_bounds(field.into())),
            ..Refusal::new(code, reason)
        }
    }

    /// The same refusal with the time after which to try again, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(self, retry_after_ms: u64) -> Self {
        Refusal {
            retry_after_ms: Some(retry_after_ms),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_code_has_a_wire_name_of_its_own() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.row().wire).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::from_wire(code.row().wire), Some(code));
        }
    }

    #[test]
    fn only_replaced_and_unauthorised_forbid_reconnecting() {
        assert!(!Close::allows_reconnect(4001));
        assert!(!Close::allows_reconnect(4003));
        for code in [1000, 1001, 1006, 1009, 4008] {
            assert!(Close::allows_reconnect(code));
        }
    }
}
