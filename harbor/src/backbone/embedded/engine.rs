//! The parts of the embedded store in its engine, fjall: opens, writes, reads.
//!
//! Beside a frame's way. The engine writes a group to its log and syncs that before anyone can read
//! it, so what is read is on disk.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
    sync::Arc,
};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{OpenError, layout, writer::Disk};
use crate::{
    backbone::{Agent, Body, Change, Entry, Loaded, Rows, StoreFailed},
    limits::{
        SEQ_BLOCK, STORE_CACHE_BYTES, STORE_FILES_OPEN_MAX, STORE_LOG_BYTES_MAX,
        STORE_MEMTABLE_BYTES, STORE_WORKERS,
    },
};

const META_VERSION: &str = "version";
const META_RESERVED: &str = "reserved";

/// The open store.
#[derive(Clone)]
pub(super) struct Engine {
    database: Database,
    bodies: Keyspace,
    entries: Keyspace,
    agents: Keyspace,
    meta: Keyspace,
}

/// Which part of the store; a group is sorted by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Bodies,
    Entries,
    Agents,
    Meta,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn open(folder: &Path) -> Result<Engine, OpenError> {
        make_folder(folder)?;
        let failed = |error| OpenError::of(error, folder);
        let database = Database::builder(folder)
            .cache_size(STORE_CACHE_BYTES)
            .max_journaling_size(STORE_LOG_BYTES_MAX)
            .max_cached_files(Some(STORE_FILES_OPEN_MAX))
            .worker_threads(STORE_WORKERS)
            .open()
            .map_err(failed)?;
        let part = |name| {
            let options =
                || KeyspaceCreateOptions::default().max_memtable_size(STORE_MEMTABLE_BYTES);
            database.keyspace(name, options).map_err(failed)
        };
        // First, so that nothing is made in a store of another version.
        let meta = part("meta")?;
        let version = meta.get(META_VERSION).map_err(failed)?;
        check_version(version.as_deref(), folder)?;
        let engine = Engine {
            bodies: part("bodies")?,
            entries: part("entries")?,
            agents: part("agents")?,
            meta,
            database: database.clone(),
        };
        if version.is_none() {
            engine.mark_new(folder)?;
        }
        Ok(engine)
    }

    /// Writes the version into a store that has none: nothing was ever written to it.
    fn mark_new(&self, folder: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::of(error, folder);
        for part in [&self.bodies, &self.entries, &self.agents, &self.meta] {
            if !part.is_empty().map_err(failed)? {
                return Err(OpenError::damaged(folder, "it has no version"));
            }
        }
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        batch.insert(&self.meta, META_VERSION, layout::VERSION.to_be_bytes());
        batch.commit().map_err(failed)
    }

    /// Reserves a block of numbers for this life of the store: where it begins and ends.
    pub(super) fn reserve(&self, folder: &Path) -> Result<(u64, u64), OpenError> {
        let failed = |error| OpenError::of(error, folder);
        let damaged = || OpenError::damaged(folder, "its reserved numbers cannot be read");
        let next = match self.meta.get(META_RESERVED).map_err(failed)? {
            Some(value) => {
                let bytes = <[u8; 8]>::try_from(&*value).map_err(|_| damaged())?;
                u64::from_be_bytes(bytes)
            }
            None => 1,
        };
        let reserved = next.checked_add(SEQ_BLOCK).ok_or_else(damaged)?;
        self.commit(Vec::new(), Some(reserved)).map_err(failed)?;
        Ok((next, reserved))
    }

    fn commit(&self, changes: Vec<Change>, reserved: Option<u64>) -> fjall::Result<()> {
        // The last change of each key alone: the engine gives all of a batch one age.
        let mut last: BTreeMap<(Part, Vec<u8>), Option<Vec<u8>>> =
            changes.into_iter().map(row).collect();
        if let Some(reserved) = reserved {
            let key = (Part::Meta, META_RESERVED.into());
            last.insert(key, Some(reserved.to_be_bytes().into()));
        }
        // Synced before anyone can read it.
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for ((part, key), value) in last {
            let part = match part {
                Part::Bodies => &self.bodies,
                Part::Entries => &self.entries,
                Part::Agents => &self.agents,
                Part::Meta => &self.meta,
            };
            match value {
                Some(value) => batch.insert(part, key, value),
                None => batch.remove(part, key),
            }
        }
        batch.commit()
    }

    pub(super) fn body(&self, seq: u64) -> Result<Option<Body>, StoreFailed> {
        let Some(value) = self.bodies.get(seq.to_be_bytes()).map_err(unreadable)? else {
            return Ok(None);
        };
        match layout::body(seq, &value) {
            Some(body) => Ok(Some(body)),
            None => Err(StoreFailed::Unreadable(format!("body {seq}").into())),
        }
    }

    pub(super) fn load(&self) -> Loaded {
        let mut last: Option<Arc<str>> = None;
        let entries = rows(&self.entries, move |key, value| -> Option<Entry> {
            let entry = layout::entry(key, value, last.as_ref())?;
            last = Some(Arc::clone(&entry.agent_id));
            Some(entry)
        });
        let agents = rows(&self.agents, |key, value| {
            Some(Agent {
                agent_id: str::from_utf8(key).ok()?.into(),
                json: str::from_utf8(value).ok()?.into(),
            })
        });
        Loaded { agents, entries }
    }
}

impl Disk for Engine {
    fn write(&mut self, changes: Vec<Change>, reserved: Option<u64>) -> Result<(), String> {
        self.commit(changes, reserved)
            .map_err(|error| error.to_string())
    }
}

/// All of a part, to the first that cannot be read.
fn rows<T: 'static>(
    part: &Keyspace,
    mut decode: impl FnMut(&[u8], &[u8]) -> Option<T> + Send + 'static,
) -> Rows<T> {
    let mut is_over = false;
    let name = part.name().clone();
    Box::new(part.iter().map_while(move |guard| {
        if is_over {
            return None;
        }
        let row = guard
            .into_inner()
            .map_err(unreadable)
            .and_then(|(key, value)| {
                decode(&key, &value).ok_or_else(|| {
                    StoreFailed::Unreadable(format!("a row of {name}: {key:?}").into())
                })
            });
        is_over = row.is_err();
        Some(row)
    }))
}

/// A change as the engine takes it: a value to put, or none to remove.
fn row(change: Change) -> ((Part, Vec<u8>), Option<Vec<u8>>) {
    match change {
        Change::PutBody(body) => {
            let key = body.seq.to_be_bytes().into();
            ((Part::Bodies, key), Some(layout::body_value(&body)))
        }
        Change::RemoveBody { seq } => ((Part::Bodies, seq.to_be_bytes().into()), None),
        Change::PutEntry(entry) => {
            let key = layout::entry_key(&entry.agent_id, entry.seq);
            ((Part::Entries, key), Some(layout::entry_value(&entry)))
        }
        Change::RemoveEntry { agent_id, seq } => {
            ((Part::Entries, layout::entry_key(&agent_id, seq)), None)
        }
        Change::PutAgent(agent) => {
            let key = agent.agent_id.as_bytes().into();
            ((Part::Agents, key), Some(agent.json.into_string().into()))
        }
        Change::RemoveAgent { agent_id } => ((Part::Agents, agent_id.as_bytes().into()), None),
    }
}

fn check_version(found: Option<&[u8]>, folder: &Path) -> Result<(), OpenError> {
    let Some(found) = found else {
        return Ok(());
    };
    let found = <[u8; 4]>::try_from(found)
        .map_err(|_| OpenError::damaged(folder, "its version cannot be read"))?;
    let found = u32::from_be_bytes(found);
    if found == layout::VERSION {
        return Ok(());
    }
    Err(OpenError::Version {
        folder: folder.into(),
        found,
        known: layout::VERSION,
    })
}

/// Makes the folder, and the data folder it is in, for their owner only.
fn make_folder(folder: &Path) -> Result<(), OpenError> {
    let make = |folder: &Path| -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        // Or a power cut may take the folder, and what is synced in it.
        File::open(folder.join(".."))?.sync_all()
    };
    let made = folder.parent().map_or(Ok(()), make);
    made.and_then(|()| make(folder))
        .map_err(|source| OpenError::Folder {
            folder: folder.into(),
            source,
        })
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn unreadable(error: fjall::Error) -> StoreFailed {
    StoreFailed::Unreadable(error.to_string().into())
}
