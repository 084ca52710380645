//! Certificates and keys as they stand in PEM files (RFC 7468), and the one cryptography for TLS.
//!
//! Before a frame's way: both ends of a TLS connection read their files here.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// A PEM file as it was when it was read. Equal to another of the same bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PemFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl PemFile {
    /// Reads a file; what is in it is looked at later.
    ///
    /// # Errors
    ///
    /// One line that says why it cannot be read.
    pub fn read(path: &Path) -> Result<PemFile, String> {
        match fs::read(path) {
            Ok(bytes) => Ok(PemFile {
                path: path.to_owned(),
                bytes,
            }),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The certificates in it, in their order: for a chain, the end's first.
    ///
    /// # Errors
    ///
    /// When there is none, or the file is broken.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let certificates =
            CertificateDer::pem_slice_iter(&self.bytes).collect::<Result<Vec<_>, _>>();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(self.holds_no("certificate")),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// The first private key in it: PKCS #8, PKCS #1 or SEC 1, without a password.
    ///
    /// # Errors
    ///
    /// When there is none, or the file is broken.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        match PrivateKeyDer::from_pem_slice(&self.bytes) {
            Ok(key) => Ok(key),
            Err(pem::Error::NoItemsFound) => Err(self.holds_no("private key without a password")),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Adds the certificates in it to those that are trusted to sign others.
    ///
    /// # Errors
    ///
    /// When there is none, or one that cannot be an authority's.
    pub fn trust_all(&self, roots: &mut RootCertStore) -> Result<(), String> {
        for certificate in self.certificates()? {
            let added = roots.add(certificate);
            added.map_err(|error| format!("{}: {error}", self.path.display()))?;
        }
        Ok(())
    }

    fn holds_no(&self, what: &str) -> String {
        format!("{} holds no {what} in PEM form", self.path.display())
    }

    /// Without the text of the error, which may cite the file.
    fn broken(&self, error: &pem::Error) -> String {
        let what = match error {
            pem::Error::MissingSectionEnd { .. } => "a section has no END line",
            pem::Error::Base64Decode(_) => "a section is no base64",
            _ => "it is not in PEM form",
        };
        format!("{}: {what}", self.path.display())
    }
}

impl fmt::Debug for PemFile {
    /// Without what is in it, which may be a private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PemFile").field(&self.path).finish()
    }
}

/// The cryptography of every TLS connection, whatever else the process has linked.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
