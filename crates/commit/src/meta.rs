//! Reading the metadata of one table: snapshots, schemas, lists, manifests, and which snapshot is the
//! newest.
//!
//! Owns no decision and no cache; every error names the object.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use tidegate_format::{hint, manifest, manifest_list, schema, snapshot};
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    IndexManifestEntry, ManifestEntry, ManifestFile, SchemaId, Snapshot, SnapshotId, TableSchema,
    layout,
};
use tidegate_protocol::{SnapshotFact, Token};
use tidegate_sink::mutant;
use tidegate_storage::Store;

use crate::env::Env;
use crate::error::{CommitError, Result};
use crate::names::sha256_hex;
use crate::properties::Marks;

/// Requests under way at once while metadata is read.
pub(crate) const PARALLEL: usize = 16;

/// So many snapshots are looked for one by one above a known one before the directory is listed.
const STEPS_BEFORE_LISTING: usize = 64;

/// A snapshot as it stands in the store.
#[derive(Clone, Debug)]
pub struct Visible {
    /// Its content.
    pub snapshot: Snapshot,
    /// Its bytes.
    pub bytes: Bytes,
    /// Its identity: uuid, or `sha256:` and the hash of its bytes \[R-14].
    pub token: Token,
}

impl Visible {
    /// A snapshot with the bytes that it was read from.
    pub fn new(snapshot: Snapshot, bytes: Bytes) -> Self {
        let token = match &snapshot.uuid {
            Some(uuid) => Token::new(uuid.as_str()),
            None => Token::new(format!("sha256:{}", sha256_hex(&bytes))),
        };
        Self {
            snapshot,
            bytes,
            token,
        }
    }

    /// The part of it that the protocol looks at.
    pub(crate) fn fact(&self) -> Result<SnapshotFact> {
        let marks = Marks::of(&self.snapshot)?;
        let marks = marks.as_ref();
        Ok(SnapshotFact {
            id: self.snapshot.id,
            token: self.token.clone(),
            user: self.snapshot.commit_user.clone(),
            identifier: self.snapshot.commit_identifier,
            kind: self.snapshot.commit_kind,
            job: marks.map(|m| m.job.clone()),
            epoch: marks.map(|m| m.epoch),
            digest: marks.map(|m| m.digest),
            positions: marks.and_then(|m| m.positions.as_ref()).map(|p| p.hash),
            based_on: marks.and_then(|m| m.based_on.as_deref()).map(Token::new),
            empty: marks.is_some_and(|m| m.empty),
        })
    }
}

/// The metadata of one table, read.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) store: Store,
    pub(crate) env: Arc<dyn Env>,
}

impl Meta {
    pub(crate) fn new(store: Store, env: Arc<dyn Env>) -> Self {
        Self { store, env }
    }

    async fn bytes(&self, path: &str, referrer: &str) -> Result<Bytes> {
        match self.store.get_opt(path).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(CommitError::Missing {
                path: path.to_owned(),
                referrer: referrer.to_owned(),
            }),
            Err(error) => Err(CommitError::store(format!("reading {path}"), error)),
        }
    }

    /// Snapshot `id`; `None` where there is none.
    pub(crate) async fn snapshot(&self, id: SnapshotId) -> Result<Option<Visible>> {
        self.snapshot_at(&layout::snapshot_path(id)).await
    }

    /// The snapshot under a path: also tags and long-lived changelogs.
    pub(crate) async fn snapshot_at(&self, path: &str) -> Result<Option<Visible>> {
        let mut tries = 0;
        loop {
            let bytes = self.store.get_opt(path).await;
            let bytes = bytes.map_err(|e| CommitError::store(format!("reading {path}"), e))?;
            let Some(bytes) = bytes else { return Ok(None) };
            match snapshot::decode(&bytes) {
                Ok(snapshot) => return Ok(Some(Visible::new(snapshot, bytes))),
                // Foreign writers on local disks may show a file before it is whole [C-51].
                Err(_) if tries < 9 => {
                    tries += 1;
                    self.env.sleep(Duration::from_millis(200)).await;
                }
                Err(error) => return Err(CommitError::corrupt(path, error)),
            }
        }
    }

    /// Snapshots `from..=to` that exist, ascending.
    pub(crate) async fn snapshots(&self, from: SnapshotId, to: SnapshotId) -> Result<Vec<Visible>> {
        let ids: Vec<SnapshotId> = (from.0..=to.0).map(SnapshotId).collect();
        self.snapshots_of(ids).await
    }

    /// Those of these snapshots that exist, in the order asked.
    pub(crate) async fn snapshots_of(&self, ids: Vec<SnapshotId>) -> Result<Vec<Visible>> {
        stream::iter(ids)
            .map(|id| self.snapshot(id))
            .buffered(PARALLEL)
            .try_filter_map(|found| std::future::ready(Ok(found)))
            .try_collect()
            .await
    }

    /// Ids of all snapshots, ascending: one list.
    pub(crate) async fn snapshot_ids(&self) -> Result<Vec<SnapshotId>> {
        let ids = self
            .numbers(layout::SNAPSHOT_DIR, layout::SNAPSHOT_PREFIX)
            .await?;
        Ok(ids.into_iter().map(SnapshotId).collect())
    }

    async fn numbers(&self, dir: &str, prefix: &str) -> Result<Vec<i64>> {
        let names = self.store.list_names(dir).await;
        let names = names.map_err(|e| CommitError::store(format!("listing {dir}/"), e))?;
        let mut ids: Vec<i64> = names
            .iter()
            .filter(|entry| !entry.is_dir)
            .filter_map(|entry| layout::versioned(prefix, &entry.name))
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The newest snapshot, with those between `above` and it that were met on the way, ascending.
    ///
    /// The LATEST hint is only where the search starts: the snapshot that it names must exist, since
    /// a stale hint leads below the real end \[C-51a].
    pub(crate) async fn newest(&self) -> Result<Option<Visible>> {
        if let Some(id) = self.hint(layout::LATEST_PATH).await?
            && let Some(found) = self.snapshot(id).await?
        {
            if mutant::on("hint-trusted") {
                return Ok(Some(found));
            }
            return self.climb(found).await.map(|mut met| met.pop());
        }
        let Some(id) = self.snapshot_ids().await?.pop() else {
            return Ok(None);
        };
        match self.snapshot(id).await? {
            Some(found) => self.climb(found).await.map(|mut met| met.pop()),
            // Rolled back between the list and the read; the caller starts again.
            None => Err(CommitError::Missing {
                path: layout::snapshot_path(id),
                referrer: "the list of snapshot/".to_owned(),
            }),
        }
    }

    /// From a snapshot that exists up to the newest one: `from` and all above it, ascending.
    pub(crate) async fn climb(&self, from: Visible) -> Result<Vec<Visible>> {
        let mut met = vec![from.clone()];
        let mut top = from.snapshot.id;
        for _ in 0..STEPS_BEFORE_LISTING {
            match self.snapshot(top.next()).await? {
                Some(next) => {
                    top = next.snapshot.id;
                    met.push(next);
                }
                None => return Ok(met),
            }
        }
        let ids: Vec<_> = self
            .snapshot_ids()
            .await?
            .into_iter()
            .filter(|id| *id > top)
            .collect();
        met.extend(self.snapshots_of(ids).await?);
        Ok(met)
    }

    /// Where readers begin, by the EARLIEST hint of whoever expired last. What stands below was created late,
    /// by somebody who slept, where the real one had expired \[C-51a]: asked where the snapshot above does not
    /// say what it was built on. A hint above `newest` is of another history.
    pub(crate) async fn earliest(&self, newest: SnapshotId) -> Result<Option<SnapshotId>> {
        let earliest = self.hint(layout::EARLIEST_PATH).await?;
        Ok(earliest.filter(|earliest| *earliest <= newest))
    }

    async fn hint(&self, path: &str) -> Result<Option<SnapshotId>> {
        let bytes = self.store.get_opt(path).await;
        let bytes = bytes.map_err(|e| CommitError::store(format!("reading {path}"), e))?;
        // A torn hint is as good as none.
        Ok(bytes.and_then(|bytes| hint::decode(&bytes).ok()))
    }

    /// The newest schema id: one list.
    pub(crate) async fn newest_schema_id(&self) -> Result<Option<SchemaId>> {
        let ids = self
            .numbers(layout::SCHEMA_DIR, layout::SCHEMA_PREFIX)
            .await?;
        Ok(ids.last().copied().map(SchemaId))
    }

    /// The newest schema id above or equal to one that exists: one request per new schema, plus one.
    pub(crate) async fn schema_id_from(&self, known: SchemaId) -> Result<SchemaId> {
        let mut newest = known;
        loop {
            let next = SchemaId(newest.0.saturating_add(1));
            let path = layout::schema_path(next);
            let found = self.store.head(&path).await;
            let found = found.map_err(|e| CommitError::store(format!("looking for {path}"), e))?;
            if found.is_none() {
                return Ok(newest);
            }
            newest = next;
        }
    }

    /// A schema that must exist.
    pub(crate) async fn schema(&self, id: SchemaId) -> Result<TableSchema> {
        let path = layout::schema_path(id);
        let bytes = self.bytes(&path, "the list of schema/").await?;
        schema::decode(&bytes).map_err(|e| CommitError::corrupt(path, e))
    }

    /// The manifests that a list names, in order.
    pub(crate) async fn list(
        &self,
        list: &ListRef,
        referrer: SnapshotId,
    ) -> Result<Vec<ManifestFile>> {
        let path = layout::manifest_path(&list.name);
        let bytes = self.bytes(&path, &format!("snapshot {referrer}")).await?;
        manifest_list::decode(&bytes).map_err(|e| CommitError::corrupt(path, e))
    }

    /// All manifests of a snapshot: base list, then delta list.
    pub(crate) async fn manifests(&self, snapshot: &Snapshot) -> Result<Vec<ManifestFile>> {
        let base = self.list(&snapshot.base_manifest_list, snapshot.id);
        let delta = self.list(&snapshot.delta_manifest_list, snapshot.id);
        let (mut base, delta) = futures::future::try_join(base, delta).await?;
        base.extend(delta);
        Ok(base)
    }

    /// The entries of a manifest, in order.
    pub(crate) async fn entries(&self, name: &str) -> Result<Vec<ManifestEntry>> {
        let path = layout::manifest_path(name);
        let bytes = self.bytes(&path, "a manifest list").await?;
        let wrong = |e| CommitError::corrupt(path.as_str(), e);
        let entries = manifest::entries(&bytes).map_err(wrong)?;
        entries
            .map(|entry| entry.map_err(|e| CommitError::corrupt(path.as_str(), e)))
            .collect()
    }

    /// The state of index files that an index manifest holds.
    pub(crate) async fn index_entries(&self, name: &str) -> Result<Vec<IndexManifestEntry>> {
        let path = layout::manifest_path(name);
        let bytes = self.bytes(&path, "a snapshot").await?;
        tidegate_format::index_manifest::decode(&bytes).map_err(|e| CommitError::corrupt(path, e))
    }
}
