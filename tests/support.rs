//! What the themes share: a real Harbor, and an agent that speaks to it with nothing between.

pub mod agent;
pub mod guarded;
pub mod harbor;
pub mod invariants;
pub mod issuer;
pub mod pki;
pub mod process;
pub mod raw;

use std::{future::Future, time::Duration};

pub use agent::Agent;
pub use harbor::Harbor;
pub use raw::Raw;

/// How long anything that must happen may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// A data folder that is not there.
pub const NO_DATA: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-data");

/// Waits for what must happen; says what it was when it does not.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {SOON:?}: {what}"),
    }
}

/// Lets time pass at once for everything in this process. Only in a test with one thread.
pub async fn leap(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}

/// Asks again and again until `is_so` says yes; fails after [`SOON`].
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    soon(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The path of one of this workspace's programs, built by the cargo that runs the tests.
pub fn binary(name: &str) -> std::path::PathBuf {
    use std::{collections::HashSet, process::Command, sync::Mutex};
    static BUILT: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap();
    if built.get_or_insert_default().insert(name.to_owned()) {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--bin", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success(), "cargo builds {name}");
    }
    // The test binary is in target/PROFILE/deps.
    let deps = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    deps.parent().unwrap().join(name)
}

/// The path that a variable gives, or else the one that `scripts/test` would.
pub fn given(variable: &str, otherwise: std::path::PathBuf) -> std::path::PathBuf {
    match std::env::var_os(variable) {
        Some(path) if !path.is_empty() => path.into(),
        _ => otherwise,
    }
}

/// A Python with the packages of `tests/clients/python/requirements.txt`.
pub fn python() -> std::path::PathBuf {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    given(
        "SYNAPSE_TEST_PYTHON",
        root.join("tests/.setup/venv/bin/python"),
    )
}
