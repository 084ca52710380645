//! What cannot be done is one line that names the file, the key or the member, and changes nothing.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{Place, mode};

#[test]
fn what_cannot_be_done_is_one_line_and_changes_nothing() {
    let place = Place::new();
    let none = place.keys(&["list"]);
    assert!(
        none.failed(66).contains("harbor keys add AGENT"),
        "{none:?}"
    );
    assert!(
        place
            .keys(&["rotate", "a"])
            .failed(66)
            .contains("harbor-data/keys.json")
    );
    assert!(
        place
            .keys(&["revoke", "a"])
            .failed(66)
            .contains("harbor-data/keys.json")
    );
    assert!(!place.path("harbor-data").exists());
    place.add("alice", &["--kid", "k"]);
    place.add("bob", &["--kid", "carol"]);
    place
        .keys(&["add", "carol", "--kid", "c", "--out", "c.json"])
        .row();
    let seal = [
        "add",
        "carol",
        "--algorithm",
        "A256GCM",
        "--out",
        "seal.json",
    ];
    place.keys(&seal).row();
    let file = |name: &str, text: String| std::fs::write(place.path(name), text).unwrap();
    let zero = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let okp = |x: &str| json!({"kty": "OKP", "crv": "Ed25519", "kid": "p", "x": x});
    file("small.json", okp(zero).to_string());
    file("short.json", okp("AAAA").to_string());
    file("none.json", "not JSON".to_owned());
    file("hmac.json", json!({"kty": "oct", "k": zero}).to_string());
    let two = json!([{"kty": "OKP", "kid": "1", "agent_id": "x"}, {"kty": "OKP", "kid": "2", "agent_id": "x"}]);
    file("two.json", json!({"keys": two}).to_string());
    let before = std::fs::read(place.ring()).unwrap();
    let add = |arguments: &[&'static str]| [&["add"], arguments].concat();
    for (arguments, code, parts) in [
        (
            vec![],
            64,
            vec!["keys: a subcommand is missing", "rotate", "export"],
        ),
        (vec!["add"], 64, vec!["<AGENT>"]),
        (vec!["renew"], 64, vec!["renew"]),
        (add(&["x"]), 64, vec!["--out", "public half"]),
        (
            add(&["x", "--algorithm", "HMAC-SHA256"]),
            64,
            vec!["--out", "agent needs it"],
        ),
        (
            add(&["x", "--algorithm", "RS256", "--out", "x.json"]),
            64,
            vec!["RS256", "Ed25519 or A256GCM"],
        ),
        (
            add(&["x", "--out", "x.json", "--kid", "k"]),
            65,
            vec!["kid", "\"k\"", "\"alice\""],
        ),
        (
            add(&[
                "x",
                "--out",
                "x.json",
                "--not-after",
                "2020-01-01T00:00:00Z",
            ]),
            65,
            vec!["not_after"],
        ),
        (
            add(&[
                "x",
                "--out",
                "x.json",
                "--not-before",
                "2090-01-01T00:00:00Z",
                "--not-after",
                "2089-01-01T00:00:00Z",
            ]),
            65,
            vec!["not_after", "never"],
        ),
        (
            add(&["x", "--out", "x.json", "--not-after", "tomorrow"]),
            64,
            vec!["--not-after", "RFC 3339"],
        ),
        (add(&["x\u{7}y", "--out", "x.json"]), 65, vec!["agent_id"]),
        (add(&["", "--out", "x.json"]), 65, vec!["agent_id"]),
        (add(&["x", "--out", "x.json", "--kid", ""]), 65, vec!["kid"]),
        (
            add(&["x", "--out", "alice.json"]),
            73,
            vec!["--out", "alice.json", "exists"],
        ),
        (
            add(&["x", "--out", "no/such/x.json"]),
            73,
            vec!["--out", "no/such/x.json"],
        ),
        (
            add(&["x", "--out", "harbor-data/../harbor-data/keys.json"]),
            64,
            vec!["--out", "keyring"],
        ),
        (
            add(&["harbor", "--out", "x.json"]),
            64,
            vec!["--out", "stays"],
        ),
        (
            add(&["harbor", "--algorithm", "HMAC-SHA256", "--out", "x.json"]),
            64,
            vec!["--algorithm", "Ed25519"],
        ),
        (
            add(&["harbor", "--public", "small.json"]),
            64,
            vec!["--public"],
        ),
        (
            add(&["x", "--public", "small.json"]),
            65,
            vec!["x:", "small order", "\"p\""],
        ),
        (
            add(&["x", "--public", "short.json"]),
            65,
            vec!["x:", "32 bytes"],
        ),
        (
            add(&["x", "--public", "none.json"]),
            65,
            vec!["none.json", "JSON Web Key"],
        ),
        (
            add(&["x", "--public", "hmac.json"]),
            65,
            vec!["hmac.json", "kty", "OKP"],
        ),
        (
            add(&["x", "--public", "two.json"]),
            65,
            vec!["two.json", "--kid"],
        ),
        (
            add(&["x", "--public", "alice.json"]),
            65,
            vec!["agent_id", "\"alice\""],
        ),
        (
            add(&["alice", "--public", "alice.json"]),
            65,
            vec!["d:", "secret"],
        ),
        (add(&["x", "--public", "gone.json"]), 66, vec!["gone.json"]),
        (
            add(&["x", "--public", "small.json", "--out", "x.json"]),
            64,
            vec!["--out"],
        ),
        (
            add(&[
                "x",
                "--public",
                "two.json",
                "--kid",
                "1",
                "--algorithm",
                "A256GCM",
            ]),
            64,
            vec!["--algorithm"],
        ),
        (vec!["rotate", "nobody"], 65, vec!["\"nobody\""]),
        (vec!["rotate", "alice"], 64, vec!["--out"]),
        (
            vec!["rotate", "carol", "--out", "x.json"],
            65,
            vec!["\"carol\"", "another agent"],
        ),
        (vec!["rotate", "alice", "--overlap", "-1"], 64, vec!["-1"]),
        (
            vec!["rotate", "alice", "--overlap", "1e9", "--out", "x.json"],
            64,
            vec!["--overlap"],
        ),
        (vec!["revoke", "alice"], 65, vec!["kid", "\"alice\""]),
        (vec!["export", "nobody"], 65, vec!["agent", "\"nobody\""]),
        (vec!["list", "--keys", "gone.json"], 66, vec!["gone.json"]),
        (
            add(&["x", "--keys", "no/such.json", "--out", "x.json"]),
            73,
            vec!["no/such.json"],
        ),
        (vec!["list", "--config", "gone.toml"], 78, vec!["gone.toml"]),
    ] {
        let ran = place.keys(&arguments);
        let line = ran.failed(code);
        for part in parts {
            assert!(
                line.contains(part),
                "{arguments:?}: {part} is not in: {line}"
            );
        }
        assert!(
            std::fs::read(place.ring()).unwrap() == before,
            "{arguments:?}"
        );
        assert!(!place.path("x.json").exists(), "{arguments:?}");
    }
    // The same key under two names would outlive its revocation.
    let own = super::keys_of(&place.ring())[0]["x"]
        .as_str()
        .unwrap()
        .to_owned();
    file("same.json", okp(&own).to_string());
    let same = place.keys(&["add", "eve", "--public", "same.json"]);
    assert!(same.failed(65).contains("\"k\" of \"alice\""), "{same:?}");
    // Kinds that differ.
    place.keys(&["revoke", "carol"]).row();
    let kinds = place.keys(&["rotate", "carol", "--out", "x.json"]);
    assert!(kinds.failed(65).contains("several kinds"), "{kinds:?}");
    let seal = place.keys(&["rotate", "carol-seal", "--out", "x.json"]);
    assert_eq!(seal.code, Some(65), "{seal:?}");
    for name in [
        "small.json",
        "short.json",
        "none.json",
        "hmac.json",
        "two.json",
        "same.json",
    ] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
}

#[test]
fn a_keyring_that_no_harbor_would_take_is_not_changed() {
    let place = Place::new();
    place.add("alice", &[]);
    let right = std::fs::read_to_string(place.ring()).unwrap();
    let list = ["list"];
    let add = ["add", "bob", "--out", "bob.json"];
    std::fs::set_permissions(place.ring(), PermissionsExt::from_mode(0o644)).unwrap();
    for arguments in [&list[..], &add] {
        assert!(place.keys(arguments).failed(66).contains("600"));
    }
    std::fs::set_permissions(place.ring(), PermissionsExt::from_mode(0o600)).unwrap();
    for (text, says) in [
        (
            right.replace("\"x\": \"", "\"x\": \"AAAA"),
            "x: a public key of 32 bytes",
        ),
        (right.replace("\"EdDSA\"", "\"none\""), "alg"),
        (right.replace("\"EdDSA\"", "7"), "see line"),
        (right[..right.len() / 2].to_owned(), "see line"),
    ] {
        std::fs::write(place.ring(), &text).unwrap();
        for arguments in [&list[..], &add] {
            let ran = place.keys(arguments);
            let line = ran.failed(66);
            assert!(line.contains(says) && line.contains("keys.json"), "{line}");
        }
        assert_eq!(std::fs::read_to_string(place.ring()).unwrap(), text);
        assert!(!place.path("bob.json").exists());
    }
    std::fs::write(place.ring(), &right).unwrap();
    assert_eq!(mode(&place.ring()), 0o600);
}

/// The same settings as Harbor's: flag over variable over file.
#[test]
fn the_keyring_is_found_as_harbor_finds_it() {
    let place = Place::new();
    place.add("one", &["--keys", "a.json"]);
    place.add("two", &["--data", "b"]);
    std::fs::write(place.path("c.toml"), "data = \"b\"\n").unwrap();
    std::fs::write(place.path("d.toml"), "keys = \"a.json\"\n").unwrap();
    assert_eq!(mode(&place.path("b")), 0o700);
    let agents = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = place.command("harbor");
        let command = command.args(["keys", "list", "--json"]).args(arguments);
        let output = command.envs(variable).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        let row: serde_json::Value = serde_json::from_str(&line).unwrap();
        row["agent_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(agents(&["--config", "c.toml"], None), "two");
    assert_eq!(agents(&["--config", "d.toml"], None), "one");
    assert_eq!(
        agents(&["--config", "c.toml"], Some(("HARBOR_KEYS", "a.json"))),
        "one"
    );
    assert_eq!(
        agents(&["--keys", "b/keys.json"], Some(("HARBOR_KEYS", "a.json"))),
        "two"
    );
    assert_eq!(agents(&[], Some(("HARBOR_DATA", "b"))), "two");
}
