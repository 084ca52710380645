//! What goes to standard output: lines for people, or JSON lines.
//!
//! The very end of a frame's way. Every line is written and flushed at once, so a reader of a pipe
//! sees it when it happens.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, IsTerminal, Write},
};

use serde::Serialize;
use serde_json::value::to_raw_value;
use synapse::{
    Envelope,
    envelope::{Sealing, splice_harbor},
};

use super::{args::Connection, failure::Failure};

/// The member that tells of a payload that was opened here.
const OPENED: &str = "opened";

/// Who reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    People,
    Programs,
}

impl Output {
    pub(crate) fn new(connection: &Connection) -> Self {
        if connection.json || !io::stdout().is_terminal() {
            Output::Programs
        } else {
            Output::People
        }
    }

    /// Prints one thing in the form its reader wants.
    pub(crate) fn print(
        self,
        for_people: impl FnOnce() -> String,
        for_programs: &impl Serialize,
    ) -> Result<(), Failure> {
        match self {
            Output::People => line(&printable(&for_people())),
            Output::Programs => {
                let json = serde_json::to_string(for_programs).map_err(io::Error::from);
                line(&one_line(&json.map_err(|error| failed(&error))?))
            }
        }
    }

    /// Prints a delivered message.
    pub(crate) fn message(self, message: &Envelope<'_>) -> Result<(), Failure> {
        match self {
            Output::People => line(&printable(&described(message))),
            Output::Programs => line(&delivered_line(message)),
        }
    }
}

/// Prints one line as it is.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| failed(&error))
}

/// A delivered message as one line of JSON. If it came sealed and was opened, the payload stands in the
/// clear, everything else as it came, and the member `opened` names the key.
pub(crate) fn delivered_line(message: &Envelope<'_>) -> String {
    let is_claimed = message.other.iter().any(|(member, _)| member == OPENED);
    let kid = match &message.sealing {
        Sealing::Opened(kid) => to_raw_value(kid).ok(),
        _ => None,
    };
    if kid.is_none() && !is_claimed {
        return as_line(message);
    }
    let mut shown = message.clone();
    // A sender cannot say that this end opened something.
    shown.other.retain(|(member, _)| member != OPENED);
    let opened = kid.map(|kid| (OPENED.into(), Cow::Owned(kid)));
    shown.other.extend(opened);
    as_line(&shown)
}

/// A message as one line of JSON, with what Harbor added.
pub(crate) fn as_line(message: &Envelope<'_>) -> String {
    let json = message.to_json();
    let json = match &message.harbor {
        Some(harbor) => splice_harbor(&json, harbor.get()),
        None => json,
    };
    one_line(&json)
}

/// JSON on one line: outside its strings, where alone they may stand, line breaks are white space.
pub(crate) fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// Text that cannot move a terminal's cursor: control characters as escapes.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

fn described(message: &Envelope<'_>) -> String {
    let time = message.timestamp.at().strftime("%H:%M:%S");
    let from = &message.sender.agent_id;
    let group = match &*message.group_id {
        "" => String::new(),
        group_id => format!(" in {group_id}"),
    };
    let answers = match &*message.correlation_id {
        "" => String::new(),
        id => format!(" answers {id}"),
    };
    let sealed = match &message.sealing {
        Sealing::Opened(kid) => format!(" opened with {kid}:"),
        _ if message.encrypt => " sealed:".to_owned(),
        _ => String::new(),
    };
    let payload = one_line(message.payload.get());
    format!(
        "{time} {from}{group} [{}]{answers}{sealed} {payload}",
        message.kind
    )
}

fn failed(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::broken_pipe(),
        _ => Failure::of_system("cannot write to standard output", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn a_message_is_one_line_whatever_its_payload() {
        let payload = RawValue::from_string("{\n  \"a\": \"b\\n\"\r\n}".to_owned()).unwrap();
        let mut message = Envelope::new("t").payload(payload);
        let harbor = RawValue::from_string("{\"seq\":1}".to_owned()).unwrap();
        message.harbor = Some(std::borrow::Cow::Owned(harbor));
        let line = as_line(&message);
        assert!(!line.contains('\n') && line.contains("\"harbor\":{\"seq\":1}"));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["payload"]["a"], "b\n");
    }

    #[test]
    fn only_this_end_says_that_it_opened_a_payload() {
        let mut message = Envelope::new("t");
        message.encrypt = true;
        let claim = RawValue::from_string("\"k\"".to_owned()).unwrap();
        message.other = vec![(OPENED.into(), Cow::Owned(claim))];
        let line = delivered_line(&message);
        assert!(!line.contains("opened"), "{line}");
        assert!(described(&message).contains(" sealed: null"));
        message.sealing = Sealing::Opened("bob \"1\"".to_owned());
        let line = delivered_line(&message);
        assert_eq!(line.matches("opened").count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["opened"], "bob \"1\"");
        assert_eq!(value["encrypt"], true);
        assert!(described(&message).contains(" opened with bob \"1\": null"));
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}c"), "a\\u{1b}[2Jb\\u{9b}c");
        assert_eq!(printable("智能体 ok"), "智能体 ok");
    }
}
