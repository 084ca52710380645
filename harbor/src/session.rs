//! A registered connection: who it is, what it asked for, and the clean-up when it ends.
//!
//! Made by the handshake, kept by the connection, read by intake. Dropping it leaves every group,
//! unless a newer connection of the agent has taken over.

use std::{collections::HashSet, sync::Arc};

use synapse::{
    Code, Refusal,
    control::{self, Confirm, Join, Register},
    envelope::Endpoint,
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{
    clock::Instant,
    connection::{outbox::Pushed, pace::Pace},
    duplicates::Recent,
    groups::{Groups, Roles},
    intake::authorise::Admitted,
    limits::ROLES_PER_MEMBER_MAX,
    node::Node,
    permissions::Grants,
    registry::{Agent, Lease, Proof, Takeover},
};

/// One registered connection.
#[derive(Debug)]
pub(crate) struct Session {
    node: Arc<Node>,
    /// Its hold on the agent.
    pub(crate) lease: Lease,
    /// The system the agent registered in, empty for none.
    pub(crate) system_id: Arc<str>,
    /// Whether it took over from an older connection.
    pub(crate) resumed: bool,
    confirm: Confirm,
    /// How fast the agent may send; `None` for as fast as it can.
    pace: Option<Arc<Pace>>,
    /// The ids it has used lately.
    pub(crate) recent: Arc<Recent>,
    /// What the agent may do.
    pub(crate) grants: Grants,
    watches: HashSet<(control::Scope, Arc<str>)>,
}

impl Session {
    /// Registers an agent and joins the groups it names. All or nothing.
    pub(crate) fn open(
        node: &Arc<Node>,
        endpoint: Endpoint<'static>,
        proof: Proof,
        register: &Register,
        admitted: Admitted,
    ) -> Result<Session, Refusal> {
        let takeover = match register.takeover {
            Some(false) => Takeover::Refuse,
            _ => Takeover::Replace,
        };
        let system_id: Arc<str> = Arc::from(&*endpoint.system_id);
        let outbox_bytes = node.config.outbox_bytes;
        let admit = |older: Option<&Agent>| check_count(node, older, register);
        let (lease, resumed) = node.registry.join(
            endpoint,
            proof,
            takeover,
            outbox_bytes,
            &node.metrics,
            admit,
        )?;
        let session = Session {
            node: Arc::clone(node),
            pace: node.paces.of(&lease.agent.id),
            recent: node.duplicates.of(&lease.agent.id),
            lease,
            system_id,
            resumed,
            confirm: register.confirm,
            grants: admitted.grants,
            watches: HashSet::new(),
        };
        session.enter_system();
        for join in &register.groups {
            // Fails only if a newer connection of the agent has come meanwhile; then this one is closed
            // as replaced, and the newer one says where the agent is a member.
            if session.enter(join, usize::MAX).is_err() {
                break;
            }
        }
        Ok(session)
    }

    /// Whether accepted messages are answered.
    pub(crate) fn wants_acceptance(&self) -> bool {
        self.confirm == Confirm::Each
    }

    /// Follows a change of the permissions.
    pub(crate) fn renew_grants(&mut self) {
        let permissions = &self.node.config.permissions;
        permissions.renew(&self.lease.agent.id, &mut self.grants);
    }

    /// Counts a message of so many bytes, or refuses it because the agent sends too fast.
    pub(crate) fn keep_pace(&self, bytes: usize, now: Instant) -> Result<(), Refusal> {
        match &self.pace {
            Some(pace) => pace.take(bytes, now, &self.node.metrics),
            None => Ok(()),
        }
    }

    /// Queues a frame of Harbor's for this connection, from its own task. An agent that sends and
    /// never reads its answers is too slow like any other.
    pub(crate) fn answer(&self, frame: Utf8Bytes) {
        let lease = &self.lease;
        let metrics = &self.node.metrics;
        let pushed = lease
            .agent
            .outbox
            .push_answer(lease.generation, frame, metrics);
        if pushed == Pushed::Full {
            tracing::info!(agent = %lease.agent.id, "closing an agent that does not read its answers");
        }
    }

    /// Joins a group, or changes the roles in it.
    pub(crate) fn join(&self, join: &Join) -> Result<(), Refusal> {
        self.enter(join, self.node.config.groups_per_agent_max)
    }

    fn enter(&self, join: &Join, groups_max: usize) -> Result<(), Refusal> {
        let agent = &self.lease.agent;
        let mut memberships = agent.memberships.lock();
        // A newer connection, overtaking this one, says where the agent is a member.
        let Some(memberships) = memberships.as_mut().filter(|_| self.lease.is_current()) else {
            let reason = "this connection was closed or replaced";
            return Err(Refusal::new(Code::NotRegistered, reason));
        };
        let known = memberships.groups.contains(join.group_id.as_str());
        if !known && memberships.groups.len() >= groups_max {
            return Err(too_many_groups(&self.node, "payload.group_id"));
        }
        let name: Arc<str> = Arc::from(join.group_id.as_str());
        memberships.groups.insert(Arc::clone(&name));
        let roles: Roles = join.all_roles().into_iter().map(Box::from).collect();
        self.node.groups.join(&name, agent, roles);
        Ok(())
    }

    /// Leaves a group; leaving one it is not in changes nothing.
    pub(crate) fn leave(&self, group_id: &str) {
        let agent = &self.lease.agent;
        if let Some(memberships) = agent.memberships.lock().as_mut()
            && let Some(name) = memberships.groups.take(group_id)
        {
            self.node.groups.leave(&name, agent);
        }
    }

    /// Starts a watch; `start` gets the snapshot's pages before any change is told.
    pub(crate) fn watch(
        &mut self,
        scope: &control::Scope,
        start: impl FnOnce(Vec<control::Roster>),
    ) -> Result<(), Refusal> {
        let (groups, name) = table(&self.node, scope);
        let watch = (scope.clone(), Arc::clone(&name));
        if !self.watches.contains(&watch)
            && self.watches.len() >= self.node.config.groups_per_agent_max
        {
            return Err(too_many_groups(&self.node, "payload"));
        }
        let page_bytes = self.node.page_bytes();
        groups.watch(
            &name,
            &self.lease.agent,
            self.lease.generation,
            page_bytes,
            start,
        );
        self.watches.insert(watch);
        Ok(())
    }

    /// Ends a watch; ending one that is not there changes nothing.
    pub(crate) fn unwatch(&mut self, scope: &control::Scope) {
        let (groups, name) = table(&self.node, scope);
        groups.unwatch(&name, self.lease.generation);
        self.watches.remove(&(scope.clone(), name));
    }

    /// Makes the agent a member of the system it registered in, and of no other.
    fn enter_system(&self) {
        let agent = &self.lease.agent;
        let mut memberships = agent.memberships.lock();
        let Some(memberships) = memberships.as_mut() else {
            return;
        };
        // A newer connection, overtaking this one, has entered its own system already.
        if !self.lease.is_current() {
            return;
        }
        let system = Some(&self.system_id).filter(|system_id| !system_id.is_empty());
        if memberships.system.as_ref() == system {
            return;
        }
        if let Some(older) = memberships.system.take() {
            self.node.systems.leave(&older, agent);
        }
        if let Some(system_id) = system {
            self.node.systems.join(system_id, agent, Roles::from([]));
            memberships.system = Some(Arc::clone(system_id));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for (scope, name) in self.watches.drain() {
            let (groups, _) = table(&self.node, &scope);
            groups.unwatch(&name, self.lease.generation);
        }
        if !self.lease.release() {
            return;
        }
        let agent = &self.lease.agent;
        let Some(memberships) = agent.memberships.lock().take() else {
            return;
        };
        for name in &memberships.groups {
            self.node.groups.leave(name, agent);
        }
        if let Some(system_id) = &memberships.system {
            self.node.systems.leave(system_id, agent);
        }
    }
}

/// Checks how many groups a registering agent would be in, those of an older connection included.
fn check_count(node: &Node, older: Option<&Agent>, register: &Register) -> Result<(), Refusal> {
    let named: HashSet<&str> = register
        .groups
        .iter()
        .map(|j| j.group_id.as_str())
        .collect();
    let memberships = older.map(|agent| agent.memberships.lock());
    let kept = memberships.as_ref().and_then(|memberships| {
        let groups = &memberships.as_ref()?.groups;
        Some(
            groups
                .iter()
                .filter(|name| !named.contains(&***name))
                .count(),
        )
    });
    if named.len() + kept.unwrap_or(0) > node.config.groups_per_agent_max {
        return Err(too_many_groups(node, "payload.groups"));
    }
    Ok(())
}

/// Checks what a join names.
pub(crate) fn check_join(join: &Join, path: &str) -> Result<(), Refusal> {
    join.check(path)?;
    if join.all_roles().len() > ROLES_PER_MEMBER_MAX {
        let reason = format!("at most {ROLES_PER_MEMBER_MAX} roles in one group are allowed");
        return Err(Refusal::of_field(
            Code::LimitExceeded,
            format!("{path}.roles"),
            reason,
        ));
    }
    Ok(())
}

/// The table a scope names an entry of, and the entry's name.
fn table<'n>(node: &'n Node, scope: &control::Scope) -> (&'n Groups, Arc<str>) {
    if scope.system_id.is_empty() {
        (&node.groups, Arc::from(scope.group_id.as_str()))
    } else {
        (&node.systems, Arc::from(scope.system_id.as_str()))
    }
}

fn too_many_groups(node: &Node, field: &'static str) -> Refusal {
    let max = node.config.groups_per_agent_max;
    let reason = format!("an agent may be in at most {max} groups, and have as many watches");
    Refusal::of_field(Code::LimitExceeded, field, reason)
}
