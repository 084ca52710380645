//! The load bench: Harbor beside a bare WebSocket relay, under the same load on the same machine.
//!
//! `cargo bench --bench load` runs everything, `-- --quick` in some seconds, `-- --help` lists the
//! options. What is measured and what came out: `docs/PERFORMANCE.md`.
//!
//! Each broker is a process of its own, started anew for every run, so that its CPU time and its
//! memory are what the operating system says of that process. The load comes from this process,
//! out of one thread. Rounds alternate between the brokers; medians and ratios within a round keep
//! a noisy machine out of the result, and the relay measured against itself shows what is left.
#![allow(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]
#![allow(clippy::disallowed_methods, reason = "it measures true time")]

mod clients;
mod dialect;
mod fanout;
mod idle;
mod measure;
mod pairs;
mod process;
mod relay;
mod report;
mod samples;
mod scenario;
mod turn;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::dialect::Variant;
use crate::measure::Times;
use crate::scenario::Scenario;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// No run sends for longer: clients leave pings unanswered.
const SECONDS_MAX: f64 = 20.0;

#[derive(Parser, Debug)]
#[command(about = "Harbor beside a bare WebSocket relay")]
struct Options {
    #[command(subcommand)]
    role: Option<Role>,
    /// One short round of each scenario.
    #[arg(long)]
    quick: bool,
    /// Rounds; each measures every broker once.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of load in one run.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only scenarios whose title contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Bytes of a message.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Receivers of the fan-out.
    #[arg(long, default_value_t = 1000)]
    receivers: u32,
    /// Idle connections.
    #[arg(long, default_value_t = 10_000)]
    idle: u32,
    /// Runtime threads of each broker; by default one for each processor.
    #[arg(long)]
    workers: Option<u32>,
    /// The relay's read buffer, bytes; by default Harbor's.
    #[arg(long, default_value_t = 8 * 1024)]
    read_buffer: usize,
    /// The relay's write buffer, bytes; by default what Harbor writes at once.
    #[arg(long, default_value_t = 32 * 1024)]
    write_buffer: usize,
    /// A Harbor binary to use; by default it is built in its release profile.
    #[arg(long, env = "HARBOR_BIN")]
    harbor: Option<PathBuf>,
    /// Only brokers whose name in the tables contains this; for a profiler, or without Harbor.
    #[arg(long, default_value = "")]
    broker: String,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn wants(&self, variant: Variant) -> bool {
        variant.label().contains(&self.broker)
    }
}

#[derive(Subcommand, Clone, Copy, Debug)]
enum Role {
    /// Is the relay.
    #[command(hide = true)]
    Relay {
        #[arg(long)]
        read_buffer: usize,
        #[arg(long)]
        write_buffer: usize,
        #[arg(long)]
        acks: bool,
    },
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(Role::Relay {
        read_buffer,
        write_buffer,
        acks,
    }) = options.role
    {
        let config = WebSocketConfig::default()
            .read_buffer_size(read_buffer)
            .write_buffer_size(write_buffer);
        let runtime = tokio::runtime::Runtime::new()?;
        return runtime.block_on(relay::run(config, acks));
    }
    if !options.bench {
        println!("run this with `cargo bench --bench load`");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            measured = measure_all(&options) => measured,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    })
}

/// Runs every scenario that was asked for; brokers end when their run is over or given up.
async fn measure_all(options: &Options) -> Result<()> {
    if Variant::ALL
        .iter()
        .any(|variant| variant.is_harbor() && options.wants(*variant))
    {
        process::build_harbor(options)?;
    }
    let seconds = if options.quick {
        0.5
    } else {
        options.seconds.clamp(0.1, SECONDS_MAX)
    };
    let times = Times {
        warm_up: Duration::from_secs_f64(seconds.min(1.0) / 2.0),
        measured: Duration::from_secs_f64(seconds),
    };
    let rounds = if options.quick {
        1
    } else {
        options.rounds.max(1)
    };
    println!(
        "{rounds} rounds of {seconds} s, messages of {} bytes; xN: times the relay's (for \"each\": \
         times that of the relay that answers), median and range over the rounds",
        options.bytes
    );
    for scenario in Scenario::all(options) {
        if scenario.title().contains(&options.only) {
            scenario.measure(options, rounds, times).await?;
        }
    }
    Ok(())
}
