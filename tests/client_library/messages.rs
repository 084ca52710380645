//! Goal: a message is accepted and delivered, a request answered, and a failure says which it is.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::value::RawValue;
use synapse::{
    Code, Envelope,
    client::{Client, Confirm, Event, RequestErrorKind, SendErrorKind, Takeover, answering},
};

use super::{client, connected, next, next_number, numbered, options, to};
use crate::support::{Agent, Harbor, SOON, soon};

#[tokio::test]
async fn what_is_sent_arrives_byte_for_byte_and_is_accepted() {
    let harbor = Harbor::start().await;
    let (alice, bob) = (client(&harbor, "alice").await, client(&harbor, "bob").await);
    let payload = "{ \"n\" : 1.50,\t\"big\": 123456789012345678901234567890 }";
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    let message = Envelope::new("note").to("bob").payload(payload.clone());
    let accepted = alice.send(message.in_conversation("c")).await.unwrap();
    assert_eq!((accepted.recipients, accepted.duplicate), (1, false));
    let got = next(&bob).await;
    assert_eq!(got.payload.get(), payload.get());
    assert_eq!(got.sender.agent_id, "alice");
    assert_eq!(got.conversation_id, "c");
    assert!(!got.id.is_empty() && got.timestamp.at() > jiff::Timestamp::UNIX_EPOCH);
    let nobody = alice.send(numbered(1).to("nobody")).await.unwrap();
    assert_eq!(nobody.recipients, 0);
    assert!(bob.try_next().is_none());
}

#[tokio::test]
async fn an_id_of_ones_own_is_kept() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let mut message = numbered(1).to("alice");
    message.id = "mine".into();
    message.sender.agent_id = "somebody else".into();
    alice.send(message).await.unwrap();
    let got = next(&alice).await;
    assert_eq!((&*got.id, &*got.sender.agent_id), ("mine", "alice"));
}

#[tokio::test]
async fn refusals_are_typed_and_the_connection_lives_on() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let none: [&str; 0] = [];
    let error = alice
        .send(numbered(1).to_roles("g", none))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Refused);
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.code, Code::EmptyTargets);
    assert_eq!(refusal.field.as_deref(), Some("target_ids"));
    for invalid in [
        Envelope::new("").to("b"),
        Envelope::new("synapse.x").to("b"),
    ] {
        let error = alice.send(invalid).await.unwrap_err();
        assert_eq!(error.kind(), SendErrorKind::Invalid);
    }
    let large = Envelope::new("t")
        .to("alice")
        .payload_of(&"x".repeat(2 << 20));
    let error = alice.send(large.unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::TooLarge);
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
async fn many_tasks_send_at_once() {
    let harbor = Harbor::start().await;
    let (alice, bob) = (client(&harbor, "alice").await, client(&harbor, "bob").await);
    let senders = (0..50).map(|task| {
        let alice = alice.clone();
        tokio::spawn(async move {
            for number in 0..100 {
                let message = numbered(task * 100 + number).to("bob");
                assert_eq!(alice.send(message).await.unwrap().recipients, 1);
            }
        })
    });
    let senders: Vec<_> = senders.collect();
    let mut last = [None; 50];
    let mut messages = Box::pin(bob.messages());
    for _ in 0..5_000 {
        let message = soon("a message comes", messages.next()).await.unwrap();
        let number: usize = message.payload.get().parse().unwrap();
        let (task, number) = (number / 100, number % 100);
        assert!(last[task] < Some(number), "the order of one task is kept");
        last[task] = Some(number);
    }
    for sender in senders {
        soon("a sender is done", sender).await.unwrap();
    }
}

#[tokio::test]
async fn posts_go_out_in_order_and_can_be_followed_up() {
    let harbor = Harbor::start().await;
    let (alice, bob) = (client(&harbor, "alice").await, client(&harbor, "bob").await);
    let mut events = alice.events();
    for number in 0..500 {
        drop(alice.post(numbered(number).to("bob")).await.unwrap());
    }
    let followed = alice.post(numbered(500).to("bob")).await.unwrap();
    assert_eq!(followed.accepted().await.unwrap().recipients, 1);
    for number in 0..=500 {
        assert_eq!(next_number(&bob).await, number);
    }
    let refused = alice.post(numbered(1)).await.unwrap();
    let id = refused.id().to_owned();
    drop(refused);
    assert_failed(soon("the refusal is told", events.next()).await, &id);
}

fn assert_failed(event: Option<Event>, id: &str) {
    let Some(Event::Failed { message_id, error }) = event else {
        panic!("a failure was expected, not {event:?}");
    };
    assert_eq!(message_id.as_deref(), Some(id));
    assert_eq!(error.refusal().unwrap().code, Code::NoDestination);
}

#[tokio::test]
async fn without_acceptances_posts_work_and_refusals_are_told() {
    let harbor = Harbor::start().await;
    let options = options(harbor.url(), "alice").confirm(Confirm::Refusals);
    let (alice, bob) = (connected(options).await, client(&harbor, "bob").await);
    let mut events = alice.events();
    let error = alice.send(numbered(1).to("bob")).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Unconfirmed);
    let posted = alice.post(numbered(2).to("bob")).await.unwrap();
    let error = posted.accepted().await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Unconfirmed);
    assert_eq!(next_number(&bob).await, 2);
    let refused = alice.post(numbered(3)).await.unwrap();
    let event = soon("the refusal is told", events.next()).await;
    assert_failed(event, refused.id());
}

#[tokio::test]
async fn a_request_is_answered_and_reply_to_is_honoured() {
    let harbor = Harbor::start().await;
    let (alice, bob) = (client(&harbor, "alice").await, client(&harbor, "bob").await);
    let desk = client(&harbor, "desk").await;
    let worker = bob.clone();
    tokio::spawn(async move {
        while let Some(request) = worker.next().await {
            let number: u64 = request.payload.get().parse().unwrap();
            worker.reply(&request, numbered(number + 1)).await.unwrap();
        }
    });
    let answers = (0..20).map(|number| {
        let alice = alice.clone();
        async move {
            let answer = alice
                .request(numbered(number).to("bob"), SOON)
                .await
                .unwrap();
            assert_eq!(answer.payload.get(), (number + 1).to_string());
        }
    });
    futures_util::future::join_all(answers).await;
    let mut request = numbered(41).to("bob");
    request.reply_to = "desk".into();
    alice.send(request).await.unwrap();
    assert_eq!(next_number(&desk).await, 42);
}

#[tokio::test]
async fn a_request_that_cannot_be_answered_fails_at_once() {
    let harbor = Harbor::start().await;
    let alice = client(&harbor, "alice").await;
    let a_day = Duration::from_secs(86_400);
    let nobody = alice.request(numbered(1).to("nobody"), a_day);
    let error = soon("it fails at once", nobody).await.unwrap_err();
    assert_eq!(error.kind(), RequestErrorKind::NoRecipients);
    let nowhere = alice.request(numbered(1), a_day);
    let error = soon("it fails at once", nowhere).await.unwrap_err();
    assert_eq!(error.kind(), RequestErrorKind::Send(SendErrorKind::Refused));
    assert_eq!(error.refusal().unwrap().code, Code::NoDestination);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_a_message() {
    let harbor = Harbor::start().await;
    let (alice, bob) = (client(&harbor, "alice").await, client(&harbor, "bob").await);
    let error = alice
        .request(numbered(1).to("bob"), Duration::from_millis(50))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), RequestErrorKind::NoAnswer);
    let request = next(&bob).await;
    bob.post(answering(&request, numbered(2))).await.unwrap();
    let late = next(&alice).await;
    assert_eq!(late.correlation_id, request.id);
}

#[tokio::test]
async fn an_agent_in_use_can_be_respected() {
    let harbor = Harbor::start().await;
    let mut first = Agent::register(&harbor, "alice").await;
    let options = options(harbor.url(), "alice").takeover(Takeover::Yield);
    let error = Client::connect(options).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().code, Code::AgentInUse);
    let still_there = first.deliver(to("alice")).await;
    assert_eq!(still_there, 1);
}
