//! What work costs: CPU time of the whole process, time on the clock, memory, disk.

use crate::Done;
use rustix::time::{ClockId, clock_gettime};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

pub(crate) struct Meter {
    cpu: Duration,
    start: Instant,
    slowest: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            cpu: cpu(),
            start: Instant::now(),
            slowest: Duration::ZERO,
        }
    }

    /// Runs one group and remembers the slowest.
    pub(crate) fn group(&mut self, work: impl FnOnce() -> Done<()>) -> Done<()> {
        let start = Instant::now();
        work()?;
        self.slowest = self.slowest.max(start.elapsed());
        Ok(())
    }

    pub(crate) fn wall(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu().saturating_sub(self.cpu)
    }

    pub(crate) fn slowest_ms(&self) -> f64 {
        self.slowest.as_secs_f64() * 1e3
    }
}

/// User and system time of every thread of this process, as `getrusage` has it but finer.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

pub(crate) fn per_message(time: Duration, messages: usize) -> f64 {
    time.as_secs_f64() * 1e6 / messages as f64
}

/// The most memory that this process ever had. Not `ru_maxrss`: that one begins with the parent's.
pub(crate) fn peak_memory_mib() -> Done<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .ok_or("no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// The blocks that a folder takes on disk; what is only set aside in a file does not count.
pub(crate) fn disk_bytes(folder: &Path) -> Done<f64> {
    let mut bytes = 0.0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(found) if found.is_dir() => disk_bytes(&entry.path())?,
            Ok(found) => found.blocks() as f64 * 512.0,
            // A table or a journal that was dropped in between.
            Err(_) => 0.0,
        };
    }
    Ok(bytes)
}
