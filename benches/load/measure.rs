//! One measured phase: what was delivered, how long it took, and what it cost.

use std::time::{Duration, Instant};

use crate::Result;
use crate::process::{Broker, Cpu};
use crate::samples::Samples;

/// What one run of one variant gave.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    /// CPU of the broker for a delivered message, microseconds.
    pub(crate) broker_us: f64,
    /// CPU of the load generator for a delivered message, microseconds.
    pub(crate) generator_us: f64,
    /// Delivered messages a second.
    pub(crate) rate: f64,
    /// From before the write of a message to after the read of it, microseconds: median, 99th and
    /// 99.9th percentile.
    pub(crate) latency_us: [f64; 3],
}

/// The state of the clocks when a phase began.
pub(crate) struct Phase<'a> {
    broker: &'a Broker,
    broker_cpu: Cpu,
    generator_cpu: Cpu,
    started: Instant,
}

impl<'a> Phase<'a> {
    pub(crate) fn begin(broker: &'a Broker) -> Result<Phase<'a>> {
        let generator_cpu = Cpu::of("self")?;
        let broker_cpu = broker.cpu()?;
        Ok(Phase {
            broker,
            broker_cpu,
            generator_cpu,
            started: Instant::now(),
        })
    }

    /// Everything sent in this phase has arrived by now.
    pub(crate) fn end(self, delivered: u64, samples: &mut Samples) -> Result<Figures> {
        let elapsed = self.started.elapsed();
        let broker_ns = self.broker.cpu()?.since(self.broker_cpu);
        let generator_ns = Cpu::of("self")?.since(self.generator_cpu);
        let each = |nanos: u64| nanos as f64 / 1e3 / delivered as f64;
        Ok(Figures {
            broker_us: each(broker_ns),
            generator_us: each(generator_ns),
            rate: delivered as f64 / elapsed.as_secs_f64(),
            latency_us: samples.quantiles([0.5, 0.99, 0.999]),
        })
    }
}

/// How long the parts of a run take.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl Times {
    /// When a run that is stuck is given up.
    pub(crate) fn limit(self) -> Duration {
        self.warm_up + self.measured + Duration::from_secs(30)
    }
}
