//! The files that settings name: keys, tokens, permissions and certificates, each problem in a line.
//!
//! Read once the settings are known, before anything is bound; followed while the node runs.

use std::{path::PathBuf, sync::Arc};

use synapse::control::Auth;

use super::Config;
use crate::{permissions::Permissions, tls::Tls, tokens::Tokens};

/// What was found of them.
pub(super) struct Files {
    pub(super) tls: Result<Option<Arc<Tls>>, String>,
    pub(super) tokens: Result<Option<Arc<Tokens>>, String>,
    /// As it was named, if it was.
    pub(super) permissions: Option<PathBuf>,
    /// The data folder.
    pub(super) data: PathBuf,
}

impl Files {
    /// Reads them for a node whose `auth` is known; the problems.
    pub(super) fn read_into(self, config: &mut Config) -> Vec<String> {
        let mut problems = Vec::new();
        match self.tls {
            Ok(tls) => config.tls = tls,
            Err(problem) => problems.push(problem),
        }
        let is_bearing = !matches!(self.tokens, Ok(None));
        match self.tokens {
            Ok(tokens) => config.tokens = tokens,
            Err(problem) => problems.push(problem),
        }
        match config.keys.at_start() {
            Ok(Some(reading)) => config.keyring = reading,
            Ok(None) if config.auth == Auth::Required && !is_bearing => {
                let place = config.keys.path().display();
                problems.push(format!(
                    "keys: {place} is not there, and auth = required needs it, or tokens; \
                     harbor keys add AGENT makes one"
                ));
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
        match Permissions::at_start(self.permissions, &self.data, config.auth) {
            Ok(permissions) => config.permissions = Arc::new(permissions),
            Err(problem) => problems.push(problem),
        }
        problems
    }
}
