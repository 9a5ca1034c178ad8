//! Carries out the merging of manifests that the protocol planned \[C-42], \[C-43].

use tidegate_model::manifest::merge_entries;
use tidegate_model::{EntryKind, ManifestEntry, ManifestFile};

use crate::error::{CommitError, Result};
use crate::manifests::{Encoded, ManifestRoller, ManifestSettings};
use crate::meta::Meta;
use crate::names::MetadataNames;

/// Reads manifests in order and folds their ADD/DELETE pairs. Memory is in proportion to the inputs,
/// which the plan bounds (`max_rewrite`).
pub(crate) async fn merged_entries(
    meta: &Meta,
    inputs: &[ManifestFile],
    drop_deletes: bool,
) -> Result<Vec<ManifestEntry>> {
    let mut entries = Vec::new();
    for input in inputs {
        entries.extend(meta.entries(&input.file_name).await?);
    }
    let mut merged = merge_entries(entries).map_err(|e| CommitError::corrupt("manifests", e))?;
    if drop_deletes {
        merged.retain(|entry| entry.kind == EntryKind::Add);
    }
    Ok(merged)
}

/// The entries as new manifests.
pub(crate) fn encode(
    settings: &ManifestSettings,
    names: &MetadataNames,
    entries: Vec<ManifestEntry>,
) -> Result<Vec<Encoded<ManifestFile>>> {
    let mut roller = ManifestRoller::new(settings, names);
    let mut out = Vec::new();
    // Entries go as they are encoded, so that the peak is one form of them, not two.
    for entry in entries {
        out.extend(roller.push(&entry)?);
    }
    out.extend(roller.finish()?);
    Ok(out)
}
