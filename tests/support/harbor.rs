//! A Harbor of one test, in this process, on a free port, with nothing else in it.

use harbor::Settings;

/// A file of permissions that allows everything.
pub const EVERYTHING_PERMITTED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/harbor/src/permissions/start.toml"
);

/// A running Harbor.
#[derive(Debug)]
pub struct Harbor {
    running: harbor::Harbor,
}

impl Harbor {
    /// With the default settings, on a free port.
    pub async fn start() -> Harbor {
        Harbor::with(Settings::default()).await
    }

    /// With these settings, on a free port. Everything is permitted unless they say otherwise.
    pub async fn with(settings: Settings) -> Harbor {
        let free = Settings {
            listen: Some(([127, 0, 0, 1], 0).into()),
            permissions: Some(EVERYTHING_PERMITTED.into()),
            // Nothing of whoever runs the tests.
            data: Some(super::NO_DATA.into()),
            ..Settings::default()
        };
        let config = settings.or(free).into_config().unwrap();
        Harbor {
            running: harbor::Harbor::start(config).await.unwrap(),
        }
    }

    /// The text of `GET /metrics`.
    pub fn metrics(&self) -> String {
        self.running.metrics()
    }

    /// Where agents connect.
    pub fn url(&self) -> String {
        self.running.url()
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> std::net::SocketAddr {
        self.running.addr()
    }

    /// The sum of a metric's values over its labels; a name it does not know is a mistake.
    pub fn metric(&self, name: &str) -> f64 {
        self.metric_with(name, "")
    }

    /// The same, of the lines that hold `label`, such as `code="expired"`.
    pub fn metric_with(&self, name: &str, label: &str) -> f64 {
        let text = self.metrics();
        let family = name.trim_end_matches("_total");
        assert!(
            text.contains(&format!("# TYPE {family} ")),
            "no metric {name} in:\n{text}"
        );
        text.lines()
            .filter(|line| line.split(['{', ' ']).next() == Some(name) && line.contains(label))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    /// Waits until no agent, group, system, connection or queued byte is left.
    pub async fn is_empty(&self) {
        for name in ["connections", "agents", "groups", "systems", "outbox_bytes"] {
            let name = format!("harbor_{name}");
            super::eventually(&format!("{name} is 0"), || self.metric(&name) == 0.0).await;
        }
    }

    /// Waits until no agent is left.
    pub async fn is_left_by_all_agents(&self) {
        super::eventually("nobody is left", || self.metric("harbor_agents") == 0.0).await;
    }

    /// Stops it; whether every connection ended in time.
    pub async fn drain(self) -> bool {
        self.running.drain().await
    }
}
