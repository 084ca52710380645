//! How fast one agent may send: a bucket of messages and one of bytes.
//!
//! Asked by intake behind decoding, before a message costs more. A pace belongs to the agent: its
//! next connection goes on with it, whether that took over or came later. Both buckets give or
//! neither does, so that a refused message costs nothing and the time it is told is true; ready
//! limiters give from one bucket and take nothing back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use parking_lot::Mutex;
use synapse::{Code, Refusal};

use crate::{
    clock::{self, Instant},
    config::Config,
    limits::PACES_SWEEP_MIN,
    metrics::{Limit, Metrics},
};

/// The paces of all agents of a node.
#[derive(Debug)]
pub(crate) struct Paces {
    rates: Option<Rates>,
    table: DashMap<Arc<str>, Arc<Pace>>,
    /// Most that are kept once their agents are gone.
    kept_max: usize,
    /// From how many on the table is swept.
    sweep_at: AtomicUsize,
}

/// The pace of one agent.
#[derive(Debug)]
pub(crate) struct Pace {
    rates: Rates,
    full_at: Mutex<FullAt>,
}

/// How fast an agent may send; at least one of both.
#[derive(Debug, Clone, Copy)]
struct Rates {
    messages: Option<Rate>,
    bytes: Option<Rate>,
}

#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: u32,
    /// How long an empty bucket takes to be full.
    burst: Duration,
}

/// When each bucket is full again, if nothing is taken: all there is to know about it.
#[derive(Debug, Clone, Copy)]
struct FullAt {
    messages: Instant,
    bytes: Instant,
}

/// A bucket did not hold enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TooFast {
    limit: Limit,
    /// How long until it does.
    wait: Duration,
}

impl Paces {
    pub(crate) fn new(config: &Config) -> Self {
        let messages = Rate::new(config.messages_per_second).map(|rate| Rate {
            // What so many single messages take, to the nanosecond.
            burst: rate.time_for(1) * rate.per_second,
            ..rate
        });
        let bytes = Rate::new(config.bytes_per_second).map(|rate| Rate {
            // A bucket smaller than a frame would never let it pass.
            burst: rate.burst.max(rate.time_for(config.max_frame_bytes as u64)),
            ..rate
        });
        Paces {
            rates: messages.or(bytes).map(|_| Rates { messages, bytes }),
            table: DashMap::new(),
            kept_max: config.connections_max,
            sweep_at: AtomicUsize::new(PACES_SWEEP_MIN),
        }
    }

    /// That of an agent; `None` when it may send as fast as it can.
    pub(crate) fn of(&self, agent_id: &Arc<str>) -> Option<Arc<Pace>> {
        let rates = self.rates?;
        let now = clock::now();
        if self.table.len() >= self.sweep_at.load(Ordering::Relaxed) {
            self.sweep(now);
        }
        let pace = self.table.entry(Arc::clone(agent_id)).or_insert_with(|| {
            let (messages, bytes) = (now, now);
            let full_at = Mutex::new(FullAt { messages, bytes });
            Arc::new(Pace { rates, full_at })
        });
        Some(Arc::clone(&pace))
    }

    /// Forgets agents that are gone: those whose buckets are full again, which a new pace is too,
    /// and all of them when there are too many.
    fn sweep(&self, now: Instant) {
        // Shared only under the entry's lock, which is held here.
        let is_held = |pace: &Arc<Pace>| Arc::strong_count(pace) > 1;
        self.table
            .retain(|_, pace| is_held(pace) || !pace.is_full(now));
        let gone = self.table.iter().filter(|entry| !is_held(entry.value()));
        if gone.count() > self.kept_max {
            self.table.retain(|_, pace| is_held(pace));
        }
        let sweep_at = (2 * self.table.len()).max(PACES_SWEEP_MIN);
        self.sweep_at.store(sweep_at, Ordering::Relaxed);
    }
}

impl Pace {
    /// Takes one message of so many bytes.
    ///
    /// # Errors
    ///
    /// [`Code::RateLimited`], with the time until the same message would pass.
    pub(crate) fn take(
        &self,
        bytes: usize,
        now: Instant,
        metrics: &Metrics,
    ) -> Result<(), Refusal> {
        let Err(TooFast { limit, wait }) = self.try_take(bytes as u64, now) else {
            return Ok(());
        };
        metrics.limited(limit);
        let reason = format!("the agent sends more than its {} allow", limit.label());
        let wait_ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000));
        Err(Refusal::new(Code::RateLimited, reason).retry_after_ms(wait_ms.unwrap_or(u64::MAX)))
    }

    fn try_take(&self, bytes: u64, now: Instant) -> Result<(), TooFast> {
        let mut full_at = self.full_at.lock();
        let messages = after(self.rates.messages, full_at.messages, 1, now);
        let bytes = after(self.rates.bytes, full_at.bytes, bytes, now);
        let wait = |taken: Result<Instant, Duration>| taken.err().unwrap_or_default();
        match (messages, bytes) {
            (Ok(messages), Ok(bytes)) => {
                *full_at = FullAt { messages, bytes };
                Ok(())
            }
            _ if wait(messages) >= wait(bytes) => Err(TooFast {
                limit: Limit::MessagesPerSecond,
                wait: wait(messages),
            }),
            _ => Err(TooFast {
                limit: Limit::BytesPerSecond,
                wait: wait(bytes),
            }),
        }
    }

    fn is_full(&self, now: Instant) -> bool {
        let full_at = self.full_at.lock();
        full_at.messages <= now && full_at.bytes <= now
    }
}

impl Rate {
    /// A rate whose bucket holds what flows in a second; `None` for 0, which is any rate.
    fn new(per_second: u32) -> Option<Rate> {
        let burst = Duration::from_secs(1);
        (per_second > 0).then_some(Rate { per_second, burst })
    }

    /// How long so much takes to flow in. Rounded down, so that a burst fits its bucket.
    fn time_for(self, units: u64) -> Duration {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// When a bucket is full again after so much was taken, or how long until it holds so much.
fn after(
    rate: Option<Rate>,
    full_at: Instant,
    units: u64,
    now: Instant,
) -> Result<Instant, Duration> {
    let Some(rate) = rate else {
        return Ok(full_at);
    };
    let full_at = full_at.max(now) + rate.time_for(units);
    let missing = (full_at - now).saturating_sub(rate.burst);
    if missing.is_zero() {
        Ok(full_at)
    } else {
        Err(missing)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::config::Settings;

    const FRAME_BYTES: usize = 8_192;

    fn paces(messages_per_second: u32, bytes_per_second: u32) -> Paces {
        let settings = Settings {
            messages_per_second: Some(messages_per_second),
            bytes_per_second: Some(bytes_per_second),
            max_frame_bytes: Some(FRAME_BYTES),
            connections_max: Some(10),
            ..Settings::default()
        };
        Paces::new(&settings.into_config().unwrap())
    }

    fn try_take(pace: &Pace, bytes: u64) -> Result<(), TooFast> {
        pace.try_take(bytes, clock::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_holds_exactly_its_messages_at_every_rate() {
        for per_second in [1, 3, 7, 1_000, 999_999] {
            let pace = paces(per_second, 0).of(&"a".into()).unwrap();
            for second in 0..3 {
                for message in 0..per_second {
                    assert_eq!(try_take(&pace, 1), Ok(()), "{message} of {per_second}");
                }
                let Err(TooFast { limit, wait }) = try_take(&pace, 1) else {
                    panic!("one more than {per_second} in second {second}");
                };
                assert_eq!(limit, Limit::MessagesPerSecond);
                assert!(wait <= Duration::from_secs(1) / per_second + Duration::from_nanos(1));
                advance(Duration::from_secs(1)).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_true_to_the_nanosecond() {
        let pace = paces(10, 10_000).of(&"a".into()).unwrap();
        for _ in 0..10 {
            assert_eq!(try_take(&pace, 1_000), Ok(()));
        }
        for bytes in [1, 500, 1_000, FRAME_BYTES as u64] {
            let TooFast { wait, .. } = try_take(&pace, bytes).unwrap_err();
            advance(wait - Duration::from_nanos(1)).await;
            assert!(try_take(&pace, bytes).is_err(), "{bytes} bytes too early");
            advance(Duration::from_nanos(1)).await;
            assert_eq!(try_take(&pace, bytes), Ok(()), "{bytes} bytes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_told_is_rounded_up() {
        let pace = paces(3, 0).of(&"a".into()).unwrap();
        let metrics = Metrics::new();
        let take = || pace.take(1, clock::now(), &metrics);
        for _ in 0..3 {
            take().unwrap();
        }
        let refusal = take().unwrap_err();
        assert_eq!(refusal.retry_after_ms, Some(334));
        advance(Duration::from_millis(334)).await;
        take().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_for_its_bytes_costs_no_message() {
        let pace = paces(2, 1).of(&"a".into()).unwrap();
        assert_eq!(try_take(&pace, FRAME_BYTES as u64), Ok(()));
        for _ in 0..10 {
            let TooFast { limit, .. } = try_take(&pace, 1).unwrap_err();
            assert_eq!(limit, Limit::BytesPerSecond);
        }
        assert_eq!(try_take(&pace, 0), Ok(()), "the second message of two");
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_frame_passes_at_the_lowest_rate() {
        let pace = paces(0, 1).of(&"a".into()).unwrap();
        assert_eq!(try_take(&pace, FRAME_BYTES as u64), Ok(()));
        let TooFast { wait, .. } = try_take(&pace, FRAME_BYTES as u64).unwrap_err();
        assert_eq!(wait, Duration::from_secs(FRAME_BYTES as u64));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_has_one_pace_and_it_outlives_its_connections() {
        let paces = paces(1, 0);
        let (a, b) = (Arc::from("a"), Arc::from("b"));
        let first = paces.of(&a).unwrap();
        assert_eq!(try_take(&first, 1), Ok(()));
        assert!(try_take(&paces.of(&a).unwrap(), 1).is_err());
        assert_eq!(try_take(&paces.of(&b).unwrap(), 1), Ok(()), "another agent");
        drop(first);
        paces.sweep(clock::now());
        assert!(try_take(&paces.of(&a).unwrap(), 1).is_err(), "it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn full_buckets_of_the_gone_are_forgotten_and_too_many_others() {
        let paces = paces(1, 0);
        let held = paces.of(&"held".into()).unwrap();
        assert_eq!(try_take(&held, 1), Ok(()));
        for at in 0..3 * PACES_SWEEP_MIN {
            let pace = paces.of(&Arc::from(format!("full {at}"))).unwrap();
            drop(pace);
        }
        assert!(
            paces.table.len() <= PACES_SWEEP_MIN,
            "{}",
            paces.table.len()
        );
        for at in 0..3 * PACES_SWEEP_MIN {
            let pace = paces.of(&Arc::from(format!("spent {at}"))).unwrap();
            assert_eq!(try_take(&pace, 1), Ok(()));
        }
        assert!(
            paces.table.len() <= PACES_SWEEP_MIN,
            "{}",
            paces.table.len()
        );
        assert!(Arc::ptr_eq(&held, &paces.of(&"held".into()).unwrap()));
    }

    #[test]
    fn without_a_limit_there_is_no_pace() {
        assert!(paces(0, 0).of(&"a".into()).is_none());
    }
}
