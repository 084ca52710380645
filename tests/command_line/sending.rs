//! `synapse send`, `request` and `discover`.

use serde_json::{Value, json};

use super::{run, run_with};
use crate::support::{Agent, Harbor};

#[tokio::test]
async fn a_payload_comes_from_an_argument_a_file_or_standard_input() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("payload.json");
    std::fs::write(&file, "{\"from\":\n\"file\"}\n").unwrap();
    let file = file.to_str().unwrap();
    let url = harbor.url();
    for (arguments, input, expected) in [
        (vec!["{\"a\": 1}"], "", json!({"a": 1})),
        (vec!["--text", "two words"], "", json!("two words")),
        (vec![], "", Value::Null),
        (vec!["-"], "[1,\n2]", json!([1, 2])),
        (
            vec!["-", "--text"],
            "line 1\nline 2\n",
            json!("line 1\nline 2"),
        ),
        (vec!["--file", file], "", json!({"from": "file"})),
    ] {
        let mut all = vec!["send", "--url", &url, "--to", "bob"];
        all.extend(&arguments);
        let accepted = run_with(&all, input).await.json();
        assert_eq!(accepted.len(), 1);
        assert_eq!(accepted[0]["recipients"], 1);
        let delivery = bob.next().await;
        assert_eq!(delivery["payload"], expected, "{arguments:?}");
        assert_eq!(delivery["id"], accepted[0]["id"]);
    }
}

#[tokio::test]
async fn every_field_of_the_envelope_can_be_given() {
    let harbor = Harbor::start().await;
    let groups: [(&str, &[&str]); 1] = [("crew", &["dev"])];
    let mut bob = Agent::in_groups(&harbor, "bob", &groups).await;
    let url = harbor.url();
    let given = "--group crew --role dev --type chat --id i --answers a --reply-to r \
                 --conversation c --ttl 60 --priority 7 --as me --system s --name Me 1";
    let mut all = vec!["send", "--url", &url];
    all.extend(given.split_whitespace());
    assert_eq!(run(&all).await.json()[0]["recipients"], 1);
    let got = bob.next().await;
    for (field, value) in [
        ("group_id", json!("crew")),
        ("target_type", json!("role")),
        ("target_ids", json!(["dev"])),
        ("type", json!("chat")),
        ("id", json!("i")),
        ("correlation_id", json!("a")),
        ("reply_to", json!("r")),
        ("conversation_id", json!("c")),
        ("ttl", json!(60)),
        ("priority", json!(7)),
        (
            "sender",
            json!({"agent_id": "me", "agent_name": "Me", "system_id": "s"}),
        ),
        ("payload", json!(1)),
    ] {
        assert_eq!(got[field], value, "{field}");
    }
    for (arguments, recipients) in [
        ("--group crew --member bob --member eve 2", 1),
        ("--group crew --role qa 3", 0),
        ("--broadcast --system s 4", 0),
        ("--to bob --group crew 5", 1),
    ] {
        let mut all = vec!["send", "--url", &url];
        all.extend(arguments.split_whitespace());
        assert_eq!(
            run(&all).await.json()[0]["recipients"],
            recipients,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn one_message_for_each_line_in_order() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let url = harbor.url();
    let lines: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    let send = ["send", "--url", &url, "--to", "bob", "--lines"];
    let accepted = run_with(&send, &lines.join("\n\n")).await.json();
    assert_eq!(accepted.len(), 1_000);
    for (number, accepted) in accepted.iter().enumerate() {
        let delivery = bob.next().await;
        assert_eq!(delivery["payload"], number);
        assert_eq!(delivery["id"], accepted["id"]);
    }
}

#[tokio::test]
async fn what_follows_a_line_that_is_no_json_is_not_sent() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let url = harbor.url();
    let send = ["send", "--url", &url, "--to", "bob", "--lines"];
    let ran = run_with(&send, "1\n2\nx y\n4\n").await;
    assert_eq!(ran.code, Some(64));
    assert_eq!(ran.stdout.lines().count(), 2);
    assert!(
        ran.stderr.starts_with("synapse: line 3: "),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1);
    assert_eq!(bob.received().await, [1, 2]);
}

#[tokio::test]
async fn a_refused_line_is_told_and_the_others_are_sent() {
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let send = ["send", "--url", &url, "--broadcast", "--lines"];
    let ran = run_with(&send, "1\n2\n").await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""));
    let told = ran
        .stderr
        .lines()
        .filter(|line| line.contains("missing_field"));
    assert_eq!(told.count(), 2, "{}", ran.stderr);
}

#[tokio::test]
async fn a_request_prints_the_answers_payload() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let url = harbor.url();
    tokio::spawn(async move {
        loop {
            let request = bob.next().await;
            if request["type"] == "synapse.accepted" {
                continue;
            }
            let answer = bob.envelope(json!({
                "receiver": {"agent_id": request["sender"]["agent_id"]},
                "correlation_id": request["id"],
                "payload": request["payload"],
            }));
            bob.send(&answer).await;
        }
    });
    let request = |arguments: &'static [&'static str]| {
        let mut all = vec!["request", "--url", &url, "--to", "bob"];
        all.extend(arguments);
        async move { run(&all).await }
    };
    assert_eq!(request(&["{\"a\":1}"]).await.stdout, "{\"a\":1}\n");
    assert_eq!(
        request(&["--text", "hello you"]).await.stdout,
        "hello you\n"
    );
    let whole = request(&["--json", "5"]).await.json();
    assert_eq!(whole[0]["payload"], 5);
    assert_eq!(whole[0]["sender"]["agent_id"], "bob");
}

#[tokio::test]
async fn agents_are_found() {
    let harbor = Harbor::start().await;
    let bob = json!({"agent_id": "bob", "system_id": "s", "capabilities": ["sing"]});
    let groups = json!({"groups": [{"group_id": "crew", "role": "dev"}]});
    let _bob = Agent::register_as(&harbor, bob.clone(), groups).await;
    let _eve = Agent::register(&harbor, "eve").await;
    let url = harbor.url();
    for arguments in ["--can sing", "--role dev --group crew", "--in-system s"] {
        let mut all = vec!["discover", "--url", &url];
        all.extend(arguments.split_whitespace());
        assert_eq!(
            run(&all).await.json(),
            std::slice::from_ref(&bob),
            "{arguments}"
        );
    }
    let all = run(&["discover", "--url", &url]).await.json();
    assert_eq!(all.len(), 2, "the visitor does not list itself: {all:?}");
}

#[tokio::test]
async fn url_and_agent_come_from_the_environment_too() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let mut command = super::command(&["send", "--to", "bob", "1"]);
    command.env("SYNAPSE_URL", format!("ws://{}", harbor.addr()));
    command.env("SYNAPSE_AGENT", "from-env");
    assert!(command.output().await.unwrap().status.success());
    let delivery = bob.next().await;
    assert_eq!(delivery["sender"]["agent_id"], "from-env");
    let mut named = super::command(&["send", "--to", "bob", "2", "--as", "named"]);
    named.env("SYNAPSE_URL", harbor.url());
    named.env("SYNAPSE_AGENT", "from-env");
    assert!(named.output().await.unwrap().status.success());
    assert_eq!(bob.next().await["sender"]["agent_id"], "named");
}
