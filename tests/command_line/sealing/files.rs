//! `--keys`: one file or several, and the names of new keys in them.

use serde_json::{Value, json};

use super::super::{Ran, command, run, run_with};
use super::line;
use crate::support::{Harbor, soon};

/// A folder with the files of keys that a person would make.
pub(super) struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    pub(super) fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        Files { folder }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Makes a key, and gives what is printed of it.
    pub(super) async fn keygen(&self, file: &str, agent_id: &str, more: &[&str]) -> Value {
        let path = self.path(file);
        let fixed = ["keygen", "--keys", &path, "--agent", agent_id];
        run(&[&fixed[..], more].concat()).await.json().remove(0)
    }

    /// Makes a key that seals, and gives the path of its file.
    pub(super) async fn seal(&self, file: &str, owner: &str, kid: &str) -> String {
        self.keygen(file, owner, &["--algorithm", "A256GCM", "--kid", kid])
            .await;
        self.path(file)
    }

    /// Puts the keys of one file into another.
    fn copy(&self, from: &str, to: &str, change: impl Fn(&mut Value)) -> String {
        let text = std::fs::read_to_string(self.path(from)).unwrap();
        let mut set: Value = serde_json::from_str(&text).unwrap();
        set["keys"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(change);
        std::fs::write(self.path(to), set.to_string()).unwrap();
        self.path(to)
    }
}

fn fails(ran: &Ran, code: i32, says: &[&str]) {
    assert_eq!((ran.code, &*ran.stdout), (Some(code), ""), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    for part in says {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
}

#[tokio::test]
async fn files_are_put_together_wherever_they_are_named() {
    let files = Files::new();
    files
        .keygen("alice.json", "alice", &["--kid", "signs"])
        .await;
    let (alice, seal) = (
        files.path("alice.json"),
        files.seal("seal.json", "bob", "seals").await,
    );
    let clear = line("1", &json!("x"));
    let sealed = run_with(&["--keys", &seal, "seal"], &clear).await.stdout;
    let signed = run_with(&["--keys", &alice, "sign"], &sealed).await.stdout;
    for arguments in [
        ["--keys", &alice, "--keys", &seal, "open"],
        ["--keys", &seal, "open", "--keys", &alice],
        ["open", "--keys", &alice, "--keys", &seal],
    ] {
        let opened = run_with(&arguments, &signed).await.json();
        assert_eq!(opened[0]["payload"], "x", "{arguments:?}");
        let mut verify = arguments;
        for word in verify.iter_mut().filter(|word| **word == "open") {
            *word = "verify";
        }
        let verified = run_with(&verify, &signed).await.json();
        assert_eq!(verified, [json!({"id": "1", "verified": "signs"})]);
    }
    // One file in the variable, which an option goes over.
    for (more, code) in [(&[][..], 0), (&["--keys", &alice], 1)] {
        let mut open = command(&[&["open"], more].concat());
        let mut child = open
            .env("SYNAPSE_KEYS", &seal)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stdin, sealed.as_bytes())
            .await
            .unwrap();
        drop(stdin);
        let ran = soon("it ends", child.wait_with_output()).await.unwrap();
        assert_eq!(ran.status.code(), Some(code), "{more:?}");
    }
    // A key goes into one file.
    let two = ["keygen", "--agent", "a", "--keys", &alice, "--keys", &seal];
    fails(&run(&two).await, 64, &["--keys", "one file"]);
}

#[tokio::test]
async fn a_kid_in_two_files_is_one_key_or_a_mistake() {
    let files = Files::new();
    let public = files.path("public.json");
    files
        .keygen("alice.json", "alice", &["--kid", "k", "--public", &public])
        .await;
    let alice = files.path("alice.json");
    let clear = line("1", &json!("x"));
    // Whichever comes first, the file with the secret signs.
    for [one, other] in [[&alice, &public], [&public, &alice], [&alice, &alice]] {
        let signed = run_with(&["sign", "--keys", one, "--keys", other], &clear).await;
        assert_eq!(signed.json()[0]["signature_algorithm"], "Ed25519");
    }
    let ended = files.copy("alice.json", "ended.json", |key| {
        key["not_after"] = "2020-01-01T00:00:00Z".into();
    });
    let signed = run_with(&["sign", "--keys", &alice, "--keys", &ended], &clear).await;
    fails(&signed, 66, &["no live key"]);
    let bobs = files.copy("alice.json", "bobs.json", |key| {
        key["agent_id"] = "bob".into()
    });
    files.keygen("newer.json", "alice", &["--kid", "k"]).await;
    let newer = files.path("newer.json");
    let seal = files.seal("seal.json", "alice", "k").await;
    for other in [&bobs, &newer, &seal] {
        let ran = run_with(&["sign", "--keys", &alice, "--keys", other], &clear).await;
        fails(&ran, 66, &["--keys", "\"k\"", &alice, other]);
    }
    let nothing = files.path("nothing.json");
    let ran = run_with(&["sign", "--keys", &alice, "--keys", &nothing], &clear).await;
    fails(&ran, 66, &["nothing.json"]);
}

#[tokio::test]
async fn keys_that_only_seal_ask_for_no_signature_and_a_key_that_ended_does() {
    let files = Files::new();
    let seal = files.seal("seal.json", "bob", "seals").await;
    let harbor = Harbor::start().await;
    let url = harbor.url();
    let send = [
        "send", "--url", &url, "--to", "bob", "--agent", "alice", "1",
    ];
    let sent = run(&[&send[..], &["--keys", &seal]].concat()).await;
    assert_eq!(sent.json()[0]["recipients"], 0);
    let past = ["--not-after", "2020-01-01T00:00:00Z"];
    files.keygen("ended.json", "alice", &past).await;
    files.keygen("carol.json", "carol", &[]).await;
    for other in ["ended.json", "carol.json"] {
        let keys = ["--keys", &seal, "--keys", &files.path(other)];
        let ran = run(&[&send[..], &keys].concat()).await;
        fails(&ran, 66, &["no live key to sign with", other]);
    }
}

#[tokio::test]
async fn the_second_key_of_a_day_has_a_name_of_its_own() {
    let files = Files::new();
    let today = jiff::Timestamp::now().strftime("%F").to_string();
    for (more, kid) in [
        (&[][..], format!("alice-{today}")),
        (&["--algorithm", "A256GCM"], format!("alice-seal-{today}")),
    ] {
        for suffix in ["", "-2", "-3"] {
            let made = files.keygen("keys.json", "alice", more).await;
            assert_eq!(made["kid"], format!("{kid}{suffix}"));
        }
    }
    // The newest signs.
    let path = files.path("keys.json");
    let signed = run_with(&["sign", "--keys", &path], &line("1", &json!(1))).await;
    let verified = run_with(&["verify", "--keys", &path], &signed.stdout).await;
    assert_eq!(verified.json()[0]["verified"], format!("alice-{today}-3"));
    // It is free in the file of public halves too, or nothing is made.
    let public = files.path("public.json");
    for (file, suffix) in [("one.json", ""), ("two.json", "-2")] {
        let made = files.keygen(file, "alice", &["--public", &public]).await;
        assert_eq!(made["kid"], format!("alice-{today}{suffix}"));
    }
    std::fs::write(&public, "{").unwrap();
    let other = files.path("other.json");
    let fixed = ["keygen", "--agent", "a", "--keys", &other];
    let ran = run(&[&fixed[..], &["--public", &public]].concat()).await;
    fails(&ran, 66, &["public.json"]);
    assert!(!std::path::Path::new(&other).exists());
}
