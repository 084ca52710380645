//! The one task that owns the socket: it connects, runs sessions, reconnects, and ends.
//!
//! All of a frame's way on this side goes through here, in both directions. Handles talk to it by
//! the queue and by [`Shared`]; reconnecting is invisible to them except in what they are told.

mod pages;
mod receive;
mod renewal;
mod session;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use self::session::Ending;
pub(super) use self::{receive::read_answer, renewal::End};
use super::{
    command::Outgoing,
    dial::{self, Established},
    error::{ConnectError, ConnectErrorKind, Error, SendError, SendErrorKind},
    pending::{Pending, Unheard},
    reconnect::Backoff,
    shared::Shared,
    state::{CloseReason, DisconnectReason, Event, State},
};
use crate::{Refusal, control::Join};

#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Outgoing>,
    pending: Pending,
    backoff: Backoff,
}

impl Link {
    pub(super) fn new(shared: Arc<Shared>, queue: mpsc::Receiver<Outgoing>) -> Self {
        let options = &shared.options;
        Link {
            pending: Pending::new(options.in_flight_max),
            backoff: Backoff::new(
                options.backoff_first,
                options.backoff_cap,
                options.stable_after,
            ),
            shared,
            queue,
        }
    }

    /// The first connection: one attempt, or as many as fit into
    /// [`Options::first_connection_within`](super::Options::first_connection_within).
    pub(super) async fn connect(&mut self) -> Result<Established, ConnectError> {
        let give_up = Instant::now() + self.shared.options.first_connection_within;
        loop {
            let error = match self.dial().await {
                Ok(established) => return Ok(established),
                Err(error) => error,
            };
            let delay = self.backoff.next();
            // A certificate is wrong until someone mends it; whoever just began is told at once.
            let is_untrusted = error.kind() == ConnectErrorKind::Untrusted;
            let may_pass = !is_untrusted && dial::may_pass_later(&error);
            if !may_pass || Instant::now() + delay >= give_up {
                return Err(error);
            }
            sleep(delay).await;
        }
    }

    /// Runs sessions, one after the other, until the client is closed for good.
    pub(super) async fn run(mut self, first: Established) {
        let mut established = first;
        let reason = loop {
            let started = Instant::now();
            let ending = session::run(&mut self, established).await;
            self.backoff.session_lasted(started.elapsed());
            let (reason, reconnect_after) = match ending {
                Ending::Final(reason) => break reason,
                Ending::Lost {
                    reason,
                    reconnect_after,
                } => (reason, reconnect_after),
            };
            self.disconnected(reason);
            established = match self.reconnect(reconnect_after).await {
                Ok(established) => established,
                Err(reason) => break reason,
            };
            self.reconnected(&established);
        };
        self.close(reason);
    }

    async fn dial(&self) -> Result<Established, ConnectError> {
        let groups: Vec<Join> = self.shared.membership().registration();
        let id = self.shared.ids.next();
        dial::dial(&self.shared.options, groups, id).await
    }

    /// Tries until it succeeds, is asked to stop, or must not go on.
    async fn reconnect(&mut self, at_first: Option<Duration>) -> Result<Established, CloseReason> {
        let shared = self.shared.clone();
        let mut at_least = at_first.unwrap_or_default();
        loop {
            let after = at_least + self.backoff.next();
            at_least = Duration::ZERO;
            shared.tell(Event::Retrying { after });
            if timeout(after, shared.stop.notified()).await.is_ok() {
                return Err(CloseReason::Asked);
            }
            let outcome = tokio::select! {
                () = shared.stop.notified() => return Err(CloseReason::Asked),
                outcome = self.dial() => outcome,
            };
            let error = match outcome {
                Ok(established) => return Ok(established),
                Err(error) => error,
            };
            if !dial::may_pass_later(&error) {
                return Err(final_reason(&error));
            }
            self.disconnected(DisconnectReason::NotReconnected(error.to_string()));
        }
    }

    /// What was written and not answered is in doubt now, and its callers are told.
    fn disconnected(&mut self, reason: DisconnectReason) {
        let state = State::Disconnected(reason.clone());
        self.shared.state.send_replace(state);
        self.shared.tell(Event::Disconnected(reason));
        let unheard = self.pending.disconnected();
        self.tell_unheard(unheard);
        self.shared.watches().disconnected();
    }

    fn reconnected(&self, established: &Established) {
        let session = established.session.clone();
        let state = State::Connected(session.clone());
        self.shared.state.send_replace(state);
        self.shared.tell(Event::Reconnected(session));
    }

    fn close(mut self, reason: CloseReason) {
        self.queue.close();
        // The state first: whoever is told "closed" can read why.
        let state = State::Closed(reason.clone());
        self.shared.state.send_replace(state);
        while let Ok(outgoing) = self.queue.try_recv() {
            if outgoing.ticket.take() {
                let closed = Error::because(SendErrorKind::Closed, reason.to_string());
                self.fail(outgoing, closed);
            }
        }
        let unheard = self.pending.closed();
        self.tell_unheard(unheard);
        for waiter in self.shared.membership().close() {
            let closed = Error::because(SendErrorKind::Closed, reason.to_string());
            // Nobody may be listening any more.
            let _ = waiter.send(Err(closed.into()));
        }
        for waiter in self.shared.watches().close() {
            let closed = Error::because(SendErrorKind::Closed, reason.to_string());
            let _ = waiter.reply.send(Err(closed.into()));
        }
        self.shared.inbox.close();
        self.shared.tell(Event::Closed(reason));
        self.shared.end_events();
    }

    /// Fails a frame that was not written.
    fn fail(&self, outgoing: Outgoing, error: SendError) {
        if let Err(error) = outgoing.expect.fail(error) {
            self.tell_unheard([(outgoing.id, error)]);
        }
    }

    fn tell_unheard(&self, unheard: impl IntoIterator<Item = Unheard>) {
        for (id, error) in unheard {
            self.shared.tell(Event::Failed {
                message_id: Some(id),
                error: Arc::new(error),
            });
        }
    }
}

fn final_reason(error: &ConnectError) -> CloseReason {
    match (error.kind(), error.refusal()) {
        (ConnectErrorKind::Refused | ConnectErrorKind::Unauthorised, Some(refusal)) => {
            CloseReason::Refused(Refusal::clone(refusal))
        }
        _ => CloseReason::Unauthorised,
    }
}
