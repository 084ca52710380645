//! Watching who is in a group or system: a snapshot, then the changes after it.
//!
//! A side stream of the connection: `synapse.presence` frames do not go through the inbox but to
//! the [`Watch`] they belong to. The client keeps each watched roster, so a slow reader, or a new
//! connection, is served a fresh snapshot instead of missing changes.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{
    Client,
    command::{Reply, Ticket},
    error::{ControlError, ControlErrorKind, Error},
};
use crate::{
    Envelope,
    control::{Change, Member, Presence, Roster, Scope},
};

/// Changes kept for one slow [`Watch`]; beyond that they are merged into a snapshot.
const CHANGES_MAX: usize = 1_024;

/// What a [`Watch`] yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresenceEvent {
    /// Who is there now. Comes first; again after every reconnect, and in place of changes that a
    /// slow reader did not take. It replaces all that was known.
    Snapshot(Roster),
    /// One change after the last snapshot or change.
    Change(Presence),
}

/// A running watch, made by [`Client::watch`]. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    scope: Scope,
    feed: Arc<Feed>,
    client: Client,
}

impl Watch {
    pub(super) fn new(scope: Scope, feed: Arc<Feed>, client: Client) -> Self {
        Watch {
            scope,
            feed,
            client,
        }
    }

    /// What is watched.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The next event; `None` once the client is closed. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<PresenceEvent> {
        loop {
            let mut arrived = std::pin::pin!(self.feed.arrived.notified());
            arrived.as_mut().enable();
            {
                let mut queue = self.feed.lock();
                if let Some(event) = queue.events.pop_front() {
                    return Some(event);
                }
                if queue.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Ends the watch and waits for Harbor to confirm it; without a connection, or when the scope is
    /// watched by another [`Watch`], there is nothing to wait for.
    ///
    /// # Errors
    ///
    /// [`ControlErrorKind::Send`](super::ControlErrorKind::Send); the watch is over on this side
    /// all the same and not resumed on reconnect.
    pub async fn unwatch(self) -> Result<(), ControlError> {
        self.client.unwatch(&self.scope, &self.feed).await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.client.unwatch_unheard(&self.scope, &self.feed);
    }
}

/// Events on their way to one [`Watch`].
#[derive(Debug, Default)]
pub(super) struct Feed {
    queue: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<PresenceEvent>,
    closed: bool,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event; a full feed is emptied and gets the roster as it is instead.
    fn push(&self, event: PresenceEvent, roster: impl FnOnce() -> Roster) {
        let mut queue = self.lock();
        if matches!(event, PresenceEvent::Snapshot(_)) {
            queue.events.clear();
            queue.events.push_back(event);
        } else if queue.events.len() < CHANGES_MAX {
            queue.events.push_back(event);
        } else {
            queue.events.clear();
            queue.events.push_back(PresenceEvent::Snapshot(roster()));
        }
        drop(queue);
        self.arrived.notify_one();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }
}

/// Everything the client watches, and what Harbor has yet to hear about it. Handles write down here
/// what they want; only the link tells Harbor, so what it hears last is what was wanted last.
#[derive(Debug, Default)]
pub(super) struct Watches {
    scopes: HashMap<Scope, Watched>,
    /// Scopes that the session carries and nobody watches any more: Harbor is to be told. None of
    /// them is one of `scopes`.
    ended: HashMap<Scope, Option<Waiter>>,
}

#[derive(Debug, Default)]
struct Watched {
    feeds: Vec<Arc<Feed>>,
    /// Whether the current session carries the watch.
    sent: bool,
    /// Those who want Harbor's answer to a watch that is yet to be sent.
    waiters: Vec<Waiter>,
    /// `None` until the snapshot of this session came.
    known: Option<Known>,
    /// Changes that came before the snapshot.
    early: VecDeque<Presence>,
}

#[derive(Debug)]
struct Known {
    position: u64,
    members: BTreeMap<String, Member>,
}

/// A caller that wants Harbor's answer. The link takes the ticket when it writes the question.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) reply: Reply<Envelope<'static>, ControlErrorKind>,
}

impl Waiter {
    /// There is nothing left that Harbor could confirm.
    fn needless(self) {
        // Nobody may be listening any more.
        let superseded = Error::new(ControlErrorKind::Superseded);
        let _ = self.reply.send(Err(superseded));
    }
}

/// One thing to tell Harbor.
#[derive(Debug)]
pub(super) struct Tell {
    pub(super) scope: Scope,
    /// Whether to watch it from now on, or no more.
    pub(super) watch: bool,
    pub(super) waiter: Option<Waiter>,
}

impl Watches {
    /// Starts one subscription; `waiter` gets Harbor's answer.
    pub(super) fn subscribe(&mut self, scope: &Scope, waiter: Waiter) -> Arc<Feed> {
        let ended = self.ended.remove(scope);
        let feed = Arc::new(Feed::default());
        let watched = self.scopes.entry(scope.clone()).or_default();
        watched.sent |= ended.is_some();
        if let Some(Some(waiter)) = ended {
            waiter.needless();
        }
        watched.feeds.push(feed.clone());
        watched.waiters.push(waiter);
        feed
    }

    /// Ends one subscription; true when Harbor is to be told, because it was the scope's last and
    /// the session carries the watch. `waiter` gets its answer then.
    pub(super) fn unsubscribe(
        &mut self,
        scope: &Scope,
        feed: &Arc<Feed>,
        waiter: Option<Waiter>,
    ) -> bool {
        let Some(watched) = self.scopes.get_mut(scope) else {
            return false;
        };
        let is_other = |other: &Arc<Feed>| !Arc::ptr_eq(other, feed);
        watched.feeds.retain(is_other);
        if !watched.feeds.is_empty() {
            return false;
        }
        let is_to_be_told = watched.sent;
        self.scopes.remove(scope);
        if is_to_be_told {
            self.ended.insert(scope.clone(), waiter);
        }
        is_to_be_told
    }

    /// What Harbor was not told in the current session; from now on it is.
    pub(super) fn take_untold(&mut self) -> Vec<Tell> {
        let mut untold = Vec::new();
        for (scope, waiter) in self.ended.drain() {
            let waiter = waiter.filter(|waiter| waiter.ticket.take());
            untold.push(Tell {
                scope,
                watch: false,
                waiter,
            });
        }
        for (scope, watched) in &mut self.scopes {
            let waiters = watched.waiters.drain(..);
            let mut waiters = waiters.filter(|waiter| waiter.ticket.take()).peekable();
            let unheard = (!watched.sent && waiters.peek().is_none()).then_some(None);
            untold.extend(waiters.map(Some).chain(unheard).map(|waiter| Tell {
                scope: scope.clone(),
                watch: true,
                waiter,
            }));
            watched.sent = true;
        }
        untold
    }

    /// Harbor's answer to a watch.
    pub(super) fn snapshot(&mut self, roster: &Roster) {
        let scope = &roster.scope;
        let Some(watched) = self.scopes.get_mut(scope) else {
            return;
        };
        let members = roster.members.iter();
        let mut known = Known {
            position: roster.position,
            members: members
                .map(|member| (member.agent_id.clone(), member.clone()))
                .collect(),
        };
        for change in watched.early.drain(..) {
            known.apply(&change);
        }
        for feed in &watched.feeds {
            let roster = known.roster(scope);
            feed.push(PresenceEvent::Snapshot(roster), || known.roster(scope));
        }
        watched.known = Some(known);
    }

    /// One `synapse.presence` frame. Changes that the snapshot already holds are passed over.
    pub(super) fn change(&mut self, change: Presence) {
        let Some(watched) = self.scopes.get_mut(&change.scope) else {
            return;
        };
        let Some(known) = &mut watched.known else {
            if watched.early.len() == CHANGES_MAX {
                watched.early.pop_front();
            }
            watched.early.push_back(change);
            return;
        };
        if !known.apply(&change) {
            return;
        }
        for feed in &watched.feeds {
            let event = PresenceEvent::Change(change.clone());
            feed.push(event, || known.roster(&change.scope));
        }
    }

    /// Watches end with their session, and the next one counts its changes anew.
    pub(super) fn disconnected(&mut self) {
        let ended = self.ended.drain();
        ended
            .filter_map(|(_, waiter)| waiter)
            .for_each(Waiter::needless);
        for watched in self.scopes.values_mut() {
            watched.sent = false;
            watched.known = None;
            watched.early.clear();
        }
    }

    /// Ends every feed, and takes whoever still waits.
    pub(super) fn close(&mut self) -> Vec<Waiter> {
        let mut waiters: Vec<Waiter> = self
            .ended
            .drain()
            .filter_map(|(_, waiter)| waiter)
            .collect();
        for watched in self.scopes.values_mut() {
            watched.feeds.iter().for_each(|feed| feed.close());
            waiters.append(&mut watched.waiters);
        }
        waiters
    }
}

impl Known {
    /// False for a change that is not after what is known.
    fn apply(&mut self, change: &Presence) -> bool {
        if change.position <= self.position {
            return false;
        }
        self.position = change.position;
        let member = &change.member;
        match change.change {
            Change::Joined | Change::Changed => {
                self.members.insert(member.agent_id.clone(), member.clone());
            }
            Change::Left => {
                self.members.remove(&member.agent_id);
            }
        }
        true
    }

    fn roster(&self, scope: &Scope) -> Roster {
        Roster {
            scope: scope.clone(),
            position: self.position,
            more: false,
            members: self.members.values().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
