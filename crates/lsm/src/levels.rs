//! The levels of a bucket \[W-30], \[F-6.8]: level 0 holds files that each are a run, newest first; every
//! level above holds one sorted run.

use crate::error::{Error, Result};
use crate::run::{self, SortedRun};
use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use tidegate_model::{DataFileMeta, KeyOrder, Level};

/// The live files of one bucket, by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    order: KeyOrder,
    /// Newest first.
    level0: Vec<DataFileMeta>,
    /// Level 1 and up; a level without files is an empty list.
    upper: Vec<Vec<DataFileMeta>>,
}

/// A run and where it stands in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRun {
    /// Its level; of level 0 there are as many runs as files.
    pub level: Level,
    /// Its files.
    pub run: SortedRun,
}

impl Levels {
    /// Puts live files in their levels.
    ///
    /// `num_levels` counts level 0; a file of a higher level makes the tree as high as it needs
    /// \[W-30].
    ///
    /// # Errors
    /// Where a key does not decode, a level is negative, a file comes twice, or files of a level above
    /// 0 overlap: [`Error::Overlap`] names both.
    pub fn new(
        files: impl IntoIterator<Item = DataFileMeta>,
        order: KeyOrder,
        num_levels: usize,
    ) -> Result<Self> {
        let mut levels = Self {
            order,
            level0: Vec::new(),
            upper: vec![Vec::new(); num_levels.saturating_sub(1).max(1)],
        };
        levels.apply(&[], &files.into_iter().collect::<Vec<_>>())?;
        Ok(levels)
    }

    /// How keys compare.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The highest level that files may have.
    pub fn max_level(&self) -> Level {
        Level(i32::try_from(self.upper.len()).unwrap_or(i32::MAX))
    }

    /// The highest level that has files; `None` where the bucket is empty.
    pub fn highest_non_empty(&self) -> Option<Level> {
        let top = self.upper.iter().rposition(|files| !files.is_empty());
        match top {
            Some(i) => Some(Level(i32::try_from(i + 1).unwrap_or(i32::MAX))),
            None if self.level0.is_empty() => None,
            None => Some(Level(0)),
        }
    }

    /// Files of a level: of level 0 newest first, of others by key.
    pub fn files(&self, level: Level) -> &[DataFileMeta] {
        match usize::try_from(level.0) {
            Ok(0) => &self.level0,
            Ok(n) => self.upper.get(n - 1).map_or(&[], Vec::as_slice),
            Err(_) => &[],
        }
    }

    /// All files, level by level.
    pub fn all_files(&self) -> impl Iterator<Item = &DataFileMeta> {
        self.level0.iter().chain(self.upper.iter().flatten())
    }

    /// How many sorted runs there are: what compaction and write stall go by \[W-40].
    pub fn run_count(&self) -> usize {
        self.level0.len() + self.upper.iter().filter(|files| !files.is_empty()).count()
    }

    /// The runs, newest first: the files of level 0, then level 1 and up.
    pub fn runs(&self) -> Vec<LevelRun> {
        let single = |file: &DataFileMeta| LevelRun {
            level: Level(0),
            run: SortedRun {
                files: vec![file.clone()],
            },
        };
        let whole = |(i, files): (usize, &Vec<DataFileMeta>)| LevelRun {
            level: Level(i32::try_from(i + 1).unwrap_or(i32::MAX)),
            run: SortedRun {
                files: files.clone(),
            },
        };
        let upper = self.upper.iter().enumerate();
        self.level0
            .iter()
            .map(single)
            .chain(upper.filter(|(_, files)| !files.is_empty()).map(whole))
            .collect()
    }

    /// Takes files away and adds others, all or nothing: a flush adds, a compaction does both. A file
    /// that only changes its level is in both lists.
    ///
    /// # Errors
    /// As [`new`](Self::new), and where a file of `before` is not there. Nothing is changed then.
    pub fn apply(&mut self, before: &[DataFileMeta], after: &[DataFileMeta]) -> Result<()> {
        let mut level0 = self.level0.clone();
        let mut upper = self.upper.clone();
        for file in before {
            let list = match file.level.0 {
                0 => Some(&mut level0),
                n => usize::try_from(n - 1).ok().and_then(|i| upper.get_mut(i)),
            };
            let at = list
                .as_ref()
                .and_then(|files| files.iter().position(|f| f.file_name == file.file_name));
            match (list, at) {
                (Some(files), Some(at)) => drop(files.remove(at)),
                _ => {
                    return Err(Error::Missing {
                        file: file.file_name.clone(),
                        level: file.level.0,
                    });
                }
            }
        }
        for file in after {
            run::check(file, &self.order)?;
            let list = match usize::try_from(file.level.0) {
                Ok(0) => &mut level0,
                Ok(n) if n <= MAX_LEVELS => {
                    if upper.len() < n {
                        upper.resize(n, Vec::new());
                    }
                    match upper.get_mut(n - 1) {
                        Some(files) => files,
                        None => continue,
                    }
                }
                _ => {
                    return Err(Error::Level {
                        file: file.file_name.clone(),
                        level: file.level.0,
                    });
                }
            };
            if list.iter().any(|f| f.file_name == file.file_name) {
                return Err(Error::Twice {
                    file: file.file_name.clone(),
                    level: file.level.0,
                });
            }
            list.push(file.clone());
        }
        level0.sort_by(newest_first);
        for files in &mut upper {
            run::sort_by_keys(files, &self.order);
            if let Some((a, b)) = run::first_overlap(files, &self.order) {
                return Err(Error::Overlap {
                    level: a.level.0,
                    first: a.file_name.clone(),
                    second: b.file_name.clone(),
                });
            }
        }
        (self.level0, self.upper) = (level0, upper);
        Ok(())
    }
}

/// Far above what any option makes sense of: a damaged entry must not make a tree of a billion levels.
const MAX_LEVELS: usize = 10_000;

/// The order of level 0 \[W-30].
fn newest_first(a: &DataFileMeta, b: &DataFileMeta) -> Ordering {
    let key = |f: &DataFileMeta| {
        (
            Reverse(f.max_sequence_number),
            f.min_sequence_number,
            f.creation_time_millis,
        )
    };
    key(a)
        .cmp(&key(b))
        .then_with(|| a.file_name.cmp(&b.file_name))
}

/// The first two files that are of one level above 0 and meet in their keys: what a commit must not
/// make, and what a check looks for \[C-30].
///
/// # Errors
/// Where a key does not decode, or a file is reversed.
pub fn overlap<'a, F: Borrow<DataFileMeta> + 'a>(
    files: impl IntoIterator<Item = &'a F>,
    order: &KeyOrder,
) -> Result<Option<(&'a DataFileMeta, &'a DataFileMeta)>> {
    let mut upper: Vec<&DataFileMeta> = Vec::new();
    for file in files {
        let file: &DataFileMeta = file.borrow();
        if file.level.0 > 0 {
            run::check(file, order)?;
            upper.push(file);
        }
    }
    run::sort_by_keys(&mut upper, order);
    upper.sort_by_key(|f| f.level);
    for level in upper.chunk_by(|a, b| a.level == b.level) {
        if let Some((a, b)) = run::first_overlap(level, order) {
            return Ok(Some((a, b)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, file, names, order};

    fn sequenced(name: &str, min: i64, max: i64, created: i64) -> DataFileMeta {
        DataFileMeta {
            min_sequence_number: min,
            max_sequence_number: max,
            creation_time_millis: Some(created),
            ..file(name, 1, 9)
        }
    }

    #[test]
    fn level_0_is_newest_first_and_ties_follow_w_30() {
        let files = vec![
            sequenced("by-name-b", 5, 10, 1),
            sequenced("old", 1, 4, 9),
            sequenced("by-name-a", 5, 10, 1),
            sequenced("newest", 11, 12, 0),
            sequenced("created-later", 5, 10, 2),
            sequenced("smaller-min", 4, 10, 7),
        ];
        let levels = Levels::new(files, order(), 6).unwrap();
        assert_eq!(
            names(levels.files(Level(0))),
            [
                "newest",
                "smaller-min",
                "by-name-a",
                "by-name-b",
                "created-later",
                "old"
            ]
        );
    }

    #[test]
    fn runs_are_each_file_of_level_0_then_each_level_with_files() {
        let files = vec![
            at(5, "f5b", 20, 30),
            at(5, "f5a", 1, 10),
            at(2, "f2", 1, 99),
            sequenced("l0-old", 1, 2, 0),
            sequenced("l0-new", 3, 4, 0),
        ];
        let levels = Levels::new(files, order(), 6).unwrap();
        let runs = levels.runs();
        let seen: Vec<_> = runs
            .iter()
            .map(|r| (r.level.0, names(&r.run.files)))
            .collect();
        assert_eq!(
            seen,
            [
                (0, vec!["l0-new"]),
                (0, vec!["l0-old"]),
                (2, vec!["f2"]),
                (5, vec!["f5a", "f5b"])
            ]
        );
        assert_eq!(levels.run_count(), 4);
        assert_eq!(levels.highest_non_empty(), Some(Level(5)));
        assert_eq!(levels.max_level(), Level(5));
    }

    #[test]
    fn a_file_of_a_higher_level_than_the_option_makes_the_tree_higher() {
        let levels = Levels::new(vec![at(9, "far", 1, 2)], order(), 6).unwrap();
        assert_eq!(levels.max_level(), Level(9));
        let empty = Levels::new(vec![], order(), 3).unwrap();
        assert_eq!(
            (empty.max_level(), empty.highest_non_empty()),
            (Level(2), None)
        );
    }

    #[test]
    fn files_above_level_0_that_meet_are_refused_by_name() {
        let error = Levels::new(vec![at(3, "b", 5, 9), at(3, "a", 1, 5)], order(), 6).unwrap_err();
        assert_eq!(
            error,
            Error::Overlap {
                level: 3,
                first: "a".into(),
                second: "b".into()
            }
        );
        Levels::new(
            vec![at(3, "b", 6, 9), at(3, "a", 1, 5), at(4, "c", 1, 9)],
            order(),
            6,
        )
        .unwrap();
    }

    #[test]
    fn a_change_is_applied_whole_or_not_at_all() {
        let mut levels = Levels::new(vec![file("a", 1, 5), at(1, "b", 1, 9)], order(), 6).unwrap();
        let old = levels.clone();
        // An upgrade: the same file at another level.
        let lifted = at(5, "a", 1, 5);
        levels
            .apply(
                &[file("a", 1, 5), at(1, "b", 1, 9)],
                std::slice::from_ref(&lifted),
            )
            .unwrap();
        assert_eq!(names(levels.all_files()), ["a"]);
        assert_eq!(names(levels.files(Level(5))), ["a"]);

        let mut levels = old.clone();
        let gone = levels
            .apply(&[file("a", 1, 5), at(2, "b", 1, 9)], &[])
            .unwrap_err();
        assert_eq!(
            gone,
            Error::Missing {
                file: "b".into(),
                level: 2
            }
        );
        let twice = levels.apply(&[], &[file("a", 1, 5)]).unwrap_err();
        assert_eq!(
            twice,
            Error::Twice {
                file: "a".into(),
                level: 0
            }
        );
        let meets = levels
            .apply(&[file("a", 1, 5)], &[at(1, "c", 9, 9)])
            .unwrap_err();
        assert!(matches!(meets, Error::Overlap { .. }));
        assert!(levels.apply(&[], &[at(-1, "c", 9, 9)]).is_err());
        assert!(levels.apply(&[], &[at(i32::MAX, "c", 9, 9)]).is_err());
        assert_eq!(levels, old);
    }

    #[test]
    fn damaged_keys_are_named() {
        let damaged = DataFileMeta {
            min_key: tidegate_model::BinaryRow::empty(),
            ..file("x", 1, 2)
        };
        let error = Levels::new(vec![damaged], order(), 6)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("file x: its smallest or largest key: "),
            "{error}"
        );
        let reversed = Levels::new(vec![file("y", 3, 2)], order(), 6).unwrap_err();
        assert_eq!(reversed, Error::Reversed { file: "y".into() });
    }

    #[test]
    fn overlaps_are_found_within_a_level_above_0_only() {
        let fine = [
            file("a", 1, 9),
            file("b", 1, 9),
            at(1, "c", 1, 5),
            at(2, "d", 3, 9),
            at(1, "e", 6, 7),
        ];
        assert_eq!(overlap(&fine, &order()).unwrap(), None);
        let mut met = fine.to_vec();
        met.push(at(2, "f", 9, 9));
        let (a, b) = overlap(&met, &order()).unwrap().unwrap();
        assert_eq!((a.file_name.as_str(), b.file_name.as_str()), ("d", "f"));
    }
}
