//! `harbor keys list` and `export`: what anybody may know of the keys.
//!
//! Beside a frame's way. No secret goes through here: a row has no member for one.

use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;
use synapse::keys::{Jwk, KeySet, Purpose};

use super::{DATA, Export, Failure, List, NO_INPUT, print, read};
use crate::{
    clock,
    keys::{
        Place,
        expiry::{SOON, ends},
    },
};

/// Whether a key can be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Live,
    NotYet,
    Ended,
    Revoked,
}

impl State {
    /// As it is at that moment. A time that is none makes it of no use.
    pub(super) fn of(jwk: &Jwk, now: Timestamp) -> State {
        match jwk.life() {
            Ok((_, Some(to))) if to <= now => State::Ended,
            Ok((Some(from), _)) if from > now => State::NotYet,
            Ok(_) => State::Live,
            Err(_) => State::Ended,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            State::Live => "live",
            State::NotYet => "not_yet",
            State::Ended => "ended",
            State::Revoked => "revoked",
        }
    }
}

/// A key without its secret.
#[derive(Debug, Serialize)]
pub(super) struct Row<'k> {
    kid: &'k str,
    agent_id: &'k str,
    algorithm: &'static str,
    #[serde(rename = "use")]
    usage: &'static str,
    pub(super) state: State,
    /// Here, with this file alone.
    can_sign: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    not_before: &'k str,
    #[serde(skip_serializing_if = "str::is_empty")]
    not_after: &'k str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thumbprint: Option<String>,
}

impl Row<'_> {
    pub(super) fn of(jwk: &Jwk, now: Timestamp) -> Row<'_> {
        let purpose = jwk.purpose();
        let seals = purpose == Some(Purpose::Seal);
        Row {
            kid: &jwk.kid,
            agent_id: &jwk.agent_id,
            algorithm: purpose.map_or("", Purpose::name),
            usage: if seals { "enc" } else { "sig" },
            state: State::of(jwk, now),
            can_sign: jwk.is_secret() && !seals,
            not_before: &jwk.not_before,
            not_after: &jwk.not_after,
            thumbprint: jwk.thumbprint(),
        }
    }

    /// One line.
    pub(super) fn to_json(&self) -> String {
        // Texts and a truth value always have a JSON form.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    fn cells(&self) -> [String; 9] {
        let or_dash = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        [
            self.agent_id.to_owned(),
            self.kid.to_owned(),
            self.algorithm.to_owned(),
            self.usage.to_owned(),
            self.state.word().to_owned(),
            or_dash(self.not_before),
            or_dash(self.not_after),
            if self.can_sign { "yes" } else { "no" }.to_owned(),
            or_dash(self.thumbprint.as_deref().unwrap_or_default()),
        ]
    }
}

const HEADINGS: [&str; 9] = [
    "AGENT",
    "KID",
    "ALGORITHM",
    "USE",
    "STATE",
    "NOT BEFORE",
    "NOT AFTER",
    "SIGNS",
    "THUMBPRINT",
];

/// Prints every key, sorted by agent, then as they stand in the file.
pub(super) fn list(list: &List, place: &Place) -> Result<(), Failure> {
    let set = read(place)?;
    let now = clock::wall();
    let mut rows: Vec<Row<'_>> = set.keys().iter().map(|jwk| Row::of(jwk, now)).collect();
    rows.sort_by_key(|row| row.agent_id);
    let text = if list.json {
        rows.iter().map(Row::to_json).collect()
    } else {
        table(&rows)
    };
    print(&text)?;
    let ring = set.ring().map_err(|error| Failure::new(NO_INPUT, error))?;
    let ends = ends(&ring, now);
    for end in ends
        .iter()
        .take_while(|end| end.at.duration_since(now) < SOON)
    {
        let what = match end.usage {
            "enc" => "sealing key",
            _ => "key",
        };
        say(&format!(
            "{:?} has no live {what} from {} on",
            end.agent_id, end.at
        ));
    }
    Ok(())
}

/// Columns as wide as their widest cell.
fn table(rows: &[Row<'_>]) -> String {
    let headings = HEADINGS.map(str::to_owned);
    let lines: Vec<_> = std::iter::once(headings)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let mut widths = [0; HEADINGS.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text += padded.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Prints the public halves of the keys that have not ended; how many are left out goes to standard error.
pub(super) fn export(export: &Export, place: &Place) -> Result<(), Failure> {
    let set = read(place)?;
    let now = clock::wall();
    let is_asked = |jwk: &&Jwk| {
        export
            .agent
            .as_ref()
            .is_none_or(|agent| jwk.agent_id == *agent)
    };
    let asked: Vec<&Jwk> = set.keys().iter().filter(is_asked).collect();
    if let (Some(agent), []) = (&export.agent, asked.as_slice()) {
        return Err(Failure::new(
            DATA,
            format!("agent: there is no key of {agent:?}"),
        ));
    }
    let (ended, good): (Vec<&Jwk>, Vec<&Jwk>) = asked
        .iter()
        .partition(|jwk| State::of(jwk, now) == State::Ended);
    let public: KeySet = good.iter().filter_map(|jwk| jwk.public()).collect();
    let text = public
        .to_json()
        .map_err(|error| Failure::new(DATA, error))?;
    print(&text)?;
    let shared = good.len() - public.keys().len();
    if shared + ended.len() > 0 {
        let ended = ended.len();
        say(&format!(
            "left out: {shared} shared secrets, {ended} keys that have ended"
        ));
    }
    Ok(())
}

/// A line beside the result.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "harbor: {line}");
}
