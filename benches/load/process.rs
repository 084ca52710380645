//! A broker as a process of its own, and what the operating system says it used.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use crate::dialect::Variant;
use crate::{Options, Result};

/// How long a broker may take until it says where it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// What a broker says when it is ready, before its address.
const READY: &str = "listening on ws://";
/// A clock tick of `/proc/PID/stat`. The kernel's interface to programs has it at 100 a second.
const TICK_NS: u64 = 10_000_000;

/// A running broker. It ends when this is dropped.
pub(crate) struct Broker {
    child: Child,
    pub(crate) address: SocketAddr,
    _data: TempDir,
}

impl Broker {
    /// Starts the broker that `variant` needs and waits until it listens.
    pub(crate) fn start(variant: Variant, options: &Options) -> Result<Broker> {
        let data = tempfile::tempdir()?;
        let mut command = if variant.is_harbor() {
            let mut command = Command::new(harbor_binary(options)?);
            command.args(["--listen", "127.0.0.1:0"]);
            command
                .env("HARBOR_STORE", "memory")
                .env("HARBOR_DATA", data.path());
            command
        } else {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["relay", "--read-buffer", &options.read_buffer.to_string()]);
            command.args(["--write-buffer", &options.write_buffer.to_string()]);
            if variant.acknowledges() {
                command.arg("--acks");
            }
            command
        };
        if let Some(workers) = options.workers {
            command.env("TOKIO_WORKER_THREADS", workers.to_string());
        }
        command.current_dir(data.path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = lines_of(&mut child);
        match ready_address(&lines) {
            Ok(address) => Ok(Broker {
                child,
                address,
                _data: data,
            }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// CPU time used so far, all threads.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        Cpu::of(&self.child.id().to_string())
    }

    /// Resident memory, bytes.
    pub(crate) fn rss(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line
            .and_then(|line| line.split_whitespace().next())
            .ok_or("no VmRSS")?;
        Ok(kib.parse::<u64>()? * 1024)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // It may have ended already; either way there is nothing left to do about it.
    let _ = child.kill();
    let _ = child.wait();
}

/// CPU time of a process at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    /// Sum over the threads that live, to the nanosecond.
    threads_ns: u64,
    /// The whole process, with threads that ended, to the tick.
    process_ns: u64,
}

impl Cpu {
    /// Of process `pid`, or of this one for `"self"`.
    pub(crate) fn of(pid: &str) -> Result<Cpu> {
        let mut threads_ns = 0;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that ends in between is counted by the process's own sum.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else {
                continue;
            };
            threads_ns += text
                .split_whitespace()
                .next()
                .unwrap_or("0")
                .parse::<u64>()?;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name, in parentheses, may hold anything; user and system time are 12th and 13th after.
        let after = stat.rsplit_once(')').ok_or("no name in stat")?.1;
        let mut fields = after.split_whitespace().skip(11);
        let user = fields.next().ok_or("no user time")?.parse::<u64>()?;
        let system = fields.next().ok_or("no system time")?.parse::<u64>()?;
        Ok(Cpu {
            threads_ns,
            process_ns: (user + system) * TICK_NS,
        })
    }

    /// Nanoseconds used since `earlier`: the fine figure, unless threads ended in between.
    pub(crate) fn since(self, earlier: Cpu) -> u64 {
        let fine = self.threads_ns.saturating_sub(earlier.threads_ns);
        let coarse = self.process_ns.saturating_sub(earlier.process_ns);
        if fine + 2 * TICK_NS + coarse / 50 < coarse {
            coarse
        } else {
            fine
        }
    }
}

/// Both outputs of the child, line by line; they are read to their end so that it never blocks.
fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child
            .stdout
            .take()
            .map(|output| Box::new(output) as Box<dyn Read + Send>),
        child
            .stderr
            .take()
            .map(|output| Box::new(output) as Box<dyn Read + Send>),
    ];
    for output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output)
                .lines()
                .map_while(std::io::Result::ok)
            {
                // Nobody listens once the broker is ready.
                let _ = sender.send(line);
            }
        });
    }
    lines
}

fn ready_address(lines: &mpsc::Receiver<String>) -> Result<SocketAddr> {
    let mut said = Vec::new();
    while let Ok(line) = lines.recv_timeout(START_TIMEOUT) {
        if let Some((_, rest)) = line.split_once(READY) {
            let end = rest.find('/').unwrap_or(rest.len());
            return Ok(rest[..end].trim().parse::<SocketAddr>()?);
        }
        said.push(line);
    }
    Err(format!("the broker did not come up; it said:\n{}", said.join("\n")).into())
}

fn harbor_binary(options: &Options) -> Result<PathBuf> {
    if let Some(path) = &options.harbor {
        return Ok(path.clone());
    }
    // This program is target/PROFILE/deps/load-HASH.
    let program = std::env::current_exe()?;
    let target = program
        .ancestors()
        .nth(3)
        .ok_or("this program is not in a target folder")?;
    Ok(target.join("release").join("harbor"))
}

/// Builds Harbor in its release profile, unless the options name a binary.
pub(crate) fn build_harbor(options: &Options) -> Result<()> {
    if options.harbor.is_none() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args([
            "build",
            "--release",
            "--package",
            "harbor",
            "--bin",
            "harbor",
        ]);
        if !command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()?
            .success()
        {
            return Err("Harbor does not build".into());
        }
    }
    let binary = harbor_binary(options)?;
    if !binary.is_file() {
        return Err(format!("there is no {}", binary.display()).into());
    }
    Ok(())
}
