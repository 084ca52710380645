//! `AgentEndpoint`: who sends, and who is addressed.
//!
//! Part of every envelope; `agent_id` is the address, the rest describes the agent to others.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// One agent, as it describes itself. An empty text means absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint<'a> {
    /// The address.
    pub agent_id: Cow<'a, str>,
    /// A name for people.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub agent_name: Cow<'a, str>,
    /// Where else the agent is reached, for instance a URL; Harbor does not read it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: Cow<'a, str>,
    /// The system the agent belongs to; a broadcast without group goes to one system.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub system_id: Cow<'a, str>,
    /// The agent's own version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub version: Cow<'a, str>,
    /// What the agent can do; discovery finds it by these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Cow<'a, str>>,
}

impl<'a> Endpoint<'a> {
    /// An endpoint of which only the address is known.
    pub fn new(agent_id: impl Into<Cow<'a, str>>) -> Self {
        Endpoint {
            agent_id: agent_id.into(),
            ..Endpoint::default()
        }
    }

    /// The same, owning all it holds.
    pub fn into_owned(self) -> Endpoint<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Endpoint {
            agent_id: own(self.agent_id),
            agent_name: own(self.agent_name),
            endpoint: own(self.endpoint),
            system_id: own(self.system_id),
            version: own(self.version),
            capabilities: self.capabilities.into_iter().map(own).collect(),
        }
    }
}
