//! Issuing bearer tokens: JSON Web Tokens (RFC 7519), signed with a key of the issuer.
//!
//! Before a frame's way. For tests and small fleets; Harbor takes those of any issuer that it was told
//! to trust, and verifies them with a library of its own.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::Signer as _;
use hmac::Mac as _;
use serde::Serialize;

use crate::keys::{Key, Material};

/// The audience of tokens for a Harbor that was not told another.
pub const AUDIENCE_DEFAULT: &str = "synapse-harbor";

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The agent.
    pub sub: String,
    /// Whom it is for, [`AUDIENCE_DEFAULT`] mostly.
    pub aud: String,
    /// Who issues it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// When it was issued, in seconds since 1970.
    pub iat: i64,
    /// When it ends, in seconds since 1970.
    pub exp: i64,
}

#[derive(Serialize)]
struct Header<'k> {
    alg: &'static str,
    typ: &'static str,
    kid: &'k str,
}

impl Key {
    /// Whether tokens can be issued with it: it is for HS256 or EdDSA, and can sign.
    pub fn can_issue(&self) -> bool {
        matches!(
            self.material,
            Material::HmacSha256(_) | Material::Ed25519(_)
        )
    }

    /// A token in its compact form (RFC 7515 section 3.1); `None` from a key that cannot issue.
    pub fn issue(&self, claims: &Claims) -> Option<String> {
        let header = Header {
            alg: self.algorithm().jwk(),
            typ: "JWT",
            kid: &self.kid,
        };
        // Strings and numbers always have a JSON form.
        let [header, claims] = [serde_json::to_vec(&header), serde_json::to_vec(claims)];
        let (header, claims) = (header.ok()?, claims.ok()?);
        let covered = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let signature = match &self.material {
            Material::HmacSha256(shared) => {
                let mut mac = shared.keyed.clone();
                mac.update(covered.as_bytes());
                mac.finalize().into_bytes().to_vec()
            }
            Material::Ed25519(signing) => signing.sign(covered.as_bytes()).to_bytes().to_vec(),
            _ => return None,
        };
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Some(format!("{covered}.{signature}"))
    }
}
