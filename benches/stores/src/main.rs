//! Embedded stores beside each other, on the work that Harbor's mailboxes would give them.
//!
//! `cargo run --release [-- FOLDER]` runs everything and prints tables; FOLDER (the system's
//! temporary folder if none is given) must be on a real disk. What it found: `README.md`.
#![allow(clippy::disallowed_methods, reason = "it measures true time")]

mod bare;
mod engine;
mod large;
mod meter;
mod table;
mod traffic;
mod workload;

use engine::{Engine, on_fjall::Fjall, on_redb::Redb};
use meter::Meter;
use std::{env, path::Path, process::ExitCode, time::Instant};

type Done<T> = Result<T, Box<dyn std::error::Error>>;

const STORES: [&str; 2] = ["fjall", "redb"];
const ROUNDS: usize = 3;
/// Messages in a group of the large store, and removals in a group of those that expired.
const LARGE: usize = 512;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["one", store, workload, grouped, folder] => one(store, workload, grouped, folder.as_ref()),
        [] => everything(&env::temp_dir()),
        [folder] if !folder.starts_with('-') => everything(folder.as_ref()),
        _ => Err("usage: synapse-stores [FOLDER]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("synapse-stores: {error}");
            ExitCode::FAILURE
        }
    }
}

fn everything(parent: &Path) -> Done<()> {
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    if rustix::fs::statfs(parent)?.f_type == TMPFS {
        return Err(format!("{} is in memory: give a folder on disk", parent.display()).into());
    }
    let start = Instant::now();
    let folder = tempfile::Builder::new()
        .prefix("synapse-stores-")
        .tempdir_in(parent)?;
    let folder = folder.path();

    let columns = "CPU µs/message | µs/message | slowest group, ms | disk bytes/message | peak MiB";
    for grouped in [64, 512] {
        table::heading(&format!("(a) append, groups of {grouped}"), columns);
        table::rows(
            &["bare", "fjall", "redb"],
            "append",
            grouped,
            folder,
            ROUNDS,
        )?;
    }
    let columns = "CPU µs/message | µs/message | slowest group, ms | disk MiB after a third | after two | after all | closed | peak MiB";
    for grouped in [64, 512] {
        table::heading(&format!("(b) come and go, groups of {grouped}"), columns);
        table::rows(&STORES, "come-and-go", grouped, folder, 1)?;
    }
    let tables = [
        (
            "fill",
            "the large store is made",
            "CPU µs/message | µs/message | slowest group, ms | disk bytes/message | peak MiB",
        ),
        (
            "open",
            "(d) open and read 1,000,000 entries",
            "open, s | with all entries, s | CPU s | peak MiB",
        ),
        (
            "read",
            "(c) a backlog of 10,000 in order",
            "CPU µs/message | µs/message | peak MiB",
        ),
        (
            "expire",
            "(e) 100,000 expire",
            "CPU µs/message | µs/message | slowest group, ms | disk MiB before | after",
        ),
        (
            "drain",
            "(e) the other 900,000 too, then compaction",
            "CPU µs/message | µs/message | slowest group, ms | disk MiB before | after | compacted | s",
        ),
    ];
    for (workload, title, columns) in tables {
        table::heading(title, columns);
        for store in STORES {
            table::row(store, workload, LARGE, folder)?;
        }
    }
    println!("\nAll of it took {:.0} s.", start.elapsed().as_secs_f64());
    Ok(())
}

/// One workload on one store: in a process of its own, so that memory and CPU are only its own.
fn one(store: &str, workload: &str, grouped: &str, folder: &Path) -> Done<()> {
    let grouped = grouped.parse()?;
    let figures = match store {
        "fjall" => on::<Fjall>(workload, grouped, folder)?,
        "redb" => on::<Redb>(workload, grouped, folder)?,
        _ => {
            let mut bare = bare::Bare::open(folder)?;
            workload::append_by(Meter::start(), grouped, |group| bare.commit(group), folder)?
        }
    };
    let figures: Vec<String> = figures.iter().map(f64::to_string).collect();
    println!("{}", figures.join(" "));
    Ok(())
}

fn on<E: Engine>(workload: &str, grouped: usize, folder: &Path) -> Done<Vec<f64>> {
    match workload {
        "append" => workload::append::<E>(folder, grouped),
        "come-and-go" => workload::come_and_go::<E>(folder, grouped),
        "fill" => large::fill::<E>(folder, grouped),
        "read" => large::read::<E>(folder),
        "open" => large::open::<E>(folder),
        "expire" => large::expire::<E>(folder, grouped),
        "drain" => large::drain::<E>(folder, grouped),
        _ => Err(format!("no workload {workload}").into()),
    }
}
