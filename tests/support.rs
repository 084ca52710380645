//! What the themes share: a real Harbor, and an agent that speaks to it with nothing between.

pub mod agent;
pub mod harbor;

use std::{future::Future, time::Duration};

pub use agent::Agent;
pub use harbor::Harbor;

/// How long anything that must happen may take, on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Waits for what must happen; says what it was when it does not.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {SOON:?}: {what}"),
    }
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
