//! Goal: 10,000 strangers who hold a socket each and never register cost a bounded memory, and no agent a message.
//! Method: a `harbor` process of which they are as many as it takes; a signed pair talks on all the while; they go, and
//! come again.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use synapse::keys::{Algorithm, Key};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::support::{
    Agent, Raw,
    agent::refusal_of,
    guarded::{KeysFile, accepted, key, message, register, ring_of},
    process::Process,
    raw, soon,
};

/// How many, where the machine allows so many files to one process.
const STRANGERS: usize = 10_000;
/// File descriptors that a process has for other things; other tests run in this one.
const OTHER_FILES: usize = 1_500;
/// What a stranger may cost a Harbor that was built without optimisation.
const KIB_PER_STRANGER: u64 = 32;

/// Raises this process's own limit of open files as far as is needed and allowed; the limit, and how many strangers that
/// is for.
fn allowed() -> (usize, usize) {
    let now = getrlimit(Resource::Nofile);
    let wanted = (STRANGERS + OTHER_FILES) as u64;
    let most = now.maximum.unwrap_or(wanted).min(wanted);
    if now.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: now.maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
    let most = most as usize;
    (most, most - OTHER_FILES.min(most / 2))
}

/// One signed message after another from one agent to another, until `stop`; how many, and the slowest in milliseconds.
async fn talk(
    mut from: Agent,
    key: Key,
    mut to: Agent,
    stop: watch::Receiver<bool>,
) -> (u64, u128) {
    let (mut number, mut slowest) = (0, 0);
    while !*stop.borrow() {
        let started = Instant::now();
        let members = json!({"receiver": {"agent_id": to.id}, "payload": number});
        let frame = message(&from, &key, members);
        accepted(&mut from, &frame).await;
        assert_eq!(to.next().await["payload"], number, "all, in order");
        slowest = slowest.max(started.elapsed().as_millis());
        number += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (number, slowest)
}

/// A stranger that reads the challenge, says something, and is told to register.
async fn stranger(addr: std::net::SocketAddr) -> Raw {
    let mut raw = Raw::connect_to(addr).await;
    assert_eq!(raw.upgrade("").await.status, 101);
    assert_eq!(raw.next_json().await["type"], "synapse.challenge");
    let chat = json!({"id": "x", "version": "1.0.0", "type": "chat", "sender": {"agent_id": "alice"},
        "receiver": {"agent_id": "bob"}, "payload": "x".repeat(200), "timestamp": "2026-03-01T12:00:00Z"});
    raw.write(&raw::text(&chat)).await;
    assert_eq!(refusal_of(&raw.next_json().await).0, "not_registered");
    raw
}

/// So many strangers, who come in a few streams.
async fn crowd(addr: std::net::SocketAddr, count: usize) -> Vec<Raw> {
    const STREAMS: usize = 16;
    let mut coming = JoinSet::new();
    for stream in 0..STREAMS {
        coming.spawn(async move {
            let mut come = Vec::new();
            for _ in (stream..count).step_by(STREAMS) {
                come.push(stranger(addr).await);
            }
            come
        });
    }
    coming.join_all().await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_strangers_cost_little_memory_and_no_message() {
    let (files, count) = allowed();
    let keys = [
        key("alice", Algorithm::HmacSha256),
        key("bob", Algorithm::Ed25519),
    ];
    let file = KeysFile::new(&ring_of(&[&keys[0], &keys[1]]));
    let most = count.to_string();
    let limits = [
        "--unregistered-max",
        &most,
        "--connect-deadline-seconds",
        "600",
        "--heartbeat-seconds",
        "600",
    ];
    let arguments = [&file.arguments()[..], &limits].concat();
    let harbor = Process::with_files(files, &arguments).await;
    let harbor = harbor.monitored_with(&file.monitor());
    let addr = harbor.addr();
    let alice = register(&harbor.url, &keys[0]).await;
    let bob = register(&harbor.url, &keys[1]).await;
    let (stop, stopped) = watch::channel(false);
    let talking = tokio::spawn(talk(alice, keys[0].clone(), bob, stopped));

    let mut resident = vec![harbor.resident_kib()];
    for round in 1..=2 {
        let held = crowd(addr, count).await;
        assert_eq!(harbor.metric("harbor_unregistered").await, count as f64);
        resident.push(harbor.resident_kib());
        // One more is refused, and told when to come again.
        let mut more = Raw::connect_to(addr).await;
        let answer = more.upgrade("").await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, &body["code"]), (503, &json!("overloaded")));
        assert_eq!(harbor.metric("harbor_agents").await, 2.0);
        assert!(!talking.is_finished(), "they talk on, round {round}");
        drop(held);
        soon("they are gone", async {
            while harbor.metric("harbor_unregistered").await > 0.0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
    stop.send(true).unwrap();
    let (messages, slowest) = soon("the pair ends", talking).await.unwrap();
    let [before, once, twice] = resident[..] else {
        panic!("{resident:?}");
    };
    let each = (once - before) as f64 / count as f64;
    println!(
        "{count} strangers: {before} KiB before, {once} with them, {twice} with others after them: {each:.1} KiB each; \
         {messages} messages meanwhile, the slowest took {slowest} ms"
    );
    assert!(
        once - before <= count as u64 * KIB_PER_STRANGER,
        "{each} KiB each"
    );
    assert!(twice <= once + once / 10, "it grows: {resident:?} KiB");
    assert!(messages > 10, "{messages}");
    assert!(slowest < 5_000, "{slowest} ms");
}
