//! Keys and signatures by hand: `keygen`, `sign`, `verify`, and `--keys` of the other commands.

use serde_json::{Value, json};

use super::{Running, run, run_with};
use crate::support::{Harbor, guarded::requiring};

/// A folder with the files of keys that a person would make.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn keygen(&self, file: &str, agent_id: &str, more: &[&str]) -> Value {
        let path = self.path(file);
        let mut arguments = vec!["--keys", &path, "--agent", agent_id, "keygen"];
        arguments.extend(more);
        run(&arguments).await.json().remove(0)
    }
}

fn envelope(agent_id: &str, payload: Value) -> String {
    json!({
        "id": "m-1", "version": "1.0.0", "type": "note", "sender": {"agent_id": agent_id},
        "receiver": {"agent_id": "bob"}, "payload": payload, "timestamp": "2026-03-01T12:00:00Z",
    })
    .to_string()
}

#[tokio::test]
async fn what_is_signed_verifies_and_what_is_touched_does_not() {
    let files = Files {
        folder: tempfile::tempdir().unwrap(),
    };
    let public = files.path("public.json");
    for algorithm in ["HMAC-SHA256", "HMAC-SHA512", "Ed25519"] {
        let agent = algorithm.to_lowercase();
        let made = files
            .keygen(
                "keys.json",
                &agent,
                &["--algorithm", algorithm, "--kid", algorithm],
            )
            .await;
        assert_eq!(
            made,
            json!({"kid": algorithm, "agent_id": agent, "algorithm": algorithm})
        );
        let path = files.path("keys.json");
        let plain = envelope(&agent, json!({"n": [1.5]}));
        let signed = run_with(&["--keys", &path, "--agent", &agent, "sign"], &plain).await;
        assert_eq!(signed.json()[0]["signature_algorithm"], algorithm);
        let good = run_with(&["--keys", &path, "verify"], &signed.stdout).await;
        assert_eq!(good.json(), [json!({"id": "m-1", "verified": algorithm})]);
        let touched = signed.stdout.replace("1.5", "1.6");
        let bad = run_with(&["--keys", &path, "verify"], &touched).await;
        assert_eq!(bad.code, Some(1));
        assert!(bad.stdout.contains("bad_signature"), "{bad:?}");
    }
    // Who only verifies needs no secret.
    files
        .keygen("own.json", "carol", &["--public", &public])
        .await;
    let own = files.path("own.json");
    let signed = run_with(&["--keys", &own, "sign"], &envelope("carol", json!(1))).await;
    let verified = run_with(&["--keys", &public, "verify"], &signed.stdout).await;
    assert_eq!(verified.json().len(), 1);
    assert!(!std::fs::read_to_string(&public).unwrap().contains("\"d\""));
    let cannot = run_with(&["--keys", &public, "sign"], &envelope("carol", json!(1))).await;
    assert_eq!(cannot.code, Some(66), "{cannot:?}");
}

#[tokio::test]
async fn what_cannot_be_signed_or_made_is_one_line() {
    let files = Files {
        folder: tempfile::tempdir().unwrap(),
    };
    files.keygen("keys.json", "alice", &["--kid", "k"]).await;
    let path = files.path("keys.json");
    let missing = files.path("nothing.json");
    let unsafe_number = envelope("alice", json!(1)).replace(":1,", ":9007199254740993,");
    for (arguments, input, code, says) in [
        (vec!["keygen", "--agent", "a"], "", 64, "--keys"),
        (vec!["--keys", &path, "keygen"], "", 64, "--agent"),
        (
            vec!["--keys", &path, "--agent", "alice", "keygen", "--kid", "k"],
            "",
            66,
            "twice",
        ),
        (
            vec![
                "--keys",
                &path,
                "--agent",
                "a",
                "keygen",
                "--algorithm",
                "HS1",
            ],
            "",
            64,
            "HMAC-SHA256",
        ),
        (vec!["--keys", &missing, "sign"], "", 66, "nothing.json"),
        (
            vec!["--keys", &path, "--agent", "bob", "sign"],
            "",
            66,
            "no live key",
        ),
        (vec!["--keys", &path, "sign"], "{}", 1, "line 1"),
        (
            vec!["--keys", &path, "sign"],
            &unsafe_number,
            1,
            "unsafe_number",
        ),
    ] {
        let ran = run_with(&arguments, input).await;
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(says), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
}

#[tokio::test]
async fn the_commands_sign_for_a_harbor_that_requires_it() {
    let files = Files {
        folder: tempfile::tempdir().unwrap(),
    };
    files.keygen("keys.json", "alice", &[]).await;
    let keys = files.path("keys.json");
    files.keygen("bob.json", "bob", &["--public", &keys]).await;
    let harbor = Harbor::with(requiring(&keys)).await;
    let mut alice = Running::listen(&harbor, "alice", &["--keys", &keys]).await;
    let (url, bob) = (harbor.url(), files.path("bob.json"));
    let send = [
        "send", "--url", &url, "--agent", "bob", "--to", "alice", "1",
    ];
    let refused = run(&send).await;
    assert_eq!(refused.code, Some(77), "{refused:?}");
    let signed = [&send[..], &["--keys", &bob]].concat();
    assert_eq!(run(&signed).await.json()[0]["recipients"], 1);
    let got = alice.line().await;
    assert_eq!(got["payload"], 1);
    assert!(
        got["harbor"]["verified"]
            .as_str()
            .unwrap()
            .starts_with("bob-")
    );
}
