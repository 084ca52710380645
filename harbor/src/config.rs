//! What was written (flags, environment, file) and what is meant by it.
//!
//! Read once, before anything is bound. A flag goes over its variable, that over the file, that
//! over the default. Every problem is reported, not only the first.

mod check;
mod files;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, de::DeserializeOwned};
use synapse::{
    control::{Auth, in_plain_words},
    limits::FRAME_BYTES_MAX_DEFAULT,
};

use check::{CONNECTIONS_MAX, Words};
use files::Files;

use crate::{
    clock::TimeToLive,
    keys::{Place, Reading},
    permissions::Permissions,
    tls::Tls,
    tokens::Tokens,
};

/// What was written: one optional value a setting. Each is a flag, an environment variable
/// (`HARBOR_` and the name in capitals) and a key of the TOML file.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
#[command(next_help_heading = "Settings")]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7420]
    #[arg(long, env = "HARBOR_LISTEN", value_name = "ADDR", global = true)]
    pub listen: Option<SocketAddr>,
    /// TLS: PEM file of the certificate and those between it and its authority [default: no TLS]
    #[arg(
        long,
        env = "HARBOR_TLS_CERTIFICATE",
        value_name = "FILE",
        global = true
    )]
    pub tls_certificate: Option<PathBuf>,
    /// TLS: PEM file of the certificate's private key [default: no TLS]
    #[arg(long, env = "HARBOR_TLS_KEY", value_name = "FILE", global = true)]
    pub tls_key: Option<PathBuf>,
    /// TLS: PEM file of the authorities of which clients must show a certificate [default: none]
    #[arg(long, env = "HARBOR_TLS_CLIENT_CA", value_name = "FILE", global = true)]
    pub tls_client_ca: Option<PathBuf>,
    /// Name of this node [default: harbor]
    #[arg(long, env = "HARBOR_NODE", value_name = "NAME", global = true)]
    pub node: Option<String>,
    /// Browser origins that may connect, such as `https://app.example`; `*` for any [default: none]
    #[arg(
        long,
        env = "HARBOR_ALLOWED_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ',',
        global = true
    )]
    pub allowed_origins: Option<Vec<String>>,
    /// Largest frame, in bytes [default: 1048576]
    #[arg(
        long,
        env = "HARBOR_MAX_FRAME_BYTES",
        value_name = "BYTES",
        global = true
    )]
    pub max_frame_bytes: Option<usize>,
    /// Most bytes waiting for one agent; more closes it as too slow [default: 8388608]
    #[arg(long, env = "HARBOR_OUTBOX_BYTES", value_name = "BYTES", global = true)]
    pub outbox_bytes: Option<usize>,
    /// How often agents are pinged, in seconds; a silent one is closed after two [default: 25]
    #[arg(
        long,
        env = "HARBOR_HEARTBEAT_SECONDS",
        value_name = "SECONDS",
        global = true
    )]
    pub heartbeat_seconds: Option<u64>,
    /// How long a connection may take to register, in seconds [default: 15]
    #[arg(
        long,
        env = "HARBOR_CONNECT_DEADLINE_SECONDS",
        value_name = "SECONDS",
        global = true
    )]
    pub connect_deadline_seconds: Option<u64>,
    /// TTL of messages that name none, in seconds [default: 86400, at most ttl_max_seconds]
    #[arg(
        long,
        env = "HARBOR_TTL_DEFAULT_SECONDS",
        value_name = "SECONDS",
        global = true
    )]
    pub ttl_default_seconds: Option<u64>,
    /// Longest TTL, in seconds; a longer one is clamped [default: 2592000]
    #[arg(
        long,
        env = "HARBOR_TTL_MAX_SECONDS",
        value_name = "SECONDS",
        global = true
    )]
    pub ttl_max_seconds: Option<u64>,
    /// Most connections at once [default: 100000]
    #[arg(
        long,
        env = "HARBOR_CONNECTIONS_MAX",
        value_name = "COUNT",
        global = true
    )]
    pub connections_max: Option<usize>,
    /// Most connections from one address, an IPv6 one by its /64 [default: connections_max]
    #[arg(
        long,
        env = "HARBOR_CONNECTIONS_PER_ADDRESS_MAX",
        value_name = "COUNT",
        global = true
    )]
    pub connections_per_address_max: Option<usize>,
    /// Most connections that have not registered, at once [default: 10000]
    #[arg(
        long,
        env = "HARBOR_UNREGISTERED_MAX",
        value_name = "COUNT",
        global = true
    )]
    pub unregistered_max: Option<usize>,
    /// Messages one agent may send a second, and at once; 0 for any number [default: 0]
    #[arg(
        long,
        env = "HARBOR_MESSAGES_PER_SECOND",
        value_name = "COUNT",
        global = true
    )]
    pub messages_per_second: Option<u32>,
    /// Bytes of messages one agent may send a second; 0 for any number [default: 0]
    #[arg(
        long,
        env = "HARBOR_BYTES_PER_SECOND",
        value_name = "BYTES",
        global = true
    )]
    pub bytes_per_second: Option<u32>,
    /// Most groups one agent may be in, and most watches it may have [default: 1000]
    #[arg(
        long,
        env = "HARBOR_GROUPS_PER_AGENT_MAX",
        value_name = "COUNT",
        global = true
    )]
    pub groups_per_agent_max: Option<usize>,
    /// How long a stopping node may take to flush and close, in seconds [default: 10]
    #[arg(
        long,
        env = "HARBOR_DRAIN_SECONDS",
        value_name = "SECONDS",
        global = true
    )]
    pub drain_seconds: Option<u64>,
    /// Folder of what Harbor keeps; made when there is something to keep [default: ./harbor-data]
    #[arg(long, env = "HARBOR_DATA", value_name = "DIR", global = true)]
    pub data: Option<PathBuf>,
    /// JSON Web Key Set with the agents' keys, mode 600, read again when it changes
    /// [default: keys.json in the data folder, if it is there]
    #[arg(long, env = "HARBOR_KEYS", value_name = "FILE", global = true)]
    pub keys: Option<PathBuf>,
    /// JSON Web Key Set of those who issue bearer tokens, read again when it changes [default: none]
    #[arg(long, env = "HARBOR_TOKENS", value_name = "FILE", global = true)]
    pub tokens: Option<PathBuf>,
    /// Audience that tokens must be for [default: synapse-harbor]
    #[arg(
        long,
        env = "HARBOR_TOKEN_AUDIENCE",
        value_name = "AUDIENCE",
        global = true
    )]
    pub token_audience: Option<String>,
    /// Issuer that tokens must be from [default: any whose key is in the file]
    #[arg(
        long,
        env = "HARBOR_TOKEN_ISSUER",
        value_name = "ISSUER",
        global = true
    )]
    pub token_issuer: Option<String>,
    /// Who may register: `open` is anybody, `required` whoever signs with a key of the agent, or
    /// bears a token [default: open]
    #[arg(long, env = "HARBOR_AUTH", value_name = "POLICY", global = true)]
    pub auth: Option<String>,
    /// TOML file of what each agent may do, read again when it changes [default: everything, while
    /// authentication is open]
    #[arg(long, env = "HARBOR_PERMISSIONS", value_name = "FILE", global = true)]
    pub permissions: Option<PathBuf>,
    /// Signatures of messages: off, verify_if_present or required [default: verify_if_present while
    /// authentication is open, else required]
    #[arg(long, env = "HARBOR_SIGNATURES", value_name = "POLICY", global = true)]
    pub signatures: Option<String>,
    /// What a receiver without a sealing key gets of a message that Harbor opened: `refuse` is
    /// nothing, `clear` the payload in the clear [default: refuse]
    #[arg(
        long,
        env = "HARBOR_SEALED_WITHOUT_KEY",
        value_name = "POLICY",
        global = true
    )]
    pub sealed_without_key: Option<String>,
    /// How far the timestamp of a signed message may be from this machine's clock, in seconds
    /// [default: 300]
    #[arg(
        long,
        env = "HARBOR_CLOCK_WINDOW_SECONDS",
        value_name = "SECONDS",
        global = true
    )]
    pub clock_window_seconds: Option<u64>,
    /// What is logged to standard error: error, warn, info, debug or trace [default: info]
    #[arg(long, env = "HARBOR_LOG_LEVEL", value_name = "LEVEL", global = true)]
    pub log_level: Option<String>,
}

/// What is meant: every value given, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// TLS, if it is spoken.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Name of this node.
    pub node: String,
    /// Browser origins that may connect.
    pub allowed_origins: Vec<String>,
    /// Largest frame, in bytes.
    pub max_frame_bytes: usize,
    /// Most bytes waiting for one agent.
    pub outbox_bytes: usize,
    /// How often agents are pinged.
    pub heartbeat: Duration,
    /// How long a connection may take to register.
    pub connect_deadline: Duration,
    /// How long messages live.
    pub(crate) time_to_live: TimeToLive,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most connections from one address.
    pub connections_per_address_max: usize,
    /// Most connections that have not registered, at once.
    pub unregistered_max: usize,
    /// Messages one agent may send a second, and at once; 0 for any number.
    pub messages_per_second: u32,
    /// Bytes of messages one agent may send a second, and at once, where that is no less than
    /// `max_frame_bytes`; 0 for any number.
    pub bytes_per_second: u32,
    /// Most groups one agent may be in, and most watches it may have.
    pub groups_per_agent_max: usize,
    /// How long a stopping node may take to flush and close.
    pub drain: Duration,
    /// Where the agents' keys are.
    pub(crate) keys: Place,
    /// The keys that were there.
    pub(crate) keyring: Reading,
    /// Bearer tokens, if they are taken.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// Who may register.
    pub(crate) auth: Auth,
    /// What each agent may do.
    pub(crate) permissions: Arc<Permissions>,
    /// What signatures of messages mean.
    pub(crate) signatures: Signatures,
    /// What a receiver without a sealing key gets.
    pub(crate) sealed_without_key: SealedWithoutKey,
    /// How far the timestamp of a signed message may be from the clock.
    pub clock_window: Duration,
    /// What is logged.
    pub log_level: tracing::Level,
}

/// The data folder unless another is named.
const DATA: &str = "./harbor-data";

/// The commented default file, as `harbor config print` gives it.
pub const DEFAULT_FILE: &str = include_str!("config/default.toml");

impl Settings {
    /// Reads a TOML file.
    ///
    /// # Errors
    ///
    /// One line that says what is wrong and where: the file can't be read, is no TOML, has an
    /// unknown key or a value of the wrong type.
    pub fn from_file(path: &Path) -> Result<Settings, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Settings::from_toml(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads the text of a TOML file.
    ///
    /// # Errors
    ///
    /// As [`Settings::from_file`].
    pub fn from_toml(text: &str) -> Result<Settings, String> {
        read_toml(text)
    }

    /// These settings, with those of `lower` where nothing was given here.
    #[must_use]
    pub fn or(self, lower: Settings) -> Settings {
        Settings {
            listen: self.listen.or(lower.listen),
            tls_certificate: self.tls_certificate.or(lower.tls_certificate),
            tls_key: self.tls_key.or(lower.tls_key),
            tls_client_ca: self.tls_client_ca.or(lower.tls_client_ca),
            node: self.node.or(lower.node),
            allowed_origins: self.allowed_origins.or(lower.allowed_origins),
            max_frame_bytes: self.max_frame_bytes.or(lower.max_frame_bytes),
            outbox_bytes: self.outbox_bytes.or(lower.outbox_bytes),
            heartbeat_seconds: self.heartbeat_seconds.or(lower.heartbeat_seconds),
            connect_deadline_seconds: self
                .connect_deadline_seconds
                .or(lower.connect_deadline_seconds),
            ttl_default_seconds: self.ttl_default_seconds.or(lower.ttl_default_seconds),
            ttl_max_seconds: self.ttl_max_seconds.or(lower.ttl_max_seconds),
            connections_max: self.connections_max.or(lower.connections_max),
            connections_per_address_max: self
                .connections_per_address_max
                .or(lower.connections_per_address_max),
            unregistered_max: self.unregistered_max.or(lower.unregistered_max),
            messages_per_second: self.messages_per_second.or(lower.messages_per_second),
            bytes_per_second: self.bytes_per_second.or(lower.bytes_per_second),
            groups_per_agent_max: self.groups_per_agent_max.or(lower.groups_per_agent_max),
            drain_seconds: self.drain_seconds.or(lower.drain_seconds),
            data: self.data.or(lower.data),
            keys: self.keys.or(lower.keys),
            tokens: self.tokens.or(lower.tokens),
            token_audience: self.token_audience.or(lower.token_audience),
            token_issuer: self.token_issuer.or(lower.token_issuer),
            auth: self.auth.or(lower.auth),
            permissions: self.permissions.or(lower.permissions),
            signatures: self.signatures.or(lower.signatures),
            sealed_without_key: self.sealed_without_key.or(lower.sealed_without_key),
            clock_window_seconds: self.clock_window_seconds.or(lower.clock_window_seconds),
            log_level: self.log_level.or(lower.log_level),
        }
    }

    /// Where the keyring is.
    pub fn keyring(&self) -> Place {
        Place::of(self.keys.clone(), self.data_folder())
    }

    fn data_folder(&self) -> &Path {
        let named = self.data.as_deref();
        let named = named.filter(|path| !path.as_os_str().is_empty());
        named.unwrap_or(Path::new(DATA))
    }

    /// What is meant.
    ///
    /// # Errors
    ///
    /// Every problem, one line each.
    pub fn into_config(self) -> Result<Config, Vec<String>> {
        let ttl_max_seconds = self.ttl_max_seconds.unwrap_or(30 * 86_400);
        let ttl_default_seconds = self.ttl_default_seconds;
        let connections_max = self.connections_max.unwrap_or(100_000);
        let data = self.data_folder().to_owned();
        let config = Config {
            keys: self.keyring(),
            keyring: Reading::default(),
            listen: self
                .listen
                .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 7420))),
            tls: None,
            node: self.node.unwrap_or_else(|| "harbor".to_owned()),
            allowed_origins: self.allowed_origins.unwrap_or_default(),
            max_frame_bytes: self.max_frame_bytes.unwrap_or(FRAME_BYTES_MAX_DEFAULT),
            outbox_bytes: self.outbox_bytes.unwrap_or(8 << 20),
            heartbeat: Duration::from_secs(self.heartbeat_seconds.unwrap_or(25)),
            connect_deadline: Duration::from_secs(self.connect_deadline_seconds.unwrap_or(15)),
            time_to_live: TimeToLive {
                default: Duration::from_secs(
                    ttl_default_seconds.unwrap_or(ttl_max_seconds.min(86_400)),
                ),
                max: Duration::from_secs(ttl_max_seconds),
            },
            connections_max,
            connections_per_address_max: self
                .connections_per_address_max
                // Not to be reported beside what it comes from.
                .unwrap_or(connections_max.clamp(1, CONNECTIONS_MAX)),
            unregistered_max: self.unregistered_max.unwrap_or(10_000),
            messages_per_second: self.messages_per_second.unwrap_or(0),
            bytes_per_second: self.bytes_per_second.unwrap_or(0),
            groups_per_agent_max: self.groups_per_agent_max.unwrap_or(1_000),
            drain: Duration::from_secs(self.drain_seconds.unwrap_or(10)),
            tokens: None,
            auth: Auth::Open,
            permissions: Arc::default(),
            signatures: Signatures::Off,
            sealed_without_key: SealedWithoutKey::Refuse,
            clock_window: Duration::from_secs(self.clock_window_seconds.unwrap_or(300)),
            log_level: tracing::Level::INFO,
        };
        let words = Words {
            log_level: self.log_level,
            auth: self.auth,
            signatures: self.signatures,
            sealed_without_key: self.sealed_without_key,
        };
        let files = Files {
            tls: Tls::configured(self.tls_certificate, self.tls_key, self.tls_client_ca),
            tokens: Tokens::configured(self.tokens, self.token_audience, self.token_issuer),
            permissions: self.permissions,
            data,
        };
        config.checked(&words, files)
    }
}

/// Reads TOML; what is wrong is one line that says where.
pub(crate) fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        let what = error.message().replace('\n', " ");
        format!("line {line}: {}", in_plain_words(&what))
    })
}

/// What signatures of messages mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signatures {
    /// Nothing: they are forwarded.
    Off,
    /// What is signed must be signed rightly.
    VerifyIfPresent,
    /// Every message must be signed.
    Required,
}

/// What a receiver without a sealing key gets of a message that Harbor opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealedWithoutKey {
    /// Nothing.
    Refuse,
    /// The payload in the clear.
    Clear,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_file_says_the_defaults() {
        let printed = Settings::from_toml(DEFAULT_FILE).unwrap();
        assert_eq!(printed, Settings::default(), "every key is commented out");
        let uncommented: String = DEFAULT_FILE
            .lines()
            .filter_map(|line| line.strip_prefix("#"))
            .filter(|line| !line.starts_with(' ') && line.contains(" = "))
            .map(|line| format!("{line}\n"))
            .collect();
        let read = Settings::from_toml(&uncommented)
            .unwrap()
            .into_config()
            .unwrap();
        let default = Settings::default().into_config().unwrap();
        assert_eq!(format!("{read:?}"), format!("{default:?}"));
        assert_eq!(
            uncommented.lines().count(),
            30,
            "every setting is in the file"
        );
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_named_with_their_line() {
        let unknown = Settings::from_toml("node = \"n\"\nlissten = \"127.0.0.1:1\"\n").unwrap_err();
        assert!(
            unknown.contains("line 2") && unknown.contains("lissten"),
            "{unknown}"
        );
        let wrong = Settings::from_toml("outbox_bytes = \"many\"").unwrap_err();
        assert!(wrong.contains("line 1"), "{wrong}");
        assert!(!wrong.contains('\n'), "{wrong}");
    }

    #[test]
    fn every_problem_is_reported() {
        let toml = "listen = \"0.0.0.0:7420\"\nmax_frame_bytes = 1\nheartbeat_seconds = 0\nlog_level = \"loud\"";
        let problems = Settings::from_toml(toml)
            .unwrap()
            .into_config()
            .unwrap_err();
        for start in [
            "listen",
            "max_frame_bytes",
            "heartbeat_seconds",
            "log_level",
        ] {
            assert!(
                problems.iter().any(|problem| problem.starts_with(start)),
                "{start}"
            );
        }
    }
}
