//! What do checkpoints every two seconds cost a stream that runs at full speed? The same rows with
//! checkpoints by the clock, and with one at the end, in turn; local disk with fsync.
//!
//! ```text
//! checkpoints [ROWS [PAIRS [SECONDS [DIRECTORY]]]]    default 24000000 7 2.0 and a temporary folder
//! ```
//!
//! Wanted (one at the end / every two seconds): 0.97.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use tidegate::Table;
use tidegate_benches::{Failure, Pairs, batches, measure, schema};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

/// Rows held in memory; longer streams repeat them.
const HELD: usize = 2_000_000;

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: usize| args.get(n).map_or(Ok(default), |a| a.parse());
    let (rows, pairs) = (number(0, 24_000_000)?, number(1, 7)?);
    let seconds: f64 = args.get(2).map_or(Ok(2.0), |a| a.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = args.get(3).map_or(temporary.path(), Path::new);
    let held = batches(rows.min(HELD), 100)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let made = Cell::new(0);
    let run = |interval: Option<Duration>| {
        let at = tempfile::tempdir_in(folder)?;
        measure(|| {
            made.set(runtime.block_on(stream(&held, rows, at.path(), interval))?);
            Ok(())
        })
    };
    let checkpoints = Cell::new((usize::MAX, 0));
    let measured = Pairs::run(
        pairs,
        ["off", "on"],
        || run(None),
        || {
            let cost = run(Some(Duration::from_secs_f64(seconds)));
            let (least, most) = checkpoints.get();
            checkpoints.set((least.min(made.get()), most.max(made.get())));
            cost
        },
    )?;
    let (least, most) = checkpoints.get();
    println!("{rows} rows, {pairs} pairs; seconds: median (least to most)");
    println!("checkpoints every {seconds} s on ({least} to {most} of them) and off, wanted 0.97");
    println!("{}", measured.report());
    Ok(())
}

/// Writes the rows and says how many checkpoints it took.
async fn stream(
    held: &[RecordBatch],
    rows: usize,
    folder: &Path,
    interval: Option<Duration>,
) -> Result<usize, Failure> {
    let url = folder.join("table").to_string_lossy().into_owned();
    let table = Table::create_or_open(&url, &schema(&[], &[])?).await?;
    let checkpoints = folder.join("checkpoints");
    let stream = table
        .stream("bench")?
        .checkpoints(&checkpoints.to_string_lossy())?;
    let mut stream = stream.open().await?;
    let (mut written, mut made, mut last) = (0, 0, Instant::now());
    for (n, batch) in held.iter().cycle().enumerate() {
        stream.write(batch, &n.to_be_bytes()).await?;
        written += batch.num_rows();
        if interval.is_some_and(|interval| last.elapsed() >= interval) {
            last = Instant::now();
            stream.checkpoint().await?;
            made += 1;
        }
        if written >= rows {
            break;
        }
    }
    stream.checkpoint().await?;
    Ok(made + 1)
}
