//! Payloads that only whoever holds a key can read: `encrypt: true`, end to end.
//!
//! Before signing at the sender, after verifying at the receiver. Harbor forwards a sealed payload
//! as it is. Its form is in `sealed/jwe.rs`; what it is bound to is checked here: a sealed payload
//! belongs to one message, from one sender to one agent or group, and opens in no other envelope.

mod jwe;
mod relay;

use std::borrow::Cow;

use serde_json::value::RawValue;
use zeroize::Zeroizing;

use self::jwe::Header;
pub use self::relay::{Relay, RelayError, Resealed};
use crate::{
    Envelope, Refusal,
    envelope::Sealing,
    json,
    keys::{Keyring, SealingKey},
};

/// Why an envelope was not sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It is sealed already.
    #[error("encrypt is true already")]
    Already,
    /// A field that the sealed payload is bound to is empty.
    #[error("{0} is needed before sealing")]
    Missing(&'static str),
    /// It goes to an agent and a group, or to a system: no key is named for that.
    #[error("a sealed message goes to one agent or one group")]
    Destination,
    /// The payload would be refused when it is opened.
    #[error(transparent)]
    Payload(Refusal),
    /// The key is not valid at this moment.
    #[error("key {0:?} is not valid now")]
    NotLive(String),
    /// The key has made [`SEALS_MAX`](crate::keys::SEALS_MAX) seals in this process: use a new one.
    #[error("key {0:?} has sealed as often as is safe; a new one is needed")]
    Exhausted(String),
    /// The operating system has no random numbers.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// The payload was not opened. Why is not said, so that nobody can learn from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload cannot be opened")]
pub struct CannotOpen;

/// What was in a sealed payload.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The payload as it was before sealing, byte for byte.
    pub payload: Box<RawValue>,
    /// The key that opened it.
    pub kid: String,
}

/// Seals the payload with `key`, for whoever holds it. `id`, `sender` and the address (one agent or
/// one group) must be set and stay as they are. The payload grows by a third and about 300 bytes.
///
/// # Errors
///
/// Every [`SealError`].
pub fn seal<'e>(
    mut envelope: Envelope<'e>,
    key: &SealingKey,
    at: jiff::Timestamp,
) -> Result<Envelope<'e>, SealError> {
    if envelope.encrypt {
        return Err(SealError::Already);
    }
    for (field, text) in [
        ("id", &envelope.id),
        ("sender.agent_id", &envelope.sender.agent_id),
    ] {
        if text.is_empty() {
            return Err(SealError::Missing(field));
        }
    }
    let header = Header::of(&envelope, &key.kid).ok_or(SealError::Destination)?;
    json::check_payload(envelope.payload.get()).map_err(SealError::Payload)?;
    let sealed = sealed(&header, envelope.payload.get(), key, at)?;
    envelope.payload = Cow::Owned(sealed);
    envelope.encrypt = true;
    envelope.sealing = Sealing::Untouched;
    Ok(envelope)
}

/// Opens the payload of an envelope as it was received, with the one of `keys` that it names. The
/// key must be valid at this moment.
///
/// # Errors
///
/// [`CannotOpen`], whatever is the matter.
pub fn open(
    envelope: &Envelope<'_>,
    keys: &Keyring,
    at: jiff::Timestamp,
) -> Result<Opened, CannotOpen> {
    opened(envelope, keys, at).ok_or(CannotOpen)
}

/// The `kid` that a sealed payload names; `None` when it is none that anybody could open.
pub fn kid_of(envelope: &Envelope<'_>) -> Option<String> {
    jwe::kid(envelope.payload.get()).filter(|_| envelope.encrypt)
}

fn opened(envelope: &Envelope<'_>, keys: &Keyring, at: jiff::Timestamp) -> Option<Opened> {
    let key = keys.sealing(&kid_of(envelope)?)?;
    let text = open_text(envelope, key, at)?;
    Some(Opened {
        payload: serde_json::from_str::<&RawValue>(&text).ok()?.to_owned(),
        kid: key.kid.clone(),
    })
}

/// A text sealed under this header, if the key may still seal.
fn sealed(
    header: &Header<'_>,
    text: &str,
    key: &SealingKey,
    at: jiff::Timestamp,
) -> Result<Box<RawValue>, SealError> {
    if !key.is_live(at) {
        return Err(SealError::NotLive(key.kid.clone()));
    }
    if !key.count_seal() {
        return Err(SealError::Exhausted(key.kid.clone()));
    }
    Ok(jwe::seal(header, text.as_bytes(), key.secret())?)
}

/// The text of a payload that was sealed with this key for this envelope: one JSON value that could
/// stand in an envelope as it is.
fn open_text(
    envelope: &Envelope<'_>,
    key: &SealingKey,
    at: jiff::Timestamp,
) -> Option<Zeroizing<String>> {
    if !envelope.encrypt || !key.is_live(at) {
        return None;
    }
    let sealed = jwe::Sealed::read(envelope.payload.get())?;
    if sealed.header != Header::of(envelope, &key.kid)? {
        return None;
    }
    let mut bytes = sealed.open(key.secret())?;
    std::str::from_utf8(&bytes).ok()?;
    // They are UTF-8, and moved: no copy is left behind.
    let text = String::from_utf8(std::mem::take(&mut *bytes)).ok()?;
    let text = Zeroizing::new(text);
    json::check_payload(&text).ok()?;
    serde_json::from_str::<&RawValue>(&text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests;
