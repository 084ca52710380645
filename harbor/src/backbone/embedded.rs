//! The store of one node on its own disk, in `store` in the data folder.
//!
//! Beside a frame's way, behind [`Backbone`]. One thread writes, in groups that share a sync; see
//! `writer`. What lies where is in `layout`.

use std::{
    io,
    path::{Path, PathBuf},
};

use synapse::control::Durability;

use self::{engine::Engine, numbers::Numbers, writer::Writer};
use super::{Backbone, Body, Change, Done, Loaded, StoreFailed};

mod engine;
mod layout;
mod numbers;
mod writer;

#[cfg(test)]
mod tests;

/// The store's folder in the data folder.
const FOLDER: &str = "store";

/// A [`Backbone`] on the node's own disk. On drop it writes what was submitted, and waits for that.
#[derive(Debug)]
pub struct Embedded {
    // First, so that it ends before the engine.
    writer: Writer,
    engine: Engine,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open, or this one does.
    #[error("the store in {} is in use by another process", folder.display())]
    InUse {
        /// The store's folder.
        folder: PathBuf,
    },
    /// Another version of Harbor wrote it.
    #[error(
        "the store in {} has format {found}, and this Harbor knows format {known} only",
        folder.display()
    )]
    Version {
        /// The store's folder.
        folder: PathBuf,
        /// The format it has.
        found: u32,
        /// The format that is known.
        known: u32,
    },
    /// The folder cannot be made.
    #[error("the folder {} cannot be made: {source}", folder.display())]
    Folder {
        /// The store's folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is there cannot be read or written.
    #[error("the store in {} cannot be opened: {problem}", folder.display())]
    Damaged {
        /// The store's folder.
        folder: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl OpenError {
    fn of(error: fjall::Error, folder: &Path) -> OpenError {
        match error {
            fjall::Error::Locked => OpenError::InUse {
                folder: folder.into(),
            },
            error => OpenError::damaged(folder, &error.to_string()),
        }
    }

    fn damaged(folder: &Path, problem: &str) -> OpenError {
        OpenError::Damaged {
            folder: folder.into(),
            problem: problem.into(),
        }
    }
}

impl Embedded {
    /// Opens the store in the data folder `data`, and makes it if it is not there, for its owner
    /// only. Reads and writes the disk.
    ///
    /// # Errors
    ///
    /// If it is in use, of another format, or cannot be read or written.
    pub fn open(data: &Path) -> Result<Embedded, OpenError> {
        let folder = data.join(FOLDER);
        let engine = Engine::open(&folder)?;
        let (next, reserved) = engine.reserve(&folder)?;
        let writer = Writer::start(engine.clone(), Numbers::new(next, reserved))
            .map_err(|error| OpenError::damaged(&folder, &error.to_string()))?;
        Ok(Embedded { writer, engine })
    }
}

impl Backbone for Embedded {
    fn next_seq(&self) -> Result<u64, StoreFailed> {
        self.writer.next_seq()
    }

    fn submit(&self, changes: Vec<Change>, done: Done) {
        self.writer.submit(changes, done);
    }

    fn body(&self, seq: u64) -> Result<Option<Body>, StoreFailed> {
        self.engine.body(seq)
    }

    fn load(&self) -> Result<Loaded, StoreFailed> {
        Ok(self.engine.load())
    }

    fn durability(&self) -> Durability {
        Durability::Stored
    }

    fn health(&self) -> Result<(), StoreFailed> {
        self.writer.health()
    }
}
