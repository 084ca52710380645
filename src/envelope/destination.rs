//! Where an envelope says it goes: the addressing fields, read once and checked together.
//!
//! Stands between decoding and routing: the router sees only a [`Destination`], which cannot hold
//! a contradiction.

use std::borrow::Cow;

use super::{Endpoint, Envelope, TargetType};
use crate::refusal::{Code, Refusal};

/// Who a message is for. With a receiver and a group, both sets get it, one copy each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'e> {
    /// Point to point.
    pub receiver: Option<&'e Endpoint<'e>>,
    /// Group or system, at most one of them.
    pub audience: Option<Audience<'e>>,
}

/// The many a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience<'e> {
    /// Members of a group.
    Group {
        /// The group.
        group_id: &'e str,
        /// Which of its members.
        members: Members<'e>,
    },
    /// Every agent of a system.
    System(&'e str),
}

/// Which members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members<'e> {
    /// All.
    All,
    /// Those with one of these roles.
    WithRole(&'e [Cow<'e, str>]),
    /// Those with one of these ids.
    Named(&'e [Cow<'e, str>]),
}

impl<'a> Envelope<'a> {
    /// Reads the addressing fields. `target_type` and `target_ids` count only with a group;
    /// `own_system_id` is the sender's system as it registered, empty for none.
    ///
    /// # Errors
    ///
    /// [`Code::NoDestination`] without receiver, group and broadcast; [`Code::EmptyTargets`] when
    /// roles or members are asked for and none is named; [`Code::InvalidField`] for an empty entry
    /// in `target_ids`; [`Code::MissingField`] when the sender broadcasts to its system and names
    /// none.
    pub fn destination<'e>(&'e self, own_system_id: &'e str) -> Result<Destination<'e>, Refusal> {
        let audience = if !self.group_id.is_empty() {
            Some(Audience::Group {
                group_id: &self.group_id,
                members: self.members()?,
            })
        } else if self.broadcast && own_system_id.is_empty() {
            let reason =
                "a broadcast without group_id goes to the sender's system_id, which is empty";
            return Err(Refusal::of_field(
                Code::MissingField,
                "sender.system_id",
                reason,
            ));
        } else if self.broadcast {
            Some(Audience::System(own_system_id))
        } else {
            None
        };
        if self.receiver.is_none() && audience.is_none() {
            let reason = "the message has neither receiver, group_id nor broadcast";
            return Err(Refusal::of_field(Code::NoDestination, "receiver", reason));
        }
        Ok(Destination {
            receiver: self.receiver.as_ref(),
            audience,
        })
    }

    fn members(&self) -> Result<Members<'_>, Refusal> {
        let ids = self.target_ids.as_slice();
        let members = match self.target_type {
            TargetType::All => return Ok(Members::All),
            TargetType::Role => Members::WithRole(ids),
            TargetType::Specific => Members::Named(ids),
        };
        if ids.is_empty() {
            let reason = format!(
                "target_type is {:?} and target_ids is empty, which means nobody",
                self.target_type.as_str()
            );
            return Err(Refusal::of_field(Code::EmptyTargets, "target_ids", reason));
        }
        if let Some(empty) = ids.iter().position(|id| id.is_empty()) {
            let field = format!("target_ids[{empty}]");
            let reason = format!("{field} is empty");
            return Err(Refusal::of_field(Code::InvalidField, field, reason));
        }
        Ok(members)
    }
}
