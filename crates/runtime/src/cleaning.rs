//! Removing what earlier runs of a job left behind \[R-13].
//!
//! Owns: gathering what a retained record may still publish, and letting registrations go once their
//! runs' files are gone. Does not own: whether the own run may clean yet, nor what is garbage, which
//! the target decides.

use arrow::array::RecordBatch;
use tidegate_recovery::{JobCheckpoints, Registry};
use tidegate_sink::{Committable, Run, RunPrefix, Target};

/// The committables of all retained records; `None` where one cannot be read, since what it holds may
/// be needed.
pub(crate) async fn recorded(records: &JobCheckpoints) -> Option<Vec<Committable>> {
    let mut pending = Vec::new();
    for listed in records.list() {
        match records.read(listed.id).await {
            Ok(record) => pending.extend(record.committables),
            Err(error) => {
                tracing::warn!(%error, "what earlier runs left is not removed: it may be needed");
                return None;
            }
        }
    }
    Some(pending)
}

/// Removes files of earlier runs; what fails stays for a later run.
pub(crate) async fn clean(
    target: &dyn Target<Batch = RecordBatch>,
    registry: &Registry,
    run: &Run,
    earlier: &[RunPrefix],
    pending: &[Committable],
) {
    match target.clean(run, earlier, pending).await {
        Ok(report) => {
            tracing::info!(removed = report.removed, kept = report.kept, "cleaned");
            // With something kept, a later run must still know the prefix.
            if report.kept == 0
                && let Err(error) = registry.forget_before(&run.job, run.epoch).await
            {
                tracing::warn!(%error, "old registrations stay");
            }
        }
        Err(error) => tracing::warn!(%error, "left-overs of earlier runs stay for now"),
    }
}
