//! Clients in numbers, and what comes back to a sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::Result;
use crate::dialect::Variant;
use crate::process::Broker;
use crate::wire::{Connection, Reader};

/// Connections being opened at one time.
const OPENING_MAX: usize = 32;
/// How long answers to messages may follow the last delivery.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(5);

/// One registered client.
pub(crate) async fn connect(
    broker: &Broker,
    variant: Variant,
    agent: u32,
    group: Option<u32>,
    buffer_bytes: usize,
) -> Result<Connection> {
    let mut connection = Connection::open(broker.address, variant.path(), buffer_bytes).await?;
    variant.register(&mut connection, agent, group).await?;
    Ok(connection)
}

/// Registered clients for every number in `agents`, in no particular order.
pub(crate) async fn connect_all(
    broker: &Broker,
    variant: Variant,
    agents: std::ops::Range<u32>,
    group: Option<u32>,
    buffer_bytes: usize,
) -> Result<Vec<Connection>> {
    let address = broker.address;
    let mut opening = JoinSet::new();
    let mut open = Vec::with_capacity(agents.len());
    for agent in agents {
        if opening.len() >= OPENING_MAX
            && let Some(opened) = opening.join_next().await
        {
            open.push(opened??);
        }
        opening.spawn(async move {
            let mut connection = Connection::open(address, variant.path(), buffer_bytes).await?;
            variant.register(&mut connection, agent, group).await?;
            Result::Ok(connection)
        });
    }
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}

/// Answers that senders have got.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<AtomicU64>);

impl Answers {
    /// Reads and counts what comes back to one sender; ends only with an error.
    pub(crate) async fn count(self, mut reader: Reader, expected: bool) -> Result<()> {
        loop {
            while let Some(answer) = reader.take()? {
                let refused = memchr::memmem::find(answer, b"synapse.refused").is_some();
                if refused || !expected {
                    let text = String::from_utf8_lossy(answer);
                    return Err(format!("the sender was told: {text}").into());
                }
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            reader.fill().await?;
        }
    }

    /// Waits until `sent` messages are answered.
    pub(crate) async fn wait_for(&self, sent: u64) -> Result<()> {
        let all = async {
            while self.0.load(Ordering::Relaxed) < sent {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let answered = tokio::time::timeout(ANSWERS_TIMEOUT, all).await;
        Ok(answered.map_err(|_| "answers are missing")?)
    }
}

/// The error that ended one of `tasks`, none of which ends otherwise.
pub(crate) async fn failure(tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    match tasks.join_next().await {
        Some(ended) => ended?,
        None => std::future::pending().await,
    }
}
