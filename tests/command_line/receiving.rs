//! `synapse listen` and `join`.

use serde_json::json;

use super::{Running, run};
use crate::support::{Agent, Harbor, eventually};

#[tokio::test]
async fn listen_prints_a_line_for_each_message_and_ends_on_an_interrupt() {
    let harbor = Harbor::start().await;
    let groups = ["--group", "crew:dev,ops", "--group", "a:b:"];
    let mut listen = Running::listen(&harbor, "alice", &groups).await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let message = json!({"group_id": "crew", "target_type": "role", "target_ids": ["ops"]});
    assert_eq!(bob.deliver(message).await, 1);
    assert_eq!(
        bob.deliver(json!({"group_id": "a:b", "payload": [1]}))
            .await,
        1
    );
    let first = listen.line().await;
    assert_eq!(
        (&first["group_id"], &first["type"]),
        (&json!("crew"), &json!("chat"))
    );
    assert_eq!(first["sender"]["agent_id"], "bob");
    assert_eq!(listen.line().await["payload"], json!([1]));
    listen.signal("-INT").await;
    let (status, stderr) = listen.end().await;
    assert_eq!((status.code(), &*stderr), (Some(0), ""));
    drop(bob);
    harbor.is_empty().await;
}

#[tokio::test]
async fn a_payload_of_many_lines_is_one_line() {
    let harbor = Harbor::start().await;
    let mut listen = Running::listen(&harbor, "alice", &["--count", "1"]).await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let frame = bob.envelope(json!({"receiver": {"agent_id": "alice"}, "payload": "PAYLOAD"}));
    let payload = "{\n  \"a\": [1,\r\n2]\n}";
    bob.send_text(frame.to_string().replace("\"PAYLOAD\"", payload))
        .await;
    assert_eq!(listen.line().await["payload"], json!({"a": [1, 2]}));
    let (status, _) = listen.end().await;
    assert_eq!(status.code(), Some(0), "it ends after one message");
}

#[tokio::test]
async fn a_reader_that_is_gone_ends_it_without_a_word() {
    let harbor = Harbor::start().await;
    let listen = Running::listen(&harbor, "alice", &[]).await;
    let Running { child, stdout } = listen;
    drop(stdout);
    let mut bob = Agent::register(&harbor, "bob").await;
    bob.deliver(json!({"receiver": {"agent_id": "alice"}}))
        .await;
    let output = crate::support::soon("it ends", child.wait_with_output())
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[tokio::test]
async fn a_listener_that_is_replaced_says_so() {
    let harbor = Harbor::start().await;
    let listen = Running::listen(&harbor, "alice", &[]).await;
    let _newer = Agent::register(&harbor, "alice").await;
    let (status, stderr) = listen.end().await;
    assert_eq!(status.code(), Some(69));
    assert_eq!(stderr, "synapse: the agent connected elsewhere (4001)\n");
}

#[tokio::test]
async fn an_echo_answers_requests_and_no_answers() {
    let harbor = Harbor::start().await;
    let mut echo = Running::listen(&harbor, "echo", &["--echo", "--count", "2"]).await;
    let url = harbor.url();
    let ran = run(&["request", "--url", &url, "--to", "echo", "{\"a\": 1}"]).await;
    assert_eq!(ran.stdout, "{\"a\": 1}\n", "{}", ran.stderr);
    let mut bob = Agent::register(&harbor, "bob").await;
    let answer = json!({"receiver": {"agent_id": "echo"}, "correlation_id": "x"});
    bob.deliver(answer).await;
    assert_eq!(echo.line().await["payload"], json!({"a": 1}));
    assert_eq!(echo.line().await["correlation_id"], "x");
    assert_eq!(echo.end().await.0.code(), Some(0));
    assert!(bob.received().await.is_empty());
}

#[tokio::test]
async fn join_shows_members_changes_and_messages() {
    let harbor = Harbor::start().await;
    let groups: [(&str, &[&str]); 1] = [("crew", &["dev"])];
    let bob = Agent::in_groups(&harbor, "bob", &groups).await;
    let url = harbor.url();
    let mut join = Running::start(&["join", "crew:lead", "--url", &url, "--as", "alice"]);
    let members = join.line().await;
    assert_eq!(members["event"], "members");
    assert_eq!(members["members"][0]["agent_id"], "alice");
    assert_eq!(members["members"][0]["roles"], json!(["lead"]));
    assert_eq!(members["members"][1]["agent_id"], "bob");
    let mut eve = Agent::in_groups(&harbor, "eve", &groups).await;
    let joined = join.line().await;
    let expected = json!({
        "event": "joined", "group_id": "crew", "agent_id": "eve", "roles": ["dev"],
    });
    assert_eq!(joined, expected);
    eve.deliver(json!({"group_id": "crew", "payload": "ahoy"}))
        .await;
    let message = join.line().await;
    assert_eq!(message["event"], "message");
    assert_eq!(message["message"]["payload"], "ahoy");
    bob.close().await;
    assert_eq!(join.line().await["event"], "left");
    join.signal("-TERM").await;
    assert_eq!(join.end().await.0.code(), Some(0));
    let left = json!({"group_id": "crew"});
    let left = eve.control("synapse.group.members", left).await;
    assert_eq!(left["members"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn join_once_prints_the_members_and_leaves() {
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let once = ["join", "crew", "--once", "--url", &url, "--as", "alice"];
    let lines = run(&once).await.json();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["members"][0]["agent_id"], "alice");
    eventually("nobody is left", || harbor.metric("harbor_groups") == 0.0).await;
}
