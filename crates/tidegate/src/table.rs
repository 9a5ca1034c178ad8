//! A table: its store, its newest schema, and what can be made of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_commit::CommitError;
use tidegate_model::{Snapshot, SnapshotId, TableSchema, layout};
use tidegate_recovery::Registry;
use tidegate_scan::{At, ScanPlan, TableReader};
use tidegate_storage::{Scheme, Store};

use crate::error::{Error, Result};
use crate::stream::StreamBuilder;
use crate::target::{TableTarget, TargetOptions};

/// An open table. Cheap to clone; sees the schema that was newest when it was opened.
#[derive(Clone, Debug)]
pub struct Table {
    store: Store,
    name: String,
    schema: Arc<TableSchema>,
}

/// What a table option `path` is answered with at creation. Java's file system catalog refuses it too:
/// it sets the option when it loads a table and never stores it.
pub const TABLE_PATH: &str = "table option `path` cannot be given: a table stands at \
    WAREHOUSE/DATABASE.db/TABLE; remove it, and for another place take another warehouse \
    (sink.warehouse, --warehouse)";

pub(crate) async fn create(store: &Store, schema: &TableSchema, name: &str) -> Result<()> {
    if schema.options.get("path").is_some() {
        return Err(Error::Config(format!("table `{name}`: {TABLE_PATH}")));
    }
    // A table that could never be written or committed to is refused before it exists.
    crate::target::writer_memory(schema, name)?;
    store.probe_create().await?;
    match tidegate_commit::create_table(store, schema).await {
        Err(CommitError::TableExists { url }) => Err(Error::Exists(format!(
            "table `{name}` exists already ({url})"
        ))),
        other => Ok(other?),
    }
}

/// Removes what processes left that were killed while they created the table or a schema: objects by which
/// they tried the store out, and temporary files beside the schemas, only those whose schema is there: no
/// create can still win by one. Called by who is about to write; what cannot be removed is found again.
pub(crate) async fn remove_leftovers(store: &Store) {
    let _ = store.remove_probes().await;
    // Elsewhere a create is one request and leaves nothing.
    if store.capabilities().scheme != Scheme::File {
        return;
    }
    for file in store
        .list_unfinished(layout::SCHEMA_DIR)
        .await
        .unwrap_or_default()
    {
        let name = file.target.rsplit('/').next().unwrap_or_default();
        let decided = layout::schema_id(name).is_some()
            && matches!(store.head(&file.target).await, Ok(Some(_)));
        if decided {
            let _ = store.discard_unfinished(&file).await;
        }
    }
}

pub(crate) async fn create_or_open(
    store: Store,
    schema: &TableSchema,
    name: String,
) -> Result<Table> {
    match Table::on(store.clone(), name.clone()).await {
        Err(Error::Commit(CommitError::NoTable { .. })) => {
            match create(&store, schema, &name).await {
                // Somebody else made it in between: compared like any other.
                Ok(()) | Err(Error::Exists(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Err(e) => return Err(e),
        Ok(_) => {}
    }
    let table = Table::on(store, name).await?;
    if let Err(differences) = table.schema.compatible_with(schema) {
        return Err(Error::Config(format!(
            "table `{}` ({}) is not what is declared: {}; change the declaration, or take another table name",
            table.name,
            table.store.url(),
            differences.join("; ")
        )));
    }
    Ok(table)
}

impl Table {
    /// Opens a table by the URL or path of its folder.
    ///
    /// # Errors
    /// [`Error::Commit`] where there is no table; faults of the store.
    pub async fn open(url: &str) -> Result<Self> {
        Self::on(Store::open(url, &BTreeMap::new())?, url.to_owned()).await
    }

    /// Opens a table by the URL or path of its folder, or makes it.
    ///
    /// # Errors
    /// [`Error::Config`] lists the differences between the declared schema and the one found.
    pub async fn create_or_open(url: &str, schema: &TableSchema) -> Result<Self> {
        create_or_open(Store::open(url, &BTreeMap::new())?, schema, url.to_owned()).await
    }

    /// Opens the table at the root of a store.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub async fn on(store: Store, name: String) -> Result<Self> {
        let schema = Arc::new(tidegate_commit::load_schema(&store).await?);
        Ok(Self {
            store,
            name,
            schema,
        })
    }

    /// The same table seen under another schema.
    pub(crate) fn replaced(self, schema: Arc<TableSchema>) -> Self {
        Self { schema, ..self }
    }

    /// For messages: `shop.orders`, or the URL it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store, rooted at the table.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The newest schema when it was opened.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The newest snapshot, `None` where nothing was committed.
    ///
    /// # Errors
    /// Faults of the store, unreadable files.
    pub async fn latest_snapshot(&self) -> Result<Option<Snapshot>> {
        Ok(tidegate_commit::latest_snapshot(&self.store).await?)
    }

    /// All snapshots, ascending.
    ///
    /// # Errors
    /// Faults of the store, unreadable files.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        Ok(tidegate_commit::snapshots(&self.store).await?)
    }

    /// One snapshot.
    ///
    /// # Errors
    /// [`Error::NotFound`]; faults of the store, unreadable files.
    pub async fn snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        let found = tidegate_commit::snapshot(&self.store, id).await?;
        found.map(|v| v.snapshot).ok_or_else(|| {
            Error::NotFound(format!(
                "snapshot {id} of `{}` not found: it expired, or was never made",
                self.name
            ))
        })
    }

    /// Reads metadata and rows; see `tidegate-scan`.
    pub fn reader(&self) -> TableReader {
        TableReader::new(self.store.clone())
    }

    /// The files and rows of one version, to be narrowed to columns and read.
    ///
    /// # Errors
    /// A snapshot or tag that is not there; unreadable files; a table that this build cannot read.
    pub async fn scan(&self, at: &At) -> Result<ScanPlan> {
        Ok(self.reader().scan(at).await?)
    }

    /// Registrations of the jobs that write to it.
    pub fn jobs(&self) -> Registry {
        Registry::new(self.store.clone())
    }

    /// The table as a target of an engine.
    ///
    /// # Errors
    /// [`Error::Config`] where this build cannot write it rightly; names the option.
    pub fn target(&self, options: TargetOptions) -> Result<TableTarget> {
        TableTarget::new(self.clone(), options)
    }

    /// A single-task stream of a job into the table: rows in, exactly once.
    ///
    /// # Errors
    /// A job name that is none.
    pub fn stream(&self, job: &str) -> Result<StreamBuilder> {
        StreamBuilder::new(self.clone(), job)
    }
}
