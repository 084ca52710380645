//! TLS: the certificate Harbor shows, the one it asks for, and looking again when the files change.
//!
//! Between TCP and HTTP on a frame's way; only where `tls_certificate` is set.

pub(crate) mod identity;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use synapse::tls::{PemFile, provider};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
        version::{TLS12, TLS13},
    },
};

use crate::connection::stream::{Stream, linger};
use identity::Identity;

/// First byte of a TLS connection: a handshake record (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// What someone is told who speaks HTTP without TLS.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 45\r\nConnection: close\r\n\r\nthis port speaks TLS: use https:// or wss://\n";

/// Where certificates and keys are.
#[derive(Debug, Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// What was in the files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contents {
    certificate: PemFile,
    key: PemFile,
    client_ca: Option<PemFile>,
}

/// TLS as it is spoken now. Connections keep what they began with.
pub(crate) struct Tls {
    files: Files,
    /// What the files held when they were last looked at, usable or not.
    seen: Mutex<Result<Contents, String>>,
    /// From the last files that were usable.
    current: Mutex<Arc<ServerConfig>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

impl Tls {
    /// What these settings mean. An empty path is none.
    pub(crate) fn configured(
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        client_ca: Option<PathBuf>,
    ) -> Result<Option<Arc<Tls>>, String> {
        let given = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        let files = match (given(certificate), given(key), given(client_ca)) {
            (None, None, None) => return Ok(None),
            (Some(certificate), Some(key), client_ca) => Files {
                certificate,
                key,
                client_ca,
            },
            (Some(_), None, _) => return Err("tls_certificate needs tls_key beside it".to_owned()),
            (None, Some(_), _) => return Err("tls_key needs tls_certificate beside it".to_owned()),
            (None, None, Some(_)) => {
                return Err("tls_client_ca needs tls_certificate and tls_key beside it".to_owned());
            }
        };
        let contents = files.read()?;
        let current = contents.server_config()?;
        Ok(Some(Arc::new(Tls {
            files,
            seen: Mutex::new(Ok(contents)),
            current: Mutex::new(Arc::new(current)),
        })))
    }

    /// Whether every connection shows who it is.
    pub(crate) fn proves_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Makes TLS of a TCP connection. What fails has ended cleanly when this returns.
    pub(crate) async fn accept(&self, mut tcp: TcpStream) -> io::Result<(Stream, Identity)> {
        let mut first = [0];
        tcp.peek(&mut first).await?;
        if first[0] != HANDSHAKE_RECORD && first[0].is_ascii_uppercase() {
            tcp.write_all(SPEAK_TLS).await?;
            linger(&mut tcp).await;
            return Err(io::Error::other("HTTP without TLS"));
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.lock()));
        match acceptor.accept(tcp).into_fallible().await {
            Ok(tls) => {
                let shown = tls.get_ref().1.peer_certificates();
                let identity = Identity::shown(shown.and_then(<[_]>::first));
                Ok((Stream::from(tls), identity))
            }
            Err((error, mut tcp)) => {
                // The alert that says why is written; a reset would take it along.
                linger(&mut tcp).await;
                Err(error)
            }
        }
    }

    /// Takes over what the files hold now, if they changed since the last look.
    pub(crate) fn look_again(&self) -> Option<Result<(), String>> {
        let now = self.files.read();
        let mut seen = self.seen.lock();
        if *seen == now {
            return None;
        }
        seen.clone_from(&now);
        let taken = now.and_then(|contents| contents.server_config());
        Some(taken.map(|config| *self.current.lock() = Arc::new(config)))
    }
}

impl Files {
    fn read(&self) -> Result<Contents, String> {
        let read = |key: &str, path: &Path| {
            PemFile::read(path).map_err(|problem| format!("{key}: {problem}"))
        };
        let client_ca = self.client_ca.as_deref();
        Ok(Contents {
            certificate: read("tls_certificate", &self.certificate)?,
            key: read("tls_key", &self.key)?,
            client_ca: client_ca
                .map(|path| read("tls_client_ca", path))
                .transpose()?,
        })
    }
}

impl Contents {
    fn server_config(&self) -> Result<ServerConfig, String> {
        let chain = self.certificate.certificates();
        let chain = chain.map_err(|problem| format!("tls_certificate: {problem}"))?;
        let key = self.key.private_key();
        let key = key.map_err(|problem| format!("tls_key: {problem}"))?;
        let verifier = match &self.client_ca {
            Some(client_ca) => {
                verifier(client_ca).map_err(|problem| format!("tls_client_ca: {problem}"))?
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .and_then(|builder| {
                let builder = builder.with_client_cert_verifier(verifier);
                builder.with_single_cert(chain, key)
            })
            .map_err(|error| self.unusable(&error))?;
        // A WebSocket over HTTP/2 would be another protocol (RFC 8441).
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn unusable(&self, error: &rustls::Error) -> String {
        let (certificate, key) = (self.certificate.path(), self.key.path());
        let (certificate, key) = (certificate.display(), key.display());
        match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("tls_key: {key} is not the key of the certificate in {certificate}")
            }
            error => format!("tls_certificate: {certificate} with {key}: {error}"),
        }
    }
}

fn verifier(client_ca: &PemFile) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    client_ca.trust_all(&mut roots)?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| format!("{}: {error}", client_ca.path().display()))
}
