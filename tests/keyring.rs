//! Goal: `harbor keys` does what its help says, loses nothing, and shows no secret.
//! Method: the real commands as processes, in a folder where the data folder then is; at the end of
//! each test, a look for every secret of every file there in all that was printed.

mod changes;
mod crowd;
mod mistakes;
mod place;
mod running;
mod shown;

use serde_json::{Value, json};

use crate::support::process::Process;
use place::{Place, keys_of, mode};

/// The first commands of somebody who is new here.
#[tokio::test]
async fn three_commands_make_a_harbor_that_knows_its_agents() {
    let place = Place::new();
    let without = place.run("harbor", &["--auth", "required"], "");
    assert_eq!(without.code, Some(78), "{without:?}");
    let wanted = [
        ["./harbor-data/keys.json", "harbor keys add AGENT"],
        [
            "./harbor-data/permissions.toml",
            "harbor permissions print > ./harbor-data/permissions.toml",
        ],
    ];
    assert_eq!(without.stderr.lines().count(), 2, "{without:?}");
    for (line, parts) in without.stderr.lines().zip(wanted) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    drop(Process::in_folder(place.folder.path(), &[]).await);
    assert!(!place.path("harbor-data").exists(), "nothing to put there");

    let added = place.add("alice", &[]);
    let today = jiff::Timestamp::now().strftime("%F").to_string();
    assert_eq!(added["kid"], format!("alice-{today}"));
    assert_eq!(mode(&place.path("harbor-data")), 0o700);
    assert_eq!(
        (mode(&place.ring()), mode(&place.path("alice.json"))),
        (0o600, 0o600)
    );
    let (ring, own) = (keys_of(&place.ring()), place.in_file("alice.json"));
    assert_eq!((ring.len(), own.len()), (1, 1));
    assert!(ring[0]["d"].is_null() && own[0]["d"].is_string());
    assert_eq!(ring[0]["x"], own[0]["x"]);

    let permissions = place.run("harbor", &["permissions", "print"], "").stdout;
    std::fs::write(place.path("harbor-data/permissions.toml"), permissions).unwrap();
    let harbor = Process::in_folder(place.folder.path(), &["--auth", "required"]).await;
    let send = [
        "send",
        "--url",
        &harbor.url,
        "--agent",
        "alice",
        "--to",
        "alice",
        "1",
    ];
    let refused = place.run("synapse", &send, "");
    assert_eq!(refused.code, Some(77), "{refused:?}");
    let signed = [&send[..], &["--keys", "alice.json"]].concat();
    let sent = place.run("synapse", &signed, "");
    assert_eq!(sent.row()["recipients"], 1, "{sent:?}");
    let said = harbor.said().await;
    *place.printed.borrow_mut() += &said;
}

/// Every kind of key: who holds the secret, and that both sides understand each other.
#[test]
fn the_secret_goes_where_it_is_needed_and_nowhere_else() {
    let place = Place::new();
    for algorithm in ["HMAC-SHA256", "HMAC-SHA512", "A256GCM"] {
        let out = format!("{algorithm}.json");
        let row = place
            .keys(&[
                "add",
                "bob",
                "--algorithm",
                algorithm,
                "--kid",
                algorithm,
                "--out",
                &out,
            ])
            .row();
        assert_eq!(row["algorithm"], algorithm);
        assert!(
            row["thumbprint"].is_null(),
            "a hash would help who guesses: {row}"
        );
        let ring = keys_of(&place.ring());
        let kept = ring.iter().find(|key| key["kid"] == algorithm).unwrap();
        assert_eq!(place.in_file(&out), std::slice::from_ref(kept), "shared");
        assert!(kept["k"].is_string());
    }
    let harbors = place.keys(&["add", "harbor", "--kid", "own"]).row();
    assert_eq!(harbors["can_sign"], true);
    let ring = keys_of(&place.ring());
    assert!(
        ring.iter()
            .any(|key| key["kid"] == "own" && key["d"].is_string())
    );

    // What synapse signs with one, it verifies with the other.
    place.add("carol", &[]);
    let plain = json!({
        "id": "m", "version": "1.0.0", "type": "t", "sender": {"agent_id": "carol"},
        "receiver": {"agent_id": "bob"}, "payload": 1, "timestamp": "2026-03-01T12:00:00Z",
    });
    let signed = place.run(
        "synapse",
        &["--keys", "carol.json", "sign"],
        &plain.to_string(),
    );
    let verify = ["--keys", "harbor-data/keys.json", "verify"];
    assert_eq!(
        place.run("synapse", &verify, &signed.stdout).rows().len(),
        1
    );

    // Standard output is for the secret alone.
    let printed = place.run_unwatched("harbor", &["keys", "add", "dave", "--out", "-"], "");
    assert_eq!((printed.code, &*printed.stderr), (Some(0), ""));
    let set: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(set["keys"][0]["agent_id"], "dave");
    assert!(set["keys"][0]["d"].is_string() && set["keys"].as_array().unwrap().len() == 1);
}

/// The agent makes its key and shows the public half: as a set, or as another library writes it.
#[test]
fn a_public_half_is_taken_as_its_agent_gives_it() {
    let place = Place::new();
    let keygen = [
        "--keys",
        "bob.json",
        "--agent",
        "bob",
        "keygen",
        "--public",
        "public.json",
    ];
    let made = place.run("synapse", &keygen, "").row();
    let added = place.keys(&["add", "bob", "--public", "public.json"]).row();
    assert_eq!(
        (&added["kid"], &added["can_sign"]),
        (&made["kid"], &json!(false))
    );
    assert_eq!(keys_of(&place.ring()), place.in_file("public.json"));

    // RFC 8037 appendix A.2, and its thumbprint in A.3.
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let bare = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "x5t#S256": "kept"}).to_string();
    let arguments = [
        "keys",
        "add",
        "erin",
        "--public",
        "-",
        "--kid",
        "e",
        "--not-after",
        "2099-01-01T00:00:00Z",
    ];
    let row = place.run("harbor", &arguments, &bare).row();
    assert_eq!(
        row["thumbprint"],
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
    assert_eq!(
        (&row["kid"], &row["not_after"]),
        (&json!("e"), &json!("2099-01-01T00:00:00Z"))
    );
    let ring = keys_of(&place.ring());
    assert_eq!(ring[1]["x5t#S256"], "kept");
    assert_eq!(
        (&ring[1]["alg"], &ring[1]["use"]),
        (&json!("EdDSA"), &json!("sig"))
    );
}
