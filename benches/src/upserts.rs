//! Upserts for benchmarks of keyed tables, and ways of ours to bring them into a table.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tidegate::model::{DataField, Options, TableSchema};
use tidegate::scan::At;
use tidegate::{CompactOptions, Table};

use crate::Failure;

/// The columns of [`crate::batches`], `id` of each row at random below `keys`; in batches of 8,192. Names
/// go with ids, amounts and days do not.
///
/// # Errors
/// None in practice.
pub fn upserts(rows: usize, keys: i64) -> Result<Vec<RecordBatch>, Failure> {
    let mut random = SmallRng::seed_from_u64(2);
    let mut batches = Vec::new();
    for first in (0..rows).step_by(8192) {
        let count = 8192.min(rows - first);
        let ids = Int64Array::from_iter_values((0..count).map(|_| random.random_range(0..keys)));
        let names = ids.values().iter().map(|id| Some(format!("name-{id:07}")));
        let names: StringArray = names.collect();
        let cents = (0..count).map(|_| random.random_range(0..1_000_000));
        let amounts = Float64Array::from_iter_values(cents.map(|cents| f64::from(cents) / 100.0));
        let dts = (0..count).map(|_| Some(format!("2024-{:03}", random.random_range(0..100))));
        let dts: StringArray = dts.collect();
        let columns = [
            ("id", Arc::new(ids) as ArrayRef, false),
            ("name", Arc::new(names) as ArrayRef, true),
            ("amount", Arc::new(amounts) as ArrayRef, true),
            ("dt", Arc::new(dts) as ArrayRef, true),
        ];
        batches.push(RecordBatch::try_from_iter_with_nullable(columns)?);
    }
    Ok(batches)
}

/// The schema of [`upserts`], key `id`.
///
/// # Errors
/// Options that are none.
pub fn keyed_schema(options: &[(&str, &str)]) -> Result<TableSchema, Failure> {
    let columns = vec![
        DataField::new("id", "BIGINT NOT NULL".parse()?),
        DataField::new("name", "STRING".parse()?),
        DataField::new("amount", "DOUBLE".parse()?),
        DataField::new("dt", "STRING".parse()?),
    ];
    let options: Options = options.iter().copied().collect();
    let key = vec!["id".to_owned()];
    Ok(TableSchema::create(columns, vec![], key, options, None, 0)?)
}

/// Which batches belong to which of `commits` commits: equal parts, in order.
pub fn parts(batches: &[RecordBatch], commits: usize) -> impl Iterator<Item = &[RecordBatch]> {
    batches.chunks(batches.len().div_ceil(commits.max(1)).max(1))
}

/// The whole way into a table that exists or is made: a stream is opened, all rows are written and
/// committed in so many parts; `full` merges every bucket into one sorted run at the end.
///
/// # Errors
/// Those of the store.
pub async fn upsert(
    batches: &[RecordBatch],
    folder: &Path,
    schema: &TableSchema,
    commits: usize,
    full: bool,
) -> Result<Table, Failure> {
    let table = Table::create_or_open(&folder.join("table").to_string_lossy(), schema).await?;
    let checkpoints = folder.join("checkpoints");
    let stream = table
        .stream("bench")?
        .checkpoints(&checkpoints.to_string_lossy())?;
    let mut stream = stream.open().await?;
    let mut position = 0u64;
    for part in parts(batches, commits) {
        for batch in part {
            position += 1;
            stream.write(batch, &position.to_be_bytes()).await?;
        }
        stream.checkpoint().await?;
    }
    stream.finish().await?;
    if full {
        let options = CompactOptions {
            full: true,
            ..CompactOptions::default()
        };
        Box::pin(table.compact("bench-compaction", options)).await?;
    }
    Ok(table)
}

/// Reads all rows of the newest snapshot, all columns, and counts them.
///
/// # Errors
/// Those of the store and of the files.
pub async fn count(table: &Table) -> Result<usize, Failure> {
    let plan = table.scan(&At::Latest).await?;
    let mut batches = plan.read()?;
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += batch.num_rows();
    }
    Ok(rows)
}
