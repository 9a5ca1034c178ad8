//! Lists and manifests of every version: there, of their recorded size, readable, and adding up.
//!
//! Owns the sums. Of each manifest sixteen bytes are kept that stand for its entries: the sum of their
//! identities, ADDs counted up and DELETEs down. Merging manifests leaves the sum as it is, so whether a
//! base list still holds what history gave is told without reading anything twice. Only where it does not
//! are files named.

use std::collections::HashMap;

use tidegate_format as format;
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    BinaryRow, Datum, EntryKind, LogicalType, ManifestEntry, ManifestFile, layout,
};
use tidegate_scan::manifest_list;
use tidegate_storage::ErrorKind;

use super::Check;
use super::digest::{identity, stem};
use super::finding::Kind;
use super::versions::{Line, Version};
use crate::error::Result;

/// What is kept of a manifest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    /// Sum of the identities; `None` where it could not be read.
    sum: Option<u128>,
    /// Rows added less rows deleted.
    rows: i64,
    entries: u64,
    pub(super) deletes: bool,
}

/// The manifests of one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Manifests {
    pub(super) files: Vec<ManifestFile>,
    /// Some of them, or the list itself, could not be read.
    incomplete: bool,
    sum: u128,
    rows: i64,
}

impl Check<'_> {
    /// Everything that the versions of a line refer to, but for data files.
    pub(super) async fn metadata(&mut self, line: &Line) -> Result<()> {
        let mut before: Option<(&Version, Manifests)> = None;
        for version in &line.snapshots {
            let base = self.list(version, &version.base, false).await?;
            let delta = self.list(version, &version.delta, false).await?;
            self.totals(version, &base, &delta);
            if let Some((previous, whole)) = &before
                && previous.id.next() == version.id
                && !whole.incomplete
                && !base.incomplete
                && whole.sum != base.sum
            {
                self.explain(version, &whole.files, &base.files).await?;
            }
            self.rest(line, version).await?;
            before = Some((version, joined(base, delta)));
        }
        let tags = line.tags.iter().filter(|tag| {
            // A tag of a snapshot that is still there was looked at with it.
            !line.snapshots.iter().any(|s| s.same_lists(tag))
        });
        for tag in tags {
            let base = self.list(tag, &tag.base, false).await?;
            let delta = self.list(tag, &tag.delta, false).await?;
            self.totals(tag, &base, &delta);
            self.rest(line, tag).await?;
        }
        for changelog in &line.changelogs {
            // Its changes may be those of a delta list, and lists of other kinds are gone [F-14.9].
            self.list(changelog, &changelog.base, true).await?;
            self.list(changelog, &changelog.delta, true).await?;
            self.rest(line, changelog).await?;
        }
        Ok(())
    }

    fn totals(&mut self, version: &Version, base: &Manifests, delta: &Manifests) {
        if !delta.incomplete
            && let Some(recorded) = version.delta_rows
            && recorded != delta.rows
        {
            let what = format!(
                "records {recorded} changed rows, its manifests add up to {}",
                delta.rows
            );
            self.report
                .through(&version.path, Kind::Count, &version.path, what);
        }
        let total = base.rows.saturating_add(delta.rows);
        if !base.incomplete
            && !delta.incomplete
            && let Some(recorded) = version.total_rows
            && recorded != total
        {
            let what = format!("records {recorded} rows in all, its live files add up to {total}");
            self.report
                .through(&version.path, Kind::Count, &version.path, what);
        }
    }

    /// Changelog, index and statistics.
    async fn rest(&mut self, line: &Line, version: &Version) -> Result<()> {
        if let Some(changelog) = &version.changelog {
            let changes = self.list(version, changelog, false).await?;
            if !changes.incomplete
                && let Some(recorded) = version.changelog_rows
                && recorded != changes.rows
            {
                let what = format!(
                    "records {recorded} rows of changelog, its manifests add up to {}",
                    changes.rows
                );
                self.report
                    .through(&version.path, Kind::Count, &version.path, what);
            }
        }
        if let Some(statistics) = &version.statistics {
            let path = layout::statistics_path(statistics);
            if self.known(&path) {
                let reason = format!("{} refers to it", version.path);
                self.there(Some(&version.path), &reason, &path).await?;
            }
        }
        if let Some(index) = &version.index {
            self.index(line, version, index).await?;
        }
        Ok(())
    }

    /// The manifests that a list names. Of a long-lived changelog it `may_be_gone`.
    pub(super) async fn list(
        &mut self,
        version: &Version,
        list: &ListRef,
        may_be_gone: bool,
    ) -> Result<Manifests> {
        let path = layout::manifest_path(&list.name);
        let mut found = Manifests {
            incomplete: true,
            ..Manifests::default()
        };
        if may_be_gone && self.store().head(&path).await?.is_none() {
            return Ok(found);
        }
        if self.known(&path) {
            let reason = format!("{} refers to it", version.path);
            let recorded = list.size.unwrap_or(-1);
            if !self
                .size(Some(&version.path), &reason, &path, recorded)
                .await?
            {
                return Ok(found);
            }
        }
        match manifest_list(self.store(), list).await {
            Ok(files) => found.files = files,
            Err(tidegate_scan::Error::Store(e)) if e.kind() == ErrorKind::NotFound => {
                return Ok(found);
            }
            Err(tidegate_scan::Error::Store(e)) => return Err(e.into()),
            Err(e) => {
                self.report
                    .through(&version.path, Kind::Unreadable, &path, e.to_string());
                return Ok(found);
            }
        }
        found.incomplete = false;
        for at in 0..found.files.len() {
            let Some(meta) = found.files.get(at).cloned() else {
                continue;
            };
            let summary = self.summary(version, &meta, may_be_gone).await?;
            match summary.sum {
                Some(sum) => found.sum = found.sum.wrapping_add(sum),
                None => found.incomplete = true,
            }
            found.rows = found.rows.saturating_add(summary.rows);
        }
        Ok(found)
    }

    /// A manifest, read once.
    async fn summary(
        &mut self,
        version: &Version,
        meta: &ManifestFile,
        may_be_gone: bool,
    ) -> Result<Summary> {
        if let Some(known) = self.manifests.get(&meta.file_name) {
            return Ok(*known);
        }
        let path = layout::manifest_path(&meta.file_name);
        let mut summary = Summary {
            sum: None,
            rows: 0,
            entries: 0,
            deletes: false,
        };
        if may_be_gone && self.store().head(&path).await?.is_none() {
            return Ok(summary);
        }
        self.known(&path);
        let reason = format!("a list of {} names it", version.path);
        if self
            .size(Some(&version.path), &reason, &path, meta.file_size)
            .await?
            && let Some(bytes) = self.store().get_opt(&path).await?
        {
            self.report.manifests += 1;
            match self.add_up(&path, meta, &bytes) {
                Ok(read) => summary = read,
                Err(e) => {
                    let what = e.to_string();
                    self.report
                        .through(&version.path, Kind::Unreadable, &path, what);
                }
            }
        }
        self.manifests.insert(meta.file_name.clone(), summary);
        self.entries += summary.entries;
        Ok(summary)
    }

    /// The entries of a manifest against what its list says of them.
    fn add_up(&mut self, path: &str, meta: &ManifestFile, bytes: &[u8]) -> format::Result<Summary> {
        let (mut sum, mut rows, mut added, mut deleted) = (0u128, 0i64, 0i64, 0i64);
        let mut outside = None;
        for entry in format::manifest::entries(bytes)? {
            let entry = entry?;
            let id = identity(&entry);
            match entry.kind {
                EntryKind::Add => {
                    added += 1;
                    sum = sum.wrapping_add(id);
                    rows = rows.saturating_add(entry.file.row_count);
                }
                EntryKind::Delete => {
                    deleted += 1;
                    sum = sum.wrapping_sub(id);
                    rows = rows.saturating_sub(entry.file.row_count);
                }
            }
            if outside.is_none() {
                outside = self.outside(meta, &entry);
            }
            for extra in &entry.file.extra_files {
                // Others are looked up with their data file.
                if stem(extra) != stem(&entry.file.file_name) {
                    self.strange_companions.insert(super::digest::digest(extra));
                }
            }
        }
        if (added, deleted) != (meta.num_added_files, meta.num_deleted_files) {
            let what = format!(
                "its list records {} added and {} deleted files, it has {added} and {deleted}",
                meta.num_added_files, meta.num_deleted_files
            );
            self.report.error(Kind::Count, path, what);
        }
        if let Some(what) = outside {
            self.report.error(Kind::Statistics, path, what);
        }
        Ok(Summary {
            sum: Some(sum),
            rows,
            entries: (added + deleted).unsigned_abs(),
            deletes: deleted > 0,
        })
    }

    /// What makes readers pass a manifest by although they want a file of it.
    fn outside(&self, meta: &ManifestFile, entry: &ManifestEntry) -> Option<String> {
        let file = &entry.file.file_name;
        let within = |what: &str, value: i32, min: Option<i32>, max: Option<i32>| {
            let (Some(min), Some(max)) = (min, max) else {
                return None;
            };
            (value < min || value > max).then(|| {
                format!("its list records {what} {min} to {max}, {file} is of {what} {value}: readers pass it by")
            })
        };
        let bucket = within(
            "bucket",
            entry.bucket.0,
            meta.min_bucket.map(|b| b.0),
            meta.max_bucket.map(|b| b.0),
        );
        let level = within(
            "level",
            entry.file.level.0,
            meta.min_level.map(|l| l.0),
            meta.max_level.map(|l| l.0),
        );
        bucket.or(level).or_else(|| {
            let stats = &meta.partition_stats;
            let off = off_partition(
                &self.partition_types,
                &entry.partition,
                &stats.min_values,
                &stats.max_values,
            )?;
            Some(format!(
                "its list's partition statistics leave out {off} of {file}: readers pass it by"
            ))
        })
    }

    /// Names the files in which a base list differs from what the snapshots before it gave.
    async fn explain(
        &mut self,
        version: &Version,
        before: &[ManifestFile],
        base: &[ManifestFile],
    ) -> Result<()> {
        let names = |files: &[ManifestFile]| -> std::collections::HashSet<String> {
            files.iter().map(|m| m.file_name.clone()).collect()
        };
        let (old, new) = (names(before), names(base));
        // What both have cannot be the reason.
        let mut counts: HashMap<u128, (i64, String)> = HashMap::new();
        let gone = before.iter().filter(|m| !new.contains(&m.file_name));
        let come = base.iter().filter(|m| !old.contains(&m.file_name));
        let doubled = names_twice(base);
        for (meta, sign) in gone.map(|m| (m, -1)).chain(come.map(|m| (m, 1))) {
            for entry in self.entries_of(&meta.file_name).await? {
                let step = match entry.kind {
                    EntryKind::Add => sign,
                    EntryKind::Delete => -sign,
                };
                let name = entry.file.file_name.clone();
                counts.entry(identity(&entry)).or_insert((0, name)).0 += step;
            }
        }
        for name in doubled {
            let what =
                format!("its base list names {name} twice: the rows of its files are doubled");
            self.report
                .through(&version.path, Kind::Doubled, &version.path, what);
        }
        let mut off: Vec<(i64, String)> = counts.into_values().filter(|(n, _)| *n != 0).collect();
        off.sort_unstable();
        for (count, name) in off {
            let (kind, what) = match count < 0 {
                true => (
                    Kind::Lost,
                    format!(
                        "its base list has lost {name}, which an earlier snapshot added and none deleted"
                    ),
                ),
                false => (
                    Kind::Stray,
                    format!(
                        "its base list holds {name} once more than the snapshots before it gave"
                    ),
                ),
            };
            self.report
                .through(&version.path, kind, &version.path, what);
        }
        Ok(())
    }

    /// The entries of a manifest; none, and `unread` set, where it cannot be read, which was told before.
    pub(super) async fn entries_of(&mut self, name: &str) -> Result<Vec<ManifestEntry>> {
        let bytes = self.store().get_opt(&layout::manifest_path(name)).await?;
        let read = bytes.and_then(|bytes| format::manifest::decode(&bytes).ok());
        self.unread |= read.is_none();
        Ok(read.unwrap_or_default())
    }
}

fn joined(mut base: Manifests, delta: Manifests) -> Manifests {
    base.files.extend(delta.files);
    Manifests {
        files: base.files,
        incomplete: base.incomplete || delta.incomplete,
        sum: base.sum.wrapping_add(delta.sum),
        rows: base.rows.saturating_add(delta.rows),
    }
}

fn names_twice(files: &[ManifestFile]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let names = files.iter().map(|m| m.file_name.as_str());
    names.filter(|name| !seen.insert(*name)).collect()
}

/// The first value of a partition that lies outside the recorded bounds.
fn off_partition(
    types: &[LogicalType],
    partition: &BinaryRow,
    min: &BinaryRow,
    max: &BinaryRow,
) -> Option<String> {
    if [partition, min, max]
        .iter()
        .any(|row| (row.arity() as usize) < types.len())
    {
        return None;
    }
    types.iter().enumerate().find_map(|(at, logical)| {
        let get = |row: &BinaryRow| -> Option<Datum> { row.get(at, logical).ok().flatten() };
        let (value, min, max) = (get(partition)?, get(min), get(max));
        let below = min.is_some_and(|m| value.compare(&m).is_some_and(|o| o.is_lt()));
        let above = max.is_some_and(|m| value.compare(&m).is_some_and(|o| o.is_gt()));
        (below || above).then(|| format!("partition value {value:?}"))
    })
}
