//! The parts of one node, built in the order they depend on each other.
//!
//! Consulted by every stage of a frame's way.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use synapse::{Code, Refusal, envelope::Refused};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    answer::Answers,
    config::Config,
    connection::pace::Paces,
    duplicates::Duplicates,
    groups::{Groups, Scoped},
    keys::Keys,
    limits::{HTTP_CONNECTIONS_SPARE, RETRY_AFTER_MS},
    listen::{admission::Admission, complaint::Complaint},
    metrics::Metrics,
    registry::Registry,
};

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) groups: Groups,
    pub(crate) systems: Groups,
    pub(crate) keys: Keys,
    /// A permit a TCP connection, upgraded or not.
    pub(crate) places: Arc<Semaphore>,
    /// The places of WebSockets.
    pub(crate) admission: Admission,
    /// How fast each agent may send.
    pub(crate) paces: Paces,
    pub(crate) duplicates: Duplicates,
    /// Of keys that cannot seal or sign any more.
    seals_complaint: Mutex<Complaint>,
    /// A task a connection.
    pub(crate) tasks: TaskTracker,
    /// Cancelled once, when the node is told to stop. For those who wait for it.
    pub(crate) stopping: CancellationToken,
    /// Whether it was. For those who look often.
    is_draining: AtomicBool,
}

impl Node {
    pub(crate) fn new(config: Config) -> Self {
        let metrics = Arc::new(Metrics::new());
        let answers = Arc::new(Answers::new());
        let table =
            |scoped, gauge| Groups::new(scoped, Arc::clone(&answers), Arc::clone(&metrics), gauge);
        let groups = table(Scoped::Groups, metrics.groups.clone());
        let systems = table(Scoped::Systems, metrics.systems.clone());
        let places = config
            .connections_max
            .saturating_add(HTTP_CONNECTIONS_SPARE)
            .min(Semaphore::MAX_PERMITS);
        Node {
            places: Arc::new(Semaphore::new(places)),
            admission: Admission::new(&config, &metrics),
            paces: Paces::new(&config),
            // A message may be as late as it may be early.
            duplicates: Duplicates::new(2 * config.clock_window),
            registry: Arc::new(Registry::default()),
            groups,
            systems,
            keys: Keys::new(config.keys.path().to_owned(), config.keyring.clone()),
            seals_complaint: Mutex::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            is_draining: AtomicBool::new(false),
            config,
            answers,
            metrics,
        }
    }

    /// Logs, once a while, why a sealed message does not go on.
    pub(crate) fn complain_of_seals(&self, problem: &str) {
        if let Some(times) = self.seals_complaint.lock().again() {
            tracing::error!(times, "sealed messages do not reach everybody: {problem}");
        }
    }

    /// Nobody is welcome from now on.
    pub(crate) fn start_draining(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.stopping.cancel();
    }

    /// Whether the node was told to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// The refusal of whoever comes while the node is going away.
    pub(crate) fn draining_refusal(&self) -> Refusal {
        Refusal::new(Code::Draining, "this node is going away").retry_after_ms(RETRY_AFTER_MS)
    }

    /// Most bytes of members or agents in one answer: with the envelope around them it is no larger
    /// than the frames that this node reads.
    pub(crate) fn page_bytes(&self) -> usize {
        self.config.max_frame_bytes - self.config.max_frame_bytes / 4
    }

    /// Counts a refusal, and builds the frame that tells it.
    pub(crate) fn refused(&self, refused: &Refused) -> Utf8Bytes {
        self.metrics.refused(refused.refusal.code);
        self.answers
            .refused(refused.id.as_deref(), &refused.refusal)
    }
}
