//! `harbor keys`: makes, lists, replaces and withdraws the keys of the keyring.
//!
//! Beside a frame's way, in a process of its own; a Harbor that runs sees the file change. Here is
//! what can be typed, and how it fails; the subcommands are below.

mod change;
mod fresh;
mod show;

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use synapse::{
    keys::{KeyError, KeySet, Purpose},
    timestamp::Timestamp,
};

use self::show::say;
use super::{Place, seals_without_signer};

/// What was typed cannot work (`EX_USAGE` of sysexits).
pub const USAGE: u8 = 64;
/// The keyring has no such key, has it already, or a key that was given is none to take (`EX_DATAERR`).
pub const DATA: u8 = 65;
/// A file cannot be read (`EX_NOINPUT`).
pub const NO_INPUT: u8 = 66;
/// A file cannot be written (`EX_CANTCREAT`).
pub const NO_OUTPUT: u8 = 73;

/// Longest overlap, in seconds: ten years.
const OVERLAP_MAX: u64 = 10 * 366 * 86_400;

/// What to do with the keyring.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a key for an agent, or take one that the agent made, and print it as `list --json` does
    Add(Add),
    /// Print every key, never a secret; warn of agents that will be without a live one within 7 days
    List(List),
    /// Add a newer key of the same algorithm, and let the older one end after a while; print both
    Rotate(Rotate),
    /// Remove a key at once; a running Harbor closes the connections that registered with it
    Revoke(Revoke),
    /// Print the public halves of the keys that have not ended, a JSON Web Key Set
    Export(Export),
}

/// A key for an agent.
#[derive(Debug, Args)]
pub struct Add {
    /// Whose key it is to be; `harbor` is Harbor itself, whose secret stays in the keyring
    agent: String,
    /// What it is for: Ed25519, HMAC-SHA256 or HMAC-SHA512 to sign, A256GCM to seal payloads [default: Ed25519]
    #[arg(long, value_parser = purpose)]
    algorithm: Option<Purpose>,
    /// It is not valid before this time, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    not_before: Option<Timestamp<'static>>,
    #[command(flatten)]
    fresh: Fresh,
}

/// What a new key is like, and where its secret goes.
#[derive(Debug, Args)]
struct Fresh {
    /// The key's name [default: the agent's id and the date]
    #[arg(long)]
    kid: Option<String>,
    /// It is not valid from this time on, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    not_after: Option<Timestamp<'static>>,
    /// Where the secret goes that the agent needs, a new file (mode 600) for `synapse --keys`; - prints it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Take the public half of an Ed25519 key that the agent made (see `synapse keygen --public`), a JSON Web
    /// Key or a set of one; - reads standard input
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
}

/// Which keys to print, and how.
#[derive(Debug, Args)]
pub struct List {
    /// Print a JSON object a key
    #[arg(long)]
    json: bool,
}

/// A key in the place of another.
#[derive(Debug, Args)]
pub struct Rotate {
    /// The key to replace, or the agent whose keys are replaced
    #[arg(value_name = "KID|AGENT")]
    which: String,
    /// How long the older key is still good, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(..=OVERLAP_MAX))]
    overlap: u64,
    #[command(flatten)]
    fresh: Fresh,
}

/// The key to remove.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Its name
    kid: String,
}

/// Whose keys to print.
#[derive(Debug, Args)]
pub struct Export {
    /// Only those of this agent
    agent: Option<String>,
}

fn purpose(text: &str) -> Result<Purpose, &'static str> {
    Purpose::named(text).ok_or("it is HMAC-SHA256, HMAC-SHA512, Ed25519 or A256GCM")
}

fn time(text: &str) -> Result<Timestamp<'static>, &'static str> {
    Timestamp::parse(text.to_owned().into()).ok_or("not an RFC 3339 time with offset")
}

/// Why the command ends without having done it.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// One line.
    pub problem: String,
}

impl Failure {
    fn new(status: u8, problem: impl Display) -> Failure {
        let problem = problem.to_string();
        Failure { status, problem }
    }
}

/// Runs it.
///
/// # Errors
///
/// [`Failure`]; the keyring is then as it was.
pub fn run(command: &Command, place: &Place) -> Result<(), Failure> {
    match command {
        Command::Add(add) => change::add(add, place),
        Command::List(list) => show::list(list, place),
        Command::Rotate(rotate) => change::rotate(rotate, place),
        Command::Revoke(revoke) => change::revoke(revoke, place),
        Command::Export(export) => show::export(export, place),
    }
}

/// Reads the keyring, as a Harbor would.
fn read(place: &Place) -> Result<KeySet, Failure> {
    let path = place.path();
    super::check_private(path).map_err(|problem| match path.exists() {
        true => unusable(place, &problem),
        false => unusable(
            place,
            &format!("{problem}; harbor keys add AGENT makes one"),
        ),
    })?;
    let set = KeySet::from_file(path).and_then(|set| set.ring().map(|_| set));
    set.map_err(|error| unusable(place, &error))
}

fn unusable(place: &Place, problem: &dyn Display) -> Failure {
    Failure::new(
        NO_INPUT,
        format!("keys: {}: {problem}", place.path().display()),
    )
}

/// What goes wrong while the keyring is changed: with its file, or with what was asked for.
enum Trouble {
    File(KeyError),
    Asked(Failure),
}

impl From<KeyError> for Trouble {
    fn from(error: KeyError) -> Self {
        Trouble::File(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Asked(failure)
    }
}

/// Changes the keyring, which must be fit for a Harbor before.
fn edit<T>(
    place: &Place,
    change: impl FnOnce(&mut KeySet) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let path = place.path();
    if path.exists() {
        super::check_private(path).map_err(|problem| unusable(place, &problem))?;
    }
    let changed = KeySet::edit(path, |set| {
        // Before anything is handed over.
        set.ring()?;
        let done = change(set).map_err(Trouble::from)?;
        if let Some(problem) = seals_without_signer(&set.ring()?) {
            say(&format!("now the keyring {problem}"));
        }
        Ok(done)
    });
    changed.map_err(|trouble| match trouble {
        Trouble::Asked(failure) => failure,
        Trouble::File(error) => {
            let status = match error {
                KeyError::System(_) => NO_OUTPUT,
                _ => NO_INPUT,
            };
            Failure::new(status, format!("keys: {}: {error}", path.display()))
        }
    })
}

/// Prints lines. Whoever closed the pipe has read enough.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(NO_OUTPUT, format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
