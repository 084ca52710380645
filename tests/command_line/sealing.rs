//! Keys for sealed payloads, `seal` and `open`; `--seal` and what is opened in `sealing/sent.rs`.

mod files;
mod sent;

use serde_json::json;

use super::{run, run_with};

fn line(id: &str, payload: &serde_json::Value) -> String {
    json!({"id": id, "version": "1.0.0", "type": "note", "sender": {"agent_id": "alice"},
        "receiver": {"agent_id": "bob"}, "payload": payload, "timestamp": "2026-01-01T00:00:00Z"})
    .to_string()
}

#[tokio::test]
async fn what_seal_makes_open_undoes_and_others_cannot() {
    const PUBLIC: [&str; 5] = ["A256GCM", "--kid", "p", "--public", "never.json"];
    let folder = tempfile::tempdir().unwrap();
    let [path, others] = ["keys.json", "others.json"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let keygen = |path, agent, more: &'static [&'static str]| {
        let fixed = ["keygen", "--keys", path, "--agent", agent, "--algorithm"];
        [&fixed[..], more].concat()
    };
    // A key for signatures made on the same day has another name.
    run(&keygen(&path, "bob", &["Ed25519"])).await.json();
    let made = run(&keygen(&path, "bob", &["A256GCM"])).await.json();
    assert_eq!(made[0]["algorithm"], "A256GCM");
    let kid = made[0]["kid"].as_str().unwrap();
    run(&keygen(&others, "bob", &["A256GCM", "--kid", "x"]))
        .await
        .json();

    let clear = format!(
        "{}\n{}\n",
        line("1", &json!({"a": 1.5})),
        line("2", &json!(null))
    );
    let sealed = run_with(&["seal", "--keys", &path], &clear).await;
    let lines = sealed.json();
    assert_eq!((lines.len(), &lines[0]["encrypt"]), (2, &json!(true)));
    assert!(lines[0]["payload"]["ciphertext"].is_string());
    let opened = run_with(&["open", "--keys", &path], &sealed.stdout).await;
    assert_eq!(opened.stdout, clear_again(&clear));

    let shut = run_with(&["open", "--keys", &others], &sealed.stdout).await;
    let told = "{\"id\":\"1\",\"opened\":false}\n{\"id\":\"2\",\"opened\":false}\n";
    assert_eq!(
        (shut.code, &*shut.stdout, &*shut.stderr),
        (Some(1), told, "")
    );
    let never_sealed = run_with(&["open", "--keys", &path], &clear).await;
    assert_eq!((never_sealed.code, &*never_sealed.stdout), (Some(1), told));
    let named = run_with(&["seal", "--keys", &path, "--kid", kid], &clear).await;
    assert_eq!(named.json().len(), 2);

    // With two keys of its receiver the one that is meant must be named.
    run(&keygen(&path, "bob", &["A256GCM", "--kid", "newer"]))
        .await
        .json();
    let several = run_with(&["seal", "--keys", &path], &clear).await;
    assert_eq!(several.code, Some(1));
    assert!(several.stderr.contains("--kid"), "{several:?}");
    let all_secret = run(&keygen(&path, "bob", &PUBLIC)).await;
    assert_eq!(all_secret.code, Some(64), "{all_secret:?}");
    let unknown = run(&keygen(&path, "bob", &["A128GCM"])).await;
    assert_eq!(unknown.code, Some(64));
}

/// What Harbor sealed again has Harbor's signature, and opens like any other.
#[tokio::test]
async fn what_came_by_way_of_harbor_is_verified_and_opened() {
    let vectors = include_str!("../vectors/resealed.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).unwrap();
    let vector = &vectors["resealed"][0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    std::fs::write(&path, json!({"keys": vector["keys"]}).to_string()).unwrap();
    let path = path.to_str().unwrap();
    let [sent, delivered] = ["sent", "delivered"].map(|name| vector[name].as_str().unwrap());
    let lines = format!("{sent}\n{delivered}\n");
    let verified = run_with(&["verify", "--keys", path], &lines).await.json();
    let by = |kid: &str| json!({"id": "m-2", "verified": kid});
    assert_eq!(verified, [by("alice-1"), by("harbor-1")]);
    for opened in run_with(&["open", "--keys", path], &lines).await.json() {
        assert_eq!(opened["payload"].to_string(), vector["payload"]);
    }
    // Whoever claims it without Harbor's key is not believed.
    let mut claimed: serde_json::Value = serde_json::from_str(sent).unwrap();
    let mark = serde_json::from_str::<serde_json::Value>(delivered).unwrap()["harbor"].clone();
    claimed["harbor"] = mark;
    let refused = run_with(&["verify", "--keys", path], &claimed.to_string()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

/// The lines as the command writes envelopes.
fn clear_again(lines: &str) -> String {
    let again = lines.lines().map(|line| {
        let envelope = synapse::Envelope::decode(line).unwrap();
        envelope.to_json() + "\n"
    });
    again.collect()
}
