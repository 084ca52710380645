//! A frame on its way through the queue, from the side of whoever waits for its outcome.
//!
//! The caller's end of the first hop: it puts the frame into the queue, waits for what comes back,
//! and says precisely what is known when nothing does.

use std::{fmt, sync::Arc};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    command::{Expect, Outgoing, Reply, Ticket},
    error::{Error, SendError, SendErrorKind},
    shared::Shared,
};

/// A frame in the queue or beyond it, and where its outcome will come out.
#[derive(Debug)]
pub(super) struct Call<T, K> {
    shared: Arc<Shared>,
    ticket: Ticket,
    deadline: Instant,
    outcome: oneshot::Receiver<Result<T, Error<K>>>,
}

/// Dropped, it takes the frame back, if it was not written yet.
#[derive(Debug)]
pub(super) struct Withdraw(Ticket);

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

impl<T, K: From<SendErrorKind> + fmt::Debug> Call<T, K> {
    /// Queues a frame. Waits for room in the queue, at most until the deadline.
    pub(super) async fn place(
        shared: &Arc<Shared>,
        queue: &mpsc::Sender<Outgoing>,
        (id, frame): (String, String),
        deadline: Instant,
        expect: impl FnOnce(Reply<T, K>) -> Expect,
    ) -> Result<Self, SendError> {
        let (call, ticket, reply) = Call::new(shared, deadline);
        let room = timeout_at(deadline, queue.reserve())
            .await
            .map_err(|_elapsed| Error::new(SendErrorKind::NotSent))?
            .map_err(|_closed| closed(shared))?;
        room.send(Outgoing {
            id,
            frame,
            ticket,
            deadline,
            expect: expect(reply),
        });
        Ok(call)
    }

    /// A call whose frame the link writes by itself, once it has taken the ticket.
    pub(super) fn new(shared: &Arc<Shared>, deadline: Instant) -> (Self, Ticket, Reply<T, K>) {
        let (reply, outcome) = oneshot::channel();
        let ticket = Ticket::default();
        let call = Call {
            shared: shared.clone(),
            ticket: ticket.clone(),
            deadline,
            outcome,
        };
        (call, ticket, reply)
    }

    /// Ties the frame to this future: dropped before it is written, it is not written.
    pub(super) fn withdraw_on_drop(&self) -> Withdraw {
        Withdraw(self.ticket.clone())
    }

    /// Waits for the outcome.
    pub(super) async fn outcome(self) -> Result<T, Error<K>> {
        match timeout_at(self.deadline, self.outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_link_is_gone)) => Err(closed(&self.shared).map(K::from)),
            Err(_elapsed) => {
                let kind = overdue(&self.shared, || self.ticket.withdraw());
                Err(Error::new(K::from(kind)))
            }
        }
    }
}

/// What is known of a frame whose deadline passed.
pub(super) fn overdue(shared: &Shared, was_unsent: impl FnOnce() -> bool) -> SendErrorKind {
    if was_unsent() {
        SendErrorKind::NotSent
    } else if shared.inbox.has_room() {
        SendErrorKind::Deadline
    } else {
        SendErrorKind::InboxFull
    }
}

/// The error of a client that is closed, with the reason.
pub(super) fn closed(shared: &Shared) -> SendError {
    match shared.close_reason() {
        Some(reason) => Error::because(SendErrorKind::Closed, reason.to_string()),
        None => Error::new(SendErrorKind::Closed),
    }
}
