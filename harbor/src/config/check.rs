//! Whether the settings can be meant together: every bound and every word, each problem in a line.
//!
//! The last step of configuring; nothing is bound before it passes.

use std::time::Duration;

use synapse::control::Auth;

use super::{Config, SealedWithoutKey, Signatures, files::Files};
use crate::limits;

/// Most connections that can be asked for: far more than a machine has ports and memory for.
pub(super) const CONNECTIONS_MAX: usize = 10_000_000;

/// Highest rate that can be asked for: one of each a nanosecond, the grain of the clock.
const PER_SECOND_MAX: u32 = 1_000_000_000;

impl Config {
    pub(super) fn checked(mut self, words: &Words, files: Files) -> Result<Config, Vec<String>> {
        let mut problems = words.read_into(&mut self);
        problems.extend(files.read_into(&mut self));
        let mut require = |holds: bool, problem: &str| {
            if !holds {
                problems.push(problem.to_owned());
            }
        };
        let day = Duration::from_secs(86_400);
        let frame_bytes_min = limits::READ_BUFFER_BYTES;
        let proves_clients = self.tls.as_ref().is_some_and(|tls| tls.proves_clients());
        require(
            self.listen.ip().is_loopback() || self.auth == Auth::Required || proves_clients,
            "listen: while authentication is open, only a loopback address such as 127.0.0.1 is \
             allowed; auth = required or tls_client_ca makes agents prove who they are",
        );
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
            ("clock_window_seconds", self.clock_window, day),
            ("connect_deadline_seconds", self.connect_deadline, day),
            ("ttl_max_seconds", ttl.max, 3_660 * day),
            ("drain_seconds", self.drain, day),
        ] {
            let problem = format!("{name} is from 1 to {}", max.as_secs());
            require(!value.is_zero() && value <= max, &problem);
        }
        self.check_counts(&mut require);
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(problems)
        }
    }

    fn check_counts(&self, require: &mut impl FnMut(bool, &str)) {
        for (name, count) in [
            ("connections_max", self.connections_max),
            (
                "connections_per_address_max",
                self.connections_per_address_max,
            ),
            ("unregistered_max", self.unregistered_max),
        ] {
            require(
                (1..=CONNECTIONS_MAX).contains(&count),
                &format!("{name} is from 1 to {CONNECTIONS_MAX}"),
            );
        }
        for (name, rate) in [
            ("messages_per_second", self.messages_per_second),
            ("bytes_per_second", self.bytes_per_second),
        ] {
            require(
                rate <= PER_SECOND_MAX,
                &format!("{name} is from 1 to {PER_SECOND_MAX}, or 0 for any number"),
            );
        }
        require(
            self.groups_per_agent_max > 0,
            "groups_per_agent_max is at least 1",
        );
    }
}

/// The values that are words.
pub(super) struct Words {
    pub(super) log_level: Option<String>,
    pub(super) auth: Option<String>,
    pub(super) signatures: Option<String>,
    pub(super) sealed_without_key: Option<String>,
}

impl Words {
    /// Reads them; the problems.
    fn read_into(&self, config: &mut Config) -> Vec<String> {
        let mut problems = Vec::new();
        match self.log_level.as_deref().map(str::parse) {
            None => {}
            Some(Ok(level)) => config.log_level = level,
            Some(Err(_)) => {
                problems.push("log_level is error, warn, info, debug or trace".to_owned());
            }
        }
        match self.auth.as_deref() {
            None | Some("open") => {}
            Some("required") => config.auth = Auth::Required,
            Some(_) => problems.push("auth is open or required".to_owned()),
        }
        config.signatures = match (self.signatures.as_deref(), config.auth) {
            (Some("off"), _) => Signatures::Off,
            (Some("required"), _) | (None, Auth::Required) => Signatures::Required,
            (Some("verify_if_present") | None, _) => Signatures::VerifyIfPresent,
            (Some(_), _) => {
                problems.push("signatures is off, verify_if_present or required".to_owned());
                Signatures::Required
            }
        };
        match self.sealed_without_key.as_deref() {
            None | Some("refuse") => {}
            Some("clear") => config.sealed_without_key = SealedWithoutKey::Clear,
            Some(_) => problems.push("sealed_without_key is refuse or clear".to_owned()),
        }
        problems
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
}
