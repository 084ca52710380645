//! Goal: exactly the right agents get a copy, whatever an envelope asks for.
//! Method: the whole product of receiver, group, broadcast, target_type, target_ids, membership and
//! roles in one small world, each case against a naive model that asks of every agent in turn
//! whether it should get one; then the same model over random worlds.

use std::{borrow::Cow, collections::BTreeSet};

use proptest::prelude::*;
use synapse::{
    Code, Envelope,
    envelope::{Endpoint, TargetType},
};

use super::*;
use crate::groups::{Member, Roles};

/// A world of agents as a person would write it down.
#[derive(Debug, Clone)]
struct World {
    agents: Vec<Person>,
}

#[derive(Debug, Clone)]
struct Person {
    id: &'static str,
    system_id: &'static str,
    /// Roles in the group `g`, if a member.
    roles_in_g: Option<Vec<&'static str>>,
}

const SENDER: &str = "a";

impl World {
    fn agent(&self, id: &str) -> Option<&Person> {
        self.agents.iter().find(|person| person.id == id)
    }

    fn real(&self, id: &str) -> Option<Arc<Agent>> {
        let person = self.agent(id)?;
        let mut endpoint = Endpoint::new(person.id);
        endpoint.system_id = Cow::Borrowed(person.system_id);
        Some(Arc::new(Agent::new(endpoint, 1, 1_000)))
    }

    fn roster(&self, is_in: impl Fn(&Person) -> bool) -> Option<Arc<Roster>> {
        let roster: Roster = self
            .agents
            .iter()
            .filter(|person| is_in(person))
            .map(|person| {
                let roles: Roles = person
                    .roles_in_g
                    .iter()
                    .flatten()
                    .map(|role| Box::from(*role))
                    .collect();
                let agent = self.real(person.id).unwrap();
                (Arc::clone(&agent.id), Member { agent, roles })
            })
            .collect();
        Some(Arc::new(roster)).filter(|roster| !roster.is_empty())
    }

    /// What intake looks up.
    fn snapshot(&self, destination: &Destination<'_>) -> Snapshot {
        let receiver = destination.receiver.and_then(|to| self.real(&to.agent_id));
        let receiver_system_id = receiver
            .as_ref()
            .map(|agent| agent.endpoint().system_id.to_string());
        let audience = match destination.audience {
            Some(Audience::Group { group_id: "g", .. }) => self.roster(|p| p.roles_in_g.is_some()),
            Some(Audience::Group { .. }) | None => None,
            Some(Audience::System(system)) => self.roster(|person| person.system_id == system),
        };
        Snapshot {
            receiver,
            receiver_system_id: receiver_system_id.unwrap_or_default(),
            audience,
        }
    }

    /// The naive model: may this agent get a copy?
    fn should_get(&self, envelope: &Envelope<'_>, person: &Person) -> bool {
        if let Some(to) = &envelope.receiver
            && to.agent_id == person.id
            && (to.system_id.is_empty() || to.system_id == person.system_id)
        {
            return true;
        }
        if person.id == SENDER {
            return false;
        }
        if envelope.group_id.is_empty() {
            let own = self.agent(SENDER).unwrap().system_id;
            return envelope.broadcast && person.system_id == own;
        }
        let Some(roles) = person
            .roles_in_g
            .as_ref()
            .filter(|_| envelope.group_id == "g")
        else {
            return false;
        };
        let names = |name: &str| envelope.target_ids.iter().any(|id| id == name);
        match envelope.target_type {
            TargetType::All => true,
            TargetType::Role => roles.iter().any(|role| names(role)),
            TargetType::Specific => names(person.id),
        }
    }

    fn check(&self, envelope: &Envelope<'_>) -> Result<usize, TestCaseError> {
        let own = self.agent(SENDER).unwrap().system_id;
        let narrowed = !envelope.group_id.is_empty() && envelope.target_type != TargetType::All;
        let addressed =
            envelope.receiver.is_some() || !envelope.group_id.is_empty() || envelope.broadcast;
        let destination = match envelope.destination(own) {
            Ok(destination) => destination,
            Err(refusal) => {
                let expected = if narrowed && envelope.target_ids.is_empty() {
                    Code::EmptyTargets
                } else if narrowed && envelope.target_ids.iter().any(|id| id.is_empty()) {
                    Code::InvalidField
                } else if addressed {
                    prop_assert!(envelope.broadcast && own.is_empty());
                    Code::MissingField
                } else {
                    Code::NoDestination
                };
                prop_assert_eq!(refusal.code, expected);
                return Ok(0);
            }
        };
        prop_assert!(addressed);
        let snapshot = self.snapshot(&destination);
        let route = route(SENDER, &destination, &snapshot);
        let got: BTreeSet<&str> = route.hops.iter().map(|agent| &*agent.id).collect();
        prop_assert_eq!(got.len(), route.hops.len(), "one copy an agent");
        let wanted: BTreeSet<&str> = self
            .agents
            .iter()
            .filter(|person| self.should_get(envelope, person))
            .map(|person| person.id)
            .collect();
        prop_assert_eq!(got, wanted, "{:?}", envelope);
        Ok(route.hops.len())
    }
}

fn envelope(
    receiver: Option<(&'static str, &'static str)>,
    group_id: &'static str,
    broadcast: bool,
    target_type: TargetType,
    target_ids: &[&'static str],
) -> Envelope<'static> {
    let mut envelope = Envelope::new("chat");
    envelope.receiver = receiver.map(|(id, system_id)| Endpoint {
        system_id: Cow::Borrowed(system_id),
        ..Endpoint::new(id)
    });
    envelope.group_id = Cow::Borrowed(group_id);
    envelope.broadcast = broadcast;
    envelope.target_type = target_type;
    envelope.target_ids = target_ids.iter().map(|id| Cow::Borrowed(*id)).collect();
    envelope
}

const RECEIVERS: [Option<(&str, &str)>; 7] = [
    None,
    Some(("a", "")),
    Some(("b", "")),
    Some(("b", "s1")),
    Some(("b", "s2")),
    Some(("d", "")),
    Some(("nobody", "")),
];
const GROUPS: [&str; 3] = ["", "g", "no-such-group"];
const TYPES: [TargetType; 3] = [TargetType::All, TargetType::Role, TargetType::Specific];
const TARGETS: [&[&str]; 9] = [
    &[],
    &[""],
    &["r1"],
    &["r1", "r2", "r1"],
    &["no-such-role"],
    &["b"],
    &["a", "b", "b", "c"],
    &["d", "nobody"],
    &["b", ""],
];

/// The product of all addressing fields.
fn every_envelope() -> impl Iterator<Item = Envelope<'static>> {
    let flags = [false, true];
    RECEIVERS.into_iter().flat_map(move |receiver| {
        GROUPS.into_iter().flat_map(move |group_id| {
            flags.into_iter().flat_map(move |broadcast| {
                let types = TYPES.into_iter();
                types.flat_map(move |of| {
                    TARGETS.map(|ids| envelope(receiver, group_id, broadcast, of, ids))
                })
            })
        })
    })
}

#[test]
fn the_whole_product() {
    let memberships: [Option<Vec<&'static str>>; 4] =
        [None, Some(vec![]), Some(vec!["r1"]), Some(vec!["r1", "r2"])];
    let (mut cases, mut copies) = (0, 0);
    for (a, b) in (0..16).map(|at| (at / 4, at % 4)) {
        for own_system in ["", "s1"] {
            let person = |id, system_id, roles_in_g| Person {
                id,
                system_id,
                roles_in_g,
            };
            let world = World {
                agents: vec![
                    person("a", own_system, memberships[a].clone()),
                    person("b", "s1", memberships[b].clone()),
                    person("c", "s2", Some(vec!["r2"])),
                    person("d", "s1", None),
                ],
            };
            for envelope in every_envelope() {
                copies += world.check(&envelope).unwrap();
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 16 * 2 * 7 * 3 * 6 * 9);
    assert!(copies > cases / 4, "the cases do deliver: {copies} copies");
}

const IDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "智能体", "a b"];
const ROLES: [&str; 4] = ["r1", "r2", "r3", "*"];

fn world() -> impl Strategy<Value = World> {
    let roles = prop::option::of(prop::sample::subsequence(&ROLES[..], 0..=4));
    let person = (prop::sample::select(vec!["", "s1", "s2"]), roles);
    prop::collection::vec(person, 1..=IDS.len()).prop_map(|people| World {
        agents: IDS
            .into_iter()
            .zip(people)
            .map(|(id, (system_id, roles_in_g))| Person {
                id,
                system_id,
                roles_in_g,
            })
            .collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn equals_the_model_in_random_worlds(
        world in world(),
        receiver in prop::option::of((prop::sample::select(&IDS[..]), prop::sample::select(vec!["", "s1", "s2"]))),
        group_id in prop::sample::select(&GROUPS[..]),
        broadcast in any::<bool>(),
        target_type in prop::sample::select(&TYPES[..]),
        targets in prop::collection::vec(prop::sample::select(["", "r1", "r3", "*", "a", "c", "智能体"].as_slice()), 0..5),
    ) {
        world.check(&envelope(receiver, group_id, broadcast, target_type, &targets))?;
    }
}
