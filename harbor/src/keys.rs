//! The keyring of a node: whose keys are live now.
//!
//! Asked by the handshake (who registers) and by verification (who made a message). The file is
//! looked at again every second; what it revokes is revoked for open connections too.

pub mod command;

mod expiry;
mod place;

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use synapse::{
    keys::{Key, KeyError, Keyring},
    limits::HARBOR_AGENT_ID,
    refusal::Close,
};

use crate::{
    clock,
    node::Node,
    watched::{Stamp, Watched},
};
use expiry::Expiry;
pub use place::Place;

/// How often the file is looked at, and connections whose key has ended are closed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The keyring, and the file it comes from, which need not be there.
#[derive(Debug)]
pub(crate) struct Keys {
    file: Watched,
    ring: RwLock<Arc<Keyring>>,
}

/// A keyring as it was read at the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    ring: Arc<Keyring>,
    /// What the file looked like just before.
    stamp: Option<Stamp>,
}

/// Reads a keyring that nobody else on the machine can read.
///
/// # Errors
///
/// One line that names the file and what is wrong, without any secret.
fn read(path: &Path) -> Result<Keyring, String> {
    let named = |error: &dyn std::fmt::Display| format!("keys: {}: {error}", path.display());
    check_private(path).map_err(|problem| named(&problem))?;
    let ring = Keyring::from_file(path).map_err(|error: KeyError| named(&error))?;
    let signs = ring.newest_signer(HARBOR_AGENT_ID, clock::wall()).is_some();
    if !signs && ring.all_sealing().next().is_some() {
        return Err(named(
            &"holds sealing keys (A256GCM), with which Harbor opens and seals again, and no live \
              Ed25519 key with its secret for agent_id harbor, with which it signs what it sealed; \
              harbor keys add harbor makes one",
        ));
    }
    Ok(ring)
}

/// Refuses a file that others than its owner may use.
fn check_private(path: &Path) -> Result<(), String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.mode() & 0o077 != 0 {
        return Err("others may read it; its mode must be 600".to_owned());
    }
    Ok(())
}

impl Keys {
    pub(crate) fn new(path: PathBuf, reading: Reading) -> Self {
        Keys {
            file: Watched::new(path, reading.stamp),
            ring: RwLock::new(reading.ring),
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

    /// Reads the file again if it is another than at the last look, or could not be read then.
    fn look_again(&self) -> Option<Result<(), String>> {
        let outcome = self.file.look_again(read)?;
        Some(outcome.map(|ring| {
            ring.keep_counts(&self.ring());
            *self.ring.write() = Arc::new(ring);
        }))
    }
}

/// Keeps the ring and the issuers' keys as their files are, and closes the connections whose key or
/// token ended, until the node stops. A file that cannot be read changes nothing.
pub(crate) async fn watch(node: Arc<Node>) {
    let mut expiry = Expiry::default();
    expiry.look(&node.keys.ring(), &node.metrics);
    while tokio::time::timeout(LOOK_INTERVAL, node.stopping.cancelled())
        .await
        .is_err()
    {
        let looking = Arc::clone(&node);
        // The file may be far away.
        let looked = tokio::task::spawn_blocking(move || looking.keys.look_again()).await;
        if let Ok(Some(outcome)) = looked {
            node.metrics.keys_reloaded(&outcome);
            match outcome {
                Ok(()) => {
                    let keys = node.keys.ring().all().count();
                    tracing::info!(keys, "read the keyring again");
                }
                Err(problem) => tracing::error!("the keyring stays as it was: {problem}"),
            }
        }
        if let Some(tokens) = &node.config.tokens {
            tokens.look_again();
        }
        expiry.look(&node.keys.ring(), &node.metrics);
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
