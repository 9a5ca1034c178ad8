//! The `Write` step: manifests, lists and the index manifest of one attempt, durable when it returns.
//!
//! Owns which objects a plan asks for and what they are called. Does not own the plan, which is the
//! protocol's, nor what becomes of the objects afterwards.

use bytes::Bytes;
use tidegate_model::{EntryKind, ManifestEntry, ManifestFile, SimpleStats};
use tidegate_protocol::merge::{ManifestSummary, Piece};
use tidegate_protocol::{
    Changes, DeltaObjects, FileChange, IndexPlan, ObjectId, WritePlan, Written,
};
use tidegate_storage::Store;

use crate::error::{CommitError, Result};
use crate::manifests::{Encoded, encode_list, encode_manifests};
use crate::registry::{File, Object};

use super::{Executor, Running};

/// One `Write` step: remembers the ids of all that it may have left.
pub(super) struct WriteJob {
    pub(super) ids: Vec<ObjectId>,
}

impl WriteJob {
    pub(super) async fn run(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        plan: &WritePlan,
    ) -> Result<Written> {
        executor.write_side_objects(running).await?;
        let merged = self.merge(executor, running, plan).await?;
        let mut objects: Vec<Encoded<()>> = Vec::new();
        let base_list = self.base_list(executor, running, plan, &merged, &mut objects)?;
        let delta = match &plan.delta {
            Some(changes) => Some(self.delta(executor, running, changes, &mut objects)?),
            None => None,
        };
        let index = match &plan.index {
            Some(index) => Some(self.index(executor, running, index, &mut objects).await?),
            None => None,
        };
        // Lists may be written beside what they name: nothing refers to them yet (invariant 2).
        executor
            .write_all(&mut running.unfinished, &objects)
            .await?;
        Ok(Written {
            delta,
            merged,
            base_list,
            index,
        })
    }

    async fn merge(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        plan: &WritePlan,
    ) -> Result<Vec<Vec<ManifestSummary>>> {
        let mut merged = Vec::new();
        for piece in &plan.base.pieces {
            let Piece::Merge {
                inputs,
                drop_deletes,
            } = piece
            else {
                continue;
            };
            let files = inputs
                .iter()
                .map(|m| running.registry.objects.manifest(m.id).cloned());
            let files = files.collect::<Result<Vec<_>>>()?;
            let entries =
                crate::merge::merged_entries(&executor.meta, &files, *drop_deletes).await?;
            let encoded =
                crate::merge::encode(&executor.manifest_settings, &executor.names, entries)?;
            let mut outputs = Vec::new();
            for manifest in &encoded {
                let summary = running.registry.objects.summary(manifest.what.clone());
                self.ids.push(summary.id);
                outputs.push(summary);
            }
            executor
                .write_all(&mut running.unfinished, &encoded)
                .await?;
            merged.push(outputs);
        }
        Ok(merged)
    }

    fn base_list(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        plan: &WritePlan,
        merged: &[Vec<ManifestSummary>],
        out: &mut Vec<Encoded<()>>,
    ) -> Result<ObjectId> {
        let mut manifests = Vec::new();
        let mut results = merged.iter();
        for piece in &plan.base.pieces {
            let ids: Vec<ObjectId> = match piece {
                Piece::Keep(manifest) => vec![manifest.id],
                Piece::Merge { .. } => results.next().into_iter().flatten().map(|m| m.id).collect(),
                Piece::Reuse { outputs, .. } => outputs.iter().map(|m| m.id).collect(),
            };
            for id in ids {
                manifests.push(running.registry.objects.manifest(id)?.clone());
            }
        }
        self.list(executor, running, manifests, out)
    }

    fn list(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        manifests: Vec<ManifestFile>,
        out: &mut Vec<Encoded<()>>,
    ) -> Result<ObjectId> {
        let encoded = encode_list(&executor.manifest_settings, &executor.names, &manifests)?;
        let (name, size) = encoded.what.clone();
        let id = running.registry.objects.add(Object::List(name, size));
        self.ids.push(id);
        running.lists.insert(id, manifests);
        out.push(encoded.plain());
        Ok(id)
    }

    fn delta(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        changes: &Changes,
        out: &mut Vec<Encoded<()>>,
    ) -> Result<DeltaObjects> {
        let mut entries = entries(running, EntryKind::Delete, &changes.deleted)?;
        if executor.manifest_settings.drop_stats_of_deletes {
            for entry in &mut entries {
                // Not part of the identity [0-1].
                entry.file.value_stats = SimpleStats::empty();
                entry.file.value_stats_cols = Some(Vec::new());
            }
        }
        entries.extend(self::entries(running, EntryKind::Add, &changes.added)?);
        let (manifests, list) = self.manifests_and_list(executor, running, &entries, out)?;
        let changelog = if changes.changelog.is_empty() {
            None
        } else {
            let entries = self::entries(running, EntryKind::Add, &changes.changelog)?;
            let (manifests, list) = self.manifests_and_list(executor, running, &entries, out)?;
            Some((manifests.iter().map(|m| m.id).collect(), list))
        };
        Ok(DeltaObjects {
            manifests,
            list,
            changelog,
        })
    }

    fn manifests_and_list(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        entries: &[ManifestEntry],
        out: &mut Vec<Encoded<()>>,
    ) -> Result<(Vec<ManifestSummary>, ObjectId)> {
        let encoded = encode_manifests(&executor.manifest_settings, &executor.names, entries)?;
        let mut summaries = Vec::new();
        let mut files = Vec::new();
        for manifest in encoded {
            let summary = running.registry.objects.summary(manifest.what.clone());
            self.ids.push(summary.id);
            summaries.push(summary);
            files.push(manifest.what.clone());
            out.push(manifest.plain());
        }
        let list = self.list(executor, running, files, out)?;
        Ok((summaries, list))
    }

    async fn index(
        &mut self,
        executor: &Executor,
        running: &mut Running,
        plan: &IndexPlan,
        out: &mut Vec<Encoded<()>>,
    ) -> Result<ObjectId> {
        let old = match plan.from {
            Some(id) => {
                let name = running.registry.objects.name(id)?.to_owned();
                executor.meta.index_entries(&name).await?
            }
            None => Vec::new(),
        };
        let entries = crate::index::combine(
            old,
            &plan.changes,
            &running.registry.files,
            executor.paths.unaware_buckets(),
        )?;
        let encoded = crate::index::encode(&executor.manifest_settings, &executor.names, &entries)?;
        let id = running
            .registry
            .objects
            .add(Object::Other(encoded.what.clone()));
        self.ids.push(id);
        out.push(encoded.plain());
        Ok(id)
    }
}

pub(super) async fn write_object(store: Store, path: String, bytes: Bytes) -> Result<()> {
    let written = store.write_once(&path, bytes).await;
    written.map_err(|e| CommitError::store(format!("writing {path}"), e))
}

fn entries(
    running: &Running,
    kind: EntryKind,
    changes: &[FileChange],
) -> Result<Vec<ManifestEntry>> {
    changes
        .iter()
        .map(|change| match running.registry.files.get(change.file)? {
            File::Data(partition, bucket, meta) => Ok(ManifestEntry {
                kind,
                partition: partition.clone(),
                bucket: *bucket,
                total_buckets: change.total_buckets,
                file: meta.as_ref().clone(),
            }),
            File::Index(..) => Err(CommitError::corrupt(
                "protocol",
                "names an index file as a data file",
            )),
        })
        .collect()
}
