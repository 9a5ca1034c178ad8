//! What is there in the end: rows by another implementation's reader, files by their bytes.

use crate::place::Place;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_interop::peer::Peer;
use tidegate_tests::judge;

/// Rows and files of a finished cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged rows.
    pub acknowledged: usize,
    /// Rows that were read.
    pub read: usize,
    /// Acknowledged, and not there.
    pub lost: usize,
    /// There more than once: so many rows too many.
    pub doubled: usize,
    /// There and not acknowledged: published by a process that died before it could say so.
    pub unsaid: usize,
    /// Files that nothing refers to.
    pub left_over: usize,
    /// Of these, data files.
    pub left_over_data: usize,
    /// Files that are referred to and not there.
    pub missing: usize,
    /// Snapshots.
    pub snapshots: usize,
    /// Why the reader could not read the table.
    pub unreadable: Option<String>,
}

impl Verdict {
    /// Of the table at a place, by a reader that is a process of another implementation.
    ///
    /// # Panics
    /// Where the table's folder cannot be walked.
    pub fn of(place: &Place, reader: &mut Peer, acknowledged: &[(i64, i64)]) -> Self {
        let folder = place.folder();
        let found = judge::look(&folder);
        let read = reader.on(
            "read",
            &folder.display().to_string(),
            json!({"projection": ["id"]}),
        );
        let mut verdict = Self {
            left_over: found.orphans.len(),
            left_over_data: found
                .orphans
                .iter()
                .filter(|p| p.contains("/data-"))
                .count(),
            missing: found.dangling.len(),
            snapshots: found.snapshots.len(),
            ..Self::default()
        };
        let none = found.snapshots.is_empty();
        match read {
            // A table without a snapshot has no rows, whatever a reader says to it.
            _ if none => verdict.rows(acknowledged, &[]),
            Ok(rows) => verdict.rows(acknowledged, &ids(&rows)),
            Err(why) => {
                verdict.acknowledged = count(acknowledged);
                verdict.unreadable = Some(why.chars().take(300).collect());
            }
        }
        verdict
    }

    /// Of a table that ours and another wrote: ours has the ids up to `border`, and names its files by its run.
    pub fn of_two(
        place: &Place,
        reader: &mut Peer,
        acknowledged: &[Vec<(i64, i64)>; 2],
        border: i64,
    ) -> [Self; 2] {
        let folder = place.folder();
        let found = judge::look(&folder);
        let read = reader.on(
            "read",
            &folder.display().to_string(),
            json!({"projection": ["id"]}),
        );
        let is_ours = |path: &str| path.contains("-tg");
        let mut verdicts = [Self::default(), Self::default()];
        for path in &found.orphans {
            let verdict = &mut verdicts[usize::from(!is_ours(path))];
            verdict.left_over += 1;
            verdict.left_over_data += usize::from(path.contains("/data-"));
        }
        for path in &found.dangling {
            verdicts[usize::from(!is_ours(path))].missing += 1;
        }
        for (n, verdict) in verdicts.iter_mut().enumerate() {
            verdict.snapshots = found.snapshots.len();
            match &read {
                Ok(rows) => {
                    let mut ids = ids(rows);
                    ids.retain(|id| usize::from(*id > border) == n);
                    verdict.rows(&acknowledged[n], &ids);
                }
                Err(why) => {
                    verdict.acknowledged = count(&acknowledged[n]);
                    verdict.unreadable = Some(why.chars().take(300).collect());
                }
            }
        }
        verdicts
    }

    fn rows(&mut self, acknowledged: &[(i64, i64)], ids: &[i64]) {
        let mut there: BTreeMap<i64, usize> = BTreeMap::new();
        for id in ids {
            *there.entry(*id).or_default() += 1;
        }
        let wanted: BTreeSet<i64> = acknowledged.iter().flat_map(|(a, b)| *a..=*b).collect();
        self.acknowledged = wanted.len();
        self.read = ids.len();
        self.lost = wanted.iter().filter(|id| !there.contains_key(id)).count();
        self.doubled = there.values().map(|n| n - 1).sum();
        self.unsaid = there.keys().filter(|id| !wanted.contains(id)).count();
    }

    /// Takes in the verdict on another table of the same cell.
    pub fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.read += other.read;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.unsaid += other.unsaid;
        self.left_over += other.left_over;
        self.left_over_data += other.left_over_data;
        self.missing += other.missing;
        self.snapshots += other.snapshots;
        self.unreadable = self.unreadable.take().or(other.unreadable);
    }
}

fn count(ranges: &[(i64, i64)]) -> usize {
    ranges
        .iter()
        .map(|(a, b)| usize::try_from(b - a + 1).unwrap_or(0))
        .sum()
}

fn ids(rows: &Value) -> Vec<i64> {
    let rows = rows.as_array().into_iter().flatten();
    rows.filter_map(|row| row["id"].as_i64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(acknowledged: &[(i64, i64)], ids: &[i64]) -> Verdict {
        let mut verdict = Verdict::default();
        verdict.rows(acknowledged, ids);
        verdict
    }

    #[test]
    fn rows_are_lost_doubled_or_unsaid_each_by_its_own_count() {
        let whole = judged(&[(1, 2), (3, 3)], &[3, 2, 1]);
        assert_eq!((whole.lost, whole.doubled, whole.unsaid), (0, 0, 0));
        let bad = judged(&[(1, 4)], &[1, 1, 1, 2, 9]);
        assert_eq!((bad.lost, bad.doubled, bad.unsaid), (2, 2, 1));
    }
}
