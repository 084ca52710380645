//! Goal: how connections begin and end: deadlines, flapping, final ends, goodbyes.

use std::time::Duration;

use synapse::client::{
    Client, CloseReason, ConnectErrorKind, Event, Options, SendErrorKind, State,
};
use tokio::{io::AsyncReadExt, sync::mpsc};

use super::{
    client, connected, fake,
    fake::Fake,
    is_connected, next_number, numbered, options,
    proxy::{Mode, Proxy},
    until, until_disconnected,
};
use crate::support::{Agent, Harbor, SOON, eventually, soon};

const SHORT: Duration = Duration::from_millis(200);

/// T17, T63: a server that accepts and says nothing, or upgrades and says nothing.
#[tokio::test]
async fn connecting_has_a_deadline_and_closes_its_socket() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let mute = fake::listen(move |mut socket| {
        let ended = ended.clone();
        async move {
            let mut read = Vec::new();
            let _ = socket.read_to_end(&mut read).await;
            ended.send(read.len()).unwrap();
        }
    });
    let without_challenge = fake::listen(|socket| async move {
        let _socket = tokio_tungstenite::accept_async(socket).await;
        std::future::pending::<()>().await;
    });
    for addr in [mute.await, without_challenge.await] {
        let options = options(format!("ws://{addr}"), "a").connect_deadline(SHORT);
        let started = tokio::time::Instant::now();
        let connecting = soon("connecting ends", Client::connect(options));
        let error = connecting.await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::Deadline, "{error}");
        assert!(started.elapsed() >= SHORT);
    }
    assert!(soon("the socket is closed", ends.recv()).await.unwrap() > 0);
}

#[tokio::test]
async fn what_is_not_there_or_no_harbor_is_told_apart() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed_addr = closed.local_addr().unwrap();
    drop(closed);
    let hangs_up = fake::listen(|socket| async move { drop(socket) }).await;
    let harbor = Harbor::start().await;
    let elsewhere = format!("ws://{}/healthz", harbor.addr());
    for (url, kind) in [
        (format!("ws://{closed_addr}"), ConnectErrorKind::Unreachable),
        (format!("ws://{hangs_up}"), ConnectErrorKind::Unreachable),
        (
            "ws://no-such-host.invalid".into(),
            ConnectErrorKind::Unreachable,
        ),
        (elsewhere, ConnectErrorKind::NotHarbor),
        ("http://h".into(), ConnectErrorKind::InvalidOptions),
    ] {
        let error = Client::connect(Options::new(&url, "a")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
    }
}

#[tokio::test]
async fn the_first_connection_can_be_waited_for() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    proxy.set(Mode::Cut);
    let options = options(proxy.url(), "alice").first_connection_within(SOON);
    let connecting = tokio::spawn(Client::connect(options));
    eventually("it tried three times", || proxy.connections() >= 3).await;
    proxy.set(Mode::Pass);
    soon("it connects", connecting).await.unwrap().unwrap();
}

/// T16: a proxy that lets the registration through and kills the socket after 200 ms.
#[tokio::test]
async fn a_flapping_proxy_does_not_reset_the_delays() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    proxy.set(Mode::KillAfter(SHORT));
    let first = Duration::from_millis(10);
    let options = options(proxy.url(), "alice").backoff(first, Duration::from_secs(60));
    let alice = connected(options).await;
    let mut events = alice.events();
    let mut sessions = 1;
    // Were they reset by registering, none would ever be longer than the first.
    let longer = async {
        loop {
            match events.next().await.unwrap() {
                Event::Reconnected(_) => sessions += 1,
                Event::Retrying { after } if after > 4 * first => return,
                _ => {}
            }
        }
    };
    soon("the delays grow", longer).await;
    assert!(sessions > 1, "it did register again in between");
}

#[tokio::test]
async fn a_session_that_lasted_resets_the_delays() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    proxy.set(Mode::KillAfter(Duration::from_millis(300)));
    let first = Duration::from_millis(10);
    let options = options(proxy.url(), "alice").backoff(first, Duration::from_secs(60));
    let alice = connected(options.stable_after(Duration::from_millis(20))).await;
    let mut events = alice.events();
    let mut delays = Vec::new();
    while delays.len() < 8 {
        if let Some(Event::Retrying { after }) = soon("an event", events.next()).await {
            delays.push(after);
        }
    }
    // One failed attempt in between may double it once.
    assert!(delays.iter().all(|delay| *delay <= 2 * first), "{delays:?}");
}

/// T32: two programs with one id do not drive each other out for ever.
#[tokio::test]
async fn a_replaced_client_does_not_come_back() {
    let harbor = Harbor::start().await;
    let proxy = Proxy::start(harbor.addr()).await;
    let first = connected(options(proxy.url(), "alice")).await;
    let mut events = first.events();
    let second = client(&harbor, "alice").await;
    until(&first, "the first is closed", |state| {
        *state == State::Closed(CloseReason::Replaced)
    })
    .await;
    let error = first.send(numbered(1).to("alice")).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Closed);
    assert!(error.to_string().contains("4001"), "{error}");
    assert!(soon("the inbox ends", first.next()).await.is_none());
    let leaving = soon("it fails at once", first.leave("g")).await;
    assert!(leaving.is_err());
    let event = soon("the end is told", events.next()).await;
    assert!(
        matches!(event, Some(Event::Closed(CloseReason::Replaced))),
        "{event:?}"
    );
    assert!(soon("events end", events.next()).await.is_none());
    assert_eq!(proxy.connections(), 1);
    assert_eq!(
        second
            .send(numbered(2).to("alice"))
            .await
            .unwrap()
            .recipients,
        1
    );
}

#[tokio::test]
async fn an_identity_that_is_not_accepted_is_final() {
    let rejecting = fake::listen(|socket| async move {
        Fake::accept(socket).await.close(4003).await;
    });
    let url = format!("ws://{}", rejecting.await);
    let error = Client::connect(options(url, "a")).await.unwrap_err();
    assert_eq!(error.kind(), ConnectErrorKind::Unauthorised);
    let lapsing = fake::listen(|socket| async move {
        let mut fake = Fake::register(socket).await;
        fake.next().await;
        fake.close(4003).await;
    });
    let alice = connected(options(format!("ws://{}", lapsing.await), "a")).await;
    let error = alice.send(numbered(1).to("b")).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Closed, "{error}");
    assert_eq!(alice.state(), State::Closed(CloseReason::Unauthorised));
}

#[tokio::test]
async fn closing_writes_what_was_posted_and_ends_every_handle() {
    let harbor = Harbor::start().await;
    let (alice, bob) = (client(&harbor, "alice").await, client(&harbor, "bob").await);
    let other_handle = alice.clone();
    for number in 0..200 {
        alice.post(numbered(number).to("bob")).await.unwrap();
    }
    bob.send(numbered(7).to("alice")).await.unwrap();
    soon("it closes", alice.close()).await;
    soon("closing again is fine", other_handle.close()).await;
    for number in 0..200 {
        assert_eq!(next_number(&bob).await, number);
    }
    let error = other_handle.post(numbered(1).to("bob")).await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Closed);
    assert_eq!(
        next_number(&alice).await,
        7,
        "what was delivered can be taken"
    );
    assert!(alice.next().await.is_none());
    assert_eq!(alice.state(), State::Closed(CloseReason::Asked));
}

#[tokio::test]
async fn dropping_the_last_handle_closes_even_during_an_outage() {
    let harbor = Harbor::start().await;
    let bob = client(&harbor, "bob").await;
    let alice = client(&harbor, "alice").await;
    alice.post(numbered(1).to("bob")).await.unwrap();
    drop(alice);
    assert_eq!(next_number(&bob).await, 1);
    let proxy = Proxy::start(harbor.addr()).await;
    let carol = connected(options(proxy.url(), "carol")).await;
    let mut events = carol.events();
    proxy.set(Mode::Cut);
    until_disconnected(&mut events).await;
    drop(carol);
    let ended = async { while events.next().await.is_some() {} };
    soon("the task ends", ended).await;
    drop(bob);
    harbor.is_empty().await;
}

#[tokio::test]
async fn a_harbor_that_starts_anew_finds_its_agents_again() {
    let (first, second) = (Harbor::start().await, Harbor::start().await);
    let proxy = Proxy::start(first.addr()).await;
    let mut clients = Vec::new();
    for number in 0..50 {
        let id = format!("agent-{number}");
        clients.push(connected(options(proxy.url(), &id).join("g", ["r"])).await);
    }
    proxy.aim(second.addr());
    proxy.set(Mode::Cut);
    for client in &clients {
        until(client, "it is lost", |state| !is_connected(state)).await;
    }
    proxy.set(Mode::Pass);
    let mut bob = Agent::register(&second, "bob").await;
    let all_back = async { while bob.deliver(serde_json::json!({"group_id": "g"})).await < 50 {} };
    soon("all come back", all_back).await;
}
