//! The scenarios, and the rounds that each is measured in.

use tokio::time::timeout;

use crate::dialect::Variant;
use crate::measure::{Figures, Times};
use crate::process::Broker;
use crate::report::{self, Rounds};
use crate::{Options, Result, fanout, idle, pairs};

/// Window of the pipelined scenarios, messages.
const PIPELINE_WINDOW: usize = 64;
/// Pairs of the scenario with several.
const PAIRS: u32 = 8;
/// Group messages on the way in the pipelined fan-out.
const FANOUT_WINDOW: usize = 8;

/// What the brokers are made to do.
pub(crate) enum Scenario {
    Pairs(pairs::Shape),
    FanOut(fanout::Shape),
    Idle { connections: u32 },
}

impl Scenario {
    pub(crate) fn all(options: &Options) -> Vec<Scenario> {
        let message_bytes = options.bytes;
        let pairs = |pairs, window| {
            Scenario::Pairs(pairs::Shape {
                pairs,
                window,
                message_bytes,
            })
        };
        let receivers = options.receivers;
        let fan_out = |window| {
            Scenario::FanOut(fanout::Shape {
                receivers,
                window,
                message_bytes,
            })
        };
        vec![
            pairs(1, 1),
            pairs(1, PIPELINE_WINDOW),
            pairs(PAIRS, 1),
            pairs(PAIRS, PIPELINE_WINDOW),
            fan_out(1),
            fan_out(FANOUT_WINDOW),
            Scenario::Idle {
                connections: if options.quick { 1000 } else { options.idle },
            },
        ]
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Scenario::Pairs(pairs::Shape { pairs, window, .. }) => {
                format!("point to point, pairs {pairs}, window {window}")
            }
            Scenario::FanOut(fanout::Shape {
                receivers, window, ..
            }) => {
                format!("fan-out, 1 to {receivers}, window {window}")
            }
            Scenario::Idle { connections } => {
                format!("idle, {connections} registered connections: resident memory")
            }
        }
    }

    /// Who takes part. An answer to the sender is nothing beside a thousand deliveries.
    fn variants(&self, options: &Options) -> Vec<Variant> {
        let with_answers = matches!(self, Scenario::Pairs(_));
        let takes_part = |variant: &Variant| {
            (with_answers || !variant.acknowledges()) && options.wants(*variant)
        };
        Variant::ALL.into_iter().filter(takes_part).collect()
    }

    /// Measures round by round and prints the table.
    pub(crate) async fn measure(&self, options: &Options, rounds: u32, times: Times) -> Result<()> {
        let mut load = Rounds { rounds: Vec::new() };
        let mut memory = Rounds { rounds: Vec::new() };
        // Memory hardly varies, and connections by the thousand take their time.
        let rounds = if matches!(self, Scenario::Idle { .. }) {
            rounds.min(3)
        } else {
            rounds
        };
        for round in 0..rounds {
            let mut order = self.variants(options);
            if round % 2 == 1 {
                order.reverse();
            }
            let (mut figures, mut bytes) = (Vec::new(), Vec::new());
            for variant in order {
                let broker = Broker::start(variant, options)?;
                let run = self.run(&broker, variant, times);
                let ended = timeout(times.limit(), run).await;
                let named = |error| format!("{}, {}: {error}", self.title(), variant.label());
                match ended
                    .unwrap_or_else(|_| Err("stuck".into()))
                    .map_err(named)?
                {
                    Measured::Load(run) => figures.push((variant, run)),
                    Measured::Memory(run) => bytes.push((variant, run)),
                }
            }
            load.rounds.push(figures);
            memory.rounds.push(bytes);
        }
        match self {
            Scenario::Idle { .. } => report::print_idle(&self.title(), &memory),
            Scenario::Pairs(_) | Scenario::FanOut(_) => report::print_load(&self.title(), &load),
        }
        Ok(())
    }

    async fn run(&self, broker: &Broker, variant: Variant, times: Times) -> Result<Measured> {
        match self {
            Scenario::Pairs(shape) => Ok(Measured::Load(
                pairs::run(broker, variant, *shape, times).await?,
            )),
            Scenario::FanOut(shape) => Ok(Measured::Load(
                fanout::run(broker, variant, *shape, times).await?,
            )),
            Scenario::Idle { connections } => Ok(Measured::Memory(
                idle::run(broker, variant, *connections).await?,
            )),
        }
    }
}

enum Measured {
    Load(Figures),
    Memory(f64),
}
