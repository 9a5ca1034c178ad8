//! What other runs of the job do and have done, as a start meets it.
//!
//! Owns: whether one goes on under the start's eyes, which records and files others left. Does not own:
//! the order of a start, nor what is garbage.

use std::collections::BTreeSet;

use tidegate_recovery::{CheckpointRecord, EndKind, JobStatus, RunStatus, run_prefix};
use tidegate_sink::{Committer, Epoch, JobName, Mismatch, Run, RunPrefix, Standing};

use super::{Found, Ways, looking_run};
use crate::cleaning;
use crate::error::RuntimeError;
use crate::job::Parts;

/// Whether the job went on since it was looked at: another record, be it a smaller one of a run that was
/// replaced, or another run.
pub(super) async fn went_on(
    parts: &Parts,
    found: &Found,
    own: Option<Epoch>,
) -> Result<bool, RuntimeError> {
    let mut records = parts.checkpoints.job(&parts.job, &found.user);
    records.load().await?;
    if records.list() != found.records.list() {
        return Ok(true);
    }
    let known = found.status.newest().map(|run| run.registration.epoch());
    let status = parts.registry.job(&parts.job).await?;
    let newest = status.newest().map(|run| run.registration.epoch());
    Ok(newest != own.or(known))
}

/// True where killed runs left files that only a run of its own may remove \[R-13]. Where the newest run
/// published everything and was killed before it had removed what runs before it left, that is done
/// here for it: its own epoch fences them.
pub(super) async fn left_behind(
    parts: &Parts,
    found: &Found,
    committer: &mut dyn Committer,
) -> bool {
    let newest = looking_run(parts, found);
    let earlier = found.status.earlier(newest.epoch);
    // A run that ended well has left nothing of its own; one that was killed may have, the first one too.
    let ended_well = |run: &RunStatus| {
        let end = run.ended.as_ref().map(|ended| &ended.how);
        matches!(end, Some(EndKind::Finished | EndKind::Stopped))
    };
    if earlier.is_empty() && found.status.newest().is_none_or(ended_well) {
        return false;
    }
    let Some(pending) = cleaning::recorded(parts, &newest).await else {
        return false;
    };
    let recorded = found.record.as_ref().map(|record| record.epoch) == Some(newest.epoch);
    if recorded {
        let history = committer.history().await;
        if history.is_ok_and(|history| history.newest_epoch == Some(newest.epoch)) {
            let (target, registry) = (parts.target.as_ref(), &parts.registry);
            cleaning::clean(target, registry, &newest, &earlier, &pending).await;
        }
    }
    let epoch = Epoch(newest.epoch.0 + 1);
    let next = Run {
        epoch,
        prefix: run_prefix(&newest.user, epoch),
        ..newest
    };
    let all = found.status.earlier(epoch);
    match parts.target.leftovers(&next, &all, &pending).await {
        Ok(files) => files > 0,
        Err(error) => {
            tracing::warn!(%error, "left-overs of earlier runs are not looked for");
            false
        }
    }
}

/// Prefixes of every earlier run, those under an adopted name included \[R-13].
pub(super) async fn earlier(
    parts: &Parts,
    status: &JobStatus,
    ways: &Ways,
    run: &Run,
) -> Result<Vec<RunPrefix>, RuntimeError> {
    let mut earlier = status.earlier(run.epoch);
    let registered = status
        .runs
        .iter()
        .filter_map(|r| r.registration.adopted_from.clone());
    let mut names: BTreeSet<_> = registered
        .filter_map(|name| JobName::new(name).ok())
        .collect();
    names.extend(ways.adopt.clone());
    for name in names {
        earlier.extend(parts.registry.job(&name).await?.earlier(run.epoch));
    }
    Ok(earlier)
}

/// Two runs may record under one commit user for a while: a run that slept after it had made sure that it
/// is the newest records its checkpoint beside those of the run that took its place. One of them publishes
/// first and fences the other \[R-5], whose records stay, perhaps as the newest. So where the target has
/// other commits than the newest record, a record of another run that knows all of them is where the job
/// stands: whatever else was recorded was never published, and its rows are read again. `None` where
/// there is none, and where commits are missing: that is no race.
pub(super) async fn of_other_run(
    found: &Found,
    mismatch: &Mismatch,
    committer: &mut dyn Committer,
    parts: &Parts,
) -> Result<Option<CheckpointRecord>, RuntimeError> {
    let (Some(newest), Mismatch::Diverged { .. } | Mismatch::AheadBeyond { .. }) =
        (&found.record, mismatch)
    else {
        return Ok(None);
    };
    for listed in found.records.list().into_iter().rev() {
        if listed.id == newest.id {
            continue;
        }
        let record = found.records.read(listed.id).await?;
        if record.epoch == newest.epoch || !record.is_complete() {
            continue;
        }
        let standing = committer.standing(&record.saved()).await;
        let standing = standing.map_err(|e| parts.target_error("looking at", e))?;
        if matches!(standing, Standing::Equal | Standing::AheadByPrefix(_)) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
