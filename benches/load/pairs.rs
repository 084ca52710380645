//! Point to point: each sender has one receiver, and a window of messages on the way.
//!
//! With a window of 1 a message leaves when the one before has arrived, so the latency is that of
//! a broker at rest. With a larger one, what arrived together is followed by as many messages in
//! one write: brokers and sockets see batches as large as they themselves make them.

use std::collections::VecDeque;
use std::time::Instant;

use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use crate::Result;
use crate::clients::{self, Answers};
use crate::dialect::Variant;
use crate::measure::{Figures, Phase, Times};
use crate::process::Broker;
use crate::samples::Samples;
use crate::wire::{Connection, Template};

/// What one read of a client may bring.
const READ_BYTES: usize = 64 * 1024;

/// The shape of the load.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) pairs: u32,
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
    let answers = Answers::default();
    let mut counting = JoinSet::new();
    let mut pairs = Vec::new();
    for pair in 0..shape.pairs {
        let (from, to) = (2 * pair, 2 * pair + 1);
        let receiver = clients::connect(broker, variant, to, None, READ_BYTES).await?;
        let Connection { reader, writer } =
            clients::connect(broker, variant, from, None, READ_BYTES).await?;
        counting.spawn(answers.clone().count(reader, variant.acknowledges()));
        pairs.push(Pair {
            writer,
            receiver,
            template: variant.direct(from, to, shape.message_bytes)?,
            window: shape.window,
            sent: VecDeque::with_capacity(shape.window),
            next_id: 1,
            out: Vec::new(),
        });
    }
    let mut load = Load {
        pairs,
        answers,
        counting,
        acknowledged: variant.acknowledges(),
    };
    load.phase(Instant::now() + times.warm_up).await?;
    let phase = Phase::begin(broker)?;
    let (delivered, mut samples) = load.phase(Instant::now() + times.measured).await?;
    phase.end(delivered, &mut samples)
}

/// All pairs of a run.
struct Load {
    pairs: Vec<Pair>,
    answers: Answers,
    counting: JoinSet<Result<()>>,
    acknowledged: bool,
}

impl Load {
    /// Sends until `until`, then waits for what is on the way.
    async fn phase(&mut self, until: Instant) -> Result<(u64, Samples)> {
        let mut running = JoinSet::new();
        for mut pair in self.pairs.drain(..) {
            running.spawn(async move {
                let samples = pair.exchange(until).await?;
                Result::Ok((pair, samples))
            });
        }
        let (mut delivered, mut samples) = (0, Samples::default());
        while !running.is_empty() {
            tokio::select! {
                biased;
                Some(ended) = running.join_next() => {
                    let (pair, (count, latencies)) = ended??;
                    self.pairs.push(pair);
                    delivered += count;
                    samples.append(latencies);
                }
                failed = clients::failure(&mut self.counting) => failed?,
            }
        }
        if self.acknowledged {
            let sent = self.pairs.iter().map(|pair| pair.next_id - 1).sum();
            self.answers.wait_for(sent).await?;
        }
        Ok((delivered, samples))
    }
}

/// A sender and its receiver.
struct Pair {
    writer: tokio::net::tcp::OwnedWriteHalf,
    receiver: Connection,
    template: Template,
    window: usize,
    /// When each message on the way was written, oldest first; they arrive in order.
    sent: VecDeque<Instant>,
    next_id: u64,
    out: Vec<u8>,
}

impl Pair {
    async fn exchange(&mut self, until: Instant) -> Result<(u64, Samples)> {
        let mut samples = Samples::default();
        let mut delivered = 0;
        let mut now = Instant::now();
        loop {
            if now < until {
                self.refill(now).await?;
            } else if self.sent.is_empty() {
                return Ok((delivered, samples));
            }
            self.receiver.reader.fill().await?;
            now = Instant::now();
            delivered += self.arrivals(now, &mut samples)?;
        }
    }

    /// Fills the window up again.
    async fn refill(&mut self, now: Instant) -> Result<()> {
        self.out.clear();
        while self.sent.len() < self.window {
            self.template.append(self.next_id, &mut self.out);
            self.next_id += 1;
            self.sent.push_back(now);
        }
        Ok(self.writer.write_all(&self.out).await?)
    }

    /// Checks off what has been read: the messages that were sent, in the order they were sent.
    fn arrivals(&mut self, now: Instant, samples: &mut Samples) -> Result<u64> {
        let mut count = 0;
        while let Some(message) = self.receiver.reader.take()? {
            let id = self.template.id_of(message)?;
            let oldest = self.next_id - self.sent.len() as u64;
            let sent = self.sent.pop_front().ok_or("a message nobody sent")?;
            if id != oldest {
                return Err(format!("message {id} arrived where {oldest} was due").into());
            }
            samples.add(now - sent);
            count += 1;
        }
        Ok(count)
    }
}
