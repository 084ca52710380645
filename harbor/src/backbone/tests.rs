//! Goal: every store keeps the contract of [`Backbone`].
//! Method: each case is a function of any store; both run it.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{
    Agent, Backbone, Body, Change, Entry, StoreFailed, embedded::Embedded, memory::Memory,
};
use crate::mailbox::DeadReason;

pub(super) fn body(seq: u64, frame: &str) -> Body {
    Body {
        seq,
        members: r#""received_at":1"#.into(),
        frame: frame.into(),
    }
}

pub(super) fn entry(agent_id: &str, seq: u64) -> Entry {
    Entry {
        agent_id: agent_id.into(),
        seq,
        body: seq.wrapping_add(1),
        bytes: 300,
        deadline_ms: -5,
        priority: 7,
        deliveries: 2,
        wants_receipt: true,
        dead: None,
    }
}

fn agent(agent_id: &str, json: &str) -> Agent {
    Agent {
        agent_id: agent_id.into(),
        json: json.into(),
    }
}

/// Submits and waits.
pub(super) fn make(store: &dyn Backbone, changes: Vec<Change>) -> Result<(), StoreFailed> {
    let (tell, told) = mpsc::channel();
    store.submit(changes, Box::new(move |answer| tell.send(answer).unwrap()));
    told.recv_timeout(Duration::from_secs(30)).unwrap()
}

pub(super) fn loaded(store: &dyn Backbone) -> (Vec<Agent>, Vec<Entry>) {
    let loaded = store.load().unwrap();
    (
        loaded.agents.map(Result::unwrap).collect(),
        loaded.entries.map(Result::unwrap).collect(),
    )
}

fn bodies_are_put_read_and_removed(store: &Arc<dyn Backbone>) {
    let store = &**store;
    assert_eq!(store.body(1).unwrap(), None);
    make(store, vec![Change::PutBody(body(1, "früh"))]).unwrap();
    make(store, vec![Change::PutBody(body(2, ""))]).unwrap();
    assert_eq!(store.body(1).unwrap(), Some(body(1, "früh")));
    assert_eq!(store.body(2).unwrap(), Some(body(2, "")));
    make(store, vec![Change::PutBody(body(1, "anew"))]).unwrap();
    assert_eq!(store.body(1).unwrap(), Some(body(1, "anew")));
    let gone = [1, 9].map(|seq| Change::RemoveBody { seq });
    make(store, gone.into()).unwrap();
    assert_eq!(store.body(1).unwrap(), None);
    assert_eq!(store.body(2).unwrap(), Some(body(2, "")));
}

fn the_last_change_of_a_submission_wins(store: &Arc<dyn Backbone>) {
    let store = &**store;
    make(store, vec![Change::PutBody(body(2, "kept before"))]).unwrap();
    let changes = vec![
        Change::PutBody(body(1, "first")),
        Change::RemoveBody { seq: 1 },
        Change::RemoveBody { seq: 2 },
        Change::PutBody(body(2, "last")),
    ];
    make(store, changes).unwrap();
    assert_eq!(store.body(1).unwrap(), None);
    assert_eq!(store.body(2).unwrap(), Some(body(2, "last")));
}

fn all_that_is_kept_is_loaded_in_order(store: &Arc<dyn Backbone>) {
    let store = &**store;
    // Ids of which one begins another, and numbers whose last bytes sort the other way.
    let mut want = Vec::new();
    for agent_id in ["a", "a!", "aa", "b", "é"] {
        for seq in [1, 255, 256, u64::MAX] {
            want.push(entry(agent_id, seq));
        }
    }
    want[3].dead = Some(DeadReason::Rejected);
    want[4].wants_receipt = false;
    let mut changes: Vec<Change> = want.iter().cloned().map(Change::PutEntry).collect();
    changes.reverse();
    changes.push(Change::PutEntry(entry("b", 7)));
    make(store, changes).unwrap();
    let more = vec![
        Change::RemoveEntry {
            agent_id: "b".into(),
            seq: 7,
        },
        Change::RemoveEntry {
            agent_id: "nobody".into(),
            seq: 7,
        },
        Change::PutAgent(agent("b", "{}")),
        Change::PutAgent(agent("a", r#"{"groups":[1]}"#)),
        Change::PutAgent(agent("c", "{}")),
        Change::RemoveAgent {
            agent_id: "c".into(),
        },
    ];
    make(store, more).unwrap();
    let (agents, entries) = loaded(store);
    assert_eq!(entries, want);
    assert_eq!(agents, [agent("a", r#"{"groups":[1]}"#), agent("b", "{}")]);
}

fn each_is_told_in_order_and_sees_its_own(store: &Arc<dyn Backbone>) {
    let (tell, told) = mpsc::channel();
    for seq in 0..500 {
        let (tell, own) = (tell.clone(), Arc::clone(store));
        store.submit(
            vec![Change::PutBody(body(seq, "x"))],
            Box::new(move |answer| {
                let seen = own.body(seq).unwrap().is_some();
                tell.send((seq, answer, seen)).unwrap();
            }),
        );
    }
    for seq in 0..500 {
        let got = told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(got, (seq, Ok(()), true));
    }
}

fn one_who_is_told_may_submit(store: &Arc<dyn Backbone>) {
    let (tell, told) = mpsc::channel();
    let again = Arc::clone(store);
    store.submit(
        vec![Change::PutBody(body(1, "x"))],
        Box::new(move |answer| {
            answer.unwrap();
            let done = Box::new(move |answer| tell.send(answer).unwrap());
            again.submit(vec![Change::RemoveBody { seq: 1 }], done);
        }),
    );
    let answer = told.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(answer, Ok(()));
    assert_eq!(store.body(1).unwrap(), None);
}

fn what_no_store_can_hold_is_refused_whole(store: &Arc<dyn Backbone>) {
    let store = &**store;
    for agent_id in ["", "a\0b", &"x".repeat(70_000)] {
        let changes = vec![
            Change::PutBody(body(1, "x")),
            Change::PutEntry(entry(agent_id, 1)),
        ];
        let answer = make(store, changes);
        assert!(matches!(answer, Err(StoreFailed::Unfit(_))), "{answer:?}");
    }
    assert_eq!(store.body(1).unwrap(), None);
    assert_eq!(store.health(), Ok(()));
    make(store, Vec::new()).unwrap();
}

fn numbers_rise_from_one_on_all_threads(store: &Arc<dyn Backbone>) {
    assert_eq!(store.next_seq(), Ok(1));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(store);
            std::thread::spawn(move || {
                let given: Vec<u64> = (0..5_000).map(|_| store.next_seq().unwrap()).collect();
                assert!(given.is_sorted_by(|one, next| one < next));
                given
            })
        })
        .collect();
    let mut all: Vec<u64> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(2..20_002));
}

/// What a store should have.
#[derive(Debug, Default)]
pub(super) struct Model {
    bodies: BTreeMap<u64, Body>,
    entries: BTreeMap<(Arc<str>, u64), Entry>,
    agents: BTreeMap<Arc<str>, Agent>,
}

impl Model {
    fn make(&mut self, change: Change) {
        match change {
            Change::PutBody(body) => drop(self.bodies.insert(body.seq, body)),
            Change::RemoveBody { seq } => drop(self.bodies.remove(&seq)),
            Change::PutEntry(entry) => {
                let key = (Arc::clone(&entry.agent_id), entry.seq);
                self.entries.insert(key, entry);
            }
            Change::RemoveEntry { agent_id, seq } => {
                self.entries.remove(&(agent_id, seq));
            }
            Change::PutAgent(agent) => {
                self.agents.insert(Arc::clone(&agent.agent_id), agent);
            }
            Change::RemoveAgent { agent_id } => drop(self.agents.remove(&agent_id)),
        }
    }

    pub(super) fn check(&self, store: &dyn Backbone) {
        let (agents, entries) = loaded(store);
        assert!(agents.iter().eq(self.agents.values()));
        assert!(entries.iter().eq(self.entries.values()));
        for seq in 0..SEQS {
            assert_eq!(store.body(seq).unwrap().as_ref(), self.bodies.get(&seq));
        }
    }

    /// Some submissions by chance, made in both. Few keys, so that they meet.
    pub(super) fn make_some(&mut self, random: &mut fastrand::Rng, store: &dyn Backbone) {
        let (tell, told) = mpsc::channel();
        let submissions = random.usize(1..30);
        for _ in 0..submissions {
            let changes: Vec<Change> = (0..random.usize(0..8)).map(|_| any(random)).collect();
            for change in &changes {
                self.make(change.clone());
            }
            let tell = tell.clone();
            store.submit(changes, Box::new(move |answer| tell.send(answer).unwrap()));
        }
        for _ in 0..submissions {
            let answer = told.recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(answer, Ok(()));
        }
    }
}

const SEQS: u64 = 12;

fn any(random: &mut fastrand::Rng) -> Change {
    let seq = random.u64(0..SEQS);
    let agent_id = ["a", "aa", "b"][random.usize(0..3)];
    match random.u8(0..6) {
        0 => Change::PutBody(body(seq, &"x".repeat(random.usize(0..9_000)))),
        1 => Change::RemoveBody { seq },
        2 => Change::PutEntry(Entry {
            body: random.u64(..),
            bytes: random.u32(..),
            deadline_ms: random.i64(..),
            priority: random.u8(..),
            deliveries: random.u32(..),
            wants_receipt: random.bool(),
            dead: [
                None,
                Some(DeadReason::Unacknowledged),
                Some(DeadReason::Rejected),
            ][random.usize(0..3)],
            ..entry(agent_id, seq)
        }),
        3 => Change::RemoveEntry {
            agent_id: agent_id.into(),
            seq,
        },
        4 => Change::PutAgent(agent(agent_id, &seq.to_string())),
        _ => Change::RemoveAgent {
            agent_id: agent_id.into(),
        },
    }
}

fn any_changes_leave_what_they_should(store: &Arc<dyn Backbone>) {
    let store = &**store;
    let mut random = fastrand::Rng::with_seed(1);
    let mut model = Model::default();
    for _ in 0..50 {
        model.make_some(&mut random, store);
        model.check(store);
    }
}

macro_rules! contract {
    ($($case:ident)*) => {
        mod in_memory {
            use super::*;
            $(#[test]
            fn $case() {
                let store: Arc<dyn Backbone> = Arc::new(Memory::with_room_for(usize::MAX));
                super::$case(&store);
            })*
        }

        mod on_disk {
            use super::*;
            $(#[test]
            fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let store: Arc<dyn Backbone> = Arc::new(Embedded::open(folder.path()).unwrap());
                super::$case(&store);
            })*
        }
    };
}

contract! {
    bodies_are_put_read_and_removed
    the_last_change_of_a_submission_wins
    all_that_is_kept_is_loaded_in_order
    each_is_told_in_order_and_sees_its_own
    one_who_is_told_may_submit
    what_no_store_can_hold_is_refused_whole
    numbers_rise_from_one_on_all_threads
    any_changes_leave_what_they_should
}

#[test]
fn memory_that_is_full_says_busy_and_still_removes() {
    let store = Memory::with_room_for(1_000);
    let large = "x".repeat(600);
    make(&store, vec![Change::PutBody(body(1, &large))]).unwrap();
    let answer = make(&store, vec![Change::PutBody(body(2, &large))]);
    assert_eq!(answer, Err(StoreFailed::Busy));
    make(&store, vec![Change::RemoveBody { seq: 1 }]).unwrap();
    make(&store, vec![Change::PutBody(body(2, &large))]).unwrap();
}
