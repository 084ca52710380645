//! The floor: a relay with nothing in it but WebSocket frames.
//!
//! One task per connection, a bounded queue before each, the target read from the first bytes of a
//! frame, and a table from numbers to queues. What waits in a queue is written together and
//! flushed once; frames that arrived together are forwarded before anything is flushed.

use std::net::Ipv4Addr;
use std::sync::{Arc, RwLock};

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::Result;
use crate::wire::ID_LEN;

/// Frames that may wait for one connection.
const QUEUE_FRAMES_MAX: usize = 1024;
/// Frames taken from the queue, or from the socket, before the other side is looked at.
const BATCH_FRAMES_MAX: usize = 64;
/// Bytes of the target at the start of a frame: a letter and seven digits.
const TARGET_LEN: usize = 8;

type Queue = mpsc::Sender<Message>;
type Socket = WebSocketStream<TcpStream>;

/// Numbers to queues. Written only when somebody registers.
#[derive(Default)]
struct Table {
    agents: Vec<Option<Queue>>,
    groups: Vec<Vec<Queue>>,
}

type Shared = Arc<RwLock<Table>>;

/// Serves until standard input ends, so that it does not outlive the process that started it.
pub(crate) async fn run(config: WebSocketConfig, acks: bool) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on ws://{}/ws", listener.local_addr()?);
    let table = Shared::default();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(accept(stream, config, acks, Arc::clone(&table)));
        }
    });
    let input = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    tokio::task::spawn_blocking(input).await??;
    Ok(())
}

/// Upgrades, then leaves the connection to a task of its own: the upgrade's state is not kept.
async fn accept(stream: TcpStream, config: WebSocketConfig, acks: bool, table: Shared) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let upgraded = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await;
    if let Ok(socket) = upgraded {
        tokio::spawn(async move {
            // A connection that fails is over; the generator sees it at its own end.
            let _ = serve(socket, acks, table).await;
        });
    }
}

async fn serve(mut socket: Socket, acks: bool, table: Shared) -> Result<()> {
    let (queue, mut waiting) = mpsc::channel(QUEUE_FRAMES_MAX);
    register(&mut socket, queue, &table).await?;
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = waiting.recv_many(&mut batch, BATCH_FRAMES_MAX) => {
                if count == 0 {
                    return Ok(());
                }
                for message in batch.drain(..) {
                    socket.feed(message).await?;
                }
                socket.flush().await?;
            }
            first = socket.next() => forward_batch(first, &mut socket, acks, &table).await?,
        }
    }
}

/// The first frame names the agent's number and, if it wants one, its group's.
async fn register(socket: &mut Socket, queue: Queue, table: &Shared) -> Result<()> {
    let frame = socket.next().await.ok_or("closed before it registered")??;
    let text = frame.to_text()?;
    let agent = text
        .get(1..TARGET_LEN)
        .ok_or("no number")?
        .parse::<usize>()?;
    let group = text
        .get(TARGET_LEN + 1..2 * TARGET_LEN)
        .map(str::parse::<usize>)
        .transpose()?;
    {
        let mut table = table.write().map_err(|_| "the table is poisoned")?;
        place(&mut table.agents, agent, Some(queue.clone()));
        if let Some(group) = group {
            if table.groups.len() <= group {
                table.groups.resize(group + 1, Vec::new());
            }
            table.groups[group].push(queue);
        }
    }
    Ok(socket.send(Message::text("registered")).await?)
}

fn place(agents: &mut Vec<Option<Queue>>, agent: usize, queue: Option<Queue>) {
    if agents.len() <= agent {
        agents.resize(agent + 1, None);
    }
    agents[agent] = queue;
}

/// Forwards the frames that are there already, then flushes the answers to them.
async fn forward_batch(
    first: Option<tokio_tungstenite::tungstenite::Result<Message>>,
    socket: &mut Socket,
    acks: bool,
    table: &Shared,
) -> Result<()> {
    let mut next = Some(first);
    let mut count = 0;
    while let Some(frame) = next {
        let message = frame.ok_or("closed")??;
        if let Message::Text(text) = &message {
            let answer = acks.then(|| acknowledgement(text));
            forward(message, table)?;
            if let Some(answer) = answer {
                socket.feed(Message::text(answer)).await?;
            }
        }
        count += 1;
        next = if count < BATCH_FRAMES_MAX {
            socket.next().now_or_never()
        } else {
            None
        };
    }
    if acks {
        socket.flush().await?;
    }
    Ok(())
}

fn forward(message: Message, table: &Shared) -> Result<()> {
    let text = message.to_text()?;
    let (kind, number) = text.get(..TARGET_LEN).ok_or("no target")?.split_at(1);
    let number = number.parse::<usize>()?;
    let table = table.read().map_err(|_| "the table is poisoned")?;
    if kind == "g" {
        for queue in table.groups.get(number).ok_or("no such group")? {
            queue.try_send(message.clone())?;
        }
        return Ok(());
    }
    let queue = table
        .agents
        .get(number)
        .and_then(Option::as_ref)
        .ok_or("no such agent")?;
    Ok(queue.try_send(message)?)
}

/// An answer about as long as Harbor's, with the id of what it answers.
fn acknowledgement(message: &str) -> String {
    let id = message
        .get(TARGET_LEN..TARGET_LEN + ID_LEN)
        .unwrap_or_default();
    format!(
        r#"{{"id":"0000000000000000","version":"1.0.0","type":"relay.accepted","sender":{{"agent_id":"relay"}},"correlation_id":"{id}","payload":{{"durability":"routed","recipients":1,"duplicate":false}},"timestamp":"2025-01-01T00:00:00.000000Z"}}"#
    )
}
