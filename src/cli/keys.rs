//! `synapse keygen`, `sign` and `verify`: keys and signatures, for people who set up and debug.
//!
//! Beside a frame's way; nothing is connected.

use std::{
    io::{self, BufRead, Write},
    path::Path,
};

use jiff::Timestamp;
use serde_json::json;
use synapse::{
    Envelope,
    keys::{Jwk, Key, KeyError, KeySet, Keyring, Purpose, SealingKey},
    limits::HARBOR_AGENT_ID,
    sealed::Resealed,
    signature,
};

use super::{
    args::{Connection, Keygen},
    failure::{Failure, NO_INPUT, REFUSED, SYSTEM, USAGE},
};

/// Makes a key.
pub(crate) fn generate(connection: &Connection, keygen: &Keygen) -> Result<(), Failure> {
    let Some(agent_id) = &connection.agent else {
        return Err(Failure::new(USAGE, "--agent says whose key it is to be"));
    };
    let path = file(connection)?;
    let purpose = keygen.algorithm;
    let kid = keygen.kid.clone();
    let kid = kid.unwrap_or_else(|| purpose.default_kid(agent_id, Timestamp::now()));
    let made = purpose.generate(&kid, agent_id);
    let mut jwk = made.map_err(|error| Failure::new(SYSTEM, error.to_string()))?;
    jwk.not_after = keygen.not_after.map_or(String::new(), |at| at.to_string());
    let public = match (&keygen.public, jwk.public()) {
        (Some(path), Some(public)) => Some((path, public)),
        (Some(_), None) => {
            let kind = match purpose {
                Purpose::Sign(_) => "HMAC",
                Purpose::Seal => SealingKey::ALGORITHM,
            };
            let line = format!("--public: {kind} keys are all secret");
            return Err(Failure::new(USAGE, line));
        }
        (None, _) => None,
    };
    add(path, jwk)?;
    if let Some((path, public)) = public {
        add(path, public)?;
    }
    let line = json!({"kid": kid, "agent_id": agent_id, "algorithm": purpose.name()});
    print(&line.to_string())
}

/// Adds a key to a file, which may not be there yet.
fn add(path: &Path, jwk: Jwk) -> Result<(), Failure> {
    KeySet::edit(path, |set| set.add(jwk)).map_err(|error| unusable(path, &error))
}

/// Signs each line.
pub(crate) fn sign(connection: &Connection) -> Result<(), Failure> {
    let key = signing(connection)?;
    for_each_envelope(|_, envelope| {
        signature::signed(envelope, &key)
            .map_err(|refusal| refusal.to_string())
            .map(|frame| (frame, true))
    })
}

/// Checks each line.
pub(crate) fn verify(connection: &Connection) -> Result<(), Failure> {
    let ring = ring(connection)?;
    for_each_envelope(|frame, envelope| {
        let signer = match Resealed::of(&envelope) {
            Some(_) => HARBOR_AGENT_ID,
            None => &envelope.sender.agent_id,
        };
        let keys = ring.of(signer);
        let signer = signature::verify(&envelope, frame, keys, Timestamp::now());
        let line = match &signer {
            Ok(key) => json!({"id": envelope.id, "verified": key.kid}),
            Err(refusal) => {
                json!({"id": envelope.id, "code": refusal.code.to_string(), "field": refusal.field})
            }
        };
        Ok((line.to_string(), signer.is_ok()))
    })
}

/// The key to sign with: the newest live one of the agent, or of the only agent in the file.
pub(crate) fn signing(connection: &Connection) -> Result<Key, Failure> {
    let path = file(connection)?;
    let ring = Keyring::from_file(path).map_err(|error| unusable(path, &error))?;
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
            let line = format!(
                "{}: no live key to sign with for this agent",
                path.display()
            );
            Err(Failure::new(NO_INPUT, line))
        }
    }
}

/// Every key of the file.
pub(super) fn ring(connection: &Connection) -> Result<Keyring, Failure> {
    let path = file(connection)?;
    Keyring::from_file(path).map_err(|error| unusable(path, &error))
}

fn file(connection: &Connection) -> Result<&Path, Failure> {
    let missing = || Failure::new(USAGE, "--keys says in which file the keys are");
    connection.keys.as_deref().ok_or_else(missing)
}

fn unusable(path: &Path, error: &KeyError) -> Failure {
    Failure::new(NO_INPUT, format!("{}: {error}", path.display()))
}

/// Reads an envelope a line and prints what `act` makes of it; whether all were good is the exit.
pub(super) fn for_each_envelope(
    act: impl Fn(&str, Envelope<'_>) -> Result<(String, bool), String>,
) -> Result<(), Failure> {
    let mut is_good = true;
    for (at, line) in io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|error| Failure::of_system("cannot read", &error))?;
        let at_line = |what: String| Failure::new(REFUSED, format!("line {}: {what}", at + 1));
        let envelope = Envelope::decode(&line).map_err(|refused| at_line(refused.to_string()))?;
        let (text, is_this_good) = act(&line, envelope).map_err(at_line)?;
        is_good &= is_this_good;
        print(&text)?;
    }
    if is_good {
        Ok(())
    } else {
        Err(Failure::told(REFUSED))
    }
}

pub(super) fn print(line: &str) -> Result<(), Failure> {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::broken_pipe()),
        Err(error) => Err(Failure::of_system("cannot write", &error)),
    }
}
