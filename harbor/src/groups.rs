//! Members of groups and of systems, their roles, and who watches them.
//!
//! Consulted by routing, which takes a snapshot and keeps no lock. A change makes a new snapshot
//! only if an old one is still held. Watchers are told of each change under the entry's lock, so a
//! change never overtakes the snapshot a watcher started from.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use dashmap::{
    DashMap,
    mapref::{entry::Entry as Slot, one::RefMut},
};
use indexmap::IndexMap;
use prometheus_client::metrics::gauge::Gauge;
use synapse::control;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::{answer::Answers, connection::outbox::Pushed, metrics::Metrics, registry::Agent};

/// The roles of one member, sorted, each once.
pub type Roles = Arc<[Box<str>]>;

/// One member.
#[derive(Debug, Clone)]
pub struct Member {
    /// Who.
    pub agent: Arc<Agent>,
    /// As what.
    pub roles: Roles,
}

/// The members at one moment, by agent id.
pub type Roster = IndexMap<Arc<str>, Member>;

/// What kind of scope a table holds, which decides the name it has on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scoped {
    /// By `group_id`.
    Groups,
    /// By `system_id`.
    Systems,
}

/// A connection that is told of changes.
#[derive(Debug, Clone)]
struct Watcher {
    agent: Arc<Agent>,
    generation: u64,
}

#[derive(Debug)]
struct Entry {
    roster: Arc<Roster>,
    position: u64,
    watchers: Vec<Watcher>,
}

/// All groups, or all systems.
#[derive(Debug)]
pub(crate) struct Groups {
    scoped: Scoped,
    entries: DashMap<Arc<str>, Entry>,
    /// One count for all entries, so that a position never goes back when a group ends and comes
    /// back.
    positions: AtomicU64,
    answers: Arc<Answers>,
    metrics: Arc<Metrics>,
    /// How many entries there are.
    gauge: Gauge,
}

impl Groups {
    pub(crate) fn new(
        scoped: Scoped,
        answers: Arc<Answers>,
        metrics: Arc<Metrics>,
        gauge: Gauge,
    ) -> Self {
        let entries = DashMap::new();
        Groups {
            scoped,
            entries,
            positions: AtomicU64::new(0),
            answers,
            metrics,
            gauge,
        }
    }

    /// The members as they are now.
    pub(crate) fn snapshot(&self, name: &str) -> Option<Arc<Roster>> {
        self.entries
            .get(name)
            .map(|entry| Arc::clone(&entry.roster))
    }

    /// Every name and roster, one after the other, as the table is while it is walked.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Arc<str>, Arc<Roster>)> {
        let each = self.entries.iter();
        each.map(|entry| (Arc::clone(entry.key()), Arc::clone(&entry.roster)))
    }

    /// The members as an answer tells them: in pages, each of about `bytes_max` at most.
    pub(crate) fn describe(&self, name: &str, bytes_max: usize) -> Vec<control::Roster> {
        match self.entries.get(name) {
            Some(entry) => describe(self.scoped, name, &entry, bytes_max),
            None => describe(self.scoped, name, &self.new_entry(), bytes_max),
        }
    }

    /// Makes an agent a member with exactly these roles, unless a newer one of the same id is.
    pub(crate) fn join(&self, name: &Arc<str>, agent: &Arc<Agent>, roles: Roles) {
        let mut entry = self.entry(name);
        let generation = agent.outbox.generation();
        if entry.roster.get(&agent.id).is_some_and(|member| {
            !Arc::ptr_eq(&member.agent, agent) && member.agent.outbox.generation() > generation
        }) {
            return;
        }
        let member = Member {
            agent: Arc::clone(agent),
            roles,
        };
        let roster = Arc::make_mut(&mut entry.roster);
        let before = roster.insert(Arc::clone(&agent.id), member.clone());
        let change = match before {
            None => Some(control::Change::Joined),
            Some(before) if before.roles != member.roles => Some(control::Change::Changed),
            Some(_) => None,
        };
        if let Some(change) = change {
            self.tell(name, &mut entry, change, &member);
        }
    }

    /// Ends an agent's membership, unless another object of the same id has it by now.
    pub(crate) fn leave(&self, name: &Arc<str>, agent: &Arc<Agent>) {
        let Slot::Occupied(mut slot) = self.entries.entry(Arc::clone(name)) else {
            return;
        };
        let entry = slot.get_mut();
        let is_theirs = entry
            .roster
            .get(&agent.id)
            .is_some_and(|member| Arc::ptr_eq(&member.agent, agent));
        if is_theirs {
            let removed = Arc::make_mut(&mut entry.roster).swap_remove(&agent.id);
            if let Some(member) = removed {
                self.tell(name, entry, control::Change::Left, &member);
            }
        }
        self.remove_if_unused(slot);
    }

    /// Starts a watch: `start` is called with the snapshot's pages before any later change is told.
    pub(crate) fn watch(
        &self,
        name: &Arc<str>,
        agent: &Arc<Agent>,
        generation: u64,
        bytes_max: usize,
        start: impl FnOnce(Vec<control::Roster>),
    ) {
        let mut entry = self.entry(name);
        let known = entry
            .watchers
            .iter()
            .any(|watcher| watcher.generation == generation);
        if !known {
            entry.watchers.push(Watcher {
                agent: Arc::clone(agent),
                generation,
            });
        }
        start(describe(self.scoped, name, &entry, bytes_max));
    }

    fn entry(&self, name: &Arc<str>) -> RefMut<'_, Arc<str>, Entry> {
        self.entries.entry(Arc::clone(name)).or_insert_with(|| {
            self.gauge.inc();
            self.new_entry()
        })
    }

    /// An entry without members, at a position that no earlier one of its name was beyond.
    fn new_entry(&self) -> Entry {
        Entry {
            position: self.positions.load(Ordering::Relaxed),
            roster: Arc::default(),
            watchers: Vec::new(),
        }
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&self, name: &Arc<str>, generation: u64) {
        let Slot::Occupied(mut slot) = self.entries.entry(Arc::clone(name)) else {
            return;
        };
        slot.get_mut()
            .watchers
            .retain(|watcher| watcher.generation != generation);
        self.remove_if_unused(slot);
    }

    /// Ends every watch of which `keep` says no; it gets the name, the agent and its connection.
    pub(crate) fn keep_watchers(&self, keep: impl Fn(&str, &Agent, u64) -> bool) {
        let watched = self
            .entries
            .iter()
            .filter(|entry| !entry.watchers.is_empty());
        let names: Vec<_> = watched.map(|entry| Arc::clone(entry.key())).collect();
        for name in names {
            let Slot::Occupied(mut slot) = self.entries.entry(Arc::clone(&name)) else {
                continue;
            };
            slot.get_mut()
                .watchers
                .retain(|watcher| keep(&name, &watcher.agent, watcher.generation));
            self.remove_if_unused(slot);
        }
    }

    fn remove_if_unused(&self, slot: dashmap::mapref::entry::OccupiedEntry<'_, Arc<str>, Entry>) {
        if slot.get().roster.is_empty() && slot.get().watchers.is_empty() {
            slot.remove();
            self.gauge.dec();
        }
    }

    /// Numbers a change and tells every watcher, in one frame built once.
    fn tell(&self, name: &str, entry: &mut Entry, change: control::Change, member: &Member) {
        entry.position = self.positions.fetch_add(1, Ordering::Relaxed) + 1;
        if entry.watchers.is_empty() {
            return;
        }
        let presence = control::Presence {
            scope: scope(self.scoped, name),
            position: entry.position,
            change,
            member: describe_member(member, change != control::Change::Left),
        };
        let frame: Utf8Bytes = self.answers.frame(control::kind::PRESENCE, "", &presence);
        entry.watchers.retain(|watcher| {
            let outbox = &watcher.agent.outbox;
            outbox.push_control(watcher.generation, frame.clone(), &self.metrics) == Pushed::Queued
        });
    }
}

fn scope(scoped: Scoped, name: &str) -> control::Scope {
    let (group_id, system_id) = match scoped {
        Scoped::Groups => (name.to_owned(), String::new()),
        Scoped::Systems => (String::new(), name.to_owned()),
    };
    control::Scope {
        group_id,
        system_id,
    }
}

fn describe(scoped: Scoped, name: &str, entry: &Entry, bytes_max: usize) -> Vec<control::Roster> {
    let mut members: Vec<_> = entry.roster.values().collect();
    members.sort_unstable_by(|a, b| a.agent.id.cmp(&b.agent.id));
    let page = |more| control::Roster {
        scope: scope(scoped, name),
        position: entry.position,
        members: Vec::new(),
        more,
    };
    let mut pages = vec![page(false)];
    let mut bytes = 0;
    for member in members {
        bytes += bytes_at_most(member);
        if bytes > bytes_max && pages.last().is_some_and(|last| !last.members.is_empty()) {
            bytes = bytes_at_most(member);
            if let Some(full) = pages.last_mut() {
                full.more = true;
            }
            pages.push(page(false));
        }
        if let Some(last) = pages.last_mut() {
            last.members.push(describe_member(member, true));
        }
    }
    pages
}

/// How many bytes a member takes in a roster at most: quotes and backslashes take two each.
fn bytes_at_most(member: &Member) -> usize {
    let names = member.roles.iter().map(|role| 2 * role.len() + 3);
    64 + 2 * member.agent.id.len() + names.sum::<usize>()
}

fn describe_member(member: &Member, online: bool) -> control::Member {
    control::Member {
        agent_id: member.agent.id.to_string(),
        roles: member.roles.iter().map(ToString::to_string).collect(),
        online,
    }
}
