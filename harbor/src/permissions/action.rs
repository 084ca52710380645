//! What needs permission, by the names it concerns.
//!
//! Made by `authorise` from what a message, a registration or a request asks for; its text stands in
//! the refusal.

use std::fmt;

/// What an agent wants to do, as far as it needs permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Be in a system.
    BeIn { system_id: &'a str },
    /// Send a message of this type to an agent.
    SendToAgent { agent_id: &'a str, kind: &'a str },
    /// Send a message of this type to members of a group.
    SendToGroup { group_id: &'a str, kind: &'a str },
    /// Send a message of this type to everybody in a system.
    Broadcast { system_id: &'a str, kind: &'a str },
    /// Be a member of a group.
    Join { group_id: &'a str },
    /// Have a role in a group.
    JoinAs { group_id: &'a str, role: &'a str },
    /// Find an agent, and learn how it describes itself.
    SeeAgent { agent_id: &'a str },
    /// Learn who is in a group.
    SeeGroup { group_id: &'a str },
    /// Learn who is in a system.
    SeeSystem { system_id: &'a str },
    /// Read what was said in a conversation.
    ReadConversation { conversation_id: &'a str },
    /// Call an HTTP door, by its path.
    CallDoor { path: &'a str },
}

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::BeIn { system_id } => write!(f, "be in system {system_id:?}"),
            Action::SendToAgent { agent_id, kind } => {
                write!(f, "send {kind:?} to agent {agent_id:?}")
            }
            Action::SendToGroup { group_id, kind } => {
                write!(f, "send {kind:?} to group {group_id:?}")
            }
            Action::Broadcast { system_id, kind } => {
                write!(f, "broadcast {kind:?} to system {system_id:?}")
            }
            Action::Join { group_id } => write!(f, "join group {group_id:?}"),
            Action::JoinAs { group_id, role } => write!(f, "be {role:?} in group {group_id:?}"),
            Action::SeeAgent { agent_id } => write!(f, "see agent {agent_id:?}"),
            Action::SeeGroup { group_id } => write!(f, "see group {group_id:?}"),
            Action::SeeSystem { system_id } => write!(f, "see system {system_id:?}"),
            Action::ReadConversation { conversation_id } => {
                write!(f, "read conversation {conversation_id:?}")
            }
            Action::CallDoor { path } => write!(f, "call {path}"),
        }
    }
}
