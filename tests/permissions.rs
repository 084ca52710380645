//! Goal: an agent does what a rule allows it, and nothing else; also when the rules change.
//! Method: a file with one narrow rule of each kind; beside each thing that is allowed stands its
//! nearest neighbour, which is not; what a refused message would have reached is looked at after.

mod change;
mod doors;

use harbor::Settings;
use serde_json::{Value, json};

use crate::support::{Agent, Harbor, agent::refusal_of};

/// A Harbor with a file of permissions.
struct Ruled {
    harbor: Harbor,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Ruled {
    async fn by(rules: &str) -> Ruled {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("permissions.toml");
        std::fs::write(&path, rules).unwrap();
        let harbor = Harbor::with(Settings {
            permissions: Some(path.clone()),
            ..Settings::default()
        })
        .await;
        Ruled {
            harbor,
            path,
            _folder: folder,
        }
    }

    /// Puts other rules in place, as an operator does: whole.
    fn change(&self, rules: &str) {
        let newer = self.path.with_extension("new");
        std::fs::write(&newer, rules).unwrap();
        std::fs::rename(newer, &self.path).unwrap();
    }
}

const RULES: &str = r#"
[[allow]]
agents = ["planner-*"]
systems = ["lab"]
to_agents = ["worker-*"]
types = ["task.*"]

[[allow]]
agents = ["planner-*"]
to_groups = ["crew"]
broadcast_to = ["lab"]
types = ["note"]

[[allow]]
agents = ["planner-*"]
join = ["crew", "board-*"]
roles = ["planner"]

[[allow]]
agents = ["planner-1"]
conversations = ["talk-*"]

[[allow]]
agents = ["worker-*"]
systems = ["lab", "depot"]
to_agents = ["planner-1"]
types = ["result"]
join = ["crew"]
roles = ["worker"]
"#;

fn denied(field: &str) -> (String, String) {
    ("not_permitted".to_owned(), field.to_owned())
}

async fn planner(ruled: &Ruled) -> Agent {
    let endpoint = json!({"agent_id": "planner-1", "system_id": "lab"});
    Agent::register_as(&ruled.harbor, endpoint, json!({})).await
}

async fn worker(ruled: &Ruled) -> Agent {
    let endpoint = json!({"agent_id": "worker-1", "system_id": "lab"});
    let groups = json!({"groups": [{"group_id": "crew", "role": "worker"}]});
    Agent::register_as(&ruled.harbor, endpoint, groups).await
}

#[tokio::test]
async fn what_no_rule_allows_is_refused_and_reaches_nobody() {
    let ruled = Ruled::by(RULES).await;
    let mut planner = planner(&ruled).await;
    let mut worker = worker(&ruled).await;
    let to = |agent_id: &str| json!({"agent_id": agent_id});
    for (members, field) in [
        (
            json!({"type": "note", "receiver": to("worker-1")}),
            "receiver.agent_id",
        ),
        (
            json!({"type": "task", "receiver": to("worker-1")}),
            "receiver.agent_id",
        ),
        (
            json!({"type": "task.new", "receiver": to("worker")}),
            "receiver.agent_id",
        ),
        (
            json!({"type": "task.new", "receiver": to("planner-1")}),
            "receiver.agent_id",
        ),
        (json!({"type": "task.new", "group_id": "crew"}), "group_id"),
        (json!({"type": "note", "group_id": "crews"}), "group_id"),
        (
            json!({"type": "note", "group_id": "board-1", "broadcast": true}),
            "group_id",
        ),
        (json!({"type": "task.new", "broadcast": true}), "broadcast"),
        // Both destinations need permission.
        (
            json!({"type": "task.new", "receiver": to("worker-1"), "group_id": "crew"}),
            "group_id",
        ),
        (
            json!({"type": "note", "receiver": to("worker-1"), "group_id": "crew"}),
            "receiver.agent_id",
        ),
    ] {
        assert_eq!(
            planner.refused(members.clone()).await,
            denied(field),
            "{members}"
        );
    }
    // The answer does not depend on whether anybody is there.
    let there = planner
        .ask(json!({"type": "note", "receiver": to("worker-1")}))
        .await;
    let nobody = planner
        .ask(json!({"type": "note", "receiver": to("worker-2")}))
        .await;
    let reason = |answer: &Value| {
        answer["payload"]["reason"]
            .as_str()
            .unwrap()
            .replace('2', "1")
    };
    assert_eq!(reason(&there), reason(&nobody));

    for members in [
        json!({"type": "task.new", "receiver": to("worker-1")}),
        json!({"type": "note", "group_id": "crew"}),
        json!({"type": "note", "broadcast": true}),
    ] {
        assert_eq!(planner.deliver(members.clone()).await, 1, "{members}");
        let got = worker.next().await;
        assert_eq!(got["type"], members["type"], "nothing else came before it");
    }
    let result = json!({"type": "result", "receiver": to("planner-1")});
    assert_eq!(worker.deliver(result).await, 1);
    assert_eq!(planner.next().await["type"], "result");
    let refusals = ruled
        .harbor
        .metric_with("harbor_refusals_total", "not_permitted");
    assert_eq!(refusals, 12.0);
}

#[tokio::test]
async fn groups_and_roles_are_joined_by_permission() {
    let ruled = Ruled::by(RULES).await;
    let mut planner = planner(&ruled).await;
    let join = |payload: Value| json!({"type": "synapse.group.join", "payload": payload});
    for (payload, field) in [
        (json!({"group_id": "others"}), "payload.group_id"),
        (
            json!({"group_id": "crew", "role": "worker"}),
            "payload.roles",
        ),
        (
            json!({"group_id": "crew", "roles": ["planner", "worker"]}),
            "payload.roles",
        ),
    ] {
        assert_eq!(
            planner.refused(join(payload.clone())).await,
            denied(field),
            "{payload}"
        );
    }
    for payload in [
        json!({"group_id": "crew"}),
        json!({"group_id": "crew", "role": "planner"}),
        json!({"group_id": "board-7", "role": "planner"}),
    ] {
        planner.control("synapse.group.join", payload).await;
    }
    let roster = planner
        .control("synapse.group.members", json!({"group_id": "crew"}))
        .await;
    assert_eq!(
        roster["members"],
        json!([{"agent_id": "planner-1", "roles": ["planner"], "online": true}])
    );

    let mut peer = Agent::connect(&ruled.harbor).await;
    let worker = || json!({"agent_id": "worker-1"});
    for (endpoint, groups, field) in [
        (
            worker(),
            json!([{"group_id": "crew", "role": "planner"}]),
            "payload.groups[0].roles",
        ),
        (
            worker(),
            json!([{"group_id": "crew"}, {"group_id": "board-1"}]),
            "payload.groups[1].group_id",
        ),
        (
            json!({"agent_id": "worker-1", "system_id": "shop"}),
            json!([]),
            "sender.system_id",
        ),
        (
            json!({"agent_id": "other", "system_id": "lab"}),
            json!([]),
            "sender.system_id",
        ),
    ] {
        let answer = peer.try_register(endpoint, json!({"groups": groups})).await;
        assert_eq!(refusal_of(&answer), denied(field));
    }
    let roster = planner
        .control("synapse.group.members", json!({"group_id": "crew"}))
        .await;
    assert_eq!(
        roster["members"].as_array().unwrap().len(),
        1,
        "all or nothing"
    );
    let answer = peer
        .try_register(worker(), json!({"groups": [{"group_id": "crew"}]}))
        .await;
    assert_eq!(answer["type"], "synapse.registered");
}

#[tokio::test]
async fn an_agent_sees_whom_it_may_reach() {
    let ruled = Ruled::by(RULES).await;
    let mut planner = planner(&ruled).await;
    let mut worker = worker(&ruled).await;
    let depot = json!({"agent_id": "worker-2", "system_id": "depot"});
    let _second = Agent::register_as(&ruled.harbor, depot, json!({})).await;
    let _other = Agent::register(&ruled.harbor, "other").await;
    let found = |answer: &Value| {
        let agents = answer["agents"].as_array().unwrap().iter();
        let ids = agents.map(|agent| agent["agent_id"].as_str().unwrap().to_owned());
        (
            ids.collect::<Vec<_>>().join(" "),
            answer["total"].as_u64().unwrap(),
        )
    };
    for (query, ids) in [
        (json!({}), "worker-1 worker-2"),
        (json!({"system_id": "lab"}), "worker-1"),
        (json!({"group_id": "crew"}), "worker-1"),
        (json!({"role": "worker"}), "worker-1"),
    ] {
        let answer = planner.control("synapse.discover", query.clone()).await;
        let total = ids.split(' ').count() as u64;
        assert_eq!(found(&answer), (ids.to_owned(), total), "{query}");
    }
    let answer = worker.control("synapse.discover", json!({})).await;
    assert_eq!(found(&answer), ("planner-1".to_owned(), 1));

    let watch = |payload: Value| json!({"type": "synapse.presence.watch", "payload": payload});
    let members = |group_id: &str| json!({"type": "synapse.group.members", "payload": {"group_id": group_id}});
    assert_eq!(
        worker.refused(members("board-1")).await,
        denied("payload.group_id")
    );
    // Leaving is allowed, and tells nothing of who is there, or whether anybody is.
    let _chair = Agent::in_groups(&ruled.harbor, "planner-7", &[("board-1", &[])]).await;
    for group_id in ["board-1", "none"] {
        let left = worker
            .control("synapse.group.leave", json!({"group_id": group_id}))
            .await;
        assert_eq!(
            left,
            json!({"group_id": group_id, "position": 0, "members": []})
        );
    }
    for (payload, field) in [
        (json!({"group_id": "board-1"}), "payload.group_id"),
        (json!({"system_id": "shop"}), "payload.system_id"),
    ] {
        assert_eq!(worker.refused(watch(payload)).await, denied(field));
    }
    for payload in [json!({"group_id": "crew"}), json!({"system_id": "lab"})] {
        worker.control("synapse.presence.watch", payload).await;
    }
    let read = |conversation_id: &str| {
        let payload = json!({"conversation_id": conversation_id});
        json!({"type": "synapse.conversation.read", "payload": payload})
    };
    assert_eq!(
        planner.refused(read("other")).await,
        denied("payload.conversation_id")
    );
    assert_eq!(planner.refused(read("talk-1")).await.0, "unsupported");
    assert_eq!(
        worker.refused(read("talk-1")).await,
        denied("payload.conversation_id")
    );
}

#[test]
fn what_is_wrong_with_the_permissions_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("permissions.toml");
    let problems = |permissions: Option<std::path::PathBuf>| {
        let settings = Settings {
            permissions,
            auth: Some("required".to_owned()),
            ..Settings::default()
        };
        settings.into_config().unwrap_err().join("\n")
    };
    assert!(problems(None).contains("harbor permissions print"));
    assert!(problems(Some(path.clone())).contains("permissions.toml: No such file"));
    std::fs::write(&path, "[[allow]]\nagents = [\"a\"]\nto_agent = [\"b\"]").unwrap();
    let problem = problems(Some(path));
    assert!(
        problem.contains("permissions.toml: line 3: unknown field `to_agent`"),
        "{problem}"
    );
}
