//! What agents do in a round, and who may and must get what: the naive model of the stress test.

use std::collections::{BTreeMap, BTreeSet};

pub const ROLES: [&str; 4] = ["planner", "worker", "reviewer", "观察者"];

/// Role numbers by group.
pub type Memberships = BTreeMap<usize, BTreeSet<usize>>;

/// Whom a message is for.
#[derive(Debug, Clone)]
pub enum To {
    Agent(usize),
    Group(usize),
    Roles(usize, Vec<usize>),
    Members(usize, Vec<usize>),
    GroupAndAgent(usize, usize),
}

/// One message of a round.
#[derive(Debug, Clone)]
pub struct Message {
    /// Counts on through all rounds.
    pub number: usize,
    pub sender: usize,
    pub to: To,
}

/// What one agent does in a round.
#[derive(Debug, Clone)]
pub enum Part {
    /// Sends these.
    Send(Vec<Message>),
    /// Joins groups with these roles, or leaves them (`None`).
    Change(Vec<(usize, Option<BTreeSet<usize>>)>),
    /// Loses its connection without a word, and registers again with its groups.
    Drop,
    /// Connects again this many times while the older connection is open.
    TakeOver(usize),
}

impl Part {
    pub fn messages(&self) -> &[Message] {
        match self {
            Part::Send(messages) => messages,
            Part::Change(_) | Part::Drop | Part::TakeOver(_) => &[],
        }
    }

    pub fn drops(&self) -> bool {
        matches!(self, Part::Drop)
    }

    fn touches(&self, group: usize) -> bool {
        match self {
            Part::Change(changes) => changes.iter().any(|(changed, _)| *changed == group),
            Part::Send(_) | Part::Drop | Part::TakeOver(_) => false,
        }
    }
}

#[derive(Debug)]
pub struct Model {
    agents: Vec<Memberships>,
    groups: usize,
    next_number: usize,
}

impl Model {
    pub fn new(agents: usize, groups: usize, chance: &mut fastrand::Rng) -> Self {
        let membership = |chance: &mut fastrand::Rng| {
            (0..chance.usize(0..3))
                .map(|_| (chance.usize(..groups), roles(chance)))
                .collect()
        };
        Model {
            agents: (0..agents).map(|_| membership(chance)).collect(),
            groups,
            next_number: 0,
        }
    }

    pub fn groups_of(&self, agent: usize) -> Memberships {
        self.agents[agent].clone()
    }

    /// Gives each agent its part; the senders have `messages` between them.
    pub fn plan(&mut self, messages: usize, chance: &mut fastrand::Rng) -> Vec<Part> {
        let mut plan: Vec<Part> = (0..self.agents.len())
            .map(|_| match chance.u8(..100) {
                0..5 => Part::Drop,
                5..10 => Part::TakeOver(chance.usize(1..4)),
                10..20 => Part::Change(self.changes(chance)),
                _ => Part::Send(Vec::new()),
            })
            .collect();
        let senders: Vec<usize> = (0..plan.len())
            .filter(|at| matches!(plan[*at], Part::Send(_)))
            .collect();
        for at in 0..messages {
            let sender = senders[at * senders.len() / messages];
            let message = Message {
                number: self.next_number,
                sender,
                to: self.to(chance),
            };
            self.next_number += 1;
            if let Part::Send(messages) = &mut plan[sender] {
                messages.push(message);
            }
        }
        plan
    }

    fn changes(&self, chance: &mut fastrand::Rng) -> Vec<(usize, Option<BTreeSet<usize>>)> {
        (0..chance.usize(1..5))
            .map(|_| {
                (
                    chance.usize(..self.groups),
                    chance.bool().then(|| roles(chance)),
                )
            })
            .collect()
    }

    fn to(&self, chance: &mut fastrand::Rng) -> To {
        let group = chance.usize(..self.groups);
        let mut some_agents = |count: usize| -> Vec<usize> {
            (0..count)
                .map(|_| chance.usize(..self.agents.len()))
                .collect()
        };
        match some_agents(3)[0] % 10 {
            0 => To::Group(group),
            1 => To::Roles(
                group,
                some_agents(2).iter().map(|n| n % ROLES.len()).collect(),
            ),
            2 => To::Members(group, some_agents(20)),
            3 => To::GroupAndAgent(group, some_agents(1)[0]),
            _ => To::Agent(some_agents(1)[0]),
        }
    }

    /// Who must get a message, and who may, because the membership changes meanwhile.
    pub fn recipients(
        &self,
        message: &Message,
        plan: &[Part],
    ) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
        let (group, receiver) = match &message.to {
            To::Agent(agent) => (None, Some(*agent)),
            To::GroupAndAgent(group, agent) => (Some(*group), Some(*agent)),
            To::Group(group) | To::Roles(group, _) | To::Members(group, _) => (Some(*group), None),
        };
        for (agent, part) in plan.iter().enumerate() {
            let is_receiver = receiver == Some(agent);
            let others = group.filter(|_| agent != message.sender);
            let is_touched = others.is_some_and(|group| part.touches(group));
            let is_in = others.is_some_and(|group| self.is_in(agent, group, &message.to));
            if is_receiver || is_in || (is_touched && names(agent, &message.to)) {
                may.insert(agent);
            }
            if (is_receiver || (is_in && !is_touched)) && !part.drops() {
                must.insert(agent);
            }
        }
        (must, may)
    }

    fn is_in(&self, agent: usize, group: usize, to: &To) -> bool {
        let Some(roles) = self.agents[agent].get(&group) else {
            return false;
        };
        match to {
            To::Roles(_, wanted) => wanted.iter().any(|role| roles.contains(role)),
            To::Agent(_) | To::Group(_) | To::Members(..) | To::GroupAndAgent(..) => {
                names(agent, to)
            }
        }
    }

    /// Takes the changes of a round over.
    pub fn settle(&mut self, plan: &[Part]) {
        for (agent, part) in plan.iter().enumerate() {
            let Part::Change(changes) = part else {
                continue;
            };
            for (group, change) in changes {
                match change {
                    Some(roles) => self.agents[agent].insert(*group, roles.clone()),
                    None => self.agents[agent].remove(group),
                };
            }
        }
    }
}

/// Whether an address could mean this agent, roles left aside.
fn names(agent: usize, to: &To) -> bool {
    match to {
        To::Members(_, agents) => agents.contains(&agent),
        To::Agent(_) | To::Group(_) | To::Roles(..) | To::GroupAndAgent(..) => true,
    }
}

fn roles(chance: &mut fastrand::Rng) -> BTreeSet<usize> {
    (0..chance.usize(0..3))
        .map(|_| chance.usize(..ROLES.len()))
        .collect()
}
