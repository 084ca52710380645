//! What can go wrong for a caller: one shape, a comparable kind per operation.
//!
//! Stands beside a frame's way: every call of the client that fails says so with one of these.
//! Match on [`Error::kind`]; the text is for people.

use std::{error, fmt};

use crate::{
    control::RefusedPayload,
    refusal::{Code, Refusal},
};

type Source = Box<dyn error::Error + Send + Sync>;

/// A failure: its kind, and what caused it.
#[derive(Debug)]
pub struct Error<K> {
    kind: K,
    source: Option<Source>,
}

/// Why [`Client::connect`](super::Client::connect) failed.
pub type ConnectError = Error<ConnectErrorKind>;

/// Why a message was not sent, or is not known to be accepted.
pub type SendError = Error<SendErrorKind>;

/// Why a request has no answer.
pub type RequestError = Error<RequestErrorKind>;

/// Why a question to Harbor itself (groups, presence, discovery) has no answer.
pub type ControlError = Error<ControlErrorKind>;

/// The kinds of [`ConnectError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// The options cannot work: a bad URL, no agent id. Nothing was tried.
    InvalidOptions,
    /// No connection came about, or it broke before the registration: name not found, connection
    /// refused, no route, a proxy without a Harbor behind it.
    Unreachable,
    /// Something answered that is no Harbor: an HTTP error, or other frames.
    NotHarbor,
    /// TLS did not come about: Harbor's certificate is not trusted or is for another host, or ours
    /// was not accepted.
    Untrusted,
    /// [`Options::connect_deadline`](super::Options::connect_deadline) passed.
    Deadline,
    /// Harbor refused to register the agent; see [`Error::refusal`].
    Refused,
    /// There is no token to show: see [`Options::token`](super::Options::token).
    NoToken,
    /// Harbor did not accept the token (see [`Error::refusal`]), or closed the connection with 4003:
    /// who this is was not proven.
    Unauthorised,
}

/// The kinds of [`SendError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// Harbor refused the message; see [`Error::refusal`]. It went to nobody.
    Refused,
    /// The deadline passed while the message waited for a connection. It was certainly not sent.
    NotSent,
    /// It was sent and no acceptance came by the deadline. Whether it was accepted is unknown.
    /// When you send it again, keep its `id`: whoever gets it twice can tell by that.
    Deadline,
    /// As [`SendErrorKind::Deadline`], and the reason is known: the inbox is full, so the client
    /// is not reading. Take messages with [`Client::next`](super::Client::next) meanwhile.
    InboxFull,
    /// The connection was lost before the acceptance came. Whether it was accepted is unknown.
    /// When you send it again, keep its `id`: whoever gets it twice can tell by that.
    Disconnected,
    /// The client is closed for good. The message was not sent, or its acceptance cannot come.
    Closed,
    /// The frame is larger than Harbor reads. It was not sent.
    TooLarge,
    /// The envelope cannot be sent as it is: no type, a `synapse.*` type, an `id` that is still in
    /// flight, or it cannot be sealed as it asks. It was not sent.
    Invalid,
    /// The session runs with [`Confirm::Refusals`](crate::control::Confirm::Refusals), so there is
    /// no acceptance to wait for: use [`Client::post`](super::Client::post). It was not sent.
    Unconfirmed,
}

/// The kinds of [`RequestError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestErrorKind {
    /// Harbor accepted the request and found nobody to give it to.
    NoRecipients,
    /// The deadline passed without an answer.
    NoAnswer,
    /// The request did not get out, or is not known to have.
    Send(SendErrorKind),
}

/// The kinds of [`ControlError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ControlErrorKind {
    /// A later join or leave of the same group took this one's place.
    Superseded,
    /// The answer was not of the form this version knows.
    Unreadable,
    /// The question did not get out, or is not known to have.
    Send(SendErrorKind),
}

impl<K> Error<K> {
    pub(super) fn new(kind: K) -> Self {
        Error { kind, source: None }
    }

    pub(super) fn because(kind: K, source: impl Into<Source>) -> Self {
        Error {
            kind,
            source: Some(source.into()),
        }
    }

    /// The same cause under another operation's kind.
    pub(super) fn map<L>(self, kind: impl FnOnce(K) -> L) -> Error<L> {
        Error {
            kind: kind(self.kind),
            source: self.source,
        }
    }

    /// What Harbor said, when it refused. `None` for other kinds, and for a code this version does
    /// not know (the text of the error has it).
    pub fn refusal(&self) -> Option<&Refusal> {
        self.source.as_ref()?.downcast_ref()
    }
}

impl<K: Copy> Error<K> {
    /// What kind of failure this is.
    pub fn kind(&self) -> K {
        self.kind
    }
}

impl<K> Error<K> {
    /// A refusal as it came, typed where its code is known.
    pub(super) fn refused(kind: K, payload: RefusedPayload) -> Self {
        match Code::from_wire(&payload.code) {
            Some(code) => Error::because(
                kind,
                Refusal {
                    code,
                    reason: payload.reason.into(),
                    field: payload.field.map(Into::into),
                    retry_after_ms: payload.retry_after_ms,
                },
            ),
            None => Error::because(kind, format!("{}: {}", payload.code, payload.reason)),
        }
    }
}

impl<K: fmt::Display> fmt::Display for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl<K: fmt::Debug + fmt::Display> error::Error for Error<K> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(self.source.as_deref()?)
    }
}

impl fmt::Display for ConnectErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectErrorKind::InvalidOptions => "the options cannot work",
            ConnectErrorKind::Unreachable => "Harbor cannot be reached",
            ConnectErrorKind::NotHarbor => "what answered is not a Harbor",
            ConnectErrorKind::Untrusted => "no trusted connection to Harbor",
            ConnectErrorKind::Deadline => "no registration by the connect deadline",
            ConnectErrorKind::Refused => "Harbor refused the registration",
            ConnectErrorKind::NoToken => "there is no token to show Harbor",
            ConnectErrorKind::Unauthorised => "Harbor did not authenticate the agent",
        })
    }
}

impl fmt::Display for SendErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendErrorKind::Refused => "refused",
            SendErrorKind::NotSent => "not sent: no connection by the deadline",
            SendErrorKind::Deadline => "sent, but not answered by the deadline",
            SendErrorKind::InboxFull => {
                "sent, but not answered by the deadline: the inbox is full, so nothing is read"
            }
            SendErrorKind::Disconnected => "the connection was lost before the answer",
            SendErrorKind::Closed => "the client is closed",
            SendErrorKind::TooLarge => "not sent: larger than Harbor reads",
            SendErrorKind::Invalid => "not sent: the envelope is not valid",
            SendErrorKind::Unconfirmed => "not sent: the session has no acceptances to wait for",
        })
    }
}

impl fmt::Display for RequestErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestErrorKind::NoRecipients => f.write_str("nobody is there to answer"),
            RequestErrorKind::NoAnswer => f.write_str("no answer by the deadline"),
            RequestErrorKind::Send(kind) => kind.fmt(f),
        }
    }
}

impl fmt::Display for ControlErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlErrorKind::Superseded => {
                f.write_str("a later join or leave of the group took its place")
            }
            ControlErrorKind::Unreadable => f.write_str("the answer cannot be read"),
            ControlErrorKind::Send(kind) => kind.fmt(f),
        }
    }
}

impl From<SendErrorKind> for RequestErrorKind {
    fn from(kind: SendErrorKind) -> Self {
        RequestErrorKind::Send(kind)
    }
}

impl From<SendErrorKind> for ControlErrorKind {
    fn from(kind: SendErrorKind) -> Self {
        ControlErrorKind::Send(kind)
    }
}

impl From<SendError> for RequestError {
    fn from(error: SendError) -> Self {
        error.map(RequestErrorKind::Send)
    }
}

impl From<SendError> for ControlError {
    fn from(error: SendError) -> Self {
        error.map(ControlErrorKind::Send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> SendError {
        let payload = RefusedPayload {
            code: code.to_owned(),
            reason: "no".to_owned(),
            field: Some("target_ids".to_owned()),
            retry_after_ms: Some(5),
        };
        Error::refused(SendErrorKind::Refused, payload)
    }

    #[test]
    fn a_refusal_keeps_its_code_through_every_kind() {
        let error: RequestError = refused("empty_targets").into();
        assert_eq!(error.kind(), RequestErrorKind::Send(SendErrorKind::Refused));
        let refusal = error.refusal().unwrap();
        assert_eq!(refusal.code, Code::EmptyTargets);
        assert_eq!(refusal.field.as_deref(), Some("target_ids"));
        assert_eq!(error.to_string(), "refused: empty_targets: no");
    }

    #[test]
    fn a_code_of_a_later_version_is_still_told() {
        let error = refused("quantum_noise");
        assert_eq!(error.refusal(), None);
        assert_eq!(error.to_string(), "refused: quantum_noise: no");
    }
}
