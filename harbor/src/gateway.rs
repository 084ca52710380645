//! The HTTP doors: health, readiness, metrics, and the upgrade of `/ws`.
//!
//! Beside a frame's way, on the same port.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use synapse::{Code, Refusal, control::RefusedPayload};

use crate::{
    handshake::presented::Presented,
    intake::authorise,
    listen::upgrade::{self, Arrival},
    node::Node,
    tokens,
};

/// All routes.
pub(crate) fn routes(node: Arc<Node>) -> Router {
    Router::new()
        .route("/ws", get(upgrade::upgrade))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(node)
}

/// 200 while new agents are welcome, 503 while draining.
async fn ready(State(node): State<Arc<Node>>) -> Response {
    if node.is_draining() {
        return refuse(&node, &node.draining_refusal());
    }
    "ready\n".into_response()
}

async fn metrics(
    State(node): State<Arc<Node>>,
    Extension(arrival): Extension<Arrival>,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = admit(&node, arrival, &headers, "/metrics") {
        return refuse(&node, &refusal);
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], node.metrics.text()).into_response()
}

/// Checks that who calls a door may.
fn admit(node: &Node, arrival: Arrival, headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
    let presented = Presented {
        certificate: arrival.identity,
        bearer: tokens::bearer_of(node, headers)?,
    };
    authorise::door(node, &presented, path)
}

/// Counts a refusal and tells it as its status and a JSON body.
pub(crate) fn refuse(node: &Node, refusal: &Refusal) -> Response {
    node.metrics.refused(refusal.code);
    let status = StatusCode::from_u16(refusal.code.row().http_status)
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_string(&RefusedPayload::from(refusal)).unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (status, kind, body + "\n").into_response();
    if refusal.code == Code::BadToken {
        // RFC 6750 section 3.
        let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
