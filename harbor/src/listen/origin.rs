//! Which web pages may connect.
//!
//! At the door of a frame's way, before anything is upgraded.

use axum::http::{HeaderMap, HeaderValue, header};
use synapse::{Code, Refusal};

use crate::node::Node;

/// Browsers send `Origin` and cannot be kept from it, so an origin must be allowed by name. Other
/// programs send none. Every `Origin` line counts.
pub(super) fn check(node: &Node, headers: &HeaderMap) -> Result<(), Refusal> {
    let allowed_origins = &node.config.allowed_origins;
    let is_allowed = |origin: &HeaderValue| {
        let mut allowed = allowed_origins.iter();
        allowed.any(|allowed| allowed == "*" || **allowed == *origin)
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(denied) = origins.find(|origin| !is_allowed(origin)) else {
        return Ok(());
    };
    let reason = format!("the origin {denied:?} is not in allowed_origins");
    Err(Refusal::of_field(Code::OriginDenied, "Origin", reason))
}
