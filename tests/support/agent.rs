//! An agent as a raw WebSocket client: what it sends is what the test wrote.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        Message, client::IntoClientRequest, handshake::client::Request, protocol::CloseFrame,
    },
};

use super::{Harbor, soon};

/// One connection.
#[derive(Debug)]
pub struct Agent {
    /// Its address, once registered.
    pub id: String,
    /// The socket.
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The payload of the challenge.
    pub challenge: Value,
}

static IDS: AtomicU64 = AtomicU64::new(0);

/// An id no other message of this run has.
pub fn new_id() -> String {
    format!("m-{}", IDS.fetch_add(1, Ordering::Relaxed))
}

impl Agent {
    /// Connects and reads the challenge.
    pub async fn connect(harbor: &Harbor) -> Agent {
        Agent::connect_to(&harbor.url()).await
    }

    /// The same, to any Harbor.
    pub async fn connect_to(url: &str) -> Agent {
        Agent::upgraded(url.into_client_request().unwrap()).await
    }

    /// The same with a token in `Authorization`.
    pub async fn bearing(harbor: &Harbor, token: &str) -> Agent {
        let mut request = harbor.url().into_client_request().unwrap();
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("Authorization", value);
        Agent::upgraded(request).await
    }

    async fn upgraded(request: Request) -> Agent {
        let (socket, _) = soon("the upgrade", connect_async(request)).await.unwrap();
        let mut agent = Agent {
            id: String::new(),
            socket,
            challenge: Value::Null,
        };
        let challenge = agent.next().await;
        assert_eq!(challenge["type"], "synapse.challenge");
        agent.challenge = challenge["payload"].clone();
        agent
    }

    /// Connects to any Harbor and registers as `id`.
    pub async fn register_at(url: &str, id: &str) -> Agent {
        let mut agent = Agent::connect_to(url).await;
        let answer = agent.try_register(json!({"agent_id": id}), json!({})).await;
        assert_eq!(answer["type"], "synapse.registered", "{answer}");
        agent
    }

    /// Connects and registers as `id`.
    pub async fn register(harbor: &Harbor, id: &str) -> Agent {
        Agent::register_as(harbor, json!({"agent_id": id}), json!({})).await
    }

    /// Connects and registers with groups, each with its roles.
    pub async fn in_groups(harbor: &Harbor, id: &str, groups: &[(&str, &[&str])]) -> Agent {
        let groups: Vec<_> = groups
            .iter()
            .map(|(group_id, roles)| json!({"group_id": group_id, "roles": roles}))
            .collect();
        Agent::register_as(harbor, json!({"agent_id": id}), json!({"groups": groups})).await
    }

    /// Connects and registers with this endpoint and payload; the nonce is added.
    pub async fn register_as(harbor: &Harbor, endpoint: Value, payload: Value) -> Agent {
        let mut agent = Agent::connect(harbor).await;
        let answer = agent.try_register(endpoint, payload).await;
        assert_eq!(answer["type"], "synapse.registered", "{answer}");
        agent
    }

    /// Registers on this connection and gives whatever is answered.
    pub async fn try_register(&mut self, endpoint: Value, mut payload: Value) -> Value {
        self.id = endpoint["agent_id"].as_str().unwrap_or_default().to_owned();
        payload["nonce"] = self.challenge["nonce"].clone();
        let id = new_id();
        self.send(&json!({
            "id": id, "version": "1.0.0", "type": "synapse.register", "sender": endpoint,
            "payload": payload, "timestamp": "2026-03-01T12:00:00Z",
        }))
        .await;
        let answer = self.next().await;
        assert_eq!(answer["correlation_id"], id.as_str());
        answer
    }

    /// An envelope of this agent's with `members` put in, over what is there already.
    pub fn envelope(&self, members: Value) -> Value {
        let mut envelope = json!({
            "id": new_id(), "version": "1.0.0", "type": "chat", "sender": {"agent_id": self.id},
            "payload": {}, "timestamp": "2026-03-01T12:00:00Z",
        });
        for (key, value) in members.as_object().unwrap() {
            envelope[key] = value.clone();
        }
        envelope
    }

    /// Writes one JSON frame.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    /// Writes one text frame as it is.
    pub async fn send_text(&mut self, frame: impl Into<String>) {
        let message = Message::Text(frame.into().into());
        soon("a frame is written", self.socket.send(message))
            .await
            .unwrap();
    }

    /// Sends an envelope with these members and gives its answer, which must come next.
    pub async fn ask(&mut self, members: Value) -> Value {
        let envelope = self.envelope(members);
        self.send(&envelope).await;
        let answer = self.next().await;
        assert_eq!(answer["correlation_id"], envelope["id"], "{answer}");
        answer
    }

    /// Sends an envelope that must be accepted; the number of recipients.
    pub async fn deliver(&mut self, members: Value) -> u64 {
        let answer = self.ask(members).await;
        assert_eq!(answer["type"], "synapse.accepted", "{answer}");
        answer["payload"]["recipients"].as_u64().unwrap()
    }

    /// Sends an envelope that must be refused; the code and the field.
    pub async fn refused(&mut self, members: Value) -> (String, String) {
        let answer = self.ask(members).await;
        refusal_of(&answer)
    }

    /// Asks Harbor for something; the payload of the answer, which has the same type.
    pub async fn control(&mut self, kind: &str, payload: Value) -> Value {
        let answer = self.ask(json!({"type": kind, "payload": payload})).await;
        assert_eq!(answer["type"], kind, "{answer}");
        answer["payload"].clone()
    }

    /// The next text frame, whole.
    pub async fn next_text(&mut self) -> String {
        loop {
            match soon("a frame comes", self.socket.next()).await {
                Some(Ok(Message::Text(text))) => return text.to_string(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("a text frame was expected, not {other:?}"),
            }
        }
    }

    /// The next text frame as JSON.
    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).unwrap()
    }

    /// The payloads of all deliveries up to now, `synapse.*` frames left out. A message to itself
    /// marks the end, so nothing is waited for in vain.
    pub async fn received(&mut self) -> Vec<Value> {
        let end = self.envelope(json!({"type": "end", "receiver": {"agent_id": self.id}}));
        self.send(&end).await;
        let mut payloads = Vec::new();
        loop {
            let frame = self.next().await;
            if frame["id"] == end["id"] {
                return payloads;
            }
            if !frame["type"].as_str().unwrap().starts_with("synapse.") {
                payloads.push(frame["payload"].clone());
            }
        }
    }

    /// Reads on until Harbor closes; the code. Frames before it are passed over.
    pub async fn closed(&mut self) -> Option<u16> {
        loop {
            match soon("the connection closes", self.socket.next()).await {
                Some(Ok(Message::Close(Some(CloseFrame { code, .. })))) => {
                    return Some(code.into());
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Says goodbye and waits for the answer.
    pub async fn close(mut self) {
        soon("the close is written", self.socket.close(None))
            .await
            .unwrap();
        while soon("the close is answered", self.socket.next())
            .await
            .is_some_and(|m| m.is_ok())
        {}
    }
}

/// The code and the field of a `synapse.refused`.
pub fn refusal_of(answer: &Value) -> (String, String) {
    assert_eq!(answer["type"], "synapse.refused", "{answer}");
    let text = |member: &str| {
        answer["payload"][member]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(!text("reason").is_empty());
    (text("code"), text("field"))
}
