//! Challenge out, `synapse.register` in: makes the [`Session`] of a connection.
//!
//! Stage 0 of a frame's way. Until it succeeds a peer learns nothing but the challenge; whatever
//! else it sends is refused and the connection lives on, until the connect deadline.

use std::{future::poll_fn, sync::Arc};

use synapse::{
    Code, Envelope, Refusal,
    control::{self, Ack, Auth, Challenge, Register, Registered, kind},
    envelope::Refused,
    limits::HARBOR_AGENT_ID,
    refusal::Close,
};
use tokio::time::timeout_at;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    clock::Instant,
    connection::{
        binary_refused,
        socket::{Incoming, Socket},
    },
    intake::verify,
    node::Node,
    session::Session,
    tls::identity::Identity,
};

/// Lets a peer register before `deadline`.
///
/// # Errors
///
/// Why to close instead.
pub(crate) async fn register(
    node: &Arc<Node>,
    socket: &mut Socket,
    identity: Identity,
    deadline: Instant,
) -> Result<Session, Close> {
    tokio::select! {
        biased;
        session = timeout_at(deadline, converse(node, socket, &identity)) => {
            session.unwrap_or(Err(Close::TooSlow))
        }
        () = node.stopping.cancelled() => {
            let refusal = node.draining_refusal();
            // Written by the close, which waits for nobody long.
            socket.feed_text(node.refused(&Refused { id: None, refusal }))?;
            Err(Close::Draining)
        }
    }
}

async fn converse(
    node: &Arc<Node>,
    socket: &mut Socket,
    identity: &Identity,
) -> Result<Session, Close> {
    let nonce = format!("{:032x}", fastrand::u128(..));
    write(socket, challenge(node, &nonce)).await?;
    loop {
        let outcome = match poll_fn(|cx| socket.poll_read(cx)).await? {
            Incoming::Text(frame) => try_register(node, &nonce, identity, &frame),
            Incoming::Binary(_) => Err(binary_refused()),
            Incoming::Alive => {
                poll_fn(|cx| socket.poll_flush(cx)).await?;
                continue;
            }
        };
        match outcome {
            Ok((session, registered)) => {
                // Not by way of the outbox, which the node may close from the moment it is there.
                // The connection flushes it, before anything of the outbox.
                socket.feed_text(registered)?;
                return Ok(session);
            }
            Err(refused) => write(socket, node.refused(&refused)).await?,
        }
    }
}

fn challenge(node: &Node, nonce: &str) -> Utf8Bytes {
    let payload = Challenge {
        nonce: nonce.to_owned(),
        auth: Auth::Open,
        node: node.config.node.clone(),
        heartbeat_seconds: node.config.heartbeat.as_secs(),
        max_frame_bytes: node.config.max_frame_bytes,
    };
    node.answers.frame(kind::CHALLENGE, "", &payload)
}

/// Reads a frame that should register; on success also gives the answer to it.
fn try_register(
    node: &Arc<Node>,
    nonce: &str,
    identity: &Identity,
    frame: &str,
) -> Result<(Session, Utf8Bytes), Refused> {
    let envelope = Envelope::decode(frame)?;
    let id = envelope.id.to_string();
    let refused = |refusal| Refused {
        id: Some(id.clone()),
        refusal,
    };
    let register = read_register(&envelope, nonce).map_err(refused)?;
    let is_proven = identity.check(&envelope.sender.agent_id);
    is_proven.map_err(refused)?;
    let endpoint = envelope.sender.into_owned();
    let session = Session::open(node, endpoint, &register).map_err(refused)?;
    let registered = Registered {
        generation: session.lease.generation,
        resumed: session.resumed,
        pending: 0,
    };
    let answer = node.answers.frame(kind::REGISTERED, &id, &registered);
    Ok((session, answer))
}

fn read_register(envelope: &Envelope<'_>, nonce: &str) -> Result<Register, Refusal> {
    if envelope.kind != kind::REGISTER {
        let reason = format!(
            "the first frame is {}, not {}",
            kind::REGISTER,
            envelope.kind
        );
        return Err(Refusal::of_field(Code::NotRegistered, "type", reason));
    }
    verify::check_unmarked(envelope)?;
    if envelope.sender.agent_id == HARBOR_AGENT_ID {
        let reason = "harbor is Harbor's own address";
        return Err(Refusal::of_field(
            Code::InvalidField,
            "sender.agent_id",
            reason,
        ));
    }
    let register: Register = control::read(envelope)?;
    if !register.nonce.is_empty() && register.nonce != nonce {
        let reason = "the nonce is not that of this connection's challenge";
        return Err(Refusal::of_field(
            Code::NonceMismatch,
            "payload.nonce",
            reason,
        ));
    }
    if register.ack == Ack::Manual {
        let reason = "manual acknowledgement is not offered by this version of Harbor";
        return Err(Refusal::of_field(Code::Unsupported, "payload.ack", reason));
    }
    if register.receipts {
        let reason = "receipts are not offered by this version of Harbor";
        return Err(Refusal::of_field(
            Code::Unsupported,
            "payload.receipts",
            reason,
        ));
    }
    Ok(register)
}

async fn write(socket: &mut Socket, frame: Utf8Bytes) -> Result<(), Close> {
    socket.feed_text(frame)?;
    poll_fn(|cx| socket.poll_flush(cx)).await
}
