//! `tidegate job …`: who writes to a table.

use serde_json::{Value, json};
use tidegate::Table;
use tidegate::commit::Marks;
use tidegate::model::SnapshotId;
use tidegate::recovery::{EndKind, JobStatus, RunStatus};
use tidegate::sink::JobName;
use tidegate::system::{Cell, Sheet};

use super::confirm;
use crate::args::{JobCommand, OutputArgs, TableName};
use crate::exit::{Failure, Result};
use crate::output;

pub(crate) async fn run(command: JobCommand, output: &OutputArgs) -> Result<u8> {
    match command {
        JobCommand::List(table) => list(&open(&table).await?, output).await?,
        JobCommand::Status { table, job } => status(&open(&table).await?, &job, output).await?,
        JobCommand::Retire {
            table,
            job,
            dry_run,
            yes,
        } => retire(&open(&table).await?, &job, dry_run, yes, output).await?,
    }
    Ok(0)
}

async fn open(table: &TableName) -> Result<Table> {
    table.warehouse.table(&table.name).await
}

/// What became of a run, and why where that is known. Without a mark only the newest run may still be
/// there: an older one was superseded, by a restart of its own process or by another one that fenced it.
fn state(run: &RunStatus, newest: bool) -> (String, Option<String>) {
    match &run.ended {
        Some(ended) => {
            let unknown = matches!(ended.how, EndKind::Other(_));
            let why = unknown.then(|| "ended in a way that only a later build knows".to_owned());
            (ended.how.name().to_owned(), ended.reason.clone().or(why))
        }
        None if newest => ("running or crashed".to_owned(), None),
        None => ("superseded".to_owned(), None),
    }
}

async fn list(table: &Table, output: &OutputArgs) -> Result<()> {
    let mut sheet = Sheet::new([
        "job",
        "state",
        "epoch",
        "host",
        "started",
        "commit_user",
        "checkpoints",
        "reason",
    ]);
    for job in table.jobs().jobs().await? {
        let Some(run) = job.newest() else { continue };
        let r = &run.registration;
        let (state, reason) = state(run, true);
        sheet.push(vec![
            job.job.to_string().into(),
            state.into(),
            Cell::Int(i64::try_from(r.epoch().0).unwrap_or(i64::MAX)),
            r.host.as_str().into(),
            Cell::Millis(r.started_ms),
            r.commit_user().into(),
            r.checkpoints.as_str().into(),
            reason.map_or(Cell::Null, Cell::from),
        ]);
    }
    output::sheet(output.format, &sheet)
}

async fn find(table: &Table, job: &str) -> Result<JobStatus> {
    let name = JobName::new(job).map_err(|e| Failure::config(e.0))?;
    let status = table.jobs().job(&name).await?;
    if status.runs.is_empty() {
        let known: Vec<String> = table
            .jobs()
            .jobs()
            .await?
            .iter()
            .map(|j| j.job.to_string())
            .collect();
        return Err(Failure::not_found(format!(
            "job `{name}` is not registered at `{}`; jobs there: {}",
            table.name(),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    }
    Ok(status)
}

async fn status(table: &Table, job: &str, output: &OutputArgs) -> Result<()> {
    let status = find(table, job).await?;
    let newest_epoch = status.newest().map(|run| run.registration.epoch());
    let runs: Vec<Value> = status
        .runs
        .iter()
        .map(|run| {
            let r = &run.registration;
            let (state, reason) = state(run, Some(r.epoch()) == newest_epoch);
            let ended = run.ended.as_ref().map(|e| Cell::Millis(e.at_ms).to_string());
            json!({
                "epoch": r.epoch().0, "state": state, "reason": reason, "host": r.host,
                "started": Cell::Millis(r.started_ms).to_string(), "ended": ended, "restored_from": r.restored, "checkpoints": r.checkpoints, "file_prefix": r.prefix,
            })
        })
        .collect();
    let newest = newest_commit(table, &status.job).await?;
    let value = json!({
        "job": status.job.as_str(), "table": table.name(), "state": status.newest().map(|run| state(run, true).0),
        "commit_user": status.user().map(|u| u.as_str().to_owned()), "newest_commit": newest, "runs": runs,
    });
    output::object(output.format, &value)
}

/// The newest snapshot of a job that is still there, walking down from the newest of the table.
async fn newest_commit(table: &Table, job: &JobName) -> Result<Value> {
    let mut next = table.latest_snapshot().await?;
    while let Some(snapshot) = next {
        let marks = Marks::of(&snapshot).map_err(|e| Failure::of(e.kind(), e.to_string()))?;
        if let Some(marks) = marks.filter(|m| m.job == *job) {
            return Ok(json!({
                "snapshot": snapshot.id.0, "identifier": snapshot.commit_identifier.0, "epoch": marks.epoch.0,
                "checkpoint": marks.checkpoint.0, "digest": marks.digest.to_string(),
                "time": Cell::Millis(snapshot.time_millis).to_string(),
            }));
        }
        let below = SnapshotId(snapshot.id.0 - 1);
        let found = tidegate::commit::snapshot(table.store(), below).await;
        next = found
            .map_err(|e| Failure::of(e.kind(), e.to_string()))?
            .map(|v| v.snapshot);
    }
    Ok(Value::Null)
}

async fn retire(
    table: &Table,
    job: &str,
    dry_run: bool,
    yes: bool,
    output: &OutputArgs,
) -> Result<()> {
    let status = find(table, job).await?;
    let epoch = status.newest().map(|run| run.registration.epoch().0);
    let done = |retired: bool, state: &str| json!({"job": status.job.as_str(), "table": table.name(), "epoch": epoch, "retired": retired, "state": state});
    let Some(run) = status.newest().filter(|r| r.ended.is_none()) else {
        let text = format!("job `{}` has ended already; nothing to do", status.job);
        let state = status.newest().map(|run| state(run, true).0);
        return output::outcome(output, &text, &done(false, &state.unwrap_or_default()));
    };
    let what = format!(
        "declare epoch {} of job `{}` (host {}) dead",
        run.registration.epoch(),
        status.job,
        run.registration.host
    );
    if dry_run {
        let state = state(run, true).0;
        return output::outcome(output, &format!("would {what}"), &done(false, &state));
    }
    confirm(
        &format!(
            "{what}: if it still runs, its next start is refused nothing, but `table drop` is no longer held back"
        ),
        yes,
    )?;
    let now = jiff::Timestamp::now().as_millisecond();
    table.jobs().retire(&status.job, now).await?;
    let text = format!("job `{}` is retired", status.job);
    output::outcome(output, &text, &done(true, EndKind::Retired.name()))
}
