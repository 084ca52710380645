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

use super::{Client, error::ControlError};
use crate::control::{Change, Member, Presence, Roster, Scope};

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

    /// Ends the watch and waits for Harbor to confirm it.
    ///
    /// # Errors
    ///
    /// [`ControlErrorKind::Send`](super::ControlErrorKind::Send); the watch is over on this side
    /// all the same and not resumed on reconnect.
    pub async fn unwatch(self) -> Result<(), ControlError> {
        if self.client.watches().unsubscribe(&self.scope, &self.feed) {
            self.client.unwatch(&self.scope).await?;
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.client.watches().unsubscribe(&self.scope, &self.feed) {
            self.client.unwatch_unheard(&self.scope);
        }
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

/// Everything the client watches.
#[derive(Debug, Default)]
pub(super) struct Watches {
    scopes: HashMap<Scope, Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    feeds: Vec<Arc<Feed>>,
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

impl Watches {
    pub(super) fn subscribe(&mut self, scope: &Scope) -> Arc<Feed> {
        let feed = Arc::new(Feed::default());
        let watched = self.scopes.entry(scope.clone()).or_default();
        watched.feeds.push(feed.clone());
        feed
    }

    /// Ends one subscription; true when it was the scope's last.
    pub(super) fn unsubscribe(&mut self, scope: &Scope, feed: &Arc<Feed>) -> bool {
        let Some(watched) = self.scopes.get_mut(scope) else {
            return false;
        };
        watched.feeds.retain(|other| !Arc::ptr_eq(other, feed));
        let was_last = watched.feeds.is_empty();
        if was_last {
            self.scopes.remove(scope);
        }
        was_last
    }

    /// What to ask for on a new connection.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        self.scopes.keys().cloned().collect()
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

    /// The next session counts its changes anew.
    pub(super) fn disconnected(&mut self) {
        for watched in self.scopes.values_mut() {
            watched.known = None;
            watched.early.clear();
        }
    }

    pub(super) fn close(&mut self) {
        for watched in self.scopes.values() {
            watched.feeds.iter().for_each(|feed| feed.close());
        }
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
