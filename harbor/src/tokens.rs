//! Bearer tokens: who asks, by a JSON Web Token (RFC 7519) of an issuer whose key stands in the file
//! `tokens`.
//!
//! Asked at the doors of a frame's way (a request's headers) and when a token is renewed in band. The
//! algorithm is that of the key, never the token's own choice (RFC 8725 section 3.1). Until a signature
//! is verified, nothing is told but that the token is not accepted.

mod claims;
mod issuers;
mod presented;
mod verifier;

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Header, Validation, errors::ErrorKind};
use parking_lot::RwLock;
use synapse::{
    Code, Refusal,
    control::{Renew, Renewed},
    limits::TOKEN_BYTES_MAX,
    token::AUDIENCE_DEFAULT,
};
use zeroize::Zeroizing;

use crate::{
    clock,
    node::Node,
    registry::Lease,
    watched::{Stamp, Watched},
};
use claims::{Claims, Expected};
use issuers::{IssuerKey, Issuers};

/// Who a verified token says its bearer is.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    /// Its `sub`.
    pub(crate) agent_id: Arc<str>,
    /// Its `exp`.
    pub(crate) expires_at: jiff::Timestamp,
    /// The key that verified it.
    key: Arc<IssuerKey>,
}

/// How tokens are checked, and the file of the issuers' keys.
pub(crate) struct Tokens {
    file: Watched,
    audience: String,
    /// Empty for any.
    issuer: String,
    issuers: RwLock<Arc<Issuers>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.file).finish()
    }
}

/// Who asks, by the token in a request's headers; `None` if there is none.
///
/// # Errors
///
/// [`Code::BadToken`], naming the header. Also when this Harbor takes no tokens: a wrong token never
/// makes an anonymous request.
pub(crate) fn bearer_of(node: &Node, headers: &HeaderMap) -> Result<Option<Bearer>, Refusal> {
    let Some((place, token)) = presented::find(headers)? else {
        return Ok(None);
    };
    check(node, place, token).map(Some)
}

/// Puts a newer token in the place of the one that a connection registered with.
///
/// # Errors
///
/// [`Code::BadToken`] naming `payload.token`; then the connection lives on with its older token.
pub(crate) fn renew(node: &Node, lease: &Lease, renew: &Renew) -> Result<Renewed, Refusal> {
    let field = "payload.token";
    if renew.token.is_empty() {
        let reason = format!("{field} is required");
        return Err(Refusal::of_field(Code::MissingField, field, reason));
    }
    let refused = |reason| Err(Refusal::of_field(Code::BadToken, field, reason));
    let bearer = check(node, field, &renew.token)?;
    if *bearer.agent_id != *lease.agent.id {
        return refused("the token is that of another agent");
    }
    let expires_at = bearer.expires_at;
    if !lease.agent.renew(lease.generation, bearer) {
        return refused("this connection registered without a token, so there is none to renew");
    }
    Ok(Renewed {
        expires_at: expires_at.into(),
    })
}

fn check(node: &Node, place: &'static str, token: &str) -> Result<Bearer, Refusal> {
    let checked = match &node.config.tokens {
        Some(tokens) => tokens.check(token, clock::wall(), node.config.clock_window),
        None => Err(NOT_ACCEPTED.to_owned()),
    };
    checked.map_err(|reason| Refusal::of_field(Code::BadToken, place, reason))
}

const NOT_ACCEPTED: &str = "the token is not accepted";

/// Whether a header asks for what is not known here (RFC 7515 section 4.1.11), or is of an encrypted token.
fn extends_jws(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&header).unwrap_or_default();
    ["crit", "b64", "enc", "zip"]
        .iter()
        .any(|member| members.contains_key(*member))
}

impl Tokens {
    /// What these settings mean. An empty path is none.
    ///
    /// # Errors
    ///
    /// One line that names the file and what is wrong, without any secret.
    pub(crate) fn configured(
        path: Option<PathBuf>,
        audience: Option<String>,
        issuer: Option<String>,
    ) -> Result<Option<Arc<Tokens>>, String> {
        let audience = audience.unwrap_or_else(|| AUDIENCE_DEFAULT.to_owned());
        if audience.is_empty() {
            return Err("token_audience is not empty: it is who tokens must be for".to_owned());
        }
        let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(None);
        };
        verifier::install();
        let stamp = Stamp::of(&path);
        Ok(Some(Arc::new(Tokens {
            issuers: RwLock::new(Arc::new(read(&path)?)),
            audience,
            issuer: issuer.unwrap_or_default(),
            file: Watched::new(path, stamp),
        })))
    }

    /// Verifies a token; the reason when it is not accepted.
    fn check(&self, token: &str, now: jiff::Timestamp, leeway: Duration) -> Result<Bearer, String> {
        let not_accepted = || NOT_ACCEPTED.to_owned();
        if token.len() > TOKEN_BYTES_MAX {
            return Err(not_accepted());
        }
        let issuers = Arc::clone(&self.issuers.read());
        let header = jsonwebtoken::decode_header(token).map_err(|_| not_accepted())?;
        let mut keys = issuers.for_token(header.alg, header.kid.as_deref(), now);
        let (key, claims) = keys
            .find_map(|key| Some((key, verified(token, &header, key)?)))
            .ok_or_else(not_accepted)?;
        if !is_of_access(&header) {
            return Err("the token is of another type than JWT".to_owned());
        }
        if extends_jws(token) {
            return Err("the token has crit, b64, enc or zip in its header".to_owned());
        }
        let claims = claims?;
        let (agent_id, expires_at) = claims.check(&Expected {
            audience: &self.audience,
            issuer: &self.issuer,
            now,
            leeway,
        })?;
        Ok(Bearer {
            agent_id: agent_id.into(),
            expires_at,
            key: Arc::clone(key),
        })
    }

    /// Whether a token that was accepted would be now, as far as time and keys go.
    fn holds(&self, bearer: &Bearer, now: jiff::Timestamp) -> bool {
        now < bearer.expires_at && self.issuers.read().has_live(&bearer.key, now)
    }

    /// Says how many keys there are, and how many are of no use.
    pub(crate) fn tell(&self) {
        let issuers = self.issuers.read();
        let (keys, passed_over) = (issuers.keys.len(), issuers.passed_over);
        tracing::info!(keys, passed_over, "read the keys of the tokens' issuers");
    }

    /// Reads the file again if it changed. One that cannot be used changes nothing and is told once.
    pub(crate) fn look_again(&self) {
        match self.file.look_again(read) {
            None => {}
            Some(Ok(issuers)) => {
                *self.issuers.write() = Arc::new(issuers);
                self.tell();
            }
            Some(Err(problem)) => tracing::error!("the issuers' keys stay as they were: {problem}"),
        }
    }
}

impl Bearer {
    /// Whether its token has not ended, and the key that verified it is still there.
    pub(crate) fn holds(&self, node: &Node) -> bool {
        let tokens = node.config.tokens.as_ref();
        tokens.is_some_and(|tokens| tokens.holds(self, clock::wall()))
    }
}

/// The claims of a token that this key signed, or why they cannot be read; `None` if it did not.
fn verified(token: &str, header: &Header, key: &IssuerKey) -> Option<Result<Claims, String>> {
    let mut validation = Validation::new(header.alg);
    // The claims are checked by us, see there.
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    match jsonwebtoken::decode::<Claims>(token, &key.material, &validation) {
        Ok(token) => Some(Ok(token.claims)),
        // Read after the signature was verified.
        Err(error) if matches!(error.kind(), ErrorKind::Json(_)) => {
            let reason = "the token's claims cannot be read: no JSON object, or one is of a wrong \
                type or given twice";
            Some(Err(reason.to_owned()))
        }
        Err(_) => None,
    }
}

/// Whether it is no other kind of token of the same issuer (RFC 8725 section 3.11, RFC 9068 section 4).
fn is_of_access(header: &Header) -> bool {
    let kind = header.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
    let kind = kind.strip_prefix("application/").unwrap_or(&kind);
    matches!(kind, "jwt" | "at+jwt")
}

/// Reads the file. If it holds a secret, nobody else on the machine may be able to.
fn read(path: &Path) -> Result<Issuers, String> {
    let named = |error: &dyn fmt::Display| format!("tokens: {}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    let issuers = Issuers::from_json(&Zeroizing::new(text)).map_err(|error| named(&error))?;
    let mode = fs::metadata(path).map_err(|error| named(&error))?.mode();
    if issuers.has_secrets && mode & 0o077 != 0 {
        return Err(named(
            &"others may read it, and it holds a secret; its mode must be 600",
        ));
    }
    Ok(issuers)
}

#[cfg(test)]
mod tests;
