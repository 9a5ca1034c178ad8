//! The live files of a snapshot: all its ADDs whose identity no DELETE names \[0-3].

use crate::error::Result;
use std::collections::HashSet;
use tidegate_format as format;
use tidegate_model::manifest::FileIdentity;
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    EntryKind, IndexManifestEntry, ManifestEntry, ManifestFile, Snapshot, layout,
};
use tidegate_storage::Store;

/// Manifests fetched at the same time.
const AT_ONCE: usize = 8;

/// Entries of the live data files, in the order of the manifests.
///
/// # Errors
/// Missing or unreadable manifests and lists.
pub async fn live_entries(store: &Store, snapshot: &Snapshot) -> Result<Vec<ManifestEntry>> {
    let mut manifests = manifest_list(store, &snapshot.base_manifest_list).await?;
    manifests.extend(manifest_list(store, &snapshot.delta_manifest_list).await?);
    let mut added = Vec::new();
    let mut deleted: HashSet<FileIdentity> = HashSet::new();
    for batch in manifests.chunks(AT_ONCE) {
        let read = batch.iter().map(|m| manifest(store, m));
        for entry in futures::future::try_join_all(read)
            .await?
            .into_iter()
            .flatten()
        {
            match entry.kind {
                EntryKind::Add => added.push(entry),
                EntryKind::Delete => {
                    deleted.insert(entry.identity());
                }
            }
        }
    }
    if !deleted.is_empty() {
        added.retain(|entry| !deleted.contains(&entry.identity()));
    }
    Ok(added)
}

/// The rows of a manifest list.
///
/// # Errors
/// Where it is missing or unreadable.
pub async fn manifest_list(store: &Store, list: &ListRef) -> Result<Vec<ManifestFile>> {
    let path = layout::manifest_path(&list.name);
    let bytes = store.get(&path).await?;
    Ok(format::manifest_list::decode(&bytes).map_err(|e| e.in_file(path))?)
}

/// The entries of a manifest.
///
/// # Errors
/// Where it is missing or unreadable.
pub async fn manifest(store: &Store, manifest: &ManifestFile) -> Result<Vec<ManifestEntry>> {
    let path = layout::manifest_path(&manifest.file_name);
    let bytes = store.get(&path).await?;
    Ok(format::manifest::decode(&bytes).map_err(|e| e.in_file(path))?)
}

/// The index files of a snapshot.
///
/// # Errors
/// Where the index manifest is missing or unreadable.
pub async fn index_entries(store: &Store, snapshot: &Snapshot) -> Result<Vec<IndexManifestEntry>> {
    let Some(name) = &snapshot.index_manifest else {
        return Ok(Vec::new());
    };
    let path = layout::manifest_path(name);
    let bytes = store.get(&path).await?;
    Ok(format::index_manifest::decode(&bytes).map_err(|e| e.in_file(path))?)
}
