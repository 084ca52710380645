//! Goal: membership, roles, presence and discovery are what agents made them.
//! Method: raw agents join, leave, drop and come back; answers and changes are compared whole.

use serde_json::{Value, json};

use crate::support::{Agent, Harbor};

fn member(id: &str, roles: &[&str]) -> Value {
    json!({"agent_id": id, "roles": roles, "online": true})
}

#[tokio::test]
async fn an_agent_in_many_groups_with_several_roles() {
    let harbor = Harbor::start().await;
    let mut a = Agent::in_groups(&harbor, "a", &[("g", &["y", "x", "y"]), ("h", &[])]).await;
    let joined = a
        .control(
            "synapse.group.join",
            json!({"group_id": "i", "role": "one", "roles": ["two", ""]}),
        )
        .await;
    assert_eq!(joined["members"], json!([member("a", &["one", "two"])]));
    let members = |group: &str| json!({"group_id": group});
    for (group, roles) in [
        ("g", vec!["x", "y"]),
        ("h", vec![]),
        ("i", vec!["one", "two"]),
    ] {
        let roster = a.control("synapse.group.members", members(group)).await;
        assert_eq!(roster["group_id"], group);
        assert_eq!(roster["members"], json!([member("a", &roles)]));
    }
    let replaced = a
        .control("synapse.group.join", json!({"group_id": "g", "role": "z"}))
        .await;
    assert_eq!(
        replaced["members"],
        json!([member("a", &["z"])]),
        "a join names all roles"
    );
    let left = a.control("synapse.group.leave", members("g")).await;
    assert_eq!(left["members"], json!([]));
    let left_again = a.control("synapse.group.leave", members("g")).await;
    assert_eq!(left_again["members"], json!([]), "leaving twice is fine");
    assert_eq!(harbor.metric("harbor_groups"), 2.0);
    a.close().await;
    harbor.is_empty().await;
}

#[tokio::test]
async fn a_watch_gives_the_snapshot_then_every_change_after_it() {
    let harbor = Harbor::start().await;
    let mut watcher = Agent::register(&harbor, "watcher").await;
    let mut a = Agent::in_groups(&harbor, "a", &[("g", &["x"])]).await;
    let snapshot = watcher
        .control("synapse.presence.watch", json!({"group_id": "g"}))
        .await;
    assert_eq!(snapshot["members"], json!([member("a", &["x"])]));
    let mut position = snapshot["position"].as_u64().unwrap();

    a.control("synapse.group.join", json!({"group_id": "g", "role": "y"}))
        .await;
    a.control("synapse.group.join", json!({"group_id": "g", "role": "y"}))
        .await;
    let b = Agent::in_groups(&harbor, "b", &[("g", &[])]).await;
    a.control("synapse.group.leave", json!({"group_id": "g"}))
        .await;
    b.close().await;
    for (id, roles, change, online) in [
        ("a", json!(["y"]), "changed", true),
        ("b", json!([]), "joined", true),
        ("a", json!(["y"]), "left", false),
        ("b", json!([]), "left", false),
    ] {
        let frame = watcher.next().await;
        assert_eq!(frame["type"], "synapse.presence");
        let payload = &frame["payload"];
        let expected = json!({
            "group_id": "g", "position": payload["position"], "change": change,
            "agent_id": id, "roles": roles, "online": online,
        });
        assert_eq!(*payload, expected);
        assert!(
            payload["position"].as_u64().unwrap() > position,
            "positions grow"
        );
        position = payload["position"].as_u64().unwrap();
    }
    watcher
        .control("synapse.presence.unwatch", json!({"group_id": "g"}))
        .await;
    let c = Agent::in_groups(&harbor, "c", &[("g", &[])]).await;
    let next = watcher
        .control("synapse.group.members", json!({"group_id": "g"}))
        .await;
    assert_eq!(
        next["members"],
        json!([member("c", &[])]),
        "no change came in between"
    );
    a.close().await;
    c.close().await;
    watcher.close().await;
    harbor.is_empty().await;
}

#[tokio::test]
async fn a_system_is_watched_like_a_group() {
    let harbor = Harbor::start().await;
    let mut watcher = Agent::register(&harbor, "watcher").await;
    let scope = json!({"system_id": "s"});
    let snapshot = watcher
        .control("synapse.presence.watch", scope.clone())
        .await;
    assert_eq!(
        (&snapshot["system_id"], &snapshot["members"]),
        (&json!("s"), &json!([]))
    );
    let a = Agent::register_as(
        &harbor,
        json!({"agent_id": "a", "system_id": "s"}),
        json!({}),
    )
    .await;
    let joined = watcher.next().await;
    assert_eq!(
        (&joined["payload"]["change"], &joined["payload"]["agent_id"]),
        (&json!("joined"), &json!("a"))
    );
    // The same agent connects again in another system: it leaves the first.
    let moved = json!({"agent_id": "a", "system_id": "t"});
    let _a2 = Agent::register_as(&harbor, moved, json!({})).await;
    let left = watcher.next().await;
    assert_eq!(
        (&left["payload"]["change"], &left["payload"]["agent_id"]),
        (&json!("left"), &json!("a"))
    );
    drop(a);
    assert_eq!(
        watcher.control("synapse.presence.unwatch", scope).await["system_id"],
        "s"
    );
}

#[tokio::test]
async fn discovery_finds_agents_for_which_all_conditions_hold() {
    let harbor = Harbor::start().await;
    let mut agents = Vec::new();
    for (id, system, capabilities, groups) in [
        (
            "a",
            "s",
            vec!["sum", "sort"],
            json!([{"group_id": "g", "role": "x"}]),
        ),
        (
            "b",
            "s",
            vec!["sum"],
            json!([{"group_id": "h", "role": "x"}, {"group_id": "g"}]),
        ),
        ("c", "t", vec!["sum"], json!([])),
        ("d", "", vec![], json!([{"group_id": "h", "role": "y"}])),
    ] {
        let endpoint = json!({"agent_id": id, "system_id": system, "capabilities": capabilities});
        agents.push(Agent::register_as(&harbor, endpoint, json!({"groups": groups})).await);
    }
    for (query, expected) in [
        (json!({}), "abcd"),
        (json!({"capability": "sum"}), "abc"),
        (json!({"capability": "sum", "system_id": "s"}), "ab"),
        (json!({"system_id": "s"}), "ab"),
        (json!({"group_id": "g"}), "ab"),
        (json!({"group_id": "g", "role": "x"}), "a"),
        (json!({"role": "x"}), "ab"),
        (json!({"role": "x", "capability": "sort"}), "a"),
        (json!({"role": "y", "system_id": "s"}), ""),
        (json!({"group_id": "none"}), ""),
        (json!({"capability": "su"}), ""),
    ] {
        let found = agents[3].control("synapse.discover", query.clone()).await;
        let ids: String = found["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| agent["agent_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, expected, "{query}");
        assert_eq!(found["total"], expected.len());
    }
    let limited = agents[3]
        .control("synapse.discover", json!({"limit": 2}))
        .await;
    assert_eq!(
        (
            limited["agents"].as_array().unwrap().len(),
            &limited["total"]
        ),
        (2, &json!(4))
    );
    assert_eq!(limited["agents"][0]["capabilities"], json!(["sum", "sort"]));
}

#[tokio::test]
async fn a_takeover_keeps_groups_and_a_goodbye_ends_them() {
    let harbor = Harbor::start().await;
    let mut boss = Agent::register(&harbor, "boss").await;
    let mut old = Agent::in_groups(&harbor, "a", &[("g", &["x"])]).await;
    let mut new = Agent::register(&harbor, "a").await;
    assert_eq!(old.closed().await, Some(4001));
    assert_eq!(
        boss.deliver(json!({"group_id": "g"})).await,
        1,
        "it never left"
    );
    assert_eq!(new.received().await.len(), 1);
    new.close().await;
    let roster = boss
        .control("synapse.group.members", json!({"group_id": "g"}))
        .await;
    assert_eq!(roster["members"], json!([]));
}
