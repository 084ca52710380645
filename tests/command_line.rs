//! Goal: the `synapse` command does what its help says: output, exit codes, one line a failure.
//! Method: the real binary as a process, with raw agents on the other side.

mod failures;
mod receiving;
mod sealing;
mod sending;
mod signing;

use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::support::{Harbor, binary, soon};

/// What a finished command left.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// Its output as JSON lines, after it ended well.
    fn json(&self) -> Vec<Value> {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self:?}");
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("synapse"));
    command
        .args(arguments)
        .env_remove("SYNAPSE_URL")
        .env_remove("SYNAPSE_AGENT")
        .env_remove("SYNAPSE_KEYS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end.
async fn run(arguments: &[&str]) -> Ran {
    run_with(arguments, "").await
}

/// The same with something on its standard input.
async fn run_with(arguments: &[&str], input: &str) -> Ran {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that does not read its input closes it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = soon("the command ends", child.wait_with_output())
        .await
        .unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A command that goes on, and its output line by line.
struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut child = command(arguments).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { child, stdout }
    }

    /// Starts `synapse listen` and waits until `agent_id` is there.
    async fn listen(harbor: &Harbor, agent_id: &str, arguments: &[&str]) -> Running {
        let url = harbor.url();
        let mut all = vec!["listen", "--url", &url, "--as", agent_id];
        all.extend(arguments);
        let mut running = Running::start(&all);
        let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
        let mut line = String::new();
        soon("it listens", stderr.read_line(&mut line))
            .await
            .unwrap();
        assert_eq!(line, format!("synapse: listening as {agent_id}\n"));
        running.child.stderr = Some(stderr.into_inner());
        running
    }

    async fn line(&mut self) -> Value {
        let line = soon("a line comes", self.stdout.next_line()).await.unwrap();
        serde_json::from_str(&line.expect("a line, not the end")).unwrap()
    }

    async fn signal(&self, signal: &str) {
        let process = self.child.id().unwrap().to_string();
        let status = Command::new("kill").args([signal, &process]).status();
        assert!(status.await.unwrap().success());
    }

    /// Waits for the end; the status and the rest of standard error.
    async fn end(mut self) -> (ExitStatus, String) {
        let mut stderr = self.child.stderr.take().unwrap();
        let status = soon("the command ends", self.child.wait()).await.unwrap();
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.unwrap();
        (status, text)
    }
}
