//! Groups, presence and discovery: questions to Harbor itself.
//!
//! Beside a frame's way: these decide whom later messages reach.

use std::sync::{Arc, MutexGuard};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Client,
    call::{Call, closed, overdue},
    command::{Expect, Outgoing, Ticket},
    dial::control_envelope,
    error::{ControlError, ControlErrorKind, Error, SendError},
    link::read_answer,
    membership::Want,
    presence::{Feed, Waiter, Watch, Watches},
};
use crate::{
    Envelope,
    control::{Discover, Discovered, GroupRef, Roster, Scope, kind},
};

impl Client {
    /// Joins a group with these roles (none is fine), or changes the roles in it, and gives its
    /// members. From now on the client is a member: it joins again on every reconnect, until
    /// [`Client::leave`].
    ///
    /// # Errors
    ///
    /// [`ControlErrorKind::Send`] with `Refused`: Harbor said no, and it is not tried again.
    /// With `NotSent`, `Deadline` or `Disconnected` the group is still wanted and will be joined on
    /// the next connection; call [`Client::leave`] to take that back.
    /// [`ControlErrorKind::Superseded`]: another join or leave of the group came after this one.
    pub async fn join<R: Into<String>>(
        &self,
        group_id: impl Into<String>,
        roles: impl IntoIterator<Item = R>,
    ) -> Result<Roster, ControlError> {
        let roles = roles.into_iter().map(Into::into).collect();
        let answer = self.want(group_id.into(), Want::In(roles)).await?;
        read_answer(&answer)
    }

    /// Leaves a group. From now on the client is no member, even if this happens without a
    /// connection or fails: it does not join again on reconnect.
    ///
    /// # Errors
    ///
    /// As [`Client::join`]; each means only that Harbor may not know yet.
    pub async fn leave(&self, group_id: impl Into<String>) -> Result<(), ControlError> {
        self.want(group_id.into(), Want::Out).await?;
        Ok(())
    }

    /// The members of a group.
    ///
    /// # Errors
    ///
    /// [`ControlErrorKind::Send`] when Harbor refuses or does not answer,
    /// [`ControlErrorKind::Unreadable`] when it answers in a form this version does not know.
    pub async fn members(&self, group_id: impl Into<String>) -> Result<Roster, ControlError> {
        let group_id = group_id.into();
        let answer = self
            .ask(kind::GROUP_MEMBERS, &GroupRef { group_id })
            .await?;
        read_answer(&answer)
    }

    /// Watches who is in a group or system. The first event of the [`Watch`] is a snapshot.
    ///
    /// # Errors
    ///
    /// As [`Client::members`].
    pub async fn watch(&self, scope: Scope) -> Result<Watch, ControlError> {
        let (call, waiter) = self.waiting();
        let feed = self.watches().subscribe(&scope, waiter);
        let watch = Watch::new(scope, feed, self.clone());
        let answer = self.told(call).await?;
        read_answer::<Roster>(&answer)?;
        Ok(watch)
    }

    /// Finds agents that meet every condition given.
    ///
    /// # Errors
    ///
    /// As [`Client::members`].
    pub async fn discover(&self, conditions: Discover) -> Result<Discovered, ControlError> {
        let answer = self.ask(kind::DISCOVER, &conditions).await?;
        read_answer(&answer)
    }

    /// Writes down what is wanted and waits for Harbor to have done it.
    async fn want(&self, group_id: String, want: Want) -> Result<Envelope<'static>, ControlError> {
        let shared = &self.shared;
        let deadline = Instant::now() + shared.options.acceptance_deadline;
        let (waiter, outcome) = oneshot::channel();
        let version = shared
            .membership()
            .want(group_id.clone(), want, Some(waiter));
        self.heeded()?;
        match timeout_at(deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_link_is_gone)) => Err(closed(shared).into()),
            Err(_elapsed) => {
                let is_unsent = || shared.membership().is_unsent(&group_id, version);
                Err(Error::new(overdue(shared, is_unsent).into()))
            }
        }
    }

    async fn ask(
        &self,
        kind: &'static str,
        payload: &impl serde::Serialize,
    ) -> Result<Envelope<'static>, ControlError> {
        let deadline = Instant::now() + self.shared.options.acceptance_deadline;
        let queue = &self.handle.queue;
        let (id, sender) = (self.shared.ids.next(), self.shared.sender.clone());
        let envelope = control_envelope(kind, id.clone(), sender, payload);
        let question = (id, self.shared.options.control_frame(&envelope));
        let call = Call::<_, ControlErrorKind>::place(
            &self.shared,
            queue,
            question,
            deadline,
            Expect::Control,
        )
        .await?;
        let _withdraw = call.withdraw_on_drop();
        call.outcome().await
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.shared.watches()
    }

    /// Ends a watch; if it was the scope's last, Harbor is told and confirms it.
    pub(super) async fn unwatch(
        &self,
        scope: &Scope,
        feed: &Arc<Feed>,
    ) -> Result<(), ControlError> {
        let (call, waiter) = self.waiting();
        if !self.watches().unsubscribe(scope, feed, Some(waiter)) {
            return Ok(());
        }
        match self.told(call).await {
            // The scope is watched again, or the session is over: Harbor has nothing to end.
            Err(error) if error.kind() == ControlErrorKind::Superseded => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Ends a watch without waiting.
    pub(super) fn unwatch_unheard(&self, scope: &Scope, feed: &Arc<Feed>) {
        if self.watches().unsubscribe(scope, feed, None) {
            self.shared.regrouped.notify_one();
        }
    }

    /// A call about a watch, and who waits for it.
    fn waiting(&self) -> (Call<Envelope<'static>, ControlErrorKind>, Waiter) {
        let deadline = Instant::now() + self.shared.options.acceptance_deadline;
        let (call, ticket, reply) = Call::new(&self.shared, deadline);
        (call, Waiter { ticket, reply })
    }

    /// Has the link tell Harbor what was written down, and waits for the answer.
    async fn told(
        &self,
        call: Call<Envelope<'static>, ControlErrorKind>,
    ) -> Result<Envelope<'static>, ControlError> {
        self.heeded()?;
        call.outcome().await
    }

    /// Wakes the link for what was written down. A link that ended before that does not see it.
    fn heeded(&self) -> Result<(), ControlError> {
        self.shared.regrouped.notify_one();
        match self.shared.close_reason() {
            Some(_) => Err(closed(&self.shared).into()),
            None => Ok(()),
        }
    }

    pub(super) async fn place_unheard(
        &self,
        id: String,
        frame: String,
        deadline: Instant,
    ) -> Result<(), SendError> {
        use super::error::SendErrorKind::NotSent;
        timeout_at(
            deadline,
            self.handle.queue.send(unheard(id, frame, deadline)),
        )
        .await
        .map_err(|_elapsed| Error::new(NotSent))?
        .map_err(|_closed| closed(&self.shared))
    }
}

/// A frame nobody waits for.
fn unheard(id: String, frame: String, deadline: Instant) -> Outgoing {
    Outgoing {
        id,
        frame,
        ticket: Ticket::default(),
        deadline,
        expect: Expect::Nothing,
    }
}
