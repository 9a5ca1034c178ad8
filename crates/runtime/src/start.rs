//! How a run begins.
//!
//! Owns the order: (1) read registration and newest record; (2) nothing new to ingest: no epoch is
//! claimed; (3) claim the epoch; (4) open the committer, compare saved state with the target,
//! publish what is missing; then writers may open on the target as it now is. Read-only up to (3),
//! but for garbage that the newest run's own record and commit prove at (2).

mod other_runs;
mod report;

use tidegate_recovery::{
    CheckpointRecord, Claim, JobCheckpoints, JobStatus, RecordKind, RecoveryError, RestoreOnly,
    RunStatus, run_prefix,
};
use tidegate_sink::{
    CheckpointId, CommitUser, Committable, Committer, Epoch, ErrorKind, JobHistory, JobName,
    Mismatch, Outcome, Positions, Published, RecoveryManager, Resolution, Restored, Run, Standing,
    Version, mutant,
};

use crate::error::{RecordTrouble, RuntimeError};
use crate::job::Parts;
use crate::mismatch::{MismatchReport, Why};
use crate::progress::Phase;
use crate::run::Begin;
use crate::settings::Settings;
use crate::source::{Boundedness, Discovery, Read, SourceState, SplitEnumerator};
use other_runs::{earlier, left_behind, of_other_run, went_on};
use report::{bare_report, report};

/// What a start came to.
pub(crate) enum Begun {
    Run(Box<Begin>),
    NothingNew,
    Mismatch(Box<MismatchReport>),
}

/// What a person asked for; each is done once.
pub(crate) struct Ways {
    on_mismatch: Option<Resolution>,
    from_checkpoint: Option<CheckpointId>,
    adopt: Option<JobName>,
}

impl Ways {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            on_mismatch: settings.on_mismatch,
            from_checkpoint: settings.from_checkpoint,
            adopt: settings.adopt.clone(),
        }
    }
}

/// What was found, before anything is claimed.
struct Found {
    status: JobStatus,
    user: CommitUser,
    /// Where new records go.
    records: JobCheckpoints,
    record: Option<CheckpointRecord>,
    /// The record is not the newest of this job, so that a record of its own must be written before
    /// anything else.
    stepped_back: bool,
}

/// Where the run stands once everything saved is settled.
struct Settled {
    positions: Positions,
    last_positions: Option<Positions>,
    published_positions: Option<Positions>,
    newest_published: Option<Published>,
    /// The newest commit of the last run, where only its files tell that it is published.
    by_files: Option<Committable>,
    /// Identifiers go on above this one.
    above: u64,
    /// A way out was taken.
    resolved: bool,
    /// Something of the last run was published under this run's epoch.
    visible: bool,
}

/// How often a start looks again where another process goes on with the job under its eyes.
const LOOKS: u32 = 5;

/// Records are read before the target, so that a process that is still there may write and publish one in
/// between: that is no mismatch for a person, but a reason to look again.
pub(crate) async fn start(
    parts: &Parts,
    ways: &mut Ways,
    first: bool,
) -> Result<Begun, RuntimeError> {
    let mut looks = 1;
    loop {
        match begin(parts, ways, first).await {
            Ok(Some(begun)) => return Ok(begun),
            Ok(None) if looks < LOOKS => {}
            Ok(None) => {
                let why = format!(
                    "another process goes on with job {}: each time that this one looked, a new \
                     checkpoint had been recorded. Stop one of them",
                    parts.job
                );
                let target = parts.target.name();
                return Err(RuntimeError::Fenced { target, why });
            }
            // Retention of a run that is still there has removed what was listed.
            Err(RuntimeError::Recovery(error))
                if error.kind() == ErrorKind::NotFound && looks < LOOKS => {}
            Err(error) => return Err(error),
        }
        looks += 1;
        tracing::info!(job = %parts.job, "went on meanwhile; looking again");
    }
}

/// `None` where the job went on meanwhile.
async fn begin(parts: &Parts, ways: &mut Ways, first: bool) -> Result<Option<Begun>, RuntimeError> {
    let mut found = find(parts, ways).await?;
    if found.record.is_none()
        && found.status.runs.is_empty()
        && ways.adopt.is_none()
        && !parts.settings.new_job
        && let Some(report) = other_job(parts, &found).await?
    {
        return Ok(Some(Begun::Mismatch(Box::new(report))));
    }
    let mut looking = open_committer(parts, &looking_run(parts, &found)).await?;
    let way = ways.on_mismatch;
    let mut looked = look(parts, &found, ways, looking.as_mut()).await?;
    if matches!(looked, Look::Mismatch(_)) && went_on(parts, &found, None).await? {
        return Ok(None);
    }
    if let Look::Mismatch(Why::Standing(mismatch)) = &looked
        && ways.from_checkpoint.is_none()
        && ways.adopt.is_none()
        && let Some(record) = of_other_run(&found, mismatch, looking.as_mut(), parts).await?
    {
        tracing::warn!(
            checkpoint = %record.id, epoch = %record.epoch,
            "the table is where this checkpoint of another run says; the newest one was never published"
        );
        found.record = Some(record);
        found.stepped_back = true;
        looked = look(parts, &found, ways, looking.as_mut()).await?;
    }
    let mut begun_on = None;
    let pending = match looked {
        // No way out on a table that is another one: what the checkpoint holds went with the old one.
        Look::Mismatch(why @ Why::Replaced { .. }) => {
            return Ok(Some(Begun::Mismatch(Box::new(bare_report(
                parts, &found, why,
            )))));
        }
        Look::Mismatch(why) if way.is_none() => {
            let report = report(parts, &found, why, looking.as_mut()).await;
            return Ok(Some(Begun::Mismatch(Box::new(report))));
        }
        Look::Mismatch(_) => true,
        Look::Fits { pending, tip } => {
            begun_on = tip;
            pending
        }
    };
    // An adoption is to be registered, or the next start would ask for it again.
    let adopting = ways.adopt.is_some() && found.status.runs.is_empty();
    let mut prepared = None;
    if !pending
        && !adopting
        && let Some(record) = &found.record
    {
        let state = decode(&record.positions, record.id)?;
        if parts.source.boundedness() == Boundedness::Bounded {
            let (enumerator, discovery) = discover(parts, &state).await?;
            // Looking into splits takes time, in which a run that is still there may go on.
            let idle = state.active.is_empty() && discovery.splits.is_empty();
            let gone = !found.status.may_be_running();
            if discovery.complete
                && (idle || gone && nothing_new(parts, &state, &discovery).await)
                && (mutant::on("left-behind-ignored")
                    || !left_behind(parts, &found, looking.as_mut()).await)
            {
                return Ok(Some(Begun::NothingNew));
            }
            prepared = Some((state, enumerator, discovery));
        }
    }

    drop(looking);

    let claim = claim(parts, &found, ways, begun_on);
    let run = parts.registry.claim(&claim).await?;
    parts.claimed(run.epoch);
    tracing::info!(job = %run.job, epoch = %run.epoch, restored = ?run.restored.map(|id| id.0), "run");
    // Until the claim an older run could still record: then that is the place to go on from.
    let mut recorded = parts.checkpoints.job(&run.job, &run.user);
    recorded.load().await?;
    if recorded.largest() != found.records.largest() {
        return Ok(None);
    }
    parts.show(|progress| progress.phase = Phase::Recovering);
    let mut committer = open_committer(parts, &run).await?;
    let settled = match settle(parts, &found, ways, &run, committer.as_mut()).await? {
        Ok(settled) => settled,
        // The target changed since it was looked at.
        Err(_) if went_on(parts, &found, Some(run.epoch)).await? => return Ok(None),
        Err(why) => {
            let report = report(parts, &found, why, committer.as_mut()).await;
            return Ok(Some(Begun::Mismatch(Box::new(report))));
        }
    };
    // As it is now: another run may have registered since the start looked, and a rollback has recalled
    // runs whose files are garbage again.
    let status = parts.registry.job(&run.job).await?;
    let earlier = earlier(parts, &status, ways, &run).await?;
    let mut records = found.records;
    let mut above = settled.above.max(records.largest().map_or(0, |id| id.0));
    if settled.resolved || found.stepped_back {
        above += 1;
        write_where_it_stands(parts, &run, &mut records, &settled, above).await?;
    }
    *ways = Ways {
        on_mismatch: None,
        from_checkpoint: None,
        adopt: None,
    };
    let checkpoint = found
        .record
        .as_ref()
        .map_or(CheckpointId(0), |record| record.id);
    let (state, enumerator, discovery) = match prepared {
        Some((state, enumerator, found)) if !settled.resolved => (state, enumerator, Some(found)),
        _ => {
            let state = decode(&settled.positions, checkpoint)?;
            let enumerator = open_enumerator(parts, &state).await?;
            (state, enumerator, None)
        }
    };
    if first && found.record.is_some() {
        tracing::info!(
            checkpoint = %checkpoint, begun = state.active.len(), finished = state.finished.len(),
            "goes on from its checkpoint"
        );
    }
    let before = |r: &&RunStatus| r.registration.epoch() < run.epoch;
    let mut before = status.runs.iter().filter(before);
    let earlier_ended = before.all(|run| run.ended.is_some());
    let begin = Begin {
        earlier,
        earlier_ended,
        run,
        committer,
        records,
        state,
        enumerator,
        found: discovery,
        above: CheckpointId(above),
        last_positions: settled.last_positions,
        published_positions: settled.published_positions,
        newest_published: settled.newest_published,
        by_files: settled.by_files,
        visible: settled.visible,
    };
    Ok(Some(Begun::Run(Box::new(begin))))
}

/// The user of the registration, else of the directory, else a new one; and its newest record.
async fn find(parts: &Parts, ways: &Ways) -> Result<Found, RuntimeError> {
    let status = parts.registry.job(&parts.job).await?;
    if let Some(newest) = status.newest()
        && let Some(by) = newest.registration.adopted_by.clone()
    {
        return Err(RecoveryError::Adopted {
            job: parts.job.to_string(),
            by,
        }
        .into());
    }
    let registered = status.user();
    if parts.settings.new_job && registered.is_some() {
        tracing::warn!(
            job = %parts.job,
            "is registered already and goes on; a new job needs another name"
        );
    }
    let mut known = match parts.settings.new_job && registered.is_none() {
        true => None,
        false => {
            parts
                .checkpoints
                .user_of(&parts.job, registered.as_ref())
                .await?
        }
    };
    // The records of the old name, as long as there are none of the new one.
    let mut reading = None;
    if let Some(old) = &ways.adopt
        && known.is_none()
    {
        let registered = parts.registry.job(old).await?.user();
        known = parts.checkpoints.user_of(old, registered.as_ref()).await?;
        let Some(user) = &known else {
            let what = format!("job {old} has no registration and no checkpoints to adopt");
            return Err(RuntimeError::Config(what));
        };
        let mut records = parts.checkpoints.job(old, user);
        records.load().await?;
        reading = Some(records);
    }
    let adopted = reading.is_some();
    let user = known.unwrap_or_else(|| parts.registry.new_commit_user());
    let mut records = parts.checkpoints.job(&parts.job, &user);
    records.load().await?;
    let reading = reading.as_ref().unwrap_or(&records);
    let (record, stepped_back) = match ways.from_checkpoint {
        Some(id) => (Some(reading.read(id).await?), reading.largest() != Some(id)),
        None => (reading.newest().await?, false),
    };
    let stepped_back = record.is_some() && (stepped_back || adopted);
    Ok(Found {
        status,
        user,
        records,
        record,
        stepped_back,
    })
}

/// A run that is never registered: it only reads.
fn looking_run(parts: &Parts, found: &Found) -> Run {
    let registered = found.status.newest().map(|run| run.registration.epoch());
    let restored = found.record.as_ref().map(|record| record.epoch);
    let epoch = registered.max(restored).unwrap_or(Epoch(0));
    Run {
        job: parts.job.clone(),
        user: found.user.clone(),
        epoch,
        prefix: run_prefix(&found.user, epoch),
        restored: found.record.as_ref().map(|record| record.id),
    }
}

/// `tip` is where the target stands, for the first run of a job.
fn claim(parts: &Parts, found: &Found, ways: &Ways, tip: Option<Version>) -> Claim {
    let begun_on = match found.status.newest() {
        Some(newest) => newest.registration.begun_on(),
        // With a record it has run before, where it was not registered.
        None => tip.filter(|_| found.record.is_none()),
    };
    Claim {
        begun_on,
        job: parts.job.clone(),
        user: found.user.clone(),
        restored: found
            .record
            .as_ref()
            .map(|record| (record.epoch, record.id)),
        checkpoints: parts.checkpoints.url().to_owned(),
        host: parts.settings.host.clone(),
        started_ms: parts.clock.now_ms(),
        source: parts.source.identity(),
        // Once the new name is registered the adoption is done.
        adopts: ways.adopt.clone().filter(|_| found.status.runs.is_empty()),
    }
}

async fn open_committer(parts: &Parts, run: &Run) -> Result<Box<dyn Committer>, RuntimeError> {
    let opened = parts.target.committer(run).await;
    opened.map_err(|source| parts.target_error("opening the committer of", source))
}

async fn open_enumerator(
    parts: &Parts,
    state: &SourceState,
) -> Result<Box<dyn SplitEnumerator>, RuntimeError> {
    let opened = parts.source.enumerator(state).await;
    opened.map_err(|source| RuntimeError::Source {
        name: parts.source.name(),
        source,
    })
}

async fn discover(
    parts: &Parts,
    state: &SourceState,
) -> Result<(Box<dyn SplitEnumerator>, Discovery), RuntimeError> {
    let mut enumerator = open_enumerator(parts, state).await?;
    let found = enumerator.discover().await;
    let found = found.map_err(|source| RuntimeError::Source {
        name: parts.source.name(),
        source,
    })?;
    Ok((enumerator, found))
}

/// True where every split that is known or found ends where it was left: a folder that was copied has
/// new times, and a run that failed may have left splits open that hold nothing more. Reads no further
/// than to the first row. A split that no checkpoint knows is new whatever it holds, and trouble is
/// left to the run, which says what it met.
async fn nothing_new(parts: &Parts, state: &SourceState, found: &Discovery) -> bool {
    if found
        .splits
        .iter()
        .any(|s| !state.finished.contains_key(&s.id))
    {
        return false;
    }
    for split in state.begun().iter().chain(&found.splits) {
        let Ok(mut reader) = parts.source.reader(split).await else {
            return false;
        };
        if !matches!(reader.next().await, Ok(Read::End(_))) {
            return false;
        }
    }
    true
}

fn decode(positions: &Positions, checkpoint: CheckpointId) -> Result<SourceState, RuntimeError> {
    SourceState::from_positions(positions).map_err(|error| RuntimeError::Positions {
        checkpoint: checkpoint.0,
        what: error.to_string(),
    })
}

async fn other_job(parts: &Parts, found: &Found) -> Result<Option<MismatchReport>, RuntimeError> {
    let users = parts.registry.users().await?;
    let (target, source) = (parts.target.name(), parts.source.identity());
    let knows = |user: &CommitUser| users.contains_key(user);
    let others = parts
        .checkpoints
        .adoptable(&parts.job, &target, &source, knows)
        .await
        .map_err(|error| match error {
            // Not a record of this job: an older one of it is no way out.
            RecoveryError::Record { url, at, what } => RuntimeError::OtherJob {
                directory: parts.checkpoints.url().to_owned(),
                source: RecordTrouble { url, at, what },
            },
            other => other.into(),
        })?;
    if others.is_empty() {
        return Ok(None);
    }
    let why = Why::OtherJob(others.into_iter().map(|record| record.job).collect());
    Ok(Some(bare_report(parts, found, why)))
}

enum Look {
    Fits {
        /// Something saved is not published yet.
        pending: bool,
        /// The newest version of the target, where there is no record and that was looked at.
        tip: Option<Version>,
    },
    Mismatch(Why),
}

async fn look(
    parts: &Parts,
    found: &Found,
    ways: &Ways,
    committer: &mut dyn Committer,
) -> Result<Look, RuntimeError> {
    let looking_at = |e| parts.target_error("looking at", e);
    let Some(record) = &found.record else {
        let history = committer.history().await.map_err(looking_at)?;
        let commits = history.newest.is_some() || history.largest_identifier.is_some();
        if commits {
            return Ok(Look::Mismatch(Why::NoCheckpoints(Box::new(history))));
        }
        // It may have lost its records: it goes on as new only where nothing of it can be hidden.
        if let Some(newest) = found.status.newest()
            && !mutant::on("lost-records-are-new")
        {
            let begun_on = newest.registration.begun_on();
            let hidden = committer.hidden(begun_on.as_ref()).await;
            if let Some(why) = hidden.map_err(looking_at)? {
                return Ok(Look::Mismatch(Why::HistoryHidden { why }));
            }
        }
        return Ok(Look::Fits {
            pending: false,
            tip: history.tip,
        });
    };
    let saved = record.saved();
    let there = match committer.standing(&saved).await.map_err(looking_at)? {
        Standing::Equal => Vec::new(),
        Standing::AheadByPrefix(there) => there,
        Standing::Mismatch(mismatch) => return Ok(Look::Mismatch(Why::Standing(mismatch))),
    };
    for committable in &saved.committables {
        let published = there.iter().any(|p| p.identifier == committable.identifier);
        if published || committer.is_empty(committable).map_err(looking_at)? {
            continue;
        }
        // A run is registered before its first record and stays so: a target that knows neither a run
        // nor a commit is not the one that the record is of, and the files went with that one.
        if found.status.runs.is_empty() && ways.adopt.is_none() {
            let history = committer.history().await.map_err(looking_at)?;
            if history.newest.is_none() && history.largest_identifier.is_none() {
                let of = record.target.clone();
                return Ok(Look::Mismatch(Why::Replaced { of }));
            }
        }
        return Ok(Look::Fits {
            pending: true,
            tip: None,
        });
    }
    Ok(Look::Fits {
        pending: false,
        tip: None,
    })
}

/// Publishes what is missing, or takes a way out. The inner error is a mismatch without a way.
async fn settle(
    parts: &Parts,
    found: &Found,
    ways: &Ways,
    run: &Run,
    committer: &mut dyn Committer,
) -> Result<Result<Settled, Why>, RuntimeError> {
    let way = ways.on_mismatch;
    let looked = match &found.record {
        Some(_) => None,
        None => match look(parts, found, ways, committer).await? {
            Look::Fits { .. } => {
                return Ok(Ok(Settled {
                    positions: Positions::default(),
                    last_positions: None,
                    published_positions: None,
                    newest_published: None,
                    by_files: None,
                    above: 0,
                    resolved: false,
                    visible: false,
                }));
            }
            Look::Mismatch(why) => Some(why),
        },
    };
    let why = match (looked, &found.record) {
        (Some(why), _) => why,
        (None, Some(record)) => match restore(parts, record, committer).await? {
            Ok(settled) => return Ok(Ok(settled)),
            Err(mismatch) => Why::Standing(mismatch),
        },
        (None, None) => return Err(RuntimeError::Config("no record to restore".to_owned())),
    };
    match way {
        Some(way) => {
            // Files that were visible are garbage: of what goes now, or of what somebody has removed.
            let behind = matches!(why, Why::Standing(Mismatch::Behind { .. }));
            if behind || matches!(way, Resolution::RollbackTable { .. }) {
                parts.registry.recall(run).await?;
            }
            resolve(parts, found, &why, way, committer).await.map(Ok)
        }
        None => Ok(Err(why)),
    }
}

async fn restore(
    parts: &Parts,
    record: &CheckpointRecord,
    committer: &mut dyn Committer,
) -> Result<Result<Settled, Mismatch>, RuntimeError> {
    let saved = record.saved();
    let restored = RestoreOnly::new(committer).restore(&saved).await;
    let target = parts.target.name();
    let (published, skipped) = match restored
        .map_err(|e| parts.target_error("publishing what the last run left to", e))?
    {
        Restored::Continue { published, skipped }
        | Restored::RestartRequired { published, skipped } => (published, skipped),
        Restored::Mismatch(mismatch) => return Ok(Err(mismatch)),
        Restored::Stopped(Outcome::Fenced(why)) => {
            return Err(RuntimeError::Fenced { target, why });
        }
        Restored::Stopped(outcome) => {
            let identifier = saved.committables.first().map_or(0, |c| c.identifier.0);
            return Err(match outcome {
                Outcome::Undecided(why) => RuntimeError::Undecided {
                    target,
                    identifier,
                    why,
                },
                Outcome::Refused(why) => RuntimeError::Refused {
                    target,
                    identifier,
                    why,
                },
                other => {
                    let why = format!("{other:?}");
                    RuntimeError::Refused {
                        target,
                        identifier,
                        why,
                    }
                }
            });
        }
    };
    if !published.is_empty() || !skipped.is_empty() {
        tracing::info!(
            published = published.len(),
            found = skipped.len(),
            "settled what the last run left"
        );
    }
    let visible = !published.is_empty();
    let newest = published
        .into_iter()
        .chain(skipped)
        .max_by_key(|p| p.identifier);
    let settled_any = newest.is_some();
    let by_files = newest
        .as_ref()
        .filter(|published| published.version == 0 && published.token.is_empty());
    let by_files = by_files.and_then(|published| {
        let mut saved = saved.committables.iter();
        saved
            .find(|c| c.identifier == published.identifier)
            .cloned()
    });
    Ok(Ok(Settled {
        positions: record.positions.clone(),
        last_positions: record.last_positions.clone(),
        published_positions: match settled_any {
            true => record.last_positions.clone(),
            false => record.published_positions.clone(),
        },
        newest_published: newest.or_else(|| record.newest_published.clone()),
        by_files,
        above: record.id.0,
        resolved: false,
        visible,
    }))
}

/// Afterwards identifiers go on above the largest ever seen, and the first commit expects the
/// target's current positions.
async fn resolve(
    parts: &Parts,
    found: &Found,
    why: &Why,
    way: Resolution,
    committer: &mut dyn Committer,
) -> Result<Settled, RuntimeError> {
    let saved = found
        .record
        .as_ref()
        .map(CheckpointRecord::saved)
        .unwrap_or_default();
    let history = |e| parts.target_error("looking at", e);
    let before = committer.history().await.map_err(history)?;
    let plan = committer.resolve(&saved, way, false).await;
    let plan = plan.map_err(|e| parts.target_error("taking a way out with", e))?;
    for step in &plan.steps {
        tracing::warn!("{step}");
    }
    let record_id = found.record.as_ref().map_or(0, |record| record.id.0);
    let seen = [plan.above, before.largest_identifier]
        .into_iter()
        .flatten();
    let above = seen
        .filter_map(|id| u64::try_from(id.0).ok())
        .max()
        .unwrap_or(0)
        .max(record_id);
    let after = committer.history().await.map_err(history)?;
    let settled = match way {
        Resolution::RollbackTable { .. } => match &found.record {
            Some(record) => match restore(parts, record, committer).await? {
                Ok(settled) => settled,
                Err(mismatch) => {
                    return Err(RuntimeError::Mismatch {
                        target: parts.target.name(),
                        what: format!("after the rollback still: {}", Why::Standing(mismatch)),
                    });
                }
            },
            None => fresh(after),
        },
        Resolution::ContinueFromTable => {
            let Some(positions) = plan.positions.or(after.positions.clone()) else {
                return Err(RuntimeError::Mismatch {
                    target: parts.target.name(),
                    what: "its newest commit of this job carries no positions to go on from".into(),
                });
            };
            Settled {
                positions,
                ..fresh(after)
            }
        }
        Resolution::AcceptDuplicates => {
            let positions = match (&found.record, why) {
                (None, _) => Positions::default(),
                // Everything that the checkpoint holds is published, and more.
                (Some(r), Why::Standing(Mismatch::AheadBeyond { .. })) => r.positions.clone(),
                // What the target lost is read again: from where it stands, else from the beginning.
                (Some(_), Why::Standing(Mismatch::Behind { .. })) => {
                    after.positions.clone().unwrap_or_default()
                }
                (Some(r), _) if r.committables.is_empty() => r.positions.clone(),
                // What it holds may not be published: it is read again, rather twice than never.
                (Some(r), _) => r.published_positions.clone().unwrap_or_default(),
            };
            Settled {
                positions,
                ..fresh(after)
            }
        }
    };
    Ok(Settled {
        above: above.max(settled.above),
        resolved: true,
        ..settled
    })
}

/// What the target itself tells.
fn fresh(history: JobHistory) -> Settled {
    Settled {
        positions: Positions::default(),
        last_positions: history.positions.clone(),
        published_positions: history.positions,
        newest_published: history.newest,
        by_files: None,
        above: 0,
        resolved: true,
        visible: false,
    }
}

/// Makes a way out, or a step back, durable: from here on this is the newest record.
async fn write_where_it_stands(
    parts: &Parts,
    run: &Run,
    records: &mut JobCheckpoints,
    settled: &Settled,
    id: u64,
) -> Result<(), RuntimeError> {
    let record = CheckpointRecord {
        kind: RecordKind::Checkpoint,
        target: parts.target.name(),
        source: parts.source.identity(),
        positions: settled.positions.clone(),
        last_positions: settled.last_positions.clone(),
        published_positions: settled.published_positions.clone(),
        newest_published: settled.newest_published.clone(),
        ..CheckpointRecord::new(
            run.job.clone(),
            CheckpointId(id),
            run.user.clone(),
            run.epoch,
        )
    };
    Ok(records.write(&record).await?)
}
