//! Which commit of a job carries what: receipts for source offsets.

use tidegate_commit::{ActiveAt, Marks};
use tidegate_model::{EntryKind, Snapshot};
use tidegate_scan::{manifest, manifest_list};
use tidegate_sink::Positions;

use crate::error::Result;
use crate::table::Table;

/// A commit of a job of ours, as its snapshot tells.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What it says of itself.
    pub marks: Marks,
    /// Where the sources stood; `None` where the engine keeps that for itself.
    pub positions: Option<Positions>,
    /// Data files that it added.
    pub files: Vec<String>,
}

/// All commits of our jobs that are still there, oldest first.
///
/// # Errors
/// Faults of the store, unreadable metadata.
pub async fn commits(table: &Table) -> Result<Vec<Commit>> {
    let mut commits = Vec::new();
    for snapshot in table.snapshots().await? {
        let Some(marks) = Marks::of(&snapshot)? else {
            continue;
        };
        let positions = match &marks.positions {
            None => None,
            Some(p) => {
                let active = match &p.active {
                    ActiveAt::Inline(bytes) => bytes.clone(),
                    ActiveAt::Object(name) => table.store().get(name).await?.to_vec(),
                };
                let finished = match &p.finished_at {
                    Some(name) => table.store().get(name).await?.to_vec(),
                    None => Vec::new(),
                };
                Some(Positions { active, finished })
            }
        };
        let mut files = Vec::new();
        for meta in manifest_list(table.store(), &snapshot.delta_manifest_list).await? {
            let added = manifest(table.store(), &meta).await?;
            files.extend(
                added
                    .into_iter()
                    .filter(|e| e.kind == EntryKind::Add)
                    .map(|e| e.file.file_name),
            );
        }
        commits.push(Commit {
            snapshot,
            marks,
            positions,
            files,
        });
    }
    Ok(commits)
}
