//! What can be typed: every subcommand, option and default.
//!
//! Before a frame's way. Only the form is checked here; what a combination means is decided by the
//! subcommand.

use std::{fmt::Display, path::PathBuf, str::FromStr, time::Duration};

use clap::{
    ArgGroup, ArgMatches, Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand,
    parser::ValueSource,
};
use synapse::{control::Join as Membership, keys::Purpose};

const NOTES: &str = "\
Output: for people on a terminal; JSON lines with --json, and when standard output is no terminal.
A message that came sealed and was opened is printed with its payload in the clear; the rest stays as it came:
\"encrypt\" is still true, \"signature\" that of the sealed form. The member \"opened\", which only this command
writes, then names the key. Without \"opened\", what has \"encrypt\" true is still sealed.

Exit codes:
   0  done
   1  refused, or nobody is there to answer
  64  wrong usage: an option, an argument, a payload that is no JSON
  66  the input cannot be read
  69  Harbor cannot be reached or trusted, the connection was lost, or the agent connected elsewhere
  71  the operating system failed (output, signals)
  75  a deadline passed
  77  Harbor does not accept the agent's identity, or refuses to register it
Every failure is one line on standard error.";

/// The option that names files of keys.
const KEYS: &str = "keys";

/// An agent on the command line: listens, sends, asks, joins groups, finds other agents.
#[derive(Debug, Parser)]
#[command(name = "synapse", version, after_help = NOTES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Reads what was typed.
    pub(crate) fn from_command_line() -> Result<Self, clap::Error> {
        let command = Args::command();
        // As a global option, of those before and those after the subcommand only the latter would count,
        // and a message be sent without its signature. So there are two options, added up here.
        let keys: Vec<_> = command
            .get_arguments()
            .filter(|argument| argument.get_id() == KEYS)
            .cloned()
            .collect();
        let command = command.mut_subcommands(|subcommand| subcommand.args(&keys));
        let mut matches = command.try_get_matches()?;
        let mut typed = typed_keys(&matches);
        if let Some((_, after)) = matches.subcommand() {
            typed.extend(typed_keys(after));
        }
        let mut args = Args::from_arg_matches_mut(&mut matches)?;
        if !typed.is_empty() {
            args.connection.keys = typed;
        }
        Ok(args)
    }
}

/// The files that were named by the option itself, not by the variable.
fn typed_keys(matches: &ArgMatches) -> Vec<PathBuf> {
    match matches.value_source(KEYS) {
        Some(ValueSource::CommandLine) => {
            let paths = matches.get_many::<PathBuf>(KEYS);
            paths.into_iter().flatten().cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Where to connect, and as whom.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Where Harbor listens; a URL without a path means /ws
    #[arg(
        long,
        env = "SYNAPSE_URL",
        default_value = "ws://127.0.0.1:7420/ws",
        global = true
    )]
    pub(crate) url: String,
    /// The agent to be; by default a random readable id. `listen` and `join` take over from a
    /// connection the agent already has, the others are refused then
    #[arg(
        long,
        visible_alias = "as",
        value_name = "ID",
        env = "SYNAPSE_AGENT",
        global = true
    )]
    pub(crate) agent: Option<String>,
    /// A name for people
    #[arg(long, global = true)]
    pub(crate) name: Option<String>,
    /// The system the agent belongs to
    #[arg(long, value_name = "ID", global = true)]
    pub(crate) system: Option<String>,
    /// What the agent can do; may be repeated
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) capability: Vec<String>,
    /// Use the keys in this file, a JSON Web Key Set (see `synapse keygen`); may be repeated. Messages
    /// are signed with the newest key of the agent, unless the files hold none to sign with but some
    /// to seal with. What comes sealed with a key in them is opened
    #[arg(long, value_name = "FILE", env = "SYNAPSE_KEYS")]
    pub(crate) keys: Vec<PathBuf>,
    /// Show the bearer token in this file, which is read again whenever one is needed
    #[arg(long, value_name = "FILE", env = "SYNAPSE_TOKEN_FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// Also trust the certificate authorities in this PEM file, for wss://
    #[arg(long, value_name = "FILE", env = "SYNAPSE_CA", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Show this certificate, a PEM file, for wss://
    #[arg(
        long,
        value_name = "FILE",
        env = "SYNAPSE_CERT",
        requires = "key",
        global = true
    )]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file
    #[arg(
        long,
        value_name = "FILE",
        env = "SYNAPSE_KEY",
        requires = "cert",
        global = true
    )]
    pub(crate) key: Option<PathBuf>,
    /// How long connecting may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds, global = true)]
    pub(crate) connect_deadline: Duration,
    /// Print JSON lines even on a terminal
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register as an agent and print what is delivered, until interrupted
    Listen(Listen),
    /// Send a message, or one a line, and print the acceptance
    Send(Send),
    /// Send a request, wait for the answer and print its payload
    Request(Request),
    /// Join a group; print its members, then who comes and goes and what is said, until interrupted
    Join(Join),
    /// Find agents
    Discover(Discover),
    /// Make a key for an agent and add it to a file, which Harbor can use as its keyring
    Keygen(Keygen),
    /// Sign envelopes from standard input, one a line
    Sign,
    /// Check the signatures of envelopes from standard input, one a line; print the key of each
    Verify,
    /// Issue a bearer token for an agent (--agent) with an issuer's key (--keys), and print it
    Token(Token),
    /// Seal the payloads of envelopes from standard input, one a line; sign them afterwards
    Seal(Seal),
    /// Open the sealed payloads of envelopes from standard input, one a line; print the envelopes
    /// in the clear, without their signatures, which were of the sealed form
    Open,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Keygen {
    /// What the key is for: HMAC-SHA256, HMAC-SHA512 or Ed25519 to sign, A256GCM to seal payloads
    #[arg(long, default_value = "Ed25519", value_parser = purpose)]
    pub(crate) algorithm: Purpose,
    /// The key's name; by default the agent's id, the date, and a number from the second of a day on
    #[arg(long)]
    pub(crate) kid: Option<String>,
    /// The key ends at this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) not_after: Option<jiff::Timestamp>,
    /// Also add the key without its secret to this file, for whoever only verifies (Ed25519 only)
    #[arg(long, value_name = "FILE")]
    pub(crate) public: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Token {
    /// The issuer's key; by default the only live one in the file that can sign tokens
    #[arg(long)]
    pub(crate) kid: Option<String>,
    /// Whom the token is for
    #[arg(long, default_value = synapse::token::AUDIENCE_DEFAULT)]
    pub(crate) audience: String,
    /// Who issues it
    #[arg(long)]
    pub(crate) issuer: Option<String>,
    /// How long it lasts, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = whole_within::<u32>(1, 315_360_000))]
    pub(crate) lifetime: u32,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Seal {
    /// The key to seal with; by default the only live one of the agent or group it is for
    #[arg(long)]
    pub(crate) kid: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Listen {
    /// A group to join, with roles after a colon; may be repeated. A group whose name holds a colon
    /// is written with one more at the end
    #[arg(long, value_name = "GROUP[:ROLE,…]", value_parser = membership)]
    pub(crate) group: Vec<Membership>,
    /// End after this many messages
    #[arg(long, value_name = "N", value_parser = whole)]
    pub(crate) count: Option<u64>,
    /// Answer every message that is itself no answer with its own payload
    #[arg(long)]
    pub(crate) echo: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Send {
    #[command(flatten)]
    pub(crate) message: Message,
    #[command(flatten)]
    pub(crate) payload: Payload,
    /// Send one message for each line of standard input (or of --file), each a JSON payload
    #[arg(long, conflicts_with_all = ["payload", "id"])]
    pub(crate) lines: bool,
    /// How long to wait for an acceptance, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) deadline: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Request {
    #[command(flatten)]
    pub(crate) message: Message,
    #[command(flatten)]
    pub(crate) payload: Payload,
    /// How long to wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) deadline: Duration,
}

/// The envelope around a payload.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("destination").args(["to", "group", "broadcast"]).required(true).multiple(true))]
pub(crate) struct Message {
    /// The agent to send to
    #[arg(long, value_name = "AGENT")]
    pub(crate) to: Option<String>,
    /// The group to send to
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only to members of the group with this role; may be repeated
    #[arg(long, requires = "group", conflicts_with = "member")]
    pub(crate) role: Vec<String>,
    /// Only to this member of the group; may be repeated
    #[arg(long, value_name = "AGENT", requires = "group")]
    pub(crate) member: Vec<String>,
    /// To every agent of the own system (see --system)
    #[arg(long)]
    pub(crate) broadcast: bool,
    /// The message's type
    #[arg(long = "type", value_name = "TYPE", default_value = "message")]
    pub(crate) kind: String,
    /// The message's id, for sending one again; by default a new one
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// The id of the message this one answers
    #[arg(long, value_name = "ID")]
    pub(crate) answers: Option<String>,
    /// The agent that answers should go to
    #[arg(long, value_name = "AGENT")]
    pub(crate) reply_to: Option<String>,
    /// The conversation it belongs to
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,
    /// Seal the payload with the sealing key of this name, from a file of --keys: one that the
    /// receiver has too, or one that Harbor has, which then seals again for each receiver
    #[arg(long, value_name = "KID")]
    pub(crate) seal: Option<String>,
    /// Time to live in seconds; 0 for Harbor's default
    #[arg(long, value_name = "SECONDS", default_value_t = 0, allow_negative_numbers = true,
        value_parser = whole)]
    pub(crate) ttl: u64,
    /// 1 to 9; a higher one goes first from a backlog
    #[arg(long, default_value_t = synapse::limits::PRIORITY_DEFAULT, value_parser = whole_within::<u8>(1, synapse::limits::PRIORITY_MAX))]
    pub(crate) priority: u8,
}

/// Where a payload comes from.
#[derive(Debug, ClapArgs)]
pub(crate) struct Payload {
    /// The payload as JSON, or - to read it from standard input; null when nothing is given
    #[arg(conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    /// Read the payload from a file
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// The payload is plain text: it is sent as a JSON string
    #[arg(long)]
    pub(crate) text: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Join {
    /// The group, with roles after a colon
    #[arg(value_name = "GROUP[:ROLE,…]", value_parser = membership)]
    pub(crate) group: Membership,
    /// Only print the members, then leave
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Discover {
    /// That can do this
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) can: Option<String>,
    /// That have this role, in the group if one is given
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// That are in this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// That belong to this system
    #[arg(long, value_name = "ID")]
    pub(crate) in_system: Option<String>,
    /// That come after this agent, to go on where an earlier list ended
    #[arg(long, value_name = "AGENT")]
    pub(crate) after: Option<String>,
    /// Most agents to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole_within::<u32>(1, 1_000))]
    pub(crate) limit: u32,
}

fn purpose(text: &str) -> Result<Purpose, &'static str> {
    Purpose::named(text).ok_or("it is HMAC-SHA256, HMAC-SHA512, Ed25519 or A256GCM")
}

fn whole(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "not a whole number")
}

/// A whole number from `min` to `max`.
fn whole_within<N>(min: N, max: N) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: Copy + FromStr + PartialOrd + Display,
{
    move |text| {
        let number = text.parse().ok();
        let within = number.filter(|number| (min..=max).contains(number));
        within.ok_or_else(|| format!("not a whole number from {min} to {max}"))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) | Err(_) => Err("not a time to wait".to_owned()),
    }
}

fn membership(text: &str) -> Result<Membership, String> {
    let (group_id, roles) = text.rsplit_once(':').unwrap_or((text, ""));
    let roles = roles.split(',').filter(|role| !role.is_empty());
    let membership = Membership::new(group_id, roles);
    match membership.check("group") {
        Ok(()) => Ok(membership),
        Err(refusal) => Err(refusal.reason.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn roles_stand_after_the_last_colon() {
        let roles = |text| {
            let join = membership(text).unwrap();
            (join.group_id, join.roles)
        };
        assert_eq!(roles("g"), ("g".into(), vec![]));
        assert_eq!(roles("g:a,b"), ("g".into(), vec!["a".into(), "b".into()]));
        assert_eq!(roles("a:b:"), ("a:b".into(), vec![]));
        assert!(membership(":a").is_err());
    }

    #[test]
    fn a_wait_is_a_positive_number() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "x", "inf", "NaN"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
