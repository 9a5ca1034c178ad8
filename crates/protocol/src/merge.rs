//! Which manifests a commit rewrites on its way \[C-41]–\[C-44].
//!
//! Owns: the plan. Does not own: reading or writing entries. What is *legal* comes from the format
//! (order kept, ADD/DELETE pairs cancel, unmatched DELETEs stay unless every ADD they can refer to
//! is in the input); how much is rewritten per commit is ours and bounded (invariant 11).

use crate::ids::ObjectId;
use crate::rules::{Rule, Rules};

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

/// The plan of one commit: bounded, minor merges only \[C-43].
///
/// Manifests below the target size fall into tiers by their number of entries: tier *t* holds
/// `min_count^t` up to `min_count^(t+1)`. Looking back from the end of the list, where every commit
/// appends, the manifests up to some tier form a run; once `min_count` of that tier stand in it the
/// run is merged into one of the next tier. So each entry is rewritten at most once per tier, the
/// list stays within about `min_count` times the number of tiers, and the commits between two
/// merges rewrite nothing. What the byte limit cuts off, and big manifests with DELETEs, is left to
/// maintenance ([`plan_full`]).
///
/// `earlier` are merges of lost attempts of the same commit: where one's inputs are still a
/// contiguous run it is used again, and nothing else is merged on a retry \[C-44].
pub fn plan(
    manifests: &[ManifestSummary],
    settings: &MergeSettings,
    earlier: &[Merged],
    rules: Rules,
) -> MergePlan {
    if !earlier.is_empty() {
        return reuse(manifests, earlier);
    }
    let keep = || MergePlan {
        pieces: manifests.iter().copied().map(Piece::Keep).collect(),
    };
    if !rules.on(Rule::MergeSmall) {
        return keep();
    }
    let min_count = u64::from(settings.min_count.max(2));
    let small = manifests
        .iter()
        .rev()
        .take_while(|m| m.size < settings.target_size)
        .count();
    let start = manifests.len().saturating_sub(small);
    let tail: Vec<(u32, ManifestSummary)> = manifests
        .iter()
        .skip(start)
        .map(|m| (tier(m, min_count), *m))
        .collect();
    let highest = tail.iter().map(|(t, _)| *t).max().unwrap_or(0);
    for t in (0..=highest).rev() {
        let run = tail.iter().rev().take_while(|(of, _)| *of <= t).count();
        let begin = tail.len().saturating_sub(run);
        let of_tier = tail.iter().skip(begin).filter(|(of, _)| *of == t).count();
        if (of_tier as u64) < min_count {
            continue;
        }
        let mut inputs: Vec<ManifestSummary> = tail.iter().skip(begin).map(|(_, m)| *m).collect();
        if rules.on(Rule::MergeBounded) {
            let mut bytes = 0u64;
            let fits = inputs.iter().rev().take_while(|m| {
                bytes = bytes.saturating_add(m.size);
                bytes <= settings.max_rewrite
            });
            let fitting = fits.count();
            inputs.drain(..inputs.len().saturating_sub(fitting));
        }
        if inputs.len() < 2 {
            continue;
        }
        let kept = manifests.len().saturating_sub(inputs.len());
        let mut pieces: Vec<Piece> = manifests
            .iter()
            .take(kept)
            .copied()
            .map(Piece::Keep)
            .collect();
        // With nothing before the run, a DELETE in it finds its ADD in it or nowhere.
        let drop_deletes = kept == 0 || !rules.on(Rule::MergeKeepsDeletes);
        pieces.push(Piece::Merge {
            inputs,
            drop_deletes,
        });
        return MergePlan { pieces };
    }
    keep()
}

fn tier(manifest: &ManifestSummary, min_count: u64) -> u32 {
    let entries = manifest.added.saturating_add(manifest.deleted).max(1);
    entries.checked_ilog(min_count).unwrap_or(0)
}

fn reuse(manifests: &[ManifestSummary], earlier: &[Merged]) -> MergePlan {
    let mut pieces = Vec::new();
    let mut rest = manifests;
    while let Some((first, after)) = rest.split_first() {
        let fits = |m: &&Merged| !m.inputs.is_empty() && rest.starts_with(&m.inputs);
        match earlier.iter().find(fits) {
            Some(merged) => {
                let Merged { inputs, outputs } = merged.clone();
                rest = rest.get(inputs.len()..).unwrap_or_default();
                pieces.push(Piece::Reuse { inputs, outputs });
            }
            None => {
                pieces.push(Piece::Keep(*first));
                rest = after;
            }
        }
    }
    MergePlan { pieces }
}

/// The full merge of maintenance \[C-42]; `None` where it is not worth it. `touched[i]` is true where
/// the partitions of manifest `i` can overlap those of any DELETE of the list.
///
/// Rewrites every manifest that is small or has DELETEs once they weigh `full_threshold` together;
/// a big one without DELETEs stays unless touched. All DELETEs go, since every ADD that they can
/// refer to is among the inputs; the order of the list does not matter to what is live then, so one
/// run takes all inputs, at the end.
pub fn plan_full(
    manifests: &[ManifestSummary],
    touched: &[bool],
    settings: &MergeSettings,
    rules: Rules,
) -> Option<MergePlan> {
    let must = |m: &ManifestSummary| m.deleted > 0 || m.size < settings.target_size;
    let weight = manifests
        .iter()
        .filter(|m| must(m))
        .fold(0u64, |n, m| n.saturating_add(m.size));
    if weight < settings.full_threshold && rules.on(Rule::FullThreshold) {
        return None;
    }
    let touched = touched.iter().copied().chain(std::iter::repeat(true));
    let (mut kept, mut inputs) = (Vec::new(), Vec::new());
    for (m, touched) in manifests.iter().zip(touched) {
        if must(m) || touched || !rules.on(Rule::FullKeepsBig) {
            inputs.push(*m);
        } else {
            kept.push(Piece::Keep(*m));
        }
    }
    if inputs.len() < 2 {
        return None;
    }
    kept.push(Piece::Merge {
        inputs,
        drop_deletes: true,
    });
    Some(MergePlan { pieces: kept })
}
