//! What points into a table from outside its snapshots: hints and the notes of jobs.

use tidegate_format::hint;
use tidegate_model::{Snapshot, SnapshotId, layout};

use super::Check;
use crate::error::Result;

impl Check<'_> {
    /// A hint that lags costs a reader time; one that leads beyond the end sends Java, which trusts a
    /// hint whose successor is absent, to a snapshot that is not there \[C-51a].
    pub(super) async fn pointers(&mut self, snapshots: &[Snapshot]) -> Result<()> {
        if let (Some(hinted), Some(newest)) =
            (self.hint(layout::LATEST_PATH).await?, snapshots.last())
            && hinted > newest.id
        {
            self.report.error(
                layout::LATEST_PATH,
                format!(
                    "names snapshot {hinted}, the newest is {}: other readers fail on it; remove it",
                    newest.id
                ),
            );
        }
        if let (Some(hinted), Some(oldest)) =
            (self.hint(layout::EARLIEST_PATH).await?, snapshots.first())
            && hinted > oldest.id
        {
            self.report.warn(
                layout::EARLIEST_PATH,
                format!("names snapshot {hinted}, but {} is there", oldest.id),
            );
        }
        for object in self.table.store().list(layout::JOBS_DIR).await? {
            if !object.path.ends_with("/published") {
                continue;
            }
            let Some(bytes) = self.table.store().get_opt(&object.path).await? else {
                continue;
            };
            if let Err(e) = tidegate_commit::Note::decode(&object.path, &bytes) {
                self.report.error(&object.path, e.to_string());
            }
        }
        Ok(())
    }

    async fn hint(&self, path: &str) -> Result<Option<SnapshotId>> {
        // A torn hint is as good as none.
        let bytes = self.table.store().get_opt(path).await?;
        Ok(bytes.and_then(|bytes| hint::decode(&bytes).ok()))
    }
}
