//! Where payloads come from: an argument, a file, standard input, or a line of them each.
//!
//! The start of a frame's way. A payload is JSON as it was given, byte for byte, or text that
//! becomes a JSON string.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    thread,
};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{
    args::Payload,
    failure::{Failure, NO_INPUT, USAGE},
};

/// Lines read ahead of what is sent.
const LINES_AHEAD_MAX: usize = 64;

/// The one payload of a message.
pub(crate) fn one(from: &Payload) -> Result<Box<RawValue>, Failure> {
    let text = match (&from.payload, &from.file) {
        (None, None) => return Ok(RawValue::NULL.to_owned()),
        (Some(argument), None) if argument != "-" => argument.clone(),
        (_, path) => {
            let mut text = String::new();
            open(path.as_deref())?
                .read_to_string(&mut text)
                .map_err(|error| unreadable(path.as_deref(), &error))?;
            text
        }
    };
    as_json(from, text)
}

/// A payload a line; blank lines are passed over. Read by a thread of its own, so that a slow input
/// does not hold up the connection.
pub(crate) fn lines(from: Payload) -> mpsc::Receiver<Result<Box<RawValue>, Failure>> {
    let (out, payloads) = mpsc::channel(LINES_AHEAD_MAX);
    thread::spawn(move || {
        let lines = match open(from.file.as_deref()) {
            Ok(lines) => lines,
            Err(failure) => return drop(out.blocking_send(Err(failure))),
        };
        for (at, line) in lines.lines().enumerate() {
            let payload = match line {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => as_json(&from, line).map_err(|failure| {
                    let what = failure.line().unwrap_or_default();
                    Failure::new(failure.code(), format!("line {}: {what}", at + 1))
                }),
                Err(error) => Err(unreadable(from.file.as_deref(), &error)),
            };
            let is_last = payload.is_err();
            if out.blocking_send(payload).is_err() || is_last {
                return;
            }
        }
    });
    payloads
}

fn as_json(from: &Payload, text: String) -> Result<Box<RawValue>, Failure> {
    let payload = if from.text {
        let text = text.strip_suffix('\n').unwrap_or(&text);
        serde_json::value::to_raw_value(text)
    } else {
        RawValue::from_string(text)
    };
    payload.map_err(|error| {
        let hint = "give JSON, or --text for plain text";
        Failure::new(USAGE, format!("the payload is no JSON: {error} ({hint})"))
    })
}

fn open(path: Option<&Path>) -> Result<Box<dyn BufRead>, Failure> {
    match path {
        None => Ok(Box::new(BufReader::new(io::stdin()))),
        Some(path) => match File::open(path) {
            Ok(file) => Ok(Box::new(BufReader::new(file))),
            Err(error) => Err(unreadable(Some(path), &error)),
        },
    }
}

fn unreadable(path: Option<&Path>, error: &io::Error) -> Failure {
    let name = path.map_or("standard input".into(), |path| path.display().to_string());
    Failure::new(NO_INPUT, format!("cannot read {name}: {error}"))
}
