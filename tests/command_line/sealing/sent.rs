//! Sealed messages from one command to another: `--seal`, and how what was opened is printed.

use serde_json::{Value, json};
use tokio::process::Command;

use super::super::{Running, run, run_with};
use super::files::Files;
use crate::support::{Agent, Harbor, binary, guarded::requiring, soon};

const SECRET: &str = r#"{"text":"only for bob"}"#;

/// What a line says of its payload.
fn shown(line: &Value) -> (&Value, &Value, &Value) {
    (&line["payload"], &line["encrypt"], &line["opened"])
}

fn opened(kid: &str) -> (Value, Value, Value) {
    (json!({"text": "only for bob"}), json!(true), json!(kid))
}

/// The same as [`shown`] gives.
fn by_parts(parts: &(Value, Value, Value)) -> (&Value, &Value, &Value) {
    (&parts.0, &parts.1, &parts.2)
}

#[tokio::test]
async fn what_harbor_has_no_key_for_goes_sealed_from_end_to_end() {
    let files = Files::new();
    let keys = files.seal("shared.json", "bob", "ours").await;
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let mut carol = Agent::in_groups(&harbor, "carol", &[("crew", &[])]).await;
    let mut bob = Running::listen(
        &harbor,
        "bob",
        &["--keys", &keys, "--echo", "--group", "crew"],
    )
    .await;
    let alice = ["--url", &url, "--agent", "alice", "--keys", &keys];
    let with = |first: &'static str, more: &[&'static str]| [&[first], &alice[..], more].concat();

    let sent = run(&with(
        "send",
        &["--seal", "ours", "--group", "crew", SECRET],
    ))
    .await;
    assert_eq!(sent.json()[0]["recipients"], 2);
    assert_eq!(shown(&bob.line().await), by_parts(&opened("ours")));
    let wire = carol.next().await;
    assert!(
        wire["encrypt"] == true && wire["payload"]["ciphertext"].is_string(),
        "{wire}"
    );
    assert!(!wire.to_string().contains("only"), "{wire}");

    let lines = run_with(
        &with("send", &["--seal", "ours", "--to", "bob", "--lines"]),
        "1\n2\n",
    )
    .await;
    assert_eq!(lines.json().len(), 2);
    for number in [1, 2] {
        let line = bob.line().await;
        assert_eq!(
            shown(&line),
            (&json!(number), &json!(true), &json!("ours")),
            "{line}"
        );
    }

    // The answer to what came sealed is sealed.
    let request = with("request", &["--seal", "ours", "--to", "bob", SECRET]);
    assert_eq!(run(&request).await.json(), [opened("ours").0]);
    let whole = run(&[&request[..], &["--json"]].concat()).await.json();
    assert_eq!(shown(&whole[0]), by_parts(&opened("ours")));
    for _ in 0..2 {
        bob.line().await;
    }

    // A sender cannot say that the receiver opened something.
    let claimed = json!({"receiver": {"agent_id": "bob"}, "opened": "ours", "payload": 1});
    assert_eq!(carol.deliver(claimed).await, 1);
    let line = bob.line().await;
    assert_eq!(
        shown(&line),
        (&json!(1), &Value::Null, &Value::Null),
        "{line}"
    );
}

#[tokio::test]
async fn what_the_listener_has_no_key_for_stays_sealed_and_says_so() {
    let files = Files::new();
    let ours = files.seal("ours.json", "crew", "ours").await;
    let other = files.seal("other.json", "crew", "other").await;
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let join = ["join", "crew", "--url", &url, "--agent", "bob"];
    let mut bob = Running::start(&[&join[..], &["--keys", &ours]].concat());
    assert_eq!(bob.line().await["event"], "members");
    let send = ["send", "--url", &url, "--group", "crew", "--keys", &ours];
    let send = [&send[..], &["--keys", &other]].concat();
    for kid in ["ours", "other"] {
        let sent = run(&[&send[..], &["--seal", kid, SECRET]].concat()).await;
        assert_eq!(sent.json()[0]["recipients"], 1);
    }
    let line = bob.line().await;
    assert_eq!(shown(&line["message"]), by_parts(&opened("ours")));
    let line = bob.line().await;
    let (payload, encrypt, opened) = shown(&line["message"]);
    assert!(payload["ciphertext"].is_string() && *encrypt == json!(true) && opened.is_null());
}

/// The way through Harbor, with the files that `harbor keys` makes: signed and sealed with keys of two
/// files each.
#[tokio::test]
async fn what_harbor_has_both_keys_of_is_sealed_again_by_it() {
    let files = Files::new();
    let ring = files.path("harbor.json");
    let seal = ["--algorithm", "A256GCM", "--kid"];
    for (agent, out, more) in [
        ("harbor", None, &[][..]),
        ("alice", Some("alice.json"), &[]),
        (
            "alice",
            Some("alice-seal.json"),
            &[&seal[..], &["alice-seal"]].concat(),
        ),
        ("bob", Some("bob.json"), &[]),
        (
            "bob",
            Some("bob-seal.json"),
            &[&seal[..], &["bob-seal"]].concat(),
        ),
    ] {
        let mut add = Command::new(binary("harbor"));
        add.args(["keys", "add", agent, "--keys", &ring]).args(more);
        add.args(out.iter().flat_map(|out| ["--out".into(), files.path(out)]));
        let added = soon("the key is made", add.output()).await.unwrap();
        assert!(added.status.success(), "{added:?}");
    }
    let harbor = Harbor::with(requiring(&ring)).await;
    let url = harbor.url();
    let [alice, alice_seal, bob, bob_seal] =
        ["alice.json", "alice-seal.json", "bob.json", "bob-seal.json"].map(|name| files.path(name));
    let keys = ["--echo", "--keys", &bob, "--keys", &bob_seal];
    let mut bob = Running::listen(&harbor, "bob", &keys).await;

    // Files count before the subcommand and after it.
    let before = ["--keys", &alice, "--agent", "alice", "--url", &url];
    let after = ["--keys", &alice_seal, "--seal", "alice-seal", "--to", "bob"];
    let all = |command| [&before[..], &[command], &after, &[SECRET]].concat();
    assert_eq!(run(&all("send")).await.json()[0]["recipients"], 1);
    let line = bob.line().await;
    assert_eq!(shown(&line), by_parts(&opened("bob-seal")));
    assert_eq!(line["harbor"]["resealed"]["under"], "bob-seal", "{line}");
    let answer = run(&[&all("request")[..], &["--json"]].concat()).await;
    assert_eq!(shown(&answer.json()[0]), by_parts(&opened("alice-seal")));

    let unsigned = run(&[&["send"], &before[2..], &after, &[SECRET]].concat()).await;
    assert_eq!(unsigned.code, Some(77), "{unsigned:?}");
}

#[tokio::test]
async fn a_seal_that_cannot_be_made_is_told_before_connecting() {
    let files = Files::new();
    let keys = files.seal("keys.json", "bob", "good").await;
    let ended = ["--kid", "ended", "--not-after", "2020-01-01T00:00:00Z"];
    files
        .keygen(
            "keys.json",
            "bob",
            &[&["--algorithm", "A256GCM"], &ended[..]].concat(),
        )
        .await;
    let signing = files.path("signing.json");
    files
        .keygen("signing.json", "alice", &["--kid", "signs"])
        .await;
    let with_keys = |more: &'static [&'static str]| [&["--keys", &keys][..], more].concat();
    for (more, says) in [
        (vec!["--seal", "good", "--to", "bob"], "--keys"),
        (with_keys(&["--seal", "bad", "--to", "bob"]), "\"bad\""),
        (
            with_keys(&["--seal", "ended", "--to", "bob"]),
            "not valid now",
        ),
        (
            with_keys(&["--seal", "good", "--broadcast"]),
            "one agent or one group",
        ),
        (
            with_keys(&["--seal", "good", "--to", "b", "--group", "g"]),
            "one agent or one group",
        ),
        (
            vec!["--keys", &signing, "--seal", "signs", "--to", "bob"],
            "\"signs\"",
        ),
    ] {
        for command in ["send", "request"] {
            // Nobody listens there: to connect would be 69.
            let fixed = [command, "--url", "ws://127.0.0.1:1", "1"];
            let ran = run(&[&fixed[..], &more].concat()).await;
            assert_eq!(
                (ran.code, &*ran.stdout),
                (Some(64), ""),
                "{more:?}: {ran:?}"
            );
            assert!(ran.stderr.starts_with("synapse: --seal: "), "{ran:?}");
            assert!(ran.stderr.contains(says), "{ran:?}");
            assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        }
    }
}
