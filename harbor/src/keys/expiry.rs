//! Who will be without a live key, and when: told before it happens.
//!
//! Beside a frame's way: for the metric, the log and `harbor keys list`. A key that another follows
//! in time is nobody's trouble, or every rotation would be.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use synapse::keys::Keyring;
use tokio::time::Instant;

use crate::{clock, metrics::Metrics};

/// What ends sooner than this is warned of.
pub(super) const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How often the log warns.
const WARN_EVERY: Duration = Duration::from_secs(86_400);

/// From when a key is valid, and until when.
type Life = (Option<Timestamp>, Option<Timestamp>);

/// The moment from which somebody has no live key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) agent_id: String,
    /// `sig` or `enc`.
    pub(super) usage: &'static str,
}

/// Every end after `now`, soonest first. Who has no live key now is past warning.
pub(super) fn ends(ring: &Keyring, now: Timestamp) -> Vec<End> {
    let mut lives: BTreeMap<(&str, &'static str), Vec<Life>> = BTreeMap::new();
    for key in ring.all() {
        let of = lives.entry((&key.agent_id, "sig")).or_default();
        of.push((key.not_before, key.not_after));
    }
    for key in ring.all_sealing() {
        let of = lives.entry((&key.agent_id, "enc")).or_default();
        of.push((key.not_before, key.not_after));
    }
    let mut ends: Vec<End> = lives
        .into_iter()
        .filter_map(|((agent_id, usage), lives)| {
            let at = end(&lives, now).filter(|at| *at > now)?;
            let agent_id = agent_id.to_owned();
            Some(End {
                at,
                agent_id,
                usage,
            })
        })
        .collect();
    ends.sort_unstable();
    ends
}

/// The first moment from `now` on at which none of these is live; `None` if there is none.
fn end(lives: &[Life], now: Timestamp) -> Option<Timestamp> {
    let mut at = now;
    loop {
        let live = lives
            .iter()
            .filter(|(from, to)| from.is_none_or(|from| from <= at) && to.is_none_or(|to| at < to));
        let ends: Option<Vec<Timestamp>> = live.map(|(_, to)| *to).collect();
        match ends?.into_iter().max() {
            Some(end) => at = end,
            None => return Some(at),
        }
    }
}

/// What was last told of a ring.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    ring: Option<Arc<Keyring>>,
    first: Option<Timestamp>,
    warned_at: Option<Instant>,
}

impl Expiry {
    /// Sets the metric, and warns at the start and once a day.
    pub(crate) fn look(&mut self, ring: &Arc<Keyring>, metrics: &Metrics) {
        let now = clock::wall();
        let is_known = self
            .ring
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, ring));
        let is_due = self.warned_at.is_none_or(|at| at.elapsed() >= WARN_EVERY);
        if !is_known || is_due || self.first.is_some_and(|first| first <= now) {
            let ends = ends(ring, now);
            self.first = ends.first().map(|end| end.at);
            self.ring = Some(Arc::clone(ring));
            if is_due {
                self.warned_at = Some(clock::now());
                warn(&ends, now);
            }
        }
        let left = self.first.map(|first| first.duration_since(now));
        metrics
            .keys_expire_seconds
            .set(left.map_or(f64::INFINITY, |left| left.as_secs_f64()));
    }
}

/// One line, however many there are.
fn warn(ends: &[End], now: Timestamp) {
    let soon = ends
        .iter()
        .take_while(|end| end.at.duration_since(now) < SOON);
    let (count, Some(first)) = (soon.count(), ends.first()) else {
        return;
    };
    if count > 0 {
        tracing::warn!(
            agents = count,
            first = %first.agent_id,
            at = %first.at,
            "agents will be without a live key within 7 days; see harbor keys list"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synapse::keys::{Algorithm, Key};

    fn at(text: &str) -> Option<Timestamp> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn what_follows_in_time_puts_the_end_off_and_a_gap_does_not() {
        let now = at("2026-01-01T00:00:00Z").unwrap();
        let february = (None, at("2026-02-01T00:00:00Z"));
        let march = (at("2026-02-01T00:00:00Z"), at("2026-03-01T00:00:00Z"));
        let later = (at("2026-03-02T00:00:00Z"), None);
        let never = (at("2026-02-28T00:00:00Z"), None);
        let past = (None, at("2025-12-01T00:00:00Z"));
        assert_eq!(end(&[february], now), february.1);
        assert_eq!(end(&[march, february], now), march.1);
        assert_eq!(end(&[february, later, march], now), march.1);
        assert_eq!(end(&[february, march, never], now), None);
        assert_eq!(end(&[past, later], now), Some(now));
    }

    #[test]
    fn only_who_has_a_live_key_can_lose_it_and_the_soonest_is_first() {
        let now = at("2026-01-01T00:00:00Z").unwrap();
        let mut ring = Keyring::default();
        for (agent_id, kid, not_after) in [
            ("alice", "a", at("2026-01-09T00:00:00Z")),
            ("bob", "b", at("2026-01-02T00:00:00Z")),
            ("carol", "c1", at("2026-01-02T00:00:00Z")),
            ("carol", "c2", None),
            ("dave", "d", at("2025-12-31T00:00:00Z")),
        ] {
            let mut key = Key::generate(kid, agent_id, Algorithm::Ed25519).unwrap();
            key.not_after = not_after;
            ring.add(key).unwrap();
        }
        let ends = ends(&ring, now);
        let who: Vec<_> = ends.iter().map(|end| (&*end.agent_id, end.usage)).collect();
        assert_eq!(who, [("bob", "sig"), ("alice", "sig")]);
    }
}
