//! Where the keyring is: `keys.json` in the data folder, unless `keys` names another file.
//!
//! Before a frame's way: a part of configuring, and of the `keys` command.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Reading, read};
use crate::watched::Stamp;

/// The keyring's file in the data folder.
const FILE: &str = "keys.json";

/// Where the keyring is, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    is_named: bool,
}

impl Place {
    /// What the settings `keys` and `data` mean. An empty path is none.
    pub(crate) fn of(keys: Option<PathBuf>, data: &Path) -> Place {
        let named = keys.filter(|path| !path.as_os_str().is_empty());
        Place {
            is_named: named.is_some(),
            path: named.unwrap_or_else(|| data.join(FILE)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it for a node that starts; `None` if it was not named and is not there.
    pub(crate) fn at_start(&self) -> Result<Option<Reading>, String> {
        let stamp = Stamp::of(&self.path);
        if stamp.is_none() && !self.is_named {
            return Ok(None);
        }
        let ring = read(&self.path).map_err(|problem| match stamp {
            Some(_) => problem,
            None => format!("{problem}; harbor keys add AGENT makes one"),
        })?;
        Ok(Some(Reading {
            ring: Arc::new(ring),
            stamp,
        }))
    }

    /// Makes the data folder, for its owner only, if that is where the file goes.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        let Some(folder) = self.path.parent().filter(|_| !self.is_named) else {
            return Ok(());
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        File::open(folder.join(".."))?.sync_all()
    }
}
