//! A connection to Harbor that keeps itself alive.
//!
//! Both ends of a frame's way, from an application's side: [`Client`] is a cheap handle to one task
//! that owns the socket. Clone it, send from any task, take what is delivered.
//!
//! ```no_run
//! use std::time::Duration;
//! use synapse::{Envelope, client::{Client, Options}};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::new("ws://127.0.0.1:7420/ws", "planner").join("crew", ["lead"]);
//! let client = Client::connect(options).await?;
//!
//! let task = Envelope::new("task").to("worker").payload_of(&"sweep the deck")?;
//! let accepted = client.send(task).await?;
//! println!("routed to {} agents", accepted.recipients);
//!
//! let question = Envelope::new("question").to("worker").payload_of(&"done?")?;
//! let answer = client.request(question, Duration::from_secs(30)).await?;
//! println!("{}", answer.payload);
//!
//! while let Some(message) = client.next().await {
//!     client.reply(&message, Envelope::new("noted")).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it does by itself
//!
//! * **Reconnects**, with exponential back-off and full jitter, after any loss but two: the agent
//!   connected elsewhere (4001), or its identity was not accepted (4003). The delays start anew
//!   only after a session that lasted. A draining Harbor is given the time it asks for.
//! * **Restores** the groups it is in and what it watches. A leave made during an outage stays one.
//! * **Never says `Ok` for a message that may be lost**: a send whose acceptance did not come before
//!   the connection went fails with [`SendErrorKind::Disconnected`]; sends made without a
//!   connection wait for one, in order, until their deadline.
//! * **Renews** its bearer token from the source it is given ([`Options::token`]), before that ends.
//! * **Seals and opens** payloads with the keys it is given ([`Options::sealing_key`]).
//! * **Pings**, and gives up a peer that is silent for two heartbeats.
//!
//! # When the inbox is full
//!
//! Delivered messages wait in the inbox, bounded in bytes ([`Options::inbox_bytes_max`]). When it is
//! full the socket is not read: Harbor feels it and applies its own policy, and nothing is dropped
//! here. Acceptances and answers come over the same socket, so they wait too. A loop that takes a
//! message and then awaits a `send` can therefore wait in vain when it is that far behind; the error
//! then says [`SendErrorKind::InboxFull`]. Take messages in one task and send in another, or use
//! [`Client::post`].

mod call;
mod command;
mod dial;
mod error;
mod groups;
mod inbox;
mod link;
mod membership;
mod message_ids;
mod messages;
mod options;
mod pending;
mod presence;
mod reconnect;
mod sealing;
mod shared;
mod state;
mod token;
mod trust;
mod wire;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

pub use self::{
    error::{
        ConnectError, ConnectErrorKind, ControlError, ControlErrorKind, Error, RequestError,
        RequestErrorKind, SendError, SendErrorKind,
    },
    messages::{Posted, answering},
    options::{Options, Takeover},
    presence::{PresenceEvent, Watch},
    state::{CloseReason, DisconnectReason, Event, Events, Session, State},
    token::TokenSource,
};
pub use crate::control::Confirm;

use self::{command::Outgoing, link::Link, shared::Shared};

/// A handle to a connection. Clones share the connection, the inbox and the groups; when the last
/// one is dropped, what was posted is written and the connection is closed.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
}

/// What only handles hold, so that the link notices when there are none left.
#[derive(Debug)]
struct Handle {
    queue: mpsc::Sender<Outgoing>,
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

impl Client {
    /// Connects and registers the agent. Must be called within a Tokio runtime, which also runs the
    /// connection.
    ///
    /// # Errors
    ///
    /// * [`ConnectErrorKind::InvalidOptions`]: nothing was tried.
    /// * [`ConnectErrorKind::Unreachable`], [`ConnectErrorKind::Deadline`]: Harbor is not there. Tried
    ///   once, or for as long as [`Options::first_connection_within`] says.
    /// * [`ConnectErrorKind::NotHarbor`]: something else is there.
    /// * [`ConnectErrorKind::Untrusted`]: a certificate was not accepted. Tried once.
    /// * [`ConnectErrorKind::NoToken`]: its source gave none. Tried like an unreachable Harbor.
    /// * [`ConnectErrorKind::Refused`], [`ConnectErrorKind::Unauthorised`]: Harbor said no.
    pub async fn connect(options: Options) -> Result<Client, ConnectError> {
        let options = options.checked()?;
        let (queue, commands) = mpsc::channel(options.queue_messages_max);
        let connecting = DisconnectReason::NotReconnected("not connected yet".to_owned());
        let shared = Arc::new(Shared::new(options, State::Disconnected(connecting)));
        let mut link = Link::new(shared.clone(), commands);
        let established = link.connect().await?;
        let connected = State::Connected(established.session.clone());
        shared.state.send_replace(connected);
        tokio::spawn(link.run(established));
        let handle = Arc::new(Handle {
            queue,
            shared: shared.clone(),
        });
        Ok(Client { shared, handle })
    }

    /// The agent this client is.
    pub fn agent_id(&self) -> &str {
        &self.shared.options.agent.agent_id
    }

    /// How the connection stands now.
    pub fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// The state as it changes. Only the latest is kept; [`Client::events`] has them all.
    pub fn watch_state(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// What happens to the connection from now on, and to messages nobody waits for.
    pub fn events(&self) -> Events {
        Events(self.shared.events())
    }

    /// Closes for good: writes what was sent or posted before, says goodbye to Harbor, and waits for
    /// its reply, 5 s at most. Other handles then fail with `Closed`; delivered messages can still
    /// be taken. What is still on the way when the inbox is full is lost with the connection.
    pub async fn close(&self) {
        self.shared.stop.notify_one();
        let mut state = self.shared.state.subscribe();
        // The sender is in `shared`, so this cannot fail.
        let _ = state
            .wait_for(|state| matches!(state, State::Closed(_)))
            .await;
    }
}
