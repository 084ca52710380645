//! Who a connection is by its client certificate.
//!
//! Carried from the door of a frame's way to the handshake, which lets nobody register as another.

use std::sync::Arc;

use synapse::{Code, Refusal};
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::{
    Certificate,
    der::Decode,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// Who is on the other end, as far as TLS tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// No certificate was asked for.
    Unasked,
    /// A certificate of the authority names this agent.
    Named(Arc<str>),
    /// A certificate of the authority names nobody.
    Nameless,
}

impl Identity {
    /// By the certificate that was shown, and verified.
    pub(crate) fn shown(certificate: Option<&CertificateDer<'_>>) -> Identity {
        match certificate.map(|certificate| name_in(certificate)) {
            None => Identity::Unasked,
            Some(Some(name)) => Identity::Named(name.into()),
            Some(None) => Identity::Nameless,
        }
    }

    /// The agent it names.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Identity::Named(name) => Some(name),
            Identity::Unasked | Identity::Nameless => None,
        }
    }

    /// Checks that it may register as this agent.
    pub(crate) fn check(&self, agent_id: &str) -> Result<(), Refusal> {
        let reason = match self {
            Identity::Unasked => return Ok(()),
            Identity::Named(name) if **name == *agent_id => return Ok(()),
            Identity::Named(name) => format!("the client certificate is that of {name:?}"),
            Identity::Nameless => "the client certificate has no name in it".to_owned(),
        };
        Err(Refusal::of_field(
            Code::SenderMismatch,
            "sender.agent_id",
            reason,
        ))
    }
}

/// The first URI among the subject's alternative names (RFC 5280 section 4.2.1.6), else the first
/// DNS name, else the subject's common name.
fn name_in(certificate: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    let extension = certificate.get_extension::<SubjectAltName>().ok()?;
    let names = extension.map(|(_, names)| names.0).unwrap_or_default();
    let uri = names.iter().find_map(|name| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str().to_owned()),
        _ => None,
    });
    let dns = || {
        names.iter().find_map(|name| match name {
            GeneralName::DnsName(dns) => Some(dns.as_str().to_owned()),
            _ => None,
        })
    };
    let common = || {
        let name = certificate.subject().common_name().ok()??;
        Some(name.into())
    };
    uri.or_else(dns)
        .or_else(common)
        .filter(|name| !name.is_empty())
}
