//! Sections: which files must be merged with which \[W-46].
//!
//! The files of a bucket fall into sections whose key ranges do not meet, so that each can be read by
//! itself, in key order. Within a section files are packed into as few sorted runs as possible: a
//! greedy interval partition, which is minimal: a new run is opened only where every run so far covers
//! the new file's smallest key, so that many files meet in that one key.

use crate::error::Result;
use crate::run::{self, SortedRun};
use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use tidegate_model::{BinaryRow, DataFileMeta, KeyOrder};

/// Files that overlap directly or by way of others, as sorted runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<F = DataFileMeta> {
    /// Oldest first: by the highest level, then by the highest sequence number. One run: nothing to
    /// merge.
    pub runs: Vec<SortedRun<F>>,
}

impl<F: Borrow<DataFileMeta>> Section<F> {
    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        self.runs.iter().flat_map(|run| &run.files)
    }

    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        self.runs
            .iter()
            .map(SortedRun::size)
            .fold(0, u64::saturating_add)
    }
}

/// Cuts files of any levels into sections, in key order.
///
/// # Errors
/// Where a key does not decode, or a file's smallest key is above its largest one.
///
/// ```
/// use tidegate_lsm::sections;
/// # use tidegate_model::*;
/// # fn file(name: &str, min: i32, max: i32) -> DataFileMeta {
/// #     let key = |v| BinaryRow::from_datums(&[Some(Datum::Int(v))], &[LogicalType::Int]).unwrap();
/// #     let none = SimpleStats::empty();
/// #     DataFileMeta { file_name: name.into(), file_size: 1, row_count: 1, min_key: key(min),
/// #         max_key: key(max), key_stats: none.clone(), value_stats: none, min_sequence_number: 0,
/// #         max_sequence_number: 0, schema_id: SchemaId(0), level: Level(0), extra_files: vec![],
/// #         creation_time_millis: None, delete_row_count: Some(0), embedded_index: None,
/// #         file_source: None, value_stats_cols: None, external_path: None, first_row_id: None,
/// #         write_cols: None, write_cols_sequences: None }
/// # }
/// let order = KeyOrder::new(vec![LogicalType::Int]);
/// let files = vec![file("c", 20, 30), file("a", 1, 5), file("b", 4, 9), file("d", 6, 7)];
/// let cut = sections(files, &order)?;
/// let names: Vec<Vec<Vec<&str>>> = cut
///     .iter()
///     .map(|s| s.runs.iter().map(|r| r.files.iter().map(|f| f.file_name.as_str()).collect()).collect())
///     .collect();
/// assert_eq!(names, [vec![vec!["a", "d"], vec!["b"]], vec![vec!["c"]]]);
/// # Ok::<(), tidegate_lsm::Error>(())
/// ```
pub fn sections<F: Borrow<DataFileMeta>>(
    files: impl IntoIterator<Item = F>,
    order: &KeyOrder,
) -> Result<Vec<Section<F>>> {
    let mut files: Vec<F> = files.into_iter().collect();
    for file in &files {
        run::check(file.borrow(), order)?;
    }
    run::sort_by_keys(&mut files, order);
    let mut out = Vec::new();
    let mut open: Vec<F> = Vec::new();
    let mut bound: Option<BinaryRow> = None;
    for file in files {
        let (min, max) = (&file.borrow().min_key, &file.borrow().max_key);
        let beyond = |bound: &BinaryRow, key: &BinaryRow| {
            run::compare(order, key, bound) == Ordering::Greater
        };
        match &bound {
            Some(b) if beyond(b, min) => {
                out.push(pack(std::mem::take(&mut open), order));
                bound = Some(max.clone());
            }
            Some(b) if !beyond(b, max) => {}
            _ => bound = Some(max.clone()),
        }
        open.push(file);
    }
    if !open.is_empty() {
        out.push(pack(open, order));
    }
    Ok(out)
}

/// Key-sorted files into as few runs as possible.
fn pack<F: Borrow<DataFileMeta>>(files: Vec<F>, order: &KeyOrder) -> Section<F> {
    let mut runs: Vec<SortedRun<F>> = Vec::new();
    for file in files {
        // The run that ends first; runs are few, a section of a thousand would be slow for other
        // reasons.
        let end = |run: &SortedRun<F>| run.files.last().map(|f| f.borrow().max_key.clone());
        let first = runs
            .iter()
            .enumerate()
            .filter_map(|(i, run)| end(run).map(|key| (i, key)))
            .min_by(|a, b| run::compare(order, &a.1, &b.1));
        let fits = first.filter(|(_, end)| {
            run::compare(order, &file.borrow().min_key, end) == Ordering::Greater
        });
        match fits.and_then(|(i, _)| runs.get_mut(i)) {
            Some(run) => run.files.push(file),
            None => runs.push(SortedRun { files: vec![file] }),
        }
    }
    runs.sort_by_key(|run| (Reverse(run.level()), run.max_sequence_number()));
    Section { runs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, file, order};
    use proptest::prelude::*;

    proptest! {
        /// Against what the words say, tried on every key: files of one section hang together, those of
        /// two never share a key, and a section has as many runs as files meet in its fullest key.
        #[test]
        fn sections_are_the_connected_ranges_and_runs_are_minimal(
            ranges in prop::collection::vec((0i32..40, 0i32..12, 0i32..3), 0..25)
        ) {
            let files: Vec<_> = ranges
                .iter()
                .enumerate()
                .map(|(i, (min, len, level))| at(*level, &format!("{i}"), *min, min + len))
                .collect();
            let cut = sections(&files, &order()).unwrap();
            prop_assert_eq!(cut.iter().flat_map(Section::files).count(), files.len());
            let covers = |f: &DataFileMeta, k: i32| {
                let i: usize = f.file_name.parse().unwrap();
                (ranges[i].0..=ranges[i].0 + ranges[i].1).contains(&k)
            };
            let mut last = -1;
            for section in &cut {
                let covered: Vec<i32> =
                    (0..60).filter(|k| section.files().any(|f| covers(f, *k))).collect();
                prop_assert!(covered[0] > last, "sections meet or are out of order");
                last = *covered.last().unwrap();
                // Connected by keys, and by pairs of files that share one.
                let mut reached = vec![*section.files().next().unwrap()];
                loop {
                    let next = section.files().find(|f| {
                        !reached.contains(f)
                            && reached.iter().any(|r| (0..60).any(|k| covers(r, k) && covers(f, k)))
                    });
                    match next {
                        Some(f) => reached.push(f),
                        None => break,
                    }
                }
                prop_assert_eq!(reached.len(), section.files().count());
                let depth =
                    (0..60).map(|k| section.files().filter(|f| covers(f, k)).count()).max().unwrap();
                prop_assert_eq!(section.runs.len(), depth);
                for run in &section.runs {
                    for k in 0..60 {
                        prop_assert!(run.files.iter().filter(|f| covers(f, k)).count() <= 1);
                    }
                    let mins: Vec<_> =
                        run.files.iter().map(|f| ranges[f.file_name.parse::<usize>().unwrap()].0).collect();
                    prop_assert!(mins.is_sorted());
                }
            }
        }
    }

    #[test]
    fn runs_of_a_section_are_oldest_first() {
        let sequenced = |level, name: &str, sequence| DataFileMeta {
            max_sequence_number: sequence,
            ..at(level, name, 1, 9)
        };
        let files = vec![
            sequenced(0, "newest", 9),
            sequenced(5, "top", 3),
            sequenced(0, "new", 7),
        ];
        let cut = sections(files, &order()).unwrap();
        let names: Vec<_> = cut[0].files().map(|f| f.file_name.as_str()).collect();
        assert_eq!(names, ["top", "new", "newest"]);
    }

    #[test]
    fn no_files_no_sections_and_damaged_keys_are_named() {
        assert!(
            sections(Vec::<DataFileMeta>::new(), &order())
                .unwrap()
                .is_empty()
        );
        assert!(sections(vec![file("x", 2, 1)], &order()).is_err());
    }
}
