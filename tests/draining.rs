//! Goal: a node that goes away tells everybody so, also those who come meanwhile, and is not held up.
//! Method: peers of every kind stand ready, and the drain starts at a chosen moment between them.

use std::net::SocketAddr;

use harbor::Settings;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, yield_now};

use crate::support::{
    Agent, Harbor, Raw,
    raw::{self, UPGRADE},
    soon,
};

const READY: &str = "GET /readyz HTTP/1.1\r\nHost: harbor\r\n\r\n";

/// A Harbor that drains, and what holds the drain: an agent that does not read what waits for it.
struct Draining {
    addr: SocketAddr,
    drain: JoinHandle<bool>,
    stuck: Raw,
}

impl Draining {
    async fn start(harbor: Harbor) -> Draining {
        let stuck = Raw::with_buffers(&harbor, 4096).await;
        let stuck = stuck
            .registered(json!({"agent_id": "stuck"}), json!({}))
            .await;
        let mut sender = Agent::register(&harbor, "sender").await;
        let payload = json!("x".repeat(1_000_000));
        for _ in 0..8 {
            let members = json!({"receiver": {"agent_id": "stuck"}, "payload": payload});
            assert_eq!(sender.deliver(members).await, 1);
        }
        let addr = harbor.addr();
        let drain = tokio::spawn(harbor.drain());
        assert_eq!(sender.next().await["type"], "synapse.draining");
        assert_eq!(sender.closed().await, Some(1001));
        assert!(!drain.is_finished(), "the stuck one holds it");
        Draining { addr, drain, stuck }
    }

    /// Lets it end; whether every connection did.
    async fn end(self) -> bool {
        drop(self.stuck);
        soon("the drain ends", self.drain).await.unwrap()
    }
}

/// Whoever is answered `synapse.registered` is told that the node drains, wherever its registration
/// falls: here all of them are read after the node was told to stop.
#[tokio::test]
async fn who_registers_while_the_node_is_told_to_drain_is_told_too() {
    let harbor = Harbor::with(Settings {
        drain_seconds: Some(600),
        ..Settings::default()
    })
    .await;
    let mut olders = Vec::new();
    let mut agents = Vec::new();
    for n in 0..50 {
        if n % 2 == 0 {
            olders.push(Agent::register(&harbor, &format!("a-{n}")).await);
        }
        agents.push(Agent::connect(&harbor).await);
    }
    for (n, agent) in agents.iter_mut().enumerate() {
        let payload = json!({"nonce": agent.challenge["nonce"]});
        agent.id = format!("a-{n}");
        let register = agent.envelope(json!({"type": "synapse.register", "payload": payload}));
        agent.send(&register).await;
    }
    // The sockets are known to be readable after this, and nobody has read them.
    yield_now().await;
    let see = async {
        let mut registered = 0;
        for agent in &mut agents {
            let mut kinds = Vec::new();
            let code = seen(agent, &mut kinds).await;
            assert_eq!(code, Some(1001), "{kinds:?}");
            match kinds[..] {
                [ref refused] => assert_eq!(refused, "synapse.refused"),
                [ref first, ref second] => {
                    assert_eq!(
                        (&**first, &**second),
                        ("synapse.registered", "synapse.draining")
                    );
                    registered += 1;
                }
                _ => panic!("{kinds:?}"),
            }
        }
        for older in &mut olders {
            let mut kinds = Vec::new();
            match seen(older, &mut kinds).await {
                Some(4001) => {}
                code => assert_eq!((code, kinds), (Some(1001), vec!["synapse.draining".into()])),
            }
        }
        registered
    };
    let (is_done, registered) = tokio::join!(soon("the drain ends", harbor.drain()), see);
    assert!(is_done);
    assert!(registered > 0, "nobody came at the moment this is about");
}

/// Reads up to the close frame: the types of the frames before, and its code.
async fn seen(agent: &mut Agent, kinds: &mut Vec<String>) -> Option<u16> {
    use futures_util::StreamExt;
    use tokio_tungstenite::tungstenite::Message;
    loop {
        match soon("a frame comes", agent.socket.next()).await {
            Some(Ok(Message::Text(text))) => {
                let frame: Value = serde_json::from_str(&text).unwrap();
                kinds.push(frame["type"].as_str().unwrap().to_owned());
            }
            Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
            Some(Ok(_)) => {}
            _ => return None,
        }
    }
}

/// Monitoring and agents that come while the node drains are told so, and no connection stays.
#[tokio::test]
async fn requests_while_draining_get_their_503() {
    let harbor = Harbor::with(Settings {
        drain_seconds: Some(600),
        ..Settings::default()
    })
    .await;
    let mut early = Raw::connect(&harbor).await;
    let mut idle = Raw::connect(&harbor).await;
    assert_eq!(idle.ask(READY).await.status, 200);
    let draining = Draining::start(harbor).await;
    let answer = early.ask(READY).await;
    assert_eq!(answer.status, 503, "on a connection from before");
    early.ended().await;
    idle.ended().await;
    for _ in 0..40 {
        for request in [READY, &format!("{UPGRADE}\r\n")] {
            let mut peer = Raw::connect_to(draining.addr).await;
            let answer = peer.ask(request).await;
            assert_eq!(answer.status, 503);
            assert!(answer.head.contains("connection: close"), "{}", answer.head);
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(body["code"], "draining");
            assert!(body["retry_after_ms"].as_u64().unwrap() > 0);
            peer.ended().await;
        }
    }
    assert!(draining.end().await);
}

/// Neither half a request nor none, nor a peer that reads no answer, holds the drain to its end.
#[tokio::test]
async fn http_connections_do_not_hold_the_drain() {
    let harbor = Harbor::with(Settings {
        drain_seconds: Some(5),
        ..Settings::default()
    })
    .await;
    let _silent = Raw::connect(&harbor).await;
    let mut half = Raw::connect(&harbor).await;
    half.write(UPGRADE.as_bytes()).await;
    let mut second_half = Raw::connect(&harbor).await;
    assert_eq!(second_half.ask(READY).await.status, 200);
    second_half.write(UPGRADE.as_bytes()).await;
    let mut unregistered = Raw::connect(&harbor).await;
    assert_eq!(unregistered.upgrade("").await.status, 101);
    assert_eq!(unregistered.next_json().await["type"], "synapse.challenge");
    unregistered.write(&raw::text(&json!({"id": "x"}))).await;
    assert!(harbor.drain().await, "in time");
    assert_eq!(unregistered.next_json().await["type"], "synapse.refused");
}
