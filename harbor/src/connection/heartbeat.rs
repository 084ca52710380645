//! When to ping, and when a silent peer is given up.
//!
//! Beside a frame's way: any byte that comes in is a sign of life, so that a large frame over a slow
//! line is not cut. A peer that shows none for two intervals, though pinged in between, is gone.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Sleep;

use crate::clock;

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// A ping.
    Ping,
    /// The end: the last ping had no answer.
    GiveUp,
}

/// The timer of one connection.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    interval: Duration,
    sleep: Pin<Box<Sleep>>,
    /// Bytes that had come at the last beat; `None` before the first.
    bytes_read: Option<u64>,
}

impl Heartbeat {
    /// Starts with a part of the interval by chance, so that connections made together do not ping
    /// together.
    pub(crate) fn new(interval: Duration) -> Self {
        let first = interval.mul_f64(0.5 + fastrand::f64() / 2.0);
        let sleep = Box::pin(tokio::time::sleep_until(clock::now() + first));
        Heartbeat {
            interval,
            sleep,
            bytes_read: None,
        }
    }

    /// What is due now, if anything, when so many bytes have come from the peer.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, bytes_read: u64) -> Poll<Due> {
        ready!(self.sleep.as_mut().poll(cx));
        if self.bytes_read.replace(bytes_read) == Some(bytes_read) {
            return Poll::Ready(Due::GiveUp);
        }
        self.sleep.as_mut().reset(clock::now() + self.interval);
        Poll::Ready(Due::Ping)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_given_up_after_at_most_two_intervals() {
        let interval = Duration::from_secs(10);
        let started = clock::now();
        let mut heartbeat = Heartbeat::new(interval);
        assert_eq!(poll_fn(|cx| heartbeat.poll(cx, 0)).await, Due::Ping);
        assert_eq!(poll_fn(|cx| heartbeat.poll(cx, 1)).await, Due::Ping);
        let last_sign = clock::now();
        assert_eq!(poll_fn(|cx| heartbeat.poll(cx, 1)).await, Due::GiveUp);
        assert!(clock::now() - last_sign <= 2 * interval);
        assert!(clock::now() - started <= 3 * interval);
    }
}
