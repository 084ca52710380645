//! What a key is for, and making a new one for it.
//!
//! Beside a frame's way: asked by the commands that make keys.

use super::{Algorithm, Jwk, Key, KeyError, SealingKey};

/// What a key can do: sign, or seal payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Sign with this algorithm.
    Sign(Algorithm),
    /// Seal payloads, with `A256GCM`.
    Seal,
}

impl Purpose {
    /// The purpose with this [`Purpose::name`].
    pub fn named(name: &str) -> Option<Purpose> {
        let mut signing = Algorithm::ALL.into_iter().map(Purpose::Sign);
        signing
            .find(|purpose| purpose.name() == name)
            .or((name == SealingKey::ALGORITHM).then_some(Purpose::Seal))
    }

    /// `HMAC-SHA256`, `HMAC-SHA512`, `Ed25519` or `A256GCM`.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Sign(algorithm) => algorithm.wire(),
            Purpose::Seal => SealingKey::ALGORITHM,
        }
    }

    /// What a key is called unless somebody says otherwise: by its owner and the day.
    pub fn default_kid(self, agent_id: &str, at: jiff::Timestamp) -> String {
        let today = at.strftime("%F");
        match self {
            Purpose::Sign(_) => format!("{agent_id}-{today}"),
            Purpose::Seal => format!("{agent_id}-seal-{today}"),
        }
    }

    /// A new key from the operating system's random numbers.
    ///
    /// # Errors
    ///
    /// [`KeyError::System`] if there are none.
    pub fn generate(self, kid: &str, agent_id: &str) -> Result<Jwk, KeyError> {
        match self {
            Purpose::Sign(algorithm) => {
                Key::generate(kid, agent_id, algorithm).map(|key| (&key).into())
            }
            Purpose::Seal => SealingKey::generate(kid, agent_id).map(|key| (&key).into()),
        }
    }
}
