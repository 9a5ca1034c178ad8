//! Which versions a table has: snapshots, tags and long-lived changelogs, of itself and of its branches.
//!
//! Owns reading these files. What is kept of a version is what it refers to and what it counts: a table
//! may have a hundred thousand snapshots with kilobytes of properties each.

use futures::{StreamExt, TryStreamExt};
use tidegate_commit::{Marks, Visible};
use tidegate_format as format;
use tidegate_model::snapshot::ListRef;
use tidegate_model::{SchemaId, Snapshot, SnapshotId, layout};

use super::finding::Kind;
use super::jobs::History;
use super::{Check, Part};
use crate::error::{Error, Result};

/// Version files read at the same time.
const AT_ONCE: usize = 16;

/// What a version refers to and counts.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// Its file.
    pub(super) path: String,
    pub(super) id: SnapshotId,
    pub(super) schema: SchemaId,
    pub(super) base: ListRef,
    pub(super) delta: ListRef,
    pub(super) changelog: Option<ListRef>,
    pub(super) index: Option<String>,
    pub(super) statistics: Option<String>,
    pub(super) total_rows: Option<i64>,
    pub(super) delta_rows: Option<i64>,
    pub(super) changelog_rows: Option<i64>,
}

impl Version {
    fn new(path: String, snapshot: &Snapshot) -> Self {
        Self {
            path,
            id: snapshot.id,
            schema: snapshot.schema_id,
            base: snapshot.base_manifest_list.clone(),
            delta: snapshot.delta_manifest_list.clone(),
            changelog: snapshot.changelog_manifest_list.clone(),
            index: snapshot.index_manifest.clone(),
            statistics: snapshot.statistics.clone(),
            total_rows: snapshot.total_record_count,
            delta_rows: snapshot.delta_record_count,
            changelog_rows: snapshot.changelog_record_count,
        }
    }

    /// Whether both refer to the same lists: a tag of a snapshot that is still there, a branch's copy.
    pub(super) fn same_lists(&self, other: &Self) -> bool {
        self.id == other.id && self.base == other.base && self.delta == other.delta
    }
}

/// A table's own versions, or those of one of its branches.
#[derive(Debug)]
pub(super) struct Line {
    /// `None` for the table itself.
    pub(super) branch: Option<String>,
    /// By id.
    pub(super) snapshots: Vec<Version>,
    pub(super) tags: Vec<Version>,
    pub(super) changelogs: Vec<Version>,
}

impl Line {
    /// A path of this line.
    pub(super) fn path(branch: Option<&str>, path: &str) -> String {
        match branch {
            Some(branch) => layout::in_branch(branch, path),
            None => path.to_owned(),
        }
    }
}

impl Check<'_> {
    /// All lines, the table's own first.
    pub(super) async fn lines(&mut self) -> Result<Vec<Line>> {
        let mut branches = vec![None];
        let entries = self.store().list_names(layout::BRANCH_DIR).await?;
        let names = entries.iter().filter(|e| e.is_dir);
        let names = names.filter_map(|e| layout::branch_name(&e.name));
        branches.extend(names.map(|name| Some(name.to_owned())));
        self.report.branches = branches.len() as u64 - 1;
        let mut lines = Vec::new();
        for branch in branches {
            lines.push(self.line(branch).await?);
        }
        Ok(lines)
    }

    async fn line(&mut self, branch: Option<String>) -> Result<Line> {
        let mut line = Line {
            branch,
            snapshots: Vec::new(),
            tags: Vec::new(),
            changelogs: Vec::new(),
        };
        self.snapshots(&mut line).await?;
        let branch = line.branch.as_deref();
        let dir = Line::path(branch, layout::TAG_DIR);
        for entry in self.store().list_names(&dir).await? {
            if layout::tag_name(&entry.name).is_some() {
                let path = layout::join([dir.as_str(), &entry.name]);
                let tag = self.version(path, |bytes| Ok(format::tag::decode(bytes)?.snapshot));
                line.tags.extend(tag.await?);
            }
        }
        let dir = Line::path(branch, layout::CHANGELOG_DIR);
        for entry in self.store().list_names(&dir).await? {
            if layout::changelog_id(&entry.name).is_some() {
                let path = layout::join([dir.as_str(), &entry.name]);
                let changelog = self.version(path, format::snapshot::decode);
                line.changelogs.extend(changelog.await?);
            }
        }
        self.report.tags += (line.tags.len() + line.changelogs.len()) as u64;
        Ok(line)
    }

    /// A tag or changelog; `None` where it is gone meanwhile or cannot be read.
    async fn version(
        &mut self,
        path: String,
        decode: impl Fn(&[u8]) -> format::Result<Snapshot>,
    ) -> Result<Option<Version>> {
        let Some(bytes) = self.store().get_opt(&path).await? else {
            return Ok(None);
        };
        match decode(&bytes) {
            Ok(snapshot) => {
                self.known(&path);
                Ok(Some(Version::new(path, &snapshot)))
            }
            Err(e) => {
                self.known(&path);
                self.report.error(Kind::Unreadable, &path, e.to_string());
                Ok(None)
            }
        }
    }

    /// The snapshots of a line, and with each what it says of the job that made it.
    async fn snapshots(&mut self, line: &mut Line) -> Result<()> {
        let branch = line.branch.clone();
        let dir = Line::path(branch.as_deref(), layout::SNAPSHOT_DIR);
        let entries = self.store().list_names(&dir).await?;
        let mut ids: Vec<SnapshotId> = entries
            .iter()
            .filter_map(|e| layout::snapshot_id(&e.name))
            .collect();
        ids.sort_unstable();
        let store = self.store().clone();
        let found = futures::stream::iter(ids)
            .map(|id| {
                let path = Line::path(branch.as_deref(), &layout::snapshot_path(id));
                let store = store.clone();
                async move {
                    let bytes = store.get_opt(&path).await?;
                    Ok::<_, Error>((id, path, bytes))
                }
            })
            .buffered(AT_ONCE);
        let mut found = std::pin::pin!(found);
        let mut history = History::default();
        let mut skipped = false;
        while let Some((id, path, bytes)) = found.try_next().await? {
            // Expired since it was listed.
            let Some(bytes) = bytes else { continue };
            self.known(&path);
            self.report.snapshots += 1;
            let snapshot = match format::snapshot::decode(&bytes) {
                Ok(snapshot) if snapshot.id == id => Ok(snapshot),
                Ok(snapshot) => Err(format!("says that it is snapshot {}", snapshot.id)),
                Err(e) => Err(e.to_string()),
            };
            let snapshot = match snapshot {
                Ok(snapshot) => snapshot,
                Err(why) => {
                    self.report.error(Kind::Unreadable, &path, why);
                    history.cut();
                    skipped = true;
                    continue;
                }
            };
            if let Some(before) = line.snapshots.last()
                && before.id.next() != id
                && !skipped
            {
                let what = format!("follows snapshot-{}: ids have a hole", before.id);
                self.report.error(Kind::Hole, &path, what);
                history.cut();
            }
            skipped = false;
            let visible = Visible::new(snapshot, bytes);
            let marks = match Marks::of(&visible.snapshot) {
                Ok(marks) => marks,
                Err(e) => {
                    self.report.error(Kind::Unreadable, &path, e.to_string());
                    None
                }
            };
            let part = match line.branch {
                None => Part::Table,
                Some(_) => Part::Branch,
            };
            self.job_of(part, &path, &visible, marks, &mut history)
                .await?;
            line.snapshots.push(Version::new(path, &visible.snapshot));
        }
        Ok(())
    }
}
