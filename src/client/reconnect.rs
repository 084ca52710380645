//! How long to wait before connecting again.
//!
//! Stands beside a frame's way, between one connection and the next. Exponential back-off with full
//! jitter: after a failure of a node its agents come back spread over time, not all at once.

use std::time::Duration;

/// The delays of one client. Registering is not enough to reset them: a proxy that lets the
/// handshake through and kills the socket right after would make a hot loop of it.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    cap: Duration,
    stable_after: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration, cap: Duration, stable_after: Duration) -> Self {
        Backoff {
            first,
            cap,
            stable_after,
            failures: 0,
        }
    }

    /// The next delay: uniform between nothing and a ceiling that doubles with each failure.
    pub(super) fn next(&mut self) -> Duration {
        let ceiling = self.ceiling();
        self.failures = self.failures.saturating_add(1);
        ceiling.mul_f64(fastrand::f64())
    }

    fn ceiling(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.failures);
        self.first.saturating_mul(factor).min(self.cap)
    }

    /// Tells how long a registered session lasted; a long one starts the delays anew.
    pub(super) fn session_lasted(&mut self, lasted: Duration) {
        if lasted >= self.stable_after {
            self.failures = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        let [first, cap, stable] = [200, 30_000, 10_000].map(Duration::from_millis);
        Backoff::new(first, cap, stable)
    }

    #[test]
    fn the_ceiling_doubles_up_to_the_cap_and_the_delay_stays_below() {
        let mut backoff = backoff();
        for ceiling_ms in [
            200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
        ] {
            let ceiling = Duration::from_millis(ceiling_ms);
            assert_eq!(backoff.ceiling(), ceiling);
            assert!(backoff.next() <= ceiling);
        }
        backoff.failures = u32::MAX;
        assert!(backoff.next() <= Duration::from_secs(30));
    }

    #[test]
    fn jitter_is_full() {
        let mut backoff = backoff();
        backoff.failures = 20;
        let delays: Vec<_> = (0..1_000).map(|_| backoff.next().as_secs_f64()).collect();
        assert!(delays.iter().any(|seconds| *seconds < 3.0));
        assert!(delays.iter().any(|seconds| *seconds > 27.0));
    }

    #[test]
    fn only_a_session_that_lasted_resets() {
        let mut backoff = backoff();
        for _ in 0..5 {
            backoff.next();
            backoff.session_lasted(Duration::from_millis(200));
        }
        assert_eq!(backoff.ceiling(), Duration::from_millis(6_400));
        backoff.session_lasted(Duration::from_secs(10));
        assert_eq!(backoff.ceiling(), Duration::from_millis(200));
    }
}
