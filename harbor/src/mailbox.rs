//! What waits for one agent: places in order, what is on its way, when to try again, what is dead.
//!
//! Asked behind the router, before delivery. Pure: no clock, no lock, no I/O. Times are milliseconds on
//! whatever clock the caller keeps; bodies and durability are the store's.
//! Every call says what became of which places, so that the caller can write it down and tell
//! senders.
//!
//! A place is in one of four states:
//!
//! ```text
//!              take                settle
//!  waiting ─────────▶ in flight ───────────▶ gone
//!     ▲                │  │  │ nack, ack_wait over, too often: dead ──▶ replay, purge
//!     │   ack_wait     │  │  └──────────────────────────────────────▶ dead
//!     ├────────────────┘  │ nack with delay
//!     └──── delayed ◀─────┘
//! ```
//!
//! Whatever is not in flight and past its deadline is gone as expired. What is in flight may still be
//! settled then, as the agent has it; it is not delivered again.

mod change;
mod state;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Milliseconds on the caller's clock.
pub type Millis = u64;

/// How much a mailbox may hold, and how long it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most messages, dead letters not counted.
    pub count_max: usize,
    /// Most bytes, dead letters not counted.
    pub bytes_max: u64,
    /// What is done with one more.
    pub when_full: WhenFull,
    /// How long an acknowledgement is waited for.
    pub ack_wait: Millis,
    /// After so many deliveries without an acknowledgement a message is dead. At least 1.
    pub max_deliveries: u32,
    /// Most dead letters; the oldest give way.
    pub dead_max: usize,
    /// How long a dead letter is kept.
    pub dead_retention: Millis,
}

/// The policy of a full mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The newer message is refused (`mailbox_full`).
    Refuse,
    /// The oldest of the lowest priority that wait give way, unless the newer one is less urgent.
    DropOldest,
}

/// A message as a mailbox sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number, larger for a later one and never given twice.
    pub seq: u64,
    /// What it counts for.
    pub bytes: u32,
    /// 0 to 9; a higher one goes first.
    pub priority: u8,
    /// When it is no longer wanted; of a dead letter, when it is thrown away.
    pub deadline: Millis,
    /// How often it was taken.
    pub deliveries: u32,
    /// Why it is dead, if it is.
    pub dead: Option<DeadReason>,
}

/// Why a message is a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadReason {
    /// It was delivered `max_deliveries` times and never acknowledged.
    Unacknowledged,
    /// The last of these deliveries was answered with a nack.
    Rejected,
}

/// What became of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged, and is gone.
    Settled(Place),
    /// Its deadline passed, and it is gone.
    Expired(Place),
    /// It gave way to newer ones, and is gone.
    Dropped(Place),
    /// It is a dead letter now.
    Dead(Place),
    /// It is to be delivered again.
    Again(Place),
}

/// The mailbox takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mailbox holds {count} messages, {bytes} bytes")]
pub struct Full {
    /// Messages in it.
    pub count: usize,
    /// Bytes in it.
    pub bytes: u64,
}

/// Which places an acknowledgement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// These. Numbers that are not there change nothing.
    Seqs(&'a [u64]),
    /// All that were delivered up to this one.
    Through(u64),
}

/// Whether what is taken counts as processed once it is written, or when its agent says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Until it is written or given back: no time runs.
    ForSocket,
    /// For `ack_wait`.
    ForAgent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Delayed { until: Millis },
    InFlight { until: Option<Millis> },
    Dead,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    place: Place,
    state: State,
}

/// One agent's mailbox.
#[derive(Debug)]
pub struct Mailbox {
    limits: Limits,
    slots: BTreeMap<u64, Slot>,
    /// What can be taken, first the highest priority, then the oldest.
    waiting: BTreeSet<(Reverse<u8>, u64)>,
    /// When something is to happen to which place.
    timers: BTreeSet<(Millis, u64)>,
    /// The dead letters, which are in `slots` too.
    dead: BTreeSet<u64>,
    in_flight: usize,
    /// Of all but the dead letters.
    bytes: u64,
}

#[cfg(test)]
mod tests;
