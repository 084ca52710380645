//! The floor: the same bytes at the end of one file, and a sync per group. No store can do less.

use crate::{Done, engine::Group};
use std::{fs::File, io::Write, path::Path};

pub(crate) struct Bare {
    file: File,
    bytes: Vec<u8>,
}

impl Bare {
    pub(crate) fn open(folder: &Path) -> Done<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            file: File::create_new(folder.join("log"))?,
            bytes: Vec::new(),
        })
    }

    pub(crate) fn commit(&mut self, group: &Group) -> Done<()> {
        self.bytes.clear();
        for (entry, body) in &group.added {
            self.bytes.extend_from_slice(&entry.body.to_be_bytes());
            self.bytes.extend_from_slice(body);
            self.bytes.extend_from_slice(&entry.agent.to_be_bytes());
            self.bytes.extend_from_slice(&entry.seq.to_be_bytes());
            self.bytes.extend_from_slice(&entry.value());
        }
        self.file.write_all(&self.bytes)?;
        Ok(self.file.sync_data()?)
    }
}
