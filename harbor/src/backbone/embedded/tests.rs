//! Goal: what is on disk is there after an end of any kind, and nothing is claimed that is not.
//! Method: stores in folders of their own, opened again; a process of these tests that is killed.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    sync::Arc,
};

use fjall::{Database, KeyspaceCreateOptions};

use super::*;
use crate::{
    backbone::tests::{Model, body, entry, loaded, make},
    limits::SEQ_BLOCK,
};

#[test]
fn a_store_that_is_opened_again_has_all_that_was_submitted() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    let mut model = Model::default();
    for _ in 0..12 {
        let store = Embedded::open(folder.path()).unwrap();
        model.check(&store);
        model.make_some(&mut random, &store);
    }
    // Nobody waits for this one: the end of the store does.
    let store = Embedded::open(folder.path()).unwrap();
    store.submit(vec![Change::PutBody(body(900, "last"))], Box::new(drop));
    drop(store);
    let store = Embedded::open(folder.path()).unwrap();
    assert_eq!(store.body(900).unwrap(), Some(body(900, "last")));
}

#[test]
fn numbers_never_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let store = Embedded::open(folder.path()).unwrap();
        // Into the second block.
        for _ in 0..SEQ_BLOCK + 10 {
            let seq = loop {
                match store.next_seq() {
                    Ok(seq) => break seq,
                    Err(StoreFailed::Busy) => std::thread::yield_now(),
                    Err(other) => panic!("{other}"),
                }
            };
            assert!(seq > last);
            last = seq;
        }
    }
}

#[test]
fn a_store_of_another_format_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(folder.path()).unwrap());
    let path = folder.path().join(FOLDER);
    let database = Database::builder(&path).open().unwrap();
    let meta = database
        .keyspace("meta", KeyspaceCreateOptions::default)
        .unwrap();
    meta.insert("version", 2_u32.to_be_bytes()).unwrap();
    drop((meta, database));
    let problem = Embedded::open(folder.path()).unwrap_err().to_string();
    let want = format!(
        "the store in {} has format 2, and this Harbor knows format 1 only",
        path.display()
    );
    assert_eq!(problem, want);
}

#[test]
fn a_store_in_use_is_not_opened_twice() {
    let folder = tempfile::tempdir().unwrap();
    let first = Embedded::open(folder.path()).unwrap();
    let problem = Embedded::open(folder.path()).unwrap_err();
    assert!(matches!(problem, OpenError::InUse { .. }), "{problem}");
    drop(first);
    Embedded::open(folder.path()).unwrap();
}

#[test]
fn its_folders_are_for_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let _store = Embedded::open(&data).unwrap();
    for made in [data.clone(), data.join(FOLDER)] {
        let mode = made.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", made.display());
    }
}

#[test]
fn the_last_owner_may_be_one_who_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(folder.path()).unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let own = Arc::clone(&store);
    let (let_go, may_end) = std::sync::mpsc::channel::<()>();
    let done = Box::new(move |answer| {
        may_end.recv().unwrap();
        drop(own);
        tell.send(answer).unwrap();
    });
    store.submit(vec![Change::PutEntry(entry("a", 1))], done);
    drop(store);
    let_go.send(()).unwrap();
    let answer = told.recv_timeout(std::time::Duration::from_secs(30));
    assert_eq!(answer.unwrap(), Ok(()));
}

/// Names the data folder to the process that [`what_was_confirmed_outlives_a_kill`] kills.
const KILLED: &str = "HARBOR_TEST_KILLED_STORE";

/// Writes without end and says what was confirmed. By itself, as one of the tests, does nothing.
#[test]
fn the_one_that_is_killed() {
    let Some(folder) = std::env::var_os(KILLED) else {
        return;
    };
    let store = Embedded::open(Path::new(&folder)).unwrap();
    loop {
        let seq = store.next_seq().unwrap();
        let changes = vec![
            Change::PutBody(body(seq, &"x".repeat(2_000))),
            Change::PutEntry(entry("a", seq)),
        ];
        store.submit(
            changes,
            Box::new(move |answer| {
                // At Busy the one that kills is slow, and nothing is claimed.
                if answer.is_ok() {
                    let _ = writeln!(std::io::stdout(), "stored {seq}");
                }
            }),
        );
    }
}

#[test]
fn what_was_confirmed_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "backbone::embedded::tests::the_one_that_is_killed",
            ])
            .env(KILLED, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut confirmed: Vec<u64> = Vec::new();
        for line in out.lines() {
            // The line may be cut short by the kill: such a number is not looked for.
            let line = line.unwrap();
            let Some(seq) = line.strip_prefix("stored ") else {
                continue;
            };
            confirmed.push(seq.parse().unwrap());
            if confirmed.len() == 300 * round {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(confirmed.len(), 300 * round);
        let store = Embedded::open(folder.path()).unwrap();
        let (_, entries) = loaded(&store);
        for seq in confirmed {
            assert!(seq > last);
            last = seq;
            assert!(store.body(seq).unwrap().is_some(), "body {seq}");
            assert!(entries.iter().any(|entry| entry.seq == seq), "entry {seq}");
        }
        for entry in entries {
            let whole = store.body(entry.seq).unwrap();
            assert!(whole.is_some(), "half of submission {}", entry.seq);
            last = last.max(entry.seq);
        }
        let next = store.next_seq().unwrap();
        assert!(next > last);
        last = next;
        make(&store, Vec::new()).unwrap();
    }
}
