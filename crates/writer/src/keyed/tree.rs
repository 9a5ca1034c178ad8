//! The files of a bucket between barriers, as this writer has made them.
//!
//! The state of a bucket is what the own messages did to the view that it was opened with. Owns the
//! levels, what compactions did since the last barrier \[W-25], and what an abort goes back to.

use tidegate_lsm::{Circumstances, Compaction, CompactionOptions, Levels, Now, Pick};
use tidegate_model::{CompactIncrement, DataFileMeta, IndexFileMeta, KeyOrder};

use crate::error::{Result, WriterError};
use crate::keyed::compaction::{Compacted, Job};
use crate::keyed::vectors::Vectors;

/// Levels of a bucket and what became of them.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The bucket's folder.
    pub(crate) directory: String,
    levels: Levels,
    /// As at the last barrier.
    kept: Levels,
    picker: Compaction,
    /// Compactions since the last barrier.
    done: CompactIncrement,
    /// Files came or went since the last barrier.
    changed: bool,
    pub(crate) busy: bool,
    deleted: Deleted,
    /// As at the last barrier.
    kept_deleted: Deleted,
}

/// Which rows of the files are deleted, and which index file of the table says so.
#[derive(Clone, Debug, Default)]
struct Deleted {
    vectors: Vectors,
    index: Option<IndexFileMeta>,
    /// The index file says something else.
    changed: bool,
}

impl Tree {
    pub(crate) fn open(
        directory: String,
        files: Vec<DataFileMeta>,
        order: &KeyOrder,
        options: &CompactionOptions,
        circumstances: Circumstances,
        (vectors, index): (Vectors, Option<IndexFileMeta>),
    ) -> Result<Self> {
        let levels = Levels::new(files, order.clone(), options.num_levels);
        let levels = levels.map_err(broken(&directory))?;
        let picker = Compaction::new(options.clone(), circumstances, &levels);
        let deleted = Deleted {
            vectors,
            index,
            changed: false,
        };
        Ok(Self {
            directory,
            kept: levels.clone(),
            levels,
            picker,
            done: CompactIncrement::default(),
            changed: false,
            busy: false,
            kept_deleted: deleted.clone(),
            deleted,
        })
    }

    /// True where more runs are there than writers may go on with \[W-23].
    pub(crate) fn stalls(&self) -> bool {
        self.picker.stalls_writes(&self.levels)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &DataFileMeta> {
        self.levels.all_files()
    }

    /// Level-0 files come.
    pub(crate) fn flushed(&mut self, files: &[DataFileMeta]) -> Result<()> {
        self.changed = true;
        let applied = self.levels.apply(&[], files);
        applied.map_err(broken(&self.directory))
    }

    /// What to compact now, if anything.
    pub(crate) fn pick(&mut self, full: bool, now: Now) -> Option<Job> {
        let vectors = &self.deleted.vectors;
        let pick = picked(&mut self.picker, &self.levels, vectors, full, now)?;
        let above = self.levels.all_files();
        Some(Job {
            directory: self.directory.clone(),
            top: self.levels.max_level(),
            above: above.filter(|f| f.level > pick.output).cloned().collect(),
            vectors: vectors.clone(),
            pick,
        })
    }

    /// What is deleted now, where the table's index file says something else.
    pub(crate) fn changed_vectors(&self) -> Option<&Vectors> {
        self.deleted.changed.then_some(&self.deleted.vectors)
    }

    /// The index file of the changed vectors is durable, or none is needed any more: it takes the place
    /// of the one before it.
    pub(crate) fn vectors_written(&mut self, index: Option<IndexFileMeta>) {
        self.done
            .deleted_index_files
            .extend(self.deleted.index.take());
        self.done.new_index_files.extend(index.clone());
        self.deleted.index = index;
        self.deleted.changed = false;
    }

    /// Whether [`Self::pick`] would pick anything.
    pub(crate) fn is_due(&self, full: bool, now: Now) -> bool {
        let mut picker = self.picker.clone();
        picked(&mut picker, &self.levels, &self.deleted.vectors, full, now).is_some()
    }

    /// A compaction is done. Files that it made useless before anybody could see them are returned:
    /// they are to be deleted \[W-25].
    pub(crate) fn finished(&mut self, compacted: Compacted) -> Result<Vec<String>> {
        self.busy = false;
        self.changed = true;
        let Compacted {
            before,
            after,
            changelog,
            marks,
        } = compacted;
        self.deleted.changed |= self.deleted.vectors.compacted(&before, &after, &marks);
        // Nothing may replace it: what a compaction told was told.
        self.done.changelog_files.extend(changelog);
        let applied = self.levels.apply(&before, &after);
        applied.map_err(broken(&self.directory))?;
        let names = absorb(&mut self.done, before, after);
        let paths = names.into_iter();
        Ok(paths
            .map(|name| format!("{}/{name}", self.directory))
            .collect())
    }

    /// A barrier: the state is now what an abort goes back to. What compactions did since the last one,
    /// if anything.
    pub(crate) fn hand_over(&mut self) -> Option<CompactIncrement> {
        if std::mem::take(&mut self.changed) {
            self.kept.clone_from(&self.levels);
            self.kept_deleted.clone_from(&self.deleted);
        }
        (!self.done.is_empty()).then(|| std::mem::take(&mut self.done))
    }

    /// What compactions made and nobody has seen, when the tree is given up: to be deleted.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let lifted = |f: &DataFileMeta| {
            let mut inputs = self.done.compact_before.iter();
            inputs.any(|b| b.file_name == f.file_name)
        };
        let made = self.done.compact_after.iter().filter(|f| !lifted(f));
        let made = made.chain(&self.done.changelog_files);
        made.map(|f| format!("{}/{}", self.directory, f.file_name))
            .collect()
    }

    /// Back to the last barrier.
    pub(crate) fn give_up(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.levels.clone_from(&self.kept);
            self.deleted.clone_from(&self.kept_deleted);
        }
        self.done = CompactIncrement::default();
        self.busy = false;
    }
}

fn broken(directory: &str) -> impl FnOnce(tidegate_lsm::Error) -> WriterError {
    let bucket = directory.to_owned();
    move |source| WriterError::Levels {
        bucket,
        source: Box::new(source),
    }
}

/// Adds one compaction to those before it. A file that came out of an earlier one and goes into this one
/// was never visible: it leaves the list, and is named for deletion unless it lies under the same name in
/// the table, before or behind \[W-25].
fn absorb(
    sum: &mut CompactIncrement,
    before: Vec<DataFileMeta>,
    after: Vec<DataFileMeta>,
) -> Vec<String> {
    let mut useless = Vec::new();
    for file in before {
        let made = |f: &DataFileMeta| f.file_name == file.file_name && f.level == file.level;
        let Some(at) = sum.compact_after.iter().position(made) else {
            sum.compact_before.push(file);
            continue;
        };
        sum.compact_after.remove(at);
        let same = |f: &DataFileMeta| f.file_name == file.file_name;
        if !after.iter().any(same) && !sum.compact_before.iter().any(same) {
            useless.push(file.file_name);
        }
    }
    sum.compact_after.extend(after);
    useless
}

fn picked(
    picker: &mut Compaction,
    levels: &Levels,
    vectors: &Vectors,
    full: bool,
    now: Now,
) -> Option<Pick> {
    match full {
        // A file with deleted rows is rewritten without them.
        true => picker.pick_full(levels, now, |f| vectors.of(&f.file_name).is_some()),
        false => picker.pick(levels, now),
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{BinaryRow, FileSource, Level, SchemaId, SimpleStats};

    fn file(name: &str, level: i32) -> DataFileMeta {
        DataFileMeta {
            file_name: name.to_owned(),
            file_size: 1,
            row_count: 1,
            min_key: BinaryRow::empty(),
            max_key: BinaryRow::empty(),
            key_stats: SimpleStats::empty(),
            value_stats: SimpleStats::empty(),
            min_sequence_number: 0,
            max_sequence_number: 0,
            schema_id: SchemaId(0),
            level: Level(level),
            extra_files: Vec::new(),
            creation_time_millis: None,
            delete_row_count: Some(0),
            embedded_index: None,
            file_source: Some(FileSource::Compact),
            value_stats_cols: None,
            external_path: None,
            first_row_id: None,
            write_cols: None,
            write_cols_sequences: None,
        }
    }

    fn names(files: &[DataFileMeta]) -> Vec<(&str, i32)> {
        files
            .iter()
            .map(|f| (f.file_name.as_str(), f.level.0))
            .collect()
    }

    #[test]
    fn w_25_what_was_made_and_used_up_between_two_commits_is_seen_by_nobody() {
        let mut sum = CompactIncrement::default();
        assert!(
            absorb(
                &mut sum,
                vec![file("a", 0), file("b", 0)],
                vec![file("m", 4)]
            )
            .is_empty()
        );
        let useless = absorb(
            &mut sum,
            vec![file("c", 0), file("m", 4)],
            vec![file("n", 5)],
        );
        assert_eq!(useless, ["m"]);
        assert_eq!(names(&sum.compact_before), [("a", 0), ("b", 0), ("c", 0)]);
        assert_eq!(names(&sum.compact_after), [("n", 5)]);
    }

    #[test]
    fn w_25_a_lifted_file_is_never_deleted_since_the_table_has_it() {
        // Lifted, then rewritten: its bytes belong to the entry of level 0.
        let mut sum = CompactIncrement::default();
        absorb(&mut sum, vec![file("a", 0)], vec![file("a", 4)]);
        assert!(
            absorb(
                &mut sum,
                vec![file("a", 4), file("b", 0)],
                vec![file("n", 5)]
            )
            .is_empty()
        );
        assert_eq!(names(&sum.compact_before), [("a", 0), ("b", 0)]);
        assert_eq!(names(&sum.compact_after), [("n", 5)]);
        // Made here, then lifted: it stays.
        let mut sum = CompactIncrement::default();
        absorb(&mut sum, vec![file("a", 0)], vec![file("m", 3)]);
        assert!(absorb(&mut sum, vec![file("m", 3)], vec![file("m", 5)]).is_empty());
        assert_eq!(names(&sum.compact_before), [("a", 0)]);
        assert_eq!(names(&sum.compact_after), [("m", 5)]);
        // Made here, lifted, then rewritten: now it goes.
        assert_eq!(
            absorb(&mut sum, vec![file("m", 5)], vec![file("o", 5)]),
            ["m"]
        );
    }
}
