//! Signing an envelope, and checking who signed it.
//!
//! Last at the sender, stage 2 of a frame's way in Harbor, first at a receiver. The algorithm is
//! that of the key; what a message claims must match it exactly.

use std::borrow::{Borrow, Cow};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, Signer as _};
use hmac::Mac;

use crate::{
    Envelope,
    canonical::SigningInput,
    keys::{Algorithm, Key, Material},
    refusal::{Code, Refusal},
};

impl Key {
    /// The signature over this input, base64url without padding; `None` from a key that can only
    /// verify.
    pub fn sign(&self, input: &SigningInput<'_>) -> Option<String> {
        let signature = match &self.material {
            Material::HmacSha256(shared) => {
                let mac = over(&shared.keyed, input).finalize();
                URL_SAFE_NO_PAD.encode(mac.into_bytes())
            }
            Material::HmacSha512(shared) => {
                let mac = over(&shared.keyed, input).finalize();
                URL_SAFE_NO_PAD.encode(mac.into_bytes())
            }
            Material::Ed25519(signing) => {
                let signature = signing.sign(input.to_text().as_bytes());
                URL_SAFE_NO_PAD.encode(signature.to_bytes())
            }
            Material::Ed25519Public(_) => return None,
        };
        Some(signature)
    }

    /// Whether `signature` is this key's over this input. Takes the same time for any signature of
    /// the right length; Ed25519 is strict (RFC 8032 section 5.1.7, no small-order points).
    pub fn has_signed(&self, input: &SigningInput<'_>, signature: &[u8]) -> bool {
        let public = match &self.material {
            Material::HmacSha256(shared) => {
                let mac = over(&shared.keyed, input);
                return mac.verify_slice(signature).is_ok();
            }
            Material::HmacSha512(shared) => {
                let mac = over(&shared.keyed, input);
                return mac.verify_slice(signature).is_ok();
            }
            Material::Ed25519(signing) => signing.verifying_key(),
            Material::Ed25519Public(public) => *public,
        };
        let Ok(signature) = Signature::from_slice(signature) else {
            return false;
        };
        public
            .verify_strict(input.to_text().as_bytes(), &signature)
            .is_ok()
    }
}

/// What a keyed MAC says over this input.
fn over<M: Mac + Clone>(keyed: &M, input: &SigningInput<'_>) -> M {
    let mut mac = keyed.clone();
    for piece in input.pieces() {
        mac.update(piece);
    }
    mac
}

/// The frame of `envelope`, signed with `key`: `signature_algorithm` and `signature` are set.
///
/// # Errors
///
/// Those of [`SigningInput::of`]; [`Code::BadSignature`] if the key can only verify.
pub fn signed(mut envelope: Envelope<'_>, key: &Key) -> Result<String, Refusal> {
    envelope.signature = Cow::Borrowed("");
    envelope.signature_algorithm = Cow::Borrowed(key.algorithm().wire());
    let unsigned = envelope.to_json();
    let signature = key.sign(&SigningInput::of(&unsigned)?).ok_or_else(|| {
        let reason = format!("key {:?} can only verify", key.kid);
        Refusal::new(Code::BadSignature, reason)
    })?;
    let members = unsigned.strip_suffix('}').unwrap_or(&unsigned);
    Ok(format!("{members},\"signature\":\"{signature}\"}}"))
}

/// The one of `keys` that signed `frame`, of which `envelope` was decoded.
///
/// # Errors
///
/// [`Code::MissingField`] without a signature or its algorithm; [`Code::BadSignature`] naming
/// `signature_algorithm` for one that does not exist, else `signature`, without a word on which keys
/// there are; those of [`SigningInput::of`].
pub fn verify<'k, K: Borrow<Key>>(
    envelope: &Envelope<'_>,
    frame: &str,
    keys: &'k [K],
    at: jiff::Timestamp,
) -> Result<&'k K, Refusal> {
    for (field, text) in [
        ("signature", &envelope.signature),
        ("signature_algorithm", &envelope.signature_algorithm),
    ] {
        if text.is_empty() {
            let reason = format!("{field} is required");
            return Err(Refusal::of_field(Code::MissingField, field, reason));
        }
    }
    let algorithm = &*envelope.signature_algorithm;
    if !Algorithm::ALL.iter().any(|known| known.wire() == algorithm) {
        let reason = "signature_algorithm is HMAC-SHA256, HMAC-SHA512 or Ed25519";
        return Err(Refusal::of_field(
            Code::BadSignature,
            "signature_algorithm",
            reason,
        ));
    }
    let bad = || {
        let reason = "not the signature of a live key of the sender over this message";
        Refusal::of_field(Code::BadSignature, "signature", reason)
    };
    let signature = URL_SAFE_NO_PAD
        .decode(&*envelope.signature)
        .map_err(|_| bad())?;
    let input = SigningInput::of_decoded(frame, envelope.covered)?;
    keys.iter()
        .filter(|key| (*key).borrow().algorithm().wire() == algorithm)
        .filter(|key| (*key).borrow().is_live(at))
        .find(|key| (*key).borrow().has_signed(&input, &signature))
        .ok_or_else(bad)
}

#[cfg(test)]
mod tests;
