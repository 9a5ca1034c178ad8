//! Files under the table that nothing refers to.
//!
//! They harm no reader. They cost room, and who they are of says whether something goes wrong again and
//! again. Each is a note with its age and a guess who left it, never more: a living writer's files are not
//! referred to before its next commit.

use std::collections::{BTreeMap, HashSet};

use tidegate_model::{SnapshotId, layout};
use tidegate_storage::ObjectMeta;

use super::Check;
use super::digest::digest;
use super::finding::{Finding, Kind, Severity, UnknownFile};
use super::identities::Share;
use super::origin::Origin;
use super::versions::Line;
use crate::error::Result;

/// Unknown files of one round that are held until it is known whether a newer snapshot refers to them;
/// more are told without that.
const HELD: usize = 100_000;

impl Check<'_> {
    /// Those whose names are in the share, after everything that refers to files was read.
    pub(super) async fn unknown_files(&mut self, lines: &[Line], share: Share) -> Result<()> {
        let mut found: BTreeMap<String, ObjectMeta> = BTreeMap::new();
        let mut beyond = Vec::new();
        {
            let Self {
                seen,
                referred,
                strange_companions,
                table,
                ..
            } = &*self;
            let each = |meta: ObjectMeta| {
                let name = meta.path.rsplit('/').next().unwrap_or_default();
                if !share.has(name) || is_root(&meta.path) {
                    return;
                }
                let place = digest(meta.path.as_str());
                if seen.contains(&place)
                    || referred.contains(&place)
                    || strange_companions.contains(&digest(name))
                {
                    return;
                }
                match found.len() < HELD {
                    true => drop(found.insert(meta.path.clone(), meta)),
                    false => beyond.push(meta.size),
                }
            };
            table.store().list_each("", each).await?;
        }
        if !found.is_empty() {
            self.came_meanwhile(lines, &mut found).await?;
        }
        for meta in found.into_values() {
            let origin = self.origins.origin(&meta.path, meta.size);
            self.unknown(&meta.path, meta.size, Some(meta.modified), origin);
        }
        if !beyond.is_empty() {
            self.report.unknown.0 += beyond.len() as u64;
            self.report.unknown.1 += beyond.iter().sum::<u64>();
            self.report.left_out += beyond.len() as u64;
        }
        Ok(())
    }

    /// Strikes out what snapshots refer to that came after the others were read.
    async fn came_meanwhile(
        &mut self,
        lines: &[Line],
        found: &mut BTreeMap<String, ObjectMeta>,
    ) -> Result<()> {
        let entries = self.store().list_names(layout::SNAPSHOT_DIR).await?;
        let newest = lines.first().and_then(|line| line.snapshots.last());
        let newest = newest.map_or(SnapshotId(0), |version| version.id);
        let ids = entries.iter().filter_map(|e| layout::snapshot_id(&e.name));
        let mut names: HashSet<String> = HashSet::new();
        for id in ids.filter(|id| *id > newest) {
            let Some(snapshot) = tidegate_commit::snapshot(self.store(), id).await? else {
                continue;
            };
            let snapshot = snapshot.snapshot;
            names.extend(snapshot.index_manifest.clone());
            names.extend(snapshot.statistics.clone());
            // Positions of a job stand under their whole path.
            names.extend(snapshot.properties.iter().map(|(_, value)| value.clone()));
            let lists = [
                Some(&snapshot.base_manifest_list),
                Some(&snapshot.delta_manifest_list),
                snapshot.changelog_manifest_list.as_ref(),
            ];
            for list in lists.into_iter().flatten() {
                names.insert(list.name.clone());
                for manifest in self.names_in(list).await? {
                    // Manifests that were there before hold no new files.
                    if !self.manifests.contains_key(&manifest) {
                        let entries = self.entries_of(&manifest).await?;
                        for entry in entries {
                            names.extend(entry.file.extra_files);
                            names.insert(entry.file.file_name);
                        }
                    }
                    names.insert(manifest);
                }
            }
        }
        found.retain(|path, _| {
            let name = path.rsplit('/').next().unwrap_or_default();
            !names.contains(path) && !names.contains(name)
        });
        Ok(())
    }

    /// Temporary files and uploads in parts, which no listing of objects shows.
    pub(super) async fn unfinished(&mut self) -> Result<()> {
        if !self.store().capabilities().lists_unfinished {
            return Ok(());
        }
        for part in self.store().list_unfinished("").await? {
            let origin = self.origins.unfinished(&part.target, part.tag.as_deref());
            self.unknown(&part.place(), part.size, part.modified, origin);
        }
        Ok(())
    }

    fn unknown(
        &mut self,
        path: &str,
        bytes: u64,
        modified: Option<std::time::SystemTime>,
        origin: Origin,
    ) {
        self.report.push(Finding {
            severity: Severity::Note,
            kind: Kind::Unknown,
            place: path.to_owned(),
            what: origin.explanation(),
            unknown: Some(UnknownFile {
                bytes,
                modified,
                origin,
            }),
            version: None,
        });
    }
}

/// Whether an object is itself what others are referred to by, told by its path: snapshots, schemas, tags,
/// hints, consumers and what a job registers.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [dir, name] => is_version(dir, name),
        [layout::BRANCH_DIR, branch, dir, name] => {
            layout::branch_name(branch).is_some() && is_version(dir, name)
        }
        ["tidegate", "jobs", _, name] => {
            *name == "published"
                || layout::epoch_of(name).is_some()
                || layout::ended_epoch_of(name).is_some()
        }
        _ => false,
    }
}

fn is_version(dir: &str, name: &str) -> bool {
    let hint = name == "LATEST" || name == "EARLIEST";
    match dir {
        layout::SNAPSHOT_DIR => hint || layout::snapshot_id(name).is_some(),
        layout::CHANGELOG_DIR => hint || layout::changelog_id(name).is_some(),
        layout::SCHEMA_DIR => layout::schema_id(name).is_some(),
        layout::TAG_DIR => layout::tag_name(name).is_some(),
        layout::CONSUMER_DIR => layout::consumer_id(name).is_some(),
        _ => false,
    }
}
