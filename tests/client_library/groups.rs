//! Goal: groups, presence and discovery as an application sees them.

use std::sync::{Arc, Barrier};

use serde_json::json;
use synapse::{
    Code,
    client::{ControlErrorKind, PresenceEvent, SendErrorKind, Watch},
    control::{Change, Discover, Member, Roster, Scope},
};

use super::{
    client, connected,
    fake::{Fake, listen},
    next_number, numbered, options,
};
use crate::support::{Agent, Harbor, soon};

pub fn group(group_id: &str) -> Scope {
    Scope {
        group_id: group_id.to_owned(),
        ..Scope::default()
    }
}

fn ids(roster: &Roster) -> Vec<&str> {
    let members = roster.members.iter();
    members.map(|member| member.agent_id.as_str()).collect()
}

pub async fn snapshot(watch: &mut Watch) -> Roster {
    match soon("a snapshot comes", watch.next()).await {
        Some(PresenceEvent::Snapshot(roster)) => roster,
        other => panic!("a snapshot was expected, not {other:?}"),
    }
}

async fn change(watch: &mut Watch) -> (Change, Member) {
    match soon("a change comes", watch.next()).await {
        Some(PresenceEvent::Change(change)) => (change.change, change.member),
        other => panic!("a change was expected, not {other:?}"),
    }
}

#[tokio::test]
async fn joining_leaving_and_who_is_there() {
    let harbor = Harbor::start().await;
    let options = options(harbor.url(), "alice").join("crew", ["lead"]);
    let (alice, bob) = (connected(options).await, client(&harbor, "bob").await);
    let roster = bob.join("crew", ["dev", "ops"]).await.unwrap();
    assert_eq!(ids(&roster), ["alice", "bob"]);
    assert_eq!(roster.members[1].roles, ["dev", "ops"]);
    let accepted = alice.send(numbered(1).to_roles("crew", ["dev"])).await;
    assert_eq!(accepted.unwrap().recipients, 1);
    assert_eq!(next_number(&bob).await, 1);
    bob.join("crew", ["qa"]).await.unwrap();
    let roster = alice.members("crew").await.unwrap();
    assert_eq!(roster.members[1].roles, ["qa"]);
    bob.leave("crew").await.unwrap();
    assert_eq!(ids(&alice.members("crew").await.unwrap()), ["alice"]);
}

#[tokio::test]
async fn a_refused_join_says_why() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let error = alice.join("a\nb", ["r"]).await.unwrap_err();
    let refused = ControlErrorKind::Send(SendErrorKind::Refused);
    assert_eq!(error.kind(), refused);
    assert_eq!(error.refusal().unwrap().code, Code::InvalidField);
    assert_eq!(alice.members("").await.unwrap_err().kind(), refused);
}

#[tokio::test]
async fn a_watch_starts_with_a_snapshot_and_tells_every_change() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let mut bob = Agent::in_groups(&harbor, "bob", &[("crew", &["dev"])]).await;
    let mut watch = alice.watch(group("crew")).await.unwrap();
    assert_eq!(ids(&snapshot(&mut watch).await), ["bob"]);
    let carol = client(&harbor, "carol").await;
    carol.join("crew", ["qa"]).await.unwrap();
    let (what, member) = change(&mut watch).await;
    assert_eq!((what, &*member.agent_id), (Change::Joined, "carol"));
    assert_eq!(member.roles, ["qa"]);
    let roles = serde_json::json!({"group_id": "crew", "role": "ops"});
    bob.control("synapse.group.join", roles).await;
    let (what, member) = change(&mut watch).await;
    assert_eq!((what, &*member.agent_id), (Change::Changed, "bob"));
    carol.close().await;
    let (what, member) = change(&mut watch).await;
    assert_eq!((what, &*member.agent_id), (Change::Left, "carol"));
    watch.unwatch().await.unwrap();
    bob.close().await;
    // Were the watch still on, its frame would come before this answer.
    assert!(ids(&alice.members("crew").await.unwrap()).is_empty());
}

#[tokio::test]
async fn two_watches_of_one_group_both_hear() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let mut first = alice.watch(group("crew")).await.unwrap();
    let mut second = alice.watch(group("crew")).await.unwrap();
    assert!(ids(&snapshot(&mut second).await).is_empty());
    assert!(ids(&snapshot(&mut first).await).is_empty());
    drop(second);
    let _bob = Agent::in_groups(&harbor, "bob", &[("crew", &[])]).await;
    assert_eq!(change(&mut first).await.0, Change::Joined);
}

/// Whichever of the two Harbor hears last, the scope is watched by whoever wants it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_begins_while_another_ends_is_not_deaf() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let bob = client(&harbor, "bob").await;
    let mut watch = alice.watch(group("crew")).await.unwrap();
    for round in 0..2_000 {
        let together = Arc::new(Barrier::new(2));
        let ending = tokio::spawn({
            let together = together.clone();
            async move {
                together.wait();
                match round % 2 {
                    0 => watch.unwatch().await.unwrap(),
                    _ => drop(watch),
                }
            }
        });
        together.wait();
        // What the other does before it tells of the end takes about this long.
        (0..round % 100).for_each(|_| std::hint::spin_loop());
        watch = alice.watch(group("crew")).await.unwrap();
        ending.await.unwrap();
        let _ = snapshot(&mut watch).await;
        bob.join("crew", ["dev"]).await.unwrap();
        assert_eq!(change(&mut watch).await.0, Change::Joined, "{round}");
        bob.leave("crew").await.unwrap();
        assert_eq!(change(&mut watch).await.0, Change::Left, "{round}");
    }
}

/// Answers every question in two pages, and tells a change after those of a watch.
async fn in_pages(socket: tokio::net::TcpStream) {
    let mut fake = Fake::register(socket).await;
    loop {
        let question = fake.next().await;
        let kind = question["type"].as_str().unwrap().to_owned();
        let id = question["id"].as_str().unwrap().to_owned();
        for (members, more) in [(["a", "b"], true), (["c", "d"], false)] {
            let members = members.map(|agent| json!({"agent_id": agent, "online": true}));
            let page = json!({"group_id": "crew", "position": 4, "members": members, "more": more});
            fake.say(&kind, &id, page).await;
        }
        if kind == "synapse.presence.watch" {
            let joined = json!({
                "group_id": "crew", "position": 5, "change": "joined",
                "agent_id": "e", "roles": [], "online": true,
            });
            fake.say("synapse.presence", "", joined).await;
        }
    }
}

#[tokio::test]
async fn a_roster_in_pages_is_one_roster() {
    let addr = listen(in_pages).await;
    let alice = connected(options(format!("ws://{addr}/ws"), "alice")).await;
    let all = ["a", "b", "c", "d"];
    let roster = alice.join("crew", ["dev"]).await.unwrap();
    assert_eq!((ids(&roster), roster.more), (all.to_vec(), false));
    assert_eq!(ids(&alice.members("crew").await.unwrap()), all);
    let mut watch = alice.watch(group("crew")).await.unwrap();
    let roster = snapshot(&mut watch).await;
    assert_eq!((ids(&roster), roster.more), (all.to_vec(), false));
    assert_eq!(change(&mut watch).await.1.agent_id, "e");
    alice.leave("crew").await.unwrap();
}

#[tokio::test]
async fn agents_are_found_by_what_they_can_do() {
    let harbor = Harbor::start().await;
    let options = options(harbor.url(), "alice")
        .agent_name("Alice")
        .system_id("s")
        .capabilities(["plan", "sing"]);
    let alice = connected(options).await;
    let bob = client(&harbor, "bob").await;
    let able = |capability: &str| Discover {
        capability: capability.to_owned(),
        ..Discover::default()
    };
    let found = bob.discover(able("sing")).await.unwrap();
    assert_eq!(found.total, 1);
    assert_eq!(found.agents[0].agent_id, alice.agent_id());
    assert_eq!(found.agents[0].agent_name, "Alice");
    assert_eq!(bob.discover(able("fly")).await.unwrap().total, 0);
}
