//! A sealed message in the hands of somebody between who holds its key: opened once, and sealed again
//! for each receiver.
//!
//! Harbor's part of sealing, between authorising and delivering. What goes on is the sender's own
//! frame with another payload, and a signature of whoever made it so.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{CannotOpen, Header, SealError, open_text, sealed};
use crate::{
    Envelope, Refusal,
    canonical::SigningInput,
    envelope::replace_members,
    json,
    keys::{Key, SealingKey},
    refusal::Code,
};

/// What Harbor did to a sealed payload, as `resealed` in the envelope's `harbor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resealed {
    /// The key that the sender sealed with, and Harbor opened with.
    pub opened: String,
    /// The receiver's key that Harbor sealed with; `None` for a payload that goes on in the clear.
    pub under: Option<String>,
    /// Harbor's key, whose signature the envelope has.
    pub signed_by: String,
}

impl Resealed {
    /// What Harbor says that it did to this message's payload, if anything. Nothing proves it but
    /// the signature.
    pub fn of(envelope: &Envelope<'_>) -> Option<Resealed> {
        #[derive(Deserialize)]
        struct Mark {
            resealed: Option<Resealed>,
        }
        let mark: Mark = serde_json::from_str(envelope.harbor.as_deref()?.get()).ok()?;
        mark.resealed
    }
}

/// Harbor's member of what it sealed again.
#[derive(Serialize)]
struct Mark<'m> {
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<&'m str>,
    resealed: Resealed,
}

/// Why a message that was opened does not go on to a receiver.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// It cannot be sealed with the receiver's key.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// It cannot be signed, for what is in the opened payload or beside it.
    #[error(transparent)]
    Sign(Refusal),
}

/// A message that was opened.
#[derive(Debug)]
pub struct Relay<'m> {
    envelope: &'m Envelope<'m>,
    frame: &'m str,
    opened: &'m str,
    text: Text,
    verified: Option<&'m str>,
}

/// The payload. Not to be shown.
struct Text(Zeroizing<String>);

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl<'m> Relay<'m> {
    /// Opens the payload of `envelope`, which was decoded from `frame`, with the key that it names.
    /// What was sealed must be JSON that could stand in the envelope, a signed one if it is signed.
    ///
    /// # Errors
    ///
    /// [`CannotOpen`], whatever is the matter.
    pub fn open(
        envelope: &'m Envelope<'m>,
        frame: &'m str,
        key: &'m SealingKey,
        at: jiff::Timestamp,
    ) -> Result<Relay<'m>, CannotOpen> {
        let text = open_text(envelope, key, at).ok_or(CannotOpen)?;
        if !envelope.signature.is_empty() {
            let payload = serde_json::from_str(&text).map_err(|_| CannotOpen)?;
            json::check_duplicate_keys("payload", payload).map_err(|_| CannotOpen)?;
        }
        Ok(Relay {
            envelope,
            frame,
            opened: &key.kid,
            text: Text(text),
            verified: None,
        })
    }

    /// Says which key signed the message as the sender made it.
    #[must_use]
    pub fn verified(mut self, kid: Option<&'m str>) -> Self {
        self.verified = kid;
        self
    }

    /// The frame for a receiver with this key, signed by `signer`.
    ///
    /// # Errors
    ///
    /// Every [`RelayError`].
    pub fn under(
        &self,
        key: &SealingKey,
        signer: &Key,
        at: jiff::Timestamp,
    ) -> Result<String, RelayError> {
        let header = Header::of(self.envelope, &key.kid).ok_or(SealError::Destination)?;
        let payload = sealed(&header, &self.text.0, key, at)?;
        self.signed(payload.get(), Some(&key.kid), signer)
    }

    /// The frame for a receiver without a key, signed by `signer`.
    ///
    /// # Errors
    ///
    /// [`RelayError::Sign`].
    pub fn in_the_clear(&self, signer: &Key) -> Result<String, RelayError> {
        self.signed(&self.text.0, None, signer)
    }

    fn signed(
        &self,
        payload: &str,
        under: Option<&str>,
        signer: &Key,
    ) -> Result<String, RelayError> {
        let cannot = |_| RelayError::Sign(Refusal::new(Code::Malformed, "not a JSON object"));
        let algorithm = format!("\"{}\"", signer.algorithm().wire());
        let encrypt = if under.is_some() { "true" } else { "false" };
        let unsigned = replace_members(
            self.frame,
            &[
                ("payload", payload),
                ("encrypt", encrypt),
                ("signature_algorithm", &algorithm),
                ("signature", "\"\""),
            ],
        )
        .map_err(cannot)?;
        let covered = SigningInput::of(&unsigned).map_err(RelayError::Sign)?;
        let signature = signer.sign(&covered).ok_or_else(|| {
            let reason = format!("key {:?} can only verify", signer.kid);
            RelayError::Sign(Refusal::new(Code::BadSignature, reason))
        })?;
        let mark = Mark {
            verified: self.verified,
            resealed: Resealed {
                opened: self.opened.to_owned(),
                under: under.map(str::to_owned),
                signed_by: signer.kid.clone(),
            },
        };
        let mark = serde_json::to_string(&mark).map_err(cannot)?;
        let signature = format!("\"{signature}\"");
        let values = [("signature", &*signature), ("harbor", &*mark)];
        replace_members(&unsigned, &values).map_err(cannot)
    }
}
