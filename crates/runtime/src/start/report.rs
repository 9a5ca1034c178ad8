//! What a start tells of a mismatch.
//!
//! Owns: putting the report together. Does not own: whether there is one, nor its words.

use tidegate_recovery::CheckpointRecord;
use tidegate_sink::{Committer, Resolution};

use super::Found;
use crate::job::Parts;
use crate::mismatch::{MismatchReport, Why};

/// Without the ways out.
pub(super) fn bare_report(parts: &Parts, found: &Found, why: Why) -> MismatchReport {
    let newest = found.status.newest();
    MismatchReport {
        job: parts.job.clone(),
        target: parts.target.name(),
        why,
        checkpoint: found.record.as_ref().map(|record| record.id),
        looked_in: parts.checkpoints.url().to_owned(),
        registered: newest.map(|run| run.registration.checkpoints.clone()),
        ways: Vec::new(),
    }
}

/// With what each way out would do.
pub(super) async fn report(
    parts: &Parts,
    found: &Found,
    why: Why,
    committer: &mut dyn Committer,
) -> MismatchReport {
    let mut report = bare_report(parts, found, why);
    let saved = found
        .record
        .as_ref()
        .map(CheckpointRecord::saved)
        .unwrap_or_default();
    for way in [
        Resolution::RollbackTable {
            including_others: false,
        },
        Resolution::ContinueFromTable,
        Resolution::AcceptDuplicates,
    ] {
        let plan = committer.resolve(&saved, way, true).await;
        report
            .ways
            .push((way, plan.map_err(|error| error.to_string())));
    }
    report
}
