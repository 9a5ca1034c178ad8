//! A target as an engine sees it: something that opens committers and writers for a run of a job.

use crate::{
    BoxFuture, CheckpointId, CommitUser, Committable, Committer, Epoch, JobName, Router, RunPrefix,
    SinkError, Writer,
};

/// Identity of one run of one job \[R-2].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The job.
    pub job: JobName,
    /// Its commit user.
    pub user: CommitUser,
    /// This run.
    pub epoch: Epoch,
    /// What the names of this run's files start with.
    pub prefix: RunPrefix,
    /// The checkpoint that the run was restored from.
    pub restored: Option<CheckpointId>,
}

/// What writers remember of a table, which decides the recovery manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterMemory {
    /// Nothing: restore-only will do.
    Nothing,
    /// Files or sequence number of a bucket: restore-and-fail where writers open before recovery.
    BucketState,
}

/// All writers of a run, and who gets which rows.
pub struct WriterSet<B> {
    /// One per task.
    pub writers: Vec<Box<dyn Writer<Batch = B>>>,
    /// Shared by all tasks that send rows.
    pub router: Box<dyn Router<B>>,
}

/// What a clean-up removed \[R-13].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Objects removed.
    pub removed: u64,
    /// Objects of earlier runs that only a pending committable refers to, or that could not be
    /// removed, or may not be yet: a later run must look again. What a visible version refers to is
    /// not counted.
    pub kept: u64,
}

/// Something rows can be carried into exactly once.
pub trait Target: Send + Sync {
    /// The rows that its writers take.
    type Batch: Send + 'static;

    /// For messages: `shop.orders`, or a URL.
    fn name(&self) -> String;

    /// What its writers remember.
    fn writer_memory(&self) -> WriterMemory;

    /// The one committer of a run. Opens before any writer.
    fn committer<'a>(
        &'a self,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Box<dyn Committer>, SinkError>>;

    /// Opens `count` writers on the table as it is now: call it after recovery has published.
    fn writers<'a>(
        &'a self,
        run: &'a Run,
        count: usize,
    ) -> BoxFuture<'a, Result<WriterSet<Self::Batch>, SinkError>>;

    /// Removes files of earlier runs that nothing refers to: no visible version, tag or branch of
    /// the target, and none of `pending`. The caller answers for the condition of \[R-13]: the own
    /// run has a checkpoint record and a visible commit.
    fn clean<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<CleanReport, SinkError>>;

    /// How many objects [`Target::clean`] would remove, whether or not the own run has a visible
    /// commit: where there are any, [`Committer::take_over`] makes it one.
    fn leftovers<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<u64, SinkError>>;
}
