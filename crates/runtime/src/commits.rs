//! Commits of complete checkpoints, in order, however long the target fails \[R-11].
//!
//! Owns the committer and lends it to one call at a time, so that the coordinator goes on meanwhile.
//! Between two attempts it is at home, and further checkpoints can be combined.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_sink::{
    CommitContext, Committable, Committer, ErrorKind, Message, Outcome, Published, SinkError, probe,
};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use tidegate_sink::{CheckpointId, Positions};

use crate::error::RuntimeError;
use crate::job::Parts;
use crate::settings::CommitSettings;

/// A combined checkpoint that is not known to be published.
#[derive(Clone, Debug)]
pub(crate) struct PendingCommit {
    pub(crate) committable: Committable,
    pub(crate) positions: Positions,
    pub(crate) rows: u64,
    pub(crate) checkpoint: CheckpointId,
}

/// The committer comes home.
pub(crate) struct Done {
    committer: Box<dyn Committer>,
    what: What,
}

enum What {
    Commit(Result<Outcome, SinkError>),
    Note(Result<(), SinkError>),
}

pub(crate) struct Commits {
    settings: CommitSettings,
    committer: Option<Box<dyn Committer>>,
    away: JoinSet<Done>,
    queue: VecDeque<PendingCommit>,
    attempt: u32,
    retry_at: Option<Instant>,
    failing: Option<Failing>,
    noted_at: Instant,
    /// Published since the last note.
    unnoted: bool,
    /// The newest commit, where it was empty and made no version.
    empty: Option<Committable>,
}

struct Failing {
    since: Instant,
    undecided: bool,
    why: String,
}

impl Commits {
    pub(crate) fn new(committer: Box<dyn Committer>, settings: &CommitSettings) -> Self {
        Self {
            settings: settings.clone(),
            committer: Some(committer),
            away: JoinSet::new(),
            queue: VecDeque::new(),
            attempt: 0,
            retry_at: None,
            failing: None,
            noted_at: Instant::now(),
            unnoted: false,
            empty: None,
        }
    }

    /// True while no call has the committer.
    pub(crate) fn is_home(&self) -> bool {
        self.committer.is_some()
    }

    /// True when nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.is_home()
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &PendingCommit> {
        self.queue.iter()
    }

    pub(crate) fn trouble(&self) -> Option<&str> {
        self.failing.as_ref().map(|failing| failing.why.as_str())
    }

    pub(crate) fn add(&mut self, commits: impl Iterator<Item = PendingCommit>) {
        self.queue.extend(commits);
    }

    fn home(&self) -> Result<&dyn Committer, RuntimeError> {
        let away = || RuntimeError::Config("the committer is under way: this is a bug".to_owned());
        self.committer.as_deref().ok_or_else(away)
    }

    pub(crate) fn combine(
        &self,
        context: &CommitContext,
        messages: Vec<Message>,
        reports: u32,
        parts: &Parts,
    ) -> Result<Committable, RuntimeError> {
        let combined = self.home()?.combine(context, messages, reports, reports);
        combined.map_err(|source| parts.target_error("combining a commit to", source))
    }

    pub(crate) fn is_empty(&self, of: &Committable, parts: &Parts) -> Result<bool, RuntimeError> {
        let empty = self.home()?.is_empty(of);
        empty.map_err(|source| parts.target_error("looking into a commit to", source))
    }

    /// When a failed commit is tried again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
            .filter(|_| self.is_home() && !self.queue.is_empty())
    }

    /// Begins the next call if there is one to make.
    pub(crate) fn go_on(&mut self) {
        let now = Instant::now();
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        let Some(mut committer) = self.committer.take() else {
            return;
        };
        if let Some(next) = self.queue.front() {
            self.retry_at = None;
            let committable = next.committable.clone();
            self.away.spawn(async move {
                let outcome = committer.commit(&committable).await;
                probe::hit(probe::ANSWERED);
                Done {
                    committer,
                    what: What::Commit(outcome),
                }
            });
        } else if self.unnoted && now.duration_since(self.noted_at) >= self.settings.note_interval {
            self.away.spawn(async move {
                let left = committer.leave_note().await;
                Done {
                    committer,
                    what: What::Note(left),
                }
            });
        } else {
            self.committer = Some(committer);
        }
    }

    /// The committer, when it comes home; `None` where it is there.
    pub(crate) async fn done(&mut self) -> Option<Result<Done, JoinError>> {
        self.away.join_next().await
    }

    /// What became of a call: a commit that is over, with what it published.
    pub(crate) fn settle(
        &mut self,
        done: Done,
        parts: &Parts,
    ) -> Result<Option<(PendingCommit, Option<Published>)>, RuntimeError> {
        self.committer = Some(done.committer);
        let outcome = match done.what {
            What::Commit(outcome) => outcome,
            What::Note(left) => {
                self.noted(left);
                return Ok(None);
            }
        };
        let Some(front) = self.queue.front() else {
            return Ok(None);
        };
        let identifier = front.committable.identifier.0;
        let target = parts.target.name();
        let published = match outcome {
            Ok(Outcome::Published(published) | Outcome::AlreadyPublished(published)) => {
                Some(published)
            }
            Ok(Outcome::Empty) => {
                self.empty = Some(front.committable.clone());
                None
            }
            Ok(Outcome::Fenced(why)) => return Err(RuntimeError::Fenced { target, why }),
            Ok(Outcome::Refused(why)) => {
                return Err(RuntimeError::Refused {
                    target,
                    identifier,
                    why,
                });
            }
            Ok(Outcome::Undecided(why)) => {
                self.later(true, why);
                return Ok(None);
            }
            Err(error) if error.kind().is_final() => {
                return Err(parts.target_error("committing to", error));
            }
            Err(error) => {
                self.later(error.kind() == ErrorKind::Undecided, error.to_string());
                return Ok(None);
            }
        };
        self.attempt = 0;
        self.failing = None;
        if published.is_some() {
            self.unnoted = true;
            self.empty = None;
        }
        Ok(self.queue.pop_front().map(|pending| (pending, published)))
    }

    /// Not now: the same commit again after a wait.
    fn later(&mut self, undecided: bool, why: String) {
        let factor = 1u32.checked_shl(self.attempt.min(20)).unwrap_or(u32::MAX);
        let wait = self
            .settings
            .retry_base
            .saturating_mul(factor)
            .min(self.settings.retry_cap);
        self.attempt = self.attempt.saturating_add(1);
        let now = Instant::now();
        self.retry_at = Some(now + wait);
        tracing::warn!(
            attempt = self.attempt,
            ?wait,
            undecided,
            "commit failed: {why}"
        );
        let since = self.failing.take().map_or(now, |failing| failing.since);
        self.failing = Some(Failing {
            since,
            undecided,
            why,
        });
    }

    /// At the end a commit is not retried for ever: its checkpoint is complete, so that the next
    /// start settles it.
    pub(crate) fn check_patience(
        &self,
        ending_since: Instant,
        parts: &Parts,
    ) -> Result<(), RuntimeError> {
        let (Some(failing), Some(front)) = (&self.failing, self.queue.front()) else {
            return Ok(());
        };
        let waited: Duration = Instant::now().duration_since(failing.since.max(ending_since));
        if waited < self.settings.give_up_at_end || !self.is_home() {
            return Ok(());
        }
        let (target, why) = (parts.target.name(), failing.why.clone());
        let identifier = front.committable.identifier.0;
        Err(match failing.undecided {
            true => RuntimeError::Undecided {
                target,
                identifier,
                why,
            },
            false => RuntimeError::CommitFails {
                target,
                identifier,
                seconds: waited.as_secs(),
                why,
            },
        })
    }

    fn noted(&mut self, left: Result<(), SinkError>) {
        self.noted_at = Instant::now();
        match left {
            Ok(()) => self.unnoted = false,
            // The next one is due in a while; a snapshot that expires before is then unknown.
            Err(error) => tracing::warn!(%error, "the published note could not be left"),
        }
    }

    /// Publishes the newest commit although it is empty, so that a version of this run is visible
    /// \[R-13]; `None` where there is none, or it could not be: nothing depends on it but cleaning.
    pub(crate) async fn take_over(&mut self) -> Option<Published> {
        let empty = self.empty.take()?;
        let committer = self.committer.as_mut()?;
        match committer.take_over(&empty).await {
            Ok(Outcome::Published(published) | Outcome::AlreadyPublished(published)) => {
                self.unnoted = true;
                Some(published)
            }
            Ok(other) => {
                tracing::warn!(?other, "left-overs of earlier runs stay for the next run");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "left-overs of earlier runs stay for the next run");
                None
            }
        }
    }

    /// Leaves the note at a clean end \[R-4].
    pub(crate) async fn leave_note(&mut self) {
        if self.unnoted
            && let Some(committer) = &mut self.committer
        {
            let left = committer.leave_note().await;
            self.noted(left);
        }
    }
}
