//! Renewing a token in band: the payloads of `synapse.renew`.
//!
//! Beside a frame's way; an agent that bears no token never meets them.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::null_as_default;
use crate::timestamp::Timestamp;

/// [`kind::RENEW`](super::kind::RENEW): a newer token for the same agent.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Renew {
    /// A JSON Web Token (RFC 7519), never shown by `Debug`.
    #[serde(deserialize_with = "null_as_default")]
    pub token: Zeroizing<String>,
}

impl fmt::Debug for Renew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renew(…)")
    }
}

/// The answer to [`kind::RENEW`](super::kind::RENEW).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// When the connection ends now, unless it is renewed again.
    pub expires_at: Timestamp<'static>,
}
