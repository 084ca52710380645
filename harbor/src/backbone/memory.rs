//! The store of a node that keeps nothing on disk: all of it ends with the process.
//!
//! Beside a frame's way, behind [`Backbone`].

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use synapse::control::Durability;

use super::{Agent, Backbone, Body, Change, Done, Entry, Loaded, StoreFailed};

/// A [`Backbone`] in memory.
#[derive(Debug)]
pub struct Memory {
    seq: AtomicU64,
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What it all takes, by [`Change::cost_bytes`].
    bytes: usize,
    bodies: BTreeMap<u64, Body>,
    entries: BTreeMap<(Arc<str>, u64), Entry>,
    agents: BTreeMap<Arc<str>, Agent>,
}

impl Memory {
    /// An empty one that keeps so many bytes at most; more is refused as [`StoreFailed::Busy`].
    #[must_use]
    pub fn with_room_for(bytes_max: usize) -> Memory {
        Memory {
            seq: AtomicU64::new(1),
            bytes_max,
            kept: Mutex::default(),
        }
    }
}

impl Backbone for Memory {
    fn next_seq(&self) -> Result<u64, StoreFailed> {
        Ok(self.seq.fetch_add(1, Ordering::Relaxed))
    }

    fn submit(&self, changes: Vec<Change>, done: Done) {
        let answer = self.kept.lock().make(changes, self.bytes_max);
        done(answer);
    }

    fn body(&self, seq: u64) -> Result<Option<Body>, StoreFailed> {
        Ok(self.kept.lock().bodies.get(&seq).cloned())
    }

    fn load(&self) -> Result<Loaded, StoreFailed> {
        let kept = self.kept.lock();
        let agents: Vec<Agent> = kept.agents.values().cloned().collect();
        let entries: Vec<Entry> = kept.entries.values().cloned().collect();
        Ok(Loaded {
            agents: Box::new(agents.into_iter().map(Ok)),
            entries: Box::new(entries.into_iter().map(Ok)),
        })
    }

    fn durability(&self) -> Durability {
        Durability::Routed
    }

    fn health(&self) -> Result<(), StoreFailed> {
        Ok(())
    }
}

impl Kept {
    fn make(&mut self, changes: Vec<Change>, bytes_max: usize) -> Result<(), StoreFailed> {
        changes.iter().try_for_each(Change::check)?;
        // Counts as if nothing were replaced or removed, and lets pass what only removes.
        let added: usize = changes
            .iter()
            .filter(|change| is_put(change))
            .map(Change::cost_bytes)
            .sum();
        if added > 0 && self.bytes + added > bytes_max {
            return Err(StoreFailed::Busy);
        }
        self.bytes += added;
        for change in changes {
            let gone = self.make_one(change);
            self.bytes -= gone.map_or(0, |gone| gone.cost_bytes());
        }
        Ok(())
    }

    /// What it replaced or removed, as the change that had put it there.
    fn make_one(&mut self, change: Change) -> Option<Change> {
        match change {
            Change::PutBody(body) => self.bodies.insert(body.seq, body).map(Change::PutBody),
            Change::RemoveBody { seq } => self.bodies.remove(&seq).map(Change::PutBody),
            Change::PutEntry(entry) => {
                let key = (Arc::clone(&entry.agent_id), entry.seq);
                self.entries.insert(key, entry).map(Change::PutEntry)
            }
            Change::RemoveEntry { agent_id, seq } => {
                self.entries.remove(&(agent_id, seq)).map(Change::PutEntry)
            }
            Change::PutAgent(agent) => {
                let key = Arc::clone(&agent.agent_id);
                self.agents.insert(key, agent).map(Change::PutAgent)
            }
            Change::RemoveAgent { agent_id } => self.agents.remove(&agent_id).map(Change::PutAgent),
        }
    }
}

fn is_put(change: &Change) -> bool {
    match change {
        Change::PutBody(_) | Change::PutEntry(_) | Change::PutAgent(_) => true,
        Change::RemoveBody { .. } | Change::RemoveEntry { .. } | Change::RemoveAgent { .. } => {
            false
        }
    }
}
