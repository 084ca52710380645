//! Goal: `harbor keys` does what its help says, loses nothing, and shows no secret.
//! Method: the real commands as processes, in a folder where the data folder then is; at the end of
//! each test, a look for every secret of every file there in all that was printed.

mod changes;
mod crowd;
mod mistakes;
mod running;
mod shown;

use std::{
    cell::RefCell,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    binary,
    harbor::EVERYTHING_PERMITTED,
    issuer::{self, Issuer},
    process::Process,
};

/// What a finished command left.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// Its JSON lines, after it ended well and said nothing else.
    fn rows(&self) -> Vec<Value> {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self:?}");
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The only one.
    fn row(&self) -> Value {
        let mut rows = self.rows();
        assert_eq!(rows.len(), 1, "{self:?}");
        rows.remove(0)
    }

    /// The one line that it failed with.
    fn failed(&self, code: i32) -> &str {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        self.stderr.strip_prefix("harbor: ").unwrap().trim_end()
    }
}

/// A folder where commands are run.
struct Place {
    folder: tempfile::TempDir,
    printed: RefCell<String>,
}

impl Place {
    fn new() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
            printed: RefCell::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file where the keyring is unless another is named.
    fn ring(&self) -> PathBuf {
        self.path("harbor-data/keys.json")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(binary(program));
        command
            .current_dir(self.folder.path())
            .env_remove("HARBOR_DATA")
            .env_remove("HARBOR_KEYS")
            .env_remove("SYNAPSE_KEYS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a program to its end without looking at what it prints.
    fn run_unwatched(&self, program: &str, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(program);
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input closes it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Ran {
        let ran = self.run_unwatched(program, arguments, input);
        let mut printed = self.printed.borrow_mut();
        *printed += &ran.stdout;
        *printed += &ran.stderr;
        ran
    }

    /// `harbor keys` with these arguments.
    fn keys(&self, arguments: &[&str]) -> Ran {
        self.run("harbor", &[&["keys"], arguments].concat(), "")
    }

    /// `harbor keys add` of an Ed25519 key whose secret goes to AGENT.json.
    fn add(&self, agent_id: &str, more: &[&str]) -> Value {
        let out = format!("{agent_id}.json");
        self.keys(&[&["add", agent_id, "--out", &out], more].concat())
            .row()
    }

    /// A Harbor that requires authentication, permits everything, and tells its metrics.
    async fn guarded(&self, more: &[&str]) -> Process {
        let issuer = Issuer::new("EdDSA");
        issuer::write(&self.path("tokens.json"), &[&issuer]);
        let fixed = ["--auth", "required", "--tokens", "tokens.json"];
        let permissions = ["--permissions", EVERYTHING_PERMITTED];
        let arguments = [&fixed[..], &permissions, more].concat();
        let harbor = Process::in_folder(self.folder.path(), &arguments).await;
        harbor.monitored_with(&issuer.token("monitor", 3_600))
    }

    /// The keys in a file, as they stand there.
    fn in_file(&self, name: &str) -> Vec<Value> {
        keys_of(&self.path(name))
    }
}

fn keys_of(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let set: Value = serde_json::from_str(&text).unwrap();
    set["keys"].as_array().unwrap().clone()
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// No secret of any file came out.
impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let folders = [self.folder.path().to_owned(), self.path("harbor-data")];
        let files = folders
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder).ok());
        let printed = self.printed.borrow();
        for file in files.flatten().map(|file| file.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            for key in keys_of(&file) {
                for secret in [&key["d"], &key["k"]].into_iter().filter_map(Value::as_str) {
                    assert!(!printed.contains(&secret[..16]), "{file:?}: {}", key["kid"]);
                }
            }
        }
    }
}

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
