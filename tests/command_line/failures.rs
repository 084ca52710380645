//! Exit codes, and one line for each failure.

use std::time::Duration;

use super::{command, run};
use crate::support::{Agent, Harbor, soon};

/// Runs what must fail, and gives its one line.
async fn fails(arguments: &[&str], code: i32) -> String {
    let ran = run(arguments).await;
    assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{arguments:?}");
    assert_eq!(
        ran.stderr.lines().count(),
        1,
        "{arguments:?}: {}",
        ran.stderr
    );
    let line = ran.stderr.trim_end();
    line.strip_prefix("synapse: ")
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned()
}

#[tokio::test]
async fn wrong_usage_is_64_and_names_what_is_wrong() {
    for (arguments, named) in [
        ("send --to bob --frob 1", "--frob"),
        ("sned", "send"),
        ("", "a subcommand is missing: listen, send, request"),
        ("--json", "a subcommand is missing: listen, send, request"),
        ("frob", "'frob'"),
        ("send --to b --priority x 1", "a whole number from 1 to 9"),
        ("send --to b --ttl x 1", "a whole number"),
        ("listen --count 1.5", "a whole number"),
        ("discover --limit 0", "a whole number from 1 to 1000"),
        ("send 1", "--to"),
        ("send --role dev --to b 1", "--group"),
        ("send --to b --priority 10 1", "10"),
        ("send --to b --ttl -1 1", "a whole number"),
        ("send --to b --lines 1", "--lines"),
        ("send --to b --lines --id x", "--id"),
        ("send --to b x", "--text"),
        ("request --to b --deadline 0 1", "--deadline"),
        ("listen --group :r", "group"),
        ("listen --url http://h", "ws://"),
        ("listen --ca no.pem", "wss://"),
        ("listen --cert c.pem", "--key"),
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let line = fails(&arguments, 64).await;
        assert!(line.contains(named), "{arguments:?}: {line}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_69_and_what_does_not_answer_75() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", unused.local_addr().unwrap());
    // It accepts, and says nothing.
    let line = fails(
        &["discover", "--url", &url, "--connect-deadline", "0.2"],
        75,
    )
    .await;
    assert!(line.contains("deadline"), "{line}");
    drop(unused);
    for subcommand in [
        vec!["listen"],
        vec!["join", "g"],
        vec!["discover"],
        vec!["send", "--to", "b", "1"],
        vec!["request", "--to", "b", "1"],
    ] {
        let mut all = subcommand.clone();
        all.extend(["--url", &url]);
        let line = fails(&all, 69).await;
        assert!(line.contains(&url) && line.contains("refused"), "{line}");
    }
}

#[tokio::test]
async fn refused_or_nobody_is_1_and_no_answer_75() {
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let mut bob = Agent::register(&harbor, "bob").await;
    let line = fails(&["send", "--url", &url, "--broadcast", "1"], 1).await;
    assert!(line.contains("missing_field"), "{line}");
    let line = fails(&["request", "--url", &url, "--to", "nobody", "1"], 1).await;
    assert!(line.contains("nobody"), "{line}");
    let request = [
        "request",
        "--url",
        &url,
        "--to",
        "bob",
        "--deadline",
        "0.2",
        "1",
    ];
    let line = fails(&request, 75).await;
    assert!(line.contains("deadline"), "{line}");
    assert_eq!(bob.received().await.len(), 1);
}

#[tokio::test]
async fn an_input_that_cannot_be_read_is_66() {
    let harbor = Harbor::start().await;
    let url = harbor.url();
    for more in [
        &["--file", "/no/such/file"][..],
        &["--file", "/no/such/file", "--lines"],
    ] {
        let mut all = vec!["send", "--url", &url, "--to", "b"];
        all.extend(more);
        let line = fails(&all, 66).await;
        assert!(line.contains("/no/such/file"), "{line}");
    }
}

#[tokio::test]
async fn an_errand_does_not_drive_out_the_agent_it_runs_as() {
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let mut alice = Agent::register(&harbor, "alice").await;
    let line = fails(
        &["send", "--url", &url, "--as", "alice", "--to", "b", "1"],
        77,
    )
    .await;
    assert!(line.contains("agent_in_use"), "{line}");
    let receiver = serde_json::json!({"receiver": {"agent_id": "alice"}});
    assert_eq!(alice.deliver(receiver).await, 1);
}

#[tokio::test]
async fn an_interrupt_while_connecting_ends_it() {
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", mute.local_addr().unwrap());
    let running = super::Running::start(&["listen", "--url", &url]);
    // It is past the set-up of its signals when it connects.
    let _connection = soon("it connects", mute.accept()).await.unwrap();
    running.signal("-INT").await;
    assert_eq!(running.end().await.0.code(), Some(0));
}

#[tokio::test]
async fn help_lists_the_exit_codes() {
    let ran = run(&["--help"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    for code in [
        "  0 ", "  1 ", " 64 ", " 66 ", " 69 ", " 71 ", " 75 ", " 77 ",
    ] {
        assert!(ran.stdout.contains(code), "{code}");
    }
    let version = command(&["--version"]).output();
    let version = tokio::time::timeout(Duration::from_secs(20), version).await;
    assert!(version.unwrap().unwrap().stdout.starts_with(b"synapse "));
}
