//! What handles hand to the task that owns the socket, and what they expect back.
//!
//! The first hop of a frame's way: a handle serialises the envelope, puts it into the bounded queue
//! as an [`Outgoing`], and waits at the other end of its [`Expect`].

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::{sync::oneshot, time::Instant};

use super::error::{ControlErrorKind, Error, RequestErrorKind, SendError, SendErrorKind};
use crate::{Envelope, control::Accepted};

/// One frame to be written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) id: String,
    pub(super) frame: String,
    pub(super) ticket: Ticket,
    /// After this nobody waits for it any more.
    pub(super) deadline: Instant,
    pub(super) expect: Expect,
}

/// Where an outcome goes.
pub(super) type Reply<T, K> = oneshot::Sender<Result<T, Error<K>>>;

/// What should come back for a frame.
#[derive(Debug)]
pub(super) enum Expect {
    /// Nothing anybody waits for.
    Nothing,
    /// `synapse.accepted`.
    Acceptance(Reply<Accepted, SendErrorKind>),
    /// A message whose `correlation_id` is the frame's id.
    Answer(Reply<Envelope<'static>, RequestErrorKind>),
    /// Harbor's answer of the same type.
    Control(Reply<Envelope<'static>, ControlErrorKind>),
    /// Harbor's answer to a join or leave, and which intent it settles.
    Membership {
        group_id: String,
        version: u64,
        reply: Option<Reply<Envelope<'static>, ControlErrorKind>>,
    },
}

impl Expect {
    /// Tells the caller that it failed; gives the error back when nobody listens.
    pub(super) fn fail(self, error: SendError) -> Result<(), SendError> {
        fn tell<T, K: From<SendErrorKind>>(
            reply: Reply<T, K>,
            error: SendError,
        ) -> Result<(), SendError> {
            if reply.is_closed() {
                return Err(error);
            }
            // A caller that leaves at this very moment is as good as one that left just after.
            let _ = reply.send(Err(error.map(K::from)));
            Ok(())
        }
        match self {
            Expect::Nothing | Expect::Membership { reply: None, .. } => Err(error),
            Expect::Acceptance(reply) => tell(reply, error),
            Expect::Answer(reply) => tell(reply, error),
            Expect::Control(reply)
            | Expect::Membership {
                reply: Some(reply), ..
            } => tell(reply, error),
        }
    }
}

/// Decides between the link, which wants to write a frame, and its caller, which may give up: one
/// of them gets it. So a caller that gave up knows for certain whether the frame went out.
#[derive(Debug, Clone, Default)]
pub(super) struct Ticket(Arc<AtomicU8>);

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Ticket {
    /// The link takes the frame; false when it was withdrawn.
    pub(super) fn take(&self) -> bool {
        self.settle(TAKEN)
    }

    /// The caller withdraws the frame; false when it was taken before.
    pub(super) fn withdraw(&self) -> bool {
        self.settle(WITHDRAWN)
    }

    fn settle(&self, to: u8) -> bool {
        let settled = self
            .0
            .compare_exchange(QUEUED, to, Ordering::AcqRel, Ordering::Acquire);
        settled.is_ok() || settled == Err(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_or_withdrawn_never_both() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(!ticket.withdraw());
        let ticket = Ticket::default();
        assert!(ticket.withdraw());
        assert!(ticket.withdraw(), "it stays withdrawn");
        assert!(!ticket.take());
    }
}
