//! Goal: a frame gets from one agent to exactly those it names, byte for byte.
//! Method: raw agents on one Harbor; each form of address once, with a look at who got what.

use serde_json::json;

use crate::support::{Agent, Harbor};

#[tokio::test]
async fn the_senders_own_bytes_arrive() {
    let harbor = Harbor::start().await;
    let mut alice = Agent::register(&harbor, "alice").await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let frame = concat!(
        "{ \"payload\" : {\"text\":\"你好 👩‍🚀\\u0000\\/\", \"n\": [1e21, -0.0, 10.0, 9007199254740993],\t\"z\":1,\"a\":2},\n",
        "\"x-future\":[1, {\"k\":null}],\"receiver\":{\"agent_id\":\"bob\",\"agent_name\":null},",
        "\"timestamp\":\"2026-03-01T20:00:00+08:00\",\"type\":\"chat\",\"version\":\"1.0.0\",",
        "\"sender\":{\"agent_id\":\"alice\"},\"id\":\"odd spacing\"} "
    );
    alice.send_text(frame).await;
    assert_eq!(alice.next().await["payload"]["recipients"], 1);
    assert_eq!(bob.next_text().await, frame);
}

#[tokio::test]
async fn every_form_of_address_reaches_exactly_its_agents() {
    let harbor = Harbor::start().await;
    let mut agents = Vec::new();
    for (id, system, groups) in [
        ("a", "s", json!([{"group_id": "g", "role": "boss"}])),
        (
            "b",
            "s",
            json!([{"group_id": "g", "roles": ["worker", "reviewer"]}]),
        ),
        (
            "c",
            "t",
            json!([{"group_id": "g", "role": "worker"}, {"group_id": "h"}]),
        ),
        ("d", "s", json!([])),
    ] {
        let endpoint = json!({"agent_id": id, "system_id": system});
        agents.push(Agent::register_as(&harbor, endpoint, json!({"groups": groups})).await);
    }
    let specific =
        |ids: &[&str]| json!({"group_id": "g", "target_type": "specific", "target_ids": ids});
    let role = |ids: &[&str]| json!({"group_id": "g", "target_type": "role", "target_ids": ids});
    for (members, expected) in [
        (json!({"receiver": {"agent_id": "b"}}), "b"),
        (
            json!({"receiver": {"agent_id": "b", "system_id": "s"}}),
            "b",
        ),
        (json!({"receiver": {"agent_id": "b", "system_id": "t"}}), ""),
        (json!({"receiver": {"agent_id": "nobody"}}), ""),
        (json!({"receiver": {"agent_id": "a"}}), "a"),
        (json!({"group_id": "g"}), "bc"),
        (
            json!({"group_id": "g", "target_type": "all", "target_ids": ["b"]}),
            "bc",
        ),
        (json!({"group_id": "h"}), "c"),
        (json!({"group_id": "no such group"}), ""),
        (role(&["worker"]), "bc"),
        (role(&["reviewer", "worker", "worker"]), "bc"),
        (role(&["boss"]), ""),
        (role(&["no such role"]), ""),
        (specific(&["c", "c", "a", "d"]), "c"),
        (json!({"group_id": "g", "broadcast": true}), "bc"),
        (
            json!({"group_id": "g", "broadcast": true, "target_type": "role", "target_ids": ["reviewer"]}),
            "b",
        ),
        (json!({"broadcast": true}), "bd"),
        (
            json!({"broadcast": true, "target_type": "role", "target_ids": []}),
            "bd",
        ),
        (
            json!({"group_id": "g", "receiver": {"agent_id": "b"}}),
            "bc",
        ),
        (
            json!({"group_id": "g", "receiver": {"agent_id": "d"}}),
            "bcd",
        ),
        (
            json!({"group_id": "g", "receiver": {"agent_id": "a"}}),
            "abc",
        ),
        (
            json!({"broadcast": true, "receiver": {"agent_id": "c"}}),
            "bcd",
        ),
    ] {
        let mut envelope = members.clone();
        envelope["payload"] = json!({"case": members});
        let sent = agents[0].envelope(envelope);
        agents[0].send(&sent).await;
        let mut got = String::new();
        for agent in &mut agents {
            for payload in agent.received().await {
                assert_eq!(payload, sent["payload"]);
                got += &agent.id;
            }
        }
        assert_eq!(got, expected, "{members}");
    }
}

#[tokio::test]
async fn accepted_says_how_many() {
    let harbor = Harbor::start().await;
    let mut a = Agent::in_groups(&harbor, "a", &[("g", &["boss"])]).await;
    let _b = Agent::in_groups(&harbor, "b", &[("g", &["worker"])]).await;
    let _c = Agent::in_groups(&harbor, "c", &[("g", &[])]).await;
    assert_eq!(a.deliver(json!({"group_id": "g"})).await, 2);
    let role = |role: &str| json!({"group_id": "g", "target_type": "role", "target_ids": [role]});
    assert_eq!(a.deliver(role("worker")).await, 1);
    assert_eq!(a.deliver(role("unknown")).await, 0);
    assert_eq!(
        a.deliver(json!({"receiver": {"agent_id": "nobody"}})).await,
        0
    );
    let answer = a.ask(json!({"receiver": {"agent_id": "b"}})).await;
    let promised = json!({"durability": "routed", "recipients": 1, "duplicate": false});
    assert_eq!(answer["payload"], promised);
    assert_eq!(harbor.metric("harbor_messages_accepted_total"), 5.0);
    assert_eq!(harbor.metric("harbor_messages_unrouted_total"), 2.0);
}

#[tokio::test]
async fn a_request_is_answered_through_reply_to_and_correlation_id() {
    let harbor = Harbor::start().await;
    let mut asker = Agent::register(&harbor, "asker").await;
    let mut worker = Agent::register(&harbor, "worker").await;
    let mut archive = Agent::register(&harbor, "archive").await;
    let members = json!({"receiver": {"agent_id": "worker"}, "reply_to": "archive"});
    let request = asker.envelope(members);
    asker.send(&request).await;
    let seen = worker.next().await;
    assert_eq!(
        (&seen["id"], &seen["reply_to"]),
        (&request["id"], &json!("archive"))
    );
    let answer = json!({"receiver": {"agent_id": seen["reply_to"]}, "correlation_id": seen["id"]});
    assert_eq!(worker.deliver(answer).await, 1);
    let got = archive.next().await;
    assert_eq!(
        (&got["correlation_id"], &got["sender"]["agent_id"]),
        (&request["id"], &json!("worker"))
    );
}

#[tokio::test]
async fn who_asked_for_refusals_only_hears_of_refusals_only() {
    let harbor = Harbor::start().await;
    let quiet = json!({"confirm": "refusals"});
    let mut a = Agent::register_as(&harbor, json!({"agent_id": "a"}), quiet).await;
    let fine = a.envelope(json!({"receiver": {"agent_id": "nobody"}}));
    a.send(&fine).await;
    let (code, _) = a.refused(json!({})).await;
    assert_eq!(
        code, "no_destination",
        "the first answer is that of the second message"
    );
}
