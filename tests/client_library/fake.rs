//! Brokers that misbehave, or do what a real one cannot be brought to do in a test.

use std::{future::Future, net::SocketAddr};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, accept_async,
    tungstenite::{Message, protocol::CloseFrame},
};

/// Listens on a free port and hands every connection to `serve`.
pub async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    addr
}

/// One connection of a broker of the test's own making.
pub struct Fake {
    socket: WebSocketStream<TcpStream>,
    /// The `synapse.register` it was sent.
    pub register: Value,
}

impl Fake {
    /// Upgrades, challenges, and reads the registration.
    pub async fn accept(socket: TcpStream) -> Fake {
        let socket = accept_async(socket).await.unwrap();
        let register = Value::Null;
        let mut fake = Fake { socket, register };
        let challenge = json!({
            "nonce": "n", "auth": "open", "node": "fake", "heartbeat_seconds": 25,
            "max_frame_bytes": 1_000_000,
        });
        fake.say("synapse.challenge", "", challenge).await;
        fake.register = fake.next().await;
        assert_eq!(fake.register["type"], "synapse.register");
        fake
    }

    /// The same, and registers.
    pub async fn register(socket: TcpStream) -> Fake {
        let mut fake = Fake::accept(socket).await;
        let id = fake.register["id"].as_str().unwrap().to_owned();
        let registered = json!({"generation": 1, "resumed": false, "pending": 0});
        fake.say("synapse.registered", &id, registered).await;
        fake
    }

    /// Writes a frame of the broker's own.
    pub async fn say(&mut self, kind: &str, correlation_id: &str, payload: Value) {
        let frame = json!({
            "id": "f", "version": "1.0.0", "type": kind, "sender": {"agent_id": "harbor"},
            "correlation_id": correlation_id, "payload": payload,
            "timestamp": "2026-03-01T12:00:00Z",
        });
        let frame = Message::Text(frame.to_string().into());
        self.socket.send(frame).await.unwrap();
    }

    /// The next text frame; never returns once the client is gone.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => std::future::pending().await,
            }
        }
    }

    /// Closes with this code.
    pub async fn close(&mut self, code: u16) {
        let close = CloseFrame {
            code: code.into(),
            reason: "".into(),
        };
        let _ = self.socket.close(Some(close)).await;
        while self.socket.next().await.is_some_and(|m| m.is_ok()) {}
    }
}
