//! Every ADD and DELETE of every version, replayed: no file live twice, none back from the dead, none
//! deleted that is not there; and each file that is live in some version is looked at once.
//!
//! Owns the sets of files. They are kept for a share of all names at a time, so that a table of any size
//! is gone through in bounded memory, in as many rounds as that takes.

use std::collections::{HashMap, HashSet};

use tidegate_model::{EntryKind, ManifestEntry};
use tidegate_scan::{Places, Split};

use super::Check;
use super::digest::{digest, identity, share_of, stem};
use super::finding::Kind;
use super::versions::{Line, Version};
use crate::error::Result;

/// The names that are looked at in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) nth: u64,
    pub(super) of: u64,
}

impl Share {
    pub(super) fn has(self, name: &str) -> bool {
        share_of(name, self.of) == self.nth
    }
}

/// Files of one share that are live at one point of a line.
#[derive(Debug, Default)]
struct Live {
    files: HashSet<u128>,
    /// How many identities a path is live under.
    paths: HashMap<u128, u32>,
    /// Identities that were deleted.
    gone: HashSet<u128>,
}

/// A file's place in the table, whatever its level.
fn place_of(entry: &ManifestEntry) -> u128 {
    match &entry.file.external_path {
        Some(path) => digest(path),
        None => digest(&(entry.partition.bytes(), entry.bucket, &entry.file.file_name)),
    }
}

impl Check<'_> {
    /// One line in one round.
    pub(super) async fn replay(
        &mut self,
        line: &Line,
        places: &Places,
        share: Share,
    ) -> Result<()> {
        let mut live = Live::default();
        let mut before: Option<&Version> = None;
        for version in &line.snapshots {
            self.unread = false;
            if before.is_none_or(|b| b.id.next() != version.id) {
                live = Live::default();
                let base = self.manifest_names(version, true, false).await?;
                let delta = self.manifest_names(version, false, true).await?;
                // What it deletes itself was live before it alone, and may be gone with that.
                let gone = self.deleted_in(&delta, share).await?;
                self.fold(line, version, &base, places, share, Some((&mut live, gone)))
                    .await?;
            }
            let delta = self.manifest_names(version, false, true).await?;
            self.changes(line, version, &delta, places, share, &mut live)
                .await?;
            self.changelog(line, version, places, share).await?;
            // Damaged, or expired meanwhile: what comes after it is looked at anew.
            before = (!self.unread).then_some(version);
        }
        let tags = line.tags.iter();
        for tag in tags.filter(|tag| !line.snapshots.iter().any(|s| s.same_lists(tag))) {
            let whole = self.manifest_names(tag, true, true).await?;
            self.fold(line, tag, &whole, places, share, None).await?;
            self.changelog(line, tag, places, share).await?;
        }
        for version in &line.changelogs {
            self.changelog(line, version, places, share).await?;
            if version.changelog.is_none() {
                // The changes themselves are the changelog.
                let delta = self.manifest_names(version, false, true).await?;
                self.added(line, version, &delta, places, share).await?;
            }
        }
        Ok(())
    }

    /// Manifests of base and delta; none where a list cannot be read, which was told before.
    async fn manifest_names(
        &mut self,
        version: &Version,
        base: bool,
        delta: bool,
    ) -> Result<Vec<String>> {
        let lists = [(base, &version.base), (delta, &version.delta)];
        let mut names = Vec::new();
        for (_, list) in lists.into_iter().filter(|(wanted, _)| *wanted) {
            names.extend(self.names_in(list).await?);
        }
        Ok(names)
    }

    async fn changelog(
        &mut self,
        line: &Line,
        version: &Version,
        places: &Places,
        share: Share,
    ) -> Result<()> {
        let Some(list) = &version.changelog else {
            return Ok(());
        };
        let names = self.names_in(list).await?;
        self.added(line, version, &names, places, share).await
    }

    /// Files that manifests add are there, whatever became of them later.
    async fn added(
        &mut self,
        line: &Line,
        version: &Version,
        manifests: &[String],
        places: &Places,
        share: Share,
    ) -> Result<()> {
        for name in manifests {
            for entry in self.entries_of(name).await? {
                if entry.kind == EntryKind::Add && share.has(&entry.file.file_name) {
                    self.live_file(line, version, entry, places).await?;
                }
            }
        }
        Ok(())
    }

    /// Identities that manifests delete.
    async fn deleted_in(&mut self, manifests: &[String], share: Share) -> Result<HashSet<u128>> {
        let mut deleted = HashSet::new();
        for name in manifests {
            if self
                .manifests
                .get(name)
                .is_none_or(|summary| summary.deletes)
            {
                let entries = self.entries_of(name).await?;
                let deletes = entries.iter().filter(|e| e.kind == EntryKind::Delete);
                let ours = deletes.filter(|e| share.has(&e.file.file_name));
                deleted.extend(ours.map(identity));
            }
        }
        Ok(deleted)
    }

    /// All manifests of a version at once: a DELETE may stand before or after its ADD. With the first
    /// version of a line come what is live from it on, and what it deletes itself.
    async fn fold(
        &mut self,
        line: &Line,
        version: &Version,
        manifests: &[String],
        places: &Places,
        share: Share,
        first: Option<(&mut Live, HashSet<u128>)>,
    ) -> Result<()> {
        let deleted = self.deleted_in(manifests, share).await?;
        let mut own = Live::default();
        let (live, gone) = match first {
            Some((live, gone)) => (live, gone),
            None => (&mut own, HashSet::new()),
        };
        for name in manifests {
            for entry in self.entries_of(name).await? {
                if entry.kind == EntryKind::Delete || !share.has(&entry.file.file_name) {
                    continue;
                }
                let id = identity(&entry);
                if deleted.contains(&id) {
                    continue;
                }
                let doubled = live.add(&entry, id);
                if doubled || live.paths.get(&place_of(&entry)).is_some_and(|n| *n > 1) {
                    let what =
                        format!("holds {} twice: its rows are doubled", entry.file.file_name);
                    self.report
                        .through(&version.path, Kind::Doubled, &version.path, what);
                }
                if !gone.contains(&id) {
                    self.live_file(line, version, entry, places).await?;
                }
            }
        }
        live.gone.extend(deleted);
        Ok(())
    }

    /// The changes of one snapshot, in their order.
    async fn changes(
        &mut self,
        line: &Line,
        version: &Version,
        manifests: &[String],
        places: &Places,
        share: Share,
        live: &mut Live,
    ) -> Result<()> {
        let deleted = self.deleted_in(manifests, share).await?;
        let mut suspects: Vec<(u128, String)> = Vec::new();
        for manifest in manifests {
            for entry in self.entries_of(manifest).await? {
                if !share.has(&entry.file.file_name) {
                    continue;
                }
                let (id, name) = (identity(&entry), entry.file.file_name.clone());
                let wrong = match entry.kind {
                    EntryKind::Add if live.gone.contains(&id) => Some((
                        Kind::Doubled,
                        format!("adds {name} again, which was deleted before"),
                    )),
                    EntryKind::Add if live.files.contains(&id) => Some((
                        Kind::Doubled,
                        format!("adds {name}, which is live already: its rows are doubled"),
                    )),
                    EntryKind::Delete if !live.files.contains(&id) => {
                        Some((Kind::Stray, format!("deletes {name}, which is not live")))
                    }
                    _ => None,
                };
                if let Some((kind, what)) = wrong {
                    self.report
                        .through(&version.path, kind, &version.path, what);
                }
                match entry.kind {
                    EntryKind::Add => {
                        if !live.add(&entry, id) {
                            let place = place_of(&entry);
                            if live.paths.get(&place).is_some_and(|n| *n > 1) {
                                suspects.push((place, name));
                            }
                        }
                        if !deleted.contains(&id) {
                            self.live_file(line, version, entry, places).await?;
                        }
                    }
                    EntryKind::Delete => live.delete(&entry, id),
                }
            }
        }
        // An upgrade deletes a file at one level and adds it at another, in any order.
        for (place, name) in suspects {
            if live.paths.get(&place).is_some_and(|n| *n > 1) {
                let what =
                    format!("adds {name}, which is live at another level: its rows are doubled");
                self.report
                    .through(&version.path, Kind::Doubled, &version.path, what);
            }
        }
        Ok(())
    }

    /// A file that is live in a version: looked at where no version before led to it.
    async fn live_file(
        &mut self,
        line: &Line,
        version: &Version,
        entry: ManifestEntry,
        places: &Places,
    ) -> Result<()> {
        let split = match Split::new(entry, places) {
            Ok(split) => split,
            Err(e) => {
                let what = e.to_string();
                self.report
                    .through(&version.path, Kind::Unreadable, &version.path, what);
                return Ok(());
            }
        };
        if !self.seen.insert(digest(split.path.as_str())) {
            return Ok(());
        }
        let dir = split.path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let reason = format!("{} holds it", version.path);
        for extra in &split.file.extra_files {
            let path = tidegate_model::layout::join([dir, extra]);
            if stem(extra) == stem(&split.file.file_name) {
                self.seen.insert(digest(path.as_str()));
            }
            if !split.is_outside() {
                self.there(Some(&version.path), &reason, &path).await?;
            }
        }
        self.data_file(line, version, &split).await
    }
}

impl Live {
    /// True where it was live before.
    fn add(&mut self, entry: &ManifestEntry, id: u128) -> bool {
        let doubled = !self.files.insert(id);
        if !doubled {
            *self.paths.entry(place_of(entry)).or_default() += 1;
        }
        doubled
    }

    fn delete(&mut self, entry: &ManifestEntry, id: u128) {
        if self.files.remove(&id)
            && let Some(count) = self.paths.get_mut(&place_of(entry))
        {
            *count = count.saturating_sub(1);
        }
        self.gone.insert(id);
    }
}
