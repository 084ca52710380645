//! Keys of agents, and the JSON Web Key Set (RFC 7517) they stand in.
//!
//! Beside a frame's way: the sender signs with one, Harbor and receivers look one up to verify. A
//! key that signs ([`Key`]) and one that seals ([`SealingKey`]) are two types.
//! Secrets are wiped from memory when dropped and never shown by `Debug`.

mod file;
mod jwk;
mod purpose;
mod ring;
mod sealing;
mod set;

use std::fmt;

use ed25519_dalek::{SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit};
use sha2::{Sha256, Sha512};
use zeroize::Zeroizing;

pub use jwk::Jwk;
pub use purpose::Purpose;
pub use ring::Keyring;
pub use sealing::{SEALS_MAX, SealingKey};
pub use set::KeySet;

/// How a key signs; the algorithm is a property of the key, never of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256 (RFC 2104); JWK `alg` `HS256`.
    HmacSha256,
    /// HMAC with SHA-512; `HS512`.
    HmacSha512,
    /// Ed25519 (RFC 8032); `EdDSA`.
    Ed25519,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 3] = [
        Algorithm::HmacSha256,
        Algorithm::HmacSha512,
        Algorithm::Ed25519,
    ];

    /// `signature_algorithm` in an envelope, matched exactly.
    pub const fn wire(self) -> &'static str {
        match self {
            Algorithm::HmacSha256 => "HMAC-SHA256",
            Algorithm::HmacSha512 => "HMAC-SHA512",
            Algorithm::Ed25519 => "Ed25519",
        }
    }

    /// `alg` of a JWK (RFC 7518 section 3.1, RFC 8037).
    pub const fn jwk(self) -> &'static str {
        match self {
            Algorithm::HmacSha256 => "HS256",
            Algorithm::HmacSha512 => "HS512",
            Algorithm::Ed25519 => "EdDSA",
        }
    }

    /// Bytes of a secret: the least for HMAC (RFC 7518 section 3.2), exactly for Ed25519.
    pub const fn secret_bytes(self) -> usize {
        match self {
            Algorithm::HmacSha256 | Algorithm::Ed25519 => 32,
            Algorithm::HmacSha512 => 64,
        }
    }
}

/// One key of one agent, for signatures.
#[derive(Debug, Clone)]
pub struct Key {
    /// Names the key in its set, and to receivers.
    pub kid: String,
    /// Whose it is.
    pub agent_id: String,
    /// Not valid before this.
    pub not_before: Option<jiff::Timestamp>,
    /// Not valid from this on.
    pub not_after: Option<jiff::Timestamp>,
    pub(crate) material: Material,
}

/// The key itself.
#[derive(Clone)]
pub(crate) enum Material {
    HmacSha256(Shared<Hmac<Sha256>>),
    HmacSha512(Shared<Hmac<Sha512>>),
    /// Can sign.
    Ed25519(Box<SigningKey>),
    /// Can only verify.
    Ed25519Public(VerifyingKey),
}

pub(crate) type Secret = Zeroizing<Vec<u8>>;

/// A secret for HMAC.
#[derive(Clone)]
pub(crate) struct Shared<M> {
    pub(crate) secret: Secret,
    /// With the secret mixed in already: that is two of the blocks a message would cost. Wiped when
    /// dropped, as its copies are.
    pub(crate) keyed: M,
}

impl<M: KeyInit> Shared<M> {
    fn of(secret: &[u8]) -> Option<Self> {
        Some(Shared {
            secret: Secret::new(secret.to_vec()),
            keyed: M::new_from_slice(secret).ok()?,
        })
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Material::HmacSha256(_) => f.write_str("HmacSha256(…)"),
            Material::HmacSha512(_) => f.write_str("HmacSha512(…)"),
            Material::Ed25519(_) => f.write_str("Ed25519(…)"),
            Material::Ed25519Public(public) => write!(f, "Ed25519Public({public:?})"),
        }
    }
}

/// Why a key is not taken.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A member of the JWK is missing or has a value that cannot be used.
    #[error("{member}: {reason}")]
    Member {
        /// The member of the JWK.
        member: &'static str,
        /// What is wrong with it; never its value.
        reason: String,
    },
    /// Two keys of a set have one `kid`.
    #[error("kid {0:?} is given twice")]
    Duplicate(String),
    /// The set is not a JSON Web Key Set.
    #[error("not a JSON Web Key Set: {0}")]
    Set(String),
    /// The file or the operating system's random numbers.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl Key {
    /// A new key from the operating system's random numbers.
    ///
    /// # Errors
    ///
    /// [`KeyError::System`] if there are none.
    pub fn generate(
        kid: impl Into<String>,
        agent_id: impl Into<String>,
        algorithm: Algorithm,
    ) -> Result<Key, KeyError> {
        let mut secret = Zeroizing::new(vec![0; algorithm.secret_bytes()]);
        getrandom::fill(&mut secret).map_err(std::io::Error::from)?;
        Key::from_secret(kid, agent_id, algorithm, &secret)
    }

    /// A key with this secret: random bytes for HMAC, the seed (RFC 8032 section 5.1.5) for Ed25519.
    ///
    /// # Errors
    ///
    /// [`KeyError::Member`] when it is too short.
    pub fn from_secret(
        kid: impl Into<String>,
        agent_id: impl Into<String>,
        algorithm: Algorithm,
        secret: &[u8],
    ) -> Result<Key, KeyError> {
        let least = algorithm.secret_bytes();
        let is_enough = secret.len() >= least;
        let material = match algorithm {
            Algorithm::HmacSha256 if is_enough => Shared::of(secret).map(Material::HmacSha256),
            Algorithm::HmacSha512 if is_enough => Shared::of(secret).map(Material::HmacSha512),
            Algorithm::HmacSha256 | Algorithm::HmacSha512 => None,
            Algorithm::Ed25519 => secret.try_into().ok().map(|seed| {
                // Borrowed: no copy that would have to be wiped.
                Material::Ed25519(Box::new(SigningKey::from_bytes(seed)))
            }),
        };
        let Some(material) = material else {
            let reason = format!("a secret of {} bytes; {least} are needed", secret.len());
            let member = if algorithm == Algorithm::Ed25519 {
                "d"
            } else {
                "k"
            };
            return Err(KeyError::Member { member, reason });
        };
        Ok(Key::of(kid, agent_id, material))
    }

    /// An Ed25519 key that can only verify.
    ///
    /// # Errors
    ///
    /// [`KeyError::Member`] for bytes that are no point of the curve, or one of small order, with
    /// which one signature would fit many messages.
    pub fn from_public(
        kid: impl Into<String>,
        agent_id: impl Into<String>,
        public: &[u8],
    ) -> Result<Key, KeyError> {
        let refused = |reason: &str| KeyError::Member {
            member: "x",
            reason: reason.to_owned(),
        };
        let bytes = public
            .try_into()
            .map_err(|_| refused("a public key of 32 bytes is needed"))?;
        let public = VerifyingKey::from_bytes(bytes)
            .map_err(|_| refused("no point of the curve Ed25519"))?;
        if public.is_weak() {
            return Err(refused("a point of small order, which proves nothing"));
        }
        Ok(Key::of(kid, agent_id, Material::Ed25519Public(public)))
    }

    fn of(kid: impl Into<String>, agent_id: impl Into<String>, material: Material) -> Key {
        Key {
            kid: kid.into(),
            agent_id: agent_id.into(),
            not_before: None,
            not_after: None,
            material,
        }
    }

    /// What it is for.
    pub fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::HmacSha256(_) => Algorithm::HmacSha256,
            Material::HmacSha512(_) => Algorithm::HmacSha512,
            Material::Ed25519(_) | Material::Ed25519Public(_) => Algorithm::Ed25519,
        }
    }

    /// The key without its secret; `None` for HMAC, whose keys are all secret.
    pub fn public(&self) -> Option<Key> {
        let public = match &self.material {
            Material::Ed25519(signing) => signing.verifying_key(),
            Material::Ed25519Public(public) => *public,
            _ => return None,
        };
        Some(Key {
            material: Material::Ed25519Public(public),
            ..self.clone()
        })
    }

    /// Whether it can sign, and not only verify.
    pub fn can_sign(&self) -> bool {
        !matches!(self.material, Material::Ed25519Public(_))
    }

    /// Whether it is the same key, whatever its name and life span.
    pub fn is_same_as(&self, other: &Key) -> bool {
        match (&self.material, &other.material) {
            (Material::HmacSha256(a), Material::HmacSha256(b)) => a.secret == b.secret,
            (Material::HmacSha512(a), Material::HmacSha512(b)) => a.secret == b.secret,
            (Material::Ed25519(a), Material::Ed25519(b)) => a == b,
            (Material::Ed25519Public(a), Material::Ed25519Public(b)) => a == b,
            _ => false,
        }
    }

    /// Whether it is valid at this moment.
    pub fn is_live(&self, at: jiff::Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= at) && self.not_after.is_none_or(|to| at < to)
    }
}

#[cfg(test)]
mod tests;
