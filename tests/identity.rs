//! Goal: an agent id has one owner at a time, its messages and groups survive the change of owner,
//! and nothing of it is left behind when it goes.
//! Method: many connections of one id, some killed without a word; sums and tables at the end.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{Agent, Harbor, Raw, agent::refusal_of, eventually, raw, soon};

/// Ends an agent's TCP connection with a reset, as the kernel does for a killed process.
fn kill(agent: Agent) {
    let tokio_tungstenite::MaybeTlsStream::Plain(tcp) = agent.socket.get_ref() else {
        panic!("plain TCP was expected");
    };
    tcp.set_zero_linger().unwrap();
}

/// T32: the newer connection wins and the older is told so with a code of its own; who declines to
/// take over is refused instead, and may try again.
#[tokio::test]
async fn the_newer_connection_wins_unless_it_declines() {
    let harbor = Harbor::start().await;
    let mut first = Agent::register(&harbor, "one").await;
    let mut polite = Agent::connect(&harbor).await;
    let endpoint = json!({"agent_id": "one"});
    let answer = polite
        .try_register(endpoint.clone(), json!({"takeover": false}))
        .await;
    let told = ("agent_in_use".to_owned(), "sender.agent_id".to_owned());
    assert_eq!(refusal_of(&answer), told);
    assert!(answer["payload"]["retry_after_ms"].as_u64() > Some(0));
    assert_eq!(
        first
            .deliver(json!({"receiver": {"agent_id": "one"}}))
            .await,
        1,
        "undisturbed"
    );

    let mut second = Agent::connect(&harbor).await;
    let answer = second.try_register(endpoint.clone(), json!({})).await;
    assert_eq!(answer["payload"]["resumed"], true);
    assert_eq!(first.closed().await, Some(4001));
    assert_eq!(harbor.metric("harbor_takeovers_total"), 1.0);
    second.close().await;
    eventually("the id is free", || harbor.metric("harbor_agents") == 0.0).await;
    let answer = polite
        .try_register(endpoint, json!({"takeover": false}))
        .await;
    assert_eq!(answer["type"], "synapse.registered");
    assert_eq!(answer["payload"]["resumed"], false);
}

/// T32: two that fight over one id each time hear why, and every change is counted.
#[tokio::test]
async fn two_that_fight_over_one_id() {
    let harbor = Harbor::start().await;
    let mut holder = Agent::register(&harbor, "one").await;
    for fights in 1..=100 {
        let newer = Agent::register(&harbor, "one").await;
        assert_eq!(holder.closed().await, Some(4001));
        assert_eq!(harbor.metric("harbor_takeovers_total"), f64::from(fights));
        assert_eq!(harbor.metric("harbor_agents"), 1.0);
        holder = newer;
    }
    holder.close().await;
    harbor.is_empty().await;
}

/// T33: the late end of an older connection takes nothing from the newer one.
#[tokio::test]
async fn the_late_end_of_an_older_connection_changes_nothing() {
    let harbor = Harbor::start().await;
    let mut sender = Agent::register(&harbor, "sender").await;
    let older = Raw::connect(&harbor).await;
    let payload = json!({"groups": [{"group_id": "kept", "role": "r"}]});
    let endpoint = json!({"agent_id": "one", "system_id": "s"});
    let mut older = older.registered(endpoint.clone(), payload).await;
    let payload = json!({"groups": [{"group_id": "new"}]});
    let mut newer = Agent::register_as(&harbor, endpoint, payload).await;
    let watch = json!({"group_id": "new"});
    newer.control("synapse.presence.watch", watch).await;
    // The older one neither reads its 4001 nor closes; then its process dies.
    older
        .try_write(&raw::frame(raw::FIN | raw::PING, b""))
        .await;
    older.tcp.set_zero_linger().unwrap();
    drop(older);
    eventually("the older one is gone", || {
        harbor.metric("harbor_connections") == 2.0
    })
    .await;
    for group in ["kept", "new"] {
        assert_eq!(
            sender
                .deliver(json!({"group_id": group, "payload": group}))
                .await,
            1
        );
    }
    assert_eq!(newer.received().await, ["kept", "new"]);
    let system = sender
        .control("synapse.discover", json!({"system_id": "s"}))
        .await;
    assert_eq!(system["total"], 1);
    let late = Agent::in_groups(&harbor, "late", &[("new", &[])]).await;
    assert_eq!(
        newer.next().await["payload"]["agent_id"],
        "late",
        "its watch lives"
    );
    drop(late);
}

/// T33: a registration that is refused leaves the connection it would have replaced as it was.
#[tokio::test]
async fn a_refused_registration_replaces_nobody() {
    let harbor = Harbor::with(harbor::Settings {
        groups_per_agent_max: Some(2),
        ..harbor::Settings::default()
    })
    .await;
    let mut older = Agent::in_groups(&harbor, "one", &[("g", &[]), ("h", &[])]).await;
    let mut newer = Agent::connect(&harbor).await;
    let groups = json!({"groups": [{"group_id": "i"}]});
    let answer = newer.try_register(json!({"agent_id": "one"}), groups).await;
    assert_eq!(refusal_of(&answer).0, "limit_exceeded");
    assert_eq!(older.received().await, Vec::<Value>::new(), "undisturbed");
    let group = json!({"group_id": "g"});
    let members = older.control("synapse.group.members", group).await;
    assert_eq!(members["members"][0]["agent_id"], "one");
    let known = json!({"groups": [{"group_id": "h", "role": "r"}, {"group_id": "g"}]});
    let answer = newer.try_register(json!({"agent_id": "one"}), known).await;
    assert_eq!(answer["type"], "synapse.registered", "{answer}");
}

/// T34: of a steady stream to an agent that is taken over again and again, its connections together
/// get every message once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeovers_lose_and_repeat_nothing() {
    const TAKEOVERS: u64 = 40;
    const EACH: u64 = 100;
    const LAST: u64 = EACH * (TAKEOVERS + 1);
    let harbor = Harbor::start().await;
    let quiet = json!({"confirm": "refusals"});
    let mut sender = Agent::register_as(&harbor, json!({"agent_id": "sender"}), quiet).await;
    let first = Agent::register(&harbor, "one").await;
    let (taken_over, mut takeovers) = watch::channel(0);
    let (seen, mut progress) = watch::channel(0);
    let seen = Arc::new(seen);
    // A takeover is due when a message was read that the sender could send only after the one
    // before; it goes on for half as many while a takeover is under way.
    let sending = tokio::spawn(async move {
        for n in 0..=LAST {
            let is_near = |done: &u64| n < done * EACH + EACH + EACH / 2 || *done == TAKEOVERS;
            soon("a takeover", takeovers.wait_for(is_near))
                .await
                .unwrap();
            let message = sender.envelope(json!({"receiver": {"agent_id": "one"}, "payload": n}));
            sender.send(&message).await;
        }
        sender
    });
    let read = |agent| tokio::spawn(read_to_the_end(agent, LAST, Arc::clone(&seen)));
    let mut readers = vec![read(first)];
    for takeover in 1..=TAKEOVERS {
        let is_due = |n: &u64| *n >= takeover * EACH;
        soon("messages are read", progress.wait_for(is_due))
            .await
            .unwrap();
        let newer = Agent::register(&harbor, "one").await;
        readers.push(read(newer));
        taken_over.send_replace(takeover);
    }
    let mut all = Vec::new();
    for reader in readers {
        let (got, code) = soon("a connection ends", reader).await.unwrap();
        assert!(!got.is_empty());
        let is_last = got.last() == Some(&LAST);
        assert_eq!(code, (!is_last).then_some(4001));
        all.extend(got);
    }
    assert_eq!(all, (0..=LAST).collect::<Vec<_>>());
    drop(sending.await.unwrap());
    assert_eq!(harbor.metric("harbor_takeovers_total"), TAKEOVERS as f64);
    assert_eq!(harbor.metric("harbor_deliveries_dropped_total"), 0.0);
}

/// The payloads a connection gets up to `last` or its close, and the code of that. `seen` is the
/// highest that any connection got.
async fn read_to_the_end(
    mut agent: Agent,
    last: u64,
    seen: Arc<watch::Sender<u64>>,
) -> (Vec<u64>, Option<u16>) {
    use futures_util::StreamExt;
    use tokio_tungstenite::tungstenite::Message;
    let mut got = Vec::new();
    while got.last() != Some(&last) {
        match soon("a frame comes", agent.socket.next()).await {
            Some(Ok(Message::Text(text))) => {
                let frame: Value = serde_json::from_str(&text).unwrap();
                got.extend(frame["payload"].as_u64());
                seen.send_modify(|seen| *seen = got.last().copied().max(Some(*seen)).unwrap());
            }
            Some(Ok(Message::Close(Some(frame)))) => return (got, Some(frame.code.into())),
            Some(Ok(_)) => {}
            other => panic!("neither a frame nor a close: {other:?}"),
        }
    }
    (got, None)
}

/// T36: of 50 connections that register one id at once, some killed right after, the newest one
/// owns it in the end, or nobody if that one was killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_connections_of_one_id_end_with_one_owner() {
    let harbor = Harbor::start().await;
    let mut outsider = Agent::register(&harbor, "outsider").await;
    for round in 0..4 {
        let connections = join_all((0..50).map(|_| Agent::connect(&harbor))).await;
        let contests = connections
            .into_iter()
            .map(|agent| tokio::spawn(contest(agent)));
        let mut outcomes = Vec::new();
        for contest in contests.collect::<Vec<_>>() {
            outcomes.extend(soon("a contest ends", contest).await.unwrap());
        }
        outcomes.sort_unstable_by_key(|(generation, _)| *generation);
        let (_, winner) = outcomes.pop().unwrap();
        let owners = f64::from(u8::from(winner.is_some()));
        eventually("one owner at most", || {
            harbor.metric("harbor_connections") == 1.0 + owners
                && harbor.metric("harbor_agents") == 1.0 + owners
        })
        .await;
        let sent = json!({"receiver": {"agent_id": "one"}, "payload": round});
        assert_eq!(outsider.deliver(sent).await as f64, owners);
        if let Some(mut winner) = winner {
            assert_eq!(winner.received().await, [round]);
            winner.close().await;
        }
        for (_, loser) in outcomes {
            if let Some(mut loser) = loser {
                assert_eq!(loser.closed().await, Some(4001));
            }
        }
        eventually("the id is free", || harbor.metric("harbor_agents") == 1.0).await;
    }
    outsider.close().await;
    harbor.is_empty().await;
}

/// Registers as `one` and stays or dies by chance: the generation, and the connection if it stayed.
/// Nothing if it was replaced before it heard that it was registered.
async fn contest(mut agent: Agent) -> Option<(u64, Option<Agent>)> {
    use futures_util::StreamExt;
    agent.id = "one".to_owned();
    let groups = json!({"groups": [{"group_id": "g"}]});
    let register = json!({"type": "synapse.register", "payload": groups});
    let register = agent.envelope(register);
    agent.send(&register).await;
    let message = soon("an answer", agent.socket.next())
        .await
        .unwrap()
        .unwrap();
    let answer: Value = serde_json::from_str(message.to_text().unwrap()).ok()?;
    let generation = answer["payload"]["generation"].as_u64();
    let generation = generation.unwrap_or_else(|| panic!("{answer}"));
    if fastrand::bool() {
        return Some((generation, Some(agent)));
    }
    kill(agent);
    Some((generation, None))
}

/// T37: connecting and leaving a thousand times, in every way, leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_visits_leave_nothing_behind() {
    let harbor = Harbor::start().await;
    let visitor = async |name: &str| {
        for visit in 0..250 {
            let endpoint = json!({"agent_id": name, "system_id": "s"});
            let groups = json!({"groups": [{"group_id": "g", "role": "r"}, {"group_id": name}]});
            let mut agent = Agent::register_as(&harbor, endpoint, groups).await;
            let watch = json!({"group_id": "watched"});
            agent.control("synapse.presence.watch", watch).await;
            match visit % 3 {
                0 => agent.close().await,
                1 => kill(agent),
                _ => drop(agent),
            }
        }
    };
    let names = ["a", "b", "c", "d"];
    join_all(names.map(visitor)).await;
    harbor.is_empty().await;
    assert_eq!(harbor.metric("harbor_connections_opened_total"), 1_000.0);
    let closed = harbor.metric("harbor_connections_closed_total");
    assert_eq!(closed, 1_000.0);
    let mut again = Agent::register(&harbor, "a").await;
    let members = again
        .control("synapse.group.members", json!({"group_id": "g"}))
        .await;
    assert_eq!(members["members"], json!([]));
}

/// T39: an empty or unknown choice of members is nobody, never everybody.
#[tokio::test]
async fn an_empty_choice_is_nobody() {
    let harbor = Harbor::start().await;
    let mut a = Agent::in_groups(&harbor, "a", &[("g", &["boss"])]).await;
    let mut b = Agent::in_groups(&harbor, "b", &[("g", &["worker"])]).await;
    for kind in ["specific", "role"] {
        for (targets, code) in [
            (json!([]), "empty_targets"),
            (json!(null), "empty_targets"),
            (json!([""]), "invalid_field"),
            (json!(["b", ""]), "invalid_field"),
            (json!(""), "invalid_field"),
            (json!({}), "invalid_field"),
            (json!([["b"]]), "invalid_field"),
        ] {
            for broadcast in [false, true] {
                let members = json!({"group_id": "g", "target_type": kind, "target_ids": targets,
                    "broadcast": broadcast});
                assert_eq!(a.refused(members.clone()).await.0, code, "{members}");
            }
        }
        let absent = json!({"group_id": "g", "target_type": kind});
        assert_eq!(a.refused(absent).await.0, "empty_targets");
        for nobody in [
            json!(["nobody"]),
            json!(["*"]),
            json!(["B", "b ", "Worker"]),
        ] {
            let members = json!({"group_id": "g", "target_type": kind, "target_ids": nobody});
            assert_eq!(a.deliver(members).await, 0);
        }
    }
    let twice = json!({"group_id": "g", "target_type": "specific", "target_ids": ["b", "b", "b"]});
    assert_eq!(a.deliver(twice).await, 1);
    assert_eq!(b.received().await.len(), 1);
}

/// T40: 100 sends at once to distinct groups reach exactly their groups, and whoever a message
/// names in two ways gets it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_at_once_to_distinct_groups_do_not_mix() {
    const GROUPS: usize = 100;
    let harbor = Harbor::start().await;
    let name = |group: usize| format!("g{}", group % GROUPS);
    // Each member is in three groups of the hundred.
    let mut members = join_all((0..GROUPS).map(async |at| {
        let groups: Vec<_> = [at, at + 1, at + 50]
            .map(|group| json!({"group_id": name(group)}))
            .into();
        let endpoint = json!({"agent_id": format!("m{at}")});
        Agent::register_as(&harbor, endpoint, json!({"groups": groups})).await
    }))
    .await;
    let send = async |id: String| {
        let mut sender = Agent::register(&harbor, &id).await;
        // All written before any answer is read.
        for group in 0..GROUPS {
            let twofold = json!({"group_id": name(group), "payload": [id, group],
                "receiver": {"agent_id": format!("m{group}")}});
            let message = sender.envelope(twofold);
            sender.send(&message).await;
        }
        for _ in 0..GROUPS {
            assert_eq!(sender.next().await["payload"]["recipients"], 3);
        }
    };
    join_all(["s1", "s2", "s3"].map(|id| send(id.to_owned()))).await;
    for (at, member) in members.iter_mut().enumerate() {
        let mut got = BTreeMap::<String, Vec<u64>>::new();
        for payload in member.received().await {
            let sender = payload[0].as_str().unwrap().to_owned();
            got.entry(sender)
                .or_default()
                .push(payload[1].as_u64().unwrap());
        }
        let mut expected = [at, at + 1, at + 50].map(|group| (group % GROUPS) as u64);
        expected.sort_unstable();
        for sender in ["s1", "s2", "s3"] {
            assert_eq!(
                got.remove(sender).unwrap(),
                expected,
                "m{at} from {sender}, in order"
            );
        }
    }
}
