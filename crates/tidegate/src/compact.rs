//! A dedicated compaction: a run that reads no source, and rewrites or lifts files of a keyed table.
//!
//! Owns the order: register as a job, so that what a crash leaves is found by name; open the committer;
//! compact some buckets, publish, and so on; clean up after earlier runs. It may run beside a writer: the
//! part of a bucket that loses is left out, and the writer's too \[10.5].

use std::sync::Arc;

use tidegate_commit::{LiveView, PaimonCommitter};
use tidegate_model::layout::PartitionPaths;
use tidegate_model::{BinaryRow, BucketId, CommitMessage, TableSchema};
use tidegate_recovery::{Claim, EndKind, Ended, NO_CHECKPOINTS};
use tidegate_sink::{CheckpointId, CommitContext, Committer, JobName, Outcome, Run, Target};
use tidegate_writer::{GroupKey, KeyedWriter};

use crate::error::{Error, Result};
use crate::stream::{host, now_millis, stopped};
use crate::table::Table;
use crate::target::{TableTarget, TargetOptions};

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
        let compacting = self.with_schema(compacting(self.schema()));
        let target = compacting.target(options.target.clone())?;
        let view = LiveView::open(self.store(), None).await?;
        let paths = self.schema().partition_paths()?;
        check_columns(self.schema(), &options.partitions)?;
        let mut keys = Vec::new();
        for (partition, bucket) in view.all_buckets().await? {
            if wanted(&paths, &partition, &options.partitions)? {
                keys.push((partition, bucket));
            }
        }
        keys.sort();
        let mut report = CompactReport {
            buckets: keys.len() as u64,
            ..CompactReport::default()
        };
        if keys.is_empty() {
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
        let mut writer = target.keyed_writer(&run).await?;
        let done = compact_all(
            &mut writer,
            &mut committer,
            &run,
            next,
            &keys,
            &options,
            &mut report,
        );
        if let Err(error) = done.await {
            // What is not published goes; where that fails the next run finds it by name.
            let _ = writer.abort().await;
            return Err(error);
        }
        let earlier = status.earlier(run.epoch);
        if !report.snapshots.is_empty() {
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

async fn compact_all(
    writer: &mut KeyedWriter,
    committer: &mut PaimonCommitter,
    run: &Run,
    first: i64,
    keys: &[(BinaryRow, BucketId)],
    options: &CompactOptions,
    report: &mut CompactReport,
) -> Result<()> {
    let mut next = first;
    for chunk in keys.chunks(BUCKETS_PER_COMMIT) {
        let chunk: Vec<GroupKey> = chunk
            .iter()
            .map(|(partition, bucket)| GroupKey {
                partition: partition.clone(),
                bucket: *bucket,
            })
            .collect();
        let failed =
            |e: tidegate_writer::WriterError| Error::from(tidegate_sink::SinkError::from(e));
        writer.compact(&chunk, options.full).await.map_err(failed)?;
        let messages = writer.prepare().await.map_err(failed)?;
        if messages.is_empty() {
            continue;
        }
        count(report, &messages);
        let context = CommitContext {
            job: run.job.clone(),
            epoch: run.epoch,
            checkpoint: CheckpointId(u64::try_from(next).unwrap_or(0)),
            positions: None,
            replaces: None,
            watermark: None,
        };
        next += 1;
        let committable = committer.combine_messages(&context, messages, 1, 1)?;
        match committer.publish(&committable).await? {
            Outcome::Published(done) | Outcome::AlreadyPublished(done) => {
                // Where all of it came too late there is no snapshot.
                report
                    .snapshots
                    .extend((done.version > 0).then_some(done.version));
            }
            Outcome::Empty => {}
            other => return Err(stopped(other)),
        }
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

/// The schema of a run that compacts, whatever the table's own writers do \[W-90].
fn compacting(schema: &TableSchema) -> TableSchema {
    let mut schema = schema.clone();
    schema.options.set("write-only", "false");
    schema
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

impl TableTarget {
    /// The keyed writer itself, for who compacts with it.
    async fn keyed_writer(&self, run: &Run) -> Result<KeyedWriter> {
        match self.writer(run).await? {
            crate::target::TableWriter::Keyed(writer) => Ok(*writer),
            crate::target::TableWriter::Append(_) => Err(Error::Config(
                "a table without primary key is not compacted".to_owned(),
            )),
        }
    }
}

impl Table {
    fn with_schema(&self, schema: TableSchema) -> Self {
        self.clone().replaced(Arc::new(schema))
    }
}
