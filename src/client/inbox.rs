//! Delivered messages that wait to be taken, bounded in bytes.
//!
//! The last station of a frame's way on the receiver's side. When it is full the link stops reading
//! the socket: TCP carries that back to Harbor, which keeps or refuses by its own policy. Nothing is
//! dropped here.

use std::{
    collections::VecDeque,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::Envelope;

/// What a message costs beside its frame, in bytes.
const OVERHEAD_BYTES: usize = mem::size_of::<Envelope<'static>>();

#[derive(Debug)]
pub(super) struct Inbox {
    bytes_max: usize,
    queue: Mutex<Queue>,
    arrived: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<(Envelope<'static>, usize)>,
    bytes: usize,
    closed: bool,
}

impl Inbox {
    pub(super) fn new(bytes_max: usize) -> Self {
        Inbox {
            bytes_max,
            queue: Mutex::default(),
            arrived: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Whether the link should read on. The bound is on what was there before: one message of any
    /// size gets in, so size alone never keeps one out.
    pub(super) fn has_room(&self) -> bool {
        self.lock().bytes < self.bytes_max
    }

    /// Waits until a taker made room since the last wait.
    pub(super) async fn room(&self) {
        self.room.notified().await;
    }

    pub(super) fn push(&self, message: Envelope<'static>, frame_bytes: usize) {
        let bytes = frame_bytes + OVERHEAD_BYTES;
        let mut queue = self.lock();
        queue.messages.push_back((message, bytes));
        queue.bytes += bytes;
        drop(queue);
        self.arrived.notify_one();
    }

    /// The oldest message; `None` once closed and empty. Dropping the future loses nothing.
    pub(super) async fn take(&self) -> Option<Envelope<'static>> {
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            arrived.as_mut().enable();
            if let Some(message) = self.try_take() {
                return Some(message);
            }
            if self.lock().closed {
                return None;
            }
            arrived.await;
        }
    }

    pub(super) fn try_take(&self) -> Option<Envelope<'static>> {
        let mut queue = self.lock();
        let (message, bytes) = queue.messages.pop_front()?;
        let was_full = queue.bytes >= self.bytes_max;
        queue.bytes -= bytes;
        let has_room = queue.bytes < self.bytes_max;
        let has_more = !queue.messages.is_empty();
        drop(queue);
        if was_full && has_room {
            self.room.notify_one();
        }
        if has_more {
            self.arrived.notify_one();
        }
        Some(message)
    }

    /// No more will come; what is there can still be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn message(id: &str) -> Envelope<'static> {
        let mut message = Envelope::new("t");
        message.id = id.to_owned().into();
        message
    }

    #[tokio::test]
    async fn messages_come_in_order_and_closing_ends_after_the_last() {
        let inbox = Inbox::new(1 << 20);
        inbox.push(message("1"), 10);
        inbox.push(message("2"), 10);
        inbox.close();
        assert_eq!(inbox.take().await.unwrap().id, "1");
        assert_eq!(inbox.take().await.unwrap().id, "2");
        assert!(inbox.take().await.is_none());
    }

    #[tokio::test]
    async fn the_bound_counts_bytes_and_taking_makes_room() {
        let inbox = Inbox::new(10_000);
        inbox.push(message("big"), 50_000);
        assert!(!inbox.has_room());
        assert!(inbox.take().await.is_some());
        inbox.room().await;
        assert!(inbox.has_room());
    }

    #[tokio::test]
    async fn every_taker_is_woken() {
        let inbox = Arc::new(Inbox::new(1 << 20));
        let take = |inbox: Arc<Inbox>| tokio::spawn(async move { inbox.take().await.is_some() });
        let takers = [0; 3].map(|_| take(inbox.clone()));
        tokio::task::yield_now().await;
        inbox.push(message("1"), 10);
        inbox.push(message("2"), 10);
        tokio::task::yield_now().await;
        inbox.close();
        let mut served = 0;
        for taker in takers {
            served += usize::from(taker.await.unwrap());
        }
        assert_eq!(served, 2);
    }
}
