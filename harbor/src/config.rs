//! What was written (flags, environment, file) and what is meant by it.
//!
//! Read once, before anything is bound. A flag goes over its variable, that over the file, that
//! over the default. Every problem is reported, not only the first.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use synapse::{control::in_plain_words, limits::FRAME_BYTES_MAX_DEFAULT};

use crate::{clock::TimeToLive, limits, tls::Tls};

/// Most connections that can be asked for: far more than a machine has ports and memory for.
const CONNECTIONS_MAX: usize = 10_000_000;

/// What was written: one optional value a setting. Each is a flag, an environment variable
/// (`HARBOR_` and the name in capitals) and a key of the TOML file.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Deserialize)]
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
    /// Most groups one agent may be in, and most watches it may have.
    pub groups_per_agent_max: usize,
    /// How long a stopping node may take to flush and close.
    pub drain: Duration,
    /// What is logged.
    pub log_level: tracing::Level,
}

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
        toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            let what = error.message().replace('\n', " ");
            format!("line {line}: {}", in_plain_words(&what))
        })
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
            groups_per_agent_max: self.groups_per_agent_max.or(lower.groups_per_agent_max),
            drain_seconds: self.drain_seconds.or(lower.drain_seconds),
            log_level: self.log_level.or(lower.log_level),
        }
    }

    /// What is meant.
    ///
    /// # Errors
    ///
    /// Every problem, one line each.
    pub fn into_config(self) -> Result<Config, Vec<String>> {
        let ttl_max_seconds = self.ttl_max_seconds.unwrap_or(30 * 86_400);
        let ttl_default_seconds = self.ttl_default_seconds;
        let config = Config {
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
            connections_max: self.connections_max.unwrap_or(100_000),
            groups_per_agent_max: self.groups_per_agent_max.unwrap_or(1_000),
            drain: Duration::from_secs(self.drain_seconds.unwrap_or(10)),
            log_level: tracing::Level::INFO,
        };
        let tls = Tls::configured(self.tls_certificate, self.tls_key, self.tls_client_ca);
        config.checked(tls, self.log_level.as_deref())
    }
}

impl Config {
    /// Takes TLS, and checks that it fits the address: beyond loopback, agents prove who they are.
    fn take_tls(&mut self, tls: Result<Option<Arc<Tls>>, String>) -> Result<(), String> {
        self.tls = tls?;
        let proves_clients = self.tls.as_ref().is_some_and(|tls| tls.proves_clients());
        if self.listen.ip().is_loopback() || proves_clients {
            return Ok(());
        }
        let problem = "listen: while authentication is open, only a loopback address such as \
                       127.0.0.1 is allowed; tls_client_ca makes agents prove who they are";
        Err(problem.to_owned())
    }

    fn checked(
        mut self,
        tls: Result<Option<Arc<Tls>>, String>,
        log_level: Option<&str>,
    ) -> Result<Config, Vec<String>> {
        let mut problems = Vec::new();
        problems.extend(self.take_tls(tls).err());
        match log_level.map(str::parse) {
            None => {}
            Some(Ok(level)) => self.log_level = level,
            Some(Err(_)) => {
                problems.push("log_level is error, warn, info, debug or trace".to_owned())
            }
        }
        let mut require = |holds: bool, problem: &str| {
            if !holds {
                problems.push(problem.to_owned());
            }
        };
        let day = Duration::from_secs(86_400);
        let frame_bytes_min = limits::READ_BUFFER_BYTES;
        require(
            synapse::control::require_name("node", &self.node).is_ok(),
            "node is a name of 1 to 256 bytes without control characters",
        );
        require(
            (frame_bytes_min..=1 << 30).contains(&self.max_frame_bytes),
            "max_frame_bytes is from 8192 (8 KiB) to 1073741824 (1 GiB)",
        );
        require(
            self.outbox_bytes >= self.max_frame_bytes.saturating_mul(2),
            "outbox_bytes is at least twice max_frame_bytes, so that one message never fills it",
        );
        for origin in &self.allowed_origins {
            let problem = format!(
                "allowed_origins: {origin:?} is not * or scheme://host[:port], without a path or spaces"
            );
            require(is_origin(origin), &problem);
        }
        let ttl = &self.time_to_live;
        // Without a longest one there is no range to speak of; that is said below.
        require(
            ttl.max.is_zero() || (!ttl.default.is_zero() && ttl.default <= ttl.max),
            &format!(
                "ttl_default_seconds is from 1 to {}, which is ttl_max_seconds",
                ttl.max.as_secs()
            ),
        );
        for (name, value, max) in [
            ("heartbeat_seconds", self.heartbeat, day),
            ("connect_deadline_seconds", self.connect_deadline, day),
            ("ttl_max_seconds", ttl.max, 3_660 * day),
            ("drain_seconds", self.drain, day),
        ] {
            let problem = format!("{name} is from 1 to {}", max.as_secs());
            require(!value.is_zero() && value <= max, &problem);
        }
        require(
            (1..=CONNECTIONS_MAX).contains(&self.connections_max),
            &format!("connections_max is from 1 to {CONNECTIONS_MAX}"),
        );
        require(
            self.groups_per_agent_max > 0,
            "groups_per_agent_max is at least 1",
        );
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(problems)
        }
    }
}

/// Whether a browser could send this as its `Origin` (RFC 6454 section 6.2; `null` is that of a page
/// without one), or it stands for any.
fn is_origin(text: &str) -> bool {
    if matches!(text, "*" | "null") {
        return true;
    }
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each));
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    };
    let is_address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name = !host.is_empty()
        && host
            .chars()
            .all(|each| each.is_alphanumeric() || "-._~%".contains(each));
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    is_scheme && (is_address || is_name) && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        for origin in [
            "*",
            "null",
            "https://app.example",
            "http://127.0.0.1:7420",
            "http://[::1]",
            "http://[::1]:80",
            "chrome-extension://abcdefgh",
        ] {
            assert!(is_origin(origin), "{origin}");
        }
        for no_origin in [
            "",
            "a b",
            "app.example",
            "https://",
            "https://app.example/",
            "https://a/b",
            "https://a b",
            "https://a:port",
            "https://a:99999",
            "https://:80",
            "://a",
            "https://[::1",
            "https://u@a",
            "**",
            "https://a?b",
        ] {
            assert!(!is_origin(no_origin), "{no_origin}");
        }
    }

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
            16,
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
