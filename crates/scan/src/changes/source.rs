//! Which files hold the changes of a snapshot, and how they are read.

use crate::error::{Error, Result};
use crate::keyed::KeyedTable;
use crate::kinds::KindedRows;
use crate::live::{manifest, manifest_list};
use crate::plan::ScanPlan;
use crate::split::splits_of;
use crate::table::TableReader;
use arrow::array::Int8Array;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use std::sync::Arc;
use tidegate_merge::kind;
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    BucketId, CommitKind, DataField, EntryKind, ManifestEntry, Snapshot, TableSchema,
};

/// Refused: nothing says in which order the changes of such a table apply.
const LATE: &str = "changes of a table with deletion vectors whose partitions were replaced";

/// The files of one snapshot's changes.
#[derive(Clone, Debug)]
pub(super) struct Source {
    columns: Vec<DataField>,
    parts: Vec<Part>,
    skipped: Option<&'static str>,
}

/// Files that are read in one way.
#[derive(Clone, Debug)]
struct Part {
    plan: ScanPlan,
    /// The kind of all rows; `None` = the one of each record.
    kind: Option<i8>,
}

/// Whether changes of such a table can be told at all.
pub(super) fn supported(table: &TableReader, schema: &TableSchema) -> Result<()> {
    match crate::plan::unreadable(schema) {
        None => Ok(()),
        Some(what) => Err(unsupported(table, what)),
    }
}

fn unsupported(table: &TableReader, what: String) -> Error {
    Error::Unsupported {
        table: table.store().url().to_owned(),
        what,
    }
}

/// A table whose writers record changes, in files beside those of its rows.
fn has_producer(schema: &TableSchema) -> bool {
    let producer = schema.options.get("changelog-producer");
    producer.is_some_and(|p| !p.trim().eq_ignore_ascii_case("none"))
}

impl Source {
    pub(super) async fn of(
        table: &TableReader,
        schema: &Arc<TableSchema>,
        snapshot: &Snapshot,
    ) -> Result<Self> {
        let mut source = Self {
            columns: schema.fields.clone(),
            parts: Vec::new(),
            skipped: None,
        };
        let set = |key: &str| Ok::<_, Error>(schema.options.bool(key)?.unwrap_or(false));
        let keyed = !schema.primary_keys.is_empty();
        let overwrites = match keyed {
            true => set("streaming-read-overwrite")?,
            false => set("streaming-read-append-overwrite")? || set("streaming-read-overwrite")?,
        };
        if snapshot.commit_kind == CommitKind::Overwrite {
            if overwrites {
                source.replaced(table, schema, snapshot).await?;
            } else {
                source.skipped = Some("it replaced rows, and streaming-read-overwrite is not set");
            }
        } else if has_producer(schema) && keyed {
            match &snapshot.changelog_manifest_list {
                Some(list) => {
                    let entries = added(table, list).await?;
                    source.in_order(table, schema, entries).await?;
                }
                None => source.skipped = Some("it has no changelog"),
            }
        } else if snapshot.commit_kind == CommitKind::Append {
            let entries = added(table, &snapshot.delta_manifest_list).await?;
            source.delta(table, schema, entries).await?;
        } else {
            source.skipped = Some("it changed files, no rows");
        }
        Ok(source)
    }

    /// Records as they stand, file by file: changelogs, and the postpone bucket, whose rows have no
    /// order but that in which they came.
    async fn in_order(
        &mut self,
        table: &TableReader,
        schema: &Arc<TableSchema>,
        entries: Vec<ManifestEntry>,
    ) -> Result<()> {
        let (mut splits, schemas) = splits_of(table, schema, entries).await?;
        splits.sort_by_key(|s| (s.file.min_sequence_number, s.file.creation_time_millis));
        let plan = ScanPlan::of_splits(table.clone(), schema.clone(), splits, schemas);
        self.parts.push(Part {
            plan: plan.with_kinds_of_files(),
            kind: None,
        });
        Ok(())
    }

    /// The new files of a table that makes no changelog, the versions of a key among them merged.
    async fn delta(
        &mut self,
        table: &TableReader,
        schema: &Arc<TableSchema>,
        entries: Vec<ManifestEntry>,
    ) -> Result<()> {
        let (postponed, others): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .partition(|e| e.bucket == BucketId::POSTPONE);
        if !postponed.is_empty() {
            self.in_order(table, schema, postponed).await?;
        }
        let (splits, schemas) = splits_of(table, schema, others).await?;
        let plan = ScanPlan::of_splits(table.clone(), schema.clone(), splits, schemas);
        let plan = plan.merged(KeyedTable::unsettled(schema)?)?.with_deletes();
        self.parts.push(Part { plan, kind: None });
        Ok(())
    }

    /// The rows of the files that went, then those of the files that came.
    async fn replaced(
        &mut self,
        table: &TableReader,
        schema: &Arc<TableSchema>,
        snapshot: &Snapshot,
    ) -> Result<()> {
        let keyed = KeyedTable::unsettled(schema)?;
        if snapshot.index_manifest.is_some()
            && schema.options.bool("deletion-vectors.enabled")? == Some(true)
        {
            let what = format!("snapshot {}: {LATE}", snapshot.id);
            return Err(unsupported(table, what));
        }
        let entries = entries(table, &snapshot.delta_manifest_list).await?;
        for (entry_kind, row_kind) in [
            (EntryKind::Delete, kind::DELETE),
            (EntryKind::Add, kind::INSERT),
        ] {
            let these = entries.iter().filter(|e| e.kind == entry_kind).cloned();
            let (splits, schemas) = splits_of(table, schema, these.collect()).await?;
            let plan = ScanPlan::of_splits(table.clone(), schema.clone(), splits, schemas);
            self.parts.push(Part {
                plan: plan.merged(keyed.clone())?,
                kind: Some(row_kind),
            });
        }
        Ok(())
    }

    pub(super) fn columns(&self) -> &[DataField] {
        &self.columns
    }

    pub(super) fn skipped(&self) -> Option<&'static str> {
        self.skipped
    }

    pub(super) fn project<S: AsRef<str>>(&mut self, names: &[S]) -> Result<()> {
        for part in &mut self.parts {
            part.plan = part.plan.clone().with_columns(names)?;
            self.columns = part.plan.columns().to_vec();
        }
        Ok(())
    }

    pub(super) fn read(&self) -> Result<Vec<BoxStream<'static, Result<KindedRows>>>> {
        self.parts.iter().map(Part::read).collect()
    }
}

impl Part {
    fn read(&self) -> Result<BoxStream<'static, Result<KindedRows>>> {
        let Some(kind) = self.kind else {
            return self.plan.read_kinds();
        };
        let kinded = move |rows: arrow::array::RecordBatch| KindedRows {
            kinds: Int8Array::from(vec![kind; rows.num_rows()]),
            rows,
        };
        Ok(self.plan.read()?.map_ok(kinded).boxed())
    }
}

async fn entries(table: &TableReader, list: &ListRef) -> Result<Vec<ManifestEntry>> {
    let mut entries = Vec::new();
    for file in manifest_list(table.store(), list).await? {
        entries.extend(manifest(table.store(), &file).await?);
    }
    Ok(entries)
}

async fn added(table: &TableReader, list: &ListRef) -> Result<Vec<ManifestEntry>> {
    let mut entries = entries(table, list).await?;
    entries.retain(|e| e.kind == EntryKind::Add);
    Ok(entries)
}
