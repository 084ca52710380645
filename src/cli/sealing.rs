//! `synapse seal` and `open`, for people who set up and debug, and what `--seal` asks for.
//!
//! Beside a frame's way; nothing is connected. The client seals what is sent.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use synapse::{
    Envelope,
    keys::{Keyring, SealingKey},
    sealed,
};

use super::{
    args::{Connection, Message, Seal},
    failure::{Failure, USAGE},
    keyfiles::{names, needed},
    keys::for_each_envelope,
    output::as_line,
};

/// Seals each line.
pub(crate) fn seal(connection: &Connection, seal: &Seal) -> Result<(), Failure> {
    let ring = needed(connection)?;
    for_each_envelope(|_, mut envelope| {
        let at = Timestamp::now();
        let key = key(&ring, seal.kid.as_deref(), &envelope, at)?;
        // It was of the clear form.
        unsign(&mut envelope);
        sealed::seal(envelope, key, at)
            .map_err(|error| error.to_string())
            .map(|sealed| (as_line(&sealed), true))
    })
}

/// Opens each line.
pub(crate) fn open(connection: &Connection) -> Result<(), Failure> {
    let ring = needed(connection)?;
    for_each_envelope(|_, mut envelope| {
        let Ok(opened) = sealed::open(&envelope, &ring, Timestamp::now()) else {
            let line = json!({"id": envelope.id, "opened": false});
            return Ok((line.to_string(), false));
        };
        unsign(&mut envelope);
        envelope.encrypt = false;
        envelope.payload = std::borrow::Cow::Owned(opened.payload);
        Ok((as_line(&envelope), true))
    })
}

/// Refuses a `--seal` that cannot be done, before anything is connected.
pub(crate) fn check(
    message: &Message,
    connection: &Connection,
    ring: &Keyring,
) -> Result<(), Failure> {
    let Some(kid) = &message.seal else {
        return Ok(());
    };
    let problem = if connection.keys.is_empty() {
        "--keys says in which file the key is".to_owned()
    } else if message.to.is_some() == message.group.is_some() {
        "a sealed message goes to one agent or one group".to_owned()
    } else {
        match ring.sealing(kid) {
            Some(key) if key.is_live(Timestamp::now()) => return Ok(()),
            Some(_) => format!("key {kid:?} is not valid now"),
            None => format!("there is no sealing key {kid:?} in {}", names(connection)),
        }
    };
    Err(Failure::new(USAGE, format!("--seal: {problem}")))
}

fn unsign(envelope: &mut Envelope<'_>) {
    envelope.signature = "".into();
    envelope.signature_algorithm = "".into();
}

/// The key that is named, or else the only live one of whom the message is for.
fn key<'r>(
    ring: &'r Keyring,
    kid: Option<&str>,
    envelope: &Envelope<'_>,
    at: Timestamp,
) -> Result<&'r SealingKey, String> {
    if let Some(kid) = kid {
        let found = ring.sealing(kid).map(Arc::as_ref);
        return found.ok_or_else(|| format!("there is no sealing key {kid:?}"));
    }
    let owner = match &envelope.receiver {
        Some(receiver) => &receiver.agent_id,
        None => &envelope.group_id,
    };
    let mut live = ring
        .all_sealing()
        .filter(|key| key.agent_id == **owner && key.is_live(at));
    match (live.next(), live.next()) {
        (Some(key), None) => Ok(key),
        (None, _) => Err(format!("there is no live sealing key of {owner:?}")),
        (Some(_), Some(_)) => Err(format!(
            "{owner:?} has several sealing keys; --kid names one"
        )),
    }
}
