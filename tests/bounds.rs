//! Goal: what Harbor holds and what it says are bounded, also where one large thing meets many.
//! Method: small limits and a real process whose memory is read from the operating system.

use std::collections::BTreeSet;

use harbor::Settings;
use serde_json::{Value, json};

use crate::support::{Agent, Harbor, process::Process};

/// The members of all pages of the next answer; each page fits the limit.
async fn pages(agent: &mut Agent, limit: usize) -> (Vec<String>, usize) {
    let (mut ids, mut count) = (Vec::new(), 0);
    loop {
        let text = agent.next_text().await;
        assert!(text.len() <= limit, "a page of {} bytes", text.len());
        let frame: Value = serde_json::from_str(&text).unwrap();
        let members = frame["payload"]["members"].as_array().unwrap();
        assert!(!members.is_empty());
        ids.extend(
            members
                .iter()
                .map(|member| member["agent_id"].as_str().unwrap().to_owned()),
        );
        count += 1;
        if frame["payload"]["more"] != true {
            return (ids, count);
        }
    }
}

#[tokio::test]
async fn a_large_roster_comes_in_pages_that_clients_take() {
    let limit = 8_192;
    let harbor = Harbor::with(Settings {
        max_frame_bytes: Some(limit),
        ..Settings::default()
    })
    .await;
    let mut members = Vec::new();
    for at in 0..150 {
        let id = format!("\"quoted\" \\ and long enough to fill pages {at:03}");
        members.push(Agent::in_groups(&harbor, &id, &[("g", &["观察者", "worker"])]).await);
    }
    let mut expected: Vec<String> = members.iter().map(|member| member.id.clone()).collect();
    expected.sort_unstable();
    let mut asker = Agent::register(&harbor, "asker").await;
    for kind in ["synapse.group.members", "synapse.presence.watch"] {
        let question = asker.envelope(json!({"type": kind, "payload": {"group_id": "g"}}));
        asker.send(&question).await;
        let (ids, count) = pages(&mut asker, limit).await;
        assert_eq!(ids, expected, "{kind}");
        assert!(count > 2, "{kind} came in {count} pages");
    }
    let late = Agent::in_groups(&harbor, "late", &[("g", &[])]).await;
    assert_eq!(
        asker.next().await["payload"]["agent_id"],
        "late",
        "changes come after the pages"
    );
    drop(late);
}

#[tokio::test]
async fn discovery_lists_what_fits_a_frame_and_goes_on_after_it() {
    let harbor = Harbor::with(Settings {
        max_frame_bytes: Some(16_384),
        ..Settings::default()
    })
    .await;
    let capability = "c".repeat(200);
    let mut agents = Vec::new();
    for at in 0..100 {
        let endpoint =
            json!({"agent_id": format!("agent {at:03}"), "capabilities": [capability, "x"]});
        agents.push(Agent::register_as(&harbor, endpoint, json!({})).await);
    }
    let (mut seen, mut after, mut answers) = (BTreeSet::new(), String::new(), 0);
    loop {
        let query = json!({"capability": "x", "limit": 1_000, "after": after});
        let question = agents[0].envelope(json!({"type": "synapse.discover", "payload": query}));
        agents[0].send(&question).await;
        let text = agents[0].next_text().await;
        assert!(text.len() <= 16_384, "{} bytes", text.len());
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["payload"]["total"], 100);
        let Some(last) = answer["payload"]["agents"].as_array().unwrap().last() else {
            break;
        };
        after = last["agent_id"].as_str().unwrap().to_owned();
        let listed = answer["payload"]["agents"].as_array().unwrap().iter();
        seen.extend(listed.map(|agent| agent["agent_id"].as_str().unwrap().to_owned()));
        answers += 1;
    }
    assert_eq!(seen.len(), 100);
    assert!(answers > 1, "{answers} answers");
}

#[tokio::test]
async fn a_position_never_goes_back() {
    let harbor = Harbor::start().await;
    let mut a = Agent::register(&harbor, "a").await;
    let group = json!({"group_id": "g"});
    let mut latest = 0;
    for kind in [
        "group.join",
        "group.leave",
        "group.members",
        "presence.watch",
        "group.members",
    ]
    .repeat(3)
    {
        let roster = a.control(&format!("synapse.{kind}"), group.clone()).await;
        let position = roster["position"].as_u64().unwrap();
        assert!(position >= latest, "{kind}: {position} after {latest}");
        latest = position;
        if kind == "presence.watch" {
            a.control("synapse.presence.unwatch", group.clone()).await;
        }
    }
}

/// Small messages that wait for a slow agent keep no more than themselves, though each was read
/// beside a large one.
#[tokio::test]
async fn what_waits_keeps_no_read_buffer_alive() {
    let harbor = Process::start(&[]).await;
    let mut sender = Agent::register_at(&harbor.url, "sender").await;
    let _stuck = Agent::register_at(&harbor.url, "stuck").await;
    let filler = json!({"receiver": {"agent_id": "stuck"}, "payload": "x".repeat(100_000)});
    while harbor.metric("harbor_outbox_bytes").await == 0.0 {
        sender.deliver(filler.clone()).await;
    }
    let before = harbor.resident_kib();
    let large = json!({"receiver": {"agent_id": "nobody"}, "payload": "x".repeat(1_000_000)});
    for _ in 0..100 {
        let small = sender.envelope(json!({"receiver": {"agent_id": "stuck"}}));
        let pair = [sender.envelope(large.clone()), small];
        for envelope in &pair {
            sender.send(envelope).await;
        }
        for _ in &pair {
            assert_eq!(sender.next().await["type"], "synapse.accepted");
        }
    }
    let grown = harbor.resident_kib().saturating_sub(before);
    assert!(
        grown < 20_000,
        "grew by {grown} KiB, for 100 messages of 300 bytes"
    );
}

/// A large message to a group leaves no large buffer behind with each member.
#[tokio::test]
async fn a_large_group_message_leaves_no_large_buffers() {
    let harbor = Process::start(&[]).await;
    let mut sender = Agent::register_at(&harbor.url, "sender").await;
    let mut members = Vec::new();
    for at in 0..60 {
        let mut member = Agent::register_at(&harbor.url, &format!("m{at}")).await;
        member
            .control("synapse.group.join", json!({"group_id": "g"}))
            .await;
        members.push(member);
    }
    let before = harbor.resident_kib();
    let large = json!({"group_id": "g", "payload": "x".repeat(1_000_000)});
    assert_eq!(sender.deliver(large).await, 60);
    for member in &mut members {
        assert!(member.next_text().await.len() > 1_000_000);
    }
    let grown = harbor.resident_kib().saturating_sub(before);
    assert!(grown < 20_000, "60 members keep {grown} KiB");
}
