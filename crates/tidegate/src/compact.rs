//! A dedicated compaction: a run that reads no source, and rewrites or lifts files of a keyed table.
//!
//! Owns the order: look whether there is anything to do; register as a job, so that what a crash leaves is found
//! by name; open the committer; distribute what waits for its bucket; compact some buckets, publish, and so on;
//! clean up after earlier runs. It may run beside a writer: the part of a bucket that loses is left out, and the
//! writer's too \[10.5].

mod distribute;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_commit::{LiveView, PaimonCommitter};
use tidegate_model::layout::PartitionPaths;
use tidegate_model::schema::BucketMode;
use tidegate_model::{BinaryRow, BucketId, CommitMessage, TableSchema};
use tidegate_recovery::{Claim, EndKind, Ended, NO_CHECKPOINTS, new_commit_user, run_prefix};
use tidegate_sink::{
    CheckpointId, CommitContext, Committer, Epoch, JobName, Outcome, Run, SinkError, Target, probe,
};
use tidegate_writer::{GroupKey, KeyedWriter, WriterError};

use crate::error::{Error, Result};
use crate::stream::{host, now_millis, stopped};
use crate::table::Table;
use crate::target::TargetOptions;

/// Buckets that are published together.
const BUCKETS_PER_COMMIT: usize = 64;

/// What to compact.
#[derive(Clone, Debug, Default)]
pub struct CompactOptions {
    /// Everything to the top level, whatever the sizes say.
    pub full: bool,
    /// Only partitions that match one of these: column and value as their folder names show them. All
    /// where there is none.
    pub partitions: Vec<Vec<(String, String)>>,
    /// Memory and spill settings.
    pub target: TargetOptions,
}

/// What a compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Buckets looked at.
    pub buckets: u64,
    /// Buckets of which files were rewritten or lifted.
    pub compacted: u64,
    /// Files whose rows had waited for their bucket (`bucket = -2`) and were distributed, rows of them.
    pub distributed: (u64, u64),
    /// Files taken in, bytes of them.
    pub before: (u64, u64),
    /// Files that came out, bytes of them; lifted ones are in both.
    pub after: (u64, u64),
    /// Snapshots made.
    pub snapshots: Vec<u64>,
}

impl Table {
    /// Compacts the buckets of a keyed table, as the job `job`.
    ///
    /// # Errors
    /// [`Error::Config`] for a table without primary key or a partition column that is none; faults of the
    /// store. What was published before an error stays.
    pub async fn compact(&self, job: &str, options: CompactOptions) -> Result<CompactReport> {
        let job = JobName::new(job).map_err(|e| Error::Config(e.0))?;
        if self.schema().is_append() {
            return Err(Error::Config(format!(
                "table `{}` has no primary key: there is nothing to merge; only keyed tables are compacted",
                self.name()
            )));
        }
        check_columns(self.schema(), &options.partitions)?;
        let mut report = CompactReport::default();
        let work = self.buckets_by_count(&options).await?;
        report.buckets = work.values().map(|keys| keys.len() as u64).sum();
        let waiting = self.waiting_counts(&options).await?;
        if waiting.is_empty() && !self.any_due(&work, &options).await? {
            return Ok(report);
        }
        let registry = self.jobs();
        let status = registry.job(&job).await?;
        let user = status.user().unwrap_or_else(|| registry.new_commit_user());
        let run = registry
            .claim(&Claim {
                job: job.clone(),
                user,
                restored: None,
                checkpoints: NO_CHECKPOINTS.to_owned(),
                host: host(),
                started_ms: now_millis(),
                source: "compaction".into(),
                adopts: None,
                // A compaction has no records and never asks what may be hidden; a later run keeps what is known.
                begun_on: status.newest().and_then(|run| run.registration.begun_on()),
            })
            .await?;
        crate::table::remove_leftovers(self.store()).await;
        let mut committer = PaimonCommitter::open(self.store().clone(), run.clone()).await?;
        let newest = committer.history().await?.newest;
        let next = newest.map_or(1, |published| published.identifier.0 + 1);
        let mut publisher = Publisher {
            committer: &mut committer,
            run: &run,
            next,
        };
        for count in waiting {
            let publisher = &mut publisher;
            distribute::distribute(self, count, &run, publisher, &options, &mut report).await?;
        }
        // Distributing made buckets.
        let work = match report.distributed.0 {
            0 => work,
            _ => self.buckets_by_count(&options).await?,
        };
        report.buckets = work.values().map(|keys| keys.len() as u64).sum();
        for (count, keys) in work {
            let target = self.compacting(count).target(options.target.clone())?;
            let (mut writer, _) = target.keyed_writer(&run).await?;
            let done = compact_all(&mut writer, &mut publisher, &keys, &options, &mut report);
            if let Err(error) = done.await {
                // What is not published goes; where that fails the next run finds it by name.
                let _ = writer.abort().await;
                return Err(error);
            }
        }
        let earlier = status.earlier(run.epoch);
        if !report.snapshots.is_empty() {
            let target = self.target(options.target.clone())?;
            let cleaned = target.clean(&run, &earlier, &[]).await?;
            if cleaned.kept == 0 {
                registry.forget(&run, &earlier).await?;
            }
            committer.leave_note().await?;
        }
        let ended = Ended::new(EndKind::Finished, None, now_millis());
        registry.end(&job, run.epoch, &ended).await?;
        Ok(report)
    }
}

/// Buckets to compact, by the bucket count that their writer must have: the table's own, unless partitions
/// have theirs.
type ByCount = BTreeMap<Option<i32>, Vec<GroupKey>>;

impl Table {
    /// The buckets that were asked for, those that rows wait in left out.
    async fn buckets_by_count(&self, options: &CompactOptions) -> Result<ByCount> {
        let view = LiveView::open(self.store(), None).await?;
        let paths = self.schema().partition_paths()?;
        let postponed = self.schema().bucket_mode()? == BucketMode::Postpone;
        let mut found = ByCount::new();
        for (partition, bucket) in view.all_buckets().await? {
            if bucket == BucketId::POSTPONE || !wanted(&paths, &partition, &options.partitions)? {
                continue;
            }
            let count = match postponed {
                true => view.total_buckets(&partition).await?,
                false => None,
            };
            let keys = found.entry(count).or_default();
            keys.push(GroupKey { partition, bucket });
        }
        for keys in found.values_mut() {
            keys.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
        }
        Ok(found)
    }

    /// Bucket counts of the partitions in which rows wait for their bucket.
    async fn waiting_counts(&self, options: &CompactOptions) -> Result<Vec<i32>> {
        if self.schema().bucket_mode()? != BucketMode::Postpone {
            return Ok(Vec::new());
        }
        let Some(snapshot) = self.latest_snapshot().await? else {
            return Ok(Vec::new());
        };
        let schema = TableSchema::clone(self.schema());
        let waiting = self.reader().waiting(snapshot.id, schema).await?;
        let found = distribute::by_count(self, &waiting, options)?;
        Ok(found.into_keys().collect())
    }

    /// Whether any bucket has something to compact: looked at by a writer that writes nothing, so that no run is
    /// registered for nothing.
    async fn any_due(&self, work: &ByCount, options: &CompactOptions) -> Result<bool> {
        let user = new_commit_user();
        let looking = Run {
            job: JobName::new("looking").map_err(|e| Error::Config(e.0))?,
            prefix: run_prefix(&user, Epoch(0)),
            user,
            epoch: Epoch(0),
            restored: None,
        };
        for (count, keys) in work {
            let target = self.compacting(*count).target(options.target.clone())?;
            let (mut writer, _) = target.keyed_writer(&looking).await?;
            if writer.any_due(keys, options.full).await.map_err(failed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The table as a run that compacts sees it: it does, whatever the table's own writers do \[W-90].
    fn compacting(&self, count: Option<i32>) -> Self {
        let mut schema = match count {
            Some(count) => distribute::with_buckets(self.schema(), count),
            None => TableSchema::clone(self.schema()),
        };
        schema.options.set("write-only", "false");
        self.with_schema(schema)
    }

    fn with_schema(&self, schema: TableSchema) -> Self {
        self.clone().replaced(Arc::new(schema))
    }
}

/// Makes a commit of each set of messages.
struct Publisher<'a> {
    committer: &'a mut PaimonCommitter,
    run: &'a Run,
    /// The next identifier.
    next: i64,
}

impl Publisher<'_> {
    async fn publish(
        &mut self,
        messages: Vec<CommitMessage>,
        report: &mut CompactReport,
    ) -> Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        probe::hit(probe::PREPARED);
        let context = CommitContext {
            job: self.run.job.clone(),
            epoch: self.run.epoch,
            checkpoint: CheckpointId(u64::try_from(self.next).unwrap_or(0)),
            positions: None,
            replaces: None,
            watermark: None,
        };
        self.next += 1;
        let committable = self.committer.combine_messages(&context, messages, 1, 1)?;
        let outcome = self.committer.publish(&committable).await?;
        probe::hit(probe::ANSWERED);
        match outcome {
            Outcome::Published(done) | Outcome::AlreadyPublished(done) => {
                // Where all of it came too late there is no snapshot.
                let made = (done.version > 0).then_some(done.version);
                report.snapshots.extend(made);
                Ok(())
            }
            Outcome::Empty => Ok(()),
            other => Err(stopped(other)),
        }
    }
}

fn failed(error: WriterError) -> Error {
    SinkError::from(error).into()
}

async fn compact_all(
    writer: &mut KeyedWriter,
    publisher: &mut Publisher<'_>,
    keys: &[GroupKey],
    options: &CompactOptions,
    report: &mut CompactReport,
) -> Result<()> {
    for chunk in keys.chunks(BUCKETS_PER_COMMIT) {
        writer.compact(chunk, options.full).await.map_err(failed)?;
        let messages = writer.prepare().await.map_err(failed)?;
        count(report, &messages);
        publisher.publish(messages, report).await?;
    }
    Ok(())
}

fn count(report: &mut CompactReport, messages: &[CommitMessage]) {
    for message in messages {
        let compact = &message.compact;
        report.compacted += u64::from(!compact.is_empty());
        for (files, sum) in [
            (&compact.compact_before, &mut report.before),
            (&compact.compact_after, &mut report.after),
        ] {
            sum.0 += files.len() as u64;
            sum.1 += files
                .iter()
                .map(|f| f.file_size.unsigned_abs())
                .sum::<u64>();
        }
    }
}

fn check_columns(schema: &TableSchema, partitions: &[Vec<(String, String)>]) -> Result<()> {
    for (column, _) in partitions.iter().flatten() {
        if !schema.partition_keys.contains(column) {
            return Err(Error::Config(format!(
                "`{column}` is no partition column; the table has ({})",
                schema.partition_keys.join(", ")
            )));
        }
    }
    Ok(())
}

/// True where a partition is one of those that were asked for.
fn wanted(
    paths: &PartitionPaths,
    partition: &BinaryRow,
    asked: &[Vec<(String, String)>],
) -> Result<bool> {
    let path = paths.path(partition)?;
    let has = |(column, value): &(String, String)| {
        let folder = format!("{column}={}", tidegate_model::layout::escape(value));
        path.split('/').any(|part| part == folder)
    };
    Ok(asked.is_empty() || asked.iter().any(|one| one.iter().all(has)))
}
