//! `synapse keygen`, `sign` and `verify`: keys and signatures, for people who set up and debug.
//!
//! Beside a frame's way; nothing is connected.

use std::{
    io::{self, BufRead, ErrorKind, Write},
    path::Path,
};

use jiff::Timestamp;
use serde_json::json;
use synapse::{
    Envelope,
    keys::{KeyError, KeySet, Purpose, SealingKey},
    limits::HARBOR_AGENT_ID,
    sealed::Resealed,
    signature,
};

use super::{
    args::{Connection, Keygen},
    failure::{Failure, REFUSED, SYSTEM, USAGE},
    keyfiles::{needed, only, signing, unusable},
};

/// Makes a key.
pub(crate) fn generate(connection: &Connection, keygen: &Keygen) -> Result<(), Failure> {
    let Some(agent_id) = &connection.agent else {
        return Err(Failure::new(USAGE, "--agent says whose key it is to be"));
    };
    let path = only(connection)?;
    let purpose = keygen.algorithm;
    // Its name is given where nobody else can take it.
    let made = purpose.generate("", agent_id);
    let mut jwk = made.map_err(|error| Failure::new(SYSTEM, error.to_string()))?;
    jwk.not_after = keygen.not_after.map_or(String::new(), |at| at.to_string());
    let public = keygen.public.as_deref();
    if public.is_some() && jwk.public().is_none() {
        let kind = match purpose {
            Purpose::Sign(_) => "HMAC",
            Purpose::Seal => SealingKey::ALGORITHM,
        };
        let line = format!("--public: {kind} keys are all secret");
        return Err(Failure::new(USAGE, line));
    }
    let beside = public.map_or_else(|| Ok(KeySet::default()), keys_in)?;
    let jwk = KeySet::edit(path, |set| {
        jwk.kid = match &keygen.kid {
            Some(kid) => kid.clone(),
            None => {
                let all: KeySet = set.keys().iter().chain(beside.keys()).cloned().collect();
                all.free_kid(purpose, agent_id, Timestamp::now())
            }
        };
        set.add(jwk.clone())?;
        Ok(jwk)
    });
    let jwk = jwk.map_err(|error| unusable(path, &error))?;
    if let (Some(path), Some(jwk)) = (public, jwk.public()) {
        KeySet::edit(path, |set| set.add(jwk)).map_err(|error| unusable(path, &error))?;
    }
    let line = json!({"kid": jwk.kid, "agent_id": agent_id, "algorithm": purpose.name()});
    print(&line.to_string())
}

/// The keys in a file, which may not be there yet.
fn keys_in(path: &Path) -> Result<KeySet, Failure> {
    match KeySet::from_file(path) {
        Err(KeyError::System(error)) if error.kind() == ErrorKind::NotFound => {
            Ok(KeySet::default())
        }
        read => read.map_err(|error| unusable(path, &error)),
    }
}

/// Signs each line.
pub(crate) fn sign(connection: &Connection) -> Result<(), Failure> {
    let key = signing(connection, &needed(connection)?)?;
    for_each_envelope(|_, envelope| {
        signature::signed(envelope, &key)
            .map_err(|refusal| refusal.to_string())
            .map(|frame| (frame, true))
    })
}

/// Checks each line.
pub(crate) fn verify(connection: &Connection) -> Result<(), Failure> {
    let ring = needed(connection)?;
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
