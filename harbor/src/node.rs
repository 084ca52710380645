//! The parts of one node, built in the order they depend on each other.
//!
//! Consulted by every stage of a frame's way.

use std::sync::Arc;

use synapse::{Code, Refusal, envelope::Refused};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    answer::Answers,
    config::Config,
    groups::{Groups, Scoped},
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
    /// A permit a WebSocket.
    pub(crate) permits: Arc<Semaphore>,
    /// A task a connection.
    pub(crate) tasks: TaskTracker,
    /// Cancelled once, when the node is told to stop.
    pub(crate) stopping: CancellationToken,
}

impl Node {
    pub(crate) fn new(config: Config) -> Self {
        let metrics = Arc::new(Metrics::new());
        let answers = Arc::new(Answers::new());
        let table =
            |scoped, gauge| Groups::new(scoped, Arc::clone(&answers), Arc::clone(&metrics), gauge);
        let groups = table(Scoped::Groups, metrics.groups.clone());
        let systems = table(Scoped::Systems, metrics.systems.clone());
        Node {
            permits: Arc::new(Semaphore::new(config.connections_max)),
            registry: Arc::new(Registry::default()),
            groups,
            systems,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            config,
            answers,
            metrics,
        }
    }

    /// The refusal of whoever comes while the node is going away.
    pub(crate) fn draining_refusal(&self) -> Refusal {
        Refusal::new(Code::Draining, "this node is going away").retry_after_ms(1_000)
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
