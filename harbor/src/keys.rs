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
};

use parking_lot::RwLock;
use synapse::{
    keys::{Key, KeyError, Keyring},
    limits::HARBOR_AGENT_ID,
};

use crate::{
    clock,
    watched::{Stamp, Watched},
};
pub(crate) use expiry::Expiry;
pub use place::Place;

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

/// Reads a keyring that nobody else on the machine can read, for a node that starts.
///
/// # Errors
///
/// One line that names the file and what is wrong, without any secret.
fn read(path: &Path) -> Result<Keyring, String> {
    let ring = read_again(path)?;
    match seals_without_signer(&ring) {
        Some(problem) => Err(format!("keys: {}: {problem}", path.display())),
        None => Ok(ring),
    }
}

/// The same for a node that runs: one that cannot sign what it seals still has to know which keys were
/// revoked.
fn read_again(path: &Path) -> Result<Keyring, String> {
    let named = |error: &dyn std::fmt::Display| format!("keys: {}: {error}", path.display());
    check_private(path).map_err(|problem| named(&problem))?;
    Keyring::from_file(path).map_err(|error: KeyError| named(&error))
}

/// What is wrong with a ring whose sealing keys are of no use.
fn seals_without_signer(ring: &Keyring) -> Option<&'static str> {
    let signs = ring.newest_signer(HARBOR_AGENT_ID, clock::wall()).is_some();
    (!signs && ring.all_sealing().next().is_some()).then_some(
        "holds sealing keys (A256GCM), with which Harbor opens and seals again, and no live \
         Ed25519 key with its secret for agent_id harbor, with which it signs what it sealed; \
         harbor keys add harbor makes one",
    )
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
    pub(crate) fn look_again(&self) -> Option<Result<(), String>> {
        let outcome = self.file.look_again(read_again)?;
        Some(outcome.map(|ring| {
            if let Some(problem) = seals_without_signer(&ring) {
                tracing::error!("nothing sealed goes on: the keyring {problem}");
            }
            ring.keep_counts(&self.ring());
            *self.ring.write() = Arc::new(ring);
        }))
    }
}
