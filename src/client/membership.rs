//! Which groups the application wants to be in: the one source of what is registered, joined and
//! left, whether there is a connection or not.
//!
//! Stands beside a frame's way. Handles write down what is wanted; the link brings it to Harbor, at
//! once when connected and with the registration of the next session otherwise. A leave is written
//! down too, so one made during an outage is still a leave afterwards.

use std::collections::BTreeMap;

use super::{
    command::Reply,
    error::{ControlErrorKind, Error},
};
use crate::{Envelope, control::Join};

#[derive(Debug, Default)]
pub(super) struct Membership {
    intents: BTreeMap<String, Intent>,
    versions: u64,
}

#[derive(Debug)]
struct Intent {
    want: Want,
    version: u64,
    /// Whether the current session carries it.
    sent: bool,
    waiter: Option<Waiter>,
}

type Waiter = Reply<Envelope<'static>, ControlErrorKind>;

/// Where the application wants to be with a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Want {
    /// A member with these roles.
    In(Vec<String>),
    /// No member, and Harbor has not confirmed it yet.
    Out,
}

/// One intent to bring to Harbor.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) group_id: String,
    pub(super) want: Want,
    pub(super) version: u64,
    pub(super) waiter: Option<Waiter>,
}

impl Membership {
    /// What is wanted from the start.
    pub(super) fn new(groups: &[Join]) -> Self {
        let mut membership = Membership::default();
        for group in groups {
            let roles = group.all_roles().into_iter().map(str::to_owned).collect();
            membership.want(group.group_id.clone(), Want::In(roles), None);
        }
        membership
    }

    /// Writes down what is wanted now. An earlier intent that was not sent yet is superseded.
    pub(super) fn want(&mut self, group_id: String, want: Want, waiter: Option<Waiter>) -> u64 {
        self.versions += 1;
        let intent = Intent {
            want,
            version: self.versions,
            sent: false,
            waiter,
        };
        let earlier = self.intents.insert(group_id, intent);
        if let Some(waiter) = earlier.and_then(|earlier| earlier.waiter) {
            // Nobody may be listening any more.
            let _ = waiter.send(Err(Error::new(ControlErrorKind::Superseded)));
        }
        self.versions
    }

    /// The groups to register with. What somebody waits for is sent again, for its answer.
    pub(super) fn registration(&mut self) -> Vec<Join> {
        let mut groups = Vec::new();
        for (group_id, intent) in &mut self.intents {
            match &intent.want {
                Want::In(roles) => {
                    intent.sent = intent.waiter.is_none();
                    groups.push(Join::new(group_id, roles));
                }
                Want::Out => intent.sent = false,
            }
        }
        groups
    }

    /// What the current session does not carry yet; from now on it does.
    pub(super) fn take_unsent(&mut self) -> Vec<Change> {
        let unsent = self.intents.iter_mut().filter(|(_, intent)| !intent.sent);
        unsent
            .map(|(group_id, intent)| {
                intent.sent = true;
                Change {
                    group_id: group_id.clone(),
                    want: intent.want.clone(),
                    version: intent.version,
                    waiter: intent.waiter.take(),
                }
            })
            .collect()
    }

    /// Whether this version still waits for a connection.
    pub(super) fn is_unsent(&self, group_id: &str, version: u64) -> bool {
        let intent = self.intents.get(group_id);
        intent.is_some_and(|intent| intent.version == version && !intent.sent)
    }

    /// Harbor did what was wanted. A leave is done with; a join stays wanted.
    pub(super) fn confirmed(&mut self, group_id: &str, version: u64) {
        let intent = self.intents.get(group_id);
        if intent.is_some_and(|intent| intent.version == version && intent.want == Want::Out) {
            self.intents.remove(group_id);
        }
    }

    /// Harbor refused what was wanted; it is not tried again.
    pub(super) fn refused(&mut self, group_id: &str, version: u64) {
        let intent = self.intents.get(group_id);
        if intent.is_some_and(|intent| intent.version == version) {
            self.intents.remove(group_id);
        }
    }

    /// Takes whoever still waits, when the client is closed.
    pub(super) fn close(&mut self) -> Vec<Waiter> {
        let waiters = self.intents.values_mut();
        waiters.filter_map(|intent| intent.waiter.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn roles(roles: &[&str]) -> Want {
        Want::In(roles.iter().map(|role| (*role).to_owned()).collect())
    }

    fn groups(joins: &[Join]) -> Vec<&str> {
        joins.iter().map(|join| join.group_id.as_str()).collect()
    }

    #[test]
    fn what_was_joined_is_registered_again() {
        let mut membership = Membership::new(&[Join::new("a", ["x"])]);
        membership.want("b".into(), roles(&[]), None);
        assert_eq!(membership.take_unsent().len(), 2);
        assert!(membership.take_unsent().is_empty());
        let joins = membership.registration();
        assert_eq!(groups(&joins), ["a", "b"]);
        assert_eq!(joins[0].all_roles(), ["x"]);
        assert!(
            membership.take_unsent().is_empty(),
            "the registration carries both"
        );
    }

    #[test]
    fn a_leave_during_an_outage_stays_a_leave() {
        let mut membership = Membership::new(&[Join::new("a", ["x"])]);
        membership.registration();
        let version = membership.want("a".into(), Want::Out, None);
        assert!(membership.registration().is_empty());
        let changes = membership.take_unsent();
        assert_eq!(
            changes.len(),
            1,
            "Harbor may have kept the membership, so it is told"
        );
        assert_eq!(changes[0].want, Want::Out);
        membership.confirmed("a", version);
        assert!(membership.intents.is_empty());
    }

    #[test]
    fn the_last_intent_wins_and_the_earlier_caller_is_told() {
        let mut membership = Membership::default();
        let (waiter, mut outcome) = oneshot::channel();
        let first = membership.want("a".into(), roles(&["x"]), Some(waiter));
        let last = membership.want("a".into(), Want::Out, None);
        let error = outcome.try_recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), ControlErrorKind::Superseded);
        membership.refused("a", first);
        assert!(
            membership.is_unsent("a", last),
            "an old refusal does not undo the leave"
        );
    }

    #[test]
    fn a_refused_join_is_not_tried_again() {
        let mut membership = Membership::default();
        let version = membership.want("a".into(), roles(&[]), None);
        membership.take_unsent();
        membership.refused("a", version);
        assert!(membership.registration().is_empty());
    }

    #[test]
    fn a_join_somebody_waits_for_is_sent_after_the_registration_too() {
        let mut membership = Membership::default();
        let (waiter, _outcome) = oneshot::channel();
        membership.want("a".into(), roles(&[]), Some(waiter));
        assert_eq!(membership.registration().len(), 1);
        assert_eq!(membership.take_unsent().len(), 1);
    }
}
