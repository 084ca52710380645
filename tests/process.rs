//! Goal: the `harbor` command says in one clear line what is wrong, and starts and stops cleanly.
//! Method: the real binary as a process.

use std::process::{Output, Stdio};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::support::{binary, soon};

async fn fails(arguments: &[&str], status: i32) -> String {
    let output = soon(
        "harbor gives up",
        Command::new(binary("harbor")).args(arguments).output(),
    );
    let Output {
        status: got,
        stderr,
        ..
    } = output.await.unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(got.code(), Some(status), "{arguments:?}: {stderr}");
    stderr
}

#[tokio::test]
async fn what_is_wrong_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let unknown = file("unknown.toml", "# one\n\nlissten = \"127.0.0.1:0\"\n");
    let wrong = file("wrong.toml", "heartbeat_seconds = \"often\"\n");
    let broken = file("broken.toml", "heartbeat_seconds = \n");
    for (arguments, status, parts) in [
        (vec!["--bogus"], 64, vec!["--bogus"]),
        (vec!["--listen", "nowhere"], 64, vec!["nowhere", "--listen"]),
        (vec!["extra"], 64, vec!["extra"]),
        (vec!["--listen", &taken], 69, vec!["cannot listen", &taken]),
        (
            vec!["--listen", "0.0.0.0:0"],
            78,
            vec!["listen", "loopback"],
        ),
        (vec!["--outbox-bytes", "1"], 78, vec!["outbox_bytes"]),
        (vec!["config"], 64, vec!["a subcommand is missing", "print"]),
        (
            vec!["--heartbeat-seconds", "often"],
            64,
            vec!["--heartbeat-seconds", "not a whole number"],
        ),
        (
            vec!["--allowed-origins", "a b"],
            78,
            vec!["allowed_origins", "\"a b\"", "scheme://host"],
        ),
        (
            vec!["--allowed-origins", "https://app.example/"],
            78,
            vec!["allowed_origins", "https://app.example/"],
        ),
        (
            vec!["--connections-max", "18446744073709551615"],
            78,
            vec!["connections_max", "10000000"],
        ),
        (
            vec!["--ttl-max-seconds", "0"],
            78,
            vec!["ttl_max_seconds is from 1"],
        ),
        (
            vec!["--ttl-max-seconds", "10", "--ttl-default-seconds", "11"],
            78,
            vec!["ttl_default_seconds is from 1 to 10"],
        ),
        // The default that was not given follows; only the address is wrong.
        (
            vec!["--ttl-max-seconds", "10", "--listen", &taken],
            69,
            vec!["cannot listen"],
        ),
        (
            vec!["--config", "/no/such/file"],
            78,
            vec!["/no/such/file", "No such file"],
        ),
        (
            vec!["--config", &unknown],
            78,
            vec![&unknown, "line 3", "lissten"],
        ),
        (
            vec!["--config", &wrong],
            78,
            vec![&wrong, "line 1", "a whole number"],
        ),
        (vec!["--config", &broken], 78, vec![&broken, "line 1"]),
    ] {
        let said = fails(&arguments, status).await;
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("harbor: "), "{said}");
        for part in parts {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    }
}

#[tokio::test]
async fn a_flag_goes_over_the_variable_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("harbor.toml");
    std::fs::write(
        &path,
        "listen = \"127.0.0.1:0\"\nmax_frame_bytes = 10000\nnode = \"file\"\n",
    )
    .unwrap();
    let mut harbor = Command::new(binary("harbor"))
        .arg("--config")
        .arg(&path)
        .args(["--heartbeat-seconds", "7"])
        .env("HARBOR_NODE", "variable")
        .env("HARBOR_HEARTBEAT_SECONDS", "8")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(harbor.stdout.take().unwrap()).lines();
    let line = soon("it listens", lines.next_line())
        .await
        .unwrap()
        .unwrap();
    let url = line.strip_prefix("listening on ").unwrap();
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let challenge = futures_util::StreamExt::next(&mut socket)
        .await
        .unwrap()
        .unwrap();
    let challenge: serde_json::Value = serde_json::from_str(challenge.to_text().unwrap()).unwrap();
    let payload = &challenge["payload"];
    assert_eq!(payload["node"], "variable");
    assert_eq!(payload["heartbeat_seconds"], 7);
    assert_eq!(payload["max_frame_bytes"], 10_000);

    let pid = harbor.id().unwrap().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let status = soon("it stops", harbor.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn the_default_file_is_printed_and_can_be_read_back() {
    let output = Command::new(binary("harbor"))
        .args(["config", "print"])
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("#listen = \"127.0.0.1:7420\""));
    assert!(harbor::Settings::from_toml(&text).is_ok());
}
