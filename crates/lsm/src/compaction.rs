//! Which runs to compact to which level: the universal strategy \[W-41..W-45].
//!
//! Runs are taken from the newest on, without gaps, so that versions of a key never pass each other.
//! The caller brings the time; nothing here looks at a clock.

use crate::levels::{LevelRun, Levels};
use crate::options::{CompactionOptions, LiftLevel0};
use tidegate_model::{DataFileMeta, Level};

/// When it is, as far as compaction cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of the local wall clock as if it were UTC: the scale of a file's creation time.
    pub millis: i64,
    /// Hour of the local day, for off-peak hours.
    pub hour: u8,
}

/// What is to be compacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Its files, run by run, newest first.
    pub files: Vec<DataFileMeta>,
    /// The level that the result goes to; never 0.
    pub output: Level,
    /// Each file is rewritten by itself: a full compaction where nothing overlaps.
    pub file_by_file: bool,
    /// Rows that end deleted go: nothing older lies below \[W-45].
    pub drop_deletes: bool,
}

/// What a bucket's files need besides their sizes: known to the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The table keeps deletion vectors: old versions below are marked, so deletes may go \[W-45].
    pub deletion_vectors: bool,
    /// The table keeps deletes for others to read (chain tables) \[W-45].
    pub keep_deletes: bool,
}

/// Picks compactions of one bucket and remembers what picks depend on. What it remembers is in memory
/// only, as with Java \[W-43].
///
/// ```
/// use tidegate_lsm::{Action, Circumstances, Compaction, CompactionOptions, Levels, Now, plan};
/// use tidegate_model::{KeyOrder, Level, LogicalType};
/// # use tidegate_model::*;
/// # fn file(name: &str, sequence: i64) -> DataFileMeta {
/// #     let key = |v| BinaryRow::from_datums(&[Some(Datum::Int(v))], &[LogicalType::Int]).unwrap();
/// #     let none = SimpleStats::empty();
/// #     DataFileMeta { file_name: name.into(), file_size: 1000, row_count: 1, min_key: key(1),
/// #         max_key: key(9), key_stats: none.clone(), value_stats: none, min_sequence_number: sequence,
/// #         max_sequence_number: sequence, schema_id: SchemaId(0), level: Level(0), extra_files: vec![],
/// #         creation_time_millis: None, delete_row_count: Some(0), embedded_index: None,
/// #         file_source: None, value_stats_cols: None, external_path: None, first_row_id: None,
/// #         write_cols: None, write_cols_sequences: None }
/// # }
/// # let columns = vec![DataField::new("id", "INT".parse()?)];
/// # let options = [("bucket", "1")].into_iter().collect();
/// # let table = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0)?;
/// let options = CompactionOptions::of(&table)?;
/// let order = KeyOrder::of(&table)?;
/// let mut levels = Levels::new(vec![], order.clone(), options.num_levels)?;
/// let mut compaction = Compaction::new(options.clone(), Circumstances::default(), &levels);
/// let now = Now { millis: 0, hour: 12 };
/// for n in 1..=5 {
///     assert_eq!(compaction.pick(&levels, now), None, "four runs are no trouble");
///     levels.apply(&[], &[file(&format!("flush-{n}"), n)])?;
/// }
/// let pick = compaction.pick(&levels, now).unwrap();
/// assert_eq!((pick.files.len(), pick.output), (5, Level(5)));
/// let actions = plan(&pick, &options, &order, levels.max_level(), |_| false)?;
/// assert!(matches!(actions.as_slice(), [Action::Rewrite(_)]), "they overlap: one merge of all");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Compaction {
    options: CompactionOptions,
    circumstances: Circumstances,
    last_full_millis: Option<i64>,
    fruitless_triggers: usize,
}

impl Compaction {
    /// For a bucket as it was opened: the newest file of its top level tells when it was last fully
    /// compacted.
    pub fn new(options: CompactionOptions, circumstances: Circumstances, levels: &Levels) -> Self {
        let top = levels.files(levels.max_level()).iter();
        let last_full_millis = top.filter_map(|f| f.creation_time_millis).max();
        Self {
            options,
            circumstances,
            last_full_millis,
            fruitless_triggers: 0,
        }
    }

    /// The options it goes by.
    pub fn options(&self) -> &CompactionOptions {
        &self.options
    }

    /// True where a writer must wait for a running compaction before it flushes \[W-23].
    pub fn stalls_writes(&self, levels: &Levels) -> bool {
        levels.run_count() > self.options.stop_trigger
    }

    /// True where a checkpoint must wait for a running compaction \[W-24].
    pub fn stalls_checkpoints(&self, levels: &Levels) -> bool {
        levels.run_count() > self.options.stop_trigger.saturating_add(1)
    }

    /// What to compact now, if anything: called after each flush.
    pub fn pick(&mut self, levels: &Levels, now: Now) -> Option<Pick> {
        let runs = levels.runs();
        let picked = self
            .universal(levels, &runs, now)
            .or_else(|| self.lifted(levels, &runs, now))?;
        let pick = self.finish(levels, &runs, picked, now);
        // A file that is where it belongs already is no work.
        match pick.files.as_slice() {
            [] => None,
            [file] if file.level == pick.output => None,
            _ => Some(pick),
        }
    }

    /// A full compaction, as asked for \[W-44]: everything to the top. Where all files are there
    /// already, those that `must_rewrite` names: with expired rows, or with a deletion vector.
    pub fn pick_full(
        &mut self,
        levels: &Levels,
        now: Now,
        must_rewrite: impl Fn(&DataFileMeta) -> bool,
    ) -> Option<Pick> {
        let runs = levels.runs();
        let top = levels.max_level();
        if let [only] = runs.as_slice()
            && only.level == top
        {
            let forced = self.options.rewrite_all_files;
            let files = only.run.files.iter().filter(|f| forced || must_rewrite(f));
            let files: Vec<_> = files.cloned().collect();
            return (!files.is_empty()).then(|| Pick {
                files,
                output: top,
                file_by_file: true,
                drop_deletes: self.drops_deletes(levels, top),
            });
        }
        if runs.is_empty() {
            return None;
        }
        Some(self.finish(levels, &runs, (runs.len(), top), now))
    }

    /// How many runs to which level, by size \[W-41].
    fn universal(&self, levels: &Levels, runs: &[LevelRun], now: Now) -> Option<(usize, Level)> {
        let top = levels.max_level();
        let trigger = self.options.trigger;
        if self.wants_early_full(runs, top, now) {
            return Some((runs.len(), top));
        }
        if runs.len() >= trigger
            && let Some((oldest, others)) = runs.split_last()
        {
            let amplified = total(others).saturating_mul(100);
            let bound = oldest
                .run
                .size()
                .saturating_mul(self.options.max_size_amplification_percent);
            if amplified > bound {
                return Some((runs.len(), top));
            }
            if let Some(count) = self.by_ratio(runs, 1, false, now) {
                return Some(output(runs, count, top));
            }
        }
        if runs.len() > trigger {
            let count = self.by_ratio(runs, runs.len() - trigger + 1, false, now)?;
            return Some(output(runs, count, top));
        }
        None
    }

    fn wants_early_full(&self, runs: &[LevelRun], top: Level, now: Now) -> bool {
        let options = &self.options;
        if runs.len() < 2 {
            return false;
        }
        let due = options
            .optimization_interval_millis
            .is_some_and(|interval| {
                self.last_full_millis
                    .is_none_or(|last| now.millis.saturating_sub(last) > interval)
            });
        let small = options
            .total_size_threshold
            .is_some_and(|bound| total(runs) < bound);
        let grown = options.incremental_size_threshold.is_some_and(|bound| {
            let below = runs.iter().filter(|r| r.level != top).map(|r| r.run.size());
            below.fold(0, u64::saturating_add) > bound
        });
        due || small || grown
    }

    /// Extends `count` runs by the next one while they are about as large as it.
    fn by_ratio(&self, runs: &[LevelRun], count: usize, forced: bool, now: Now) -> Option<usize> {
        let off_peak = self.options.off_peak.map_or(0, |o| o.ratio_at(now.hour));
        let ratio = (100 + self.options.size_ratio + off_peak) as f64;
        let mut count = count.min(runs.len());
        let mut size = total(runs.get(..count).unwrap_or_default());
        let mut triggered = forced || count > 1;
        for next in runs.get(count..).unwrap_or_default() {
            let larger = size as f64 * ratio / 100.0 < next.run.size() as f64;
            // Once there is something to do, levels 0 and 1 go along whatever their size.
            if larger && (!triggered || next.level > Level(1)) {
                break;
            }
            size = size.saturating_add(next.run.size());
            count += 1;
            triggered = true;
        }
        triggered.then_some(count)
    }

    /// Level 0 is lifted although sizes give no reason \[W-43].
    fn lifted(&mut self, levels: &Levels, runs: &[LevelRun], now: Now) -> Option<(usize, Level)> {
        match self.options.lift {
            LiftLevel0::Never => return None,
            LiftLevel0::Always => {}
            LiftLevel0::Every(interval) => {
                self.fruitless_triggers += 1;
                if self.fruitless_triggers < interval {
                    return None;
                }
                self.fruitless_triggers = 0;
            }
        }
        let level0 = runs.iter().take_while(|r| r.level == Level(0)).count();
        if level0 == 0 {
            return None;
        }
        let count = self.by_ratio(runs, level0, true, now)?;
        Some(output(runs, count, levels.max_level()))
    }

    fn finish(
        &mut self,
        levels: &Levels,
        runs: &[LevelRun],
        (count, output): (usize, Level),
        now: Now,
    ) -> Pick {
        if count == runs.len() {
            self.last_full_millis = Some(now.millis);
        }
        let files = runs
            .iter()
            .take(count)
            .flat_map(|r| r.run.files.iter().cloned());
        Pick {
            files: files.collect(),
            output,
            file_by_file: false,
            drop_deletes: self.drops_deletes(levels, output),
        }
    }

    fn drops_deletes(&self, levels: &Levels, output: Level) -> bool {
        let lowest = levels
            .highest_non_empty()
            .is_none_or(|highest| output >= highest);
        !self.circumstances.keep_deletes
            && output > Level(0)
            && (lowest || self.circumstances.deletion_vectors)
    }
}

fn total(runs: &[LevelRun]) -> u64 {
    runs.iter()
        .map(|r| r.run.size())
        .fold(0, u64::saturating_add)
}

/// The level that the first `count` runs go to, and how many runs go there \[W-42]: below the next run;
/// since nothing goes to level 0, runs are added up to one above it.
fn output(runs: &[LevelRun], mut count: usize, top: Level) -> (usize, Level) {
    let mut level = runs
        .get(count)
        .map_or(top, |next| Level((next.level.0 - 1).max(0)));
    if level == Level(0) {
        for next in runs.get(count..).unwrap_or_default() {
            count += 1;
            if next.level != Level(0) {
                level = next.level;
                break;
            }
        }
    }
    (count, if count == runs.len() { top } else { level })
}

#[cfg(test)]
mod tests;
