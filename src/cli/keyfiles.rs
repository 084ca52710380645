//! The files of `--keys`: each read once, their keys put together.
//!
//! Before a frame's way, and beside it: what a subcommand knows of keys comes from here.

use std::path::Path;

use jiff::Timestamp;
use synapse::{
    client::Options,
    keys::{Key, KeyError, Keyring},
};

use super::{
    args::Connection,
    failure::{Failure, NO_INPUT, USAGE},
};

/// Every key of the files; none without `--keys`.
pub(super) fn given(connection: &Connection) -> Result<Keyring, Failure> {
    let mut all = Keyring::default();
    let mut read: Vec<(&Path, Keyring)> = Vec::new();
    for path in &connection.keys {
        let ring = Keyring::from_file(path).map_err(|error| unusable(path, &error))?;
        if let Err(error) = all.merge(&ring) {
            return Err(clash(path, &error, &read));
        }
        read.push((path, ring));
    }
    Ok(all)
}

/// The same for a subcommand that is nothing without keys.
pub(super) fn needed(connection: &Connection) -> Result<Keyring, Failure> {
    if connection.keys.is_empty() {
        return Err(missing());
    }
    given(connection)
}

/// The one file that a subcommand writes to.
pub(super) fn only(connection: &Connection) -> Result<&Path, Failure> {
    match &*connection.keys {
        [path] => Ok(path),
        [] => Err(missing()),
        several => {
            let line = format!(
                "--keys: a new key goes into one file, not {}",
                several.len()
            );
            Err(Failure::new(USAGE, line))
        }
    }
}

/// Has the client sign, seal and open with these keys.
pub(super) fn hand_over(
    options: Options,
    connection: &Connection,
    ring: &Keyring,
) -> Result<Options, Failure> {
    let options = options.sealing_keys(ring);
    let seals = ring.all_sealing().next().is_some();
    // A key that has ended, or another agent's, is a mistake that must not pass for no wish to sign.
    let signs = ring.all().any(|key| key.can_sign());
    if connection.keys.is_empty() || (seals && !signs) {
        return Ok(options);
    }
    Ok(options.key(signing(connection, ring)?))
}

/// The key to sign with: the newest live one of the agent, or of the only agent in the files.
pub(super) fn signing(connection: &Connection, ring: &Keyring) -> Result<Key, Failure> {
    let now = Timestamp::now();
    let wanted = connection.agent.as_deref();
    let usable: Vec<_> = ring
        .all()
        .filter(|key| wanted.is_none_or(|agent_id| key.agent_id == agent_id))
        .filter(|key| key.can_sign() && key.is_live(now))
        .collect();
    let newest = usable.last();
    match newest {
        Some(key) if usable.iter().all(|other| other.agent_id == key.agent_id) => {
            Ok((***key).clone())
        }
        Some(_) => Err(Failure::new(
            USAGE,
            "--agent says which agent's key is meant",
        )),
        None => {
            let files = names(connection);
            let line = format!("{files}: no live key to sign with for this agent");
            Err(Failure::new(NO_INPUT, line))
        }
    }
}

/// The names of the files.
pub(super) fn names(connection: &Connection) -> String {
    let names = connection.keys.iter().map(|path| path.display());
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    names.join(", ")
}

pub(super) fn unusable(path: &Path, error: &KeyError) -> Failure {
    Failure::new(NO_INPUT, format!("{}: {error}", path.display()))
}

fn missing() -> Failure {
    Failure::new(USAGE, "--keys says in which file the keys are")
}

/// The `kid` of a key in `path` names another key in a file that was read before.
fn clash(path: &Path, error: &KeyError, read: &[(&Path, Keyring)]) -> Failure {
    let KeyError::Duplicate(kid) = error else {
        return unusable(path, error);
    };
    let has_it = |ring: &Keyring| ring.sealing(kid).is_some() || ring.all().any(|k| k.kid == *kid);
    let before = read.iter().find(|(_, ring)| has_it(ring));
    let before = before.map_or(path, |(before, _)| *before);
    let (before, path) = (before.display(), path.display());
    let line = format!("--keys: kid {kid:?} names one key in {before} and another in {path}");
    Failure::new(NO_INPUT, line)
}
