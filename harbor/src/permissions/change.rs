//! What a change of the permissions means for those who are connected.
//!
//! Beside a frame's way. Sending is decided for every message; what an agent already has, its
//! memberships and watches, is looked through after a change.

use std::sync::Arc;

use synapse::{Code, Refusal, envelope::Refused, refusal::Close};

use super::{Action, Grants};
use crate::{groups::Roster, node::Node, registry::Agent};

/// Ends what is no longer allowed.
pub(crate) fn look_through(node: &Node) {
    for agent in node.registry.all() {
        let grants = node.config.permissions.of(&agent.id);
        let system_id = &agent.endpoint().system_id;
        if !system_id.is_empty() && !grants.allow(&Action::BeIn { system_id }) {
            tracing::info!(agent = %agent.id, "closing an agent that may no longer be in its system");
            agent.outbox.close(Close::Unauthorised);
            continue;
        }
        leave_groups(node, &agent, &grants);
    }
    let keep = |agent: &Agent, generation, action: &Action<'_>, field| {
        let is_allowed = node.config.permissions.of(&agent.id).allow(action);
        if !is_allowed {
            tell(node, agent, generation, action, field);
        }
        is_allowed
    };
    node.groups.keep_watchers(|group_id, agent, generation| {
        keep(
            agent,
            generation,
            &Action::SeeGroup { group_id },
            "group_id",
        )
    });
    node.systems.keep_watchers(|system_id, agent, generation| {
        keep(
            agent,
            generation,
            &Action::SeeSystem { system_id },
            "system_id",
        )
    });
}

/// Takes an agent out of the groups that it may not be in, or not as what it is.
fn leave_groups(node: &Node, agent: &Arc<Agent>, grants: &Grants) {
    let mut memberships = agent.memberships.lock();
    let Some(memberships) = memberships.as_mut() else {
        return;
    };
    memberships.groups.retain(|group_id| {
        let roster = node.groups.snapshot(group_id);
        let denied = what_is_denied(agent, group_id, roster.as_deref(), grants);
        if let Some(action) = &denied {
            node.groups.leave(group_id, agent);
            tell(node, agent, agent.outbox.generation(), action, "group_id");
        }
        denied.is_none()
    });
}

fn what_is_denied<'r>(
    agent: &Agent,
    group_id: &'r str,
    roster: Option<&'r Roster>,
    grants: &Grants,
) -> Option<Action<'r>> {
    let member = roster.and_then(|roster| roster.get(&*agent.id));
    let roles = member.into_iter().flat_map(|member| member.roles.iter());
    let as_what = roles.map(|role| Action::JoinAs { group_id, role });
    let mut wanted = std::iter::once(Action::Join { group_id }).chain(as_what);
    wanted.find(|action| !grants.allow(action))
}

/// Tells an agent what it lost.
fn tell(node: &Node, agent: &Agent, generation: u64, action: &Action<'_>, field: &'static str) {
    tracing::info!(agent = %agent.id, "permissions changed: it may no longer {action}");
    let reason = format!("permissions changed: {} may no longer {action}", agent.id);
    let refusal = Refusal::of_field(Code::NotPermitted, field, reason);
    let frame = node.refused(&Refused { id: None, refusal });
    agent.outbox.push_control(generation, frame, &node.metrics);
}
