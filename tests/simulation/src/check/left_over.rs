//! What is left at the end that nobody needs (C6).

use std::collections::HashSet;

use tidegate_commit::Note;
use tidegate_model::layout;

use super::{Checker, Judged};
use crate::gate::CHECKPOINTS;
use crate::saved::{self, job_of_record};

impl Checker {
    /// Objects of the table that nothing visible needs and that are no registrations, notes or schemas.
    pub(crate) async fn left_over(&self) -> Judged<Vec<String>> {
        let listed = self.table.list("").await.map_err(|e| e.to_string())?;
        let free = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            let registered = ["epoch-", "ended-", "published"];
            path.starts_with("schema/")
                || path.starts_with("snapshot/")
                || path.contains("foreign")
                || path.starts_with("tidegate/") && registered.iter().any(|r| name.starts_with(r))
                // Named by a snapshot that is expired, or by a note that a way out has made another one: the
                // next clean-up finds it.
                || (self.disturbed.expiry || self.disturbed.rewound)
                    && layout::side_object_epoch(name).is_some()
        };
        let mut noted = HashSet::new();
        for path in listed
            .iter()
            .map(|meta| &meta.path)
            .filter(|p| p.ends_with("/published"))
        {
            let bytes = self.table.get(path).await.map_err(|e| e.to_string())?;
            let note = Note::decode(path, &bytes).map_err(|e| e.to_string())?;
            if let Some(positions) = note.positions {
                noted.extend(positions.finished_at);
            }
        }
        noted.extend(self.recorded_files().await?);
        let needed = |path: &str| {
            noted.contains(path)
                || self.expired.contains(path)
                || self.visible.values().any(|seen| seen.needs.contains(path))
        };
        Ok(listed
            .into_iter()
            .map(|meta| meta.path)
            .filter(|path| !free(path) && !needed(path))
            .collect())
    }

    /// What the committables of retained records name: a person may go back to each of them \[R-13].
    async fn recorded_files(&self) -> Judged<Vec<String>> {
        let listed = self.store.list(CHECKPOINTS).await;
        let mut files = Vec::new();
        for meta in listed.map_err(|e| e.to_string())? {
            if job_of_record(&meta.path).is_some() {
                let bytes = self.store.get(&meta.path).await;
                let bytes = bytes.map_err(|e| e.to_string())?;
                files.extend(saved::files_of(&meta.path, &bytes)?.1);
            }
        }
        Ok(files)
    }
}
