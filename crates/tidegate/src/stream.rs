//! A single-task stream into a table: the whole contract in one value, for programs that have their
//! own loop.
//!
//! Owns the order of a start and of a checkpoint (ARCHITECTURE.md). The position is the program's own
//! text or bytes: what it needs to go on reading after a crash.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use tidegate_commit::PaimonCommitter;
use tidegate_recovery::{
    CheckpointRecord, CheckpointStore, Claim, EndKind, Ended, JobCheckpoints, RecordKind, Registry,
    RestoreOnly, new_commit_user, run_prefix,
};
use tidegate_sink::{
    CheckpointId, CommitContext, CommitUser, Committable, Committer, Epoch, ErrorKind, JobName,
    Mismatch, Outcome, Positions, Published, RecoveryManager, Restored, Rows, Run, SinkError,
    Target, Version, Writer, probe,
};
use tidegate_storage::Store;

use crate::error::{Error, Result};
use crate::table::Table;
use crate::target::{TableTarget, TableWriter, TargetOptions};

/// A stream that is not open yet.
#[derive(Debug)]
pub struct StreamBuilder {
    table: Table,
    job: JobName,
    checkpoints: Option<Store>,
    options: TargetOptions,
    retain: usize,
}

impl StreamBuilder {
    pub(crate) fn new(table: Table, job: &str) -> Result<Self> {
        let job = JobName::new(job).map_err(|e| Error::Config(e.0))?;
        Ok(Self {
            table,
            job,
            checkpoints: None,
            options: TargetOptions::default(),
            retain: 3,
        })
    }

    /// Where checkpoints are kept: a folder or URL.
    ///
    /// # Errors
    /// A URL that the storage layer does not know.
    pub fn checkpoints(mut self, url: &str) -> Result<Self> {
        self.checkpoints = Some(Store::open(url, &BTreeMap::new())?);
        Ok(self)
    }

    /// Where checkpoints are kept: a store that is open already.
    pub fn checkpoint_store(mut self, store: Store) -> Self {
        self.checkpoints = Some(store);
        self
    }

    /// Memory and spill settings of its writer.
    pub fn options(mut self, options: TargetOptions) -> Self {
        self.options = options;
        self
    }

    /// How many checkpoints are kept; 3 by default.
    pub fn retain(mut self, checkpoints: usize) -> Self {
        self.retain = checkpoints.max(1);
        self
    }

    /// Restores the job, or starts it: publishes what a crash left unpublished, then opens a writer.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where saved state and table disagree; [`Error::Config`] without a place
    /// for checkpoints; faults.
    pub async fn open(self) -> Result<Stream> {
        let Some(store) = self.checkpoints else {
            return Err(Error::Config(
                "a stream needs a place for its checkpoints: .checkpoints(\"./checkpoints\")"
                    .into(),
            ));
        };
        let registry = self.table.jobs();
        let places = CheckpointStore::new(store);
        let status = registry.job(&self.job).await?;
        let known = places.user_of(&self.job, status.user().as_ref()).await?;
        let user = known.unwrap_or_else(new_commit_user);
        let mut records = places.job(&self.job, &user);
        records.load().await?;
        let record = records.newest().await?;
        let target = self.table.target(self.options)?;
        let begun_on = match status.newest() {
            Some(newest) => newest.registration.begun_on(),
            None if record.is_none() => tip(&self.table, &self.job, &user).await?,
            None => None,
        };
        let run = registry
            .claim(&Claim {
                job: self.job.clone(),
                user: user.clone(),
                restored: record.as_ref().map(|r| (r.epoch, r.id)),
                checkpoints: places.url().to_owned(),
                host: host(),
                started_ms: now_millis(),
                source: "stream".into(),
                adopts: None,
                begun_on: begun_on.clone(),
            })
            .await?;
        crate::table::remove_leftovers(self.table.store()).await;
        let mut committer = target.open_committer(&run).await?;
        let mut newest = record.as_ref().and_then(|r| r.newest_published.clone());
        let mut visible = false;
        match &record {
            Some(record) => {
                let restored = RestoreOnly::new(&mut committer)
                    .restore(&record.saved())
                    .await?;
                let (settled, ours) = settled(restored)?;
                newest = settled.or(newest);
                visible = ours;
            }
            None => {
                let history = committer.history().await?;
                if let Some(found) = history.newest {
                    return Err(Error::Mismatch(format!(
                        "no checkpoint of job `{}` found in {}, but table `{}` has its commit {} (version {}); \
                         give the directory in which its checkpoints are, or take another job name",
                        self.job,
                        records.url(),
                        self.table.name(),
                        found.identifier,
                        found.version
                    )));
                }
                if status.newest().is_some()
                    && let Some(why) = committer.hidden(begun_on.as_ref()).await?
                {
                    return Err(Error::Mismatch(format!(
                        "no checkpoint of job `{}` found in {}, it has run before, and whether table `{}` has \
                         commits of it cannot be told: {why}; give the directory in which its checkpoints \
                         are, or take another job name",
                        self.job,
                        records.url(),
                        self.table.name(),
                    )));
                }
            }
        }
        let writer = target.writer(&run).await?;
        let next = records.largest().map_or(1, |id| id.0 + 1);
        let position = record.as_ref().map(|r| r.positions.active.clone());
        // A run that took no rows was still at the very start.
        let position = position.filter(|p| !p.is_empty());
        Ok(Stream {
            last_positions: record.and_then(|r| r.last_positions),
            target,
            registry,
            records,
            committer,
            writer,
            run,
            next: CheckpointId(next),
            position,
            moved: false,
            interrupted: false,
            unwritten: None,
            pending: Vec::new(),
            newest,
            retain: self.retain,
            visible,
            recorded: false,
            cleaned: status.runs.is_empty(),
        })
    }
}

/// What recovery came to: the newest commit that is known to be published, and whether this run has
/// published any; or why it stopped.
/// Where the table stands before the first run of a job is registered: nothing of the job is below.
async fn tip(table: &Table, job: &JobName, user: &CommitUser) -> Result<Option<Version>> {
    let looking = Run {
        job: job.clone(),
        user: user.clone(),
        epoch: Epoch(0),
        prefix: run_prefix(user, Epoch(0)),
        restored: None,
    };
    let mut committer = PaimonCommitter::open(table.store().clone(), looking).await?;
    Ok(committer.history().await?.tip)
}

fn settled(restored: Restored) -> Result<(Option<Published>, bool)> {
    match restored {
        Restored::Continue { published, skipped }
        | Restored::RestartRequired { published, skipped } => {
            let ours = !published.is_empty();
            let all = published.into_iter().chain(skipped);
            Ok((all.max_by_key(|p| p.identifier), ours))
        }
        Restored::Mismatch(mismatch) => Err(Error::Mismatch(format!(
            "checkpoint and table disagree: {}; `tidegate run --on-mismatch` shows the ways out",
            told(&mismatch)
        ))),
        Restored::Stopped(outcome) => Err(stopped(outcome)),
    }
}

/// In what way they disagree, for a person.
fn told(mismatch: &Mismatch) -> String {
    match mismatch {
        Mismatch::AheadBeyond { commits } => {
            let ids = || commits.iter().map(|c| c.identifier.0);
            format!(
                "the table has {} commits of this job that the checkpoint knows nothing of, {} to {}",
                commits.len(),
                ids().min().unwrap_or_default(),
                ids().max().unwrap_or_default()
            )
        }
        Mismatch::Behind { missing } => format!(
            "commit {} (version {}) was published when the checkpoint was taken, and the table no \
             longer has it",
            missing.identifier, missing.version
        ),
        Mismatch::Diverged { found, saved } => format!(
            "commit {} in the table (version {}) has other content than the checkpoint's ({saved})",
            found.identifier, found.version
        ),
        Mismatch::Unknown { why } => {
            format!("it cannot be told whether the checkpoint is published: {why}")
        }
    }
}

pub(crate) fn stopped(outcome: Outcome) -> Error {
    let (kind, why) = match outcome {
        Outcome::Fenced(why) => (ErrorKind::Fenced, why),
        Outcome::Refused(why) => (ErrorKind::Refused, why),
        Outcome::Undecided(why) => (ErrorKind::Undecided, why),
        done => (ErrorKind::Corrupt, format!("{done:?} stopped a recovery")),
    };
    SinkError::new(kind, why).into()
}

/// An open stream.
pub struct Stream {
    target: TableTarget,
    registry: Registry,
    records: JobCheckpoints,
    committer: PaimonCommitter,
    writer: TableWriter,
    run: Run,
    next: CheckpointId,
    position: Option<Vec<u8>>,
    last_positions: Option<Positions>,
    /// Something was written since the last checkpoint.
    moved: bool,
    /// Inside a call; still set where a write or a prepare was dropped or failed halfway \[R-18].
    interrupted: bool,
    /// A checkpoint whose record is perhaps not written; nothing after it may go on before it is
    /// \[R-6].
    unwritten: Option<CheckpointRecord>,
    /// Complete checkpoints that are not published yet, oldest first.
    pending: Vec<Committable>,
    newest: Option<Published>,
    retain: usize,
    /// A commit of this very run is visible.
    visible: bool,
    /// So is a record of it complete.
    recorded: bool,
    /// Files of earlier runs are gone.
    cleaned: bool,
}

impl Stream {
    /// Where to go on reading: the position of the last checkpoint, `None` at the very start.
    pub fn position(&self) -> Option<&[u8]> {
        self.position.as_deref()
    }

    /// The run that this stream is.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Takes rows; `position` is where to go on after them. Durable with the next checkpoint.
    ///
    /// # Errors
    /// Rows that do not fit the table; faults of the store. After an error, and where the call was
    /// dropped, it is not known how much of the batch was taken: open the stream again.
    pub async fn write(&mut self, batch: &RecordBatch, position: &[u8]) -> Result<()> {
        self.enter()?;
        self.writer.write(Rows::inserts(batch.clone())).await?;
        self.position = Some(position.to_vec());
        self.moved = true;
        self.interrupted = false;
        Ok(())
    }

    /// Nobody may go on with rows of which it is not known whether they were taken.
    fn enter(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.interrupted, true) {
            return Err(SinkError::new(
                ErrorKind::Cancelled,
                "a call before was dropped or failed halfway; open the stream again, it goes on \
                 from its last checkpoint",
            )
            .into());
        }
        Ok(())
    }

    /// Makes everything written so far durable, then visible. Without rows and without a moved
    /// position nothing is made. Call it again after an undecided error: it settles that first.
    ///
    /// # Errors
    /// Faults; [`ErrorKind::Fenced`] where another run goes on with this job.
    pub async fn checkpoint(&mut self) -> Result<Option<Published>> {
        self.settle().await?;
        if self.moved {
            probe::hit(probe::BEFORE_CHECKPOINT);
            self.take(RecordKind::Checkpoint, false).await?;
            self.settle().await?;
        }
        Ok(self.newest.clone())
    }

    /// Prepares a checkpoint: its rows are durable, its record is yet to be written. One that
    /// `takes_over` is published although it is empty.
    async fn take(&mut self, kind: RecordKind, takes_over: bool) -> Result<()> {
        self.enter()?;
        let id = self.next;
        let messages = self.writer.prepare().await?;
        let positions = Positions {
            active: self.position.clone().unwrap_or_default(),
            finished: Vec::new(),
        };
        let context = CommitContext {
            job: self.run.job.clone(),
            epoch: self.run.epoch,
            checkpoint: id,
            positions: Some(positions.clone()),
            replaces: self.last_positions.clone(),
            watermark: None,
        };
        let committable = self.committer.combine(&context, messages, 1, 1)?;
        let empty = self.committer.is_empty(&committable)?;
        let mut record = CheckpointRecord::new(
            self.run.job.clone(),
            id,
            self.run.user.clone(),
            self.run.epoch,
        );
        record.kind = kind;
        record.target = self.target.name();
        record.source = "stream".into();
        record.positions = positions.clone();
        record.newest_published.clone_from(&self.newest);
        if !empty {
            self.last_positions = Some(positions);
        }
        if !empty || takes_over {
            record.committables.push(committable);
        }
        record.last_positions.clone_from(&self.last_positions);
        self.unwritten = Some(record);
        self.moved = false;
        self.interrupted = false;
        probe::hit(probe::PREPARED);
        Ok(())
    }

    /// Writes the record that is not written yet, then publishes what is complete: in this order,
    /// since what is published without a record could not be told from another run's work.
    async fn settle(&mut self) -> Result<()> {
        self.settle_with(false).await
    }

    async fn settle_with(&mut self, takes_over: bool) -> Result<()> {
        if let Some(record) = &self.unwritten {
            // Offered again after a lost answer, the bytes are the same.
            self.records.write(record).await?;
        }
        if let Some(record) = self.unwritten.take() {
            self.next = CheckpointId(record.id.0 + 1);
            self.pending.extend(record.committables);
            self.recorded = true;
            probe::hit(probe::RECORDED);
        }
        self.publish(takes_over).await
    }

    async fn publish(&mut self, takes_over: bool) -> Result<()> {
        let any = !self.pending.is_empty();
        while let Some(committable) = self.pending.first() {
            let outcome = match takes_over {
                true => self.committer.take_over(committable).await?,
                false => self.committer.commit(committable).await?,
            };
            match outcome {
                Outcome::Published(done) | Outcome::AlreadyPublished(done) => {
                    self.newest = Some(done);
                    self.visible = true;
                }
                Outcome::Empty => {}
                other => return Err(stopped(other)),
            }
            probe::hit(probe::ANSWERED);
            self.pending.remove(0);
        }
        if any {
            probe::hit(probe::NOTIFIED);
        }
        if let Some(newest) = &self.newest {
            let published = CheckpointId(u64::try_from(newest.identifier.0).unwrap_or(0));
            self.records.retain(self.retain, published).await;
        }
        self.clean().await
    }

    /// Removes what earlier runs left behind, once this run has a record and a visible snapshot
    /// \[R-13].
    async fn clean(&mut self) -> Result<()> {
        if self.cleaned || !self.visible || !self.recorded {
            return Ok(());
        }
        let status = self.registry.job(&self.run.job).await?;
        let earlier = status.earlier(self.run.epoch);
        let report = self.target.clean(&self.run, &earlier, &[]).await?;
        if report.kept == 0 {
            self.registry.forget(&self.run, &earlier).await?;
        }
        self.cleaned = true;
        Ok(())
    }

    /// True where earlier runs left files which this one may not remove yet, because it has no commit
    /// of its own \[R-13].
    async fn left_behind(&self) -> Result<bool> {
        if self.cleaned || self.visible {
            return Ok(false);
        }
        let status = self.registry.job(&self.run.job).await?;
        let earlier = status.earlier(self.run.epoch);
        Ok(self.target.leftovers(&self.run, &earlier, &[]).await? > 0)
    }

    /// A last checkpoint, the published note and a clean end.
    ///
    /// # Errors
    /// As [`Stream::checkpoint`]; the stream can then be opened again.
    pub async fn finish(mut self) -> Result<Option<Published>> {
        self.settle().await?;
        let takes_over = self.left_behind().await?;
        self.writer.end_of_input();
        self.take(RecordKind::EndOfInput, takes_over).await?;
        self.settle_with(takes_over).await?;
        self.committer.leave_note().await?;
        let last = CheckpointId(self.next.0.saturating_sub(1));
        let ended = Ended::new(EndKind::Finished, Some(last), now_millis());
        self.registry
            .end(&self.run.job, self.run.epoch, &ended)
            .await?;
        Ok(self.newest)
    }

    /// Gives up what was written since the last checkpoint; the next run goes on from there.
    ///
    /// # Errors
    /// Where files stay behind; the next run of the job removes them.
    pub async fn abort(mut self) -> Result<()> {
        Ok(self.writer.abort().await?)
    }
}

pub(crate) fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// For people only; no decision looks at it.
pub(crate) fn now_millis() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
