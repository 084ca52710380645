//! Runs a workload in processes of its own, round after round, and prints the medians as a table.

use crate::Done;
use std::{
    path::Path,
    process::{Command, Stdio},
};

pub(crate) fn heading(title: &str, columns: &str) {
    println!("\n{title}\n\n| store | {columns} |");
    println!("|---|{}", "---|".repeat(columns.split('|').count()));
}

/// One row a store. Stores take turns, so that a busy minute of the machine meets all of them.
pub(crate) fn rows(
    stores: &[&str],
    workload: &str,
    grouped: usize,
    folder: &Path,
    rounds: usize,
) -> Done<()> {
    let mut found = vec![Vec::new(); stores.len()];
    for round in 0..rounds {
        for (store, rows) in stores.iter().zip(&mut found) {
            let fresh = folder.join(format!("{workload}-{grouped}-{round}-{store}"));
            rows.push(figures(store, workload, grouped, &fresh)?);
            std::fs::remove_dir_all(fresh)?;
        }
    }
    for (store, rows) in stores.iter().zip(&found) {
        print_row(store, rows);
    }
    Ok(())
}

/// One row of a workload that goes on with what an earlier one left in the folder.
pub(crate) fn row(store: &str, workload: &str, grouped: usize, folder: &Path) -> Done<()> {
    let figures = figures(store, workload, grouped, &folder.join(store))?;
    print_row(store, &[figures]);
    Ok(())
}

fn figures(store: &str, workload: &str, grouped: usize, folder: &Path) -> Done<Vec<f64>> {
    let child = Command::new(std::env::current_exe()?)
        .args(["one", store, workload, &grouped.to_string()])
        .arg(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !child.status.success() {
        return Err(format!("{store}, {workload}: {}", child.status).into());
    }
    let line = String::from_utf8(child.stdout)?;
    Ok(line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?)
}

fn print_row(store: &str, rounds: &[Vec<f64>]) {
    let columns = rounds.first().map_or(0, Vec::len);
    let medians = (0..columns).map(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|row| row[column]).collect();
        values.sort_unstable_by(f64::total_cmp);
        shown(values[values.len() / 2])
    });
    println!("| {store} | {} |", medians.collect::<Vec<_>>().join(" | "));
}

fn shown(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
