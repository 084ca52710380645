//! Certificates of one test: an authority, and whom it vouches for, as files in a folder of their own.

use std::path::{Path, PathBuf};

use harbor::Settings;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use synapse::client::Options;
use tempfile::TempDir;

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority of a test");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A file beside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A pair for this machine.
    pub fn harbor(&self) -> Pair {
        let params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
        self.signed("harbor", params)
    }

    /// A pair whose subject has this common name, and these alternative names.
    pub fn agent(&self, common_name: &str, alternative_names: &[SanType]) -> Pair {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.subject_alt_names = alternative_names.to_vec();
        self.signed("agent", params)
    }

    fn signed(&self, name: &str, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let name = format!("{name}-{}", super::agent::new_id());
        let pair = Pair {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }

    /// What makes a Harbor show a pair of this authority.
    pub fn settings(&self) -> Settings {
        self.harbor().settings()
    }
}

impl Pair {
    /// What makes a Harbor show it.
    pub fn settings(&self) -> Settings {
        Settings {
            tls_certificate: Some(self.certificate.clone()),
            tls_key: Some(self.key.clone()),
            ..Settings::default()
        }
    }

    /// Puts this pair where another is.
    pub fn replace(&self, other: &Pair) {
        std::fs::copy(&self.certificate, &other.certificate).unwrap();
        std::fs::copy(&self.key, &other.key).unwrap();
    }

    /// Shows it to Harbor.
    pub fn shown(&self, options: Options) -> Options {
        options.show_certificate(&self.certificate, &self.key)
    }
}

/// As text, for a command line.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
