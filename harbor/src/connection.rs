//! One task an agent: frames in to intake, answers and deliveries out to the socket.
//!
//! The loop around a frame's way. Writing goes before reading and neither waits for the other, so
//! an agent that only writes or only reads blocks nobody but itself.

pub(crate) mod heartbeat;
pub(crate) mod outbox;
pub(crate) mod pace;
pub mod socket;
pub mod stream;

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use synapse::{Code, Refusal, envelope::Refused, refusal::Close};
use tokio::time::timeout;

use crate::{
    clock, drain, intake,
    limits::{CLOSE_GRACE, READ_BATCH_MESSAGES_MAX},
    node::Node,
    session::Session,
};
use heartbeat::{Due, Heartbeat};
use outbox::{Batch, Delivery};
use socket::{Incoming, Socket};

/// How a connection ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Still open.
    pub(crate) socket: Socket,
    /// Why it ended.
    pub(crate) close: Close,
    /// What the peer is to be told.
    pub(crate) farewell: Close,
}

impl Ended {
    /// A connection that ended before it was registered.
    pub(crate) fn unregistered(socket: Socket, close: Close) -> Self {
        Ended {
            socket,
            close,
            farewell: close,
        }
    }
}

/// A registered connection and its socket.
#[derive(Debug)]
pub(crate) struct Connection {
    node: Arc<Node>,
    socket: Socket,
    session: Session,
    heartbeat: Heartbeat,
    batch: Batch,
    /// Messages that were fed, each with where it ends in what the socket writes, until all is
    /// flushed.
    in_flight: Vec<(u64, Delivery)>,
    /// Something was fed to the socket and not flushed yet.
    is_flushing: bool,
    /// The agent was told that the node drains.
    is_told: bool,
}

impl Connection {
    /// The answer to the registration was fed to the socket and is still to be flushed.
    pub(crate) fn new(node: Arc<Node>, socket: Socket, session: Session) -> Self {
        let heartbeat = Heartbeat::new(node.config.heartbeat);
        let batch = Batch::default();
        Connection {
            node,
            socket,
            session,
            heartbeat,
            batch,
            in_flight: Vec::new(),
            is_flushing: true,
            is_told: false,
        }
    }

    /// Serves the agent until one side ends it. The agent has left its groups when this returns;
    /// the socket is still to be closed.
    pub(crate) async fn run(mut self) -> Ended {
        let close = poll_fn(|cx| self.poll(cx)).await;
        let farewell = self.settle(close).await;
        Ended {
            socket: self.socket,
            close,
            farewell,
        }
    }

    /// Gives back what was not written. A replaced connection first tries to write it; where it
    /// cannot, its peer gets no close frame either, which would come in the middle of a message.
    async fn settle(&mut self, close: Close) -> Close {
        let mut farewell = close;
        if close == Close::Replaced && self.is_flushing {
            let flushed = timeout(CLOSE_GRACE, poll_fn(|cx| self.socket.poll_flush(cx))).await;
            if !matches!(flushed, Ok(Ok(()))) {
                farewell = Close::Lost;
            }
        }
        let written = self.socket.written();
        let in_flight = self.in_flight.drain(..);
        let (done, unwritten): (Vec<_>, Vec<_>) = in_flight.partition(|(end, _)| *end <= written);
        let metrics = &self.node.metrics;
        metrics.deliveries_written.inc_by(done.len() as u64);
        let unwritten = unwritten
            .into_iter()
            .map(|(_, delivery)| delivery)
            .collect();
        let lease = &self.session.lease;
        lease
            .agent
            .outbox
            .settle(lease.generation, unwritten, metrics);
        farewell
    }

    /// In this order: what waits goes out; what came in is carried out, some messages at a time, and
    /// what they caused goes out; the heart beats.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Close> {
        loop {
            if let Poll::Ready(close) = self.poll_outgoing(cx) {
                return Poll::Ready(close);
            }
            match self.poll_incoming_batch(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(close)) => return Poll::Ready(close),
                Poll::Pending => match self.heartbeat.poll(cx, self.socket.bytes_read()) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Due::GiveUp) => return Poll::Ready(Close::TooSlow),
                    Poll::Ready(Due::Ping) => self.ping(),
                },
            }
        }
    }

    /// Flushes, then feeds the next batch, until nothing is left or the socket is blocked. Feeding
    /// only after a flush keeps messages where their deadline is still looked at.
    fn poll_outgoing(&mut self, cx: &mut Context<'_>) -> Poll<Close> {
        loop {
            if self.is_flushing {
                match self.socket.poll_flush(cx) {
                    Poll::Pending => {
                        let lease = &self.session.lease;
                        return lease.agent.outbox.poll_end(lease.generation, cx);
                    }
                    Poll::Ready(Err(close)) => return Poll::Ready(close),
                    Poll::Ready(Ok(())) => self.flushed(),
                }
            }
            let now = clock::now();
            let (lease, metrics) = (&self.session.lease, &self.node.metrics);
            let outbox = &lease.agent.outbox;
            let taken = outbox.poll_take(lease.generation, now, metrics, &mut self.batch, cx);
            // Looked at behind the outbox: who closed that for draining had said so before.
            let tells = !self.is_told && self.node.is_draining();
            match taken {
                Poll::Pending | Poll::Ready(Err(Close::Draining)) if tells => {}
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(close)) => return Poll::Ready(close),
                Poll::Ready(Ok(())) => {}
            }
            let told = if tells { self.tell_draining() } else { Ok(()) };
            // Also when that failed, so that what was taken is accounted for.
            if let Err(close) = told.and(self.feed_batch(now)) {
                return Poll::Ready(close);
            }
        }
    }

    fn feed_batch(&mut self, now: clock::Instant) -> Result<(), Close> {
        self.is_flushing = true;
        let mut fed = Ok(());
        for frame in self.batch.control.drain(..) {
            fed = fed.and_then(|()| self.socket.feed_text(frame));
        }
        let seconds = &self.node.metrics.delivery_seconds;
        for delivery in self.batch.data.drain(..) {
            seconds.observe((now - delivery.received_at).as_secs_f64());
            fed = fed.and_then(|()| self.socket.feed_text(delivery.frame.clone()));
            let end = if fed.is_ok() {
                self.socket.fed()
            } else {
                u64::MAX
            };
            self.in_flight.push((end, delivery));
        }
        fed
    }

    fn flushed(&mut self) {
        self.is_flushing = false;
        let written = self.in_flight.len() as u64;
        self.node.metrics.deliveries_written.inc_by(written);
        self.in_flight.clear();
    }

    /// Tells the agent that the node drains. It is closed once what waits for it is written.
    fn tell_draining(&mut self) -> Result<(), Close> {
        self.is_told = true;
        self.session.lease.agent.outbox.close(Close::Draining);
        self.socket.feed_text(drain::notice(&self.node))
    }

    /// Reads and carries out what has arrived, so that its answers share a write; `Pending` when
    /// that was nothing.
    fn poll_incoming_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Close>> {
        for done in 0..READ_BATCH_MESSAGES_MAX {
            match self.poll_incoming(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending if done > 0 => break,
                other => return other,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads and carries out one message.
    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Close>> {
        let incoming = match self.socket.poll_read(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(close)) => return Poll::Ready(Err(close)),
            Poll::Ready(Ok(incoming)) => incoming,
        };
        // What a newer connection of the agent sends must not be overtaken by what came here.
        if !self.session.lease.is_current() {
            return Poll::Ready(Err(Close::Replaced));
        }
        let answer = match incoming {
            Incoming::Text(frame) => intake::accept(&self.node, &mut self.session, &frame),
            Incoming::Binary(_) => Err(binary_refused()),
            Incoming::Alive => {
                self.is_flushing = true;
                Ok(None)
            }
        };
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.session.answer(answer),
            Err(refused) => {
                let refusal = self.node.refused(&refused);
                self.session.answer(refusal);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn ping(&mut self) {
        // A failure shows at the next flush.
        let _ = self.socket.feed_ping();
        self.is_flushing = true;
    }
}

/// The refusal of a binary frame, which carries no id.
pub(crate) fn binary_refused() -> Refused {
    let reason = "binary frame; envelopes are JSON in text frames";
    Refused {
        id: None,
        refusal: Refusal::new(Code::BinaryFrame, reason),
    }
}
