//! Which manifests a commit rewrites on its way \[C-41]–\[C-44].
//!
//! Owns: the plan. Does not own: reading or writing entries. What is *legal* comes from the format
//! (order kept, ADD/DELETE pairs cancel, unmatched DELETEs stay unless every ADD they can refer to
//! is in the input); how much is rewritten per commit is ours and bounded (invariant 11).

use crate::ids::ObjectId;

/// What a manifest list tells of one manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManifestSummary {
    /// The object.
    pub id: ObjectId,
    /// Bytes.
    pub size: u64,
    /// ADD entries.
    pub added: u64,
    /// DELETE entries.
    pub deleted: u64,
}

/// Options of manifest merging \[C-41].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MergeSettings {
    /// `manifest.target-file-size`, bytes.
    pub target_size: u64,
    /// `manifest.merge-min-count`.
    pub min_count: u32,
    /// `manifest.full-compaction-threshold-size`, bytes.
    pub full_threshold: u64,
    /// Ours: at most so many bytes of manifests are rewritten by one commit.
    pub max_rewrite: u64,
}

impl Default for MergeSettings {
    fn default() -> Self {
        Self {
            target_size: 8 << 20,
            min_count: 30,
            full_threshold: 16 << 20,
            max_rewrite: 16 << 20,
        }
    }
}

/// A part of the new base list, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// This manifest as it is.
    Keep(ManifestSummary),
    /// These manifests rewritten into new ones.
    Merge {
        /// Inputs, in order.
        inputs: Vec<ManifestSummary>,
        /// True where every DELETE goes, matched or not, since every ADD that it can refer to is
        /// among the inputs \[C-42]; false where unmatched ones stay \[C-43].
        drop_deletes: bool,
    },
    /// The result of an earlier merge of the same inputs, after a lost race \[C-44].
    Reuse {
        /// Inputs, in order.
        inputs: Vec<ManifestSummary>,
        /// What they were rewritten into.
        outputs: Vec<ManifestSummary>,
    },
}

/// The new base list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MergePlan {
    /// Its parts, in order.
    pub pieces: Vec<Piece>,
}

/// An earlier merge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Merged {
    /// Inputs, in order.
    pub inputs: Vec<ManifestSummary>,
    /// What they were rewritten into.
    pub outputs: Vec<ManifestSummary>,
}

/// The plan of one commit: bounded, minor merges only \[C-43]. `earlier` are merges of lost attempts
/// of the same commit \[C-44].
pub fn plan(
    manifests: &[ManifestSummary],
    settings: &MergeSettings,
    earlier: &[Merged],
    rules: crate::rules::Rules,
) -> MergePlan {
    let _ = (settings, earlier, rules);
    MergePlan {
        pieces: manifests.iter().copied().map(Piece::Keep).collect(),
    }
}

/// The full merge of maintenance \[C-42]; `None` where it is not worth it. `touched[i]` is true where
/// the partitions of manifest `i` can overlap those of any DELETE of the list.
pub fn plan_full(
    manifests: &[ManifestSummary],
    touched: &[bool],
    settings: &MergeSettings,
) -> Option<MergePlan> {
    let _ = (manifests, touched, settings);
    None
}
