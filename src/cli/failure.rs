//! How a failure leaves the process: an exit code and one line.
//!
//! After a frame's way. The codes are those of `sysexits.h` where one fits, listed in `--help`.

use std::io;

use clap::{CommandFactory, error::ErrorKind};
use synapse::client::{
    ConnectError, ConnectErrorKind, ControlError, ControlErrorKind, RequestError, RequestErrorKind,
    SendError, SendErrorKind,
};

use super::{args::Args, output::printable};

/// Refused, or nobody is there.
pub(crate) const REFUSED: u8 = 1;
/// What was typed cannot work.
pub(crate) const USAGE: u8 = 64;
/// The input cannot be read.
pub(crate) const NO_INPUT: u8 = 66;
/// Harbor cannot be reached, or is gone.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The operating system failed.
pub(crate) const SYSTEM: u8 = 71;
/// A deadline passed.
pub(crate) const DEADLINE: u8 = 75;
/// Harbor does not accept who this is.
pub(crate) const PERMISSION: u8 = 77;

/// Why the process ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    line: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, line: impl Into<String>) -> Self {
        let line = Some(printable(&line.into()));
        Failure { code, line }
    }

    /// The reader of our output is gone: that is how `head` ends a pipe, and no failure.
    pub(crate) fn broken_pipe() -> Self {
        Failure {
            code: 0,
            line: None,
        }
    }

    /// Failed, and every reason has been told already.
    pub(crate) fn told(code: u8) -> Self {
        Failure { code, line: None }
    }

    pub(crate) fn of_system(doing: &str, error: &io::Error) -> Self {
        Failure::new(SYSTEM, format!("{doing}: {error}"))
    }

    /// What the parser of the command line says, without its many lines of usage.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        if let ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand =
            error.kind()
        {
            let which = Args::command();
            let which: Vec<&str> = which
                .get_subcommands()
                .map(|command| command.get_name())
                .collect();
            let line = format!("a subcommand is missing: {} (see --help)", which.join(", "));
            return Failure::new(USAGE, line);
        }
        let text = error.to_string();
        let what = text.split("\nUsage:").next().unwrap_or_default();
        let what = what
            .split("\nFor more information")
            .next()
            .unwrap_or_default();
        let paragraphs = what.split("\n\n").map(|paragraph| {
            let words: Vec<&str> = paragraph.split_whitespace().collect();
            words.join(" ")
        });
        let paragraphs: Vec<String> = paragraphs.filter(|line| !line.is_empty()).collect();
        let what = paragraphs.join("; ");
        let what = what.strip_prefix("error: ").unwrap_or(&what);
        Failure::new(USAGE, format!("{what} (see --help)"))
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match error.kind() {
            ConnectErrorKind::InvalidOptions => USAGE,
            ConnectErrorKind::NoToken => NO_INPUT,
            ConnectErrorKind::Deadline => DEADLINE,
            ConnectErrorKind::Refused | ConnectErrorKind::Unauthorised => PERMISSION,
            _ => UNAVAILABLE,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Failure::new(code_of(error.kind()), error.to_string())
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let code = match error.kind() {
            RequestErrorKind::NoRecipients => REFUSED,
            RequestErrorKind::Send(kind) => code_of(kind),
            _ => DEADLINE,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let code = match error.kind() {
            ControlErrorKind::Send(kind) => code_of(kind),
            _ => UNAVAILABLE,
        };
        Failure::new(code, error.to_string())
    }
}

fn code_of(kind: SendErrorKind) -> u8 {
    match kind {
        SendErrorKind::Refused => REFUSED,
        SendErrorKind::TooLarge | SendErrorKind::Invalid => USAGE,
        SendErrorKind::Disconnected | SendErrorKind::Closed => UNAVAILABLE,
        _ => DEADLINE,
    }
}
