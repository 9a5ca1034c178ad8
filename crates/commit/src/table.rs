//! A table without a job: making it, its schema, its snapshots.

use std::sync::Arc;

use tidegate_format::schema;
use tidegate_model::{SchemaId, Snapshot, SnapshotId, TableSchema, layout};
use tidegate_storage::{Create, Store};

use crate::env::{Env, SystemEnv};
use crate::error::{CommitError, Result};
use crate::meta::{Meta, Visible};

/// Makes a table: `schema/schema-0`, created if absent, so that of several makers one wins.
/// `store` is rooted at the table's directory.
///
/// # Errors
/// [`CommitError::TableExists`] where there is a table already; faults of the store.
pub async fn create_table(store: &Store, schema: &TableSchema) -> Result<()> {
    if schema.id != SchemaId(0) {
        return Err(CommitError::Config(format!(
            "a new table starts with schema 0, not {}",
            schema.id
        )));
    }
    schema.validate().map_err(crate::settings::config)?;
    // Snapshots without a schema are a damaged table: a guessed schema would give its files other
    // columns without a word.
    if meta(store).newest_schema_id().await?.is_none()
        && let Some(id) = meta(store).snapshot_ids().await?.pop()
    {
        return Err(CommitError::Missing {
            path: layout::schema_path(schema.id),
            referrer: layout::snapshot_path(id),
        });
    }
    let path = layout::schema_path(SchemaId(0));
    let bytes = bytes::Bytes::from(schema::encode(schema));
    let mut outcome = store.create_if_absent(&path, bytes.clone()).await;
    if matches!(outcome, Create::Unknown(_)) {
        // Same bytes, same name: settled by presence.
        outcome = store.create_if_absent(&path, bytes.clone()).await;
    }
    match outcome {
        Create::Created => Ok(()),
        Create::Exists(theirs) if theirs == bytes => Ok(()),
        Create::Exists(_) => Err(CommitError::TableExists {
            url: store.url().to_owned(),
        }),
        Create::Unknown(error) | Create::Failed(error) => {
            Err(CommitError::store(format!("creating {path}"), error))
        }
    }
}

/// The newest schema of a table.
///
/// # Errors
/// [`CommitError::NoTable`] where there is none; faults of the store, unreadable files.
pub async fn load_schema(store: &Store) -> Result<TableSchema> {
    let meta = meta(store);
    match meta.newest_schema_id().await? {
        Some(id) => meta.schema(id).await,
        None => Err(CommitError::NoTable {
            url: store.url().to_owned(),
        }),
    }
}

/// The newest snapshot; `None` for a table without any.
///
/// # Errors
/// Faults of the store, an unreadable snapshot.
pub async fn latest_snapshot(store: &Store) -> Result<Option<Snapshot>> {
    Ok(meta(store).newest().await?.map(|visible| visible.snapshot))
}

/// All snapshots, ascending.
///
/// # Errors
/// Faults of the store, an unreadable snapshot.
pub async fn snapshots(store: &Store) -> Result<Vec<Snapshot>> {
    let meta = meta(store);
    let ids = meta.snapshot_ids().await?;
    Ok(meta
        .snapshots_of(ids)
        .await?
        .into_iter()
        .map(|visible| visible.snapshot)
        .collect())
}

/// One snapshot with its bytes and identity; `None` where there is none.
///
/// # Errors
/// Faults of the store, an unreadable snapshot.
pub async fn snapshot(store: &Store, id: SnapshotId) -> Result<Option<Visible>> {
    meta(store).snapshot(id).await
}

fn meta(store: &Store) -> Meta {
    let env: Arc<dyn Env> = Arc::new(SystemEnv);
    Meta::new(store.clone(), env)
}
