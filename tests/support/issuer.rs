//! An issuer of tokens with a published key, and Harbors that trust some.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use harbor::Settings;
use ring::{
    hmac, rand, rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use serde_json::{Value, json};

use super::Harbor;

/// Every algorithm that Harbor verifies tokens with.
pub const ALGORITHMS: [&str; 4] = ["HS256", "RS256", "ES256", "EdDSA"];

/// Who issues tokens.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// How it signs.
    pub alg: &'static str,
    /// The key, private members included.
    pub jwk: Value,
}

/// Now, in seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    /// With the key that the RFCs publish for this algorithm; its `kid` is the algorithm's name.
    pub fn new(alg: &'static str) -> Issuer {
        let vectors = include_str!("../vectors/tokens.json");
        let vectors: Value = serde_json::from_str(vectors).unwrap();
        let all = vectors["tokens"].as_array().unwrap();
        let entry = all.iter().find(|entry| entry["alg"] == alg).unwrap();
        let mut jwk = entry["key"].clone();
        jwk["kid"] = alg.into();
        Issuer { alg, jwk }
    }

    /// Another secret under the same name.
    pub fn impostor() -> Issuer {
        let mut issuer = Issuer::new("HS256");
        issuer.jwk["k"] = encode([7; 32]).into();
        issuer
    }

    /// The half of the key that Harbor needs.
    pub fn public(&self) -> Value {
        let mut jwk = self.jwk.clone();
        let kept = ["kty", "crv", "kid", "k", "x", "y", "n", "e"];
        jwk.as_object_mut()
            .unwrap()
            .retain(|name, _| kept.contains(&name.as_str()));
        jwk
    }

    fn member(&self, name: &str) -> Vec<u8> {
        let text = self.jwk[name].as_str().unwrap_or_default();
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The signature over these bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = rand::SystemRandom::new();
        match self.alg {
            "HS256" => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &self.member("k"));
                hmac::sign(&key, message).as_ref().to_vec()
            }
            "EdDSA" => {
                let pair = Ed25519KeyPair::from_seed_unchecked(&self.member("d")).unwrap();
                pair.sign(message).as_ref().to_vec()
            }
            "ES256" => {
                let point = [vec![4], self.member("x"), self.member("y")].concat();
                let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let secret = self.member("d");
                let pair = EcdsaKeyPair::from_private_key_and_public_key(
                    algorithm, &secret, &point, &random,
                );
                pair.unwrap()
                    .sign(&random, message)
                    .unwrap()
                    .as_ref()
                    .to_vec()
            }
            _ => {
                let public_key = rsa::PublicKeyComponents {
                    n: self.member("n"),
                    e: self.member("e"),
                };
                let [d, p, q, dp, dq, qi] =
                    ["d", "p", "q", "dp", "dq", "qi"].map(|name| self.member(name));
                let components = rsa::KeyPairComponents {
                    public_key,
                    d,
                    p,
                    q,
                    dP: dp,
                    dQ: dq,
                    qInv: qi,
                };
                let pair = RsaKeyPair::from_components(&components).unwrap();
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
        }
    }

    /// A compact JWS of exactly these two texts.
    pub fn jws(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(payload));
        let signature = encode(self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// A token with these claims.
    pub fn token_of(&self, claims: &Value) -> String {
        let header = json!({"alg": self.alg, "typ": "JWT", "kid": self.jwk["kid"]});
        self.jws(&header.to_string(), &claims.to_string())
    }

    /// A good token for an agent, for so many seconds.
    pub fn token(&self, agent_id: &str, seconds: i64) -> String {
        self.token_of(&claims(agent_id, seconds))
    }
}

/// What a good token says.
pub fn claims(agent_id: &str, seconds: i64) -> Value {
    json!({"sub": agent_id, "aud": "synapse-harbor", "iat": now(), "exp": now() + seconds})
}

/// A Harbor with a file of issuers' keys.
pub struct Trusting {
    pub harbor: Harbor,
    pub path: PathBuf,
    folder: tempfile::TempDir,
}

impl Trusting {
    /// That lets nobody register without a token of one of these, or with these settings.
    pub async fn start(issuers: &[&Issuer], settings: Settings) -> Trusting {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        write(&path, issuers);
        let settings = settings.or(Settings {
            tokens: Some(path.clone()),
            auth: Some("required".to_owned()),
            signatures: Some("verify_if_present".to_owned()),
            ..Settings::default()
        });
        Trusting {
            harbor: Harbor::with(settings).await,
            path,
            folder,
        }
    }

    /// The Harbor, and its file in a folder that goes with the last.
    pub fn into_parts(self) -> (Harbor, PathBuf, tempfile::TempDir) {
        (self.harbor, self.path, self.folder)
    }

    /// Trusts these from now on, once Harbor has looked.
    pub fn trust(&self, issuers: &[&Issuer]) {
        let beside = self.path.with_extension("new");
        write(&beside, issuers);
        std::fs::rename(beside, &self.path).unwrap();
    }
}

/// Writes the file of these issuers' keys.
pub fn write(path: &std::path::Path, issuers: &[&Issuer]) {
    use std::os::unix::fs::PermissionsExt;
    let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.public()).collect();
    std::fs::write(path, json!({ "keys": keys }).to_string()).unwrap();
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, owner_only).unwrap();
}
