//! An agent of the stress test: light enough that a thousand run beside the Harbor.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message as Frame, protocol::CloseFrame},
};

use super::model::{Memberships, Message, Part, ROLES, To};
use crate::support::{Harbor, agent::new_id, soon};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// One agent, on its newest connection.
pub struct Peer {
    at: usize,
    groups: Memberships,
    connection: Connection,
    /// The connections it had this round before, oldest first.
    replaced: Vec<Connection>,
    /// What came on a connection that was dropped this round.
    dropped: Vec<usize>,
}

struct Connection {
    writer: SplitSink<Socket, Frame>,
    answers: mpsc::UnboundedReceiver<Value>,
    /// Numbers of the messages that came, in order.
    numbers: Arc<Mutex<Vec<usize>>>,
    /// Ends with the connection; the code it was closed with.
    reader: JoinHandle<Option<u16>>,
}

fn name(agent: usize) -> String {
    format!("agent {agent}")
}

fn group(group: usize) -> String {
    format!("group.{group}")
}

fn role_names(roles: &BTreeSet<usize>) -> Vec<&'static str> {
    roles.iter().map(|role| ROLES[*role]).collect()
}

impl Connection {
    async fn open(harbor: &Harbor, at: usize, groups: &Memberships) -> Connection {
        let (socket, _) = soon("the upgrade", connect_async(harbor.url()))
            .await
            .unwrap();
        let (writer, stream) = socket.split();
        let (told, answers) = mpsc::unbounded_channel();
        let numbers = Arc::new(Mutex::new(Vec::new()));
        let reader = tokio::spawn(read(stream, told, Arc::clone(&numbers)));
        let mut connection = Connection {
            writer,
            answers,
            numbers,
            reader,
        };
        assert_eq!(connection.answer().await["type"], "synapse.challenge");
        let groups: Vec<_> = groups
            .iter()
            .map(|(at, roles)| json!({"group_id": group(*at), "roles": role_names(roles)}))
            .collect();
        connection
            .write(
                at,
                "register",
                "synapse.register",
                json!({"payload": {"groups": groups}}),
            )
            .await;
        assert_eq!(connection.answer().await["type"], "synapse.registered");
        connection
    }

    async fn answer(&mut self) -> Value {
        soon("an answer", self.answers.recv()).await.unwrap()
    }

    async fn write(&mut self, at: usize, id: &str, kind: &str, members: Value) {
        let mut envelope = json!({
            "id": id, "version": "1.0.0", "type": kind, "sender": {"agent_id": name(at)},
            "payload": null, "timestamp": "2026-03-01T12:00:00Z",
        });
        for (key, value) in members.as_object().unwrap() {
            envelope[key] = value.clone();
        }
        let frame = Frame::Text(envelope.to_string().into());
        soon("a frame is written", self.writer.send(frame))
            .await
            .unwrap();
    }
}

/// Reads until the connection ends.
async fn read(
    mut stream: SplitStream<Socket>,
    told: mpsc::UnboundedSender<Value>,
    numbers: Arc<Mutex<Vec<usize>>>,
) -> Option<u16> {
    loop {
        match stream.next().await {
            Some(Ok(Frame::Text(text))) => match number_in(&text) {
                Some(number) => numbers.lock().unwrap().push(number),
                None => drop(told.send(serde_json::from_str(&text).unwrap())),
            },
            Some(Ok(Frame::Close(Some(CloseFrame { code, .. })))) => return Some(code.into()),
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
            _ => return None,
        }
    }
}

/// The number of a message of the test; other frames are Harbor's answers and the marks.
fn number_in(text: &str) -> Option<usize> {
    let (_, rest) = text.split_once("\"payload\":{\"number\":")?;
    rest.split_once('}')?.0.parse().ok()
}

impl Peer {
    pub async fn start(harbor: &Harbor, at: usize, groups: Memberships) -> Peer {
        let connection = Connection::open(harbor, at, &groups).await;
        Peer {
            at,
            groups,
            connection,
            replaced: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Does its part; what was told of each message, in order.
    pub async fn play(&mut self, harbor: &Harbor, part: &Part) -> Vec<u64> {
        match part {
            Part::Send(messages) => return self.send_all(messages).await,
            Part::Change(changes) => {
                for (group, change) in changes {
                    self.change(*group, change.as_ref()).await;
                }
            }
            Part::Drop => {
                // With its reader and its writer gone the socket closes without a goodbye.
                self.connection.reader.abort();
                let fresh = Connection::open(harbor, self.at, &self.groups).await;
                let Connection { numbers, .. } = std::mem::replace(&mut self.connection, fresh);
                self.dropped.append(&mut numbers.lock().unwrap());
            }
            Part::TakeOver(times) => {
                for _ in 0..*times {
                    let fresh = Connection::open(harbor, self.at, &Memberships::new()).await;
                    let older = std::mem::replace(&mut self.connection, fresh);
                    self.replaced.push(older);
                }
            }
        }
        Vec::new()
    }

    async fn send_all(&mut self, messages: &[Message]) -> Vec<u64> {
        for message in messages {
            let mut members = match &message.to {
                To::Agent(agent) => json!({"receiver": {"agent_id": name(*agent)}}),
                To::Group(at) => json!({"group_id": group(*at)}),
                To::GroupAndAgent(at, agent) => {
                    json!({"group_id": group(*at), "receiver": {"agent_id": name(*agent)}})
                }
                To::Roles(at, roles) => {
                    let roles: Vec<_> = roles.iter().map(|role| ROLES[*role]).collect();
                    json!({"group_id": group(*at), "target_type": "role", "target_ids": roles})
                }
                To::Members(at, agents) => {
                    let ids: Vec<_> = agents.iter().map(|agent| name(*agent)).collect();
                    json!({"group_id": group(*at), "target_type": "specific", "target_ids": ids})
                }
            };
            members["payload"] = json!({"number": message.number});
            self.connection
                .write(self.at, &message.number.to_string(), "chat", members)
                .await;
        }
        let mut accepted = Vec::new();
        for message in messages {
            let answer = self.connection.answer().await;
            assert_eq!(answer["type"], "synapse.accepted", "{answer}");
            assert_eq!(answer["correlation_id"], message.number.to_string());
            accepted.push(answer["payload"]["recipients"].as_u64().unwrap());
        }
        accepted
    }

    async fn change(&mut self, at: usize, change: Option<&BTreeSet<usize>>) {
        let (kind, payload) = match change {
            Some(roles) => {
                self.groups.insert(at, roles.clone());
                (
                    "synapse.group.join",
                    json!({"group_id": group(at), "roles": role_names(roles)}),
                )
            }
            None => {
                self.groups.remove(&at);
                ("synapse.group.leave", json!({"group_id": group(at)}))
            }
        };
        self.connection
            .write(self.at, "change", kind, json!({"payload": payload}))
            .await;
        assert_eq!(self.connection.answer().await["type"], kind);
    }

    /// Waits until all that was queued for it has come; the numbers of the messages, in order.
    pub async fn finish_round(&mut self) -> Vec<usize> {
        let mut numbers = std::mem::take(&mut self.dropped);
        for older in self.replaced.drain(..) {
            let close = soon("the older connection ends", older.reader)
                .await
                .unwrap();
            assert_eq!(close, Some(4001), "agent {} was replaced", self.at);
            numbers.append(&mut older.numbers.lock().unwrap());
        }
        let to_itself = json!({"receiver": {"agent_id": name(self.at)}});
        self.connection
            .write(self.at, &new_id(), "mark", to_itself)
            .await;
        let answers = [
            self.connection.answer().await,
            self.connection.answer().await,
        ];
        assert!(
            answers.iter().any(|frame| frame["type"] == "mark"),
            "{answers:?}"
        );
        numbers.append(&mut self.connection.numbers.lock().unwrap());
        numbers
    }

    /// Says goodbye.
    pub async fn leave(mut self) {
        soon("the close is written", self.connection.writer.close())
            .await
            .unwrap();
        soon("the close is answered", self.connection.reader)
            .await
            .unwrap();
    }
}
