//! The `harbor` command: arguments, configuration, logs, start, the address, a signal, drain.
//!
//! Around the whole way of a frame; everything else is in the library.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{
    Parser, Subcommand,
    error::{ContextKind, ErrorKind},
};
use harbor::{Config, Harbor, Settings, config::DEFAULT_FILE, keys, permissions::START_FILE};
use tokio::signal::unix::{SignalKind, signal};

/// The command line was wrong (`EX_USAGE` of sysexits).
const EXIT_USAGE: u8 = 64;
/// The address could not be listened on (`EX_UNAVAILABLE`).
const EXIT_UNAVAILABLE: u8 = 69;
/// The configuration was wrong (`EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;

/// Synapse Harbor: a message broker that AI agents hold one WebSocket to.
///
/// Exit status: 0 after SIGTERM or SIGINT, 64 wrong command line, 69 cannot listen, 78 wrong
/// configuration; of `keys` also 65 no such key, or a key that cannot be taken, 66 a file cannot be
/// read, 73 a file cannot be written.
#[derive(Debug, Parser)]
#[command(name = "harbor", version, args_conflicts_with_subcommands = false)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// TOML file with settings; flags and variables go over it
    #[arg(long, env = "HARBOR_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The configuration file
    #[command(subcommand, arg_required_else_help = false)]
    Config(FileCommand),
    /// The file that says what each agent may do
    #[command(subcommand, arg_required_else_help = false)]
    Permissions(FileCommand),
    /// The keys of agents: add, list, rotate, revoke, export
    #[command(subcommand, arg_required_else_help = false)]
    Keys(keys::command::Command),
}

#[derive(Debug, Subcommand)]
enum FileCommand {
    /// Print a commented file to start from
    Print,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(EXIT_USAGE, &[one_line(&error)]),
    };
    let Arguments {
        settings,
        config,
        command,
    } = arguments;
    let printed = match &command {
        Some(Command::Config(FileCommand::Print)) => Some(DEFAULT_FILE),
        Some(Command::Permissions(FileCommand::Print)) => Some(START_FILE),
        Some(Command::Keys(_)) | None => None,
    };
    if let Some(file) = printed {
        let _ = io::stdout().write_all(file.as_bytes());
        return ExitCode::SUCCESS;
    }
    let settings = match config.as_deref().map(Settings::from_file).transpose() {
        Ok(file) => settings.or(file.unwrap_or_default()),
        Err(problem) => return fail(EXIT_CONFIG, &[problem]),
    };
    if let Some(Command::Keys(command)) = command {
        return match keys::command::run(&command, &settings.keyring()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => fail(failure.status, &[failure.problem]),
        };
    }
    match settings.into_config() {
        Ok(config) => run(config),
        Err(problems) => fail(EXIT_CONFIG, &problems),
    }
}

fn run(config: Config) -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(config.log_level)
        .init();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(EXIT_UNAVAILABLE, &[format!("cannot start: {error}")]),
    };
    let code = runtime.block_on(serve(config));
    // Not waited for: a thread that reads a file which hangs.
    runtime.shutdown_background();
    code
}

async fn serve(config: Config) -> ExitCode {
    let signals = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    );
    let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
        return fail(EXIT_UNAVAILABLE, &["cannot listen for signals".to_owned()]);
    };
    let harbor = match Harbor::start(config).await {
        Ok(harbor) => harbor,
        Err(error) => return fail(EXIT_UNAVAILABLE, &[error.to_string()]),
    };
    let mut stdout = io::stdout();
    let _ = writeln!(stdout, "listening on {}", harbor.url()).and_then(|()| stdout.flush());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("draining");
    harbor.drain().await;
    ExitCode::SUCCESS
}

/// Says each problem on a line of its own.
fn fail(status: u8, problems: &[String]) -> ExitCode {
    let mut stderr = io::stderr();
    for problem in problems {
        let _ = writeln!(stderr, "harbor: {problem}");
    }
    ExitCode::from(status)
}

/// What is wrong with the command line, without the usage text that follows it.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingSubcommand {
        let said = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let (which, those) = (
            said(ContextKind::InvalidSubcommand),
            said(ContextKind::ValidSubcommand),
        );
        let which = which.trim_start_matches("harbor ");
        let those = those.trim_end_matches(", help");
        return format!("{which}: a subcommand is missing: {those}; see harbor --help");
    }
    let text = error.to_string();
    // What is missing stands below the first line.
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    let what = first.trim_start_matches("error: ");
    // What the standard library says of text that is no number, and of numbers beyond all bounds.
    let parsing = [
        "invalid digit found in string",
        "cannot parse integer from empty string",
        "number too large to fit in target type",
    ];
    let value = parsing.iter().find_map(|words| what.strip_suffix(words));
    match value {
        Some(value) => format!("{value}not a whole number in range; see harbor --help"),
        None => format!("{what}; see harbor --help"),
    }
}
