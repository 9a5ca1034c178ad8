//! What to read of one version of a table: which files, which columns, how many rows.

use crate::error::{Error, Result};
use crate::keyed::{self, KeyedTable, Unit};
use crate::kinds::KindedRows;
use crate::predicate::Predicate;
use crate::prune::Pruner;
use crate::read;
use crate::split::{Listing, Split};
use crate::table::TableReader;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::stream::BoxStream;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tidegate_datafile::arrow_schema;
use tidegate_merge::MergeSpec;
use tidegate_model::{BinaryRow, BucketId, DataField, SchemaId, Snapshot, TableSchema};

/// What to read of one version of a table.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    pub(crate) table: TableReader,
    snapshot: Option<Snapshot>,
    schema: Arc<TableSchema>,
    pub(crate) splits: Vec<Split>,
    /// Schemas that the files were written under.
    pub(crate) schemas: HashMap<SchemaId, Arc<TableSchema>>,
    pub(crate) columns: Vec<DataField>,
    /// Partition columns as the files hold them, instead of the partition's own values.
    pub(crate) raw: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) batch_rows: Option<usize>,
    /// How files are merged; `None` where each is read by itself.
    pub(crate) keyed: Option<KeyedTable>,
    /// Whether the files hold row kinds.
    pub(crate) has_kinds: bool,
    merge: Option<Arc<MergeSpec>>,
    /// Keys whose last record takes them back come too.
    pub(crate) keep_deletes: bool,
    pub(crate) filter: Option<Predicate>,
}

impl ScanPlan {
    pub(crate) async fn new(
        table: TableReader,
        snapshot: Option<Snapshot>,
        schema: TableSchema,
    ) -> Result<Self> {
        let unsupported = |what: String| Error::Unsupported {
            table: table.store().url().to_owned(),
            what,
        };
        if let Some(what) = unreadable(&schema) {
            return Err(unsupported(what));
        }
        let keyed = KeyedTable::of(&schema)?;
        Self::with(table, snapshot, schema, keyed).await
    }

    /// The same, of a keyed table, files of level 0 included whatever options hide them.
    pub(crate) async fn unsettled(
        table: TableReader,
        snapshot: Snapshot,
        schema: TableSchema,
    ) -> Result<Self> {
        let keyed = KeyedTable::unsettled(&schema)?.map(KeyedTable::with_level_zero);
        Self::with(table, Some(snapshot), schema, keyed).await
    }

    async fn with(
        table: TableReader,
        snapshot: Option<Snapshot>,
        schema: TableSchema,
        keyed: Option<KeyedTable>,
    ) -> Result<Self> {
        let unsupported = |what: String| Error::Unsupported {
            table: table.store().url().to_owned(),
            what,
        };
        let mut listing = Listing::new(&table, snapshot.as_ref(), schema).await?;
        for split in &listing.splits {
            if let Some(columns) = &split.file.write_cols {
                return Err(unsupported(format!(
                    "data file {} holds only some columns ({}): merging such files is not supported",
                    split.file.file_name,
                    columns.join(", ")
                )));
            }
        }
        let mut merge = None;
        if let Some(keyed) = &keyed {
            if let Some(what) = keyed::unreadable(&listing.schema, &listing.splits) {
                return Err(unsupported(what));
            }
            listing.splits.retain(|split| keyed.shows(split));
            merge = Some(spec_of(&table, &listing.schema)?);
        }
        listing.read_vectors(&table).await?;
        Ok(Self {
            columns: listing.schema.fields.clone(),
            table,
            snapshot,
            schema: listing.schema,
            splits: listing.splits,
            schemas: listing.schemas,
            raw: false,
            limit: None,
            batch_rows: None,
            has_kinds: keyed.is_some(),
            keyed,
            merge,
            keep_deletes: false,
            filter: None,
        })
    }

    /// One data file by itself, of any version and of a table of any kind: all its rows as they stand in it,
    /// deleted ones too, in the given columns of the schema that it was written under.
    pub fn of_file(
        table: TableReader,
        split: Split,
        written: Arc<TableSchema>,
        columns: Vec<DataField>,
    ) -> Self {
        Self {
            columns,
            table,
            snapshot: None,
            schemas: HashMap::from([(split.file.schema_id, written.clone())]),
            schema: written,
            splits: vec![Split {
                deletion: None,
                ..split
            }],
            raw: true,
            limit: None,
            batch_rows: None,
            keyed: None,
            merge: None,
            has_kinds: false,
            keep_deletes: false,
            filter: None,
        }
    }

    /// Given files of a table, each alone, in their order.
    pub(crate) fn of_splits(
        table: TableReader,
        schema: Arc<TableSchema>,
        splits: Vec<Split>,
        schemas: HashMap<SchemaId, Arc<TableSchema>>,
    ) -> Self {
        Self {
            columns: schema.fields.clone(),
            table,
            snapshot: None,
            schema,
            splits,
            schemas,
            raw: false,
            limit: None,
            batch_rows: None,
            keyed: None,
            merge: None,
            has_kinds: false,
            keep_deletes: false,
            filter: None,
        }
    }

    /// The records of files of a keyed table as they stand in them.
    pub(crate) fn with_kinds_of_files(mut self) -> Self {
        self.has_kinds = true;
        self
    }

    /// The versions of each key merged, where the table has a key.
    pub(crate) fn merged(mut self, keyed: Option<KeyedTable>) -> Result<Self> {
        if keyed.is_some() {
            self.merge = Some(spec_of(&self.table, &self.schema)?);
            self.has_kinds = true;
            self.keyed = keyed;
        }
        Ok(self)
    }

    /// One plan per bucket.
    pub(crate) fn by_bucket(self) -> Vec<(BinaryRow, BucketId, Self)> {
        let mut splits: BTreeMap<(BinaryRow, BucketId), Vec<Split>> = BTreeMap::new();
        for split in &self.splits {
            let key = (split.partition.clone(), split.bucket);
            splits.entry(key).or_default().push(split.clone());
        }
        let of_bucket = |((partition, bucket), splits)| {
            let plan = Self {
                splits,
                ..self.clone()
            };
            (partition, bucket, plan)
        };
        splits.into_iter().map(of_bucket).collect()
    }

    /// Reads only these columns, in this order.
    ///
    /// # Errors
    /// [`Error::NoColumn`].
    pub fn with_columns<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self> {
        let columns = names.iter().map(|name| {
            let found = self.schema.fields.iter().find(|f| f.name == name.as_ref());
            found.cloned().ok_or_else(|| Error::NoColumn {
                column: name.as_ref().to_owned(),
                known: self
                    .schema
                    .fields
                    .iter()
                    .map(|f| f.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        });
        self.columns = columns.collect::<Result<_>>()?;
        Ok(self)
    }

    /// Reads the columns of another version of the schema as the files hold them, partition columns
    /// too: for a rewrite of old files, and for checking them. Otherwise partition columns have the
    /// values of the partition, as Java reads them, whatever is in the file: one that was taken over
    /// from Hive does not hold them.
    pub fn with_file_columns(mut self, schema: &TableSchema) -> Self {
        self.columns = schema.fields.clone();
        self.raw = true;
        self
    }

    /// Reads only rows that fulfil the conditions, and only files that may have some.
    ///
    /// # Errors
    /// A partition in a manifest that does not decode.
    pub fn with_filter(mut self, filter: Predicate) -> Result<Self> {
        let pruner = Pruner::new(&filter, &self.schema, &self.schemas);
        let mut kept = Vec::with_capacity(self.splits.len());
        for split in self.splits {
            if pruner.may_matter(&split)? {
                kept.push(split);
            }
        }
        self.splits = kept;
        self.filter = Some(filter);
        Ok(self)
    }

    /// Of a keyed table: only what a full compaction has merged, without merging anything: `$ro`
    /// \[R-3]. What was written since then is not seen. An append table is read whole.
    pub fn read_optimized(mut self) -> Self {
        if let Some(keyed) = &self.keyed {
            self.splits.retain(|split| keyed.is_top(split));
        }
        self
    }

    /// Of a keyed table: reads also the keys whose last record takes them back, with the kind of that
    /// record, where no compaction has forgotten them yet: what `$audit_log` shows.
    pub fn with_deletes(mut self) -> Self {
        self.keep_deletes = true;
        self
    }

    /// Reads at most so many rows.
    pub fn with_limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Sets how many rows a batch has at most.
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = Some(rows);
        self
    }

    /// The snapshot; `None` for a table without one.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The schema that the rows are read under.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The columns read.
    pub fn columns(&self) -> &[DataField] {
        &self.columns
    }

    /// The Arrow schema of the batches.
    ///
    /// # Errors
    /// A column of a type that this build cannot hold.
    pub fn arrow_schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(arrow_schema(&self.columns)?))
    }

    /// The files that are looked at, each once.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Keeps only the files that `keep` likes. Of a keyed table a file without those that have newer
    /// versions of its keys reads to old rows.
    pub fn retain(&mut self, keep: impl FnMut(&Split) -> bool) {
        self.splits.retain(keep);
    }

    /// Rows that [`read`](Self::read) gives where there is no limit; `None` where only reading tells:
    /// where versions of a key are to be merged, or rows to be compared.
    pub fn row_count(&self) -> Option<u64> {
        if self.filter.is_some() {
            return None;
        }
        let all = |splits: &[Split]| splits.iter().map(Split::row_count).sum::<u64>();
        let Some(keyed) = self.keyed.as_ref().filter(|_| !self.raw) else {
            return Some(all(&self.splits));
        };
        let units = keyed.units(&self.splits).ok()?;
        let rows = units.iter().map(|unit| match unit {
            Unit::Plain { splits, retracts } if self.keep_deletes || !retracts => Some(all(splits)),
            _ => None,
        });
        rows.sum()
    }

    /// The rows: of an append table file by file, of a keyed one bucket by bucket, the versions of each
    /// key merged.
    ///
    /// # Errors
    /// A column of a type that this build cannot hold, or whose type changed without a cast. As items:
    /// missing or unreadable data files, rows that the table's merge engine refuses; nothing comes
    /// after one.
    pub fn read(&self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        read::read(self)
    }

    /// The rows with the kind of the record that each comes from; rows of an append table are inserts.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_kinds(&self) -> Result<BoxStream<'static, Result<KindedRows>>> {
        read::read_kinds(self)
    }

    /// How versions of a key are merged.
    pub(crate) fn merge_spec(&self) -> Result<&Arc<MergeSpec>> {
        self.merge.as_ref().ok_or_else(|| Error::Inconsistent {
            file: self.table.store().url().to_owned(),
            what: "a table without a primary key has nothing to merge".to_owned(),
        })
    }
}

/// How a table's rows are merged; what this build cannot merge is refused before anything is read.
fn spec_of(table: &TableReader, schema: &TableSchema) -> Result<Arc<MergeSpec>> {
    let spec = MergeSpec::new(schema).map_err(|e| Error::Unsupported {
        table: table.store().url().to_owned(),
        what: e.to_string(),
    });
    spec.map(Arc::new)
}

/// Why a table's rows are not simply those of its files.
pub(crate) fn unreadable(schema: &TableSchema) -> Option<String> {
    let set = |key: &str| {
        schema
            .options
            .get(key)
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    };
    if set("data-evolution.enabled") {
        return Some(
            "option data-evolution.enabled: columns of a row lie in several files".to_owned(),
        );
    }
    match schema.options.get("type") {
        None | Some("table") => None,
        Some(other) => Some(format!("it is a {other}")),
    }
}
