//! Tests of the rosters a client keeps: order, duplicates, slow readers.

use super::*;

fn scope() -> Scope {
    Scope {
        group_id: "g".into(),
        system_id: String::new(),
    }
}

fn member(agent_id: &str) -> Member {
    Member {
        agent_id: agent_id.into(),
        roles: Vec::new(),
        online: true,
    }
}

fn roster(position: u64, agents: &[&str]) -> Roster {
    Roster {
        scope: scope(),
        position,
        more: false,
        members: agents.iter().map(|agent| member(agent)).collect(),
    }
}

fn change(position: u64, change: Change, agent_id: &str) -> Presence {
    Presence {
        scope: scope(),
        position,
        change,
        member: member(agent_id),
    }
}

fn watched() -> (Watches, Arc<Feed>) {
    let mut watches = Watches::default();
    let feed = watches.subscribe(&scope());
    (watches, feed)
}

fn events(feed: &Feed) -> Vec<PresenceEvent> {
    feed.lock().events.drain(..).collect()
}

#[test]
fn a_snapshot_then_the_changes_after_it() {
    let (mut watches, feed) = watched();
    watches.snapshot(&roster(5, &["a"]));
    watches.change(change(5, Change::Left, "a"));
    watches.change(change(6, Change::Joined, "b"));
    watches.change(change(6, Change::Joined, "b"));
    let expected = [
        PresenceEvent::Snapshot(roster(5, &["a"])),
        PresenceEvent::Change(change(6, Change::Joined, "b")),
    ];
    assert_eq!(events(&feed), expected);
}

#[test]
fn a_change_that_overtakes_its_snapshot_is_kept() {
    let (mut watches, feed) = watched();
    watches.change(change(4, Change::Joined, "old"));
    watches.change(change(6, Change::Left, "a"));
    watches.snapshot(&roster(5, &["a", "b"]));
    assert_eq!(events(&feed), [PresenceEvent::Snapshot(roster(6, &["b"]))]);
}

#[test]
fn a_slow_reader_gets_a_snapshot_in_place_of_what_it_missed() {
    let (mut watches, feed) = watched();
    watches.snapshot(&roster(0, &[]));
    for position in 1..=3_000 {
        watches.change(change(
            position,
            Change::Joined,
            &format!("agent-{position}"),
        ));
    }
    let events = events(&feed);
    assert!(events.len() <= CHANGES_MAX);
    let mut agents = 0;
    for event in events {
        match event {
            PresenceEvent::Snapshot(roster) => agents = roster.members.len(),
            PresenceEvent::Change(_) => agents += 1,
        }
    }
    assert_eq!(agents, 3_000);
}

#[test]
fn a_new_session_starts_from_a_new_snapshot() {
    let (mut watches, feed) = watched();
    watches.snapshot(&roster(90, &["a"]));
    watches.disconnected();
    watches.change(change(2, Change::Joined, "b"));
    watches.snapshot(&roster(1, &[]));
    assert_eq!(events(&feed), [PresenceEvent::Snapshot(roster(2, &["b"]))]);
}

#[test]
fn the_last_unsubscribe_ends_the_watch() {
    let (mut watches, first) = watched();
    let second = watches.subscribe(&scope());
    assert!(!watches.unsubscribe(&scope(), &first));
    assert!(watches.unsubscribe(&scope(), &second));
    assert!(!watches.unsubscribe(&scope(), &second));
    assert!(watches.scopes().is_empty());
}
