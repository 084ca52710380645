//! Makes the messages: to mailboxes by chance, deadlines by chance, bodies that do not compress.

use crate::engine::{Entry, Group};

pub(crate) const MAILBOXES: u64 = 100_000;
pub(crate) const BODY_BYTES: usize = 1024;
/// The agent whose long backlog is read in order; no other traffic goes to it.
pub(crate) const BUSY_AGENT: u64 = MAILBOXES + 1;

pub(crate) struct Traffic {
    chance: fastrand::Rng,
    pool: Vec<u8>,
    seq: u64,
}

impl Traffic {
    /// The same seed gives the same messages to every store.
    pub(crate) fn new() -> Self {
        let mut chance = fastrand::Rng::with_seed(7420);
        let mut pool = vec![0; 64 * BODY_BYTES];
        chance.fill(&mut pool);
        Self {
            chance,
            pool,
            seq: 0,
        }
    }

    pub(crate) fn anyone(&mut self) -> u64 {
        self.chance.u64(..MAILBOXES)
    }

    /// Puts the next message into the group, and tells its entry.
    pub(crate) fn add(&mut self, agent: u64, group: &mut Group) -> Entry {
        self.seq += 1;
        let entry = Entry {
            agent,
            seq: self.seq,
            deadline: self.chance.u64(..),
            priority: self.chance.u8(..4),
            body: self.seq,
        };
        let start = self.chance.usize(..self.pool.len() - BODY_BYTES);
        let mut body = self.pool[start..start + BODY_BYTES].to_vec();
        body[..8].copy_from_slice(&self.seq.to_be_bytes());
        group.added.push((entry, body));
        entry
    }

    /// Takes one of the live entries, whichever: agents acknowledge in no common order.
    pub(crate) fn acknowledged(&mut self, live: &mut Vec<Entry>) -> Entry {
        live.swap_remove(self.chance.usize(..live.len()))
    }
}
