//! The live files of a snapshot: the fold of its manifests \[F-4.3].

use std::collections::{HashMap, HashSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use tidegate_model::data_type::LogicalType;
use tidegate_model::{BinaryRow, EntryKind, FileIdentity, ManifestEntry, ManifestFile};

use crate::error::Result;
use crate::meta::Meta;
use crate::partition_stats::compare;

/// Manifests decoded at once.
const PARALLEL_MANIFESTS: usize = 4;

/// Entries in order, folded: an ADD comes, a DELETE takes the ADD of its identity away.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    at: HashMap<FileIdentity, usize>,
    entries: Vec<Option<ManifestEntry>>,
    deletes: HashMap<FileIdentity, ManifestEntry>,
}

impl Fold {
    /// Takes the next entry.
    pub(crate) fn push(&mut self, entry: ManifestEntry) {
        let identity = entry.identity();
        match entry.kind {
            EntryKind::Add => {
                self.at.insert(identity, self.entries.len());
                self.entries.push(Some(entry));
            }
            EntryKind::Delete => match self.at.remove(&identity) {
                Some(at) => {
                    if let Some(slot) = self.entries.get_mut(at) {
                        *slot = None;
                    }
                }
                // Refers to a manifest before those that are folded \[0-2].
                None => {
                    self.deletes.insert(identity, entry);
                }
            },
        }
    }

    /// ADDs that are left, in order.
    pub(crate) fn into_live(self) -> Vec<ManifestEntry> {
        self.entries.into_iter().flatten().collect()
    }

    /// What is left as entries of a merged manifest: unmatched DELETEs first unless they go.
    pub(crate) fn into_merged(self, drop_deletes: bool) -> Vec<ManifestEntry> {
        let mut deletes: Vec<ManifestEntry> =
            if drop_deletes { Vec::new() } else { self.deletes.into_values().collect() };
        deletes.sort_by(|a, b| a.file.file_name.cmp(&b.file.file_name));
        deletes.extend(self.entries.into_iter().flatten());
        deletes
    }
}

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
    let mut fold = Fold::default();
    let mut read = stream::iter(names)
        .map(|name| async move { meta.entries(&name).await })
        .buffered(PARALLEL_MANIFESTS);
    while let Some(entries) = read.try_next().await? {
        for entry in entries {
            if partitions.is_none_or(|p| p.contains(&entry.partition)) {
                fold.push(entry);
            }
        }
    }
    Ok(fold.into_live())
}

/// False where the statistics of a manifest prove that it holds nothing of the partition.
fn may_hold(manifest: &ManifestFile, row: &BinaryRow, types: &[LogicalType]) -> bool {
    let stats = &manifest.partition_stats;
    types.iter().enumerate().all(|(i, data_type)| {
        let Ok(value) = row.get(i, data_type) else { return true };
        let Some(value) = value else {
            let nulls = stats.null_counts.as_ref().and_then(|counts| *counts.get(i)?);
            return nulls.is_none_or(|n| n > 0);
        };
        let bound = |bounds: &BinaryRow| {
            let there = usize::try_from(bounds.arity()).is_ok_and(|arity| i < arity);
            if there { bounds.get(i, data_type).ok().flatten() } else { None }
        };
        let above = bound(&stats.min_values).is_none_or(|min| compare(&value, &min).is_ge());
        let below = bound(&stats.max_values).is_none_or(|max| compare(&value, &max).is_le());
        above && below
    })
}
