//! Which ids each sender has used lately, and what it was answered: sending again delivers once.
//!
//! Asked by intake in front of delivery. The memory belongs to the agent, also while it is away, so
//! a client that lost its connection before the answer came can send the same message again, and a
//! recorded one cannot be played back within the clock window.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use parking_lot::Mutex;

use synapse::Refusal;

use crate::{
    clock::{self, Instant},
    delivery::Receipt,
    limits::{DUPLICATE_IDS_MAX, DUPLICATES_SWEEP_MIN},
};

/// The memories of all senders of a node.
#[derive(Debug)]
pub(crate) struct Duplicates {
    span: Duration,
    table: DashMap<Arc<str>, Arc<Recent>>,
    /// From how many on the table is swept.
    sweep_at: AtomicUsize,
}

/// The memory of one sender.
#[derive(Debug)]
pub(crate) struct Recent {
    span: Duration,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    receipts: HashMap<Arc<str>, Receipt>,
    /// Oldest first.
    order: VecDeque<(Instant, Arc<str>)>,
}

impl Duplicates {
    /// Remembers ids for `span`.
    pub(crate) fn new(span: Duration) -> Self {
        Duplicates {
            span,
            table: DashMap::new(),
            sweep_at: AtomicUsize::new(DUPLICATES_SWEEP_MIN),
        }
    }

    /// That of a sender.
    pub(crate) fn of(&self, agent_id: &Arc<str>) -> Arc<Recent> {
        if self.table.len() >= self.sweep_at.load(Ordering::Relaxed) {
            self.sweep(clock::now());
        }
        let recent = self.table.entry(Arc::clone(agent_id)).or_insert_with(|| {
            Arc::new(Recent {
                span: self.span,
                ids: Mutex::default(),
            })
        });
        Arc::clone(&recent)
    }

    /// Forgets senders that are away and have nothing left to remember.
    fn sweep(&self, now: Instant) {
        // Shared only under the entry's lock, which is held here.
        self.table
            .retain(|_, recent| Arc::strong_count(recent) > 1 || !recent.is_over(now));
        let sweep_at = (2 * self.table.len()).max(DUPLICATES_SWEEP_MIN);
        self.sweep_at.store(sweep_at, Ordering::Relaxed);
    }
}

impl Recent {
    /// Delivers a message unless its id was used lately: then the first receipt, and `true`.
    ///
    /// # Errors
    ///
    /// That of `deliver`; then the id is as if it had not been used.
    pub(crate) fn once(
        &self,
        id: &str,
        now: Instant,
        deliver: impl FnOnce() -> Result<Receipt, Refusal>,
    ) -> Result<(Receipt, bool), Refusal> {
        // Held while delivering: a newer connection of the sender may bring the same id.
        let mut ids = self.ids.lock();
        ids.forget(|at, _| at + self.span <= now);
        if let Some(receipt) = ids.receipts.get(id) {
            return Ok((*receipt, true));
        }
        ids.forget(|_, count| count >= DUPLICATE_IDS_MAX);
        let receipt = deliver()?;
        let id: Arc<str> = Arc::from(id);
        ids.receipts.insert(Arc::clone(&id), receipt);
        ids.order.push_back((now, id));
        Ok((receipt, false))
    }

    fn is_over(&self, now: Instant) -> bool {
        let ids = self.ids.lock();
        let newest = ids.order.back();
        newest.is_none_or(|(at, _)| *at + self.span <= now)
    }
}

impl Ids {
    /// Forgets the oldest while `is_over` says so of its time and of how many there are.
    fn forget(&mut self, is_over: impl Fn(Instant, usize) -> bool) {
        while let Some((at, id)) = self.order.front()
            && is_over(*at, self.order.len())
        {
            self.receipts.remove(id);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(600);

    fn receipt(recipients: u64) -> Receipt {
        Receipt { recipients }
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_is_carried_out_once_within_the_span() {
        let duplicates = Duplicates::new(SPAN);
        let alice = duplicates.of(&Arc::from("alice"));
        let send = |recent: &Recent, id, count| {
            let deliver = || Ok(receipt(count));
            recent.once(id, clock::now(), deliver).unwrap()
        };
        assert_eq!(send(&alice, "1", 3), (receipt(3), false));
        assert_eq!(send(&alice, "1", 9), (receipt(3), true));
        assert_eq!(send(&alice, "2", 0), (receipt(0), false));
        let bob = duplicates.of(&Arc::from("bob"));
        assert_eq!(
            send(&bob, "1", 5),
            (receipt(5), false),
            "ids are a sender's own"
        );
        drop(alice);
        let alice = duplicates.of(&Arc::from("alice"));
        tokio::time::advance(SPAN - Duration::from_secs(1)).await;
        assert_eq!(
            send(&alice, "1", 9),
            (receipt(3), true),
            "also after it was away"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(send(&alice, "1", 9), (receipt(9), false));
        assert_eq!(send(&alice, "1", 4), (receipt(9), true));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_bounded_in_count_and_given_back() {
        let duplicates = Duplicates::new(SPAN);
        let alice = duplicates.of(&Arc::from("alice"));
        let send = |id: &str| {
            let sent = alice.once(id, clock::now(), || Ok(receipt(1)));
            sent.unwrap().1
        };
        for id in 0..3 * DUPLICATE_IDS_MAX {
            send(&id.to_string());
        }
        let newest = (3 * DUPLICATE_IDS_MAX - 1).to_string();
        assert!(send(&newest));
        let refused = alice.once("0", clock::now(), || {
            Err(Refusal::new(synapse::Code::BadSeal, "refused"))
        });
        assert!(refused.is_err());
        assert!(!send("0"), "what was refused is not remembered");
        let kept = {
            let ids = alice.ids.lock();
            (ids.order.len(), ids.receipts.len())
        };
        assert_eq!(kept, (DUPLICATE_IDS_MAX, DUPLICATE_IDS_MAX));
        tokio::time::advance(SPAN).await;
        drop(alice);
        let held = duplicates.of(&Arc::from("held"));
        for agent in 0..2 * DUPLICATES_SWEEP_MIN {
            duplicates.of(&Arc::from(agent.to_string()));
        }
        assert!(duplicates.table.len() <= DUPLICATES_SWEEP_MIN);
        assert!(duplicates.table.get("alice").is_none() && duplicates.table.get("held").is_some());
        drop(held);
    }
}
