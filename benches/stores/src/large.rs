//! (c), (d) and (e): what a store of a million messages takes to open, to read and to empty.

use crate::{
    Done,
    engine::{Engine, Entry, Group},
    meter::{MIB, Meter, disk_bytes, peak_memory_mib, per_message},
    traffic::{BUSY_AGENT, Traffic},
};
use std::{hint::black_box, path::Path};

const STORED: usize = 1_000_000;
const BACKLOG: usize = 10_000;
const EXPIRED: usize = 100_000;

/// Makes the large store for the next three, and leaves as a process does that is told to stop.
pub(crate) fn fill<E: Engine>(folder: &Path, grouped: usize) -> Done<Vec<f64>> {
    let mut store = E::open(folder)?;
    let mut traffic = Traffic::new();
    let mut group = Group::default();
    let mut meter = Meter::start();
    for at in 0..STORED {
        let busy = at % (STORED / BACKLOG) == 0;
        let agent = if busy { BUSY_AGENT } else { traffic.anyone() };
        traffic.add(agent, &mut group);
        if group.added.len() == grouped || at + 1 == STORED {
            meter.group(|| store.commit(&group))?;
            group.added.clear();
        }
    }
    let wall = meter.wall();
    let cpu = meter.cpu();
    drop(store);
    Ok(vec![
        per_message(cpu, STORED),
        per_message(wall, STORED),
        meter.slowest_ms(),
        disk_bytes(folder)? / STORED as f64,
        peak_memory_mib()?,
    ])
}

/// (d) Opens the large store and has every entry in memory, as Harbor does when it starts.
pub(crate) fn open<E: Engine>(folder: &Path) -> Done<Vec<f64>> {
    let meter = Meter::start();
    let store = E::open(folder)?;
    let opened = meter.wall();
    let entries = everything(&store)?;
    let read = meter.wall();
    if entries.len() != STORED || !entries.is_sorted_by_key(|entry| (entry.agent, entry.seq)) {
        return Err(format!("{} entries instead of {STORED}", entries.len()).into());
    }
    Ok(vec![
        opened.as_secs_f64(),
        read.as_secs_f64(),
        meter.cpu().as_secs_f64(),
        peak_memory_mib()?,
    ])
}

fn everything(store: &impl Engine) -> Done<Vec<Entry>> {
    let mut entries = Vec::with_capacity(STORED);
    store.entries(&mut |entry| entries.push(entry))?;
    Ok(entries)
}

/// (c) Reads one agent's backlog of 10,000 with its bodies, in order.
pub(crate) fn read<E: Engine>(folder: &Path) -> Done<Vec<f64>> {
    let store = E::open(folder)?;
    let meter = Meter::start();
    let (mut count, mut last, mut in_order) = (0, 0, true);
    store.backlog(BUSY_AGENT, &mut |entry, body| {
        in_order &= entry.seq > last && black_box(body)[..8] == entry.body.to_be_bytes();
        last = entry.seq;
        count += 1;
    })?;
    if count != BACKLOG || !in_order {
        return Err(format!("{count} of {BACKLOG}, in order: {in_order}").into());
    }
    Ok(vec![
        per_message(meter.cpu(), count),
        per_message(meter.wall(), count),
        peak_memory_mib()?,
    ])
}

/// (e) Removes the 100,000 whose deadline comes first; Harbor knows them from its index.
pub(crate) fn expire<E: Engine>(folder: &Path, grouped: usize) -> Done<Vec<f64>> {
    remove::<E>(folder, grouped, EXPIRED)
}

/// (e) Removes all that is left: the agents that were away came back.
pub(crate) fn drain<E: Engine>(folder: &Path, grouped: usize) -> Done<Vec<f64>> {
    let mut row = remove::<E>(folder, grouped, STORED - EXPIRED)?;
    let mut store = E::open(folder)?;
    let meter = Meter::start();
    store.compact()?;
    let wall = meter.wall();
    drop(store);
    row.extend([disk_bytes(folder)? / MIB, wall.as_secs_f64()]);
    Ok(row)
}

fn remove<E: Engine>(folder: &Path, grouped: usize, count: usize) -> Done<Vec<f64>> {
    let mut store = E::open(folder)?;
    let mut entries = everything(&store)?;
    let before = disk_bytes(folder)?;
    entries.sort_unstable_by_key(|entry| entry.deadline);
    let mut meter = Meter::start();
    for chunk in entries[..count].chunks(grouped) {
        let group = Group {
            added: Vec::new(),
            removed: chunk.to_vec(),
        };
        meter.group(|| store.commit(&group))?;
    }
    let wall = meter.wall();
    store.settle()?;
    let cpu = meter.cpu();
    let left = everything(&store)?.len();
    drop(store);
    if left != entries.len() - count {
        return Err(format!("{left} entries are left").into());
    }
    Ok(vec![
        per_message(cpu, count),
        per_message(wall, count),
        meter.slowest_ms(),
        before / MIB,
        disk_bytes(folder)? / MIB,
    ])
}
