//! The mailboxes on fjall: two keyspaces, a group is a write batch synced to the journal.

use super::{Engine, Entry, Group, number};
use crate::Done;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use std::{path::Path, thread, time::Duration};

const CACHE_BYTES: u64 = 64 << 20;
/// What a keyspace holds before it writes a table. The default, 64 MiB, takes twice the memory and
/// stalls longer, for the same CPU time.
const MEMTABLE_BYTES: u64 = 16 << 20;

pub(crate) struct Fjall {
    bodies: Keyspace,
    entries: Keyspace,
    // Last: it waits for its threads when it is dropped.
    database: Database,
}

fn key(entry: &Entry) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&entry.agent.to_be_bytes());
    key[8..].copy_from_slice(&entry.seq.to_be_bytes());
    key
}

fn entry(key: &[u8], value: &[u8]) -> Entry {
    Entry::from_value(number(key), number(&key[8..]), value)
}

impl Engine for Fjall {
    fn open(folder: &Path) -> Done<Self> {
        let database = Database::builder(folder).cache_size(CACHE_BYTES).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        Ok(Self {
            bodies: database.keyspace("bodies", options)?,
            entries: database.keyspace("entries", options)?,
            database,
        })
    }

    fn commit(&mut self, group: &Group) -> Done<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (entry, body) in &group.added {
            batch.insert(&self.bodies, entry.body.to_be_bytes(), body.as_slice());
            batch.insert(&self.entries, key(entry), entry.value());
        }
        for entry in &group.removed {
            batch.remove(&self.bodies, entry.body.to_be_bytes());
            batch.remove(&self.entries, key(entry));
        }
        Ok(batch.commit()?)
    }

    fn settle(&mut self) -> Done<()> {
        self.bodies.rotate_memtable_and_wait()?;
        self.entries.rotate_memtable_and_wait()?;
        let mut quiet = 0;
        let mut before = self.database.compactions_completed();
        while quiet < 5 {
            thread::sleep(Duration::from_millis(20));
            let now = self.database.compactions_completed();
            let still = now == before && self.database.active_compactions() == 0;
            quiet = if still { quiet + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    fn compact(&mut self) -> Done<()> {
        self.bodies.major_compact()?;
        Ok(self.entries.major_compact()?)
    }

    fn entries(&self, each: &mut dyn FnMut(Entry)) -> Done<()> {
        for found in self.database.snapshot().iter(&self.entries) {
            let (key, value) = found.into_inner()?;
            each(entry(&key, &value));
        }
        Ok(())
    }

    fn backlog(&self, agent: u64, each: &mut dyn FnMut(Entry, &[u8])) -> Done<()> {
        // A snapshot: a plain range would show half of a batch that is just being applied.
        let snapshot = self.database.snapshot();
        for found in snapshot.prefix(&self.entries, agent.to_be_bytes()) {
            let (key, value) = found.into_inner()?;
            let entry = entry(&key, &value);
            let body = snapshot.get(&self.bodies, entry.body.to_be_bytes())?;
            each(entry, &body.ok_or("an entry without its body")?);
        }
        Ok(())
    }
}
