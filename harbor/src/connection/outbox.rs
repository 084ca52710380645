//! The bounded queue of frames to one agent.
//!
//! Stands between delivery and the socket. It belongs to the agent, not to one connection: after a
//! takeover the newer connection goes on where the older one stopped, after the older one has given
//! back what it took and could not write. Answers and presence changes (control) belong to the
//! connection and go first. Each kind is bounded in bytes; when one is full the agent is too slow
//! and is closed, and others are not held up.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use synapse::refusal::Close;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    clock::Instant,
    limits::{IDLE_QUEUE_FRAMES_MAX, QUEUED_FRAME_OVERHEAD_BYTES, WRITE_BATCH_BYTES_MAX},
    metrics::Metrics,
};

/// A message on its way to one agent. Cloning shares the frame's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    /// The sender's own bytes, but for what Harbor added or sealed again.
    pub(crate) frame: Utf8Bytes,
    /// When the node received it.
    pub(crate) received_at: Instant,
    /// When it is no longer wanted.
    pub(crate) deadline: Instant,
}

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It waits for the socket.
    Queued,
    /// There was no room; the agent is being closed as too slow.
    Full,
    /// The agent is gone or being closed.
    Gone,
}

/// What the connection takes out to write.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Answers and presence changes, which go first.
    pub(crate) control: Vec<Utf8Bytes>,
    /// Messages that have not expired.
    pub(crate) data: Vec<Delivery>,
}

#[derive(Debug)]
pub(crate) struct Outbox {
    bytes_max: usize,
    /// The connection that drains it. Written under the lock of the state.
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    control: Queue<Utf8Bytes>,
    data: Queue<Delivery>,
    /// The connection that has taken messages and may not have written them yet. If it is an older
    /// one it has still to give them back; until then the newer one gets none, so that no message
    /// overtakes.
    writer: Option<u64>,
    /// Set once the agent is to be closed; nothing is pushed after.
    closing: Option<Close>,
    waker: Option<Waker>,
    waits_for: WaitsFor,
}

/// What the sleeping connection is to be woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// Anything new: its socket takes more.
    Frames,
    /// Only that it must end now: its socket is blocked.
    TheEnd,
}

impl Outbox {
    /// An empty one, drained by the connection `generation`.
    pub(crate) fn new(generation: u64, bytes_max: usize) -> Self {
        let state = State {
            control: Queue::default(),
            data: Queue::default(),
            writer: None,
            closing: None,
            waker: None,
            waits_for: WaitsFor::Frames,
        };
        Outbox {
            bytes_max,
            generation: AtomicU64::new(generation),
            state: Mutex::new(state),
        }
    }

    /// The connection that drains it.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether it can still be handed over.
    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().closing.is_none()
    }

    /// Queues a message and wakes the connection.
    pub(crate) fn push(&self, delivery: Delivery, metrics: &Metrics) -> Pushed {
        let mut state = self.state.lock();
        let bytes = state.data.bytes + delivery.cost();
        let pushed = state.room(bytes, self.bytes_max);
        if pushed == Pushed::Queued {
            state.data.push(delivery, metrics);
        }
        state.wake_after_push(pushed);
        pushed
    }

    /// Queues a frame of Harbor's for the connection `generation` and no other, and wakes it.
    pub(crate) fn push_control(
        &self,
        generation: u64,
        frame: Utf8Bytes,
        metrics: &Metrics,
    ) -> Pushed {
        let pushed = self.push_answer(generation, frame, metrics);
        self.state.lock().wake_after_push(pushed);
        pushed
    }

    /// The same for the connection's own task, which looks at the queue before it sleeps.
    pub(crate) fn push_answer(
        &self,
        generation: u64,
        frame: Utf8Bytes,
        metrics: &Metrics,
    ) -> Pushed {
        let mut state = self.state.lock();
        if self.generation() != generation {
            return Pushed::Gone;
        }
        let bytes = state.control.bytes + frame.cost();
        let pushed = state.room(bytes, self.bytes_max);
        if pushed == Pushed::Queued {
            state.control.push(frame, metrics);
        }
        pushed
    }

    /// Asks the connection to close after it has written what is queued.
    pub(crate) fn close(&self, close: Close) {
        let mut state = self.state.lock();
        state.closing.get_or_insert(close);
        state.wake();
    }

    /// Asks the connection `generation` and no newer one to close.
    pub(crate) fn close_connection(&self, generation: u64, close: Close) {
        let mut state = self.state.lock();
        if self.generation() == generation {
            state.closing.get_or_insert(close);
            state.wake();
        }
    }

    /// Gives the queue to a newer connection, unless the agent is being closed. What was meant for
    /// the older connection alone is dropped.
    pub(crate) fn hand_over(&self, generation: u64, metrics: &Metrics) -> bool {
        let mut state = self.state.lock();
        if state.closing.is_some() {
            return false;
        }
        self.generation.store(generation, Ordering::Release);
        state.control.clear(metrics);
        state.wake();
        true
    }

    /// Ends the queue: what is in it is dropped and counted, and later pushes find it gone.
    pub(crate) fn end(&self, metrics: &Metrics) {
        let mut state = self.state.lock();
        state.closing.get_or_insert(Close::Normal);
        metrics
            .deliveries_dropped
            .inc_by(state.data.frames.len() as u64);
        state.data.clear(metrics);
        state.control.clear(metrics);
    }

    /// Gives back, from the connection that ends, the messages that it took and could not write:
    /// they are the first in the queue again. To be called by every connection before it is gone.
    pub(crate) fn settle(&self, generation: u64, unwritten: Vec<Delivery>, metrics: &Metrics) {
        let mut state = self.state.lock();
        if state.writer != Some(generation) {
            return;
        }
        state.writer = None;
        for delivery in unwritten.into_iter().rev() {
            state.data.push_first(delivery, metrics);
        }
        state.wake();
    }

    /// Takes the next frames to write, at most [`WRITE_BATCH_BYTES_MAX`] and at least one; expired
    /// messages are passed over and counted. `Err` says why to close instead, once nothing is left.
    pub(crate) fn poll_take(
        &self,
        generation: u64,
        now: Instant,
        metrics: &Metrics,
        batch: &mut Batch,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Close>> {
        let mut state = self.state.lock();
        if let Some(close) = self.must_end(&state, generation) {
            return Poll::Ready(Err(close));
        }
        if state.fill(generation, now, metrics, batch) {
            return Poll::Ready(Ok(()));
        }
        if let Some(close) = state.closing {
            return Poll::Ready(Err(close));
        }
        state.sleep(WaitsFor::Frames, cx);
        Poll::Pending
    }

    /// Why to end at once although the socket is blocked.
    pub(crate) fn poll_end(&self, generation: u64, cx: &mut Context<'_>) -> Poll<Close> {
        let mut state = self.state.lock();
        if let Some(close) = self.must_end(&state, generation) {
            return Poll::Ready(close);
        }
        state.sleep(WaitsFor::TheEnd, cx);
        Poll::Pending
    }
}

impl Outbox {
    fn must_end(&self, state: &State, generation: u64) -> Option<Close> {
        if self.generation() != generation {
            return Some(Close::Replaced);
        }
        // Who is not who it was gets nothing more, and cannot put it off by not reading.
        let at_once = [Close::TooSlow, Close::Unauthorised];
        state.closing.filter(|close| at_once.contains(close))
    }
}

impl State {
    /// Whether a queue may grow to `bytes`.
    fn room(&mut self, bytes: usize, bytes_max: usize) -> Pushed {
        if self.closing.is_some() {
            return Pushed::Gone;
        }
        if bytes > bytes_max {
            self.closing = Some(Close::TooSlow);
            return Pushed::Full;
        }
        Pushed::Queued
    }

    /// Moves what the connection may write into `batch`; whether that is anything. That it asks
    /// means that it has written what it took before.
    fn fill(
        &mut self,
        generation: u64,
        now: Instant,
        metrics: &Metrics,
        batch: &mut Batch,
    ) -> bool {
        let bytes_before = self.control.bytes + self.data.bytes;
        let mut taken = 0;
        while taken < WRITE_BATCH_BYTES_MAX
            && let Some(frame) = self.control.pop()
        {
            taken += frame.cost();
            batch.control.push(frame);
        }
        let is_settled = self.writer.is_none_or(|writer| writer == generation);
        let mut expired = 0;
        while is_settled
            && taken < WRITE_BATCH_BYTES_MAX
            && let Some(delivery) = self.data.pop()
        {
            if delivery.deadline <= now {
                expired += 1;
                continue;
            }
            taken += delivery.cost();
            batch.data.push(delivery);
        }
        if is_settled {
            self.writer = (!batch.data.is_empty()).then_some(generation);
        }
        let bytes_less = bytes_before - self.control.bytes - self.data.bytes;
        if bytes_less > 0 {
            metrics.outbox_bytes.dec_by(bytes_less as i64);
            metrics.deliveries_expired.inc_by(expired);
        }
        taken > 0
    }

    fn sleep(&mut self, waits_for: WaitsFor, cx: &mut Context<'_>) {
        self.waits_for = waits_for;
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
    }

    fn wake_after_push(&mut self, pushed: Pushed) {
        if self.waits_for == WaitsFor::Frames || pushed == Pushed::Full {
            self.wake();
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Frames in order, and what they cost.
#[derive(Debug)]
struct Queue<F> {
    frames: VecDeque<F>,
    bytes: usize,
}

impl<F> Default for Queue<F> {
    fn default() -> Self {
        Queue {
            frames: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<F: Cost> Queue<F> {
    fn push(&mut self, frame: F, metrics: &Metrics) {
        self.grow_by(frame.cost(), metrics);
        self.frames.push_back(frame);
    }

    fn push_first(&mut self, frame: F, metrics: &Metrics) {
        self.grow_by(frame.cost(), metrics);
        self.frames.push_front(frame);
    }

    fn grow_by(&mut self, bytes: usize, metrics: &Metrics) {
        self.bytes += bytes;
        metrics.outbox_bytes.inc_by(bytes as i64);
    }

    /// Takes the first frame; the caller tells the metrics. An emptied queue gives back much room.
    fn pop(&mut self) -> Option<F> {
        let Some(frame) = self.frames.pop_front() else {
            if self.frames.capacity() > IDLE_QUEUE_FRAMES_MAX {
                self.frames = VecDeque::new();
            }
            return None;
        };
        self.bytes -= frame.cost();
        Some(frame)
    }

    fn clear(&mut self, metrics: &Metrics) {
        metrics.outbox_bytes.dec_by(self.bytes as i64);
        *self = Queue::default();
    }
}

/// What a queued frame counts against the bound, in bytes.
trait Cost {
    fn cost(&self) -> usize;
}

impl Cost for Utf8Bytes {
    fn cost(&self) -> usize {
        self.len() + QUEUED_FRAME_OVERHEAD_BYTES
    }
}

impl Cost for Delivery {
    fn cost(&self) -> usize {
        self.frame.cost()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        task::{Wake, Waker},
        time::Duration,
    };

    use super::*;
    use crate::clock;

    fn delivery(text: &str, ttl: Duration) -> Delivery {
        let now = clock::now();
        Delivery {
            frame: text.into(),
            received_at: now,
            deadline: now + ttl,
        }
    }

    fn take(
        outbox: &Outbox,
        generation: u64,
        metrics: &Metrics,
    ) -> Poll<Result<Vec<String>, Close>> {
        let mut batch = Batch::default();
        let mut cx = Context::from_waker(Waker::noop());
        let taken = outbox.poll_take(generation, clock::now(), metrics, &mut batch, &mut cx);
        let frames = batch
            .control
            .iter()
            .chain(batch.data.iter().map(|delivery| &delivery.frame));
        taken.map_ok(|()| frames.map(ToString::to_string).collect())
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_expired_message_is_never_taken_and_is_counted() {
        let (outbox, metrics) = (Outbox::new(1, 10_000), Metrics::new());
        for (text, seconds) in [("1", 30), ("2", 2), ("3", 30)] {
            outbox.push(delivery(text, Duration::from_secs(seconds)), &metrics);
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(
            take(&outbox, 1, &metrics),
            Poll::Ready(Ok(vec!["1".into(), "3".into()]))
        );
        outbox.push(delivery("4", Duration::from_secs(1)), &metrics);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            take(&outbox, 1, &metrics),
            Poll::Pending,
            "at the deadline it is expired"
        );
        assert_eq!(metrics.deliveries_expired.get(), 2);
        assert_eq!(metrics.outbox_bytes.get(), 0);
    }

    #[test]
    fn full_closes_as_too_slow_and_later_pushes_find_it_gone() {
        let (outbox, metrics) = (Outbox::new(1, 1_000), Metrics::new());
        let big = "x".repeat(600);
        assert_eq!(
            outbox.push(delivery(&big, MINUTE), &metrics),
            Pushed::Queued
        );
        assert_eq!(outbox.push(delivery(&big, MINUTE), &metrics), Pushed::Full);
        assert_eq!(
            outbox.push(delivery("small", MINUTE), &metrics),
            Pushed::Gone
        );
        assert_eq!(take(&outbox, 1, &metrics), Poll::Ready(Err(Close::TooSlow)));
        outbox.end(&metrics);
        assert_eq!(
            (metrics.outbox_bytes.get(), metrics.deliveries_dropped.get()),
            (0, 1)
        );
    }

    #[test]
    fn a_takeover_keeps_the_messages_and_drops_the_old_connections_answers() {
        let (outbox, metrics) = (Outbox::new(1, 10_000), Metrics::new());
        outbox.push(delivery("message", MINUTE), &metrics);
        outbox.push_control(1, "answer".into(), &metrics);
        assert!(outbox.hand_over(2, &metrics));
        assert_eq!(
            outbox.push_control(1, "late".into(), &metrics),
            Pushed::Gone
        );
        assert_eq!(
            take(&outbox, 1, &metrics),
            Poll::Ready(Err(Close::Replaced))
        );
        assert_eq!(
            take(&outbox, 2, &metrics),
            Poll::Ready(Ok(vec!["message".into()]))
        );
        assert_eq!(metrics.outbox_bytes.get(), 0);
    }

    #[test]
    fn a_blocked_connection_is_woken_by_its_end_alone() {
        #[derive(Default)]
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let metrics = Metrics::new();
        let big = delivery(&"x".repeat(1_000), MINUTE);
        for end in [Close::TooSlow, Close::Replaced] {
            let outbox = Outbox::new(1, 1_000);
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(Arc::clone(&woken));
            let mut cx = Context::from_waker(&waker);
            assert_eq!(outbox.poll_end(1, &mut cx), Poll::Pending);
            outbox.push(delivery("small", MINUTE), &metrics);
            outbox.push_control(1, "answer".into(), &metrics);
            assert!(!woken.0.load(Ordering::Relaxed), "the socket is blocked");
            match end {
                Close::Replaced => assert!(outbox.hand_over(2, &metrics)),
                _ => assert_eq!(outbox.push(big.clone(), &metrics), Pushed::Full),
            }
            assert!(woken.0.load(Ordering::Relaxed));
            assert_eq!(outbox.poll_end(1, &mut cx), Poll::Ready(end));
        }
    }

    #[test]
    fn what_an_older_connection_could_not_write_comes_first_and_nothing_before_it() {
        let (outbox, metrics) = (Outbox::new(1, 10_000), Metrics::new());
        outbox.push(delivery("1", MINUTE), &metrics);
        outbox.push(delivery("2", MINUTE), &metrics);
        assert_eq!(
            take(&outbox, 1, &metrics),
            Poll::Ready(Ok(vec!["1".into(), "2".into()]))
        );
        assert!(outbox.hand_over(2, &metrics));
        assert!(outbox.hand_over(3, &metrics));
        outbox.push(delivery("3", MINUTE), &metrics);
        outbox.push_control(3, "answer".into(), &metrics);
        assert_eq!(
            take(&outbox, 3, &metrics),
            Poll::Ready(Ok(vec!["answer".into()]))
        );
        outbox.settle(2, Vec::new(), &metrics);
        assert_eq!(
            take(&outbox, 3, &metrics),
            Poll::Pending,
            "the second wrote nothing"
        );
        outbox.settle(1, vec![delivery("2", MINUTE)], &metrics);
        assert_eq!(
            take(&outbox, 3, &metrics),
            Poll::Ready(Ok(vec!["2".into(), "3".into()]))
        );
        assert_eq!(metrics.outbox_bytes.get(), 0);
    }

    #[test]
    fn closing_writes_what_is_queued_first() {
        let (outbox, metrics) = (Outbox::new(1, 1_000_000), Metrics::new());
        let big = "x".repeat(WRITE_BATCH_BYTES_MAX);
        outbox.push(delivery(&big, MINUTE), &metrics);
        outbox.push(delivery("last", MINUTE), &metrics);
        outbox.close(Close::Draining);
        assert_eq!(take(&outbox, 1, &metrics), Poll::Ready(Ok(vec![big])));
        assert_eq!(
            take(&outbox, 1, &metrics),
            Poll::Ready(Ok(vec!["last".into()]))
        );
        assert_eq!(
            take(&outbox, 1, &metrics),
            Poll::Ready(Err(Close::Draining))
        );
    }
}
