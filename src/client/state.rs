//! What an application can see of the connection: the state now, and events as they happen.
//!
//! Stands beside a frame's way; the task that owns the socket tells, handles listen.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::broadcast;

use super::error::SendError;
use crate::refusal::Refusal;

/// Events kept for an [`Events`] reader that is behind; older ones are counted as missed.
pub(super) const EVENTS_MAX: usize = 256;

/// How the connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Registered; messages flow.
    Connected(Session),
    /// Not connected; the client is trying to be.
    Disconnected(DisconnectReason),
    /// Over for good: the client does not connect again.
    Closed(CloseReason),
}

/// One registered connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Number of this connection among all Harbor has had; a later one is larger.
    pub generation: u64,
    /// Whether it took over from a connection the agent still had.
    pub resumed: bool,
    /// Stored messages about to come.
    pub pending: u64,
    /// Name of Harbor's node.
    pub node: String,
    /// Largest frame Harbor reads, in bytes.
    pub frame_bytes_max: usize,
}

/// Why a connection was lost, or did not come about again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// Harbor closed it (1001 draining, 1009 a frame over the limit, 4008 too slow, …).
    Closed {
        /// The close code; 1005 when Harbor gave none.
        code: u16,
        /// What Harbor said with it.
        reason: String,
    },
    /// The connection ended without a close, or failed.
    Broken(String),
    /// Nothing was heard for two heartbeats, not even the answer to a ping.
    Silent,
    /// An attempt to connect again failed.
    NotReconnected(String),
}

/// Why a client is closed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// [`Client::close`](super::Client::close), or the last handle was dropped.
    Asked,
    /// The agent connected elsewhere (4001). Connecting again would drive that one out.
    Replaced,
    /// Harbor does not believe, or no longer believes, who this is (4003).
    Unauthorised,
    /// The token ended, or is no longer good, and this is why there was no newer one (4003).
    NotRenewed(String),
    /// Harbor refused to let the agent in again, and would again.
    Refused(Refusal),
}

/// Something that happened to the connection, or to a message nobody was waiting for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Connected again.
    Reconnected(Session),
    /// The connection was lost.
    Disconnected(DisconnectReason),
    /// The next attempt to connect comes after this time.
    Retrying {
        /// From now.
        after: Duration,
    },
    /// Harbor is going away and will close the connection.
    Draining {
        /// When the client will connect again, counted from the close.
        reconnect_after: Duration,
    },
    /// A message failed whose sender does not wait for the outcome ([`Client::post`] with the
    /// handle dropped, or a `send` that was given up).
    ///
    /// [`Client::post`]: super::Client::post
    Failed {
        /// The message, when Harbor could read its id.
        message_id: Option<String>,
        /// What happened to it.
        error: Arc<SendError>,
    },
    /// Harbor delivered a frame this version cannot read; it was skipped.
    Unreadable(Refusal),
    /// A newer token could not be had, or was refused. It is tried again until the older one ends.
    NotRenewed(String),
    /// This reader was so far behind that this many events are gone.
    Missed(u64),
    /// Over for good.
    Closed(CloseReason),
}

/// Events from the moment of [`Client::events`](super::Client::events) on. Up to 256 wait for a slow
/// reader; beyond that the oldest go and [`Event::Missed`] says how many.
#[derive(Debug)]
pub struct Events(pub(super) broadcast::Receiver<Event>);

impl Events {
    /// The next event; `None` once the client is closed and all were read.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DisconnectReason::Closed { code, reason } if reason.is_empty() => {
                write!(f, "Harbor closed the connection ({code})")
            }
            DisconnectReason::Closed { code, reason } => {
                write!(f, "Harbor closed the connection ({code}: {reason})")
            }
            DisconnectReason::Broken(cause) => write!(f, "the connection broke: {cause}"),
            DisconnectReason::Silent => f.write_str("nothing was heard for two heartbeats"),
            DisconnectReason::NotReconnected(cause) => f.write_str(cause),
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Asked => f.write_str("it was asked to close"),
            CloseReason::Replaced => f.write_str("the agent connected elsewhere (4001)"),
            CloseReason::Unauthorised => f.write_str("Harbor does not accept its identity (4003)"),
            CloseReason::NotRenewed(why) => write!(f, "its token was not renewed: {why} (4003)"),
            CloseReason::Refused(refusal) => {
                write!(f, "Harbor refused to register it again: {refusal}")
            }
        }
    }
}
