//! What a token says (RFC 7519 section 4.1), checked on Harbor's own clock.
//!
//! After its signature was verified, so the reasons may be told. `jsonwebtoken` could check some of
//! it, but takes one leeway for all times, and a token at the very second of its end.

use serde::Deserialize;
use serde_json::Value;
use synapse::control::require_name;

/// The claims that count; others are passed over. A claim given twice is refused by the reader.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claims {
    sub: Value,
    exp: Value,
    nbf: Value,
    iat: Value,
    aud: Value,
    iss: Value,
}

/// What they must be.
#[derive(Debug)]
pub(super) struct Expected<'t> {
    pub(super) audience: &'t str,
    /// Empty for any.
    pub(super) issuer: &'t str,
    pub(super) now: jiff::Timestamp,
    /// How far an issuer's clock may be ahead.
    pub(super) leeway: std::time::Duration,
}

impl Claims {
    /// Whose token it is, and when it ends; or what is wrong with it.
    pub(super) fn check(&self, expected: &Expected<'_>) -> Result<(&str, jiff::Timestamp), String> {
        let audiences = match &self.aud {
            Value::Array(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        if !audiences.iter().all(Value::is_string) {
            return Err("the token's aud is no string or list of strings".to_owned());
        }
        if !audiences.iter().any(|aud| aud == expected.audience) {
            return Err("the token is for another audience".to_owned());
        }
        if !expected.issuer.is_empty() && self.iss != expected.issuer {
            return Err("the token is from another issuer".to_owned());
        }
        let Some(expires_at) = time("exp", &self.exp)? else {
            return Err("the token has no exp".to_owned());
        };
        if expires_at <= expected.now {
            return Err(format!("the token expired at {expires_at}"));
        }
        let latest = expected.now.saturating_add(expected.leeway);
        let latest = latest.unwrap_or(jiff::Timestamp::MAX);
        for (name, claim) in [("nbf", &self.nbf), ("iat", &self.iat)] {
            if let Some(from) = time(name, claim)?.filter(|from| *from > latest) {
                return Err(format!("the token is not valid yet: its {name} is {from}"));
            }
        }
        match self.sub.as_str() {
            Some(sub) if require_name("sub", sub).is_ok() => Ok((sub, expires_at)),
            _ => Err("the token's sub is not the id of an agent".to_owned()),
        }
    }
}

/// A NumericDate (RFC 7519 section 2); `None` if it is absent.
fn time(name: &str, claim: &Value) -> Result<Option<jiff::Timestamp>, String> {
    if claim.is_null() {
        return Ok(None);
    }
    let whole = claim
        .as_i64()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let fraction = || {
        let seconds = claim.as_f64().filter(|_| claim.is_f64())?;
        let since = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
        jiff::Timestamp::from_duration(since).ok()
    };
    let problem = || format!("the token's {name} is no time in seconds since 1970");
    whole.or_else(fraction).map(Some).ok_or_else(problem)
}
