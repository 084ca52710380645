//! What is printed of keys: the list, its warnings, and the set of public halves.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Place;
use crate::foreign_clients::python;

fn filled() -> Place {
    let place = Place::new();
    let soon = (Timestamp::now() + SignedDuration::from_hours(24)).to_string();
    place.add("zoe", &["--not-after", &soon]);
    place.add("alice", &["--kid", "a1", "--not-after", &soon]);
    place
        .keys(&["add", "alice", "--kid", "a2", "--out", "a2.json"])
        .row();
    place.add("later", &["--not-before", "2099-01-01T00:00:00Z"]);
    let hmac = [
        "add",
        "bob",
        "--algorithm",
        "HMAC-SHA256",
        "--kid",
        "h",
        "--out",
        "h.json",
    ];
    place.keys(&hmac).row();
    let seal = [
        "add",
        "crew",
        "--algorithm",
        "A256GCM",
        "--kid",
        "s",
        "--out",
        "s.json",
    ];
    place.keys(&seal).row();
    place.keys(&["add", "harbor", "--kid", "own"]).row();
    place.add("past", &["--kid", "old"]);
    place
        .keys(&[
            "rotate",
            "old",
            "--overlap",
            "0",
            "--kid",
            "new",
            "--out",
            "new.json",
        ])
        .rows();
    place
}

/// Ends are whole seconds, so what was to end at once has ended then.
fn wait_for_the_next_second() {
    std::thread::sleep(std::time::Duration::from_secs(1));
}

#[test]
fn the_list_says_all_but_the_secrets_and_warns() {
    let place = filled();
    wait_for_the_next_second();
    let listed = place.keys(&["list", "--json"]);
    assert_eq!(listed.code, Some(0));
    let rows: Vec<Value> = listed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |member: &str| row[member].as_str().unwrap_or("-");
            let can_sign = row["can_sign"].as_bool().unwrap();
            (
                text("agent_id"),
                text("algorithm"),
                text("use"),
                text("state"),
                can_sign,
                row["thumbprint"].is_string(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("alice", "Ed25519", "sig", "live", false, true),
            ("alice", "Ed25519", "sig", "live", false, true),
            ("bob", "HMAC-SHA256", "sig", "live", true, false),
            ("crew", "A256GCM", "enc", "live", false, false),
            ("harbor", "Ed25519", "sig", "live", true, true),
            ("later", "Ed25519", "sig", "not_yet", false, true),
            ("past", "Ed25519", "sig", "ended", false, true),
            ("past", "Ed25519", "sig", "live", false, true),
            ("zoe", "Ed25519", "sig", "live", false, true),
        ]
    );
    // alice has another key; zoe has none.
    assert_eq!(listed.stderr.lines().count(), 1, "{listed:?}");
    assert!(
        listed.stderr.contains("\"zoe\" has no live key from"),
        "{listed:?}"
    );

    let table = place.keys(&["list"]);
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert_eq!(lines.len(), 10);
    let at = lines[0].find("ALGORITHM").unwrap();
    assert!(
        lines[1..]
            .iter()
            .all(|line| line[at - 1..].starts_with(" Ed") || line[at..].starts_with(['H', 'A']))
    );
    assert!(
        lines[6].contains("not_yet") && lines[6].contains("2099-01-01T00:00:00Z"),
        "{table:?}"
    );
}

#[test]
fn what_is_exported_verifies_elsewhere_and_is_public() {
    let place = filled();
    wait_for_the_next_second();
    let exported = place.keys(&["export"]);
    assert_eq!(exported.code, Some(0));
    assert_eq!(
        exported.stderr,
        "harbor: left out: 2 shared secrets, 1 keys that have ended\n"
    );
    let set: Value = serde_json::from_str(&exported.stdout).unwrap();
    let keys = set["keys"].as_array().unwrap();
    let kids: Vec<_> = keys
        .iter()
        .map(|key| key["kid"].as_str().unwrap())
        .collect();
    assert_eq!((kids.len(), kids[1], kids[2]), (6, "a1", "a2"));
    assert!(kids.contains(&"own") && kids.contains(&"new"));
    for key in keys {
        assert!(key["d"].is_null() && key["k"].is_null() && key["x"].is_string());
    }
    let of_alice = place.keys(&["export", "alice"]);
    assert_eq!((of_alice.code, &*of_alice.stderr), (Some(0), ""));
    let of_bob = place.keys(&["export", "bob"]);
    let none: Value = serde_json::from_str(&of_bob.stdout).unwrap();
    assert_eq!(none, json!({"keys": []}));
    assert!(of_bob.stderr.contains("1 shared secrets"));

    let plain = json!({
        "id": "m", "version": "1.0.0", "type": "t", "sender": {"agent_id": "alice"},
        "receiver": {"agent_id": "bob"}, "payload": {"b": [1e21, "\u{e000}"], "a": 0.1},
        "timestamp": "2026-03-01T12:00:00Z",
    });
    let signed = place.run(
        "synapse",
        &["--keys", "a2.json", "sign"],
        &plain.to_string(),
    );
    std::fs::write(place.path("exported.json"), of_alice.stdout).unwrap();
    let signed_at = place.path("signed");
    std::fs::write(&signed_at, &signed.stdout).unwrap();
    let mut program = python("exported.py");
    let output = program
        .args([&place.path("exported.json"), &signed_at])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        printed,
        "verified a2\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = place.keys(&["list", "--json"]).stdout;
    let mut thumbprints = python("exported.py");
    let output = thumbprints
        .arg(place.path("exported.json"))
        .output()
        .unwrap();
    for thumbprint in String::from_utf8(output.stdout).unwrap().lines() {
        assert!(
            listed.contains(thumbprint),
            "{thumbprint} is not in {listed}"
        );
    }
}

#[test]
fn a_keyring_with_seals_and_nothing_to_sign_them_is_warned_of() {
    let place = Place::new();
    let out = place.path("secret.json").display().to_string();
    for (arguments, warns) in [
        (
            &["add", "bob", "--algorithm", "A256GCM", "--out", &out][..],
            true,
        ),
        (&["add", "harbor", "--kid", "own"], false),
        (&["add", "harbor", "--kid", "newer"], false),
        (&["revoke", "own"], false),
        (&["revoke", "newer"], true),
    ] {
        let ran = place.keys(arguments);
        ran.rows();
        assert_eq!(ran.warns_of_seals(), warns, "{ran:?}");
    }
}
