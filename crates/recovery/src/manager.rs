//! The two ways to settle what a checkpoint had saved.
//!
//! Owns the order: compare first, publish in order, stop at the first that does not end as
//! published. Does not own the comparison and the publishing, which are the committer's.

use tidegate_sink::{
    BoxFuture, Committer, ErrorKind, Outcome, Published, RecoveryManager, Restored, Saved,
    SinkError, Standing,
};

/// For writers that remember nothing of the target (append without buckets): publish what is
/// missing, go on \[F-26]. Also right for any writer that opens *after* recovery, as our engine has
/// it.
pub struct RestoreOnly<'a> {
    committer: &'a mut dyn Committer,
}

impl<'a> RestoreOnly<'a> {
    /// Settles through this committer.
    pub fn new(committer: &'a mut dyn Committer) -> Self {
        Self { committer }
    }
}

impl RecoveryManager for RestoreOnly<'_> {
    fn restore<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Restored, SinkError>> {
        Box::pin(async move {
            Ok(match settle(self.committer, saved).await? {
                Settled::Done { published, skipped } => Restored::Continue { published, skipped },
                Settled::Other(restored) => restored,
            })
        })
    }
}

/// For writers that restored files or a sequence number of a bucket *before* recovery published
/// (fixed buckets, keyed tables, where the engine opens writers first): when anything was published,
/// their view is stale and they must open again \[F-26].
pub struct RestoreAndFail<'a> {
    committer: &'a mut dyn Committer,
}

impl<'a> RestoreAndFail<'a> {
    /// Settles through this committer.
    pub fn new(committer: &'a mut dyn Committer) -> Self {
        Self { committer }
    }
}

impl RecoveryManager for RestoreAndFail<'_> {
    fn restore<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Restored, SinkError>> {
        Box::pin(async move {
            Ok(match settle(self.committer, saved).await? {
                Settled::Done { published, skipped } if published.is_empty() => {
                    Restored::Continue { published, skipped }
                }
                Settled::Done { published, skipped } => {
                    Restored::RestartRequired { published, skipped }
                }
                Settled::Other(restored) => restored,
            })
        })
    }
}

enum Settled {
    Done {
        published: Vec<Published>,
        skipped: Vec<Published>,
    },
    Other(Restored),
}

async fn settle(committer: &mut dyn Committer, saved: &Saved) -> Result<Settled, SinkError> {
    if let Some(half) = saved.committables.iter().find(|c| !c.is_complete()) {
        // The caller goes back to the checkpoint before; publishing a part would lose the rest.
        return Err(SinkError::new(
            ErrorKind::Corrupt,
            format!(
                "committable {} holds {} of {} reports: its checkpoint is not complete",
                half.identifier, half.received, half.expected
            ),
        ));
    }
    let mut skipped = match committer.standing(saved).await? {
        Standing::Equal => Vec::new(),
        Standing::AheadByPrefix(there) => there,
        Standing::Mismatch(mismatch) => return Ok(Settled::Other(Restored::Mismatch(mismatch))),
    };
    let mut published = Vec::new();
    for committable in &saved.committables {
        // What the comparison has found is not offered again: its snapshot may have expired since.
        if skipped
            .iter()
            .any(|there| there.identifier == committable.identifier)
        {
            continue;
        }
        match committer.commit(committable).await? {
            Outcome::Published(done) => published.push(done),
            Outcome::AlreadyPublished(there) => skipped.push(there),
            Outcome::Empty => {}
            stopped @ (Outcome::Fenced(_) | Outcome::Refused(_) | Outcome::Undecided(_)) => {
                return Ok(Settled::Other(Restored::Stopped(stopped)));
            }
        }
    }
    Ok(Settled::Done { published, skipped })
}
