//! Which files of a keyed table a batch read looks at \[R-2], and which of them have to be merged.
//!
//! Owns the rules of level 0 and of the postpone bucket, and the cut of a bucket's files into units that
//! are read one after the other. What overlaps is decided by `tidegate-lsm`.

use crate::error::{Error, Result};
use crate::split::Split;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};
use tidegate_model::{BinaryRow, BucketId, KeyOrder, Level, TableSchema};

/// What a table's options say about reading it.
#[derive(Clone, Debug)]
pub(crate) struct KeyedTable {
    order: KeyOrder,
    /// Levels above 0 need no merging: what is outdated there is marked, or was never written.
    settled: bool,
    /// Rows of level 0 are not visible before a compaction took them up.
    hides_level_zero: bool,
    /// A record above level 0 has taken in those of its key on higher levels already \[W-53].
    looks_up: bool,
    /// The highest level that a writer of this table makes.
    top_level: Level,
}

/// One after the other, these make the rows of a bucket.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    /// Files whose keys no other file of the bucket has, in key order; an append table's file alone.
    Plain {
        splits: Vec<Split>,
        /// Whether there may be records that take a row back.
        retracts: bool,
    },
    /// Sorted runs to be merged, oldest first.
    Merge {
        runs: Vec<Vec<Split>>,
        /// Runs of levels above 0, the highest level first, of which the lowest record of a key counts
        /// alone; it is older than those of `runs`.
        upper: Vec<Vec<Split>>,
    },
}

impl KeyedTable {
    /// `None` for an append table.
    pub(crate) fn of(schema: &TableSchema) -> Result<Option<Self>> {
        if schema.primary_keys.is_empty() {
            return Ok(None);
        }
        let options = &schema.effective_options();
        let set = |key: &str| Ok::<_, Error>(options.bool(key)?.unwrap_or(false));
        let vectors = set("deletion-vectors.enabled")?;
        let first_row = is(schema, "merge-engine", "first-row");
        let merged = set("deletion-vectors.merge-on-read")?;
        let looks_up = vectors || first_row || is(schema, "changelog-producer", "lookup");
        let trigger = options.i32("num-sorted-run.compaction-trigger")?;
        let levels = options.i32("num-levels")?;
        let levels = levels.unwrap_or(trigger.unwrap_or(5).saturating_add(1));
        Ok(Some(Self {
            order: KeyOrder::of(schema)?,
            settled: (vectors && !merged) || first_row,
            hides_level_zero: (vectors && !merged) || first_row,
            looks_up: looks_up || set("force-lookup")?,
            top_level: Level(levels.saturating_sub(1)),
        }))
    }

    /// The same for files that are to be merged whatever their level and the table's options.
    pub(crate) fn unsettled(schema: &TableSchema) -> Result<Option<Self>> {
        let mut table = Self::of(schema)?;
        if let Some(table) = &mut table {
            table.settled = false;
        }
        Ok(table)
    }

    /// The same with level 0, whatever options hide it.
    pub(crate) fn with_level_zero(mut self) -> Self {
        self.hides_level_zero = false;
        self
    }

    /// Whether a batch read sees the rows of a file.
    pub(crate) fn shows(&self, split: &Split) -> bool {
        split.bucket != BucketId::POSTPONE
            && !(self.hides_level_zero && split.file.level == Level(0))
    }

    /// Whether a file is on the level that a full compaction makes: what `$ro` reads \[R-3].
    pub(crate) fn is_top(&self, split: &Split) -> bool {
        split.file.level == self.top_level
    }

    /// Cuts files of any buckets into units, bucket by bucket in the order in which they come.
    pub(crate) fn units(&self, splits: &[Split]) -> Result<Vec<Unit>> {
        let mut units = Vec::new();
        for bucket in by_bucket(splits) {
            if self.settled && bucket.iter().all(Split::is_settled) {
                let alone = |split| Unit::Plain {
                    splits: vec![split],
                    retracts: false,
                };
                units.extend(bucket.into_iter().map(alone));
            } else {
                self.sections(bucket, &mut units)?;
            }
        }
        Ok(units)
    }

    fn sections(&self, bucket: Vec<Split>, units: &mut Vec<Unit>) -> Result<()> {
        for section in tidegate_lsm::sections(bucket, &self.order)? {
            let mut runs = section.runs;
            units.push(match (runs.pop(), runs.is_empty()) {
                (Some(run), true) => Unit::Plain {
                    retracts: !run.is_free_of_deletes(),
                    splits: run.files,
                },
                (last, _) => self.merge(runs.into_iter().chain(last).map(|r| r.files).collect()),
            });
        }
        Ok(())
    }
}

impl KeyedTable {
    /// Where compactions look old records up, a sum of theirs holds what is on higher levels: merged with
    /// that once more it would count twice.
    fn merge(&self, runs: Vec<Vec<Split>>) -> Unit {
        let above = |split: &Split| split.file.level > Level(0);
        let mut levels: BTreeMap<Reverse<Level>, Vec<Split>> = BTreeMap::new();
        if !self.looks_up || !runs.iter().flatten().any(above) {
            let upper = Vec::new();
            return Unit::Merge { runs, upper };
        }
        let mut newest = Vec::with_capacity(runs.len());
        for run in runs {
            // The files of a run are in key order, and so are those of a level that come from several.
            let (upper, lowest): (Vec<_>, Vec<_>) = run.into_iter().partition(above);
            for split in upper {
                let level = levels.entry(Reverse(split.file.level)).or_default();
                level.push(split);
            }
            if !lowest.is_empty() {
                newest.push(lowest);
            }
        }
        Unit::Merge {
            runs: newest,
            upper: levels.into_values().map(|l| self.in_key_order(l)).collect(),
        }
    }

    /// Files of one level by their keys, which `tidegate-lsm` has compared before.
    fn in_key_order(&self, mut files: Vec<Split>) -> Vec<Split> {
        files.sort_by(|a, b| {
            let order = self.order.compare(&a.file.min_key, &b.file.min_key);
            order.unwrap_or(Ordering::Equal)
        });
        files
    }
}

impl Split {
    /// Above level 0, and without records that take rows back.
    fn is_settled(&self) -> bool {
        self.file.level > Level(0) && self.file.delete_row_count == Some(0)
    }
}

fn by_bucket(splits: &[Split]) -> Vec<Vec<Split>> {
    let mut places: HashMap<(&BinaryRow, BucketId), usize> = HashMap::new();
    let mut buckets: Vec<Vec<Split>> = Vec::new();
    for split in splits {
        let at = *places
            .entry((&split.partition, split.bucket))
            .or_insert(buckets.len());
        match buckets.get_mut(at) {
            Some(bucket) => bucket.push(split.clone()),
            None => buckets.push(vec![split.clone()]),
        }
    }
    buckets
}

fn is(schema: &TableSchema, key: &str, word: &str) -> bool {
    let value = schema.options.get(key);
    value.is_some_and(|v| v.trim().eq_ignore_ascii_case(word))
}

/// Why the rows of a keyed table cannot be told from its files by this build.
pub(crate) fn unreadable(schema: &TableSchema, splits: &[Split]) -> Option<String> {
    let set = |key: &str| is(schema, key, "true");
    if set("pk-clustering-override") {
        return Some(
            "option pk-clustering-override: its files are not in the order of the primary key"
                .to_owned(),
        );
    }
    if set("sequence.snapshot-ordering") {
        return Some(
            "option sequence.snapshot-ordering: the order of its records is kept in manifests, \
             which merging here does not look at"
                .to_owned(),
        );
    }
    if set("chain-table.enabled") {
        return Some("option chain-table.enabled: its rows lie in several branches".to_owned());
    }
    let postponed = splits.iter().any(|s| s.bucket == BucketId::POSTPONE);
    if postponed && set("postpone.merge-on-read") {
        return Some(
            "option postpone.merge-on-read: rows that wait in the postpone bucket are not merged \
             here; compact the table with Java Paimon first, or read it without the option, as it \
             was at its last compaction"
                .to_owned(),
        );
    }
    None
}
