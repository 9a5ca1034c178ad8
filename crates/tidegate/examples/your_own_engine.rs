//! An engine of one's own: two writer tasks, one committer, state that survives a crash.
//!
//! ```text
//! cargo run -p tidegate --example your_own_engine
//! ```
//!
//! The engine keeps values of its own: the commit user, the newest committable as bytes, and what was
//! published before it. It "crashes" where a naive sink loses or doubles rows: the checkpoint is complete and its commit is not
//! begun. The table has fixed buckets, whose writers go on from what the table holds: they open after
//! recovery.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use tidegate::commit::run_prefix;
use tidegate::model::{DataField, Options, TableSchema};
use tidegate::recovery::{RestoreOnly, new_commit_user};
use tidegate::sink::{
    CheckpointId, CommitContext, CommitUser, Committable, Epoch, JobName, Message, Positions,
    Published, RecoveryManager, Restored, Rows, Run, Saved, Target,
};
use tidegate::{Table, TableTarget, TargetOptions};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What survives the engine.
#[derive(Default)]
struct State {
    user: Option<CommitUser>,
    epoch: u64,
    /// The newest checkpoint, and what was published before it.
    committable: Option<Vec<u8>>,
    published: Option<Published>,
}

/// One life of the engine: recovers, then writes 1,000 rows as one checkpoint and commits it.
async fn live(target: &TableTarget, state: &mut State, crash: bool) -> Result<()> {
    let user = state.user.get_or_insert_with(new_commit_user).clone();
    state.epoch += 1;
    let epoch = Epoch(state.epoch);
    let run = Run {
        job: JobName::new("orders-job")?,
        prefix: run_prefix(&user, epoch),
        user,
        epoch,
        restored: None,
    };

    // After a restart, before any writer opens.
    let mut committer = target.committer(&run).await?;
    let bytes = state.committable.iter();
    let saved = Saved {
        committables: bytes
            .map(|b| Committable::from_bytes(b))
            .collect::<std::result::Result<_, _>>()?,
        newest_published: state.published.clone(),
        ..Saved::default()
    };
    let newest = match RestoreOnly::new(&mut *committer).restore(&saved).await? {
        Restored::Continue { published, skipped } => {
            println!(
                "epoch {epoch}: {} committables saved, {} published now, {} found published",
                saved.committables.len(),
                published.len(),
                skipped.len()
            );
            published.last().or(skipped.last()).cloned()
        }
        stopped => return Err(format!("{stopped:?}").into()),
    };
    let positions = committer.history().await?.positions;
    let first = match &positions {
        Some(positions) => std::str::from_utf8(&positions.active)?.parse()?,
        None => 0_i64,
    };

    // Every task: rows in; before the barrier, files closed and durable.
    let mut tasks = target.writers(&run, 2).await?;
    let ids = Arc::new(Int64Array::from_iter_values(first..first + 1_000));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids as _, true)])?;
    for (task, rows) in tasks.router.route(0, Rows::inserts(batch))? {
        let writer = tasks.writers.get_mut(task).ok_or("no such task")?;
        writer.write(rows).await?;
    }
    let mut messages: Vec<Message> = Vec::new();
    for writer in &mut tasks.writers {
        messages.extend(writer.prepare().await?);
    }

    // One task: all reports of a checkpoint become one value, which the engine saves.
    let context = CommitContext {
        job: run.job.clone(),
        epoch,
        checkpoint: CheckpointId(state.epoch),
        positions: Some(Positions {
            active: (first + 1_000).to_string().into_bytes(),
            finished: Vec::new(),
        }),
        replaces: positions,
        watermark: None,
    };
    let committable = committer.combine(&context, messages, 2, 2)?;
    state.committable = Some(committable.to_bytes()); // the checkpoint is complete
    state.published = newest;
    if crash {
        println!("epoch {epoch}: rows {first}.. saved, and the engine is gone");
        return Ok(());
    }
    println!(
        "epoch {epoch}: rows {first}.. {:?}",
        committer.commit(&committable).await?
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let columns = vec![DataField::new("id", "BIGINT".parse()?)];
    let options: Options = [("bucket", "4"), ("bucket-key", "id")]
        .into_iter()
        .collect();
    let schema = TableSchema::create(columns, vec![], vec![], options, None, 0)?;
    let table = Table::create_or_open("memory://lake/shop.db/orders", &schema).await?;
    let target = table.target(TargetOptions::default())?;

    let mut state = State::default();
    for crash in [false, true, true, false] {
        live(&target, &mut state, crash).await?;
    }
    let plan = table.scan(&Default::default()).await?;
    // Of a table with a primary key only reading tells.
    if let Some(rows) = plan.row_count() {
        println!(
            "{rows} rows in {} snapshots",
            table.snapshots().await?.len()
        );
    }
    Ok(())
}
