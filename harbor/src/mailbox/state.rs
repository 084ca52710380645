//! A mailbox's places and their indexes, which change together: the only code that touches them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Limits, Mailbox, Millis, Place, Slot, State};

impl Mailbox {
    /// An empty one.
    pub fn new(limits: Limits) -> Self {
        Mailbox {
            limits,
            slots: BTreeMap::new(),
            waiting: BTreeSet::new(),
            timers: BTreeSet::new(),
            dead: BTreeSet::new(),
            in_flight: 0,
            bytes: 0,
        }
    }

    /// Puts back a place that a store kept, whatever the bounds are now.
    pub fn restore(&mut self, place: Place) {
        let state = match place.dead {
            None => State::Waiting,
            Some(_) => State::Dead,
        };
        self.insert(place, state);
    }

    /// Messages in it, dead letters not counted.
    pub fn count(&self) -> usize {
        self.slots.len() - self.dead.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that were taken, and neither settled nor given back.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether nothing is in it, not even a dead letter.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The dead letters, the oldest first.
    pub fn dead_letters(&self) -> impl Iterator<Item = &Place> {
        self.dead
            .iter()
            .filter_map(|seq| self.slots.get(seq).map(|slot| &slot.place))
    }

    /// When [`Mailbox::tick`] next has something to do.
    pub fn next_tick(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn insert(&mut self, place: Place, state: State) {
        let seq = place.seq;
        // A number that is there already is the same message.
        self.remove(seq);
        match state {
            State::Waiting => {
                self.waiting.insert((Reverse(place.priority), seq));
            }
            State::InFlight { .. } => self.in_flight += 1,
            State::Dead => {
                self.dead.insert(seq);
            }
            State::Delayed { .. } => {}
        }
        if state != State::Dead {
            self.bytes += u64::from(place.bytes);
        }
        let slot = Slot { place, state };
        if let Some(at) = slot.timer() {
            self.timers.insert((at, seq));
        }
        self.slots.insert(seq, slot);
    }

    pub(super) fn remove(&mut self, seq: u64) -> Option<Slot> {
        let slot = self.slots.remove(&seq)?;
        match slot.state {
            State::Waiting => {
                self.waiting.remove(&(Reverse(slot.place.priority), seq));
            }
            State::InFlight { .. } => self.in_flight -= 1,
            State::Dead => {
                self.dead.remove(&seq);
            }
            State::Delayed { .. } => {}
        }
        if slot.state != State::Dead {
            self.bytes -= u64::from(slot.place.bytes);
        }
        if let Some(at) = slot.timer() {
            self.timers.remove(&(at, seq));
        }
        Some(slot)
    }
}

impl Slot {
    /// When something is to happen to it.
    fn timer(&self) -> Option<Millis> {
        let deadline = self.place.deadline;
        match self.state {
            State::Waiting | State::Dead => Some(deadline),
            State::Delayed { until } => Some(until.min(deadline)),
            State::InFlight { until } => until,
        }
    }
}
