//! The keys of those who issue tokens: a JSON Web Key Set (RFC 7517), each key with one algorithm.
//!
//! Between the file and [`super::Tokens`]. A key that no token could use is passed over, as RFC 7517
//! section 5 wants (sets of identity providers hold some); one that is wrong refuses the set.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::{Deserialize, de::IgnoredAny};
use synapse::{
    keys::{Key, KeyError},
    timestamp::Timestamp,
};
use zeroize::Zeroizing;

/// Bits of an RSA modulus (RFC 7518 section 3.3 for the least).
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// Least bytes of a secret for HS256 (RFC 7518 section 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// One key of an issuer.
#[derive(Debug)]
pub(super) struct IssuerKey {
    kid: Option<String>,
    algorithm: Algorithm,
    /// Never shown by `Debug`, and wiped when dropped.
    pub(super) material: DecodingKey,
    not_before: Option<jiff::Timestamp>,
    not_after: Option<jiff::Timestamp>,
}

/// All keys of the file.
#[derive(Debug, Default)]
pub(super) struct Issuers {
    pub(super) keys: Vec<Arc<IssuerKey>>,
    /// How many keys no token could use.
    pub(super) passed_over: usize,
    /// Whether whoever reads the file could issue tokens.
    pub(super) has_secrets: bool,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

/// A key as it stands in the file. Members not listed are passed over.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Jwk {
    kty: String,
    crv: String,
    kid: Option<String>,
    alg: String,
    #[serde(rename = "use")]
    usage: String,
    key_ops: Option<Vec<String>>,
    k: Zeroizing<String>,
    x: String,
    y: String,
    n: String,
    e: String,
    /// Private: Harbor only verifies.
    d: Option<IgnoredAny>,
    p: Option<IgnoredAny>,
    q: Option<IgnoredAny>,
    /// Our own, as in the keyring of agents.
    not_before: String,
    not_after: String,
}

impl Issuers {
    /// Reads the text of a JSON Web Key Set.
    pub(super) fn from_json(text: &str) -> Result<Issuers, KeyError> {
        let set: Set = serde_json::from_str(text).map_err(|error| {
            // Its own message may quote a value.
            let at = format!("see line {}, column {}", error.line(), error.column());
            KeyError::Set(at)
        })?;
        let mut issuers = Issuers::default();
        for jwk in &set.keys {
            let named = |error| match error {
                KeyError::Member { member, reason } => KeyError::Member {
                    member,
                    reason: format!(
                        "{reason} (key {:?})",
                        jwk.kid.as_deref().unwrap_or_default()
                    ),
                },
                other => other,
            };
            jwk.check_public().map_err(named)?;
            issuers.has_secrets |= !jwk.k.is_empty();
            let Some(algorithm) = jwk.algorithm() else {
                issuers.passed_over += 1;
                continue;
            };
            let key = jwk.to_key(algorithm).map_err(named)?;
            let is_taken = |other: &Arc<IssuerKey>| other.kid.is_some() && other.kid == key.kid;
            if issuers.keys.iter().any(is_taken) {
                return Err(KeyError::Duplicate(key.kid.unwrap_or_default()));
            }
            issuers.keys.push(Arc::new(key));
        }
        Ok(issuers)
    }

    /// The keys that may have signed a token: of its algorithm, with its `kid` if it names one, live.
    pub(super) fn for_token<'i>(
        &'i self,
        algorithm: Algorithm,
        kid: Option<&'i str>,
        at: jiff::Timestamp,
    ) -> impl Iterator<Item = &'i Arc<IssuerKey>> {
        self.keys.iter().filter(move |key| {
            let is_named = kid.is_none() || key.kid.as_deref() == kid;
            is_named && key.algorithm == algorithm && key.is_live(at)
        })
    }

    /// Whether this very key is still in the set, and live.
    pub(super) fn has_live(&self, key: &IssuerKey, at: jiff::Timestamp) -> bool {
        self.keys
            .iter()
            .any(|known| known.is_same_as(key) && known.is_live(at))
    }
}

impl IssuerKey {
    fn is_live(&self, at: jiff::Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= at) && self.not_after.is_none_or(|to| at < to)
    }

    fn is_same_as(&self, other: &IssuerKey) -> bool {
        use DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
        let is_same = match (self.material.kind(), other.material.kind()) {
            (SecretOrDer(a), SecretOrDer(b)) => a == b,
            (RsaModulusExponent { n, e }, RsaModulusExponent { n: n2, e: e2 }) => {
                n == n2 && e == e2
            }
            _ => false,
        };
        is_same && self.algorithm == other.algorithm && self.kid == other.kid
    }
}

fn refused(member: &'static str, reason: impl Into<String>) -> KeyError {
    KeyError::Member {
        member,
        reason: reason.into(),
    }
}

fn bytes(member: &'static str, text: &str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    // The decoder's error may quote the text, which may be secret.
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded
        .map(Zeroizing::new)
        .map_err(|_| refused(member, "not base64url without padding"))
}

/// The same for a number, which some write with zeros before it.
fn number(member: &'static str, text: &str) -> Result<Vec<u8>, KeyError> {
    let bytes = bytes(member, text)?;
    let start = bytes.iter().position(|byte| *byte != 0);
    let start = start.ok_or_else(|| refused(member, "a number is needed"))?;
    Ok(bytes[start..].to_vec())
}

fn time(member: &'static str, text: &str) -> Result<Option<jiff::Timestamp>, KeyError> {
    if text.is_empty() {
        return Ok(None);
    }
    match Timestamp::parse(text.into()) {
        Some(time) => Ok(Some(time.at())),
        None => Err(refused(member, "not an RFC 3339 time with offset")),
    }
}

impl Jwk {
    /// What it verifies: the algorithm it names, else the only one of its kind; `None` for what
    /// Harbor does not verify tokens with.
    fn algorithm(&self) -> Option<Algorithm> {
        let (name, algorithm) = match (self.kty.as_str(), self.crv.as_str()) {
            ("oct", _) => ("HS256", Algorithm::HS256),
            ("OKP", "Ed25519") => ("EdDSA", Algorithm::EdDSA),
            ("EC", "P-256") => ("ES256", Algorithm::ES256),
            ("RSA", _) => ("RS256", Algorithm::RS256),
            _ => return None,
        };
        let is_for_signatures = matches!(self.usage.as_str(), "" | "sig");
        let operations = self.key_ops.as_ref();
        let verifies = operations.is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let is_alg = self.alg.is_empty() || self.alg == name;
        (is_alg && is_for_signatures && verifies).then_some(algorithm)
    }

    /// Refuses what belongs to the issuer alone.
    fn check_public(&self) -> Result<(), KeyError> {
        for (member, private) in [("d", &self.d), ("p", &self.p), ("q", &self.q)] {
            if private.is_some() {
                let reason =
                    "private; Harbor needs the public half only, keep this with the issuer";
                return Err(refused(member, reason));
            }
        }
        Ok(())
    }

    fn to_key(&self, algorithm: Algorithm) -> Result<IssuerKey, KeyError> {
        let material = match algorithm {
            Algorithm::HS256 => self.secret()?,
            Algorithm::EdDSA => {
                // Refuses points with which one signature would fit many tokens.
                let public = bytes("x", &self.x)?;
                Key::from_public("", "", &public)?;
                DecodingKey::from_ed_der(&public)
            }
            Algorithm::ES256 => self.point()?,
            _ => self.rsa()?,
        };
        Ok(IssuerKey {
            kid: self.kid.clone(),
            algorithm,
            material,
            not_before: time("not_before", &self.not_before)?,
            not_after: time("not_after", &self.not_after)?,
        })
    }

    fn secret(&self) -> Result<DecodingKey, KeyError> {
        let secret = bytes("k", &self.k)?;
        if secret.len() < SECRET_BYTES_MIN {
            let reason = format!(
                "a secret of {} bytes; {SECRET_BYTES_MIN} are needed",
                secret.len()
            );
            return Err(refused("k", reason));
        }
        DecodingKey::from_secret(&secret).map_err(|_| refused("k", "a secret is needed"))
    }

    fn point(&self) -> Result<DecodingKey, KeyError> {
        let mut point = vec![0x04];
        for (member, text) in [("x", &self.x), ("y", &self.y)] {
            let coordinate = bytes(member, text)?;
            if coordinate.len() != 32 {
                return Err(refused(member, "a coordinate of 32 bytes is needed"));
            }
            point.extend_from_slice(&coordinate);
        }
        Ok(DecodingKey::from_ec_der(&point))
    }

    fn rsa(&self) -> Result<DecodingKey, KeyError> {
        let (n, e) = (number("n", &self.n)?, number("e", &self.e)?);
        let bits = n.len() * 8 - n[0].leading_zeros() as usize;
        if !RSA_BITS.contains(&bits) {
            let (least, most) = (RSA_BITS.start(), RSA_BITS.end());
            let reason = format!("a modulus of {bits} bits; {least} to {most} are needed");
            return Err(refused("n", reason));
        }
        Ok(DecodingKey::from_rsa_raw_components(&n, &e))
    }
}
