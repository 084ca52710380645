//! What handles and the link both see.
//!
//! Stands beside a frame's way. No lock here is held across an await.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast, watch};

use super::{
    inbox::Inbox,
    membership::Membership,
    message_ids::MessageIds,
    options::Options,
    presence::Watches,
    state::{CloseReason, EVENTS_MAX, Event, State},
};
use crate::envelope::Endpoint;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    /// The endpoint as messages carry it: who, without what it can do.
    pub(super) sender: Endpoint<'static>,
    pub(super) ids: MessageIds,
    pub(super) inbox: Inbox,
    pub(super) state: watch::Sender<State>,
    /// Told once, when the client should close.
    pub(super) stop: Notify,
    /// Told whenever the wanted membership changes, or what is watched.
    pub(super) regrouped: Notify,
    membership: Mutex<Membership>,
    watches: Mutex<Watches>,
    /// `None` once the client is closed, which ends every reader.
    events: Mutex<Option<broadcast::Sender<Event>>>,
}

impl Shared {
    pub(super) fn new(options: Options, state: State) -> Self {
        let mut sender = options.agent.clone();
        sender.capabilities = Vec::new();
        Shared {
            sender,
            ids: MessageIds::new(),
            inbox: Inbox::new(options.inbox_bytes_max),
            state: watch::Sender::new(state),
            stop: Notify::new(),
            regrouped: Notify::new(),
            membership: Mutex::new(Membership::new(&options.groups)),
            watches: Mutex::default(),
            events: Mutex::new(Some(broadcast::Sender::new(EVENTS_MAX))),
            options,
        }
    }

    pub(super) fn membership(&self) -> MutexGuard<'_, Membership> {
        lock(&self.membership)
    }

    pub(super) fn watches(&self) -> MutexGuard<'_, Watches> {
        lock(&self.watches)
    }

    /// Tells whoever listens; that may be nobody.
    pub(super) fn tell(&self, event: Event) {
        if let Some(events) = &*lock(&self.events) {
            let _ = events.send(event);
        }
    }

    pub(super) fn events(&self) -> broadcast::Receiver<Event> {
        match &*lock(&self.events) {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    pub(super) fn end_events(&self) {
        lock(&self.events).take();
    }

    /// Why the client is closed for good, if it is.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        match &*self.state.borrow() {
            State::Closed(reason) => Some(reason.clone()),
            State::Connected(_) | State::Disconnected(_) => None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
