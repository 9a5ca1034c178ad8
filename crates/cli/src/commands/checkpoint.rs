//! `tidegate checkpoint …`: what is saved, without touching it.

use serde_json::{Value, json};
use tidegate::commit::committable;
use tidegate::recovery::{CheckpointRecord, CheckpointStore, RecordKind};
use tidegate::sink::{CheckpointId, JobName, Positions};
use tidegate::storage::Store;
use tidegate::system::{Cell, Sheet};
use tidegate_runtime::source::SourceState;
use tidegate_runtime::source::place::places;

use crate::args::{CheckpointCommand, CheckpointDir, OutputArgs};
use crate::exit::{Failure, Result};
use crate::{context, output};

pub(crate) async fn run(command: CheckpointCommand, output: &OutputArgs) -> Result<u8> {
    match command {
        CheckpointCommand::List(directory) => list(&directory, output).await?,
        CheckpointCommand::Inspect { directory, id } => inspect(&directory, id, output).await?,
    }
    Ok(0)
}

fn kind_text(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Checkpoint => "checkpoint",
        RecordKind::Savepoint => "savepoint",
        RecordKind::EndOfInput => "end-of-input",
    }
}

async fn jobs(store: &CheckpointStore, directory: &CheckpointDir) -> Result<Vec<JobName>> {
    let all = store.jobs().await?;
    let Some(wanted) = &directory.job else {
        return Ok(all);
    };
    let wanted = JobName::new(wanted.as_str()).map_err(|e| Failure::config(e.0))?;
    if !all.contains(&wanted) {
        let known: Vec<String> = all.iter().map(ToString::to_string).collect();
        return Err(Failure::not_found(format!(
            "job `{wanted}` has no checkpoints in {}; jobs there: {}",
            store.url(),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    }
    Ok(vec![wanted])
}

async fn list(directory: &CheckpointDir, output: &OutputArgs) -> Result<()> {
    let place = context::open_store(&directory.directory, &directory.store)?;
    let store = CheckpointStore::new(place.clone());
    let mut sheet = Sheet::new([
        "job",
        "checkpoint_id",
        "kind",
        "epoch",
        "commit_user",
        "complete",
        "pending_commits",
        "published_snapshot",
        "size_in_bytes",
        "error",
    ]);
    for job in jobs(&store, directory).await? {
        for user in store.users(&job).await? {
            let mut records = store.job(&job, &user);
            records.load().await?;
            for listed in records.list() {
                let size = Cell::Int(i64::try_from(listed.size).unwrap_or(i64::MAX));
                let mut row = vec![job.to_string().into(), Cell::Int(id_cell(listed.id))];
                match records.read(listed.id).await {
                    Ok(r) => row.extend([
                        kind_text(r.kind).into(),
                        Cell::Int(id_cell(CheckpointId(r.epoch.0))),
                        user.to_string().into(),
                        Cell::Bool(r.is_complete()),
                        Cell::Int(r.committables.len() as i64),
                        Cell::int(
                            r.newest_published
                                .as_ref()
                                .and_then(|p| i64::try_from(p.version).ok()),
                        ),
                        size,
                        Cell::Null,
                    ]),
                    // One that cannot be read is shown, not hidden.
                    Err(e) => row.extend([
                        Cell::Null,
                        Cell::Null,
                        user.to_string().into(),
                        Cell::Null,
                        Cell::Null,
                        Cell::Null,
                        size,
                        e.to_string().into(),
                    ]),
                }
                sheet.push(row);
            }
        }
    }
    if sheet.rows().is_empty() {
        return Err(Failure::not_found(nothing_there(&place).await));
    }
    output::sheet(output.format, &sheet)
}

/// What was looked for and where, and whether the folder above is meant: people name the folder of a
/// job or of a commit user, since that is where the records are.
async fn nothing_there(place: &Store) -> String {
    let mut text = format!(
        "no checkpoints in {}: looked for JOB/COMMIT-USER/checkpoint-ID",
        place.url()
    );
    let record = |name: &str| name.starts_with("checkpoint-") || name.starts_with("savepoint-");
    let here = match place.list_names("").await {
        Ok(here) => here,
        Err(e) => {
            text.push_str(&format!("; it cannot be listed now: {e}"));
            return text;
        }
    };
    if here.iter().any(|e| !e.is_dir && record(&e.name)) {
        text.push_str("; this is the folder of one commit user: pass the folder two levels up");
        return text;
    }
    let mut unlisted = Vec::new();
    for folder in here.iter().filter(|e| e.is_dir) {
        match place.list_names(&folder.name).await {
            Ok(below) if below.iter().any(|e| !e.is_dir && record(&e.name)) => {
                text.push_str("; this is the folder of one job: pass the folder above it");
                return text;
            }
            Ok(_) => {}
            Err(e) => unlisted.push(format!("; {} cannot be listed: {e}", folder.name)),
        }
    }
    if here.is_empty() {
        text.push_str("; it is empty, or not there");
    }
    text.extend(unlisted);
    text
}

fn id_cell(id: CheckpointId) -> i64 {
    i64::try_from(id.0).unwrap_or(i64::MAX)
}

async fn inspect(directory: &CheckpointDir, id: Option<u64>, output: &OutputArgs) -> Result<()> {
    let store = CheckpointStore::new(context::open_store(&directory.directory, &directory.store)?);
    let jobs = jobs(&store, directory).await?;
    let mut found = Vec::new();
    for job in &jobs {
        for user in store.users(job).await? {
            let mut records = store.job(job, &user);
            records.load().await?;
            let record = match id {
                Some(id) if records.list().iter().any(|r| r.id.0 == id) => {
                    Some(records.read(CheckpointId(id)).await?)
                }
                Some(_) => None,
                None => records.newest().await?,
            };
            found.extend(record);
        }
    }
    match found.as_slice() {
        [record] => output::object(output.format, &show(record)?),
        [] => Err(Failure::not_found(match id {
            Some(id) => format!(
                "no checkpoint {id} in {}; `tidegate checkpoint list` shows what is there",
                store.url()
            ),
            None => format!("no complete checkpoint in {}", store.url()),
        })),
        several => {
            let names: Vec<String> = several.iter().map(|r| r.job.to_string()).collect();
            Err(Failure::config(format!(
                "several jobs have one ({}); pass --job",
                names.join(", ")
            )))
        }
    }
}

/// Positions as people name them; raw length where another source wrote them.
pub(super) fn positions_json(positions: &Positions) -> Value {
    match SourceState::from_positions(positions) {
        Ok(state) => places(&state)
            .into_iter()
            .map(|p| json!({"split": p.split.0, "offset": p.offset, "line": p.line, "finished": p.finished}))
            .collect(),
        Err(_) => json!({"bytes": positions.active.len() + positions.finished.len()}),
    }
}

fn show(record: &CheckpointRecord) -> Result<Value> {
    let mut committables = Vec::new();
    for c in &record.committables {
        let decoded = committable::decode(c).map_err(|e| Failure::of(e.kind(), e.to_string()))?;
        let files: Vec<_> = decoded
            .java
            .messages
            .iter()
            .flat_map(|m| &m.data.new_files)
            .map(|f| json!({"file": f.file_name, "rows": f.row_count, "bytes": f.file_size}))
            .collect();
        committables.push(json!({
            "identifier": c.identifier.0, "digest": c.digest.to_string(), "expected": c.expected,
            "received": c.received, "new_files": files,
        }));
    }
    let published = record.newest_published.as_ref().map(|p| {
        json!({"identifier": p.identifier.0, "snapshot": p.version, "token": p.token, "digest": p.digest.map(|d| d.to_string())})
    });
    Ok(json!({
        "job": record.job.as_str(), "checkpoint_id": record.id.0, "kind": kind_text(record.kind),
        "complete": record.is_complete(), "epoch": record.epoch.0, "commit_user": record.user.as_str(),
        "target": record.target, "source": record.source, "positions": positions_json(&record.positions),
        "newest_published": published, "committables": committables,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tidegate::storage::{ErrorKind, Fault, Faults, Op, RetryPolicy, Rule};

    /// What is told of a folder with one foreign folder in it, where the `nth` listing fails.
    async fn told(nth: u32) -> String {
        let store = Store::open("memory://", &BTreeMap::new()).unwrap();
        store.put("other/file", "x".into()).await.unwrap();
        let faults = Faults::new();
        let denied = Fault::Before(ErrorKind::PermissionDenied);
        faults.rule(Rule::new(denied).on(Op::List).nth(nth));
        let store = store.with_retry(RetryPolicy::none()).with_faults(faults);
        nothing_there(&store).await
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_listed_is_told_and_not_taken_for_empty() {
        let root = told(1).await;
        assert!(root.contains("; it cannot be listed now: "), "{root}");
        assert!(!root.contains("it is empty"), "{root}");
        let below = told(2).await;
        assert!(below.contains("; other cannot be listed: "), "{below}");
        let none = told(3).await;
        assert!(none.ends_with("/checkpoint-ID"), "{none}");
    }
}
