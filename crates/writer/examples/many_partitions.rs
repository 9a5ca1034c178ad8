//! Writes rows of many partitions in random order under a small budget and prints what it took.
//!
//! ```console
//! $ cargo run --release -p tidegate-writer --example many_partitions -- [budget MiB] [partitions] [budgets of data]
//! ```
//!
//! The bound of the project: peak RSS at most 1.1 budgets + 64 MiB, and one file per partition.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tidegate_model::{DataField, DataType, FieldId, LogicalType, Options, TableSchema, WritePlan};
use tidegate_storage::Store;
use tidegate_writer::{AppendWriter, MemoryBudget, WriterOptions};

/// As in the binary. glibc's allocator keeps up to 200 MiB more here, in the arenas of threads that are
/// done; `MALLOC_ARENA_MAX=1` cures that too.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

fn main() -> Result<(), Box<dyn Error>> {
    tidegate_allocator::keep_freed_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let argument = |n: usize, default: usize| {
        std::env::args()
            .nth(n)
            .map_or(Ok(default), |text| text.parse::<usize>())
    };
    let budget_bytes = argument(1, 256)? << 20;
    let partitions = argument(2, 5_000)?;
    let bytes_wanted = argument(3, 4)? * budget_bytes;

    let folder = tempfile::tempdir()?;
    let store = Store::open(
        &format!("file://{}", folder.path().display()),
        &BTreeMap::new(),
    )?;
    let plan = WritePlan {
        schema: Arc::new(schema()?),
        file_prefix: "data-".to_owned(),
    };
    let budget = MemoryBudget::new(budget_bytes);
    let options = WriterOptions {
        spill_directory: folder.path().join("spill"),
        ..WriterOptions::default()
    };
    let mut writer = AppendWriter::open(&plan, store, None, &budget, options)?;

    let mut random = SmallRng::seed_from_u64(1);
    let (mut bytes, mut rows) = (0, 0);
    let begin = Instant::now();
    while bytes < bytes_wanted {
        let batch = batch(&mut random, rows, partitions)?;
        bytes += batch.get_array_memory_size();
        rows += batch.num_rows() as i64;
        writer.write(&batch).await?;
    }
    let written = begin.elapsed();
    println!("peak RSS before the barrier {} MiB", peak_rss()? >> 20);
    let messages = writer.prepare().await?;
    let files: usize = messages.iter().map(|m| m.data.new_files.len()).sum();
    let metrics = writer.metrics();
    println!(
        "{rows} rows, {} MiB of batches, {} partitions",
        bytes >> 20,
        messages.len()
    );
    println!(
        "taken in {written:.1?}, handed over after {:.1?}",
        begin.elapsed()
    );
    println!("{files} files of {} MiB in all", metrics.bytes >> 20);
    println!(
        "{} runs of {} MiB in all",
        metrics.spilled_runs,
        metrics.spilled_bytes >> 20
    );
    println!("budget {:?}", budget.metrics());
    let allowed = budget_bytes + budget_bytes / 10 + (64 << 20);
    println!(
        "peak RSS {} MiB, allowed {} MiB",
        peak_rss()? >> 20,
        allowed >> 20
    );
    if peak_rss()? > allowed || files > messages.len() {
        return Err("the bound does not hold".into());
    }
    Ok(())
}

fn schema() -> Result<TableSchema, Box<dyn Error>> {
    let string = LogicalType::VarChar(2_147_483_647);
    let columns = [
        ("id", LogicalType::BigInt),
        ("name", string.clone()),
        ("amount", LogicalType::Double),
        ("dt", string),
    ];
    let fields = columns.map(|(name, logical)| DataField {
        id: FieldId(0),
        name: name.to_owned(),
        data_type: DataType {
            logical,
            nullable: true,
        },
        description: None,
        default_value: None,
    });
    Ok(TableSchema::create(
        fields.into(),
        vec!["dt".into()],
        vec![],
        Options::new(),
        None,
        0,
    )?)
}

fn batch(
    random: &mut SmallRng,
    first: i64,
    partitions: usize,
) -> Result<RecordBatch, Box<dyn Error>> {
    let rows = 8192;
    let ids = Int64Array::from_iter_values(first..first + rows);
    let mut name = String::new();
    let names: StringArray = (0..rows)
        .map(|_| {
            name.clear();
            name.extend((0..100).map(|_| char::from(random.random_range(b'a'..=b'z'))));
            Some(name.clone())
        })
        .collect();
    let amounts = Float64Array::from_iter_values((0..rows).map(|_| random.random::<f64>()));
    let dts: StringArray = (0..rows)
        .map(|_| Some(format!("day-{}", random.random_range(0..partitions))))
        .collect();
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, true),
        ("name", Arc::new(names) as ArrayRef, true),
        ("amount", Arc::new(amounts) as ArrayRef, true),
        ("dt", Arc::new(dts) as ArrayRef, true),
    ])?)
}

/// `VmHWM` of this process in bytes.
fn peak_rss() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let text = line.ok_or("no VmHWM in /proc/self/status")?;
    Ok(text.trim().trim_end_matches("kB").trim().parse::<usize>()? << 10)
}
