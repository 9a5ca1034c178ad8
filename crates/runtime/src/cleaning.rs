//! Removing what earlier runs of a job left behind \[R-13].
//!
//! Owns: gathering what a retained record may still publish, letting registrations go once their runs'
//! files are gone, and what a fenced run does about its own. Does not own: whether the own run may clean
//! yet, nor what is garbage, which the target decides.

use arrow::array::RecordBatch;
use tidegate_recovery::{Registry, run_prefix};
use tidegate_sink::{Committable, Epoch, ErrorKind, Run, RunPrefix, Target};

use crate::error::RuntimeError;
use crate::job::Parts;

/// The committables of all retained records, listed now: a run that was replaced may have recorded beside
/// the one that cleans. `None` where they cannot be listed or one cannot be read, since what it holds may be
/// needed; one that retention has removed since holds nothing.
pub(crate) async fn recorded(parts: &Parts, run: &Run) -> Option<Vec<Committable>> {
    let mut records = parts.checkpoints.job(&run.job, &run.user);
    if let Err(error) = records.load().await {
        tracing::warn!(%error, "what earlier runs left is not removed: it may be needed");
        return None;
    }
    let mut pending = Vec::new();
    for listed in records.list() {
        match records.read(listed.id).await {
            Ok(record) => pending.extend(record.committables),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
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
                && let Err(error) = registry.forget(run, earlier).await
            {
                tracing::warn!(%error, "old registrations stay");
            }
        }
        Err(error) => tracing::warn!(%error, "left-overs of earlier runs stay for now"),
    }
}

/// Removes what the fenced run of this epoch has left, as the run that fenced it would: that one may have
/// looked for left-overs, and forgotten this run, before this one, out of a long pause, wrote them. Where
/// nothing of a newer run is visible yet, one is still to look, and nothing is done.
pub(crate) async fn after_a_fence(parts: &Parts, epoch: Epoch) {
    match visible_successor(parts, epoch).await {
        Ok(Some(newer)) => {
            let own = run_prefix(&newer.user, epoch);
            if let Some(pending) = recorded(parts, &newer).await {
                let target = parts.target.as_ref();
                clean(target, &parts.registry, &newer, &[own], &pending).await;
            }
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "what this run has left stays for a later one"),
    }
}

/// The newest run that has something visible, where that is newer than this one.
async fn visible_successor(parts: &Parts, epoch: Epoch) -> Result<Option<Run>, RuntimeError> {
    let status = parts.registry.job(&parts.job).await?;
    let Some(user) = status.user() else {
        return Ok(None);
    };
    let looking = Run {
        job: parts.job.clone(),
        prefix: run_prefix(&user, epoch),
        user,
        epoch,
        restored: None,
    };
    let doing = |source| parts.target_error("looking at", source);
    let mut committer = parts.target.committer(&looking).await.map_err(doing)?;
    let history = committer.history().await.map_err(doing)?;
    let newer = history.newest_epoch.filter(|newest| *newest > epoch);
    Ok(newer.map(|newer| Run {
        epoch: newer,
        prefix: run_prefix(&looking.user, newer),
        ..looking
    }))
}
