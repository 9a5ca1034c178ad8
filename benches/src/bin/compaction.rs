//! What does a full compaction cost over decoding what it reads and encoding what it writes? Pairs in
//! turn, CPU-seconds and wall time, files synced on both sides. The bare side decodes the same input files
//! whole by the Parquet library, and encodes the rows of the same output files with equal settings.
//!
//! ```text
//! compaction [ROWS [KEYS [PAIRS [DIRECTORY]]]]      default 5000000 1000000 7, the temporary folder
//! ```
//!
//! Two buckets, five overlapping sorted runs each. Wanted (bare / ours): 0.6.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tidegate::{CompactOptions, Table};
use tidegate_benches::{Failure, Pairs, bare, keyed_schema, measure, upsert, upserts};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

/// Sorted runs of a bucket.
const RUNS: usize = 5;

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let number = |n: usize, default: usize| {
        let text = std::env::args().nth(n);
        text.map_or(Ok(default), |text| text.parse::<usize>())
    };
    let (rows, keys, pairs) = (number(1, 5_000_000)?, number(2, 1_000_000)?, number(3, 7)?);
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args().nth(4);
    let folder = folder.as_deref().map_or(temporary.path(), Path::new);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let batches = upserts(rows, i64::try_from(keys)?)?;
    let schema = keyed_schema(&[("write-only", "true"), ("bucket", "2")])?;
    let made = tempfile::tempdir_in(folder)?;
    runtime.block_on(upsert(&batches, made.path(), &schema, RUNS, false))?;
    drop(batches);
    let input = data_files(&made.path().join("table"))?;

    let compact = |at: &Path| -> Result<(), Failure> {
        runtime.block_on(async {
            let table = Table::open(&at.join("table").to_string_lossy()).await?;
            let options = CompactOptions {
                full: true,
                ..CompactOptions::default()
            };
            let report = Box::pin(table.compact("compaction", options)).await?;
            match report.compacted {
                2 => Ok(()),
                other => Err(format!("{other} buckets compacted").into()),
            }
        })
    };
    // Once, for the rows that come out.
    let once = copy_of(made.path(), folder)?;
    compact(once.path())?;
    let mut output = data_files(&once.path().join("table"))?;
    output.retain(|file| !input.iter().any(|i| i.file_name() == file.file_name()));
    let output: Vec<Vec<RecordBatch>> =
        output.iter().map(|f| decode(f)).collect::<Result<_, _>>()?;
    let came: usize = output.iter().flatten().map(RecordBatch::num_rows).sum();

    let measured = Pairs::run(
        pairs,
        ["bare", "ours"],
        || {
            let at = tempfile::tempdir_in(folder)?;
            measure(|| {
                for file in &input {
                    drop(decode(file)?);
                }
                for (n, rows) in output.iter().enumerate() {
                    bare(rows, &at.path().join(format!("{n}.parquet")))?;
                }
                Ok(())
            })
        },
        || {
            let at = copy_of(made.path(), folder)?;
            measure(|| compact(at.path()))
        },
    )?;
    println!(
        "{rows} rows in {} files, {came} rows in {} files came out, {pairs} pairs; seconds: median (least to most)",
        input.len(),
        output.len()
    );
    println!("{}", measured.report());
    Ok(())
}

fn decode(file: &Path) -> Result<Vec<RecordBatch>, Failure> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
    let reader = reader.with_batch_size(8192).build()?;
    Ok(reader.collect::<Result<_, _>>()?)
}

fn data_files(table: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for bucket in std::fs::read_dir(table)? {
        let bucket = bucket?;
        if bucket.file_name().to_string_lossy().starts_with("bucket-") {
            for file in std::fs::read_dir(bucket.path())? {
                files.push(file?.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The table again, its files being the same ones on the disk.
fn copy_of(from: &Path, folder: &Path) -> Result<tempfile::TempDir, Failure> {
    let at = tempfile::tempdir_in(folder)?;
    link(&from.join("table"), &at.path().join("table"))?;
    Ok(at)
}

fn link(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link(&entry.path(), &target)?;
        } else if entry.file_name().to_string_lossy().ends_with(".parquet") {
            // Never written again; everything else may be.
            std::fs::hard_link(entry.path(), target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
