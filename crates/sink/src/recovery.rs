//! Recovery as a contract: saved committables are settled before any writer opens.

use crate::{BoxFuture, Mismatch, Outcome, Published, Saved, SinkError};

/// What recovery came to.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// Writers may open, or stay open.
    Continue {
        /// Published by this recovery.
        published: Vec<Published>,
        /// Found published and skipped.
        skipped: Vec<Published>,
    },
    /// Writers that are open have a stale view of the table and must be opened again.
    RestartRequired {
        /// Published by this recovery.
        published: Vec<Published>,
        /// Found published and skipped.
        skipped: Vec<Published>,
    },
    /// Saved state and table disagree: nothing was published \[R-7].
    Mismatch(Mismatch),
    /// A committable ended in something other than published; those after it were not tried.
    Stopped(Outcome),
}

/// Settles what a checkpoint saved. Idempotent: may be called again after any crash.
pub trait RecoveryManager: Send {
    /// Publishes what is missing, skips what is there, in order.
    fn restore<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Restored, SinkError>>;
}
