//! From nothing to a registered connection: TCP, WebSocket upgrade, challenge, registration.
//!
//! The start of every session. One attempt, all of it under one deadline; whatever stops it closes
//! the socket.

use std::{future::poll_fn, io, time::Duration};

use tokio::time::timeout;
use tokio_rustls::rustls::{self, AlertDescription};
use tokio_tungstenite::{
    connect_async_tls_with_config,
    tungstenite::{
        Error as WsError, Message, Utf8Bytes,
        client::IntoClientRequest,
        error::ProtocolError,
        handshake::client::Request,
        http::{HeaderValue, StatusCode, header::AUTHORIZATION},
        protocol::WebSocketConfig,
    },
};
use zeroize::Zeroizing;

use super::{
    error::{ConnectError, ConnectErrorKind, Error},
    link::End,
    options::{Options, Takeover},
    state::{DisconnectReason, Session},
    wire::{Io, Wire},
};
use crate::{
    Envelope, Refusal,
    control::{self, Ack, Challenge, Join, RefusedPayload, Register, Registered, kind},
    envelope::Endpoint,
    limits::HARBOR_AGENT_ID,
    refusal::{Close, Retry},
};

/// Read buffer of a connection, in bytes: a process may hold thousands of clients.
const READ_BUFFER_BYTES: usize = 32 << 10;

/// A connection on which the agent is registered.
#[derive(Debug)]
pub(super) struct Established {
    pub(super) wire: Wire,
    pub(super) session: Session,
    pub(super) heartbeat: Duration,
    /// Frames that came before the registration's answer.
    pub(super) early: Vec<Utf8Bytes>,
    /// When the token ends that was shown.
    pub(super) token_end: Option<End>,
}

/// Makes one attempt.
pub(super) async fn dial(
    options: &Options,
    groups: Vec<Join>,
    register_id: String,
) -> Result<Established, ConnectError> {
    let deadline = options.connect_deadline;
    match timeout(deadline, attempt(options, groups, register_id)).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => {
            let what = format!("{} within {deadline:?}", options.url);
            Err(Error::because(ConnectErrorKind::Deadline, what))
        }
    }
}

async fn attempt(
    options: &Options,
    groups: Vec<Join>,
    register_id: String,
) -> Result<Established, ConnectError> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(options.frame_bytes_max))
        .max_frame_size(Some(options.frame_bytes_max));
    let connector = Some(options.trust.connector());
    let (socket, _response) =
        connect_async_tls_with_config(request(options).await?, Some(config), true, connector)
            .await
            .map_err(|error| not_connected(error, &options.url))?;
    let mut wire = Wire::new(socket);
    let challenge: Challenge = read_challenge(&mut wire).await?;
    let register = register(options, groups, &challenge, register_id);
    wire.feed(Message::text(options.control_frame(&register)));
    let (registered, token_end, early) = read_registered(&mut wire, &register).await?;
    Ok(Established {
        wire,
        session: Session {
            generation: registered.generation,
            resumed: registered.resumed,
            pending: registered.pending,
            node: challenge.node,
            frame_bytes_max: challenge.max_frame_bytes,
        },
        heartbeat: options.heartbeat.unwrap_or(Duration::from_secs(
            // A Harbor that asks for none is still watched for silence.
            challenge.heartbeat_seconds.max(1),
        )),
        early,
        token_end,
    })
}

/// The upgrade, with a token if there is a source of one.
async fn request(options: &Options) -> Result<Request, ConnectError> {
    let url = options.url.as_str();
    let request = url.into_client_request();
    let mut request = request.map_err(|error| not_connected(error, url))?;
    if let Some(source) = &options.token {
        let none = |problem| Error::because(ConnectErrorKind::NoToken, problem);
        let token = source.ask().await.map_err(none)?;
        let bearer = Zeroizing::new(format!("Bearer {}", *token));
        let bearer = HeaderValue::from_str(&bearer);
        let mut bearer = bearer.map_err(|_never| none("it fits no header".to_owned()))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    Ok(request)
}

/// What a failed upgrade means; a host that is there but no Harbor is told apart.
fn not_connected(error: WsError, url: &str) -> ConnectError {
    match error {
        WsError::Io(error) => match tls_failure(&error) {
            Some(failure) => of_tls(failure, url),
            None => Error::because(ConnectErrorKind::Unreachable, format!("{url}: {error}")),
        },
        WsError::Protocol(error @ ProtocolError::HandshakeIncomplete) => {
            Error::because(ConnectErrorKind::Unreachable, format!("{url}: {error}"))
        }
        // A proxy, or Harbor itself, that has no room now.
        WsError::Http(answer) if answer.status().is_server_error() => {
            let what = format!("{url}: HTTP {}", answer.status());
            Error::because(ConnectErrorKind::Unreachable, what)
        }
        WsError::Http(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
            let body = answer.body().as_deref().unwrap_or_default();
            match serde_json::from_slice::<RefusedPayload>(body) {
                Ok(payload) => Error::refused(ConnectErrorKind::Unauthorised, payload),
                Err(_) => {
                    Error::because(ConnectErrorKind::Unauthorised, format!("{url}: HTTP 401"))
                }
            }
        }
        WsError::Url(error) => {
            Error::because(ConnectErrorKind::InvalidOptions, format!("{url}: {error}"))
        }
        other => Error::because(ConnectErrorKind::NotHarbor, format!("{url}: {other}")),
    }
}

/// What TLS found wrong, if it was TLS.
fn tls_failure(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// What is at fault: a certificate, or that TLS is not what is spoken there.
fn of_tls(failure: &rustls::Error, url: &str) -> ConnectError {
    let (kind, what) = match failure {
        rustls::Error::InvalidMessage(_) => (
            ConnectErrorKind::NotHarbor,
            "it does not speak TLS; ws:// is without".to_owned(),
        ),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => (
            ConnectErrorKind::Untrusted,
            "it asks for a client certificate".to_owned(),
        ),
        rustls::Error::AlertReceived(alert) => (
            ConnectErrorKind::Untrusted,
            format!("it did not accept the connection: {alert:?}"),
        ),
        failure => (ConnectErrorKind::Untrusted, failure.to_string()),
    };
    Error::because(kind, format!("{url}: {what}"))
}

async fn read_challenge(wire: &mut Wire) -> Result<Challenge, ConnectError> {
    let frame = next_frame(wire).await?;
    let envelope = decode(&frame)?;
    match &*envelope.kind {
        kind::CHALLENGE => control::read(&envelope).map_err(|refusal| unreadable(&refusal)),
        kind::REFUSED => Err(refused(&envelope)),
        other => {
            let what = format!("its first frame is {other:?}, not a challenge");
            Err(Error::because(ConnectErrorKind::NotHarbor, what))
        }
    }
}

fn register(
    options: &Options,
    groups: Vec<Join>,
    challenge: &Challenge,
    id: String,
) -> Envelope<'static> {
    let payload = Register {
        nonce: challenge.nonce.clone(),
        ack: Ack::Auto,
        confirm: options.confirm,
        receipts: false,
        groups,
        takeover: match options.takeover {
            Takeover::Replace => None,
            Takeover::Yield => Some(false),
        },
    };
    control_envelope(kind::REGISTER, id, options.agent.clone(), &payload)
}

/// A message to Harbor itself.
pub(super) fn control_envelope(
    kind: &'static str,
    id: String,
    sender: Endpoint<'static>,
    payload: &impl serde::Serialize,
) -> Envelope<'static> {
    let mut envelope = Envelope::new(kind);
    envelope.id = id.into();
    envelope.sender = sender;
    envelope.timestamp = jiff::Timestamp::now().into();
    // Our own payloads are structs of strings and numbers, which always have a JSON form.
    match serde_json::value::to_raw_value(payload) {
        Ok(payload) => envelope.payload(payload),
        Err(_never) => envelope,
    }
}

async fn read_registered(
    wire: &mut Wire,
    register: &Envelope<'_>,
) -> Result<(Registered, Option<End>, Vec<Utf8Bytes>), ConnectError> {
    let mut early = Vec::new();
    loop {
        let frame = next_frame(wire).await?;
        let envelope = decode(&frame)?;
        match &*envelope.kind {
            kind::REGISTERED if envelope.correlation_id == register.id => {
                let registered: Registered =
                    control::read(&envelope).map_err(|refusal| unreadable(&refusal))?;
                let end = registered.expires_at.as_ref();
                let end = end.map(|expires_at| End::told(&envelope, expires_at));
                return Ok((registered, end, early));
            }
            kind::REFUSED => return Err(refused(&envelope)),
            _ => early.push(frame),
        }
    }
}

async fn next_frame(wire: &mut Wire) -> Result<Utf8Bytes, ConnectError> {
    loop {
        match poll_fn(|cx| wire.poll(cx, true)).await {
            Io::Frame(frame) => return Ok(frame),
            Io::Alive | Io::Flushed => {}
            Io::Ended(reason) => {
                let kind = match reason {
                    DisconnectReason::Closed { code, .. } if code == Close::Unauthorised.code() => {
                        ConnectErrorKind::Unauthorised
                    }
                    _ => ConnectErrorKind::Unreachable,
                };
                return Err(Error::because(kind, reason.to_string()));
            }
        }
    }
}

fn decode(frame: &str) -> Result<Envelope<'_>, ConnectError> {
    let envelope = Envelope::decode(frame).map_err(|refused| unreadable(&refused.refusal))?;
    if envelope.sender.agent_id != HARBOR_AGENT_ID {
        let what = format!("a frame comes from {:?}", envelope.sender.agent_id);
        return Err(Error::because(ConnectErrorKind::NotHarbor, what));
    }
    Ok(envelope)
}

fn unreadable(refusal: &Refusal) -> ConnectError {
    // Boxed as text: as a typed refusal it would look like Harbor's own.
    Error::because(ConnectErrorKind::NotHarbor, refusal.to_string())
}

fn refused(envelope: &Envelope<'_>) -> ConnectError {
    match control::read::<RefusedPayload>(envelope) {
        Ok(payload) => Error::refused(ConnectErrorKind::Refused, payload),
        Err(refusal) => unreadable(&refusal),
    }
}

/// Whether trying again later could succeed.
pub(super) fn may_pass_later(error: &ConnectError) -> bool {
    match error.kind() {
        ConnectErrorKind::Unreachable
        | ConnectErrorKind::NoToken
        | ConnectErrorKind::NotHarbor
        | ConnectErrorKind::Untrusted
        | ConnectErrorKind::Deadline => true,
        ConnectErrorKind::Refused => error
            .refusal()
            .is_none_or(|refusal| refusal.code.row().retry == Retry::Later),
        ConnectErrorKind::InvalidOptions | ConnectErrorKind::Unauthorised => false,
    }
}
