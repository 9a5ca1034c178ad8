//! Hints, which point into a table from outside its snapshots.

use tidegate_format::hint;
use tidegate_model::{SnapshotId, layout};

use super::Check;
use super::finding::Kind;
use super::versions::Line;
use crate::error::Result;

impl Check<'_> {
    /// A hint that lags costs a reader time; one that leads beyond the end sends Java, which trusts a
    /// hint whose successor is absent, to a snapshot that is not there \[C-51a].
    pub(super) async fn pointers(&mut self, line: &Line) -> Result<()> {
        let branch = line.branch.as_deref();
        let (latest, earliest) = (
            Line::path(branch, layout::LATEST_PATH),
            Line::path(branch, layout::EARLIEST_PATH),
        );
        if let (Some(hinted), Some(newest)) = (self.hint(&latest).await?, line.snapshots.last())
            && hinted > newest.id
        {
            let newer = Line::path(branch, &layout::snapshot_path(hinted));
            // It may have come since the snapshots were read.
            if self.store().head(&newer).await?.is_none() {
                let what = format!(
                    "names snapshot {hinted}, the newest is {}: other readers fail on it; remove it",
                    newest.id
                );
                self.report.error(Kind::Hint, &latest, what);
            }
        }
        if let (Some(hinted), Some(oldest)) = (self.hint(&earliest).await?, line.snapshots.first())
            && hinted > oldest.id
        {
            let first = Line::path(branch, &layout::snapshot_path(oldest.id));
            if self.store().head(&first).await?.is_some() {
                let what = format!("names snapshot {hinted}, but {} is there", oldest.id);
                self.report.warn(Kind::Hint, &earliest, what);
            }
        }
        Ok(())
    }

    async fn hint(&self, path: &str) -> Result<Option<SnapshotId>> {
        // A torn hint is as good as none.
        let bytes = self.store().get_opt(path).await?;
        Ok(bytes.and_then(|bytes| hint::decode(&bytes).ok()))
    }
}
