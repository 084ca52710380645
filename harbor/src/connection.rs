//! One task an agent: frames in to intake, answers and deliveries out to the socket.
//!
//! The loop around a frame's way. Writing goes before reading and neither waits for the other, so
//! an agent that only writes or only reads blocks nobody but itself.

pub(crate) mod heartbeat;
pub(crate) mod outbox;
pub mod socket;

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use synapse::{Code, Refusal, envelope::Refused, refusal::Close};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{clock, drain, intake, limits::READ_BATCH_MESSAGES_MAX, node::Node, session::Session};
use heartbeat::{Due, Heartbeat};
use outbox::{Batch, Pushed};
use socket::{Incoming, Socket};

/// A registered connection and its socket.
#[derive(Debug)]
pub(crate) struct Connection {
    node: Arc<Node>,
    socket: Socket,
    session: Session,
    heartbeat: Heartbeat,
    batch: Batch,
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
            is_flushing: true,
            is_told: false,
        }
    }

    /// Serves the agent until one side ends it. The agent has left its groups when this returns;
    /// the socket is still to be closed.
    pub(crate) async fn run(mut self) -> (Socket, Close) {
        let close = poll_fn(|cx| self.poll(cx)).await;
        (self.socket, close)
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
                    Poll::Ready(Ok(())) => self.is_flushing = false,
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
            if tells && let Err(close) = self.tell_draining() {
                return Poll::Ready(close);
            }
            if let Err(close) = self.feed_batch(now) {
                return Poll::Ready(close);
            }
        }
    }

    fn feed_batch(&mut self, now: clock::Instant) -> Result<(), Close> {
        self.is_flushing = true;
        for frame in self.batch.control.drain(..) {
            self.socket.feed_text(frame)?;
        }
        let metrics = &self.node.metrics;
        metrics
            .deliveries_written
            .inc_by(self.batch.data.len() as u64);
        for delivery in self.batch.data.drain(..) {
            metrics
                .delivery_seconds
                .observe((now - delivery.received_at).as_secs_f64());
            self.socket.feed_text(delivery.frame)?;
        }
        Ok(())
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
            Ok(Some(answer)) => self.answer(answer),
            Err(refused) => {
                let refusal = self.node.refused(&refused);
                self.answer(refusal);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Queues an answer. An agent that sends and never reads its answers is too slow like any other.
    fn answer(&self, frame: Utf8Bytes) {
        let lease = &self.session.lease;
        let pushed = lease
            .agent
            .outbox
            .push_answer(lease.generation, frame, &self.node.metrics);
        if pushed == Pushed::Full {
            tracing::info!(agent = %lease.agent.id, "closing an agent that does not read its answers");
        }
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
