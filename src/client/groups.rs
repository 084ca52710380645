//! Groups, presence and discovery: questions to Harbor itself.
//!
//! Beside a frame's way: these decide whom later messages reach.

use std::sync::MutexGuard;

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
    presence::{Watch, Watches},
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
        let feed = self.watches().subscribe(&scope);
        let watch = Watch::new(scope, feed, self.clone());
        let answer = self.ask(kind::PRESENCE_WATCH, watch.scope()).await?;
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
        if shared.close_reason().is_some() {
            return Err(closed(shared).into());
        }
        let deadline = Instant::now() + shared.options.acceptance_deadline;
        let (waiter, outcome) = oneshot::channel();
        let version = shared
            .membership()
            .want(group_id.clone(), want, Some(waiter));
        shared.regrouped.notify_one();
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
        let question = self.question(kind, payload);
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

    fn question(&self, kind: &'static str, payload: &impl serde::Serialize) -> (String, String) {
        let (id, sender) = (self.shared.ids.next(), self.shared.sender.clone());
        let envelope = control_envelope(kind, id.clone(), sender, payload);
        (id, envelope.to_json())
    }

    pub(super) fn watches(&self) -> MutexGuard<'_, Watches> {
        self.shared.watches()
    }

    pub(super) async fn unwatch(&self, scope: &Scope) -> Result<(), ControlError> {
        self.ask(kind::PRESENCE_UNWATCH, scope).await?;
        Ok(())
    }

    /// Ends a watch without waiting. If the queue is full Harbor is not told; changes that still
    /// come are passed over, and the next connection does not watch.
    pub(super) fn unwatch_unheard(&self, scope: &Scope) {
        let (id, frame) = self.question(kind::PRESENCE_UNWATCH, scope);
        let deadline = Instant::now() + self.shared.options.acceptance_deadline;
        let _ = self.handle.queue.try_send(unheard(id, frame, deadline));
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
