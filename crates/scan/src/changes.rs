//! What changed from snapshot to snapshot: changelogs where the table makes them, else the new files
//! \[R-8], read in order without a gap \[R-9].
//!
//! Owns which snapshot comes next, which of its files hold its changes, and what is no way on: expiry,
//! rollback, a history that was replaced. Reading stops there, named, rather than go on beside it.

mod source;

use crate::error::{Error, Result};
use crate::kinds::KindedRows;
use crate::table::TableReader;
use futures::stream::{BoxStream, StreamExt};
use source::Source;
use std::sync::Arc;
use tidegate_format as format;
use tidegate_model::{DataField, Snapshot, SnapshotId, TableSchema, layout};

/// Where to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// With the oldest changes that are left.
    #[default]
    Earliest,
    /// With what comes after the newest snapshot.
    Latest,
    /// With the changes of this snapshot.
    Snapshot(SnapshotId),
}

/// The changes of a table, snapshot by snapshot.
///
/// ```
/// # use std::collections::BTreeMap;
/// use futures::TryStreamExt;
/// use tidegate_scan::{From, TableReader, kind};
/// use tidegate_storage::Store;
///
/// # const TABLE: &str = concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../../tests/golden/tables/pk_changelog_input/warehouse/golden.db/pk_changelog_input"
/// # );
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = Store::open(TABLE, &BTreeMap::new())?; // a table that Java wrote
/// let mut changes = TableReader::new(store).changes(From::Earliest).await?;
/// let (mut rows, mut deletes) = (0, 0);
/// while let Some(step) = changes.next().await? {
///     let batches: Vec<_> = step.read()?.try_collect().await?;
///     for batch in batches {
///         rows += batch.rows.num_rows();
///         deletes += batch.kinds.iter().filter(|k| *k == Some(kind::DELETE)).count();
///     }
/// }
/// assert_eq!((rows, deletes), (18, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Changes {
    table: TableReader,
    schema: Arc<TableSchema>,
    next: SnapshotId,
    /// The one before, as it was when it was read.
    before: Option<Snapshot>,
}

/// What one snapshot changed.
#[derive(Clone, Debug)]
pub struct Step {
    /// The snapshot; from a long-lived changelog where it has expired itself.
    pub snapshot: Snapshot,
    source: Source,
}

impl Changes {
    pub(crate) async fn open(table: TableReader, from: From) -> Result<Self> {
        let schema = Arc::new(table.latest_schema().await?);
        source::supported(&table, &schema)?;
        let next = match from {
            From::Snapshot(id) => id,
            From::Earliest => match range(&table).await? {
                Some((first, _)) => first,
                None => SnapshotId::FIRST,
            },
            From::Latest => match table.latest_snapshot().await? {
                Some(newest) => newest.id.next(),
                None => SnapshotId::FIRST,
            },
        };
        // What stands before the first one: a rollback over it is noticed too.
        let before = match next.0 {
            ..=1 => None,
            id => table.find_snapshot(SnapshotId(id - 1)).await?,
        };
        let changes = Self {
            table,
            schema,
            next,
            before,
        };
        // A place that is not there is told at once, not when somebody waits there.
        if matches!(from, From::Snapshot(_)) && changes.find(next).await?.is_none() {
            changes.missing().await?;
        }
        Ok(changes)
    }

    /// The snapshot whose changes come next.
    pub fn position(&self) -> SnapshotId {
        self.next
    }

    /// The schema that rows are read under: the newest one at the beginning, and whenever a snapshot
    /// has a newer one.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The next snapshot's changes; `None` where there is none yet. Dropped before it answers, it can be
    /// called again.
    ///
    /// # Errors
    /// [`Error::Gap`] where the changes have expired, or the history is no longer the one that was read
    /// so far; missing or unreadable metadata.
    pub async fn next(&mut self) -> Result<Option<Step>> {
        let Some(snapshot) = self.find(self.next).await? else {
            return self.missing().await;
        };
        self.compare_before().await?;
        if snapshot.schema_id > self.schema.id {
            let schema = self.table.schema(snapshot.schema_id).await?;
            source::supported(&self.table, &schema)?;
            self.schema = Arc::new(schema);
        }
        let source = Source::of(&self.table, &self.schema, &snapshot).await?;
        self.next = snapshot.id.next();
        self.before = Some(snapshot.clone());
        Ok(Some(Step { snapshot, source }))
    }

    /// A snapshot, or the changelog that was kept of it \[F-10.4].
    async fn find(&self, id: SnapshotId) -> Result<Option<Snapshot>> {
        if let Some(snapshot) = self.table.find_snapshot(id).await? {
            return Ok(Some(snapshot));
        }
        let path = self.table.path(&layout::changelog_path(id));
        match self.table.store().get_opt(&path).await? {
            Some(bytes) => Ok(Some(
                format::snapshot::decode(&bytes).map_err(|e| e.in_file(path))?,
            )),
            None => Ok(None),
        }
    }

    /// There is no next one: because it has not been made yet, or because of a gap.
    async fn missing(&self) -> Result<Option<Step>> {
        let gap = |why: String| Error::Gap {
            table: self.table.store().url().to_owned(),
            id: self.next,
            why,
        };
        match range(&self.table).await? {
            Some((first, _)) if self.next < first => Err(gap(format!(
                "it has expired: the oldest changes left are of snapshot {first}; read the table once, \
                 then go on from there"
            ))),
            Some((_, last)) if self.next > last.next() => Err(gap(format!(
                "the newest snapshot is {last}: the table was rolled back or made anew"
            ))),
            Some((_, last)) if self.next <= last => Err(gap(format!(
                "it is missing although snapshot {last} is there"
            ))),
            None if self.next > SnapshotId::FIRST => {
                Err(gap("the table has no snapshot any more".to_owned()))
            }
            _ => {
                self.compare_before().await?;
                Ok(None)
            }
        }
    }

    /// A rollback that has grown back beyond the next id looks like no rollback, but for this.
    async fn compare_before(&self) -> Result<()> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        match self.table.find_snapshot(before.id).await? {
            Some(now) if now != *before => Err(Error::Gap {
                table: self.table.store().url().to_owned(),
                id: self.next,
                why: format!(
                    "snapshot {} is another one now than the one whose changes were read: the table was \
                     rolled back and written again; read it once, then go on from there",
                    before.id
                ),
            }),
            _ => Ok(()),
        }
    }
}

impl Step {
    /// The columns of the rows.
    pub fn columns(&self) -> &[DataField] {
        self.source.columns()
    }

    /// Why it has no changes to read although it is a snapshot: it rewrote files, or replaced rows in a
    /// way that the table's options leave out.
    pub fn skipped(&self) -> Option<&'static str> {
        self.source.skipped()
    }

    /// Reads only these columns, in this order.
    ///
    /// # Errors
    /// [`Error::NoColumn`].
    pub fn with_columns<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self> {
        self.source.project(names)?;
        Ok(self)
    }

    /// The changed rows, in an order in which they may be applied one after the other.
    ///
    /// # Errors
    /// As [`ScanPlan::read`](crate::ScanPlan::read).
    pub fn read(&self) -> Result<BoxStream<'static, Result<KindedRows>>> {
        let parts = self.source.read()?;
        Ok(futures::stream::iter(parts).flatten().boxed())
    }
}

/// First and last id of which changes may be left, long-lived changelogs included.
async fn range(table: &TableReader) -> Result<Option<(SnapshotId, SnapshotId)>> {
    let snapshots = table.snapshot_ids().await?;
    let dir = table.path(layout::CHANGELOG_DIR);
    let changelogs = table.store().list_names(&dir).await?;
    let changelogs = changelogs
        .iter()
        .filter_map(|e| layout::changelog_id(&e.name));
    let all = || snapshots.iter().copied().chain(changelogs.clone());
    Ok(all().min().zip(all().max()))
}
