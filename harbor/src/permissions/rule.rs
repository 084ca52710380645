//! One rule of the file of permissions, and the table of all.
//!
//! Read once a file; then asked whether it allows an action.

use std::sync::Arc;

use serde::Deserialize;

use super::{action::Action, pattern::Names};
use crate::config::read_toml;

/// An entry `[[allow]]`: what some agents may do. Every member is a list of names, with wildcards.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rule {
    /// Of whom it speaks.
    agents: Names,
    /// Systems they may register in.
    systems: Names,
    /// Agents they may send to.
    to_agents: Names,
    /// Groups they may send to.
    to_groups: Names,
    /// Systems they may broadcast to.
    broadcast_to: Names,
    /// Types of what they may send so.
    types: Names,
    /// Groups they may join.
    join: Names,
    /// Roles they may have there.
    roles: Names,
    /// Conversations they may read.
    conversations: Names,
    /// Paths of HTTP doors they may call.
    doors: Names,
}

impl Rule {
    /// A rule that allows everything to everybody.
    fn everything() -> Self {
        Rule {
            agents: Names::all(),
            systems: Names::all(),
            to_agents: Names::all(),
            to_groups: Names::all(),
            broadcast_to: Names::all(),
            types: Names::all(),
            join: Names::all(),
            roles: Names::all(),
            conversations: Names::all(),
            doors: Names::all(),
        }
    }

    pub(super) fn allows(&self, action: &Action<'_>) -> bool {
        match *action {
            Action::BeIn { system_id } => self.systems.hold(system_id),
            Action::SendToAgent { agent_id, kind } => {
                self.to_agents.hold(agent_id) && self.types.hold(kind)
            }
            Action::SendToGroup { group_id, kind } => {
                self.to_groups.hold(group_id) && self.types.hold(kind)
            }
            Action::Broadcast { system_id, kind } => {
                self.broadcast_to.hold(system_id) && self.types.hold(kind)
            }
            Action::Join { group_id } => self.join.hold(group_id),
            Action::JoinAs { group_id, role } => self.join.hold(group_id) && self.roles.hold(role),
            Action::SeeAgent { agent_id } => self.to_agents.hold(agent_id),
            Action::SeeGroup { group_id } => {
                self.join.hold(group_id) || self.to_groups.hold(group_id)
            }
            Action::SeeSystem { system_id } => {
                self.systems.hold(system_id) || self.broadcast_to.hold(system_id)
            }
            Action::ReadConversation { conversation_id } => {
                self.conversations.hold(conversation_id)
            }
            Action::CallDoor { path } => self.doors.hold(path),
        }
    }

    /// Refuses a rule that does not say what its writer must have meant.
    fn check(&self) -> Result<(), &'static str> {
        let sends = [&self.to_agents, &self.to_groups, &self.broadcast_to];
        let sends = sends.iter().any(|names| !names.is_empty());
        let others = [&self.systems, &self.join, &self.conversations, &self.doors];
        if self.agents.is_empty() {
            Err("agents says for whom it is; \"*\" is everybody")
        } else if sends && self.types.is_empty() {
            Err("types says what may be sent; \"*\" is any type")
        } else if !sends && !self.types.is_empty() {
            Err("types goes with to_agents, to_groups or broadcast_to")
        } else if self.join.is_empty() && !self.roles.is_empty() {
            Err("roles goes with join")
        } else if !sends && others.iter().all(|names| names.is_empty()) {
            Err("it allows nothing")
        } else {
            Ok(())
        }
    }
}

/// All rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Vec<Arc<Rule>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    allow: Vec<Rule>,
}

impl Table {
    /// Everything is allowed to everybody.
    pub(crate) fn everything() -> Self {
        Table(vec![Arc::new(Rule::everything())])
    }

    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> Result<Table, String> {
        let File { allow } = read_toml(text)?;
        for (at, rule) in allow.iter().enumerate() {
            rule.check()
                .map_err(|problem| format!("[[allow]] number {}: {problem}", at + 1))?;
        }
        Ok(Table(allow.into_iter().map(Arc::new).collect()))
    }

    /// The rules that speak of an agent.
    pub(super) fn of(&self, agent_id: &str) -> Box<[Arc<Rule>]> {
        let speaking = self.0.iter().filter(|rule| rule.agents.hold(agent_id));
        speaking.cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(text: &str, agent_id: &str, action: Action<'_>) -> bool {
        let rules = Table::parse(text).unwrap().of(agent_id);
        rules.iter().any(|rule| rule.allows(&action))
    }

    #[test]
    fn what_no_rule_allows_is_not_allowed() {
        let actions = [
            Action::BeIn { system_id: "s" },
            Action::SendToAgent {
                agent_id: "b",
                kind: "t",
            },
            Action::SendToGroup {
                group_id: "g",
                kind: "t",
            },
            Action::Broadcast {
                system_id: "s",
                kind: "t",
            },
            Action::Join { group_id: "g" },
            Action::JoinAs {
                group_id: "g",
                role: "r",
            },
            Action::SeeAgent { agent_id: "b" },
            Action::SeeGroup { group_id: "g" },
            Action::SeeSystem { system_id: "s" },
            Action::ReadConversation {
                conversation_id: "c",
            },
            Action::CallDoor { path: "/metrics" },
        ];
        let rule = |member: &str| format!("[[allow]]\nagents = [\"a\"]\n{member}\n");
        // Each member allows what stands beside it, and nothing else.
        for (member, allowed) in [
            ("systems = [\"s\"]", &[0, 8][..]),
            ("to_agents = [\"b\"]\ntypes = [\"t\"]", &[1, 6]),
            ("to_groups = [\"g\"]\ntypes = [\"t\"]", &[2, 7]),
            ("broadcast_to = [\"s\"]\ntypes = [\"t\"]", &[3, 8]),
            ("join = [\"g\"]", &[4, 7]),
            ("join = [\"g\"]\nroles = [\"r\"]", &[4, 5, 7]),
            ("conversations = [\"c\"]", &[9]),
            ("doors = [\"/metrics\"]", &[10]),
        ] {
            for (at, action) in actions.iter().enumerate() {
                let is_allowed = allows(&rule(member), "a", *action);
                assert_eq!(is_allowed, allowed.contains(&at), "{member}: {action}");
                assert!(!allows(&rule(member), "b", *action), "{member}: {action}");
            }
        }
        for action in actions {
            assert!(!allows("", "a", action));
            let everything = Table::everything().of("a");
            assert!(everything.iter().any(|rule| rule.allows(&action)));
        }
    }

    #[test]
    fn the_printed_file_is_one_to_start_from() {
        let rules = |text: &str| Table::parse(text).unwrap().len();
        assert_eq!(rules(super::super::START_FILE), 1);
        let uncommented = super::super::START_FILE.replace("\n#[", "\n[");
        let uncommented: String = uncommented
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(char::is_alphabetic) => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        assert_eq!(rules(&uncommented), 3);
    }

    #[test]
    fn types_and_roles_narrow_their_own_rule_only() {
        let text = r#"
            [[allow]]
            agents = ["a*"]
            to_agents = ["b"]
            types = ["task.*"]
            [[allow]]
            agents = ["*"]
            to_groups = ["g"]
            types = ["note"]
        "#;
        let to_agent = |kind| Action::SendToAgent {
            agent_id: "b",
            kind,
        };
        let to_group = |kind| Action::SendToGroup {
            group_id: "g",
            kind,
        };
        assert!(allows(text, "a1", to_agent("task.new")));
        assert!(!allows(text, "a1", to_agent("note")));
        assert!(allows(text, "a1", to_group("note")));
        assert!(!allows(text, "a1", to_group("task.new")));
        assert!(!allows(text, "c", to_agent("task.new")));
    }

    #[test]
    fn a_file_that_says_too_little_or_too_much_is_refused_by_its_place() {
        for (text, problem) in [
            (
                "[[allow]]\nto_agents = [\"b\"]\ntypes = [\"*\"]",
                "number 1: agents",
            ),
            ("[[allow]]\nagents = [\"a\"]", "number 1: it allows nothing"),
            (
                "[[allow]]\nagents = [\"a\"]\nto_agents = [\"b\"]",
                "number 1: types says",
            ),
            (
                "[[allow]]\nagents = [\"a\"]\njoin = [\"b\"]\ntypes = [\"*\"]",
                "types goes with",
            ),
            (
                "[[allow]]\nagents = [\"a\"]\ndoors = [\"b\"]\nroles = [\"*\"]",
                "roles goes with",
            ),
            (
                "[[allow]]\nagents = [\"a\"]\ngroups = [\"b\"]",
                "line 3: unknown field `groups`",
            ),
            ("[[allow]]\nagents = \"a\"", "line 2: invalid type"),
            ("[[deny]]\nagents = [\"a\"]", "line 1: unknown field `deny`"),
            ("[[allow]]\nagents = [\"\"]", "line 2: \"\" is no name"),
            ("[[allow]\n", "line 1: "),
        ] {
            let error = Table::parse(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
