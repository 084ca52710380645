//! Who is connected: one entry an agent, one generation a connection.
//!
//! Consulted by the handshake (joining, takeover) and by routing (finding a receiver). Joining
//! gives a lease, which the session releases when it is dropped; a lease of an older generation
//! changes nothing.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::{DashMap, mapref::entry::Entry};
use parking_lot::{Mutex, RwLock};
use synapse::{Code, Refusal, envelope::Endpoint, keys::Key};

use crate::{
    connection::outbox::Outbox, limits::RETRY_AFTER_MS, metrics::Metrics, node::Node,
    tokens::Bearer,
};

/// A connected agent. It stays the same through takeovers.
#[derive(Debug)]
pub struct Agent {
    /// Its address.
    pub id: Arc<str>,
    /// What waits for its socket.
    pub(crate) outbox: Outbox,
    endpoint: RwLock<Arc<Endpoint<'static>>>,
    /// By what its newest connection proved who it is, with that connection's generation.
    proof: RwLock<(u64, Proof)>,
    /// Where it is a member; `None` once it has left for good.
    pub(crate) memberships: Mutex<Option<Memberships>>,
}

/// Where an agent is a member.
#[derive(Debug, Default)]
pub(crate) struct Memberships {
    /// Its groups.
    pub(crate) groups: HashSet<Arc<str>>,
    /// Its system, if it named one.
    pub(crate) system: Option<Arc<str>>,
}

impl Agent {
    /// An agent whose outbox is drained by the connection `generation`.
    pub fn new(endpoint: Endpoint<'static>, generation: u64, outbox_bytes: usize) -> Self {
        Agent {
            id: Arc::from(&*endpoint.agent_id),
            outbox: Outbox::new(generation, outbox_bytes),
            endpoint: RwLock::new(Arc::new(endpoint)),
            proof: RwLock::default(),
            memberships: Mutex::new(Some(Memberships::default())),
        }
    }

    /// How it describes itself, as of its newest connection.
    pub(crate) fn endpoint(&self) -> Arc<Endpoint<'static>> {
        Arc::clone(&self.endpoint.read())
    }

    /// The connection whose proof holds no longer, if it is the agent's newest.
    pub(crate) fn lapsed(&self, node: &Node) -> Option<u64> {
        let proof = self.proof.read();
        let (generation, proof) = &*proof;
        (!proof.holds(node)).then_some(*generation)
    }

    /// Puts a newer token in the place of the one that the connection `generation` registered with;
    /// whether it did with one, and is the agent's newest.
    pub(crate) fn renew(&self, generation: u64, newer: Bearer) -> bool {
        let mut proof = self.proof.write();
        match &mut *proof {
            (
                of,
                Proof {
                    bearer: Some(bearer),
                    ..
                },
            ) if *of == generation => {
                *bearer = newer;
                true
            }
            _ => false,
        }
    }
}

/// By what a connection proved who it is, when it registered.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// The key that signed the registration.
    pub(crate) key: Option<Arc<Key>>,
    /// The newest token.
    pub(crate) bearer: Option<Bearer>,
}

impl Proof {
    /// Whether all of it still holds.
    fn holds(&self, node: &Node) -> bool {
        let key = self.key.as_ref();
        let bearer = self.bearer.as_ref();
        key.is_none_or(|key| node.keys.is_live(key))
            && bearer.is_none_or(|bearer| bearer.holds(node))
    }
}

/// All connected agents.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    agents: DashMap<Arc<str>, Arc<Agent>>,
    generations: AtomicU64,
}

impl Registry {
    /// The agent, if it is connected.
    pub(crate) fn find(&self, agent_id: &str) -> Option<Arc<Agent>> {
        self.agents
            .get(agent_id)
            .map(|entry| Arc::clone(entry.value()))
    }

    /// Every connected agent, one after the other, as the table is while it is walked.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Agent>> {
        self.agents.iter().map(|entry| Arc::clone(entry.value()))
    }

    /// Connects an agent. The newest connection has it; an older one finds out through its outbox.
    /// Also says whether there was one. `admit` has the last word before anything is changed; it
    /// gets the agent that would be taken over.
    ///
    /// # Errors
    ///
    /// [`Code::AgentInUse`] when it is connected and `takeover` is [`Takeover::Refuse`]; those of
    /// `admit`.
    pub(crate) fn join(
        self: &Arc<Self>,
        endpoint: Endpoint<'static>,
        proof: Proof,
        takeover: Takeover,
        outbox_bytes: usize,
        metrics: &Arc<Metrics>,
        admit: impl FnOnce(Option<&Agent>) -> Result<(), Refusal>,
    ) -> Result<(Lease, bool), Refusal> {
        let id: Arc<str> = Arc::from(&*endpoint.agent_id);
        let entry = self.agents.entry(Arc::clone(&id));
        // Numbered under the entry's lock, so that a later connection has a larger number.
        let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        let mut resumed = false;
        let agent = match entry {
            Entry::Occupied(occupied) if takeover == Takeover::Refuse => {
                let reason = format!("{} is connected, and takeover is false", occupied.key());
                return Err(
                    Refusal::of_field(Code::AgentInUse, "sender.agent_id", reason)
                        .retry_after_ms(RETRY_AFTER_MS),
                );
            }
            Entry::Occupied(mut occupied) => {
                let agent = Arc::clone(occupied.get());
                admit(Some(&*agent).filter(|agent| agent.outbox.is_open()))?;
                if agent.outbox.hand_over(generation, metrics) {
                    resumed = true;
                    metrics.takeovers.inc();
                    *agent.endpoint.write() = Arc::new(endpoint);
                    agent
                } else {
                    // The older connection is already closing; its lease will not find itself here.
                    let agent = Arc::new(Agent::new(endpoint, generation, outbox_bytes));
                    occupied.insert(Arc::clone(&agent));
                    agent
                }
            }
            Entry::Vacant(vacant) => {
                admit(None)?;
                metrics.agents.inc();
                let agent = Arc::new(Agent::new(endpoint, generation, outbox_bytes));
                vacant.insert(Arc::clone(&agent));
                agent
            }
        };
        *agent.proof.write() = (generation, proof);
        let lease = Lease {
            registry: Arc::clone(self),
            metrics: Arc::clone(metrics),
            agent,
            generation,
        };
        Ok((lease, resumed))
    }
}

/// What a new connection does about one the agent already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takeover {
    /// Replaces it.
    Replace,
    /// Gives way to it.
    Refuse,
}

/// One connection's hold on its agent.
#[derive(Debug)]
pub(crate) struct Lease {
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    /// The agent.
    pub(crate) agent: Arc<Agent>,
    /// The connection.
    pub(crate) generation: u64,
}

impl Lease {
    /// Whether no newer connection has taken the agent over.
    pub(crate) fn is_current(&self) -> bool {
        self.agent.outbox.generation() == self.generation
    }

    /// Lets go. Whether the agent is gone with it: then its memberships are to be ended.
    pub(crate) fn release(&self) -> bool {
        if !self.is_current() {
            return false;
        }
        let removed = self.registry.agents.remove_if(&self.agent.id, |_, agent| {
            Arc::ptr_eq(agent, &self.agent) && self.is_current()
        });
        if removed.is_some() {
            self.metrics.agents.dec();
        }
        // Either it was removed, or a newer agent object stands in its place.
        let newer_connection = removed.is_none() && !self.is_current();
        if !newer_connection {
            self.agent.outbox.end(&self.metrics);
        }
        !newer_connection
    }
}
