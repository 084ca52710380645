//! Challenge out, `synapse.register` in: makes the [`Session`] of a connection.
//!
//! Stage 0 of a frame's way. Until it succeeds a peer learns nothing but the challenge; whatever
//! else it sends is refused and the connection lives on, until the connect deadline or too many
//! refusals.

pub(crate) mod presented;

use std::{future::poll_fn, sync::Arc};

use synapse::{
    Code, Envelope, Refusal,
    control::{self, Ack, Challenge, Register, Registered, kind},
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
    intake::{authorise, verify},
    limits::{REFUSED_FRAMES_MAX, REFUSED_REGISTRATIONS_MAX},
    metrics::Limit,
    node::Node,
    registry::Proof,
    session::{self, Session},
};
use presented::Presented;

/// Lets a peer register before `deadline`.
///
/// # Errors
///
/// Why to close instead.
pub(crate) async fn register(
    node: &Arc<Node>,
    socket: &mut Socket,
    presented: Presented,
    deadline: Instant,
) -> Result<Session, Close> {
    tokio::select! {
        biased;
        session = timeout_at(deadline, converse(node, socket, &presented)) => {
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
    presented: &Presented,
) -> Result<Session, Close> {
    let nonce = nonce().map_err(|_| Close::Lost)?;
    write(socket, challenge(node, &nonce)).await?;
    let mut attempts = Attempts::default();
    loop {
        let outcome = match poll_fn(|cx| socket.poll_read(cx)).await? {
            Incoming::Text(frame) => try_register(node, &nonce, presented, &frame, &mut attempts),
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
            Err(refused) => {
                write(socket, node.refused(&refused)).await?;
                attempts.refused += 1;
                attempts.check(node)?;
            }
        }
    }
}

/// 128 bits that nobody can foresee, in hexadecimal.
fn nonce() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// What an unregistered peer has tried.
#[derive(Debug, Default)]
struct Attempts {
    /// Frames that were refused.
    refused: u32,
    /// Those of them that were registrations.
    registrations: u32,
}

impl Attempts {
    /// Ends the patience with a peer whose every frame was refused.
    fn check(&self, node: &Node) -> Result<(), Close> {
        let (limit, close) = if self.registrations >= REFUSED_REGISTRATIONS_MAX {
            (Limit::RefusedRegistrations, Close::Unauthorised)
        } else if self.refused - self.registrations >= REFUSED_FRAMES_MAX {
            (Limit::RefusedFrames, Close::TooSlow)
        } else {
            return Ok(());
        };
        node.metrics.limited(limit);
        Err(close)
    }
}

fn challenge(node: &Node, nonce: &str) -> Utf8Bytes {
    let payload = Challenge {
        nonce: nonce.to_owned(),
        auth: node.config.auth,
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
    presented: &Presented,
    frame: &str,
    attempts: &mut Attempts,
) -> Result<(Session, Utf8Bytes), Refused> {
    let envelope = Envelope::decode(frame)?;
    let id = envelope.id.to_string();
    let refused = |refusal| Refused {
        id: Some(id.clone()),
        refusal,
    };
    attempts.registrations += u32::from(envelope.kind == kind::REGISTER);
    let register = read_register(&envelope, nonce).map_err(refused)?;
    let is_its_own = presented.check(node, &envelope.sender.agent_id);
    is_its_own.map_err(refused)?;
    let bearer = presented.bearer.clone();
    let key = verify::signer_of_registration(&envelope, frame, bearer.as_ref(), node);
    let key = key.map_err(refused)?;
    if key.is_some() && register.nonce.is_empty() {
        let reason = "a signed registration holds the nonce of the challenge";
        let refusal = Refusal::of_field(Code::MissingField, "payload.nonce", reason);
        return Err(refused(refusal));
    }
    let endpoint = envelope.sender.into_owned();
    let admitted = authorise::registration(node, &endpoint, &register).map_err(refused)?;
    let expires_at = bearer.as_ref().map(|bearer| bearer.expires_at.into());
    let proof = Proof { key, bearer };
    let session = Session::open(node, endpoint, proof, &register, admitted).map_err(refused)?;
    let registered = Registered {
        generation: session.lease.generation,
        resumed: session.resumed,
        pending: 0,
        expires_at,
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
    for (at, join) in register.groups.iter().enumerate() {
        session::check_join(join, &format!("payload.groups[{at}]"))?;
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
