//! The table: medians over the rounds, and ratios taken within each round.

use crate::dialect::Variant;
use crate::measure::Figures;

/// What the rounds of one scenario gave.
pub(crate) struct Rounds<T> {
    /// One entry a round: every variant's figures.
    pub(crate) rounds: Vec<Vec<(Variant, T)>>,
}

impl<T: Copy> Rounds<T> {
    fn variants(&self) -> Vec<Variant> {
        let mut variants: Vec<_> = self
            .rounds
            .iter()
            .flatten()
            .map(|(variant, _)| *variant)
            .collect();
        variants.sort_by_key(|variant| *variant as u8);
        variants.dedup();
        variants
    }

    fn values(&self, variant: Variant, value: impl Fn(T) -> f64) -> Vec<f64> {
        self.rounds
            .iter()
            .filter_map(|round| find(round, variant))
            .map(value)
            .collect()
    }

    /// Of each round, this variant's value over its floor's.
    fn ratios(&self, variant: Variant, floor: Variant, value: impl Fn(T) -> f64) -> Vec<f64> {
        let ratio = |round: &Vec<(Variant, T)>| {
            Some(value(find(round, variant)?) / value(find(round, floor)?))
        };
        self.rounds.iter().filter_map(ratio).collect()
    }
}

fn find<T: Copy>(round: &[(Variant, T)], wanted: Variant) -> Option<T> {
    round
        .iter()
        .find(|(variant, _)| *variant == wanted)
        .map(|(_, figures)| *figures)
}

/// Prints one scenario's table.
pub(crate) fn print_load(title: &str, rounds: &Rounds<Figures>) {
    println!("\n{title}");
    println!(
        "  {:<17} {:>25} {:>12} {:>17} {:>16} {:>17} {:>17} {:>9}",
        "",
        "broker CPU us/msg",
        "at best",
        "messages/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "generator"
    );
    for variant in rounds.variants() {
        let floor = variant.floor();
        let cell = |value: &dyn Fn(Figures) -> f64, decimals: usize| {
            let own = median(rounds.values(variant, value));
            let ratio = median(rounds.ratios(variant, floor, value));
            format!("{own:.decimals$} {}", times(ratio))
        };
        let cpu = rounds.ratios(variant, floor, |figures| figures.broker_us);
        let (least, most) = range(&cpu);
        let spread = format!("[{least:.2}-{most:.2}]");
        let best = least_of(&rounds.values(variant, |figures| figures.broker_us));
        let best_floor = least_of(&rounds.values(floor, |figures| figures.broker_us));
        println!(
            "  {:<17} {:>25} {:>12} {:>17} {:>16} {:>17} {:>17} {:>9.2}",
            variant.label(),
            format!("{} {spread}", cell(&|figures| figures.broker_us, 2)),
            format!("{best:.2} {}", times(best / best_floor)),
            cell(&|figures| figures.rate, 0),
            cell(&|figures| figures.latency_us[0], 1),
            cell(&|figures| figures.latency_us[1], 1),
            cell(&|figures| figures.latency_us[2], 1),
            median(rounds.values(variant, |figures| figures.generator_us)),
        );
    }
}

/// Prints the table of the idle connections: bytes each.
pub(crate) fn print_idle(title: &str, rounds: &Rounds<f64>) {
    println!("\n{title}");
    for variant in rounds.variants() {
        let own = median(rounds.values(variant, |bytes| bytes)) / 1024.0;
        let ratio = median(rounds.ratios(variant, Variant::Relay, |bytes| bytes));
        println!(
            "  {:<17} {own:>7.2} KiB a connection {}",
            variant.label(),
            times(ratio)
        );
    }
}

fn times(ratio: f64) -> String {
    format!("x{ratio:.2}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    (
        least_of(values),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

fn least_of(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
