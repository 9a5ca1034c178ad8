//! Decide without doing: the whole commit protocol against a table that is three vectors.
//!
//! ```text
//! cargo run -p tidegate-protocol --example decide
//! ```
//!
//! [`Attempt`] says what to do next, [`Table`] does it and says what it saw. The executor against object
//! stores, the test scripts and the interleavings drive the same value. Shown: a first commit, one whose
//! answer is lost, the same one offered again after a restart, and other rows under its number.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::sync::Arc;

use tidegate_model::ids::{BucketId, CommitIdentifier, CommitUser, Digest, SchemaId};
use tidegate_protocol::*;

/// A table without manifests: a list is the files that a commit adds.
#[derive(Default)]
struct Table {
    snapshots: Vec<Draft>,
    lists: Vec<Arc<Changes>>,
    /// The next create takes effect and nobody is told.
    loses_answer: bool,
}

impl Table {
    /// Does a step, and says what it saw.
    fn carry_out(&mut self, step: Step) -> Fact {
        match step {
            Step::ReadLatest => Fact::Latest(LatestFact {
                base: self.snapshots.last().map(base),
                schema: SchemaId(0),
                now_millis: 1_700_000_000_000, // a clock
                token: Token::new(format!("uuid-{}", self.lists.len())), // randomness
            }),
            Step::ReadHistory { from, to } => {
                let asked = |s: &&Draft| (from..=to).contains(&s.id);
                Fact::History(self.snapshots.iter().filter(asked).map(fact).collect())
            }
            Step::ReadAgain(id) => {
                let found = self.snapshots.iter().find(|s| s.id == id);
                Fact::Again(found.map(fact))
            }
            Step::FindRetained => {
                let ends = self.snapshots.first().zip(self.snapshots.last());
                Fact::Retained(ends.map(|(first, last)| (first.id, last.id)))
            }
            Step::ReadLive { partitions, .. } => {
                let files = self.files().filter(|f| partitions.contains(&f.partition));
                Fact::Live(files.map(live).collect())
            }
            Step::ReadBuckets { .. } => Fact::Buckets(Vec::new()), // none is counted here
            Step::CheckFiles(_) => Fact::Absent(Vec::new()),       // all are there
            Step::Write(plan) => {
                let delta = plan.delta.map(|changes| DeltaObjects {
                    manifests: Vec::new(),
                    list: self.list(changes),
                    changelog: None,
                });
                Fact::Written(Written {
                    delta,
                    merged: Vec::new(),
                    base_list: self.list(Arc::default()),
                    index: None,
                })
            }
            Step::Publish(draft) => match self.snapshots.iter().find(|s| s.id == draft.id) {
                Some(same) if *same == draft => Fact::ExistsOurs,
                Some(other) => Fact::ExistsTheirs(fact(other)),
                None => {
                    self.snapshots.push(draft); // the one conditional create
                    if std::mem::take(&mut self.loses_answer) {
                        Fact::Unknown
                    } else {
                        Fact::Created
                    }
                }
            },
            Step::Announce(_) => Fact::Announced,
            Step::Delete(_) => Fact::Deleted(Vec::new()),
            Step::BackOff(_) => Fact::Waited,
            Step::Done(_) => unreachable!("the loop ends before"),
        }
    }

    fn list(&mut self, changes: Arc<Changes>) -> ObjectId {
        self.lists.push(changes);
        ObjectId(self.lists.len() as u64)
    }

    /// What readers see: the files of every snapshot.
    fn files(&self) -> impl Iterator<Item = &FileChange> {
        let list = |s: &Draft| self.lists.get(s.delta_list.0 as usize - 1);
        let lists = self.snapshots.iter().filter_map(list);
        lists.flat_map(|changes| &changes.added)
    }
}

fn fact(draft: &Draft) -> SnapshotFact {
    SnapshotFact {
        id: draft.id,
        token: draft.token.clone(),
        user: draft.user.clone(),
        identifier: draft.identifier,
        kind: draft.kind,
        job: draft.job.clone(),
        epoch: draft.epoch,
        digest: Some(draft.digest),
        positions: draft.positions,
        based_on: draft.based_on.clone(),
        empty: draft.empty,
    }
}

fn base(draft: &Draft) -> BaseFact {
    BaseFact {
        snapshot: fact(draft),
        time_millis: draft.time_millis,
        total_records: Some(draft.total_records),
        watermark: draft.watermark,
        index: draft.index,
        statistics: None,
        next_row_id: draft.next_row_id,
        manifests: Arc::new([]),
    }
}

fn live(file: &FileChange) -> LiveFile {
    LiveFile {
        file: file.file,
        partition: file.partition,
        bucket: file.bucket,
        total_buckets: file.total_buckets,
        place: file.place.clone(),
        vectors: false,
    }
}

/// The driver: all of it.
fn commit(table: &mut Table, committable: Committable) -> Result<Outcome, OutOfTurn> {
    let ledger = Ledger::new(committable.user.clone(), None); // nothing remembered, as after a restart
    let mut attempt = Attempt::new(Arc::new(committable), ledger, Settings::default());
    loop {
        match attempt.next() {
            Step::Done(outcome) => return Ok(outcome),
            step => attempt.observe(table.carry_out(step))?,
        }
    }
}

/// 100 rows in one file, as a checkpoint of a job.
fn checkpoint(number: u8, file: u64) -> Result<Committable, Box<dyn Error>> {
    let file = FileChange {
        file: FileId(file),
        partition: PartitionId(0),
        bucket: BucketId(0),
        total_buckets: -1,
        rows: 100,
        place: None,
        lifted: false,
    };
    Ok(Committable {
        user: CommitUser::new("orders-7f3a")?,
        identifier: CommitIdentifier(number.into()),
        digest: Digest([file.file.0 as u8; 32]),
        job: None,
        epoch: None,
        restored: false,
        seen: Seen::Unknown,
        positions: None,
        replaces: None,
        watermark: None,
        append: Changes {
            added: vec![file],
            ..Changes::default()
        },
        compact: Changes::default(),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut table = Table::default();
    let show = |what: &str, table: &mut Table, committable| -> Result<(), Box<dyn Error>> {
        let outcome = commit(table, committable)?;
        let name = format!("{outcome:?}");
        let name = name.split(['(', ' ']).next().unwrap_or_default();
        let rows: i64 = table.files().map(|f| f.rows).sum();
        println!(
            "{what}: {name}, {} snapshots, {rows} rows",
            table.snapshots.len()
        );
        Ok(())
    };
    show("checkpoint 1", &mut table, checkpoint(1, 1)?)?;
    table.loses_answer = true;
    show(
        "checkpoint 2, its answer lost",
        &mut table,
        checkpoint(2, 2)?,
    )?;
    show("checkpoint 2, offered again", &mut table, checkpoint(2, 2)?)?;
    show("other rows as checkpoint 2", &mut table, checkpoint(2, 3)?)?;
    Ok(())
}
