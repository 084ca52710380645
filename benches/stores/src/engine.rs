//! What Harbor asks of a store: groups made durable at once, an index read whole, a backlog in order.

pub(crate) mod on_fjall;
pub(crate) mod on_redb;

use crate::Done;
use std::path::Path;

/// One copy of a message for one agent. Bodies and entries share the node's counter.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) agent: u64,
    pub(crate) seq: u64,
    pub(crate) deadline: u64,
    pub(crate) priority: u8,
    pub(crate) body: u64,
}

pub(crate) const VALUE_BYTES: usize = 24;

impl Entry {
    /// What is kept under (agent, seq): deadline, body, priority, and room for flags.
    pub(crate) fn value(&self) -> [u8; VALUE_BYTES] {
        let mut value = [0; VALUE_BYTES];
        value[..8].copy_from_slice(&self.deadline.to_be_bytes());
        value[8..16].copy_from_slice(&self.body.to_be_bytes());
        value[16] = self.priority;
        value
    }

    pub(crate) fn from_value(agent: u64, seq: u64, value: &[u8]) -> Self {
        Self {
            agent,
            seq,
            deadline: number(value),
            priority: value[16],
            body: number(&value[8..]),
        }
    }
}

/// The first eight bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_be_bytes(eight)
}

/// What one commit makes durable: all of it or nothing.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) added: Vec<(Entry, Vec<u8>)>,
    pub(crate) removed: Vec<Entry>,
}

pub(crate) trait Engine: Sized {
    /// Opens the store in this folder, or makes it.
    fn open(folder: &Path) -> Done<Self>;

    /// Returns when the group is on disk.
    fn commit(&mut self, group: &Group) -> Done<()>;

    /// Does now what was put off for later: so that no work escapes the measurement.
    fn settle(&mut self) -> Done<()>;

    /// Gives back the disk of what was removed, as far as the store can, while nothing else is done.
    fn compact(&mut self) -> Done<()>;

    /// Gives every entry there is, in order of agent and seq.
    fn entries(&self, each: &mut dyn FnMut(Entry)) -> Done<()>;

    /// Gives the messages of one agent with their bodies, in order.
    fn backlog(&self, agent: u64, each: &mut dyn FnMut(Entry, &[u8])) -> Done<()>;
}
