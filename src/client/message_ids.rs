//! Ids for messages the application gave none: unique over processes, restarts and handles.
//!
//! Stands at the very start of a frame's way, where the client fills in what the sender left out.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

/// One client's ids: 128 random bits drawn once, then a counter.
#[derive(Debug)]
pub(super) struct MessageIds {
    prefix: String,
    next: AtomicU64,
}

impl MessageIds {
    pub(super) fn new() -> Self {
        MessageIds {
            prefix: format!("{:016x}{:016x}", random(), random()),
            next: AtomicU64::new(1),
        }
    }

    pub(super) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.prefix)
    }
}

/// 64 bits from the operating system, by way of the keys every `RandomState` is made with.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MESSAGE_ID_BYTES_MAX;

    #[test]
    fn ids_differ_within_a_client_and_between_clients() {
        let (one, other) = (MessageIds::new(), MessageIds::new());
        let (a, b, c) = (one.next(), one.next(), other.next());
        assert!(a != b && a != c && b != c);
        assert_ne!(one.prefix, other.prefix);
        assert!(a.len() <= MESSAGE_ID_BYTES_MAX);
    }
}
