//! The signatures of tokens, checked with `ring`, which TLS has compiled in already.
//!
//! Under [`super::Tokens::check`]: `jsonwebtoken` reads the token and asks here. Its own backends are a
//! second cryptography in C, or the `rsa` crate with its open advisory (RUSTSEC-2023-0071).

use std::sync::Once;

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
    signature::{self, Verifier},
};
use ring::{
    error::Unspecified,
    hmac,
    signature::{
        ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
        UnparsedPublicKey,
    },
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes it what `jsonwebtoken` asks in this process.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    // A program around this library may have put in its own, which verifies as well.
    INSTALLED.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

/// Harbor makes no tokens.
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let (algorithm, key) = (*algorithm, key.clone());
    Ok(Box::new(RingVerifier { algorithm, key }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    /// No algorithm takes a key of another family, whatever the token says.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        use AlgorithmFamily::{Ec, Ed, Hmac, Rsa};
        use DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
        let checked = match (self.algorithm, self.key.family(), self.key.kind()) {
            (Algorithm::HS256, Hmac, SecretOrDer(secret)) => hmac::verify(
                &hmac::Key::new(hmac::HMAC_SHA256, secret),
                message,
                signature,
            ),
            (Algorithm::EdDSA, Ed, SecretOrDer(public)) => {
                UnparsedPublicKey::new(&ED25519, public).verify(message, signature)
            }
            (Algorithm::ES256, Ec, SecretOrDer(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Algorithm::RS256, Rsa, RsaModulusExponent { n, e }) => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            _ => Err(Unspecified),
        };
        checked.map_err(|_| signature::Error::new())
    }
}
