//! From an HTTP request to an agent's socket (RFC 6455 section 4.2).
//!
//! The door of a frame's way: browsers of foreign origins, a full node and a draining one, who has
//! too many connections, and who bears a wrong token are refused here, before anything is upgraded.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use synapse::limits::SUBPROTOCOL;
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::tungstenite::handshake::server::create_response;

use crate::{
    clock::Instant,
    connection::{Connection, Ended, socket::Socket, stream::Stream},
    gateway,
    handshake::{self, presented::Presented},
    limits::UNREGISTERED_BYTES_MAX,
    node::Node,
    tls::identity::Identity,
    tokens,
};

use super::{
    admission::{Admitted, Unregistered},
    origin,
};

/// How a request came.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The connect deadline counts from it.
    pub(crate) since: Instant,
    /// The peer's.
    pub(crate) address: IpAddr,
    /// The place its TCP connection takes, upgraded or not.
    pub(crate) place: Arc<OwnedSemaphorePermit>,
    /// Who it is by its certificate.
    pub(crate) identity: Identity,
}

/// `GET /ws`.
pub(crate) async fn upgrade(
    State(node): State<Arc<Node>>,
    Extension(arrival): Extension<Arrival>,
    mut request: Request,
) -> Response {
    if let Err(refusal) = origin::check(&node, request.headers()) {
        return gateway::refuse(&node, &refusal);
    }
    if node.is_draining() {
        return gateway::refuse(&node, &node.draining_refusal());
    }
    let admitted = node.admission.admit(&node.config, arrival.address);
    let Admitted {
        unregistered,
        place,
    } = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return gateway::refuse(&node, &refusal),
    };
    let bearer = match tokens::bearer_of(&node, request.headers()) {
        Ok(bearer) => bearer,
        Err(refusal) => return gateway::refuse(&node, &refusal),
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let mut response = match create_response(&axum::http::Request::from_parts(parts.clone(), ())) {
        Ok(response) => response,
        Err(error) => return not_an_upgrade(&error.to_string()),
    };
    if offers_subprotocol(&parts.headers) {
        let chosen = HeaderValue::from_static(SUBPROTOCOL);
        response
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
    }
    let tasks = node.tasks.clone();
    tasks.spawn(async move {
        if let Some(socket) = socket(&node, upgraded).await {
            let presented = Presented {
                certificate: arrival.identity,
                bearer,
            };
            serve(node, socket, presented, arrival.since, unregistered).await;
        }
        drop((place, arrival.place));
    });
    response.map(|()| axum::body::Body::empty())
}

fn offers_subprotocol(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|offered| offered.trim() == SUBPROTOCOL)
}

fn not_an_upgrade(error: &str) -> Response {
    let headers = [
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
    ];
    (StatusCode::UPGRADE_REQUIRED, headers, format!("{error}\n")).into_response()
}

/// An agent's task, from the upgrade to the last byte.
async fn serve(
    node: Arc<Node>,
    mut socket: Socket,
    presented: Presented,
    since: Instant,
    unregistered: Unregistered,
) {
    let deadline = since + node.config.connect_deadline;
    node.metrics.connections.inc();
    node.metrics.connections_opened.inc();
    socket.bound_bytes_read(UNREGISTERED_BYTES_MAX);
    // Boxed, so that an idle agent's task does not carry the handshake's room.
    let registered = Box::pin(handshake::register(&node, &mut socket, presented, deadline)).await;
    let (ended, _unregistered) = match registered {
        Ok(session) => {
            drop(unregistered);
            socket.bound_bytes_read(u64::MAX);
            let connection = Connection::new(Arc::clone(&node), socket, session);
            (connection.run().await, None)
        }
        Err(close) => (Ended::unregistered(socket, close), Some(unregistered)),
    };
    node.metrics.closed(ended.close);
    tracing::debug!(close = ended.close.label(), "connection ended");
    Box::pin(ended.socket.close(ended.farewell)).await;
    node.metrics.connections.dec();
}

async fn socket(node: &Node, upgraded: OnUpgrade) -> Option<Socket> {
    let upgraded: Upgraded = upgraded.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Stream>>().ok()?;
    let stream = parts.io.into_inner();
    Some(Socket::new(stream, &parts.read_buf, node.config.max_frame_bytes).await)
}
