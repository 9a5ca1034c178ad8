//! A table's metadata, read: snapshots, tags, schemas.

use crate::changes::{Changes, From};
use crate::error::{Error, Result};
use crate::plan::ScanPlan;
use crate::postpone::Waiting;
use crate::split::Listing;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use tidegate_format as format;
use tidegate_model::{
    BinaryRow, BucketId, SchemaId, Snapshot, SnapshotId, TableSchema, calendar, layout,
};
use tidegate_storage::Store;

/// Which version of a table to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The newest snapshot under the newest schema.
    #[default]
    Latest,
    /// A snapshot, under the schema that it was made with.
    Snapshot(SnapshotId),
    /// A tag, likewise.
    Tag(String),
    /// The newest snapshot made at this time or before, in epoch milliseconds, likewise.
    Timestamp(i64),
}

/// Reads the metadata of one table; holds nothing but the store.
///
/// ```
/// # use std::collections::BTreeMap;
/// use tidegate_scan::{At, TableReader};
/// use tidegate_storage::Store;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let store = Store::open("memory://lake/shop.db/orders", &BTreeMap::new())?;
/// # let schema = br#"{"version":3,"id":0,"fields":[{"id":0,"name":"id","type":"INT"}],
/// #   "highestFieldId":0,"partitionKeys":[],"primaryKeys":[],"options":{},"timeMillis":0}"#;
/// # store.put("schema/schema-0", schema.to_vec().into()).await?;
/// let table = TableReader::new(store);
/// let plan = table.scan(&At::Latest).await?;
/// assert!(plan.snapshot().is_none() && plan.splits().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableReader {
    store: Store,
    branch: Option<String>,
    external: Arc<BTreeMap<String, String>>,
}

impl TableReader {
    /// `store` is rooted at the table.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            branch: None,
            external: Arc::default(),
        }
    }

    /// The same table's branch of that name; `main` is the table itself.
    pub fn with_branch(mut self, branch: &str) -> Self {
        self.branch = (branch != "main").then(|| branch.to_owned());
        self
    }

    /// Options for opening the stores of data files that lie outside the table.
    pub fn with_store_options(mut self, options: BTreeMap<String, String>) -> Self {
        self.external = Arc::new(options);
        self
    }

    /// The store, rooted at the table.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The store in which a path of a [`Split`](crate::Split) lies, and the path there: a data file may lie
    /// outside the table.
    ///
    /// # Errors
    /// A path outside that is none, or whose store cannot be opened.
    pub fn locate(&self, path: &str) -> Result<(Store, String)> {
        crate::places::located(self, path)
    }

    pub(crate) fn store_options(&self) -> &BTreeMap<String, String> {
        &self.external
    }

    /// A path of snapshots, schemas or tags, in the branch where there is one.
    pub(crate) fn path(&self, path: &str) -> String {
        match &self.branch {
            Some(branch) => layout::in_branch(branch, path),
            None => path.to_owned(),
        }
    }

    /// Ids of all snapshots, ascending.
    ///
    /// # Errors
    /// Failures of the store.
    pub async fn snapshot_ids(&self) -> Result<Vec<SnapshotId>> {
        let entries = self
            .store
            .list_names(&self.path(layout::SNAPSHOT_DIR))
            .await?;
        let mut ids: Vec<_> = entries
            .iter()
            .filter_map(|e| layout::snapshot_id(&e.name))
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The newest snapshot; `None` where the table has none.
    ///
    /// # Errors
    /// Failures of the store, an unreadable snapshot file.
    pub async fn latest_snapshot(&self) -> Result<Option<Snapshot>> {
        if let Some(hinted) = self.hinted().await? {
            return Ok(Some(hinted));
        }
        match self.snapshot_ids().await?.last() {
            Some(id) => self.snapshot(*id).await.map(Some),
            None => Ok(None),
        }
    }

    /// The snapshot of the hint, if it is there and has no successor \[F-1.3].
    async fn hinted(&self) -> Result<Option<Snapshot>> {
        let Some(bytes) = self.store.get_opt(&self.path(layout::LATEST_PATH)).await? else {
            return Ok(None);
        };
        let Ok(id) = format::hint::decode(&bytes) else {
            return Ok(None);
        };
        if self
            .store
            .head(&self.path(&layout::snapshot_path(id.next())))
            .await?
            .is_some()
        {
            return Ok(None);
        }
        self.find_snapshot(id).await
    }

    pub(crate) async fn find_snapshot(&self, id: SnapshotId) -> Result<Option<Snapshot>> {
        let path = self.path(&layout::snapshot_path(id));
        match self.store.get_opt(&path).await? {
            Some(bytes) => Ok(Some(
                format::snapshot::decode(&bytes).map_err(|e| e.in_file(path))?,
            )),
            None => Ok(None),
        }
    }

    /// A snapshot.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`] names those that there are.
    pub async fn snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        if let Some(snapshot) = self.find_snapshot(id).await? {
            return Ok(snapshot);
        }
        let ids = self.snapshot_ids().await?;
        let present = match (ids.first(), ids.last()) {
            (Some(first), Some(last)) => format!("there are {first} to {last}"),
            _ => "there is none at all".to_owned(),
        };
        Err(Error::NoSnapshot {
            table: self.store.url().to_owned(),
            id,
            present,
        })
    }

    /// The snapshot that a tag keeps.
    ///
    /// # Errors
    /// [`Error::NoTag`]; an unreadable tag file.
    pub async fn tag(&self, name: &str) -> Result<Snapshot> {
        let path = self.path(&layout::tag_path(name));
        match self.store.get_opt(&path).await? {
            Some(bytes) => Ok(format::tag::decode(&bytes)
                .map_err(|e| e.in_file(path))?
                .snapshot),
            None => Err(Error::NoTag {
                table: self.store.url().to_owned(),
                tag: name.to_owned(),
            }),
        }
    }

    /// A schema by its number.
    ///
    /// # Errors
    /// [`Error::NoSchema`]; an unreadable schema file.
    pub async fn schema(&self, id: SchemaId) -> Result<TableSchema> {
        let path = self.path(&layout::schema_path(id));
        match self.store.get_opt(&path).await? {
            Some(bytes) => Ok(format::schema::decode(&bytes).map_err(|e| e.in_file(path))?),
            None => Err(Error::NoSchema {
                table: self.store.url().to_owned(),
                id,
            }),
        }
    }

    /// The newest schema.
    ///
    /// # Errors
    /// [`Error::NoTable`] where there is none.
    pub async fn latest_schema(&self) -> Result<TableSchema> {
        let entries = self
            .store
            .list_names(&self.path(layout::SCHEMA_DIR))
            .await?;
        match entries
            .iter()
            .filter_map(|e| layout::schema_id(&e.name))
            .max()
        {
            Some(id) => self.schema(id).await,
            None => Err(Error::NoTable(self.store.url().to_owned())),
        }
    }

    /// Plans to read a version of the table: which files, and which of their rows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for tables whose rows are not simply those of their files; missing or
    /// unreadable metadata.
    pub async fn scan(&self, at: &At) -> Result<ScanPlan> {
        let (snapshot, schema) = self.version(at).await?;
        ScanPlan::new(self.clone(), snapshot, schema).await
    }

    /// The changes of the table from a place in its history on.
    ///
    /// # Errors
    /// [`Error::Unsupported`]; missing or unreadable metadata.
    pub async fn changes(&self, from: From) -> Result<Changes> {
        Changes::open(self.clone(), from).await
    }

    /// Lists the files of a version, of tables too whose rows this build cannot read.
    ///
    /// # Errors
    /// Missing or unreadable metadata.
    pub async fn files(&self, at: &At) -> Result<Listing> {
        let (snapshot, schema) = self.version(at).await?;
        Listing::new(self, snapshot.as_ref(), schema).await
    }

    /// The rows of each bucket of a snapshot under a schema of the table, level 0 included whatever the table's
    /// options hide: what a writer must know that looks for keys.
    ///
    /// # Errors
    /// As [`scan`](Self::scan); [`Error::NoSnapshot`].
    pub async fn buckets(
        &self,
        snapshot: SnapshotId,
        schema: TableSchema,
    ) -> Result<Vec<(BinaryRow, BucketId, ScanPlan)>> {
        let snapshot = self.snapshot(snapshot).await?;
        let all = ScanPlan::unsettled(self.clone(), snapshot, schema).await?;
        Ok(all.by_bucket())
    }

    /// What waits for its bucket in a snapshot of a table with `bucket = -2`, under a schema of the table.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; missing or unreadable metadata.
    pub async fn waiting(&self, snapshot: SnapshotId, schema: TableSchema) -> Result<Waiting> {
        let snapshot = self.snapshot(snapshot).await?;
        Waiting::of(self, &snapshot, schema).await
    }

    /// The newest snapshot that was made at a time or before. Times of snapshots never go back where their
    /// writers keep to that, as ours do; so not all of them are read.
    ///
    /// # Errors
    /// [`Error::NothingThen`] where the oldest one left is younger.
    pub async fn snapshot_at(&self, millis: i64) -> Result<Snapshot> {
        let ids = self.snapshot_ids().await?;
        let mut found = None;
        let (mut low, mut high) = (0, ids.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let read = match ids.get(middle) {
                Some(id) => self.find_snapshot(*id).await?,
                None => None,
            };
            match read {
                Some(snapshot) if snapshot.time_millis > millis => high = middle,
                // One that has expired since the listing was older than those that are left.
                read => {
                    found = read.or(found);
                    low = middle + 1;
                }
            }
        }
        if let Some(snapshot) = found {
            return Ok(snapshot);
        }
        let present = match ids.first() {
            Some(first) => {
                let oldest = self.snapshot(*first).await?;
                format!(
                    "the oldest snapshot left is {first}, of {}",
                    instant(oldest.time_millis)
                )
            }
            None => "there is no snapshot at all".to_owned(),
        };
        Err(Error::NothingThen {
            table: self.store.url().to_owned(),
            time: instant(millis),
            present,
        })
    }

    async fn version(&self, at: &At) -> Result<(Option<Snapshot>, TableSchema)> {
        match at {
            At::Latest => Ok((self.latest_snapshot().await?, self.latest_schema().await?)),
            At::Snapshot(id) => {
                let snapshot = self.snapshot(*id).await?;
                let schema = self.schema(snapshot.schema_id).await?;
                Ok((Some(snapshot), schema))
            }
            At::Tag(name) => {
                let snapshot = self.tag(name).await?;
                let schema = self.schema(snapshot.schema_id).await?;
                Ok((Some(snapshot), schema))
            }
            At::Timestamp(millis) => {
                let snapshot = self.snapshot_at(*millis).await?;
                let schema = self.schema(snapshot.schema_id).await?;
                Ok((Some(snapshot), schema))
            }
        }
    }
}

/// A time for messages, in UTC.
fn instant(millis: i64) -> String {
    let mut text = String::new();
    let (day, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    calendar::write_date(&mut text, day);
    let (seconds, rest) = (of_day / 1000, of_day % 1000);
    let _written = write!(
        text,
        "T{:02}:{:02}:{:02}.{rest:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    text
}
