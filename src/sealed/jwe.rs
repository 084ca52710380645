//! JSON Web Encryption in its flattened form (RFC 7516 section 7.2.2), of one kind only: `dir` with
//! `A256GCM`.
//!
//! What stands in the `payload` of a sealed message. Nothing that may be left out or may vary is
//! taken: no unprotected header, no `crit`, no compression, no other algorithm.

use std::borrow::Cow;

use aes_gcm::{
    Aes256Gcm, Key, KeyInit, Nonce,
    aead::{Aead, Payload},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::{Envelope, keys::SealingKey};

const IV_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const SECRET_BYTES: usize = SealingKey::SECRET_BYTES;

/// The protected header: exactly these members.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header<'e> {
    alg: Cow<'e, str>,
    enc: Cow<'e, str>,
    pub(super) kid: Cow<'e, str>,
    /// The sender.
    iss: Cow<'e, str>,
    /// The agent or the group it goes to.
    aud: Cow<'e, str>,
    /// The message's id.
    jti: Cow<'e, str>,
}

impl<'e> Header<'e> {
    /// The header that a payload of this envelope has; `None` when it goes to anything but one agent
    /// or one group.
    pub(super) fn of(envelope: &'e Envelope<'_>, kid: &str) -> Option<Header<'static>> {
        let aud = match (&envelope.receiver, &*envelope.group_id) {
            (Some(receiver), "") => &receiver.agent_id,
            (None, group_id) if !group_id.is_empty() => group_id,
            _ => return None,
        };
        let own = |text: &str| Cow::Owned(text.to_owned());
        Some(Header {
            alg: Cow::Borrowed("dir"),
            enc: Cow::Borrowed(SealingKey::ALGORITHM),
            kid: own(kid),
            iss: own(&envelope.sender.agent_id),
            aud: own(aud),
            jti: own(&envelope.id),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flattened {
    protected: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    encrypted_key: String,
    iv: String,
    ciphertext: String,
    tag: String,
}

/// A sealed payload that was read and not opened yet.
pub(super) struct Sealed {
    pub(super) header: Header<'static>,
    /// What the tag covers beside the ciphertext.
    protected: String,
    iv: [u8; IV_BYTES],
    /// With the tag behind it.
    ciphertext: Vec<u8>,
}

/// Seals a text under a nonce of its own.
pub(super) fn seal(
    header: &Header<'_>,
    text: &[u8],
    secret: &[u8; SECRET_BYTES],
) -> std::io::Result<Box<RawValue>> {
    let mut iv = [0; IV_BYTES];
    getrandom::fill(&mut iv).map_err(std::io::Error::from)?;
    seal_under(iv, header, text, secret)
}

fn seal_under(
    iv: [u8; IV_BYTES],
    header: &Header<'_>,
    text: &[u8],
    secret: &[u8; SECRET_BYTES],
) -> std::io::Result<Box<RawValue>> {
    let protected = URL_SAFE_NO_PAD.encode(serde_json::to_vec(header)?);
    let aad = protected.as_bytes();
    let sealed = cipher(secret)
        .encrypt(&Nonce::from(iv), Payload { msg: text, aad })
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::FileTooLarge))?;
    let (ciphertext, tag) = sealed.split_at(text.len());
    let flattened = Flattened {
        protected,
        encrypted_key: String::new(),
        iv: URL_SAFE_NO_PAD.encode(iv),
        ciphertext: URL_SAFE_NO_PAD.encode(ciphertext),
        tag: URL_SAFE_NO_PAD.encode(tag),
    };
    Ok(serde_json::value::to_raw_value(&flattened)?)
}

impl Sealed {
    /// Takes a payload apart.
    pub(super) fn read(payload: &str) -> Option<Sealed> {
        let flattened: Flattened = object(payload)?;
        if !flattened.encrypted_key.is_empty() {
            return None;
        }
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let header = String::from_utf8(bytes(&flattened.protected)?).ok()?;
        let mut ciphertext = bytes(&flattened.ciphertext)?;
        let tag = bytes(&flattened.tag)?;
        if tag.len() != TAG_BYTES {
            return None;
        }
        ciphertext.extend(tag);
        Some(Sealed {
            header: object(&header)?,
            iv: bytes(&flattened.iv)?.try_into().ok()?,
            protected: flattened.protected,
            ciphertext,
        })
    }

    /// The text, if it was sealed with this secret under this header.
    pub(super) fn open(&self, secret: &[u8; SECRET_BYTES]) -> Option<Zeroizing<Vec<u8>>> {
        let payload = Payload {
            msg: &self.ciphertext,
            aad: self.protected.as_bytes(),
        };
        let text = cipher(secret).decrypt(&Nonce::from(self.iv), payload);
        text.ok().map(Zeroizing::new)
    }
}

/// The `kid` in the protected header of any flattened JWE, also one that we cannot open.
pub(super) fn kid(payload: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Outer<'p> {
        #[serde(borrow)]
        protected: Cow<'p, str>,
        #[serde(borrow, rename = "ciphertext")]
        _ciphertext: Cow<'p, str>,
    }
    #[derive(Deserialize)]
    struct Inner {
        kid: String,
    }
    let Outer { protected, .. } = object(payload)?;
    let header = URL_SAFE_NO_PAD.decode(&*protected).ok()?;
    let Inner { kid } = object(std::str::from_utf8(&header).ok()?)?;
    Some(kid).filter(|kid| !kid.is_empty())
}

/// Reads a JSON object; an array, in which serde would also find the members, is none.
fn object<'t, T: Deserialize<'t>>(text: &'t str) -> Option<T> {
    let is_object = text.trim_start().starts_with('{');
    is_object.then(|| serde_json::from_str(text).ok()).flatten()
}

fn cipher(secret: &[u8; SECRET_BYTES]) -> Aes256Gcm {
    // Borrowed as the cipher's key: no copy that would have to be wiped.
    let key: &Key<Aes256Gcm> = secret.into();
    Aes256Gcm::new(key)
}

#[cfg(test)]
mod tests;
