//! Goal: who watches a group always knows exactly who is in it, names are only names, and the dead
//! are not kept.
//! Method: members come and go at once while watchers apply what they are told; odd names in every
//! place where a name stands; peers that fall silent.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use harbor::Settings;
use serde_json::{Value, json};

use crate::support::{Agent, Harbor, Raw, eventually};

/// What a watcher knows: the snapshot with every change after it applied.
#[derive(Debug)]
struct Known {
    position: u64,
    roles: BTreeMap<String, Value>,
}

impl Known {
    fn from_snapshot(snapshot: &Value) -> Known {
        let members = snapshot["members"].as_array().unwrap().iter();
        let named = |member: &Value| {
            let id = member["agent_id"].as_str().unwrap().to_owned();
            (id, member["roles"].clone())
        };
        Known {
            position: snapshot["position"].as_u64().unwrap(),
            roles: members.map(named).collect(),
        }
    }

    /// Applies a change, which must fit what is known.
    fn apply(&mut self, change: &Value) {
        let position = change["position"].as_u64().unwrap();
        assert!(position > self.position, "{change} after {}", self.position);
        self.position = position;
        let id = change["agent_id"].as_str().unwrap().to_owned();
        let fits = match change["change"].as_str().unwrap() {
            "joined" => self.roles.insert(id, change["roles"].clone()).is_none(),
            "changed" => {
                let before = self.roles.insert(id, change["roles"].clone());
                before.is_some_and(|before| before != change["roles"])
            }
            "left" => self.roles.remove(&id).is_some(),
            other => panic!("{other}"),
        };
        assert!(fits, "{change} does not fit");
    }
}

/// T42: however members come and go at once, snapshot and changes together are the members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_and_changes_are_always_the_members() {
    let harbor = Harbor::start().await;
    let is_over = AtomicBool::new(false);
    let churn = async |name: usize| {
        let id = format!("m{name}");
        let mut agent = Agent::register(&harbor, &id).await;
        for step in 0..60 {
            let role = if fastrand::bool() { "r" } else { "s" };
            let group = json!({"group_id": "g", "role": role});
            match fastrand::u8(..8) {
                0..3 => drop(agent.control("synapse.group.join", group).await),
                3..5 => {
                    let group = json!({"group_id": "g"});
                    drop(agent.control("synapse.group.leave", group).await);
                }
                5 => agent = Agent::in_groups(&harbor, &id, &[("g", &["taken over"])]).await,
                6 => {
                    drop(agent);
                    agent = Agent::register(&harbor, &id).await;
                }
                _ => {
                    agent.close().await;
                    agent = Agent::in_groups(&harbor, &id, &[("g", &[])]).await;
                }
            }
            if step % 8 == 0 {
                tokio::task::yield_now().await;
            }
        }
        agent
    };
    let watch = async |name: usize| {
        let mut agent = Agent::register(&harbor, &format!("w{name}")).await;
        let mut changes = 0;
        while !is_over.load(Ordering::Relaxed) {
            let group = json!({"group_id": "g"});
            let snapshot = agent.control("synapse.presence.watch", group.clone()).await;
            let mut known = Known::from_snapshot(&snapshot);
            for _ in 0..5 {
                changes += catch_up(&mut agent, &mut known).await;
            }
            stop_watching(&mut agent, &mut known).await;
        }
        changes
    };
    let churning = async {
        let mut members = join_all((0..6).map(churn)).await;
        is_over.store(true, Ordering::Relaxed);
        for member in &mut members {
            member.received().await;
        }
        members
    };
    let (members, changes) = tokio::join!(churning, join_all((0..3).map(watch)));
    assert!(changes.iter().all(|changes| *changes > 20), "{changes:?}");
    assert!(COMPARED.load(Ordering::Relaxed) > 20);
    drop(members);
    harbor_is_left_empty(harbor).await;
}

/// Compares what is known with the members as Harbor tells them; how many changes came before. An
/// answer may come behind a change that it does not count in yet; its position says so.
async fn catch_up(agent: &mut Agent, known: &mut Known) -> u32 {
    let asked = agent.envelope(json!({"type": "synapse.group.members",
        "payload": {"group_id": "g"}}));
    agent.send(&asked).await;
    let mut changes = 0;
    let mut told: Option<Known> = None;
    while told
        .as_ref()
        .is_none_or(|told| told.position > known.position)
    {
        let frame = agent.next().await;
        if frame["correlation_id"] == asked["id"] {
            told = Some(Known::from_snapshot(&frame["payload"]));
        } else {
            assert_eq!(frame["type"], "synapse.presence");
            known.apply(&frame["payload"]);
            changes += 1;
        }
    }
    if let Some(told) = told.filter(|told| told.position == known.position) {
        assert_eq!(told.roles, known.roles);
        COMPARED.fetch_add(1, Ordering::Relaxed);
    }
    changes
}

/// How often what is known was compared with the members.
static COMPARED: AtomicU32 = AtomicU32::new(0);

/// Ends the watch; changes may come up to the answer.
async fn stop_watching(agent: &mut Agent, known: &mut Known) {
    let asked = agent.envelope(json!({"type": "synapse.presence.unwatch",
        "payload": {"group_id": "g"}}));
    agent.send(&asked).await;
    loop {
        let frame = agent.next().await;
        if frame["correlation_id"] == asked["id"] {
            return;
        }
        known.apply(&frame["payload"]);
    }
}

async fn harbor_is_left_empty(harbor: Harbor) {
    harbor.is_empty().await;
    assert!(harbor.drain().await);
}

/// T42b: silent members are purged from every table within two heartbeats, and an idle group of
/// live ones stays up.
#[tokio::test]
async fn the_dead_are_purged_and_the_idle_stay() {
    let harbor = Harbor::with(Settings {
        heartbeat_seconds: Some(1),
        ..Settings::default()
    })
    .await;
    let mut dead = Vec::new();
    for at in 0..20 {
        let raw = Raw::connect(&harbor).await;
        let endpoint = json!({"agent_id": format!("dead{at}"), "system_id": "s"});
        let groups = json!({"groups": [{"group_id": "g"}, {"group_id": format!("g{at}")}]});
        dead.push(raw.registered(endpoint, groups).await);
    }
    let mut a = Agent::in_groups(&harbor, "a", &[("g", &[])]).await;
    let mut b = Agent::in_groups(&harbor, "b", &[("g", &[])]).await;
    assert_eq!(a.deliver(json!({"group_id": "g"})).await, 21);
    b.next().await;
    let purged = eventually("the dead are purged", || {
        harbor.metric("harbor_agents") == 2.0
            && harbor.metric("harbor_groups") == 1.0
            && harbor.metric("harbor_systems") == 0.0
    });
    // The two living read, which answers pings, and get nothing while they are idle.
    let idle = async |agent: &mut Agent| {
        let quiet = tokio::time::timeout(Duration::from_secs(5), agent.next_text()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    };
    tokio::join!(purged, idle(&mut a), idle(&mut b));
    assert_eq!(
        a.deliver(json!({"group_id": "g", "payload": "still"}))
            .await,
        1
    );
    assert_eq!(b.received().await, ["still"]);
    let found = a.control("synapse.discover", json!({})).await;
    assert_eq!(found["total"], 2);
}

const ODD: [&str; 24] = [
    "a b",
    " a b",
    "a.b",
    "a..b",
    ".",
    "..",
    "*",
    ">",
    "a.*",
    "-*",
    "$SYS.x",
    "#",
    "+",
    "a/b",
    "/",
    "%61",
    "a\\b",
    "\"",
    "é",
    "e\u{301}",
    "A",
    "a",
    "👩‍🚀",
    "\u{202e}a",
];

/// T42c: every printable name is a name like any other, for agents, groups, roles and systems, and
/// no two of them are one.
#[tokio::test]
async fn odd_names_are_names() {
    let harbor = Harbor::start().await;
    let mut agents = Vec::new();
    for name in ODD {
        let endpoint = json!({"agent_id": name, "system_id": name, "capabilities": [name]});
        let groups = json!({"groups": [{"group_id": name}, {"group_id": "all", "role": name}]});
        agents.push(Agent::register_as(&harbor, endpoint, groups).await);
    }
    let mut outsider = Agent::register(&harbor, "outsider").await;
    for (at, name) in ODD.into_iter().enumerate() {
        let chosen =
            |kind: &str| json!({"group_id": "all", "target_type": kind, "target_ids": [name]});
        for members in [
            json!({"receiver": {"agent_id": name}}),
            json!({"receiver": {"agent_id": name, "system_id": name}}),
            json!({"group_id": name}),
            chosen("role"),
            chosen("specific"),
        ] {
            assert_eq!(outsider.deliver(members).await, 1, "{name:?}");
        }
        assert_eq!(agents[at].received().await.len(), 5, "{name:?}");
        for by in ["capability", "role", "system_id", "group_id"] {
            let found = outsider
                .control("synapse.discover", json!({by: name}))
                .await;
            assert_eq!(found["total"], 1, "{name:?} by {by}");
            assert_eq!(found["agents"][0]["agent_id"], name, "by {by}");
        }
    }
    for agent in &mut agents {
        assert_eq!(
            agent.received().await,
            Vec::<Value>::new(),
            "{:?}",
            agent.id
        );
    }
}

/// T42c: names with line breaks, other control characters or without measure are refused in every
/// place, with the field.
#[tokio::test]
async fn names_that_are_none() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    let long = "x".repeat(5 * 1024);
    for name in [
        "a\r\nb",
        "a\nHost: evil",
        "\t",
        "\u{7f}",
        "a\u{1b}[31m",
        long.as_str(),
    ] {
        let mut peer = Agent::connect(&harbor).await;
        for (endpoint, payload, field) in [
            (json!({"agent_id": name}), json!({}), "sender.agent_id"),
            (
                json!({"agent_id": "x", "system_id": name}),
                json!({}),
                "sender.system_id",
            ),
            (
                json!({"agent_id": "x"}),
                json!({"groups": [{"group_id": name}]}),
                "payload.groups[0].group_id",
            ),
            (
                json!({"agent_id": "x"}),
                json!({"groups": [{"group_id": "g", "role": name}]}),
                "payload.groups[0].roles",
            ),
        ] {
            let answer = peer.try_register(endpoint, payload).await;
            let told = crate::support::agent::refusal_of(&answer);
            assert_eq!(told, ("invalid_field".to_owned(), field.to_owned()));
        }
        for (members, field) in [
            (json!({"receiver": {"agent_id": name}}), "receiver.agent_id"),
            (json!({"group_id": name}), "group_id"),
            (json!({"type": name, "group_id": "g"}), "type"),
            (
                json!({"type": "synapse.group.join", "payload": {"group_id": name}}),
                "payload.group_id",
            ),
            (
                json!({"type": "synapse.presence.watch", "payload": {"system_id": name}}),
                "payload.system_id",
            ),
            (
                json!({"type": "synapse.discover", "payload": {"capability": name}}),
                "payload.capability",
            ),
        ] {
            assert_eq!(
                a.refused(members).await,
                ("invalid_field".to_owned(), field.to_owned())
            );
        }
    }
    assert_eq!(harbor.metric("harbor_groups"), 0.0);
    assert_eq!(harbor.metric("harbor_systems"), 0.0);
}
