//! A folder where commands are run, and what is looked at when all have ended.

use std::{
    cell::RefCell,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{
    binary,
    harbor::EVERYTHING_PERMITTED,
    issuer::{self, Issuer},
    process::Process,
};

/// What a finished command left.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ran {
    /// Whether it warned that Harbor cannot sign what it seals.
    pub(super) fn warns_of_seals(&self) -> bool {
        let mut lines = self.stderr.lines();
        lines.any(|line| line.starts_with("harbor: now the keyring holds sealing keys (A256GCM)"))
    }

    /// Its JSON lines, after it ended well and said nothing else but that warning.
    pub(super) fn rows(&self) -> Vec<Value> {
        let said = self.stderr.lines().count();
        let is_quiet = said == usize::from(self.warns_of_seals());
        assert_eq!((self.code, is_quiet), (Some(0), true), "{self:?}");
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The only one.
    pub(super) fn row(&self) -> Value {
        let mut rows = self.rows();
        assert_eq!(rows.len(), 1, "{self:?}");
        rows.remove(0)
    }

    /// The one line that it failed with.
    pub(super) fn failed(&self, code: i32) -> &str {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        self.stderr.strip_prefix("harbor: ").unwrap().trim_end()
    }
}

/// A folder where commands are run.
pub(super) struct Place {
    pub(super) folder: tempfile::TempDir,
    pub(super) printed: RefCell<String>,
}

impl Place {
    pub(super) fn new() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
            printed: RefCell::default(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file where the keyring is unless another is named.
    pub(super) fn ring(&self) -> PathBuf {
        self.path("harbor-data/keys.json")
    }

    pub(super) fn command(&self, program: &str) -> Command {
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
    pub(super) fn run_unwatched(&self, program: &str, arguments: &[&str], input: &str) -> Ran {
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

    pub(super) fn run(&self, program: &str, arguments: &[&str], input: &str) -> Ran {
        let ran = self.run_unwatched(program, arguments, input);
        let mut printed = self.printed.borrow_mut();
        *printed += &ran.stdout;
        *printed += &ran.stderr;
        ran
    }

    /// `harbor keys` with these arguments.
    pub(super) fn keys(&self, arguments: &[&str]) -> Ran {
        self.run("harbor", &[&["keys"], arguments].concat(), "")
    }

    /// `harbor keys add` of an Ed25519 key whose secret goes to AGENT.json.
    pub(super) fn add(&self, agent_id: &str, more: &[&str]) -> Value {
        let out = format!("{agent_id}.json");
        self.keys(&[&["add", agent_id, "--out", &out], more].concat())
            .row()
    }

    /// A Harbor that requires authentication, permits everything, and tells its metrics.
    pub(super) async fn guarded(&self, more: &[&str]) -> Process {
        let issuer = Issuer::new("EdDSA");
        issuer::write(&self.path("tokens.json"), &[&issuer]);
        let fixed = ["--auth", "required", "--tokens", "tokens.json"];
        let permissions = ["--permissions", EVERYTHING_PERMITTED];
        let arguments = [&fixed[..], &permissions, more].concat();
        let harbor = Process::in_folder(self.folder.path(), &arguments).await;
        harbor.monitored_with(&issuer.token("monitor", 3_600))
    }

    /// The keys in a file, as they stand there.
    pub(super) fn in_file(&self, name: &str) -> Vec<Value> {
        keys_of(&self.path(name))
    }
}

pub(super) fn keys_of(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let set: Value = serde_json::from_str(&text).unwrap();
    set["keys"].as_array().unwrap().clone()
}

pub(super) fn mode(path: &Path) -> u32 {
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
