//! The keyring of a node: whose keys are live now.
//!
//! Asked by the handshake (who registers) and by verification (who made a message). The file is
//! looked at again every second; what it revokes is revoked for open connections too.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::RwLock;
use synapse::{
    keys::{Key, KeyError, Keyring},
    refusal::Close,
};

use crate::{clock, node::Node};

/// How often the file is looked at, and connections whose key has ended are closed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The keyring, and the file it came from.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    path: Option<PathBuf>,
    ring: RwLock<Arc<Keyring>>,
}

/// Reads a keyring that nobody else on the machine can read.
///
/// # Errors
///
/// One line that names the file and what is wrong, without any secret.
pub(crate) fn read(path: &Path) -> Result<Keyring, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let named = |error: &dyn std::fmt::Display| format!("keys: {}: {error}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| named(&error))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(named(&"others may read it; its mode must be 600"));
    }
    Keyring::from_file(path).map_err(|error: KeyError| named(&error))
}

impl Keys {
    pub(crate) fn new(path: Option<PathBuf>, ring: Keyring) -> Self {
        Keys {
            path,
            ring: RwLock::new(Arc::new(ring)),
        }
    }

    /// The keyring as it is now.
    pub(crate) fn ring(&self) -> Arc<Keyring> {
        Arc::clone(&self.ring.read())
    }

    /// Whether this very key is still in the ring, and live.
    pub(crate) fn is_live(&self, key: &Key) -> bool {
        let ring = self.ring();
        let same = |known: &&Arc<Key>| known.kid == key.kid && known.is_same_as(key);
        let known = ring.of(&key.agent_id).iter().find(same);
        known.is_some_and(|known| known.is_live(clock::wall()))
    }

    fn changed_at(&self) -> Option<SystemTime> {
        std::fs::metadata(self.path.as_ref()?).ok()?.modified().ok()
    }

    /// Reads the file again. A file that cannot be read changes nothing and is told once.
    fn reload(&self) {
        let Some(path) = &self.path else { return };
        match read(path) {
            Ok(ring) => {
                tracing::info!(keys = ring.all().count(), "read the keyring again");
                *self.ring.write() = Arc::new(ring);
            }
            Err(problem) => tracing::error!("the keyring stays as it was: {problem}"),
        }
    }
}

/// Keeps the ring and the issuers' keys as their files are, and closes the connections whose key or
/// token ended, until the node stops.
pub(crate) async fn watch(node: Arc<Node>) {
    let mut read_at = node.keys.changed_at();
    if let Some(tokens) = &node.config.tokens {
        tokens.tell();
    }
    while tokio::time::timeout(LOOK_INTERVAL, node.stopping.cancelled())
        .await
        .is_err()
    {
        let changed_at = node.keys.changed_at();
        if changed_at.is_some() && changed_at != read_at {
            read_at = changed_at;
            node.keys.reload();
        }
        if let Some(tokens) = &node.config.tokens {
            tokens.look_again();
        }
        for agent in node.registry.all() {
            if let Some(generation) = agent.lapsed(&node) {
                tracing::info!(agent = %agent.id, "closing an agent whose key or token has ended");
                agent
                    .outbox
                    .close_connection(generation, Close::Unauthorised);
            }
        }
    }
}
