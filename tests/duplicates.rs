//! Goal: sending again under the same id delivers once, and is answered as the first time.
//! Method: repeats on one connection, after a takeover, after being away, and by another agent.

use serde_json::json;

use crate::support::{Agent, Harbor};

#[tokio::test]
async fn sending_again_delivers_once_wherever_it_comes_from() {
    let harbor = Harbor::start().await;
    let mut bob = Agent::register(&harbor, "bob").await;
    let mut alice = Agent::register(&harbor, "alice").await;
    let message = |n: u64| json!({"id": "order-1", "receiver": {"agent_id": "bob"}, "payload": n});
    let answer =
        |duplicate: bool| json!({"durability": "routed", "recipients": 1, "duplicate": duplicate});
    assert_eq!(alice.ask(message(1)).await["payload"], answer(false));
    assert_eq!(alice.ask(message(2)).await["payload"], answer(true));
    let mut newer = Agent::register(&harbor, "alice").await;
    assert_eq!(
        newer.ask(message(3)).await["payload"],
        answer(true),
        "after a takeover"
    );
    newer.close().await;
    assert_eq!(alice.closed().await, Some(4001));
    harbor_has_agents(&harbor, 1.0).await;
    let mut again = Agent::register(&harbor, "alice").await;
    assert_eq!(
        again.ask(message(4)).await["payload"],
        answer(true),
        "after being away"
    );
    let mut carol = Agent::register(&harbor, "carol").await;
    assert_eq!(
        carol.ask(message(5)).await["payload"],
        answer(false),
        "an id is its sender's own"
    );
    assert_eq!(bob.received().await, [json!(1), json!(5)]);
    assert_eq!(harbor.metric("harbor_messages_duplicate_total"), 3.0);
}

async fn harbor_has_agents(harbor: &Harbor, count: f64) {
    crate::support::eventually("the agents are gone", || {
        harbor.metric("harbor_agents") == count
    })
    .await;
}

/// What was refused was not carried out, so the mended message may have the same id.
#[tokio::test]
async fn a_refused_id_is_free() {
    let harbor = Harbor::start().await;
    let mut alice = Agent::register(&harbor, "alice").await;
    let (code, _) = alice.refused(json!({"id": "x"})).await;
    assert_eq!(code, "no_destination");
    let mended = json!({"id": "x", "receiver": {"agent_id": "nobody"}});
    let answer = alice.ask(mended.clone()).await;
    assert_eq!(answer["payload"]["duplicate"], false);
    // Nobody was there: also that is the answer to keep, until the client takes a new id.
    let answer = alice.ask(mended).await;
    assert_eq!(
        (
            &answer["payload"]["duplicate"],
            &answer["payload"]["recipients"]
        ),
        (&json!(true), &json!(0))
    );
}
