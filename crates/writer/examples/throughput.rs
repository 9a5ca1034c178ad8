//! Rows per CPU-second of the writer alone, without a disk: unpartitioned, buckets, partitions.
//!
//! ```console
//! $ cargo run --release -p tidegate-writer --example throughput -- [rows] [rounds] [case]
//! ```

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tidegate_model::{BucketView, DataField, Options, TableSchema, WritePlan};
use tidegate_sink::{BoxFuture, SinkError};
use tidegate_storage::Store;
use tidegate_writer::{AppendWriter, BucketViews, GroupKey, MemoryBudget, Router, WriterOptions};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

type Failure = Box<dyn Error + Send + Sync>;
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let number = |n: usize, default: usize| {
        std::env::args()
            .nth(n)
            .map_or(Ok(default), |text| text.parse::<usize>())
    };
    let (rows, rounds) = (number(1, 2_000_000)?, number(2, 3)?);
    let batches = batches(rows)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let cases: [Case; 3] = [
        ("unpartitioned", &[], &[]),
        ("16 buckets", &[], &[("bucket", "16"), ("bucket-key", "id")]),
        ("100 partitions", &["dt"], &[]),
    ];
    let only = std::env::args().nth(3).unwrap_or_default();
    for (name, partition, options) in cases.into_iter().filter(|(name, ..)| name.contains(&only)) {
        let schema = schema(partition, options)?;
        for _ in 0..rounds {
            let (cpu, wall) = (cpu_seconds()?, Instant::now());
            let mut router = Router::new(&schema)?;
            for batch in &batches {
                router.route(batch)?;
            }
            let routing = cpu_seconds()? - cpu;
            let routed = wall.elapsed();
            let cpu = cpu_seconds()?;
            runtime.block_on(write(&batches, &schema))?;
            println!(
                "{name}: CPU {:.2} s, wall {:.2} s; routing alone {routing:.2} s",
                cpu_seconds()? - cpu,
                (wall.elapsed() - routed).as_secs_f64()
            );
        }
    }
    Ok(())
}

async fn write(batches: &[RecordBatch], schema: &TableSchema) -> Result<(), Failure> {
    let plan = WritePlan {
        schema: Arc::new(schema.clone()),
        file_prefix: "data-".to_owned(),
    };
    let store = Store::open("memory://throughput", &BTreeMap::new())?;
    let budget = MemoryBudget::new(512 << 20);
    let views: Arc<dyn BucketViews> = Arc::new(NewTable);
    let mut writer =
        AppendWriter::open(&plan, store, Some(views), &budget, WriterOptions::default())?;
    for batch in batches {
        writer.write(batch).await?;
    }
    writer.prepare().await?;
    // Nothing refers to the files: the memory is for the next round.
    Ok(())
}

struct NewTable;

impl BucketViews for NewTable {
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        let view = |key: &GroupKey| BucketView {
            base: None,
            partition: key.partition.clone(),
            bucket: key.bucket,
            total_buckets: None,
            files: Vec::new(),
            index_files: Vec::new(),
            max_sequence_number: None,
            newest_committed: None,
        };
        let views = buckets.iter().map(view).collect();
        Box::pin(async move { Ok(views) })
    }
}

fn schema(partition: &[&str], options: &[(&str, &str)]) -> Result<TableSchema, Failure> {
    let columns = vec![
        DataField::new("id", "BIGINT".parse()?),
        DataField::new("name", "STRING".parse()?),
        DataField::new("amount", "DOUBLE".parse()?),
        DataField::new("dt", "STRING".parse()?),
    ];
    let partition = partition.iter().map(|p| (*p).to_owned()).collect();
    let options: Options = options.iter().copied().collect();
    Ok(TableSchema::create(
        columns,
        partition,
        vec![],
        options,
        None,
        0,
    )?)
}

fn batches(rows: usize) -> Result<Vec<RecordBatch>, Failure> {
    let mut random = SmallRng::seed_from_u64(1);
    let mut id = 0i64;
    let mut batches = Vec::new();
    for first in (0..rows).step_by(8192) {
        let count = 8192.min(rows - first);
        let ids = Int64Array::from_iter_values((0..count).map(|_| {
            id += random.random_range(1..5);
            id
        }));
        let names: StringArray = ids
            .values()
            .iter()
            .map(|id| Some(format!("name-{id:07}")))
            .collect();
        let amounts = Float64Array::from_iter_values(
            (0..count).map(|_| f64::from(random.random_range(0..1_000_000)) / 100.0),
        );
        let dts: StringArray = (0..count)
            .map(|_| Some(format!("2024-{:03}", random.random_range(0..100))))
            .collect();
        batches.push(RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(ids) as ArrayRef, true),
            ("name", Arc::new(names) as ArrayRef, true),
            ("amount", Arc::new(amounts) as ArrayRef, true),
            ("dt", Arc::new(dts) as ArrayRef, true),
        ])?);
    }
    Ok(batches)
}

/// CPU time of all threads of this process, counted to 10 ms.
fn cpu_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = after.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next().unwrap_or_default().parse::<f64>();
    Ok((ticks()? + ticks()?) / 100.0)
}
