//! What a step does to the table, and what the committer is told.
//!
//! Owns: the answer to every step, with and without a fault. Does not own: when a step is taken.

use crate::invariant::{Broken, Invariant};
use crate::shared::Shared;
use crate::table::{Author, Object, Purpose, Table};
use std::sync::Arc;
use tidegate_model::ids::{BucketId, SchemaId, SnapshotId};
use tidegate_protocol::merge::{ManifestSummary, Piece};
use tidegate_protocol::{
    BaseFact, DeltaObjects, Draft, Fact, Half, LatestFact, LiveFile, PartitionId, Step, WritePlan,
    Written,
};

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// As it should.
    Well,
    /// Carried out, the answer lost.
    LostDone,
    /// Not carried out, the answer lost.
    Lost,
    /// Carried out some time, no answer.
    Late,
    /// Refused for good.
    Refused,
    /// A read that shows the snapshot before the newest one.
    Stale,
    /// It failed, and may succeed later.
    Failed,
}

/// Does the step. What it may find broken is an error.
pub fn perform(
    table: &mut Shared<Table>,
    by: &Author,
    step: &Step,
    end: End,
) -> Result<Fact, Broken> {
    if end == End::Failed {
        return Ok(Fact::Failed {
            retryable: true,
            why: "fault".to_owned(),
            left: Vec::new(),
        });
    }
    Ok(match step {
        Step::ReadLatest => latest(table, by, end)?,
        Step::ReadHistory { from, to } => {
            let range = table.snapshots.range(from.0..=to.0);
            let range = range.filter(|(id, _)| !table.is_hidden(**id));
            Fact::History(range.map(|(_, d)| Table::fact(d)).collect())
        }
        Step::ReadLive { base, partitions } => live(table, *base, partitions)?,
        Step::ReadBuckets { .. } => Fact::Buckets(Vec::new()),
        Step::CheckFiles(files) => {
            let gone = files.iter().filter(|file| !table.files.contains(file));
            Fact::Absent(gone.copied().collect())
        }
        Step::Write(plan) => Fact::Written(table.change(|t| write(t, by, plan))?),
        Step::Publish(draft) => publish(table, draft, end)?,
        Step::ReadAgain(id) => Fact::Again(table.snapshots.get(&id.0).map(|d| Table::fact(d))),
        Step::FindRetained => {
            let id = |id: Option<&i64>| id.map(|id| SnapshotId(*id));
            let oldest = table.snapshots.keys().next();
            Fact::Retained(id(oldest).zip(id(table.snapshots.keys().next_back())))
        }
        Step::Announce(draft) => {
            if !table.was_visible(draft.id, &draft.token) {
                let why = format!("LATEST is pointed at {}, which is buried", draft.id);
                return Err(Broken::new(Invariant::Hint, why));
            }
            if table.above_a_hole.contains(&draft.token) {
                let why = format!(
                    "LATEST is pointed at {}, which was made above a hole",
                    draft.id
                );
                return Err(Broken::new(Invariant::Hint, why));
            }
            Fact::Announced
        }
        Step::Delete(garbage) => {
            table.change(|t| t.delete(garbage))?;
            Fact::Deleted(Vec::new())
        }
        Step::BackOff(_) | Step::Done(_) => Fact::Waited,
    })
}

fn latest(table: &Table, by: &Author, end: End) -> Result<Fact, Broken> {
    // What lies below the retained history never was the newest.
    let seen = |d: &&Arc<Draft>| end != End::Stale || !table.buried.contains(&d.id.0);
    let mut from_newest = table.snapshots.values().rev().filter(seen);
    let shown = match end {
        End::Stale => from_newest.nth(1),
        _ => from_newest.next(),
    };
    let base = match shown {
        None => None,
        Some(draft) => {
            let manifests = table.manifests(draft)?;
            let summaries = manifests.into_iter().map(|id| table.summary(id));
            Some(BaseFact {
                snapshot: Table::fact(draft),
                time_millis: draft.time_millis,
                total_records: Some(draft.total_records),
                watermark: draft.watermark,
                index: draft.index,
                statistics: None,
                next_row_id: draft.next_row_id,
                manifests: summaries.collect::<Result<_, _>>()?,
            })
        }
    };
    let at = base.as_ref().map_or(0, |b| b.snapshot.id.0);
    Ok(Fact::Latest(LatestFact {
        base,
        schema: SchemaId(0),
        // A clock that stands still.
        now_millis: 0,
        token: table.fresh_token(&Author { base: at, ..*by }),
    }))
}

fn live(table: &Table, base: SnapshotId, partitions: &[PartitionId]) -> Result<Fact, Broken> {
    // A driver reads the manifests that the base named; what lies under its number by now is not asked.
    let buried = table.buried.contains(&base.0);
    let Some(draft) = table.snapshots.get(&base.0).filter(|_| !buried) else {
        return Ok(Fact::Failed {
            retryable: true,
            why: "the base is gone".to_owned(),
            left: Vec::new(),
        });
    };
    let partition = PartitionId(0);
    let wanted = partitions.contains(&partition);
    let files = table.live(draft)?.into_iter().filter(|_| wanted);
    let of = |file| LiveFile {
        file,
        partition,
        bucket: BucketId(0),
        total_buckets: -1,
        place: None,
        vectors: false,
    };
    Ok(Fact::Live(files.map(of).collect()))
}

fn write(table: &mut Table, by: &Author, plan: &WritePlan) -> Result<Written, Broken> {
    let half = plan.half;
    let delta = match &plan.delta {
        None => None,
        Some(changes) => {
            let added = changes.added.iter().map(|f| (true, f.file));
            let deleted = changes.deleted.iter().map(|f| (false, f.file));
            let entries = Object::Manifest(deleted.chain(added).collect());
            let manifest = table.put(Purpose::Delta, half, by, entries);
            let list = Object::List(Arc::from([manifest]));
            Some(DeltaObjects {
                manifests: vec![table.summary(manifest)?],
                list: table.put(Purpose::DeltaList, half, by, list),
                changelog: None,
            })
        }
    };
    let (mut list, mut merged) = (Vec::new(), Vec::new());
    for piece in &plan.base.pieces {
        match piece {
            Piece::Keep(m) => list.push(m.id),
            Piece::Reuse { outputs, .. } => list.extend(outputs.iter().map(|m| m.id)),
            Piece::Merge {
                inputs,
                drop_deletes,
            } => {
                let outputs = merge(table, half, by, inputs, *drop_deletes)?;
                list.extend(outputs.iter().map(|m| m.id));
                merged.push(outputs);
            }
        }
    }
    Ok(Written {
        delta,
        merged,
        base_list: table.put(Purpose::BaseList, half, by, Object::List(list.into())),
        index: None,
    })
}

fn merge(
    table: &mut Table,
    half: Half,
    by: &Author,
    inputs: &[ManifestSummary],
    drop_deletes: bool,
) -> Result<Vec<ManifestSummary>, Broken> {
    let mut out = Vec::new();
    for input in inputs {
        for (is_add, file) in table.entries(input.id)?.iter() {
            match out.iter().position(|e| *e == (true, *file)) {
                Some(at) if !is_add => {
                    out.remove(at);
                }
                _ => out.push((*is_add, *file)),
            }
        }
    }
    out.retain(|(is_add, _)| *is_add || !drop_deletes);
    if out.is_empty() {
        return Ok(Vec::new());
    }
    let id = table.put(Purpose::Merged, half, by, Object::Manifest(out.into()));
    Ok(vec![table.summary(id)?])
}

fn publish(table: &mut Shared<Table>, draft: &Draft, end: End) -> Result<Fact, Broken> {
    let put = || Arc::new(draft.clone());
    Ok(match end {
        End::LostDone => {
            table.change(|t| t.create(&put()))?;
            Fact::Unknown
        }
        End::Late => {
            table.change(|t| t.send_late(put()));
            Fact::Unknown
        }
        End::Lost => Fact::Unknown,
        End::Refused => Fact::PutRefused("denied".to_owned()),
        End::Well | End::Stale | End::Failed => match table.snapshots.get(&draft.id.0) {
            Some(found) if **found == *draft => Fact::ExistsOurs,
            Some(found) => Fact::ExistsTheirs(Table::fact(found)),
            None => {
                table.change(|t| t.create(&put()))?;
                Fact::Created
            }
        },
    })
}
