//! Who gets a message: a pure function of its destination and a snapshot of the tables.
//!
//! Stage 4 of a frame's way. No await, no lock, no I/O: what it decides, `delivery` does.

use std::{collections::HashSet, sync::Arc};

use synapse::envelope::{Audience, Destination, Members};

use crate::{groups::Roster, registry::Agent};

/// What the router decides from: the entries a destination names, as they were at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The receiver, if it is connected.
    pub receiver: Option<Arc<Agent>>,
    /// The receiver's system.
    pub receiver_system_id: String,
    /// The members of the group or system.
    pub audience: Option<Arc<Roster>>,
}

/// The agents that get a copy, each once.
#[derive(Debug)]
pub struct Route<'t> {
    /// In no particular order.
    pub hops: Vec<&'t Arc<Agent>>,
}

/// Decides who gets a message of `sender_id`.
pub fn route<'t>(
    sender_id: &str,
    destination: &Destination<'_>,
    snapshot: &'t Snapshot,
) -> Route<'t> {
    let receiver = destination
        .receiver
        .zip(snapshot.receiver.as_ref())
        .and_then(|(to, agent)| {
            let same_system =
                to.system_id.is_empty() || to.system_id == snapshot.receiver_system_id;
            (to.agent_id == *agent.id && same_system).then_some(agent)
        });
    let is_copied =
        |id: &str| id != sender_id && receiver.is_none_or(|receiver| *receiver.id != *id);
    let mut hops = match (&destination.audience, &snapshot.audience) {
        (Some(audience), Some(roster)) => among(audience, roster, is_copied),
        _ => Vec::new(),
    };
    hops.extend(receiver);
    Route { hops }
}

/// The members an audience asks for, less the sender and the receiver.
fn among<'t>(
    audience: &Audience<'_>,
    roster: &'t Roster,
    is_copied: impl Fn(&str) -> bool,
) -> Vec<&'t Arc<Agent>> {
    match audience {
        Audience::System(_)
        | Audience::Group {
            members: Members::All,
            ..
        } => {
            let mut hops = Vec::with_capacity(roster.len());
            let copied = roster.iter().filter(|(id, _)| is_copied(id));
            hops.extend(copied.map(|(_, member)| &member.agent));
            hops
        }
        Audience::Group {
            members: Members::WithRole(roles),
            ..
        } => {
            // Sorted rather than hashed: it is mostly a role or two, looked up for every member.
            let mut wanted: Vec<&str> = roles.iter().map(|role| &**role).collect();
            wanted.sort_unstable();
            roster
                .iter()
                .filter(|(id, _)| is_copied(id))
                .filter(|(_, member)| {
                    member
                        .roles
                        .iter()
                        .any(|role| wanted.binary_search(&&**role).is_ok())
                })
                .map(|(_, member)| &member.agent)
                .collect()
        }
        Audience::Group {
            members: Members::Named(ids),
            ..
        } => {
            let wanted: HashSet<&str> = ids.iter().map(|id| &**id).collect();
            wanted
                .into_iter()
                .filter(|id| is_copied(id))
                .filter_map(|id| Some(&roster.get(id)?.agent))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests;
