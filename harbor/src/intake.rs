//! THE WAY OF A FRAME, on one screen: decode, verify, authorise, route, reseal, deliver.
//!
//! Every door calls [`accept`]. Each stage takes the type the stage before it gave, so none can be
//! skipped: `Envelope` → [`verify::Verified`] → [`authorise::Permitted`] → `Route` → [`reseal::Copies`].

pub(crate) mod authorise;
pub(crate) mod control;
pub(crate) mod request;
pub(crate) mod reseal;
pub(crate) mod verify;

use std::sync::Arc;

use synapse::{
    Envelope,
    control::{Accepted, Durability, kind},
    envelope::{Audience, Destination, Refused},
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    clock, delivery,
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
    let deliver = || {
        let copies = reseal::copies(&permitted, frame, &route, node)?;
        Ok(delivery::deliver(
            copies,
            (received_at, deadline),
            &node.metrics,
        ))
    };
    let once = session.recent.once(&envelope.id, received_at, deliver);
    let (receipt, duplicate) = once.map_err(refused)?;
    if duplicate {
        node.metrics.messages_duplicate.inc();
    }
    Ok(session
        .wants_acceptance()
        .then(|| accepted(node, &permitted, receipt, duplicate)))
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
