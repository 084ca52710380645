//! Fan-out: one sender, one group, many receivers, and a window of group messages on the way.
//!
//! With a window of 1 every receiver's socket is written once for each message, by any broker:
//! that makes the CPU comparable. A larger window lets a broker that lags write several at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Result;
use crate::clients::{self, Answers};
use crate::dialect::Variant;
use crate::measure::{Figures, Phase, Times};
use crate::process::Broker;
use crate::samples::Samples;
use crate::wire::{Connection, Template};

/// What one read of a client may bring.
const READ_BYTES: usize = 8 * 1024;
/// The one group.
const GROUP: u32 = 0;

/// The shape of the load.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) receivers: u32,
    pub(crate) window: usize,
    pub(crate) message_bytes: usize,
}

/// Runs the load against a broker that nobody else uses.
pub(crate) async fn run(
    broker: &Broker,
    variant: Variant,
    shape: Shape,
    times: Times,
) -> Result<Figures> {
    let sender = shape.receivers;
    let receivers =
        clients::connect_all(broker, variant, 0..sender, Some(GROUP), READ_BYTES).await?;
    let Connection { reader, writer } =
        clients::connect(broker, variant, sender, None, READ_BYTES).await?;
    let template = variant.to_group(sender, GROUP, shape.message_bytes)?;
    let board = Arc::new(Board::default());
    let mut tasks = JoinSet::new();
    for receiver in receivers {
        tasks.spawn(receive(receiver, template.clone(), Arc::clone(&board)));
    }
    let answers = Answers::default();
    tasks.spawn(answers.clone().count(reader, variant.acknowledges()));
    let mut sender = Sender {
        writer,
        template,
        shape,
        board,
        next_id: 1,
        out: Vec::new(),
    };

    let mut load = async || {
        sender.phase(Instant::now() + times.warm_up).await?;
        let phase = Phase::begin(broker)?;
        let first_id = sender.next_id;
        let mut samples = sender.phase(Instant::now() + times.measured).await?;
        if variant.acknowledges() {
            answers.wait_for(sender.next_id - 1).await?;
        }
        let delivered = (sender.next_id - first_id) * u64::from(shape.receivers);
        phase.end(delivered, &mut samples)
    };
    tokio::select! {
        biased;
        figures = load() => figures,
        failed = clients::failure(&mut tasks) => Err(failed.err().unwrap_or("ended".into())),
    }
}

struct Sender {
    writer: OwnedWriteHalf,
    template: Template,
    shape: Shape,
    board: Arc<Board>,
    next_id: u64,
    out: Vec<u8>,
}

impl Sender {
    /// Sends until `until`, then waits for what is on the way.
    async fn phase(&mut self, until: Instant) -> Result<Samples> {
        loop {
            let now = Instant::now();
            let waiting = self.board.lock()?.waiting.len();
            if now >= until && waiting == 0 {
                return Ok(std::mem::take(&mut self.board.lock()?.samples));
            }
            if now < until && waiting < self.shape.window {
                self.send(now).await?;
            } else {
                self.board.changed.notified().await;
            }
        }
    }

    async fn send(&mut self, now: Instant) -> Result<()> {
        self.out.clear();
        self.template.append(self.next_id, &mut self.out);
        self.board
            .lock()?
            .sent(self.next_id, now, self.shape.receivers);
        self.next_id += 1;
        Ok(self.writer.write_all(&self.out).await?)
    }
}

/// Reads one receiver's socket; ends only with an error.
async fn receive(mut receiver: Connection, template: Template, board: Arc<Board>) -> Result<()> {
    let mut expected = 1;
    loop {
        receiver.reader.fill().await?;
        let now = Instant::now();
        while let Some(message) = receiver.reader.take()? {
            let id = template.id_of(message)?;
            if id != expected {
                return Err(format!("message {id} arrived where {expected} was due").into());
            }
            expected += 1;
            if board.lock()?.arrived(id, now)? {
                board.changed.notify_one();
            }
        }
    }
}

/// Group messages on the way.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    /// The oldest message has reached everybody.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// When each was sent and how many have not got it yet, oldest first.
    waiting: VecDeque<(Instant, u32)>,
    oldest_id: u64,
    samples: Samples,
}

impl Board {
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        self.state
            .lock()
            .map_err(|_| "the board is poisoned".into())
    }
}

impl State {
    fn sent(&mut self, id: u64, now: Instant, receivers: u32) {
        if self.waiting.is_empty() {
            self.oldest_id = id;
        }
        self.waiting.push_back((now, receivers));
    }

    /// Whether the oldest message has now reached everybody.
    fn arrived(&mut self, id: u64, now: Instant) -> Result<bool> {
        let index = usize::try_from(id.wrapping_sub(self.oldest_id))?;
        let (sent, left) = self.waiting.get_mut(index).ok_or("a message nobody sent")?;
        *left -= 1;
        let latency = now - *sent;
        self.samples.add(latency);
        let mut changed = false;
        while self.waiting.front().is_some_and(|(_, left)| *left == 0) {
            self.waiting.pop_front();
            self.oldest_id += 1;
            changed = true;
        }
        Ok(changed)
    }
}
