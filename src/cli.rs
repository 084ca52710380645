//! What each subcommand does, and what they share.
//!
//! Around the client library: options in, lines out. Each subcommand has a file of its own.

pub(crate) mod args;
pub(crate) mod failure;

mod discover;
mod join;
mod keyfiles;
mod keys;
mod listen;
mod output;
mod payload;
mod request;
mod sealing;
mod send;
mod token;

use std::io;

use synapse::{
    client::{Client, CloseReason, Options, State, Takeover, TokenSource},
    keys::Keyring,
};
use tokio::signal::unix::{SignalKind, signal};

use self::{
    args::{Args, Command, Connection},
    failure::{Failure, PERMISSION, UNAVAILABLE},
};

/// Runs the subcommand.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Listen(listen) => listen::run(&args.connection, listen).await,
        Command::Send(send) => send::run(&args.connection, send).await,
        Command::Request(request) => request::run(&args.connection, request).await,
        Command::Join(join) => join::run(&args.connection, join).await,
        Command::Discover(discover) => discover::run(&args.connection, discover).await,
        Command::Keygen(keygen) => keys::generate(&args.connection, &keygen),
        Command::Sign => keys::sign(&args.connection),
        Command::Verify => keys::verify(&args.connection),
        Command::Token(token) => token::issue(&args.connection, &token),
        Command::Seal(seal) => sealing::seal(&args.connection, &seal),
        Command::Open => sealing::open(&args.connection),
    }
}

/// What the options say about the connection, with the keys of the files it names.
fn options(connection: &Connection) -> Result<Options, Failure> {
    options_with(connection, &keyfiles::given(connection)?)
}

/// The same, with keys that were read already: a file may be a pipe.
fn options_with(connection: &Connection, ring: &Keyring) -> Result<Options, Failure> {
    let agent_id = connection.agent.clone().unwrap_or_else(readable_id);
    let mut options = Options::new(&connection.url, agent_id)
        .connect_deadline(connection.connect_deadline)
        .capabilities(connection.capability.clone());
    if let Some(name) = &connection.name {
        options = options.agent_name(name);
    }
    if let Some(system) = &connection.system {
        options = options.system_id(system);
    }
    if let Some(ca) = &connection.ca {
        options = options.trust_authorities(ca);
    }
    if let (Some(cert), Some(key)) = (&connection.cert, &connection.key) {
        options = options.show_certificate(cert, key);
    }
    if let Some(file) = &connection.token_file {
        options = options.token(TokenSource::file(file));
    }
    keyfiles::hand_over(options, connection, ring)
}

/// Connects for one errand: without driving out a connection the agent has, and without keeping
/// what is delivered meanwhile, which would hold up the acceptances behind it.
async fn visit(options: Options) -> Result<Client, Failure> {
    let client = Client::connect(options.takeover(Takeover::Yield)).await?;
    let inbox = client.clone();
    tokio::spawn(async move { while inbox.next().await.is_some() {} });
    Ok(client)
}

/// An id a person can read out and tell apart.
fn readable_id() -> String {
    const MANNERS: [&str; 16] = [
        "amber", "brisk", "calm", "deft", "eager", "fair", "glad", "hardy", "keen", "lucid",
        "merry", "noble", "quick", "sunny", "tidy", "vivid",
    ];
    const ANIMALS: [&str; 16] = [
        "auk", "crane", "dolphin", "eider", "fulmar", "gannet", "heron", "ibis", "kelp", "lark",
        "marten", "otter", "petrel", "seal", "tern", "wren",
    ];
    let pick = |words: [&'static str; 16]| words[fastrand::usize(..words.len())];
    let number = fastrand::u32(1_000..10_000);
    format!("{}-{}-{number}", pick(MANNERS), pick(ANIMALS))
}

/// Resolves when the process is asked to end by SIGINT or SIGTERM.
struct Interrupted {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Interrupted {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| of_signal(&error));
        Ok(Interrupted {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn of_signal(error: &io::Error) -> Failure {
    Failure::of_system("cannot listen for signals", error)
}

/// Why a client that was not asked to is closed.
fn closed(client: &Client) -> Result<(), Failure> {
    match client.state() {
        State::Closed(CloseReason::Asked) => Ok(()),
        State::Closed(
            reason @ (CloseReason::Unauthorised
            | CloseReason::NotRenewed(_)
            | CloseReason::Refused(_)),
        ) => Err(Failure::new(PERMISSION, reason.to_string())),
        State::Closed(reason) => Err(Failure::new(UNAVAILABLE, reason.to_string())),
        _ => Ok(()),
    }
}
