//! What each agent may do: the file of permissions, as it is now.
//!
//! Asked by `authorise`, the one place that decides, for messages, registrations and HTTP doors. The
//! file is looked at again every second; what it no longer allows ends for open connections too.

mod action;
mod change;
mod pattern;
mod rule;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use synapse::control::Auth;

use crate::watched::{Stamp, Watched};

pub(crate) use action::Action;
pub(crate) use change::look_through;

use rule::{Rule, Table};

/// A commented file to start from, which allows everything, as `harbor permissions print` gives it.
pub const START_FILE: &str = include_str!("permissions/start.toml");

/// The file of permissions in the data folder.
const FILE: &str = "permissions.toml";

/// The permissions of a node, and the file they came from.
#[derive(Debug)]
pub(crate) struct Permissions {
    file: Watched,
    table: RwLock<Arc<Table>>,
    /// Grows with every change, after the change.
    version: AtomicU64,
}

/// Everything is allowed, and no file followed.
impl Default for Permissions {
    fn default() -> Self {
        Permissions {
            file: Watched::new(PathBuf::new(), None),
            table: RwLock::new(Arc::new(Table::everything())),
            version: AtomicU64::new(0),
        }
    }
}

impl Permissions {
    /// For a node that starts: those of the file that was named, else of the one in the data folder.
    ///
    /// # Errors
    ///
    /// One line that names the file, the place in it and what is wrong; also when authentication is
    /// required and there is none.
    pub(crate) fn at_start(
        named: Option<PathBuf>,
        data: &Path,
        auth: Auth,
    ) -> Result<Self, String> {
        let named = named.filter(|path| !path.as_os_str().is_empty());
        let is_named = named.is_some();
        let path = named.unwrap_or_else(|| data.join(FILE));
        let stamp = Stamp::of(&path);
        let table = match stamp {
            None if !is_named && auth == Auth::Open => Table::everything(),
            None if !is_named => {
                let path = path.display();
                return Err(format!(
                    "permissions: {path} is not there, and auth = required needs it; \
                     harbor permissions print > {path} makes one that allows everything"
                ));
            }
            _ => read(&path)?,
        };
        Ok(Permissions {
            file: Watched::new(path, stamp),
            table: RwLock::new(Arc::new(table)),
            version: AtomicU64::new(0),
        })
    }

    /// What an agent may do now.
    pub(crate) fn of(&self, agent_id: &str) -> Grants {
        // Read first: a change in between is then looked at once more, never missed.
        let version = self.version.load(Ordering::Acquire);
        let table = Arc::clone(&self.table.read());
        Grants {
            version,
            rules: table.of(agent_id),
        }
    }

    /// The same grants, or those of the present file if it changed.
    pub(crate) fn renew(&self, agent_id: &str, grants: &mut Grants) {
        if self.version.load(Ordering::Acquire) != grants.version {
            *grants = self.of(agent_id);
        }
    }

    /// Reads the file again if it changed; whether that changed anything. A file that cannot be read
    /// does not, and is told once.
    pub(crate) fn look_again(&self) -> bool {
        match self.file.look_again(read) {
            None => false,
            Some(Ok(table)) => {
                tracing::info!(rules = table.len(), "read the permissions again");
                *self.table.write() = Arc::new(table);
                self.version.fetch_add(1, Ordering::Release);
                true
            }
            Some(Err(problem)) => {
                tracing::error!("permissions stay as they were: {problem}");
                false
            }
        }
    }
}

fn read(path: &Path) -> Result<Table, String> {
    let named = |error: &dyn std::fmt::Display| format!("permissions: {}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    Table::parse(&text).map_err(|error| named(&error))
}

/// What one agent may do: the rules that speak of it.
#[derive(Debug, Clone)]
pub(crate) struct Grants {
    version: u64,
    rules: Box<[Arc<Rule>]>,
}

impl Grants {
    /// Whether a rule allows it; what none allows is not allowed.
    pub(crate) fn allow(&self, action: &Action<'_>) -> bool {
        self.rules.iter().any(|rule| rule.allows(action))
    }
}
