//! Raw clients in Python, Node and Go against a real Harbor; none of them shares a line of code with it.
//!
//! `scripts/test` installs what they need and says where it is.

#![allow(
    clippy::expect_used,
    reason = "a test helper that fails must fail the test"
)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{self, Harbor, given};

/// How many checks the scenario has, in each language.
const CHECKS: usize = 36;

/// How many cases of RFC 6455 `conformance.py` has.
const WIRE_CASES: usize = 90;

/// Seconds after which a client ends by itself.
const DEADLINE: &str = "100";

/// All of them.
pub const LANGUAGES: [Language; 3] = [Language::Python, Language::Node, Language::Go];

/// A language that a client is written in.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    Python,
    Node,
    Go,
}

impl Language {
    /// The command that starts this language's client; `None` if it is Go and there is no Go.
    fn client(self) -> Option<Command> {
        self.program("client")
    }

    /// The command that starts a program of its folder; Go has one for all, which is told its name.
    pub fn program(self, name: &str) -> Option<Command> {
        match self {
            Self::Python => Some(python(&format!("{name}.py"))),
            Self::Node => {
                let mut node = Command::new(given("SYNAPSE_TEST_NODE", PathBuf::from("node")));
                node.arg(tests().join(format!("clients/node/{name}.js")));
                Some(settled(node))
            }
            Self::Go => {
                let client = given("SYNAPSE_TEST_GO_CLIENT", tests().join(".setup/rawclient"));
                if !client.exists() {
                    eprintln!("skipped: there is no Go client, as scripts/test found no Go");
                    return None;
                }
                let mut go = Command::new(client);
                go.arg(name);
                Some(settled(go))
            }
        }
    }
}

/// The command that starts a program of `tests/clients/python`.
pub fn python(program: &str) -> Command {
    let mut python = Command::new(support::python());
    python.arg(tests().join("clients/python").join(program));
    settled(python)
}

/// Adds what every client is told.
fn settled(mut client: Command) -> Command {
    client.env("SYNAPSE_CLIENT_DEADLINE", DEADLINE);
    client.env("SYNAPSE_TEST_VECTORS", tests().join("vectors"));
    client.env("PYTHONDONTWRITEBYTECODE", "1");
    client.stdin(Stdio::null());
    client
}

/// The folder of the tests.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Runs a client to its end and gives its output; its failure fails the test with all that it printed.
pub fn run(mut command: Command, what: &str) -> String {
    let output = command.output().unwrap_or_else(|problem| {
        panic!("{what} does not start ({problem}); scripts/test installs what it needs")
    });
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}\n{printed}{errors}",
        output.status
    );
    printed
}

async fn plays_the_scenario(language: Language) {
    if let Some(client) = language.client() {
        all_ok(client, CHECKS).await;
    }
}

/// Runs a program against a Harbor of its own; it must print that many `ok` lines and leave nothing
/// behind.
async fn all_ok(mut program: Command, checks: usize) {
    let harbor = Harbor::start().await;
    program.arg(harbor.url());
    let played = tokio::task::spawn_blocking(move || run(program, "the client"));
    let printed = played.await.expect("the client was waited for");
    let ok = printed
        .lines()
        .filter(|line| line.starts_with("ok "))
        .count();
    assert_eq!(ok, checks, "{printed}");
    harbor.is_empty().await;
}

#[tokio::test]
async fn a_python_client_plays_the_scenario() {
    plays_the_scenario(Language::Python).await;
}

#[tokio::test]
async fn a_node_client_plays_the_scenario() {
    plays_the_scenario(Language::Node).await;
}

#[tokio::test]
async fn a_go_client_plays_the_scenario() {
    plays_the_scenario(Language::Go).await;
}

/// Goal: RFC 6455 holds at Harbor itself, down to what no client library can send.
#[tokio::test]
async fn the_wire_conforms_to_rfc_6455() {
    let python = python("conformance.py");
    all_ok(python, WIRE_CASES).await;
}

/// Goal: a payload written in one language is read in another without a byte changed.
/// Method: each language sends both vector files to each; ids and SHA-256 sums are compared in order.
#[tokio::test]
async fn every_language_reads_what_every_other_writes() {
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let exchanged = tokio::task::spawn_blocking(move || {
        for to in LANGUAGES {
            for from in LANGUAGES {
                exchange(&url, from, to);
            }
        }
    });
    exchanged.await.expect("every exchange holds");
    harbor.is_empty().await;
}

fn exchange(url: &str, from: Language, to: Language) {
    let (Some(mut listener), Some(_)) = (to.client(), from.client()) else {
        return;
    };
    let sender_id = format!("{from:?}-to-{to:?}");
    let listener_id = format!("{to:?}-from-{from:?}");
    let files = ["agent_session.jsonl", "odd_payloads.jsonl"]
        .map(|name| tests().join("vectors").join(name));
    let lines = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("the vectors are there"));
    let count = lines.map(|text| text.matches('\n').count()).sum::<usize>();

    listener
        .args([url, "--listen", &listener_id, &count.to_string()])
        .stdout(Stdio::piped());
    let mut listener = listener.spawn().expect("the listener starts");
    let mut heard = BufReader::new(listener.stdout.take().expect("its output is a pipe"));
    let mut first = String::new();
    heard.read_line(&mut first).expect("the listener prints");
    assert_eq!(first.trim(), format!("listening {listener_id}"));

    let mut sent = String::new();
    for file in files {
        let mut sender = from.client().expect("it was there just now");
        sender
            .args([url, "--send", &sender_id, &listener_id])
            .arg(file);
        sent.push_str(&run(sender, &sender_id));
    }
    let mut received = String::new();
    heard
        .read_to_string(&mut received)
        .expect("the listener prints text");
    assert!(
        listener.wait().expect("the listener ends").success(),
        "{listener_id}: {received}"
    );
    assert_eq!(received.lines().count(), count, "{listener_id}");
    assert_eq!(
        received.replace("received ", "sent "),
        sent,
        "{listener_id}"
    );
}
