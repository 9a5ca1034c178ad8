//! The live files of a snapshot: the fold of its manifests \[F-4.3].

use std::cmp::Ordering;
use std::collections::HashSet;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use tidegate_model::data_type::LogicalType;
use tidegate_model::manifest::LiveFiles;
use tidegate_model::{BinaryRow, EntryKind, ManifestEntry, ManifestFile};

use crate::error::Result;
use crate::meta::Meta;

/// Manifests decoded at once.
const PARALLEL_MANIFESTS: usize = 4;

/// The live entries of a snapshot with these manifests, in order; of some partitions, or of all.
pub(crate) async fn live_entries(
    meta: &Meta,
    manifests: &[ManifestFile],
    types: &[LogicalType],
    partitions: Option<&HashSet<BinaryRow>>,
) -> Result<Vec<ManifestEntry>> {
    let names = manifests
        .iter()
        .filter(|m| partitions.is_none_or(|p| p.iter().any(|row| may_hold(m, row, types))))
        .map(|m| m.file_name.clone());
    let names: Vec<String> = names.collect();
    let mut live = LiveFiles::new();
    let mut read = stream::iter(names)
        .map(|name| async move { meta.entries(&name).await })
        .buffered(PARALLEL_MANIFESTS);
    while let Some(entries) = read.try_next().await? {
        for entry in entries {
            if partitions.is_none_or(|p| p.contains(&entry.partition)) {
                live.add(entry);
            }
        }
    }
    Ok(live.finish())
}

/// Hands every live entry to `take`, in order, holding no more than the identities of removed files and
/// a few manifests at a time: two passes, the first over the manifests that remove something \[0-3].
pub(crate) async fn visit_live(
    meta: &Meta,
    manifests: &[ManifestFile],
    mut take: impl FnMut(ManifestEntry) -> Result<()>,
) -> Result<()> {
    let removing = manifests.iter().filter(|m| m.num_deleted_files > 0);
    let mut removed = HashSet::new();
    let mut read = entries_of(meta, removing);
    while let Some(entries) = read.try_next().await? {
        let deletes = entries.iter().filter(|e| e.kind == EntryKind::Delete);
        removed.extend(deletes.map(ManifestEntry::identity));
    }
    let mut read = entries_of(meta, manifests.iter());
    while let Some(entries) = read.try_next().await? {
        for entry in entries.into_iter().filter(|e| e.kind == EntryKind::Add) {
            if removed.is_empty() || !removed.contains(&entry.identity()) {
                take(entry)?;
            }
        }
    }
    Ok(())
}

fn entries_of<'a>(
    meta: &'a Meta,
    manifests: impl Iterator<Item = &'a ManifestFile>,
) -> impl Stream<Item = Result<Vec<ManifestEntry>>> + Unpin + 'a {
    let names: Vec<String> = manifests.map(|m| m.file_name.clone()).collect();
    let read = stream::iter(names).map(move |name| async move { meta.entries(&name).await });
    Box::pin(read.buffered(PARALLEL_MANIFESTS))
}

/// False where the statistics of a manifest prove that it holds nothing of the partition.
fn may_hold(manifest: &ManifestFile, row: &BinaryRow, types: &[LogicalType]) -> bool {
    let stats = &manifest.partition_stats;
    types.iter().enumerate().all(|(i, data_type)| {
        let Ok(value) = row.get(i, data_type) else {
            return true;
        };
        let Some(value) = value else {
            let nulls = stats
                .null_counts
                .as_ref()
                .and_then(|counts| *counts.get(i)?);
            return nulls.is_none_or(|n| n > 0);
        };
        let bound = |bounds: &BinaryRow| {
            let there = usize::try_from(bounds.arity()).is_ok_and(|arity| i < arity);
            if there {
                bounds.get(i, data_type).ok().flatten()
            } else {
                None
            }
        };
        let above = bound(&stats.min_values)
            .is_none_or(|min| value.compare(&min).is_none_or(Ordering::is_ge));
        let below = bound(&stats.max_values)
            .is_none_or(|max| value.compare(&max).is_none_or(Ordering::is_le));
        above && below
    })
}
