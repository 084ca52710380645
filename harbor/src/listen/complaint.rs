//! Says the same trouble once a while, and how often it was there.
//!
//! Beside the door of a frame's way, for what a stranger can cause as often as they like.

use crate::{
    clock::{self, Instant},
    limits::COMPLAINT_PERIOD,
};

/// One kind of trouble.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    told_at: Option<Instant>,
    /// How often it came since it was told.
    untold: u64,
}

impl Complaint {
    /// It came again; how often since it was last told, when that is to be told now.
    pub(crate) fn again(&mut self) -> Option<u64> {
        let now = clock::now();
        self.untold += 1;
        if self.told_at.is_some_and(|at| now - at < COMPLAINT_PERIOD) {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_at_once_and_then_one_a_period() {
        let mut complaint = Complaint::default();
        assert_eq!(complaint.again(), Some(1));
        for _ in 0..99 {
            assert_eq!(complaint.again(), None);
            advance(COMPLAINT_PERIOD / 100).await;
        }
        assert_eq!(complaint.again(), None);
        advance(COMPLAINT_PERIOD / 100).await;
        assert_eq!(complaint.again(), Some(101));
        assert_eq!(complaint.again(), None);
    }
}
