//! Whom a client trusts over TLS, and how it shows who it is.
//!
//! Before a frame's way: read once, before the first attempt.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio_tungstenite::Connector;

use crate::tls::{PemFile, provider};

/// What the options say of TLS.
#[derive(Clone, Default)]
pub(super) struct Trust {
    pub(super) authorities: Option<PathBuf>,
    /// Certificate and private key.
    pub(super) shown: Option<(PathBuf, PathBuf)>,
    ready: Option<Arc<ClientConfig>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("authorities", &self.authorities)
            .field("shown", &self.shown)
            .finish_non_exhaustive()
    }
}

impl Trust {
    /// Whether anything was said of TLS.
    pub(super) fn is_given(&self) -> bool {
        self.authorities.is_some() || self.shown.is_some()
    }

    /// The same, ready to connect, or what is wrong.
    pub(super) fn loaded(mut self) -> Result<Self, String> {
        let roots = roots(self.authorities.as_deref())?;
        let shown = self.shown.as_ref();
        let shown = shown.map(|(certificate, key)| read_pair(certificate, key));
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match shown.transpose()? {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("certificate and key: {error}"))?,
        };
        // What a WebSocket begins with.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.ready = Some(Arc::new(config));
        Ok(self)
    }

    /// How to connect.
    pub(super) fn connector(&self) -> Connector {
        match &self.ready {
            Some(config) => Connector::Rustls(Arc::clone(config)),
            None => Connector::Plain,
        }
    }
}

/// The platform's authorities, and those of a file.
fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let platform = rustls_native_certs::load_native_certs();
    // Platforms hold some that are no longer well-formed.
    roots.add_parsable_certificates(platform.certs);
    if let Some(file) = file {
        PemFile::read(file)?.trust_all(&mut roots)?;
    }
    if roots.is_empty() {
        return Err("this machine trusts no certificate authority, and none was given".to_owned());
    }
    Ok(roots)
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_pair(certificate: &Path, key: &Path) -> Result<Pair, String> {
    let chain = PemFile::read(certificate)?.certificates()?;
    Ok((chain, PemFile::read(key)?.private_key()?))
}
