//! A key that seals payloads, and can do nothing else.
//!
//! Beside a frame's way: a type of its own, so that a key that signs can never seal nor the other
//! way round. [`crate::sealed`] uses it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use zeroize::Zeroizing;

use super::KeyError;

/// Seals that one key makes in one process at most: with as many random nonces of 96 bits, the
/// chance that two are the same stays under 2^-34 (NIST SP 800-38D section 8.3 allows 2^32).
pub const SEALS_MAX: u64 = 1 << 31;

/// A key for sealed payloads: JWE `dir` with `A256GCM` (RFC 7518 sections 4.5 and 5.3). Clones share
/// their count of seals.
#[derive(Clone)]
pub struct SealingKey {
    /// Names the key in its set, and to whoever opens.
    pub kid: String,
    /// Whose it is: the agent, or the group, that opens what it seals.
    pub agent_id: String,
    /// Not valid before this.
    pub not_before: Option<jiff::Timestamp>,
    /// Not valid from this on.
    pub not_after: Option<jiff::Timestamp>,
    secret: Arc<Zeroizing<[u8; SealingKey::SECRET_BYTES]>>,
    seals: Arc<AtomicU64>,
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({:?} of {:?})", self.kid, self.agent_id)
    }
}

impl SealingKey {
    /// `alg` of its JWK, and `enc` of what it seals.
    pub const ALGORITHM: &'static str = "A256GCM";
    /// Bytes of its secret, exactly.
    pub const SECRET_BYTES: usize = 32;

    /// A new key from the operating system's random numbers.
    ///
    /// # Errors
    ///
    /// [`KeyError::System`] if there are none.
    pub fn generate(
        kid: impl Into<String>,
        agent_id: impl Into<String>,
    ) -> Result<SealingKey, KeyError> {
        let mut secret = Zeroizing::new([0; SealingKey::SECRET_BYTES]);
        getrandom::fill(&mut *secret).map_err(std::io::Error::from)?;
        SealingKey::from_secret(kid, agent_id, &*secret)
    }

    /// A key with this secret of exactly 32 random bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError::Member`] when it has another length.
    pub fn from_secret(
        kid: impl Into<String>,
        agent_id: impl Into<String>,
        secret: &[u8],
    ) -> Result<SealingKey, KeyError> {
        let mut bytes = Zeroizing::new([0; SealingKey::SECRET_BYTES]);
        if secret.len() != bytes.len() {
            return Err(KeyError::Member {
                member: "k",
                reason: format!("a secret of {} bytes; exactly 32 are needed", secret.len()),
            });
        }
        bytes.copy_from_slice(secret);
        Ok(SealingKey {
            kid: kid.into(),
            agent_id: agent_id.into(),
            not_before: None,
            not_after: None,
            secret: Arc::new(bytes),
            seals: Arc::default(),
        })
    }

    /// Whether it is valid at this moment.
    pub fn is_live(&self, at: jiff::Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= at) && self.not_after.is_none_or(|to| at < to)
    }

    /// Whether it is the same key, whatever its name and life span.
    pub fn is_same_as(&self, other: &SealingKey) -> bool {
        **self.secret == **other.secret
    }

    /// Counts on from the seals that another copy of the same key has made.
    pub(crate) fn count_from(&self, same: &SealingKey) {
        let made = same.seals.load(Ordering::Relaxed);
        self.seals.fetch_max(made, Ordering::Relaxed);
    }

    pub(crate) fn secret(&self) -> &[u8; SealingKey::SECRET_BYTES] {
        &self.secret
    }

    /// Counts one more seal; `false` when there were [`SEALS_MAX`].
    pub(crate) fn count_seal(&self) -> bool {
        let more = |seals| (seals < SEALS_MAX).then_some(seals + 1);
        let counted = self
            .seals
            .try_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok()
    }

    #[cfg(test)]
    pub(crate) fn set_seals(&self, seals: u64) {
        self.seals.store(seals, Ordering::Relaxed);
    }
}
