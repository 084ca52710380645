//! Answers the `synapse.*` vocabulary of registered agents: groups, presence, discovery.
//!
//! Branches off a frame's way after authorisation: these are for Harbor, not for routing.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use synapse::{
    Envelope, Refusal,
    control::{self, Discover, Discovered},
    envelope::Endpoint,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{
    authorise::Permitted,
    request::{self, Request},
};
use crate::{
    groups::Roster,
    limits::{DISCOVER_LIMIT_DEFAULT, DISCOVER_LIMIT_MAX},
    node::Node,
    permissions::{Action, Grants},
    registry::Agent,
    session::Session,
    tokens,
};

/// Carries out a control message and answers it.
pub(super) fn answer(
    node: &Node,
    session: &mut Session,
    permitted: &Permitted<'_, '_>,
) -> Result<(), Refusal> {
    let envelope = permitted.envelope();
    match permitted.request() {
        // It has no answer of Harbor's but whether it is accepted.
        Request::Deliver(_) => {}
        Request::Join(join) => {
            session.join(join)?;
            answer_members(node, session, envelope, &join.group_id);
        }
        Request::Leave(group) => {
            session.leave(&group.group_id);
            let group_id = &*group.group_id;
            // Leaving is always allowed, seeing who is left is not.
            if session.grants.allow(&Action::SeeGroup { group_id }) {
                answer_members(node, session, envelope, group_id);
            } else {
                session.answer(reply(node, envelope, &control::Roster::unseen(group_id)));
            }
        }
        Request::Members(group) => answer_members(node, session, envelope, &group.group_id),
        Request::Watch(scope) => {
            let (agent, generation) = (Arc::clone(&session.lease.agent), session.lease.generation);
            session.watch(scope, |pages| {
                for page in pages {
                    let frame = reply(node, envelope, &page);
                    agent.outbox.push_answer(generation, frame, &node.metrics);
                }
            })?;
        }
        Request::Unwatch(scope) => {
            session.unwatch(scope);
            session.answer(reply(node, envelope, scope));
        }
        Request::Renew(renew) => {
            let renewed = tokens::renew(node, &session.lease, renew)?;
            session.answer(reply(node, envelope, &renewed));
        }
        Request::Discover(query) => {
            let found = discover(node, &session.grants, query);
            session.answer(reply(node, envelope, &found));
        }
        Request::ReadConversation(_) => return Err(request::not_offered(&envelope.kind)),
    }
    Ok(())
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

/// Finds the agents for which all the given conditions hold, among those the asker may see.
fn discover(node: &Node, grants: &Grants, query: &Discover) -> Discovered {
    let mut found = BTreeMap::new();
    for agent in candidates(node, grants, query) {
        let endpoint = agent.endpoint();
        let is_able = query.capability.is_empty()
            || endpoint
                .capabilities
                .iter()
                .any(|able| *able == *query.capability);
        let is_in_system = query.system_id.is_empty() || endpoint.system_id == query.system_id;
        let agent_id = &*agent.id;
        if is_able && is_in_system && grants.allow(&Action::SeeAgent { agent_id }) {
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
    Discovered { agents, total }
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
fn candidates(node: &Node, grants: &Grants, query: &Discover) -> Vec<Arc<Agent>> {
    let may_see_group = |group_id: &str| grants.allow(&Action::SeeGroup { group_id });
    let with_role = |roster: Arc<Roster>| {
        let members = roster.values().filter(|member| {
            query.role.is_empty() || member.roles.iter().any(|role| **role == *query.role)
        });
        members
            .map(|member| Arc::clone(&member.agent))
            .collect::<Vec<_>>()
    };
    if !query.group_id.is_empty() {
        let seen = Some(&query.group_id).filter(|group_id| may_see_group(group_id));
        seen.and_then(|group_id| node.groups.snapshot(group_id))
            .map(with_role)
            .unwrap_or_default()
    } else if !query.role.is_empty() {
        let seen = node.groups.all().filter(|(name, _)| may_see_group(name));
        seen.flat_map(|(_, roster)| with_role(roster)).collect()
    } else if !query.system_id.is_empty() {
        node.systems
            .snapshot(&query.system_id)
            .map(with_role)
            .unwrap_or_default()
    } else {
        node.registry.all().collect()
    }
}
