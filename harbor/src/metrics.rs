//! Every counter, gauge and histogram, as `GET /metrics` gives them (Prometheus text format).
//!
//! Told outward from every stage. One registry a node, so several nodes in one process never mix.
//! Hot-path figures are plain atomics; those with labels are touched only on refusals and closes.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry},
};
use synapse::refusal::{Close, Code};

/// The figures of one node.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Sockets open now, registered or not.
    pub(crate) connections: Gauge,
    /// Sockets open now whose agent has not registered.
    pub(crate) unregistered: Gauge,
    /// Agents registered now.
    pub(crate) agents: Gauge,
    /// Groups that have a member or a watcher now.
    pub(crate) groups: Gauge,
    /// Systems that have an agent or a watcher now.
    pub(crate) systems: Gauge,
    /// Sockets opened.
    pub(crate) connections_opened: Counter,
    /// Times the last place for a TCP connection was taken, and the next had to wait.
    pub(crate) accepts_paused: Counter,
    /// Times the operating system gave no TCP connection, mostly for want of file descriptors.
    pub(crate) accepts_failed: Counter,
    /// Connections replaced by a newer one of the same agent.
    pub(crate) takeovers: Counter,
    /// Data messages accepted.
    pub(crate) messages_accepted: Counter,
    /// Data messages accepted for which nobody was there.
    pub(crate) messages_unrouted: Counter,
    /// Messages whose id their sender had used lately.
    pub(crate) messages_duplicate: Counter,
    /// Sealed messages that were opened, to be sealed again.
    pub(crate) messages_opened: Counter,
    /// Copies not made, as their receiver has no key to seal with.
    pub(crate) deliveries_without_key: Counter,
    /// Copies written to a receiver's socket.
    pub(crate) deliveries_written: Counter,
    /// Copies that outlived their deadline in an outbox, and were not written.
    pub(crate) deliveries_expired: Counter,
    /// Copies dropped because their receiver was too slow or went away.
    pub(crate) deliveries_dropped: Counter,
    /// Bytes waiting in all outboxes now.
    pub(crate) outbox_bytes: Gauge,
    /// Recipients of a message.
    pub(crate) fanout: Histogram,
    /// Seconds from a message's receipt to its hand-over to a receiver's socket.
    pub(crate) delivery_seconds: Histogram,
    /// Connections that ended before TLS was spoken.
    pub(crate) tls_handshakes_failed: Counter,
    tls_reloads: Family<OutcomeLabel, Counter>,
    /// Seconds until the first agent is without a live key.
    pub(crate) keys_expire_seconds: Gauge<f64, AtomicU64>,
    keys_reloads: Family<OutcomeLabel, Counter>,
    refusals: Family<CodeLabel, Counter>,
    limited: Family<LimitLabel, Counter>,
    closes: Family<ReasonLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// A limit against abuse, as the metric names it: by its setting, or by what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Connections,
    ConnectionsPerAddress,
    Unregistered,
    RefusedRegistrations,
    RefusedFrames,
    MessagesPerSecond,
    BytesPerSecond,
}

impl Limit {
    const ALL: [Limit; 7] = [
        Limit::Connections,
        Limit::ConnectionsPerAddress,
        Limit::Unregistered,
        Limit::RefusedRegistrations,
        Limit::RefusedFrames,
        Limit::MessagesPerSecond,
        Limit::BytesPerSecond,
    ];

    /// Its label, and its name in a refusal.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Limit::Connections => "connections_max",
            Limit::ConnectionsPerAddress => "connections_per_address_max",
            Limit::Unregistered => "unregistered_max",
            Limit::RefusedRegistrations => "refused_registrations",
            Limit::RefusedFrames => "refused_frames",
            Limit::MessagesPerSecond => "messages_per_second",
            Limit::BytesPerSecond => "bytes_per_second",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

impl<T, E> From<&Result<T, E>> for OutcomeLabel {
    fn from(outcome: &Result<T, E>) -> Self {
        let outcome = if outcome.is_ok() { "ok" } else { "failed" };
        OutcomeLabel { outcome }
    }
}

/// Counters by label; every label is there from the start, at 0.
fn labelled<L>(labels: impl IntoIterator<Item = L>) -> Family<L, Counter>
where
    L: Clone + std::hash::Hash + Eq,
{
    let family = Family::default();
    for label in labels {
        drop(family.get_or_create(&label));
    }
    family
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut of = Registrar(Registry::with_prefix("harbor"));
        let fanout = [0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];
        let refusals = labelled(Code::ALL.map(|code| CodeLabel {
            code: code.row().wire,
        }));
        let limited = labelled(Limit::ALL.map(|limit| LimitLabel {
            limit: limit.label(),
        }));
        let closes = labelled(Close::ALL.map(|close| ReasonLabel {
            reason: close.label(),
        }));
        let seconds = exponential_buckets(0.000_01, 4.0, 11);
        Metrics {
            connections: of.gauge("connections", "Sockets open now"),
            unregistered: of.gauge("unregistered", "Sockets open now that have not registered"),
            agents: of.gauge("agents", "Agents registered now"),
            groups: of.gauge("groups", "Groups with a member or a watcher now"),
            systems: of.gauge("systems", "Systems with an agent or a watcher now"),
            outbox_bytes: of.gauge("outbox_bytes", "Bytes waiting in all outboxes now"),
            connections_opened: of.counter("connections_opened", "Sockets opened"),
            accepts_paused: of.counter("accepts_paused", "Times no TCP connection was accepted"),
            accepts_failed: of.counter("accepts_failed", "TCP connections that failed to come"),
            takeovers: of.counter("takeovers", "Connections replaced by a newer one"),
            messages_accepted: of.counter("messages_accepted", "Messages accepted"),
            messages_unrouted: of.counter("messages_unrouted", "Messages accepted for nobody"),
            messages_duplicate: of.counter(
                "messages_duplicate",
                "Messages sent again, and not delivered again",
            ),
            messages_opened: of.counter("messages_opened", "Sealed messages opened"),
            deliveries_without_key: of.counter(
                "deliveries_without_key",
                "Copies not made for want of a key to seal with",
            ),
            deliveries_written: of.counter("deliveries_written", "Copies written to a socket"),
            deliveries_expired: of.counter("deliveries_expired", "Copies that expired unwritten"),
            deliveries_dropped: of.counter(
                "deliveries_dropped",
                "Copies dropped with a slow or vanished receiver",
            ),
            fanout: of.add(
                "fanout_recipients",
                "Recipients of a message",
                Histogram::new(fanout),
            ),
            delivery_seconds: of.add(
                "delivery_seconds",
                "Seconds from receipt to hand-over to the receiver's socket",
                Histogram::new(seconds),
            ),
            tls_handshakes_failed: of.counter(
                "tls_handshakes_failed",
                "Connections that ended before TLS was spoken",
            ),
            tls_reloads: of.outcomes("tls_reloads", "Times the TLS files had changed, by outcome"),
            keys_expire_seconds: of.countdown(
                "keys_expire_seconds",
                "Seconds until the first agent is without a live key",
            ),
            keys_reloads: of.outcomes("keys_reloads", "Times the keyring had changed, by outcome"),
            refusals: of.add("refusals", "Frames and requests refused, by code", refusals),
            limited: of.add(
                "limited",
                "Times a limit against abuse held, by limit",
                limited,
            ),
            closes: of.add("connections_closed", "Sockets closed, by reason", closes),
            registry: of.0,
        }
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, code: Code) {
        self.refusals
            .get_or_create(&CodeLabel {
                code: code.row().wire,
            })
            .inc();
    }

    /// Counts that a limit held.
    pub(crate) fn limited(&self, limit: Limit) {
        self.limited
            .get_or_create(&LimitLabel {
                limit: limit.label(),
            })
            .inc();
    }

    /// Counts a closed connection.
    pub(crate) fn closed(&self, close: Close) {
        self.closes
            .get_or_create(&ReasonLabel {
                reason: close.label(),
            })
            .inc();
    }

    /// Counts a look at TLS files that had changed.
    pub(crate) fn tls_reloaded(&self, outcome: &Result<(), String>) {
        self.tls_reloads.get_or_create(&outcome.into()).inc();
    }

    /// Counts a look at a keyring that had changed.
    pub(crate) fn keys_reloaded(&self, outcome: &Result<(), String>) {
        self.keys_reloads.get_or_create(&outcome.into()).inc();
    }

    /// The text a scrape gets.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Registers each figure as it is made.
struct Registrar(Registry);

impl Registrar {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.add(name, help, Gauge::default())
    }

    fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.add(name, help, Counter::default())
    }

    /// Of things that work or do not.
    fn outcomes(&mut self, name: &str, help: &str) -> Family<OutcomeLabel, Counter> {
        let outcomes = labelled(["ok", "failed"].map(|outcome| OutcomeLabel { outcome }));
        self.add(name, help, outcomes)
    }

    /// Endless until it is set, so that no alarm goes off before somebody has looked.
    fn countdown(&mut self, name: &str, help: &str) -> Gauge<f64, AtomicU64> {
        let gauge = Gauge::default();
        gauge.set(f64::INFINITY);
        self.add(name, help, gauge)
    }
}
