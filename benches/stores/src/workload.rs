//! (a) and (b): messages come, and go. Each workload runs in a process of its own and gives one row.

use crate::{
    Done,
    engine::{Engine, Group},
    meter::{MIB, Meter, disk_bytes, peak_memory_mib, per_message},
    traffic::Traffic,
};
use std::path::Path;

const APPENDED: usize = 204_800;
const LIVE: usize = 51_200;
const PASSING: usize = 409_600;

/// (a) Appends to mailboxes by chance. CPU includes what the store put off; the clock does not.
pub(crate) fn append<E: Engine>(folder: &Path, grouped: usize) -> Done<Vec<f64>> {
    let mut store = E::open(folder)?;
    let meter = Meter::start();
    let mut row = append_by(meter, grouped, |group| store.commit(group), folder)?;
    let meter = Meter::start();
    store.settle()?;
    row[0] += per_message(meter.cpu(), APPENDED);
    drop(store);
    row[3] = disk_bytes(folder)? / APPENDED as f64;
    row[4] = peak_memory_mib()?;
    Ok(row)
}

pub(crate) fn append_by(
    mut meter: Meter,
    grouped: usize,
    mut commit: impl FnMut(&Group) -> Done<()>,
    folder: &Path,
) -> Done<Vec<f64>> {
    let mut traffic = Traffic::new();
    let mut group = Group::default();
    for _ in 0..APPENDED / grouped {
        group.added.clear();
        for _ in 0..grouped {
            let agent = traffic.anyone();
            traffic.add(agent, &mut group);
        }
        meter.group(|| commit(&group))?;
    }
    Ok(vec![
        per_message(meter.cpu(), APPENDED),
        per_message(meter.wall(), APPENDED),
        meter.slowest_ms(),
        disk_bytes(folder)? / APPENDED as f64,
        peak_memory_mib()?,
    ])
}

/// (b) Each new message comes with the acknowledgement of an earlier one, while 51,200 wait.
pub(crate) fn come_and_go<E: Engine>(folder: &Path, grouped: usize) -> Done<Vec<f64>> {
    let mut store = E::open(folder)?;
    let mut traffic = Traffic::new();
    let mut live = Vec::with_capacity(LIVE + grouped);
    let mut group = Group::default();
    while live.len() < LIVE {
        group.added.clear();
        for _ in 0..grouped {
            let agent = traffic.anyone();
            live.push(traffic.add(agent, &mut group));
        }
        store.commit(&group)?;
    }

    let mut meter = Meter::start();
    let mut disk = Vec::new();
    let groups = PASSING / grouped;
    for at in 0..groups {
        group.added.clear();
        group.removed.clear();
        for _ in 0..grouped {
            group.removed.push(traffic.acknowledged(&mut live));
        }
        for _ in 0..grouped {
            let agent = traffic.anyone();
            live.push(traffic.add(agent, &mut group));
        }
        meter.group(|| store.commit(&group))?;
        if (at + 1) % (groups / 3) == 0 {
            disk.push(disk_bytes(folder)? / MIB);
        }
    }
    let wall = meter.wall();
    store.settle()?;
    let cpu = meter.cpu();
    drop(store);
    Ok(vec![
        per_message(cpu, PASSING),
        per_message(wall, PASSING),
        meter.slowest_ms(),
        disk[0],
        disk[1],
        disk[2],
        disk_bytes(folder)? / MIB,
        peak_memory_mib()?,
    ])
}
