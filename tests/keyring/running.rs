//! A Harbor that runs takes what the commands change.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use synapse::{
    Envelope,
    client::{Client, CloseReason, Options, State},
    keys::{Key, Keyring},
};

use super::Place;
use crate::support::{process::Process, soon};
use tokio::time::Instant;

impl Place {
    fn key_in(&self, file: &str) -> Key {
        let ring = Keyring::from_file(&self.path(file)).unwrap();
        let key = ring.all().next().unwrap();
        (**key).clone()
    }

    /// Connects with the key of a file, as soon as Harbor takes it.
    async fn connect(&self, harbor: &Process, file: &str) -> Client {
        let key = self.key_in(file);
        let options = Options::new(&harbor.url, &key.agent_id).key(key.clone());
        soon("Harbor takes the key", async {
            loop {
                if let Ok(client) = Client::connect(options.clone()).await {
                    return client;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
    }
}

async fn sends(client: &Client) -> bool {
    let message = Envelope::new("note").to(client.agent_id().to_owned());
    client.send(message).await.is_ok()
}

async fn closed(client: &Client) -> CloseReason {
    soon("the connection closes", async {
        loop {
            if let State::Closed(reason) = client.state() {
                return reason;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test]
async fn added_keys_work_rotated_ones_until_their_end_and_revoked_ones_no_longer() {
    let place = Place::new();
    place.add("alice", &[]);
    let harbor = place.guarded(&["--log-level", "trace"]).await;
    let alice = place.connect(&harbor, "alice.json").await;

    place.add("bob", &[]);
    let bob = place.connect(&harbor, "bob.json").await;
    assert!(sends(&alice).await && sends(&bob).await);

    let rotated_at = Timestamp::now();
    let rotated = place.keys(&["rotate", "alice", "--overlap", "5", "--out", "alice-2.json"]);
    let end: Timestamp = rotated.rows()[1]["not_after"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    // Both keys are good: the older connection goes on after the newer key was seen.
    let probe = place.key_in("alice-2.json");
    assert_ne!(probe.kid, place.key_in("alice.json").kid);
    while Timestamp::now() < end - SignedDuration::from_millis(2_500) {
        assert!(sends(&alice).await, "within the overlap");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(end.duration_since(rotated_at) >= SignedDuration::from_secs(5));
    assert_eq!(closed(&alice).await, CloseReason::Unauthorised);
    assert!(Timestamp::now() >= end, "not before its end");
    let alice = place.connect(&harbor, "alice-2.json").await;

    let kid = place.key_in("bob.json").kid;
    let at = Instant::now();
    place.keys(&["revoke", &kid]).row();
    assert_eq!(closed(&bob).await, CloseReason::Unauthorised);
    println!("closed {:?} after the command was started", at.elapsed());
    assert!(at.elapsed() < Duration::from_secs(5), "{:?}", at.elapsed());
    assert!(sends(&alice).await, "nobody else is concerned");
    let text = harbor.metrics().await;
    assert!(
        text.contains("harbor_keys_reloads_total{outcome=\"failed\"} 0"),
        "{text}"
    );
    *place.printed.borrow_mut() += &text;
    let said = harbor.said().await;
    assert!(said.contains("read the keyring again"), "{said}");
    *place.printed.borrow_mut() += &said;
}

#[tokio::test]
async fn a_keyring_that_comes_into_being_is_taken_and_one_that_goes_changes_nothing() {
    let place = Place::new();
    let harbor = Process::in_folder(place.folder.path(), &[]).await;
    assert_eq!(
        harbor.metric("harbor_keys_expire_seconds").await,
        f64::INFINITY
    );
    // While authentication is open, whoever signs must sign rightly; nobody can yet.
    place.add("alice", &["--not-after", "2099-01-01T00:00:00Z"]);
    let alice = place.connect(&harbor, "alice.json").await;
    let left = harbor.metric("harbor_keys_expire_seconds").await;
    assert!((1e9..1e10).contains(&left), "{left}");
    std::fs::remove_file(place.ring()).unwrap();
    let failed = "harbor_keys_reloads_total{outcome=\"failed\"} 1";
    soon("it is missed", async {
        while !harbor.metrics().await.contains(failed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(sends(&alice).await);
    place.add("bob", &[]);
    assert_eq!(
        closed(&alice).await,
        CloseReason::Unauthorised,
        "not in the new one"
    );
    let said = harbor.said().await;
    let complaints = said
        .lines()
        .filter(|line| line.contains("the keyring stays as it was"));
    assert_eq!(complaints.count(), 1, "told once: {said}");
    *place.printed.borrow_mut() += &said;
}

#[tokio::test]
async fn keys_that_end_soon_are_told_at_the_start() {
    let place = Place::new();
    let soon = |hours: i64| (Timestamp::now() + SignedDuration::from_hours(hours)).to_string();
    place.add("bob", &["--not-after", &soon(48)]);
    place.add("alice", &["--not-after", &soon(24)]);
    place
        .keys(&[
            "rotate",
            "alice",
            "--overlap",
            "60",
            "--out",
            "alice-2.json",
        ])
        .rows();
    place.add("carol", &["--not-after", &soon(24 * 8)]);
    let harbor = place.guarded(&[]).await;
    let left = harbor.metric("harbor_keys_expire_seconds").await;
    let wanted = 48.0 * 3_600.0;
    // bob's: alice has a newer one.
    crate::support::soon("the metric is there", async {
        while !((wanted - 60.0)..=wanted)
            .contains(&harbor.metric("harbor_keys_expire_seconds").await)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(left >= wanted - 60.0, "never less: {left}");
    let said = harbor.said().await;
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("7 days"))
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].contains("agents=1") && lines[0].contains("first=bob"),
        "{said}"
    );
    let listed: Value = json!(place.keys(&["list", "--json"]).stderr);
    assert!(
        listed
            .as_str()
            .unwrap()
            .contains("\"bob\" has no live key from"),
        "{listed}"
    );
}
