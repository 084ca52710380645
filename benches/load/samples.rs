//! Latencies of one run, kept as they are and sorted at the end.

use std::time::Duration;

/// Samples kept of one run, 4 bytes each; the rest is counted as delivered and not timed.
const SAMPLES_MAX: usize = 8 << 20;

/// Latencies in nanoseconds, up to 4.29 s each.
#[derive(Default)]
pub(crate) struct Samples(Vec<u32>);

impl Samples {
    pub(crate) fn add(&mut self, latency: Duration) {
        if self.0.len() < SAMPLES_MAX {
            self.0
                .push(u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX));
        }
    }

    pub(crate) fn append(&mut self, mut other: Samples) {
        self.0.append(&mut other.0);
    }

    /// The given quantiles, microseconds.
    pub(crate) fn quantiles<const N: usize>(&mut self, wanted: [f64; N]) -> [f64; N] {
        self.0.sort_unstable();
        wanted.map(|quantile| {
            let rank = (quantile * self.0.len() as f64).ceil() as usize;
            self.0
                .get(rank.saturating_sub(1))
                .map_or(f64::NAN, |&nanos| f64::from(nanos) / 1e3)
        })
    }
}
