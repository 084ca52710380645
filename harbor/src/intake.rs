//! THE WAY OF A FRAME, on one screen: decode, verify, authorise, route, deliver.
//!
//! Every door calls [`accept`]. Each stage takes the type the stage before it gave, so none can be
//! skipped: `Envelope` → [`verify::Verified`] → [`authorise::Permitted`] → `Route`.

pub(crate) mod authorise;
pub(crate) mod control;
pub(crate) mod request;
pub(crate) mod verify;

use std::sync::Arc;

use synapse::{
    Envelope,
    control::{Accepted, Durability, kind},
    envelope::{Audience, Destination, Refused, splice_harbor},
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    clock,
    connection::outbox::Delivery,
    delivery,
    node::Node,
    router::{self, Snapshot},
    session::Session,
};
use authorise::Permitted;
use request::Request;

/// Takes one frame from a registered agent and carries it out. Gives the answer to the sender, if
/// it wants one.
///
/// # Errors
///
/// The refusal of whichever stage says no; then nothing was delivered.
pub(crate) fn accept(
    node: &Node,
    session: &mut Session,
    frame: &Utf8Bytes,
) -> Result<Option<Utf8Bytes>, Refused> {
    let received_at = clock::now();
    let envelope = Envelope::decode(frame)?;
    let id = envelope.id.clone();
    let refused = |refusal| Refused {
        id: Some(id.to_string()),
        refusal,
    };

    session
        .keep_pace(frame.len(), received_at)
        .map_err(refused)?;
    let verified = verify::verify(envelope, frame, node).map_err(refused)?;
    session.renew_grants();
    let own_system_id = Arc::clone(&session.system_id);
    let permitted = authorise::authorise(&verified, session, &own_system_id).map_err(refused)?;
    let Request::Deliver(destination) = permitted.request() else {
        control::answer(node, session, &permitted).map_err(refused)?;
        return Ok(None);
    };
    let envelope = permitted.envelope();
    let deadline = node
        .config
        .time_to_live
        .deadline(envelope, received_at)
        .map_err(refused)?;
    let snapshot = snapshot(node, destination);
    let route = router::route(&session.lease.agent.id, destination, &snapshot);
    let delivery = Delivery {
        frame: Utf8Bytes::from(for_receivers(frame, &permitted)),
        received_at,
        deadline,
    };
    let deliver = || delivery::deliver(&route, &delivery, &node.metrics);
    let (receipt, duplicate) = session.recent.once(&envelope.id, received_at, deliver);
    if duplicate {
        node.metrics.messages_duplicate.inc();
    }
    Ok(session
        .wants_acceptance()
        .then(|| accepted(node, &permitted, receipt, duplicate)))
}

/// The sender's bytes, and what Harbor found out about them. A copy of its own: the frame is part of
/// the sender's read buffer, which would be kept whole for as long as the copy waits.
fn for_receivers(frame: &Utf8Bytes, permitted: &Permitted<'_, '_>) -> String {
    match permitted.key() {
        None => frame.as_str().to_owned(),
        Some(key) => {
            let verified = serde_json::json!({ "verified": key.kid });
            splice_harbor(frame, &verified.to_string())
        }
    }
}

/// The entries of the tables that a destination names.
fn snapshot(node: &Node, destination: &Destination<'_>) -> Snapshot {
    let receiver = destination
        .receiver
        .and_then(|to| node.registry.find(&to.agent_id));
    let receiver_system_id = match destination.receiver.zip(receiver.as_ref()) {
        Some((to, agent)) if !to.system_id.is_empty() => agent.endpoint().system_id.to_string(),
        _ => String::new(),
    };
    let audience = match destination.audience {
        Some(Audience::Group { group_id, .. }) => node.groups.snapshot(group_id),
        Some(Audience::System(system_id)) => node.systems.snapshot(system_id),
        None => None,
    };
    Snapshot {
        receiver,
        receiver_system_id,
        audience,
    }
}

fn accepted(
    node: &Node,
    permitted: &Permitted<'_, '_>,
    receipt: delivery::Receipt,
    duplicate: bool,
) -> Utf8Bytes {
    let payload = Accepted {
        durability: Durability::Routed,
        recipients: receipt.recipients,
        duplicate,
    };
    node.answers
        .frame(kind::ACCEPTED, &permitted.envelope().id, &payload)
}
