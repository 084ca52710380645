//! The mailboxes on redb: two tables in one file, a group is a write transaction.

use super::{Engine, Entry, Group, VALUE_BYTES};
use crate::Done;
use redb::{
    CompactionMode, Database, Durability, ReadableDatabase, ReadableTable, TableDefinition,
};
use std::path::Path;

const BODIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("bodies");
const ENTRIES: TableDefinition<'_, (u64, u64), [u8; VALUE_BYTES]> = TableDefinition::new("entries");

/// About what fjall takes with its cache and with what it holds before it writes tables.
const CACHE_BYTES: usize = 128 << 20;

pub(crate) struct Redb {
    database: Database,
}

impl Engine for Redb {
    fn open(folder: &Path) -> Done<Self> {
        std::fs::create_dir_all(folder)?;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create(folder.join("mailboxes.redb"))?;
        Ok(Self { database })
    }

    fn commit(&mut self, group: &Group) -> Done<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut bodies = transaction.open_table(BODIES)?;
            let mut entries = transaction.open_table(ENTRIES)?;
            for (entry, body) in &group.added {
                bodies.insert(entry.body, body.as_slice())?;
                entries.insert((entry.agent, entry.seq), entry.value())?;
            }
            for entry in &group.removed {
                bodies.remove(entry.body)?;
                entries.remove((entry.agent, entry.seq))?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Every commit has done all of its work.
    fn settle(&mut self) -> Done<()> {
        Ok(())
    }

    fn compact(&mut self) -> Done<()> {
        self.database.compact(CompactionMode::Balanced)?;
        Ok(())
    }

    fn entries(&self, each: &mut dyn FnMut(Entry)) -> Done<()> {
        let transaction = self.database.begin_read()?;
        let entries = transaction.open_table(ENTRIES)?;
        for found in entries.iter()? {
            let (key, value) = found?;
            let (agent, seq) = key.value();
            each(Entry::from_value(agent, seq, &value.value()));
        }
        Ok(())
    }

    fn backlog(&self, agent: u64, each: &mut dyn FnMut(Entry, &[u8])) -> Done<()> {
        let transaction = self.database.begin_read()?;
        let bodies = transaction.open_table(BODIES)?;
        let entries = transaction.open_table(ENTRIES)?;
        for found in entries.range((agent, 0)..=(agent, u64::MAX))? {
            let (key, value) = found?;
            let entry = Entry::from_value(agent, key.value().1, &value.value());
            let body = bodies.get(entry.body)?.ok_or("an entry without its body")?;
            each(entry, body.value());
        }
        Ok(())
    }
}
