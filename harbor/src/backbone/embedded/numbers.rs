//! The counter of a store: gives numbers from a block that is reserved on disk, never one twice.
//!
//! Beside a frame's way: a number costs no wait. The writer reserves the next block when half of
//! this one is used; what of a block is unused when the process ends stays unused.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::SEQ_BLOCK;

/// Numbers that may be given.
#[derive(Debug)]
pub(super) struct Numbers {
    next: AtomicU64,
    /// All below it may be given: it is on disk.
    reserved: AtomicU64,
}

/// One number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) seq: u64,
    /// It is the one at which the writer is to be woken.
    pub(super) is_half_way: bool,
}

impl Numbers {
    /// Gives from `next` on, and stays below `reserved`, which is on disk.
    pub(super) fn new(next: u64, reserved: u64) -> Numbers {
        Numbers {
            next: AtomicU64::new(next),
            reserved: AtomicU64::new(reserved),
        }
    }

    /// `None` if all that is reserved has been given.
    pub(super) fn give(&self) -> Option<Given> {
        let mut reserved = 0;
        let given = self
            .next
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| {
                reserved = self.reserved.load(Ordering::Acquire);
                (next < reserved).then(|| next + 1)
            });
        given.ok().map(|seq| Given {
            seq,
            is_half_way: reserved - seq == SEQ_BLOCK / 2,
        })
    }

    /// What to reserve on disk, if it is time.
    pub(super) fn wanted(&self) -> Option<u64> {
        let reserved = self.reserved.load(Ordering::Acquire);
        let left = reserved.saturating_sub(self.next.load(Ordering::Acquire));
        if left >= SEQ_BLOCK / 2 {
            return None;
        }
        reserved.checked_add(SEQ_BLOCK)
    }

    /// `reserved` is on disk.
    pub(super) fn extend(&self, reserved: u64) {
        self.reserved.store(reserved, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: numbers are given in order, from what is reserved only, and more is asked for in time.
    //! Method: a counter by hand.

    use super::*;

    #[test]
    fn only_what_is_reserved_is_given() {
        let numbers = Numbers::new(7, 7 + SEQ_BLOCK);
        assert_eq!(numbers.wanted(), None);
        let mut at = Vec::new();
        for seq in 7..7 + SEQ_BLOCK {
            let given = numbers.give().unwrap();
            assert_eq!(given.seq, seq);
            if given.is_half_way {
                at.push(seq);
                assert_eq!(numbers.wanted(), Some(7 + 2 * SEQ_BLOCK));
            }
        }
        assert_eq!(at, [7 + SEQ_BLOCK / 2]);
        assert_eq!(numbers.give(), None);
        numbers.extend(7 + 2 * SEQ_BLOCK);
        assert_eq!(numbers.give().unwrap().seq, 7 + SEQ_BLOCK);
    }
}
