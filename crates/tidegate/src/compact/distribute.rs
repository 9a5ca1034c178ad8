//! Rows that wait in the postpone bucket go to their buckets \[W-73].
//!
//! All that waits in a partition at one snapshot is read in the order in which it came and written to the
//! buckets of the partition as a writer does, numbered behind what they hold at that snapshot. One COMPACT half
//! adds the new files and removes those that waited: the committer takes a partition as a whole or not at all,
//! so nothing can be distributed twice, and numbers never run backwards.

use std::collections::BTreeMap;

use futures::StreamExt;

use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataIncrement, SnapshotId, TableSchema,
};
use tidegate_scan::{Split, Waiting, kind};
use tidegate_sink::{RowKind, Rows, Run, SinkError};
use tidegate_writer::KeyedWriter;

use super::{CompactOptions, CompactReport, Publisher, failed, wanted};
use crate::error::Result;
use crate::table::Table;

/// Files that are read before a commit, about: a partition is never cut.
const FILES_PER_COMMIT: usize = 256;

/// What waits, by the bucket count of its partition.
pub(super) type ByCount = BTreeMap<i32, Vec<(BinaryRow, Vec<Split>)>>;

/// The partitions that were asked for and have rows waiting.
pub(super) fn by_count(
    table: &Table,
    waiting: &Waiting,
    options: &CompactOptions,
) -> Result<ByCount> {
    let paths = table.schema().partition_paths()?;
    let new = table.schema().postponed_buckets()?;
    let mut found = ByCount::new();
    for (partition, files) in waiting.partitions() {
        if wanted(&paths, partition, &options.partitions)? {
            let count = waiting.total_buckets(partition).unwrap_or(new);
            let of_count = found.entry(count).or_default();
            of_count.push((partition.clone(), files.to_vec()));
        }
    }
    Ok(found)
}

/// The table as it looks to who writes partitions with so many buckets.
pub(super) fn with_buckets(schema: &TableSchema, count: i32) -> TableSchema {
    let mut schema = schema.clone();
    schema.options.set("bucket", count.to_string());
    schema
}

/// Distributes all that waits in partitions with `count` buckets.
pub(super) async fn distribute(
    table: &Table,
    count: i32,
    run: &Run,
    publisher: &mut Publisher<'_>,
    options: &CompactOptions,
    report: &mut CompactReport,
) -> Result<()> {
    let mut schema = with_buckets(table.schema(), count);
    // What is written here is compacted afterwards, in commits of its own.
    schema.options.set("write-only", "true");
    let target = table.with_schema(schema).target(options.target.clone())?;
    let (mut writer, base) = target.keyed_writer(run).await?;
    let done = from(table, count, base, &mut writer, publisher, options, report).await;
    if done.is_err() {
        // What is not published goes; where that fails the next run finds it by name.
        let _ = writer.abort().await;
    }
    done
}

async fn from(
    table: &Table,
    count: i32,
    base: Option<SnapshotId>,
    writer: &mut KeyedWriter,
    publisher: &mut Publisher<'_>,
    options: &CompactOptions,
    report: &mut CompactReport,
) -> Result<()> {
    let Some(base) = base else { return Ok(()) };
    // Of the very snapshot that the writer starts from: who distributes in between takes the same files.
    let schema = TableSchema::clone(table.schema());
    let waiting = table.reader().waiting(base, schema).await?;
    let mut found = by_count(table, &waiting, options)?;
    let mut removed = Vec::new();
    let mut files = 0;
    for (partition, splits) in found.remove(&count).unwrap_or_default() {
        copy(&waiting, &splits, writer).await?;
        files += splits.len();
        report.distributed.0 += splits.len() as u64;
        report.distributed.1 += splits.iter().map(Split::row_count).sum::<u64>();
        removed.push(CommitMessage {
            partition,
            bucket: BucketId::POSTPONE,
            total_buckets: Some(BucketId::POSTPONE.0),
            data: DataIncrement::default(),
            compact: CompactIncrement {
                compact_before: splits.into_iter().map(|split| split.file).collect(),
                ..CompactIncrement::default()
            },
        });
        if files >= FILES_PER_COMMIT {
            publish(std::mem::take(&mut removed), writer, publisher, report).await?;
            files = 0;
        }
    }
    publish(removed, writer, publisher, report).await
}

/// Reads files and writes their rows.
async fn copy(waiting: &Waiting, splits: &[Split], writer: &mut KeyedWriter) -> Result<()> {
    let mut records = waiting.records(splits).read_kinds()?;
    while let Some(records) = records.next().await {
        let records = records?;
        let kinds = records.kinds.values().iter().map(|of| row_kind(*of));
        let rows = Rows {
            kinds: Some(kinds.collect::<Result<_>>()?),
            batch: records.rows,
        };
        writer.write_rows(rows).await.map_err(failed)?;
    }
    Ok(())
}

fn row_kind(found: i8) -> Result<RowKind> {
    Ok(match found {
        kind::INSERT => RowKind::Insert,
        kind::UPDATE_BEFORE => RowKind::UpdateBefore,
        kind::UPDATE_AFTER => RowKind::UpdateAfter,
        kind::DELETE => RowKind::Delete,
        other => {
            let text = format!("a record that waits for its bucket has the row kind {other}");
            return Err(SinkError::new(tidegate_sink::ErrorKind::Corrupt, text).into());
        }
    })
}

async fn publish(
    mut messages: Vec<CommitMessage>,
    writer: &mut KeyedWriter,
    publisher: &mut Publisher<'_>,
    report: &mut CompactReport,
) -> Result<()> {
    let written = writer.prepare().await.map_err(failed)?;
    messages.extend(written.into_iter().map(|message| CommitMessage {
        compact: CompactIncrement {
            compact_after: message.data.new_files,
            changelog_files: message.data.changelog_files,
            ..message.compact
        },
        data: DataIncrement::default(),
        ..message
    }));
    publisher.publish(messages, report).await
}
