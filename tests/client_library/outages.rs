//! Goal: what happens to messages, groups and watches when the connection goes and comes back.

use std::time::Duration;

use serde_json::json;
use synapse::client::{ControlErrorKind, DisconnectReason, RequestErrorKind, SendErrorKind, State};

use super::{
    client, connected,
    groups::{group, snapshot},
    is_connected, next, next_number, numbered, options,
    proxy::{Mode, Proxy},
    to, until, until_disconnected, until_reconnected,
};
use crate::support::{Agent, Harbor, SOON, soon};

#[tokio::test]
async fn groups_and_watches_are_restored() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let alice = connected(options(proxy.url(), "alice").join("first", ["a"])).await;
    alice.join("second", ["b", "c"]).await.unwrap();
    alice.join("third", ["d"]).await.unwrap();
    alice.leave("third").await.unwrap();
    let mut watch = alice.watch(group("second")).await.unwrap();
    assert_eq!(snapshot(&mut watch).await.members.len(), 1);
    let mut events = alice.events();
    proxy.set(Mode::Cut);
    until_disconnected(&mut events).await;
    proxy.set(Mode::Pass);
    until_reconnected(&mut events).await;
    assert_eq!(snapshot(&mut watch).await.members[0].agent_id, "alice");
    let mut bob = Agent::register(&harbor, "bob").await;
    for (group_id, roles) in [("first", json!(["a"])), ("second", json!(["b", "c"]))] {
        let roster = json!({"group_id": group_id});
        let roster = bob.control("synapse.group.members", roster).await;
        assert_eq!(roster["members"][0]["roles"], roles, "{group_id}");
    }
    assert_eq!(bob.deliver(json!({"group_id": "third"})).await, 0);
    assert_eq!(bob.deliver(to("alice")).await, 1);
    assert_eq!(next(&alice).await.sender.agent_id, "bob");
}

/// T42: Harbor may keep the membership over the outage (a takeover) or not; either way the client
/// must be out.
#[tokio::test]
async fn a_leave_during_an_outage_stays_a_leave() {
    for cut in [Mode::Cut, Mode::CutOneSide] {
        let harbor = Harbor::start().await;
        let proxy = Proxy::start(harbor.addr()).await;
        let alice = connected(
            options(proxy.url(), "alice")
                .join("g", ["a"])
                .join("h", ["a"]),
        );
        let alice = alice.await;
        let mut events = alice.events();
        proxy.set(cut);
        until_disconnected(&mut events).await;
        let leaving = tokio::spawn({
            let alice = alice.clone();
            async move { alice.leave("g").await }
        });
        // It is written down before the first wait, so one turn of the task is enough.
        tokio::task::yield_now().await;
        proxy.set(Mode::Pass);
        soon("the leave is confirmed", leaving)
            .await
            .unwrap()
            .unwrap();
        let mut bob = Agent::register(&harbor, "bob").await;
        assert_eq!(bob.deliver(json!({"group_id": "g"})).await, 0, "{cut:?}");
        assert_eq!(bob.deliver(json!({"group_id": "h"})).await, 1, "{cut:?}");
    }
}

#[tokio::test]
async fn a_leave_nobody_waits_for_any_more_stays_one_too() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let options = options(proxy.url(), "alice").join("g", ["a"]);
    let alice = connected(options.acceptance_deadline(Duration::from_millis(50))).await;
    let mut events = alice.events();
    proxy.set(Mode::CutOneSide);
    until_disconnected(&mut events).await;
    let error = alice.leave("g").await.unwrap_err();
    assert_eq!(error.kind(), ControlErrorKind::Send(SendErrorKind::NotSent));
    let error = alice.join("h", ["b"]).await.unwrap_err();
    assert_eq!(error.kind(), ControlErrorKind::Send(SendErrorKind::NotSent));
    proxy.set(Mode::Pass);
    until_reconnected(&mut events).await;
    let mut bob = Agent::register(&harbor, "bob").await;
    // The leave is the first frame of the new session; this answer comes after it was carried out.
    soon("alice is heard", async {
        while alice.members("g").await.is_err() {}
    })
    .await;
    assert_eq!(bob.deliver(json!({"group_id": "g"})).await, 0);
    assert_eq!(bob.deliver(json!({"group_id": "h"})).await, 1);
}

/// T47: never accepted and lost, never out of order.
#[tokio::test]
async fn sends_without_a_connection_wait_for_one_in_order() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let alice = connected(options(proxy.url(), "alice")).await;
    let bob = client(&harbor, "bob").await;
    let mut events = alice.events();
    proxy.set(Mode::Cut);
    until_disconnected(&mut events).await;
    let mut posted = Vec::new();
    for number in 1..=3 {
        posted.push(alice.post(numbered(number).to("bob")).await.unwrap());
    }
    proxy.set(Mode::Pass);
    until(&alice, "connected again", is_connected).await;
    for number in 4..=6 {
        posted.push(alice.post(numbered(number).to("bob")).await.unwrap());
    }
    for posted in posted {
        assert_eq!(posted.accepted().await.unwrap().recipients, 1);
    }
    for number in 1..=6 {
        assert_eq!(next_number(&bob).await, number);
    }
}

#[tokio::test]
async fn what_was_sent_and_not_answered_is_in_doubt() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let alice = connected(options(proxy.url(), "alice")).await;
    proxy.set(Mode::Freeze);
    let posted = alice.post(numbered(1).to("bob")).await.unwrap();
    // A frame's way out of the queue can be seen: the next withdraws only if it is still in it.
    let waiting = alice.request(numbered(2).to("bob"), Duration::from_millis(100));
    let error = waiting.await.unwrap_err();
    assert_eq!(error.kind(), RequestErrorKind::NoAnswer, "it was written");
    proxy.set(Mode::Cut);
    let error = soon("the send fails", posted.accepted()).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Disconnected);
}

#[tokio::test]
async fn a_send_that_found_no_connection_is_never_sent() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let options = options(proxy.url(), "alice");
    let alice = connected(options.acceptance_deadline(Duration::from_millis(100))).await;
    let bob = client(&harbor, "bob").await;
    let mut events = alice.events();
    proxy.set(Mode::Cut);
    until_disconnected(&mut events).await;
    let error = alice.send(numbered(1).to("bob")).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::NotSent);
    // Given up by its caller before its deadline.
    let given_up = alice.send(numbered(2).to("bob"));
    let given_up = tokio::time::timeout(Duration::from_millis(10), given_up);
    assert!(given_up.await.is_err());
    proxy.set(Mode::Pass);
    until_reconnected(&mut events).await;
    alice.send(numbered(3).to("bob")).await.unwrap();
    assert_eq!(next_number(&bob).await, 3);
}

#[tokio::test]
async fn an_accepted_request_is_answered_over_the_next_connection() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let alice = connected(options(proxy.url(), "alice")).await;
    let bob = client(&harbor, "bob").await;
    let mut events = alice.events();
    let asking = tokio::spawn({
        let alice = alice.clone();
        async move { alice.request(numbered(1).to("bob"), SOON).await }
    });
    let request = next(&bob).await;
    // Alice reads its acceptance before the answer to a later question.
    alice.members("g").await.unwrap();
    proxy.set(Mode::Cut);
    until_disconnected(&mut events).await;
    proxy.set(Mode::Pass);
    until_reconnected(&mut events).await;
    bob.reply(&request, numbered(2)).await.unwrap();
    let answer = soon("the answer comes", asking).await.unwrap().unwrap();
    assert_eq!(answer.payload.get(), "2");
}

/// T63: a half-open peer is given up.
#[tokio::test]
async fn a_silent_peer_is_given_up() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let options = options(proxy.url(), "alice").heartbeat(Duration::from_millis(100));
    let alice = connected(options.connect_deadline(Duration::from_millis(500))).await;
    let mut events = alice.events();
    proxy.set(Mode::Freeze);
    let reason = until_disconnected(&mut events).await;
    assert_eq!(reason, DisconnectReason::Silent);
    proxy.set(Mode::Pass);
    until_reconnected(&mut events).await;
    assert_eq!(
        alice
            .send(numbered(1).to("alice"))
            .await
            .unwrap()
            .recipients,
        1
    );
}

#[tokio::test]
async fn an_idle_connection_with_a_heartbeat_stays() {
    let harbor = Harbor::start().await;
    let options = options(harbor.url(), "alice").heartbeat(Duration::from_millis(50));
    let alice = connected(options).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let State::Connected(session) = alice.state() else {
        panic!("{:?}", alice.state());
    };
    assert_eq!(session.generation, 1);
}

#[tokio::test]
async fn a_draining_harbor_is_given_its_time() {
    let (first, second) = (Harbor::start().await, Harbor::start().await);
    let proxy = Proxy::start(first.addr()).await;
    let alice = connected(options(proxy.url(), "alice").join("g", ["a"])).await;
    let mut events = alice.events();
    proxy.aim(second.addr());
    assert!(first.drain().await);
    let told = super::flow::draining(&mut events).await;
    let reason = until_disconnected(&mut events).await;
    let since = tokio::time::Instant::now();
    assert!(
        matches!(reason, DisconnectReason::Closed { code: 1001, .. }),
        "{reason}"
    );
    until_reconnected(&mut events).await;
    let slack = Duration::from_millis(50);
    assert!(
        since.elapsed() + slack >= told,
        "{:?} of {told:?}",
        since.elapsed()
    );
    let mut bob = Agent::register(&second, "bob").await;
    assert_eq!(bob.deliver(json!({"group_id": "g"})).await, 1);
}
