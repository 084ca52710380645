//! Goal: the client library keeps its promises against a real Harbor, whatever the network does.
//! Method: clients, raw agents as the other side, and a proxy that cuts, freezes and flaps.

mod fake;
mod flow;
mod groups;
mod messages;
mod outages;
mod proxy;
mod sessions;

use std::time::Duration;

use serde_json::json;
use synapse::{
    Client, Envelope,
    client::{DisconnectReason, Event, Events, Options, State},
};

use crate::support::{Harbor, soon};

/// Options that reconnect quickly.
fn options(url: impl Into<String>, agent_id: &str) -> Options {
    let [first, cap] = [5, 50].map(Duration::from_millis);
    Options::new(url, agent_id).backoff(first, cap)
}

async fn client(harbor: &Harbor, agent_id: &str) -> Client {
    connected(options(harbor.url(), agent_id)).await
}

async fn connected(options: Options) -> Client {
    soon("the client connects", Client::connect(options))
        .await
        .unwrap()
}

/// A message with this number as its payload.
fn numbered(number: u64) -> Envelope<'static> {
    Envelope::new("number").payload_of(&number).unwrap()
}

async fn next(client: &Client) -> Envelope<'static> {
    soon("a message comes", client.next()).await.unwrap()
}

async fn next_number(client: &Client) -> u64 {
    next(client).await.payload.get().parse().unwrap()
}

/// Waits for a state.
async fn until(client: &Client, what: &str, is_so: impl FnMut(&State) -> bool) {
    let mut state = client.watch_state();
    soon(what, state.wait_for(is_so)).await.unwrap();
}

fn is_connected(state: &State) -> bool {
    matches!(state, State::Connected(_))
}

/// Waits until the connection is known to be lost; why.
async fn until_disconnected(events: &mut Events) -> DisconnectReason {
    let reason = async {
        loop {
            if let Some(Event::Disconnected(reason)) = events.next().await {
                return reason;
            }
        }
    };
    soon("the connection is lost", reason).await
}

/// Waits until the client is connected again.
async fn until_reconnected(events: &mut Events) {
    let again = async {
        loop {
            match events.next().await {
                Some(Event::Reconnected(_)) => return,
                Some(_) => {}
                None => panic!("closed instead of connected again"),
            }
        }
    };
    soon("the client connects again", again).await;
}

/// A raw agent's way to say whom it sends to.
fn to(agent_id: &str) -> serde_json::Value {
    json!({"receiver": {"agent_id": agent_id}})
}
