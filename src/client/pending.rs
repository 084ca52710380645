//! Frames that were written and wait for what comes back, found by `correlation_id`.
//!
//! Where the two directions of a connection meet: the link notes a frame here as it writes it and
//! settles it when the acceptance, refusal or answer is read. It outlives a connection, because an
//! accepted request may be answered over the next one.

use std::collections::HashMap;

use tokio::time::Instant;

use super::{
    command::Expect,
    error::{Error, RequestErrorKind, SendError, SendErrorKind},
};
use crate::{
    Envelope,
    control::{Accepted, RefusedPayload},
};

#[derive(Debug)]
pub(super) struct Pending {
    waiting: HashMap<String, Waiting>,
    /// How many of them Harbor has not answered at all.
    unanswered: usize,
    unanswered_max: usize,
}

#[derive(Debug)]
struct Waiting {
    expect: Expect,
    deadline: Instant,
    accepted: bool,
}

/// A failure nobody waits for.
pub(super) type Unheard = (String, SendError);

impl Pending {
    pub(super) fn new(unanswered_max: usize) -> Self {
        Pending {
            waiting: HashMap::new(),
            unanswered: 0,
            unanswered_max,
        }
    }

    /// Whether another frame may be written.
    pub(super) fn has_room(&self) -> bool {
        self.unanswered < self.unanswered_max
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    /// Notes a frame as written.
    pub(super) fn insert(&mut self, id: String, expect: Expect, deadline: Instant) {
        self.unanswered += 1;
        let waiting = Waiting {
            expect,
            deadline,
            accepted: false,
        };
        self.waiting.insert(id, waiting);
    }

    fn remove(&mut self, id: &str) -> Option<Expect> {
        let waiting = self.waiting.remove(id)?;
        self.unanswered -= usize::from(!waiting.accepted);
        Some(waiting.expect)
    }

    /// `synapse.accepted` for this id. A request that reached nobody fails here and now; another
    /// goes on waiting for its answer.
    pub(super) fn accepted(&mut self, id: &str, accepted: Accepted) {
        let Some(waiting) = self.waiting.get_mut(id) else {
            return;
        };
        if matches!(waiting.expect, Expect::Answer(_)) && accepted.recipients > 0 {
            self.unanswered -= usize::from(!waiting.accepted);
            waiting.accepted = true;
            return;
        }
        // Whoever gave up waiting does not hear of it.
        match self.remove(id) {
            Some(Expect::Acceptance(reply)) => drop(reply.send(Ok(accepted))),
            Some(Expect::Answer(reply)) => {
                drop(reply.send(Err(Error::new(RequestErrorKind::NoRecipients))));
            }
            Some(Expect::Nothing | Expect::Control(_) | Expect::Membership { .. }) | None => {}
        }
    }

    /// `synapse.refused`, or an answer of Harbor's, for this id: what was expected, to be settled.
    pub(super) fn take(&mut self, id: &str) -> Option<Expect> {
        self.remove(id)
    }

    /// A message that may answer a request; given back when it does not.
    pub(super) fn answered(&mut self, message: Envelope<'static>) -> Option<Envelope<'static>> {
        let id = &*message.correlation_id;
        let is_request = self
            .waiting
            .get(id)
            .is_some_and(|waiting| matches!(waiting.expect, Expect::Answer(_)));
        if !is_request {
            return Some(message);
        }
        match self.remove(id) {
            Some(Expect::Answer(reply)) => match reply.send(Ok(message)) {
                // Too late for the caller: it is delivered like any other message.
                Err(Ok(message)) => Some(message),
                Ok(()) | Err(Err(_)) => None,
            },
            Some(_) | None => Some(message),
        }
    }

    /// The connection is gone: everything that is not an accepted request fails.
    pub(super) fn disconnected(&mut self) -> Vec<Unheard> {
        self.fail_where(SendErrorKind::Disconnected, |waiting| !waiting.accepted)
    }

    /// The client is closed: everything fails.
    pub(super) fn closed(&mut self) -> Vec<Unheard> {
        self.fail_where(SendErrorKind::Closed, |_| true)
    }

    /// Lets go of what nobody waits for any more.
    pub(super) fn sweep(&mut self, now: Instant) -> Vec<Unheard> {
        self.fail_where(SendErrorKind::Deadline, |waiting| waiting.deadline < now)
    }

    fn fail_where(
        &mut self,
        kind: SendErrorKind,
        fails: impl Fn(&Waiting) -> bool,
    ) -> Vec<Unheard> {
        let failed: Vec<_> = self
            .waiting
            .extract_if(|_, waiting| fails(waiting))
            .collect();
        let unanswered = failed
            .iter()
            .filter(|(_, waiting)| !waiting.accepted)
            .count();
        self.unanswered -= unanswered;
        failed
            .into_iter()
            .filter_map(|(id, waiting)| {
                let unheard = waiting.expect.fail(Error::new(kind)).err()?;
                Some((id, unheard))
            })
            .collect()
    }
}

/// A refusal as an error of the message it is about.
pub(super) fn refusal(payload: RefusedPayload) -> SendError {
    Error::refused(SendErrorKind::Refused, payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Durability;
    use tokio::sync::oneshot;

    fn accepted(recipients: u64) -> Accepted {
        Accepted {
            durability: Durability::Routed,
            recipients,
            duplicate: false,
        }
    }

    fn answer(to: &'static str) -> Envelope<'static> {
        Envelope::new("t").answering(to)
    }

    fn pending() -> (Pending, Instant) {
        (
            Pending::new(2),
            Instant::now() + std::time::Duration::from_secs(9),
        )
    }

    #[tokio::test]
    async fn acceptances_find_their_send_in_any_order() {
        let (mut pending, deadline) = pending();
        let (one, mut first) = oneshot::channel();
        let (two, mut second) = oneshot::channel();
        pending.insert("1".into(), Expect::Acceptance(one), deadline);
        pending.insert("2".into(), Expect::Acceptance(two), deadline);
        assert!(!pending.has_room());
        pending.accepted("2", accepted(2));
        pending.accepted("unknown", accepted(9));
        pending.accepted("1", accepted(1));
        assert_eq!(first.try_recv().unwrap().unwrap().recipients, 1);
        assert_eq!(second.try_recv().unwrap().unwrap().recipients, 2);
        assert!(pending.has_room());
    }

    #[tokio::test]
    async fn a_request_is_answered_before_or_after_its_acceptance() {
        let (mut pending, deadline) = pending();
        for accepted_first in [true, false] {
            let (reply, mut outcome) = oneshot::channel();
            pending.insert("1".into(), Expect::Answer(reply), deadline);
            if accepted_first {
                pending.accepted("1", accepted(1));
                assert!(outcome.try_recv().is_err());
            }
            assert!(pending.answered(answer("1")).is_none());
            assert!(outcome.try_recv().unwrap().is_ok());
            assert!(
                pending.answered(answer("1")).is_some(),
                "a second answer is a message"
            );
        }
        assert_eq!(pending.unanswered, 0);
    }

    #[tokio::test]
    async fn a_request_to_nobody_fails_at_once() {
        let (mut pending, deadline) = pending();
        let (reply, mut outcome) = oneshot::channel();
        pending.insert("1".into(), Expect::Answer(reply), deadline);
        pending.accepted("1", accepted(0));
        let error = outcome.try_recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), RequestErrorKind::NoRecipients);
    }

    #[tokio::test]
    async fn an_answer_whose_caller_left_becomes_a_message() {
        let (mut pending, deadline) = pending();
        let (reply, outcome) = oneshot::channel();
        pending.insert("1".into(), Expect::Answer(reply), deadline);
        drop(outcome);
        assert!(pending.answered(answer("1")).is_some());
    }

    #[tokio::test]
    async fn a_lost_connection_spares_only_accepted_requests() {
        let (mut pending, deadline) = pending();
        let (send, mut sent) = oneshot::channel();
        let (request, mut answered) = oneshot::channel();
        let (posted, dropped) = oneshot::channel::<Result<Accepted, SendError>>();
        drop(dropped);
        pending.insert("send".into(), Expect::Acceptance(send), deadline);
        pending.insert("request".into(), Expect::Answer(request), deadline);
        pending.insert("posted".into(), Expect::Acceptance(posted), deadline);
        pending.accepted("request", accepted(1));
        let unheard = pending.disconnected();
        assert_eq!(unheard.len(), 1);
        assert_eq!(unheard[0].0, "posted");
        let error = sent.try_recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), SendErrorKind::Disconnected);
        assert!(pending.answered(answer("request")).is_none());
        assert!(answered.try_recv().unwrap().is_ok());
        assert_eq!(pending.unanswered, 0);
    }

    #[tokio::test]
    async fn what_is_past_its_deadline_is_swept() {
        let (mut pending, deadline) = pending();
        pending.insert("1".into(), Expect::Nothing, deadline);
        assert!(pending.sweep(Instant::now()).is_empty());
        let later = deadline + std::time::Duration::from_secs(1);
        assert_eq!(pending.sweep(later).len(), 1);
        assert!(pending.waiting.is_empty());
    }
}
