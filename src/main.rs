//! The `synapse` command: an agent on the command line.
//!
//! Both ends of a frame's way, for people and scripts. This file turns what was typed into an exit
//! code; [`cli`] does the work.

mod cli;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use cli::{args::Args, failure::Failure};

fn main() -> ExitCode {
    let args = match Args::from_command_line() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => return fail(&Failure::of_usage(&error)),
        Err(help) => {
            // Whoever closed the pipe has read enough of the help.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    // Two threads: one may be held up by a slow standard output while the other answers pings.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Failure::of_system("cannot start", &error)),
    };
    let outcome = runtime.block_on(cli::run(args));
    // A thread may still be reading standard input.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &Failure) -> ExitCode {
    if let Some(line) = failure.line() {
        let _ = writeln!(io::stderr(), "synapse: {line}");
    }
    ExitCode::from(failure.code())
}
