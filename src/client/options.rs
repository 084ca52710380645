//! What a client is told before it connects: who it is, where to, and its limits.
//!
//! Stands before a frame's way. Each option names its default and unit; nothing is tried until
//! [`Client::connect`](super::Client::connect) has checked them all.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio_tungstenite::tungstenite::http::Uri;

use super::{
    error::{ConnectError, ConnectErrorKind, Error},
    token::TokenSource,
    trust::Trust,
};
use crate::{
    address::{self, Kind},
    control::{Confirm, Join},
    envelope::{Endpoint, Envelope},
    keys::{Key, Keyring},
    refusal::Refusal,
    signature,
};

/// How a client connects. Build it with [`Options::new`] and chain what should differ.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) url: String,
    pub(super) trust: Trust,
    pub(super) agent: Endpoint<'static>,
    pub(super) groups: Vec<Join>,
    pub(super) confirm: Confirm,
    pub(super) takeover: Takeover,
    pub(super) connect_deadline: Duration,
    pub(super) first_connection_within: Duration,
    pub(super) acceptance_deadline: Duration,
    pub(super) heartbeat: Option<Duration>,
    pub(super) backoff_first: Duration,
    pub(super) backoff_cap: Duration,
    pub(super) stable_after: Duration,
    pub(super) inbox_bytes_max: usize,
    pub(super) frame_bytes_max: usize,
    pub(super) queue_messages_max: usize,
    pub(super) in_flight_max: usize,
    pub(super) key: Option<Arc<Key>>,
    pub(super) sealing: Keyring,
    pub(super) token: Option<TokenSource>,
}

/// What happens to a connection the agent already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takeover {
    /// It is closed with 4001; this one takes its place. The default.
    #[default]
    Replace,
    /// It stays; this one is refused with `agent_in_use`.
    Yield,
}

impl Options {
    /// Connects `agent_id` to `url`, for instance `ws://127.0.0.1:7420/ws` or
    /// `wss://harbor.example:7420/ws`. A URL without a path means `/ws`.
    pub fn new(url: impl Into<String>, agent_id: impl Into<String>) -> Self {
        Options {
            url: url.into(),
            trust: Trust::default(),
            agent: Endpoint::new(agent_id.into()),
            groups: Vec::new(),
            confirm: Confirm::Each,
            takeover: Takeover::Replace,
            connect_deadline: Duration::from_secs(15),
            first_connection_within: Duration::ZERO,
            acceptance_deadline: Duration::from_secs(10),
            heartbeat: None,
            backoff_first: Duration::from_millis(200),
            backoff_cap: Duration::from_secs(30),
            stable_after: Duration::from_secs(10),
            inbox_bytes_max: 16 << 20,
            frame_bytes_max: 16 << 20,
            queue_messages_max: 256,
            in_flight_max: 4_096,
            key: None,
            sealing: Keyring::default(),
            token: None,
        }
    }

    /// A name for people. Default: none.
    #[must_use]
    pub fn agent_name(mut self, agent_name: impl Into<String>) -> Self {
        self.agent.agent_name = agent_name.into().into();
        self
    }

    /// The system the agent belongs to; needed to broadcast to it. Default: none.
    #[must_use]
    pub fn system_id(mut self, system_id: impl Into<String>) -> Self {
        self.agent.system_id = system_id.into().into();
        self
    }

    /// Where else the agent is reached, told to others. Default: none.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.agent.endpoint = endpoint.into().into();
        self
    }

    /// The agent's own version, told to others. Default: none.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.agent.version = version.into().into();
        self
    }

    /// What the agent can do; discovery finds it by these. Default: nothing.
    #[must_use]
    pub fn capabilities<C: Into<String>>(
        mut self,
        capabilities: impl IntoIterator<Item = C>,
    ) -> Self {
        self.agent.capabilities = capabilities.into_iter().map(|c| c.into().into()).collect();
        self
    }

    /// Joins a group while registering, with these roles (none is fine). Default: no group.
    #[must_use]
    pub fn join<R: Into<String>>(
        mut self,
        group_id: impl Into<String>,
        roles: impl IntoIterator<Item = R>,
    ) -> Self {
        self.groups.push(Join::new(group_id, roles));
        self
    }

    /// Which messages Harbor answers. Default: [`Confirm::Each`]. With [`Confirm::Refusals`] there is
    /// no acceptance to wait for, so [`send`](super::Client::send) is not offered and
    /// [`post`](super::Client::post) is.
    #[must_use]
    pub fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = confirm;
        self
    }

    /// Trusts the certificate authorities in this PEM file too, for `wss://`. It is read when
    /// `connect` begins, and not again. Default: only those of the platform.
    #[must_use]
    pub fn trust_authorities(mut self, file: impl Into<PathBuf>) -> Self {
        self.trust.authorities = Some(file.into());
        self
    }

    /// Shows Harbor this certificate, with its private key, both from PEM files, for `wss://`. They
    /// are read when `connect` begins, and not again. Default: none.
    #[must_use]
    pub fn show_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.trust.shown = Some((certificate.into(), key.into()));
        self
    }

    /// What happens to a connection the agent already has. Default: [`Takeover::Replace`].
    #[must_use]
    pub fn takeover(mut self, takeover: Takeover) -> Self {
        self.takeover = takeover;
        self
    }

    /// How long one attempt may take from name look-up to registration. Default: 15 s.
    #[must_use]
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.connect_deadline = deadline;
        self
    }

    /// How long `connect` goes on trying when Harbor cannot be reached, with the same back-off as
    /// for reconnecting. Default: 0, one attempt.
    #[must_use]
    pub fn first_connection_within(mut self, period: Duration) -> Self {
        self.first_connection_within = period;
        self
    }

    /// How long a send waits for its acceptance, and a question to Harbor for its answer; the time
    /// without a connection counts. Default: 10 s.
    #[must_use]
    pub fn acceptance_deadline(mut self, deadline: Duration) -> Self {
        self.acceptance_deadline = deadline;
        self
    }

    /// How often to ping; a peer not heard of for two periods is given up. Default: what Harbor
    /// asks for in its challenge (25 s unless configured otherwise).
    #[must_use]
    pub fn heartbeat(mut self, period: Duration) -> Self {
        self.heartbeat = Some(period);
        self
    }

    /// The delays between attempts to reconnect: uniform between nothing and a ceiling that starts
    /// at `first` and doubles up to `cap`. Default: 200 ms and 30 s.
    #[must_use]
    pub fn backoff(mut self, first: Duration, cap: Duration) -> Self {
        self.backoff_first = first;
        self.backoff_cap = cap;
        self
    }

    /// How long a session must have lasted for the delays to start anew. Default: 10 s.
    #[must_use]
    pub fn stable_after(mut self, period: Duration) -> Self {
        self.stable_after = period;
        self
    }

    /// How much may wait in the inbox, in bytes of frames and of what holds them. When that much
    /// waits, the client stops reading its socket until some of it is taken; nothing is dropped.
    /// While it does not read, no acceptance or answer arrives either. Default: 16 MiB.
    #[must_use]
    pub fn inbox_bytes_max(mut self, bytes: usize) -> Self {
        self.inbox_bytes_max = bytes;
        self
    }

    /// Largest frame read, in bytes; a larger one breaks the connection. Default: 16 MiB.
    #[must_use]
    pub fn frame_bytes_max(mut self, bytes: usize) -> Self {
        self.frame_bytes_max = bytes;
        self
    }

    /// How many messages may wait to be written, for instance while there is no connection; a
    /// further one waits for room, until its deadline. Default: 256.
    #[must_use]
    pub fn queue_messages_max(mut self, messages: usize) -> Self {
        self.queue_messages_max = messages;
        self
    }

    /// How many written messages may be without acceptance; further ones wait. Default: 4,096.
    #[must_use]
    pub fn in_flight_max(mut self, messages: usize) -> Self {
        self.in_flight_max = messages;
        self
    }

    /// Signs everything that is sent, the registration included. The default is no signature.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(Arc::new(key));
        self
    }

    /// Shows Harbor a bearer token of this source when it connects, and a newer one in good time
    /// before that ends: when a quarter of it is left, at most 5 minutes. When it could not be renewed
    /// the client is closed ([`CloseReason::NotRenewed`](super::CloseReason::NotRenewed)). Who reads
    /// the network reads the token, so use `wss://`. Default: none.
    #[must_use]
    pub fn token(mut self, source: impl Into<TokenSource>) -> Self {
        self.token = Some(source.into());
        self
    }

    /// The frame of an envelope, signed if there is a key.
    pub(super) fn frame(&self, envelope: Envelope<'_>) -> Result<String, Refusal> {
        match &self.key {
            Some(key) => signature::signed(envelope, key),
            None => Ok(envelope.to_json()),
        }
    }

    /// The same for a control message, whose numbers and keys are our own.
    pub(super) fn control_frame(&self, envelope: &Envelope<'_>) -> String {
        self.frame(envelope.clone())
            .unwrap_or_else(|_never| envelope.to_json())
    }

    /// The same options with a usable URL and with its files read, or what is wrong.
    pub(super) fn checked(mut self) -> Result<Self, ConnectError> {
        let invalid = |problem: String| Error::because(ConnectErrorKind::InvalidOptions, problem);
        let (scheme, url) = usable_url(&self.url).map_err(invalid)?;
        self.url = url;
        match scheme {
            Scheme::Wss => self.trust = self.trust.loaded().map_err(invalid)?,
            Scheme::Ws if self.trust.is_given() => {
                return Err(invalid("certificates are for wss:// URLs".to_owned()));
            }
            Scheme::Ws => {}
        }
        if let Some(source) = &self.token {
            source.check().map_err(invalid)?;
        }
        if self.agent.agent_id.is_empty() {
            return Err(invalid("the agent id is empty".to_owned()));
        }
        for (field, text) in [
            ("agent_id", &self.agent.agent_id),
            ("system_id", &self.agent.system_id),
        ] {
            address::check(Kind::Name, field, text)
                .map_err(|refusal| invalid(refusal.reason.into_owned()))?;
        }
        for group in &self.groups {
            group
                .check("groups")
                .map_err(|refusal| invalid(refusal.reason.into_owned()))?;
        }
        let bounds = [
            ("inbox_bytes_max", self.inbox_bytes_max),
            ("frame_bytes_max", self.frame_bytes_max),
            ("queue_messages_max", self.queue_messages_max),
            ("in_flight_max", self.in_flight_max),
        ];
        match bounds.into_iter().find(|(_, bound)| *bound == 0) {
            Some((name, _)) => Err(invalid(format!("{name} is 0"))),
            None if self.heartbeat == Some(Duration::ZERO) => {
                Err(invalid("heartbeat is 0".to_owned()))
            }
            None => self.with_usable_key(),
        }
    }

    fn with_usable_key(self) -> Result<Self, ConnectError> {
        let invalid = |problem: String| Error::because(ConnectErrorKind::InvalidOptions, problem);
        match &self.key {
            Some(key) if !key.can_sign() => {
                Err(invalid(format!("key {:?} can only verify", key.kid)))
            }
            Some(key) if *key.agent_id != *self.agent.agent_id => Err(invalid(format!(
                "key {:?} is that of {:?}",
                key.kid, key.agent_id
            ))),
            _ => Ok(self),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Scheme {
    Ws,
    Wss,
}

fn usable_url(url: &str) -> Result<(Scheme, String), String> {
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("{url:?} is not a URL: {error}"))?;
    let (scheme, written) = match uri.scheme_str() {
        Some("ws") => (Scheme::Ws, "ws"),
        Some("wss") => (Scheme::Wss, "wss"),
        Some(_) | None => return Err(format!("{url:?} does not start with ws:// or wss://")),
    };
    let Some(authority) = uri.authority() else {
        return Err(format!("{url:?} names no host"));
    };
    let url = match uri.path_and_query().map(|path| path.as_str()) {
        None | Some("" | "/") => format!("{written}://{authority}/ws"),
        Some(_) => url.to_owned(),
    };
    Ok((scheme, url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_means_the_usual_one() {
        for (given, used) in [
            ("ws://h:7420", "ws://h:7420/ws"),
            ("ws://h:7420/", "ws://h:7420/ws"),
            ("wss://h", "wss://h/ws"),
            ("ws://[::1]:7420/bus?x=1", "ws://[::1]:7420/bus?x=1"),
        ] {
            assert_eq!(usable_url(given).unwrap().1, used);
        }
    }

    #[test]
    fn what_cannot_work_is_said_before_anything_is_tried() {
        let ok = "ws://h:1/ws";
        for options in [
            Options::new("http://h/ws", "a"),
            Options::new(ok, "a").trust_authorities("/no/such/file"),
            Options::new("wss://h/ws", "a").trust_authorities("/no/such/file"),
            Options::new("wss://h/ws", "a").show_certificate("/no/such/file", "/none"),
            Options::new("not a url", "a"),
            Options::new(ok, ""),
            Options::new(ok, "a\nb"),
            Options::new(ok, "a").join("", ["r"]),
            Options::new(ok, "a").inbox_bytes_max(0),
            Options::new(ok, "a").token("a b"),
            Options::new(ok, "a").heartbeat(Duration::ZERO),
        ] {
            let error = options.checked().unwrap_err();
            assert_eq!(error.kind(), ConnectErrorKind::InvalidOptions, "{error}");
        }
    }
}
