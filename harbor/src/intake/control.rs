//! Answers the `synapse.*` vocabulary of registered agents: groups, presence, discovery.
//!
//! Branches off a frame's way after authorisation: these are for Harbor, not for routing.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use synapse::{
    Code, Envelope, Refusal,
    address::{self, Kind},
    control::{self, Discover, Discovered, GroupRef, Join, Scope, kind},
    envelope::Endpoint,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    groups::Roster,
    limits::{DISCOVER_LIMIT_DEFAULT, DISCOVER_LIMIT_MAX},
    node::Node,
    registry::Agent,
    session::{self, Session},
    tokens,
};

/// Carries out a control message and answers it.
pub(super) fn answer(
    node: &Node,
    session: &mut Session,
    envelope: &Envelope<'_>,
) -> Result<(), Refusal> {
    match &*envelope.kind {
        kind::GROUP_JOIN => {
            let join: Join = control::read(envelope)?;
            session::check_join(&join, "payload")?;
            session.join(&join)?;
            answer_members(node, session, envelope, &join.group_id);
        }
        kind::GROUP_LEAVE => {
            let group_id = group_of(envelope)?;
            session.leave(&group_id);
            answer_members(node, session, envelope, &group_id);
        }
        kind::GROUP_MEMBERS => {
            let group_id = group_of(envelope)?;
            answer_members(node, session, envelope, &group_id);
        }
        kind::PRESENCE_WATCH => {
            let (agent, generation) = (Arc::clone(&session.lease.agent), session.lease.generation);
            let scope: Scope = control::read(envelope)?;
            session.watch(&scope, |pages| {
                for page in pages {
                    let frame = reply(node, envelope, &page);
                    agent.outbox.push_answer(generation, frame, &node.metrics);
                }
            })?;
        }
        kind::PRESENCE_UNWATCH => {
            let scope: Scope = control::read(envelope)?;
            session.unwatch(&scope)?;
            session.answer(reply(node, envelope, &scope));
        }
        kind::RENEW => {
            let renewed = tokens::renew(node, &session.lease, &control::read(envelope)?)?;
            session.answer(reply(node, envelope, &renewed));
        }
        kind::DISCOVER => {
            let found = discover(node, &control::read(envelope)?)?;
            session.answer(reply(node, envelope, &found));
        }
        other => return Err(not_ours(other)),
    }
    Ok(())
}

/// The refusal of a type that has no answer.
fn not_ours(kind: &str) -> Refusal {
    let (code, reason) = match kind {
        kind::REGISTER => {
            let reason = "this connection is registered; open another to register again";
            (Code::AlreadyRegistered, reason.to_owned())
        }
        other if kind::NOT_OFFERED.contains(&other) => {
            let reason = format!("{other} is not offered by this version of Harbor");
            (Code::Unsupported, reason)
        }
        other => {
            let reason = format!("{other} is not in the control vocabulary; synapse.* is reserved");
            (Code::UnknownType, reason)
        }
    };
    Refusal::of_field(code, "type", reason)
}

/// Answers with a group's members.
fn answer_members(node: &Node, session: &Session, envelope: &Envelope<'_>, group_id: &str) {
    for page in node.groups.describe(group_id, node.page_bytes()) {
        session.answer(reply(node, envelope, &page));
    }
}

/// An answer of the same type.
fn reply(node: &Node, envelope: &Envelope<'_>, payload: &impl Serialize) -> Utf8Bytes {
    node.answers.frame(&envelope.kind, &envelope.id, payload)
}

fn group_of(envelope: &Envelope<'_>) -> Result<String, Refusal> {
    let GroupRef { group_id } = control::read(envelope)?;
    control::require_name("payload.group_id", &group_id)?;
    Ok(group_id)
}

/// Finds the agents for which all the given conditions hold.
fn discover(node: &Node, query: &Discover) -> Result<Discovered, Refusal> {
    for (field, name) in [
        ("payload.capability", &query.capability),
        ("payload.role", &query.role),
        ("payload.system_id", &query.system_id),
        ("payload.group_id", &query.group_id),
        ("payload.after", &query.after),
    ] {
        address::check(Kind::Name, field, name)?;
    }
    let mut found = BTreeMap::new();
    for agent in candidates(node, query) {
        let endpoint = agent.endpoint();
        let is_able = query.capability.is_empty()
            || endpoint
                .capabilities
                .iter()
                .any(|able| *able == *query.capability);
        let is_in_system = query.system_id.is_empty() || endpoint.system_id == query.system_id;
        if is_able && is_in_system {
            found.insert(Arc::clone(&agent.id), endpoint);
        }
    }
    let limit = match query.limit as usize {
        0 => DISCOVER_LIMIT_DEFAULT,
        limit => limit.min(DISCOVER_LIMIT_MAX),
    };
    let total = found.len() as u64;
    let mut room = node.page_bytes();
    let agents = found
        .into_iter()
        .filter(|(id, _)| **id > *query.after)
        .take(limit)
        .map(|(_, endpoint)| endpoint)
        .take_while(|endpoint| {
            let fits = room.checked_sub(bytes_at_most(endpoint));
            room = fits.unwrap_or(0);
            fits.is_some()
        })
        .map(|endpoint| (*endpoint).clone())
        .collect();
    Ok(Discovered { agents, total })
}

/// How many bytes an endpoint takes in an answer at most: any byte of its free texts may be a
/// control character, which takes six.
fn bytes_at_most(endpoint: &Endpoint<'_>) -> usize {
    let texts = [&endpoint.agent_name, &endpoint.endpoint, &endpoint.version];
    let names = [&endpoint.agent_id, &endpoint.system_id];
    let names = names.into_iter().chain(&endpoint.capabilities);
    128 + texts.iter().map(|text| escaped(text, 6)).sum::<usize>()
        + names.map(|name| escaped(name, 2) + 3).sum::<usize>()
}

/// The length of a text in JSON at most.
fn escaped(text: &str, most: usize) -> usize {
    let special = text
        .bytes()
        .filter(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\'));
    text.len() + (most - 1) * special.count()
}

/// Those that have the role and group asked for, from the narrowest table that knows.
fn candidates(node: &Node, query: &Discover) -> Vec<Arc<Agent>> {
    let with_role = |roster: Arc<Roster>| {
        let members = roster.values().filter(|member| {
            query.role.is_empty() || member.roles.iter().any(|role| **role == *query.role)
        });
        members
            .map(|member| Arc::clone(&member.agent))
            .collect::<Vec<_>>()
    };
    if !query.group_id.is_empty() {
        node.groups
            .snapshot(&query.group_id)
            .map(with_role)
            .unwrap_or_default()
    } else if !query.role.is_empty() {
        node.groups.all().flat_map(with_role).collect()
    } else if !query.system_id.is_empty() {
        node.systems
            .snapshot(&query.system_id)
            .map(with_role)
            .unwrap_or_default()
    } else {
        node.registry.all().collect()
    }
}
