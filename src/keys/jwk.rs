//! One key as JSON (RFC 7517, RFC 8037), with three members of our own.
//!
//! Between the keyring's file and [`Key`] or [`SealingKey`]: each member is checked here and nowhere else.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{Algorithm, Key, KeyError, Material, Purpose, SealingKey, Secret};
use crate::{
    address::{self, Kind},
    timestamp::Timestamp,
};

/// From when a key is valid, and until when.
type Life = (Option<jiff::Timestamp>, Option<jiff::Timestamp>);

/// A JSON Web Key. Members not listed mean nothing to us (RFC 7517 section 4), and stay as they are.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Jwk {
    /// `oct` or `OKP`.
    pub kty: String,
    /// `Ed25519` when `kty` is `OKP`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub crv: String,
    /// Names the key.
    pub kid: String,
    /// `HS256`, `HS512` or `EdDSA`; `A256GCM` for a key that seals.
    pub alg: String,
    /// `sig`, or `enc` for a key that seals.
    #[serde(rename = "use")]
    pub usage: String,
    /// The public key, base64url.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub x: String,
    /// The secret seed, base64url.
    #[serde(skip_serializing_if = "hidden_is_empty")]
    pub d: Zeroizing<String>,
    /// The shared secret, base64url.
    #[serde(skip_serializing_if = "hidden_is_empty")]
    pub k: Zeroizing<String>,
    /// Whose key it is. Our own.
    pub agent_id: String,
    /// RFC 3339; not valid before. Our own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_before: String,
    /// RFC 3339; not valid from then on. Our own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub not_after: String,
    /// Members of others.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

fn hidden_is_empty(text: &Zeroizing<String>) -> bool {
    text.is_empty()
}

impl std::fmt::Debug for Jwk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jwk({:?} of {:?})", self.kid, self.agent_id)
    }
}

fn refused(member: &'static str, reason: impl Into<String>) -> KeyError {
    KeyError::Member {
        member,
        reason: reason.into(),
    }
}

fn bytes(member: &'static str, text: &str) -> Result<Secret, KeyError> {
    // The decoder's error may quote the text, which may be secret.
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded
        .map(Zeroizing::new)
        .map_err(|_| refused(member, "not base64url without padding"))
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
    /// Whether it says that it stands for a key that seals.
    pub fn is_sealing(&self) -> bool {
        self.alg == SealingKey::ALGORITHM
    }

    /// What it says that it is for, if that is anything of ours.
    pub fn purpose(&self) -> Option<Purpose> {
        let mut signing = Algorithm::ALL.into_iter();
        signing
            .find(|algorithm| algorithm.jwk() == self.alg)
            .map(Purpose::Sign)
            .or(self.is_sealing().then_some(Purpose::Seal))
    }

    /// Whether it is a shared secret, or holds the secret half of a pair.
    pub fn is_secret(&self) -> bool {
        self.kty == "oct" || !self.d.is_empty()
    }

    /// The public half, with no members but ours; `None` for a shared secret, which has none.
    pub fn public(&self) -> Option<Jwk> {
        (self.kty == "OKP").then(|| Jwk {
            d: Zeroizing::default(),
            other: serde_json::Map::default(),
            ..self.clone()
        })
    }

    /// The thumbprint of a public key with SHA-256 (RFC 7638, RFC 8037 section 2), base64url. `None` for a
    /// shared secret: its hash would help whoever guesses it (RFC 7638 section 7).
    pub fn thumbprint(&self) -> Option<String> {
        if self.kty != "OKP" {
            return None;
        }
        // The texts are base64url and a name of a curve, which JSON escapes nothing of.
        let members = format!(r#"{{"crv":"{}","kty":"OKP","x":"{}"}}"#, self.crv, self.x);
        Some(URL_SAFE_NO_PAD.encode(Sha256::digest(members)))
    }

    /// When it is valid: from the first time, to before the second.
    ///
    /// # Errors
    ///
    /// [`KeyError::Member`] for a time that is none.
    pub fn life(&self) -> Result<Life, KeyError> {
        Ok((
            time("not_before", &self.not_before)?,
            time("not_after", &self.not_after)?,
        ))
    }

    /// The key for signatures it stands for.
    ///
    /// # Errors
    ///
    /// [`KeyError::Member`] naming the member at fault, never its value.
    pub fn to_key(&self) -> Result<Key, KeyError> {
        self.check_names()?;
        if !matches!(self.usage.as_str(), "" | "sig") {
            return Err(refused("use", "sig is needed; enc goes with A256GCM"));
        }
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.jwk() == self.alg)
            .ok_or_else(|| refused("alg", "HS256, HS512, EdDSA or A256GCM is needed"))?;
        let mut key = match (algorithm, self.kty.as_str(), self.crv.as_str()) {
            (Algorithm::Ed25519, "OKP", "Ed25519") => self.ed25519()?,
            (Algorithm::Ed25519, "OKP", _) => return Err(refused("crv", "Ed25519 is needed")),
            (Algorithm::HmacSha256 | Algorithm::HmacSha512, "oct", _) => {
                let secret = bytes("k", &self.k)?;
                Key::from_secret(&self.kid, &self.agent_id, algorithm, &secret)?
            }
            _ => return Err(refused("kty", "oct for HS256 and HS512, OKP for EdDSA")),
        };
        (key.not_before, key.not_after) = self.life()?;
        Ok(key)
    }

    /// The key for sealed payloads it stands for.
    ///
    /// # Errors
    ///
    /// [`KeyError::Member`] naming the member at fault, never its value.
    pub fn to_sealing_key(&self) -> Result<SealingKey, KeyError> {
        self.check_names()?;
        for (member, is, needed) in [
            ("alg", &self.alg, SealingKey::ALGORITHM),
            ("use", &self.usage, "enc"),
            ("kty", &self.kty, "oct"),
        ] {
            if is != needed {
                return Err(refused(member, format!("{needed} is needed")));
            }
        }
        let mut key = SealingKey::from_secret(&self.kid, &self.agent_id, &bytes("k", &self.k)?)?;
        (key.not_before, key.not_after) = self.life()?;
        Ok(key)
    }

    fn check_names(&self) -> Result<(), KeyError> {
        for (member, name) in [("agent_id", &self.agent_id), ("kid", &self.kid)] {
            if name.is_empty() || address::check(Kind::Name, member, name).is_err() {
                let reason = "a name of 1 to 256 bytes without control characters is needed";
                return Err(refused(member, reason));
            }
        }
        Ok(())
    }

    fn ed25519(&self) -> Result<Key, KeyError> {
        let public = Key::from_public(&self.kid, &self.agent_id, &bytes("x", &self.x)?)?;
        if self.d.is_empty() {
            return Ok(public);
        }
        let seed = bytes("d", &self.d)?;
        let key = Key::from_secret(&self.kid, &self.agent_id, Algorithm::Ed25519, &seed)?;
        match (&key.material, &public.material) {
            (Material::Ed25519(signing), Material::Ed25519Public(public))
                if signing.verifying_key() == *public =>
            {
                Ok(key)
            }
            _ => Err(refused("x", "not the public key of d")),
        }
    }
}

fn hidden(bytes: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes))
}

fn written(time: Option<jiff::Timestamp>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}

impl From<&SealingKey> for Jwk {
    fn from(key: &SealingKey) -> Jwk {
        Jwk {
            kty: "oct".to_owned(),
            kid: key.kid.clone(),
            alg: SealingKey::ALGORITHM.to_owned(),
            usage: "enc".to_owned(),
            k: hidden(key.secret()),
            agent_id: key.agent_id.clone(),
            not_before: written(key.not_before),
            not_after: written(key.not_after),
            ..Jwk::default()
        }
    }
}

impl From<&Key> for Jwk {
    fn from(key: &Key) -> Jwk {
        let mut jwk = Jwk {
            kty: "oct".to_owned(),
            kid: key.kid.clone(),
            alg: key.algorithm().jwk().to_owned(),
            usage: "sig".to_owned(),
            agent_id: key.agent_id.clone(),
            not_before: written(key.not_before),
            not_after: written(key.not_after),
            ..Jwk::default()
        };
        let public = match &key.material {
            Material::HmacSha256(shared) => {
                jwk.k = hidden(&shared.secret);
                return jwk;
            }
            Material::HmacSha512(shared) => {
                jwk.k = hidden(&shared.secret);
                return jwk;
            }
            Material::Ed25519(signing) => {
                jwk.d = hidden(&*Zeroizing::new(signing.to_bytes()));
                signing.verifying_key()
            }
            Material::Ed25519Public(public) => *public,
        };
        jwk.kty = "OKP".to_owned();
        jwk.crv = "Ed25519".to_owned();
        jwk.x = URL_SAFE_NO_PAD.encode(public.as_bytes());
        jwk
    }
}
