//! What outlives a connection: bodies of messages, places in mailboxes, facts about agents.
//!
//! Beside a frame's way: what keeps messages will ask it between `router` and `delivery`. No frame
//! meets it yet.

use std::{fmt::Debug, sync::Arc};

use synapse::control::Durability;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::limits::{AGENT_ID_BYTES_MAX, BODY_BYTES_MAX, SUBMITTED_OVERHEAD_BYTES};
use crate::mailbox::DeadReason;

pub mod embedded;
pub mod memory;

#[cfg(test)]
mod tests;

/// A message, stored once, however many mailboxes have a place for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Its number, from [`Backbone::next_seq`].
    pub seq: u64,
    /// Members of Harbor's own, as JSON without the braces.
    pub members: Box<str>,
    /// The frame as it is delivered.
    pub frame: Utf8Bytes,
}

/// A message's place in one mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose mailbox. Not empty, and holds no NUL.
    pub agent_id: Arc<str>,
    /// Its number, from [`Backbone::next_seq`]; a mailbox is in the order of these.
    pub seq: u64,
    /// The [`Body::seq`] of its message.
    pub body: u64,
    /// What the message takes of the mailbox's room, in bytes.
    pub bytes: u32,
    /// When it expires by the wall clock, in milliseconds since 1970.
    pub deadline_ms: i64,
    /// As in the envelope.
    pub priority: u8,
    /// How often it was handed to its agent.
    pub deliveries: u32,
    /// Whether its sender asked for a receipt.
    pub wants_receipt: bool,
    /// Why it is in the dead-letter mailbox, if it is.
    pub dead: Option<DeadReason>,
}

/// What the caller knows of an agent that must outlive its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Who. Not empty, and holds no NUL.
    pub agent_id: Arc<str>,
    /// The facts, in JSON of the caller's.
    pub json: Box<str>,
}

/// One change of what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Keeps a body, in place of any with its number.
    PutBody(Body),
    /// Forgets a body, if it is there.
    RemoveBody {
        /// Its number.
        seq: u64,
    },
    /// Keeps a place in a mailbox, in place of any with its agent and number.
    PutEntry(Entry),
    /// Forgets a place in a mailbox, if it is there.
    RemoveEntry {
        /// Whose mailbox.
        agent_id: Arc<str>,
        /// Its number.
        seq: u64,
    },
    /// Keeps the facts about an agent, in place of earlier ones.
    PutAgent(Agent),
    /// Forgets the facts about an agent, if there are any.
    RemoveAgent {
        /// Who.
        agent_id: Arc<str>,
    },
}

impl Change {
    /// What it takes in memory, about, in bytes.
    pub(crate) fn cost_bytes(&self) -> usize {
        let content = match self {
            Change::PutBody(body) => body.members.len() + body.frame.len(),
            Change::RemoveBody { .. } => 0,
            Change::PutEntry(Entry { agent_id, .. })
            | Change::RemoveEntry { agent_id, .. }
            | Change::RemoveAgent { agent_id } => agent_id.len(),
            Change::PutAgent(agent) => agent.agent_id.len() + agent.json.len(),
        };
        content + SUBMITTED_OVERHEAD_BYTES
    }

    /// Refuses what a store cannot hold.
    pub(crate) fn check(&self) -> Result<(), StoreFailed> {
        let agent_id = match self {
            Change::PutBody(body) => {
                let bytes = body.members.len().saturating_add(body.frame.len());
                return if bytes > BODY_BYTES_MAX {
                    Err(StoreFailed::Unfit("a body is too large"))
                } else {
                    Ok(())
                };
            }
            Change::RemoveBody { .. } => return Ok(()),
            Change::PutEntry(Entry { agent_id, .. })
            | Change::PutAgent(Agent { agent_id, .. })
            | Change::RemoveEntry { agent_id, .. }
            | Change::RemoveAgent { agent_id } => agent_id,
        };
        if agent_id.is_empty() || agent_id.len() > AGENT_ID_BYTES_MAX || agent_id.contains('\0') {
            return Err(StoreFailed::Unfit(
                "an agent's id is empty, too long or holds NUL",
            ));
        }
        Ok(())
    }
}

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFailed {
    /// It has as much to do as it may have; time mends this.
    #[error("the store is busy")]
    Busy,
    /// A write failed, so nothing is claimed to be stored until the node starts anew.
    #[error("the store is broken: {0}")]
    Broken(Arc<str>),
    /// What was submitted cannot be kept by any store; nothing of it was done.
    #[error("this cannot be stored: {0}")]
    Unfit(&'static str),
    /// Something that was stored cannot be read.
    #[error("the store cannot be read: {0}")]
    Unreadable(Arc<str>),
}

/// Told once what became of a submission. It must be quick and must not wait for anything: the next
/// one waits for it.
pub type Done = Box<dyn FnOnce(Result<(), StoreFailed>) + Send>;

/// Some of what is kept, read as it is asked for.
pub type Rows<T> = Box<dyn Iterator<Item = Result<T, StoreFailed>> + Send>;

/// What is kept, at the time of [`Backbone::load`]. What is stored later does not show. It holds the
/// store open as long as it lives.
pub struct Loaded {
    /// All agents with facts, in the order of their ids' bytes.
    pub agents: Rows<Agent>,
    /// All places in mailboxes, in the order of their agents' ids and then their numbers.
    pub entries: Rows<Entry>,
}

impl Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").finish_non_exhaustive()
    }
}

/// The store of a node.
pub trait Backbone: Send + Sync + Debug {
    /// A number larger than any given before, by this store in this or an earlier life; the first is
    /// 1. Does not wait.
    ///
    /// # Errors
    ///
    /// [`StoreFailed::Busy`] if more have been asked for than could be reserved, and
    /// [`StoreFailed::Broken`] if no more will be.
    fn next_seq(&self) -> Result<u64, StoreFailed>;

    /// Makes all of these changes, or none. Does not wait: `done` is called once they outlive what
    /// [`Backbone::durability`] promises, or were refused: [`StoreFailed::Busy`] if too much waits
    /// already, [`StoreFailed::Broken`] after a failed write, [`StoreFailed::Unfit`] for ids and
    /// bodies no store can hold. What one thread submits and is not
    /// refused at once is done in that order. `done` may be called before this returns, so the
    /// caller holds no lock that it takes.
    fn submit(&self, changes: Vec<Change>, done: Done);

    /// The body of that number, if it is kept. Sees every submission whose `done` has been called.
    /// May read a disk.
    ///
    /// # Errors
    ///
    /// [`StoreFailed::Unreadable`] if it is there but cannot be read.
    fn body(&self, seq: u64) -> Result<Option<Body>, StoreFailed>;

    /// All that is kept beside bodies, for a node that starts. May read a disk, and so may its rows.
    ///
    /// # Errors
    ///
    /// [`StoreFailed::Unreadable`] if it cannot be read; the rows end with the first such error.
    fn load(&self) -> Result<Loaded, StoreFailed>;

    /// What a change survives whose `done` was called with `Ok`.
    fn durability(&self) -> Durability;

    /// Whether it still stores.
    ///
    /// # Errors
    ///
    /// [`StoreFailed::Broken`] after a failed write.
    fn health(&self) -> Result<(), StoreFailed>;
}
