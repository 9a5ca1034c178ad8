//! The commit part of an engine of one's own: writers hand over messages, one task makes a
//! committable of them, saves it, and publishes it. After a restart the saved bytes are offered again,
//! and the table has them once.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::BTreeMap;

use tidegate_commit::{PaimonCommitter, create_table, latest_snapshot, run_prefix};
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataField, DataFileMeta, DataIncrement,
    DataType, FileSource, Level, LogicalType, Options, SchemaId, SimpleStats, TableSchema,
};
use tidegate_sink::{
    CheckpointId, CommitContext, CommitUser, Committable, Committer, Epoch, JobName, Positions,
    Run, Saved,
};
use tidegate_storage::Store;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open_for_write("memory://shop.db/orders", &BTreeMap::new()).await?;
    let columns = vec![DataField::new(
        "id",
        DataType::nullable(LogicalType::BigInt),
    )];
    let schema = TableSchema::create(columns, vec![], vec![], Options::new(), None, 0)?;
    create_table(&store, &schema).await?;

    // The first run writes a file and saves its committable, then dies before it publishes.
    let first = run(1)?;
    let committer = PaimonCommitter::open(store.clone(), first.clone()).await?;
    let file = format!("data-{}0-0.parquet", first.prefix);
    store
        .write_once(&format!("bucket-0/{file}"), "rows".into())
        .await?;
    let context = CommitContext {
        job: first.job.clone(),
        epoch: first.epoch,
        checkpoint: CheckpointId(1),
        positions: Some(Positions {
            active: b"row 100".to_vec(),
            finished: vec![],
        }),
        replaces: None,
        watermark: None,
    };
    let committable = committer.combine_messages(&context, vec![message(file)], 1, 1)?;
    let state: Vec<u8> = committable.to_bytes();
    drop(committer);

    // The second run settles what was saved before it opens a writer.
    let mut committer = PaimonCommitter::open(store.clone(), run(2)?).await?;
    let saved = Saved {
        committables: vec![Committable::from_bytes(&state)?],
        ..Saved::default()
    };
    println!("{:?}", committer.standing(&saved).await?);
    for committable in &saved.committables {
        println!("{:?}", committer.commit(committable).await?);
        println!("{:?}", committer.commit(committable).await?);
    }
    let snapshot = latest_snapshot(&store).await?.ok_or("no snapshot")?;
    assert_eq!((snapshot.id.0, snapshot.total_record_count), (1, Some(100)));
    println!("go on from {:?}", committer.history().await?.positions);
    Ok(())
}

fn run(epoch: u64) -> Result<Run, Box<dyn std::error::Error>> {
    // Random, made once per job, and kept beside the checkpoints in a real engine.
    let user = CommitUser::new("5dacde51-6bf6-4f1c-9d3e-0a5f0f1e2d3c")?;
    let epoch = Epoch(epoch);
    let prefix = run_prefix(&user, epoch);
    Ok(Run {
        job: JobName::new("orders-job")?,
        user,
        epoch,
        prefix,
        restored: None,
    })
}

fn message(file_name: String) -> CommitMessage {
    let file = DataFileMeta {
        file_name,
        file_size: 4,
        row_count: 100,
        min_key: BinaryRow::empty(),
        max_key: BinaryRow::empty(),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: 0,
        max_sequence_number: 99,
        schema_id: SchemaId(0),
        level: Level(0),
        extra_files: vec![],
        creation_time_millis: None,
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(FileSource::Append),
        value_stats_cols: Some(vec![]),
        external_path: None,
        first_row_id: None,
        write_cols: None,
        write_cols_sequences: None,
    };
    CommitMessage {
        partition: BinaryRow::empty(),
        bucket: BucketId(0),
        total_buckets: None,
        data: DataIncrement {
            new_files: vec![file],
            ..DataIncrement::default()
        },
        compact: CompactIncrement::default(),
    }
}
