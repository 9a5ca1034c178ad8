//! What a table is in a state of the disk, and whether that may be.
//!
//! Reads with the library as users have it: `verify`, a scan of the rows, the checkpoint store. What
//! should be there comes from the record of the run and from its finished table.

use arrow::json::LineDelimitedWriter;
use futures::TryStreamExt;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tidegate::Table;
use tidegate::model::SnapshotId;
use tidegate::recovery::CheckpointStore;
use tidegate::scan::At;
use tidegate::sink::JobName;
use tidegate::storage::Store;
use tidegate::verify::{Severity, verify};

use crate::scenario::{CHECKPOINTS, JOB, TABLE};
use crate::states::Seen;
use crate::tree::{Tree, hash};

/// What was acknowledged before the power failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duty {
    /// This checkpoint is complete.
    pub record: Option<u64>,
    /// This snapshot is published.
    pub snapshot: Option<u64>,
    /// The job has ended well.
    pub ended: bool,
}

/// What was found in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Facts {
    /// There is no table, and nothing of one.
    Nothing,
    /// It cannot be opened or read, or `verify` finds errors; in words.
    Broken(String),
    /// A table.
    Table {
        /// Id and commit identifier of each snapshot, oldest first.
        snapshots: Vec<(u64, u64)>,
        /// The newest complete checkpoint record.
        record: Option<u64>,
        /// Hash of its rows, sorted.
        rows: u128,
        /// How many rows.
        count: usize,
        /// Whether the newest run of the job is marked as ended.
        ended: bool,
    },
}

/// The rows that belong to each snapshot, by their hash.
pub type Reference = BTreeMap<u64, u128>;

/// Why a state may not be; `None` where it may.
pub fn fault(facts: &Facts, duty: &Duty, reference: &Reference) -> Option<String> {
    let (snapshots, record, rows, ended) = match facts {
        Facts::Broken(why) => return Some(why.clone()),
        Facts::Nothing => {
            let owed = duty.record.is_some() || duty.snapshot.is_some() || duty.ended;
            return owed.then(|| "there is no table, and commits were acknowledged".to_owned());
        }
        Facts::Table {
            snapshots,
            record,
            rows,
            ended,
            ..
        } => (snapshots, *record, *rows, *ended),
    };
    let ids: Vec<u64> = snapshots.iter().map(|(id, _)| *id).collect();
    if ids != (1..=ids.len() as u64).collect::<Vec<_>>() {
        return Some(format!("snapshots {ids:?} are not dense"));
    }
    let newest = ids.last().copied();
    if newest < duty.snapshot {
        return Some(format!(
            "snapshot {} was acknowledged, and the newest one there is {}",
            duty.snapshot.unwrap_or(0),
            newest.map_or("none".to_owned(), |id| id.to_string())
        ));
    }
    let wanted = newest.map_or_else(no_rows, |id| reference.get(&id).copied().unwrap_or(0));
    if rows != wanted {
        return Some(format!("the rows are not those of snapshot {newest:?}"));
    }
    let known = |record: Option<u64>| record.map_or("none".to_owned(), |id| id.to_string());
    if record < duty.record {
        return Some(format!(
            "checkpoint {} was complete, and the newest record there is {}",
            duty.record.unwrap_or(0),
            known(record)
        ));
    }
    let committed = snapshots.last().map(|(_, identifier)| *identifier);
    if record < committed {
        return Some(format!(
            "a snapshot of checkpoint {} is there, and the newest record is {}",
            committed.unwrap_or(0),
            known(record)
        ));
    }
    if duty.ended && !ended {
        return Some("the job ended well, and its mark is not there".to_owned());
    }
    None
}

/// Hash of no rows.
fn no_rows() -> u128 {
    hash(Vec::<String>::new())
}

/// A judge with a folder to put states into, and a memory.
#[derive(Debug)]
pub struct Judge {
    folder: tempfile::TempDir,
    known: Mutex<HashMap<u128, Facts>>,
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Judge {
    /// In memory where the system has a file system there: thousands of trees are written.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let mut builder = tempfile::Builder::new();
        builder.prefix("tidegate-crash-states-");
        let folder = match memory.is_dir() {
            true => builder.tempdir_in(memory).or_else(|_| builder.tempdir()),
            false => builder.tempdir(),
        };
        let folder = folder.unwrap();
        std::fs::create_dir(folder.path().join("bytes")).unwrap();
        Self {
            folder,
            known: Mutex::default(),
        }
    }

    /// What is found in each state, by its hash. On all cores.
    pub fn all(&self, seen: &[(u128, &Seen)]) -> Vec<Facts> {
        let mut open: Vec<(u128, &Seen)> = seen.to_vec();
        open.retain(|(hash, _)| !self.known.lock().unwrap().contains_key(hash));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = open.len().div_ceil(cores).max(1);
        std::thread::scope(|scope| {
            for (core, share) in open.chunks(share).enumerate() {
                scope.spawn(move || {
                    let runtime = runtime();
                    for (hash, seen) in share {
                        let at = self.folder.path().join(format!("state-{core}"));
                        let facts = runtime.block_on(self.one(&seen.tree, &at));
                        self.known.lock().unwrap().insert(*hash, facts);
                    }
                });
            }
        });
        let known = self.known.lock().unwrap();
        seen.iter().map(|(hash, _)| known[hash].clone()).collect()
    }

    async fn one(&self, tree: &Tree, at: &PathBuf) -> Facts {
        std::fs::create_dir(at).unwrap();
        tree.write(at, Some(&self.folder.path().join("bytes")));
        let facts = look(at).await;
        std::fs::remove_dir_all(at).unwrap();
        facts
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// The rows of each snapshot of a finished table.
pub fn reference(folder: &Path) -> Reference {
    runtime().block_on(async {
        let table = open(folder).await.unwrap();
        let mut found = Reference::new();
        for snapshot in table.snapshots().await.unwrap() {
            let (rows, _) = rows(&table, &At::Snapshot(snapshot.id)).await.unwrap();
            found.insert(number(snapshot.id), rows);
        }
        found
    })
}

/// What is found in a folder.
pub fn look_at(folder: &Path) -> Facts {
    runtime().block_on(look(folder))
}

/// The `id` column of the newest version, sorted.
///
/// # Errors
/// What hinders reading, in words.
pub fn ids(folder: &Path) -> Result<Vec<i64>, String> {
    runtime().block_on(async {
        let table = open(folder).await.map_err(|e| e.to_string())?;
        let lines = lines(&table, &At::Latest, &["id"]).await?;
        let id = |line: String| {
            let number = line
                .strip_prefix("{\"id\":")
                .and_then(|l| l.strip_suffix('}'));
            let number = number.and_then(|n| n.parse().ok());
            number.ok_or_else(|| format!("{line}: not an id"))
        };
        let mut ids: Vec<i64> = lines.into_iter().map(id).collect::<Result<_, _>>()?;
        ids.sort_unstable();
        Ok(ids)
    })
}

fn number(id: SnapshotId) -> u64 {
    u64::try_from(id.0).unwrap()
}

async fn open(folder: &Path) -> tidegate::Result<Table> {
    Table::open(folder.join(TABLE).to_str().unwrap()).await
}

async fn look(folder: &Path) -> Facts {
    let broken = |doing: &str, why: String| Facts::Broken(format!("{doing}: {why}"));
    let table = match open(folder).await {
        Ok(table) => table,
        Err(error) => {
            // Without a schema there is no table; then nothing else of one may be there either.
            let inside = |name: &str| folder.join(TABLE).join(name).exists();
            let bare = !inside("schema/schema-0") && !inside("snapshot") && !inside("manifest");
            return match bare {
                true => Facts::Nothing,
                false => broken("opening the table", error.to_string()),
            };
        }
    };
    match verify(&table).await {
        Err(error) => return broken("verify", error.to_string()),
        Ok(report) => {
            let errors = report.findings.iter();
            let mut errors = errors.filter(|finding| finding.severity == Severity::Error);
            if let Some(first) = errors.next() {
                return broken("verify", format!("{}: {}", first.place, first.what));
            }
        }
    }
    let snapshots = match table.snapshots().await {
        Ok(snapshots) => snapshots,
        Err(error) => return broken("snapshots", error.to_string()),
    };
    let (rows, count) = match rows(&table, &At::Latest).await {
        Ok(rows) => rows,
        Err(error) => return broken("reading", error.to_string()),
    };
    let record = match newest_record(folder).await {
        Ok(record) => record,
        Err(error) => return broken("the newest checkpoint record", error.to_string()),
    };
    let job = JobName::new(JOB).unwrap();
    let ended = match table.jobs().job(&job).await {
        Ok(status) => status.newest().is_some_and(|run| run.ended.is_some()),
        Err(error) => return broken("registrations", error.to_string()),
    };
    Facts::Table {
        snapshots: snapshots
            .iter()
            .map(|s| (number(s.id), s.commit_identifier.0.cast_unsigned()))
            .collect(),
        record,
        rows,
        count,
        ended,
    }
}

async fn newest_record(folder: &Path) -> Result<Option<u64>, tidegate::recovery::RecoveryError> {
    let url = folder.join(CHECKPOINTS);
    let store = Store::open(url.to_str().unwrap(), &BTreeMap::new()).unwrap();
    let records = CheckpointStore::new(store);
    let job = JobName::new(JOB).unwrap();
    let mut newest = None;
    for user in records.users(&job).await? {
        let mut own = records.job(&job, &user);
        own.load().await?;
        if let Some(record) = own.newest().await? {
            newest = newest.max(Some(record.id.0));
        }
    }
    Ok(newest)
}

/// Rows of a version, sorted, as a hash and a number.
async fn rows(table: &Table, at: &At) -> Result<(u128, usize), String> {
    let mut lines = lines(table, at, &[]).await?;
    lines.sort_unstable();
    Ok((hash(&lines), lines.len()))
}

/// Rows of a version as JSON, of these columns or of all.
async fn lines(table: &Table, at: &At, columns: &[&str]) -> Result<Vec<String>, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let mut plan = table.scan(at).await.map_err(|e| words(&e))?;
    if !columns.is_empty() {
        plan = plan.with_columns(columns).map_err(|e| words(&e))?;
    }
    let mut batches = plan.read().map_err(|e| words(&e))?;
    let mut lines: Vec<String> = Vec::new();
    while let Some(batch) = batches.try_next().await.map_err(|e| words(&e))? {
        let mut writer = LineDelimitedWriter::new(Vec::new());
        writer.write(&batch).map_err(|e| words(&e))?;
        writer.finish().map_err(|e| words(&e))?;
        let text = String::from_utf8(writer.into_inner()).map_err(|e| words(&e))?;
        lines.extend(text.lines().map(str::to_owned));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(snapshots: u64, record: Option<u64>, rows: u128) -> Facts {
        Facts::Table {
            snapshots: (1..=snapshots).map(|id| (id, id + 10)).collect(),
            record,
            rows,
            count: 0,
            ended: false,
        }
    }

    #[test]
    fn a_state_is_faulted_by_what_was_acknowledged_before_it() {
        let reference = Reference::from([(1, 100), (2, 200)]);
        let duty = |record, snapshot| Duty {
            record,
            snapshot,
            ended: false,
        };
        let fault = |facts: Facts, duty: Duty| fault(&facts, &duty, &reference);
        let none = duty(None, None);
        assert_eq!(
            fault(table(2, Some(12), 200), duty(Some(12), Some(2))),
            None
        );
        assert_eq!(fault(table(2, Some(12), 200), none), None, "more than owed");
        assert_eq!(fault(table(0, None, no_rows()), none), None);
        assert_eq!(fault(Facts::Nothing, none), None);
        for (facts, duty, says) in [
            (Facts::Nothing, duty(Some(1), None), "no table"),
            (
                table(1, Some(12), 100),
                duty(None, Some(2)),
                "newest one there is 1",
            ),
            (table(2, Some(12), 100), none, "not those of snapshot"),
            (
                table(1, Some(11), 100),
                duty(Some(12), None),
                "checkpoint 12 was complete",
            ),
            (table(2, Some(11), 200), none, "of checkpoint 12 is there"),
            (Facts::Broken("torn".to_owned()), none, "torn"),
        ] {
            let found = fault(facts.clone(), duty);
            assert!(
                found.as_ref().is_some_and(|why| why.contains(says)),
                "{facts:?} {duty:?}: {found:?}"
            );
        }
        let ended = Duty {
            ended: true,
            ..none
        };
        let found = fault(table(2, Some(12), 200), ended);
        assert!(found.is_some_and(|why| why.contains("ended well")));
    }
}
