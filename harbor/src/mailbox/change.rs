//! What can happen to a mailbox: messages come, are taken, settled, given back, and time passes.

use std::cmp::Reverse;

use super::{DeadReason, Full, Mailbox, Millis, Outcome, Place, State, Waits, WhenFull, Which};

impl Mailbox {
    /// Takes in a message. Says what gave way to it.
    ///
    /// # Errors
    ///
    /// [`Full`]: nothing has changed. Also where others would give way, if those of its priority or less that
    /// wait are too few.
    pub fn keep(&mut self, place: Place) -> Result<Vec<Outcome>, Full> {
        let mut dropped = Vec::new();
        let (mut count, mut bytes) = (self.count() + 1, self.bytes + u64::from(place.bytes));
        let limits = self.limits;
        let is_over =
            |count: usize, bytes: u64| count > limits.count_max || bytes > limits.bytes_max;
        if is_over(count, bytes) && limits.when_full == WhenFull::DropOldest {
            // Nothing gives way to what is less urgent.
            let less = (0..=place.priority).flat_map(|priority| self.waiting_of(priority));
            for oldest in less {
                if !is_over(count, bytes) {
                    break;
                }
                count -= 1;
                bytes -= u64::from(oldest.bytes);
                dropped.push(oldest);
            }
        }
        if is_over(count, bytes) {
            return Err(Full {
                count: self.count(),
                bytes: self.bytes,
            });
        }
        for place in &dropped {
            self.remove(place.seq);
        }
        self.insert(place, State::Waiting);
        Ok(dropped.into_iter().map(Outcome::Dropped).collect())
    }

    /// Takes the next message that is still wanted, if fewer than
    /// `in_flight_max` are on their way. Its count is one higher.
    pub fn take(&mut self, now: Millis, waits: Waits, in_flight_max: usize) -> Option<Place> {
        if self.in_flight >= in_flight_max {
            return None;
        }
        let wanted = self.waiting.iter().find(|(_, seq)| {
            let slot = self.slots.get(seq);
            slot.is_some_and(|slot| slot.place.deadline > now)
        });
        let seq = wanted?.1;
        let mut place = self.remove(seq)?.place;
        place.deliveries = place.deliveries.saturating_add(1);
        let until = match waits {
            Waits::ForSocket => None,
            Waits::ForAgent => Some(now.saturating_add(self.limits.ack_wait)),
        };
        self.insert(place, State::InFlight { until });
        Some(place)
    }

    /// Ends messages that were processed. Doing it again changes nothing, and neither does it for one
    /// that was never delivered. One that is waiting to be delivered again is ended too.
    pub fn settle(&mut self, which: Which<'_>) -> Vec<Outcome> {
        let settled = self.delivered(which);
        let gone = settled.into_iter().filter_map(|seq| self.remove(seq));
        gone.map(|slot| Outcome::Settled(slot.place)).collect()
    }

    /// Has messages delivered again after `delay`, or no more if that was often enough.
    pub fn nack(&mut self, which: Which<'_>, delay: Millis, now: Millis) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for seq in self.delivered(which) {
            let slot = self.slots.get(&seq);
            if slot.is_some_and(|slot| matches!(slot.state, State::InFlight { .. })) {
                outcomes.extend(self.try_again(seq, delay, now, DeadReason::Rejected));
            }
        }
        outcomes
    }

    /// Gives back everything that is in flight, because its connection has ended: the next one gets it
    /// again, in its old order. What was not written, as `unwritten` says, was not delivered either,
    /// and its count is one lower again.
    pub fn give_back(&mut self, unwritten: &[u64]) {
        let all: Vec<u64> = self
            .slots
            .iter()
            .filter(|(_, slot)| matches!(slot.state, State::InFlight { .. }))
            .map(|(seq, _)| *seq)
            .collect();
        for seq in all {
            if let Some(mut slot) = self.remove(seq) {
                if unwritten.contains(&seq) {
                    slot.place.deliveries -= 1;
                }
                self.insert(slot.place, State::Waiting);
            }
        }
    }

    /// Does what is due: expires, ends delays, and gives up waiting for acknowledgements.
    pub fn tick(&mut self, now: Millis) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Some(&(at, seq)) = self.timers.first()
            && at <= now
        {
            let Some(slot) = self.slots.get(&seq).copied() else {
                // An index that names what is not there would be found here for ever.
                self.timers.remove(&(at, seq));
                continue;
            };
            match slot.state {
                State::InFlight { .. } => {
                    outcomes.extend(self.try_again(seq, 0, now, DeadReason::Unacknowledged));
                }
                State::Delayed { .. } if slot.place.deadline > now => {
                    self.insert(slot.place, State::Waiting);
                    outcomes.push(Outcome::Again(slot.place));
                }
                State::Waiting | State::Delayed { .. } | State::Dead => {
                    self.remove(seq);
                    outcomes.push(Outcome::Expired(slot.place));
                }
            }
        }
        outcomes
    }

    /// Makes a dead letter a message again that is wanted until `deadline`.
    pub fn replay(&mut self, seq: u64, deadline: Millis) -> Option<Place> {
        self.dead.get(&seq)?;
        let mut place = self.remove(seq)?.place;
        place.dead = None;
        place.deliveries = 0;
        place.deadline = deadline;
        self.insert(place, State::Waiting);
        Some(place)
    }

    /// Throws a dead letter away.
    pub fn purge(&mut self, seq: u64) -> Option<Place> {
        self.dead.get(&seq)?;
        self.remove(seq).map(|slot| slot.place)
    }

    /// Those of an acknowledgement that were delivered, and are not dead.
    fn delivered(&self, which: Which<'_>) -> Vec<u64> {
        let is_delivered = |seq: &u64| {
            let slot = self.slots.get(seq);
            slot.is_some_and(|slot| slot.place.deliveries > 0 && slot.state != State::Dead)
        };
        match which {
            Which::Seqs(seqs) => seqs.iter().copied().filter(is_delivered).collect(),
            Which::Through(last) => {
                let upto = self.slots.range(..=last).map(|(seq, _)| *seq);
                upto.filter(is_delivered).collect()
            }
        }
    }

    /// What can be taken of one priority, the oldest first.
    fn waiting_of(&self, priority: u8) -> impl Iterator<Item = Place> {
        let priority = Reverse(priority);
        let waiting = self.waiting.range((priority, 0)..=(priority, u64::MAX));
        waiting.filter_map(|(_, seq)| self.slots.get(seq).map(|slot| slot.place))
    }

    fn try_again(
        &mut self,
        seq: u64,
        delay: Millis,
        now: Millis,
        reason: DeadReason,
    ) -> Vec<Outcome> {
        let Some(slot) = self.remove(seq) else {
            return Vec::new();
        };
        let mut place = slot.place;
        if place.deadline <= now {
            return vec![Outcome::Expired(place)];
        }
        if place.deliveries >= self.limits.max_deliveries {
            place.dead = Some(reason);
            place.deadline = now.saturating_add(self.limits.dead_retention);
            self.insert(place, State::Dead);
            let mut outcomes = vec![Outcome::Dead(place)];
            while self.dead.len() > self.limits.dead_max
                && let Some(oldest) = self.dead.first().copied()
                && let Some(slot) = self.remove(oldest)
            {
                outcomes.push(Outcome::Dropped(slot.place));
            }
            return outcomes;
        }
        if delay == 0 {
            self.insert(place, State::Waiting);
            return vec![Outcome::Again(place)];
        }
        let until = now.saturating_add(delay);
        self.insert(place, State::Delayed { until });
        Vec::new()
    }
}
