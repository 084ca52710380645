//! What a change leaves as it was: order, foreign members, mode, owner, links. And rotating, revoking.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Place, keys_of, mode};

fn write(place: &Place, set: &Value) {
    std::fs::create_dir_all(place.path("harbor-data")).unwrap();
    std::fs::write(place.ring(), set.to_string()).unwrap();
    std::fs::set_permissions(place.ring(), PermissionsExt::from_mode(0o600)).unwrap();
}

fn time(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

#[test]
fn members_of_others_and_the_order_of_the_keys_stay() {
    let place = Place::new();
    place.add("zoe", &[]);
    place.add("alice", &[]);
    let mut keys = keys_of(&place.ring());
    keys[0]["x5c"] = json!(["MIIB", {"deep": [1, 1.5, null, true]}]);
    keys[1]["comment"] = json!("the laptop \u{1f4bb}");
    write(&place, &json!({"keys": keys, "issued by": {"name": "ops"}}));
    place.add("mia", &["--not-before", "2026-01-01T00:00:00+02:00"]);
    place.keys(&["rotate", "alice", "--out", "a2.json"]).rows();
    let keygen = ["--keys", "harbor-data/keys.json", "--agent", "k", "keygen"];
    place.run("synapse", &keygen, "").row();
    assert_eq!(place.keys(&["revoke", "mia-x"]).code, Some(65));

    let text = std::fs::read_to_string(place.ring()).unwrap();
    let set: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(set["issued by"], json!({"name": "ops"}));
    let now = set["keys"].as_array().unwrap();
    let agents: Vec<_> = now
        .iter()
        .map(|key| key["agent_id"].as_str().unwrap())
        .collect();
    assert_eq!(agents, ["zoe", "alice", "mia", "alice", "k"]);
    assert_eq!(now[0], keys[0], "untouched");
    assert_eq!(now[1]["comment"], keys[1]["comment"]);
    assert_eq!(
        now[2]["not_before"], "2026-01-01T00:00:00+02:00",
        "as it was typed"
    );
    assert!(now[3]["comment"].is_null(), "a newer key is another one");
}

#[test]
fn mode_owner_and_links_stay_and_nothing_is_left_beside() {
    let place = Place::new();
    place.add("alice", &[]);
    let real = place.path("elsewhere.json");
    std::fs::rename(place.ring(), &real).unwrap();
    std::os::unix::fs::symlink(&real, place.ring()).unwrap();
    std::fs::set_permissions(&real, PermissionsExt::from_mode(0o400)).unwrap();
    // Only root may give a file away.
    let (uid, gid) = match std::os::unix::fs::chown(&real, Some(12_345), Some(54_321)) {
        Ok(()) => (12_345, 54_321),
        Err(_) => {
            let metadata = std::fs::metadata(&real).unwrap();
            (metadata.uid(), metadata.gid())
        }
    };
    // What a process that was killed left.
    std::fs::write(place.path("elsewhere.json.lock"), "{\"keys\":[{\"left over").unwrap();
    place.add("bob", &[]);
    assert!(
        std::fs::symlink_metadata(place.ring())
            .unwrap()
            .is_symlink()
    );
    assert_eq!((mode(&real), keys_of(&real).len()), (0o400, 2));
    let metadata = std::fs::metadata(&real).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (uid, gid));
    let beside = |folder: &str| {
        let entries = std::fs::read_dir(place.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    assert_eq!(beside("harbor-data"), ["keys.json"]);
    let kept = ["alice.json", "bob.json", "elsewhere.json", "harbor-data"];
    assert_eq!(beside(""), kept);
    // What fails leaves nothing either.
    assert_eq!(place.keys(&["revoke", "nobody"]).code, Some(65));
    assert_eq!(beside(""), kept);
}

#[test]
fn a_rotation_adds_a_newer_key_and_ends_the_older_one_after_the_overlap() {
    let place = Place::new();
    let old = place.add("alice", &[]);
    let before = Timestamp::now();
    let rotated = place
        .keys(&["rotate", "alice", "--overlap", "100", "--out", "new.json"])
        .rows();
    let [newer, older] = rotated.as_slice() else {
        panic!("{rotated:?}");
    };
    assert_eq!(older["kid"], old["kid"]);
    assert_eq!(newer["kid"], format!("{}-2", old["kid"].as_str().unwrap()));
    assert_eq!(
        (&newer["algorithm"], &newer["state"]),
        (&json!("Ed25519"), &json!("live"))
    );
    assert!(newer["not_after"].is_null());
    let left = time(&older["not_after"]).duration_since(before);
    let (least, most) = (
        SignedDuration::from_secs(100),
        SignedDuration::from_secs(121),
    );
    assert!(least <= left && left < most, "{left:?}");
    assert_eq!(place.in_file("new.json")[0]["kid"], newer["kid"]);
    assert!(keys_of(&place.ring()).iter().all(|key| key["d"].is_null()));

    // Again, by the key; an end that is nearer than the overlap stays.
    let again = place
        .keys(&[
            "rotate",
            newer["kid"].as_str().unwrap(),
            "--overlap",
            "50",
            "--out",
            "3.json",
        ])
        .rows();
    assert_eq!(again[1]["kid"], newer["kid"]);
    assert_eq!(place.in_file("3.json")[0]["agent_id"], "alice");
    let all = place.keys(&["rotate", "alice", "--out", "4.json"]).rows();
    assert_eq!(
        all.len(),
        4,
        "every key of the agent that has not ended: {all:?}"
    );
    assert_eq!(all[1]["not_after"], older["not_after"]);
    assert_eq!(all[2]["not_after"], again[1]["not_after"]);

    // Each kind stays what it is; the agent can make the newer one itself; Harbor's own has no file.
    for algorithm in ["HMAC-SHA512", "A256GCM"] {
        let first = format!("{algorithm}.json");
        let kid = ["--kid", algorithm, "--algorithm", algorithm];
        place
            .keys(&[&["add", algorithm, "--out", &first], &kid[..]].concat())
            .row();
        let second = format!("{algorithm}-2.json");
        let rows = place.keys(&["rotate", algorithm, "--out", &second]).rows();
        assert_eq!(rows[0]["algorithm"], algorithm);
        assert_ne!(
            place.in_file(&first)[0]["k"],
            place.in_file(&second)[0]["k"]
        );
    }
    let keygen = [
        "--keys", "own.json", "--agent", "alice", "keygen", "--kid", "own", "--public", "p.json",
    ];
    place.run("synapse", &keygen, "").row();
    let rows = place
        .keys(&["rotate", "alice", "--public", "p.json", "--overlap", "0"])
        .rows();
    assert_eq!(rows[0]["kid"], "own");
    place.keys(&["add", "harbor"]).row();
    assert_eq!(
        place.keys(&["rotate", "harbor"]).rows()[0]["can_sign"],
        true
    );
}

#[test]
fn a_revoked_key_is_gone_and_the_last_one_may_be() {
    let place = Place::new();
    let kid = place.add("alice", &[])["kid"].as_str().unwrap().to_owned();
    let row = place.keys(&["revoke", &kid]).row();
    assert_eq!(
        (&row["kid"], &row["state"]),
        (&json!(kid), &json!("revoked"))
    );
    assert!(keys_of(&place.ring()).is_empty());
    assert!(place.keys(&["list", "--json"]).rows().is_empty());
    assert!(place.keys(&["revoke", &kid]).failed(65).contains(&kid));
}
