//! What does our writer cost over a bare Parquet writer of equal settings on the same rows? Pairs in
//! turn, CPU-seconds and wall time, on the local disk with fsync on both sides. Our side is the whole
//! way: table made, stream opened, rows written, checkpoint recorded, snapshot committed.
//!
//! ```text
//! append [ROWS [PAIRS [DIRECTORY [CASE]]]]      default 4000000 7, the temporary folder, all cases
//! ```
//!
//! Before that, what the library alone needs for as many files of the same rows, parted beforehand: the
//! bound of every writer that makes such files with it.
//!
//! Wanted (bare / ours): unpartitioned 0.90, 16 buckets 0.75, 100 partitions 0.60.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::Path;

use tidegate_benches::{
    Failure, Pairs, append, bare, bare_files, batches, measure, parted, schema, size_of,
};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let number = |n: usize, default: usize| {
        let text = std::env::args().nth(n);
        text.map_or(Ok(default), |text| text.parse::<usize>())
    };
    let (rows, pairs) = (number(1, 4_000_000)?, number(2, 7)?);
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args().nth(3);
    let folder = folder.as_deref().map_or(temporary.path(), Path::new);
    let only = std::env::args().nth(4).unwrap_or_default();
    let batches = batches(rows, 100)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;

    type Case = (
        &'static str,
        f64,
        &'static [&'static str],
        &'static [(&'static str, &'static str)],
    );
    let cases: [Case; 3] = [
        ("unpartitioned", 0.90, &[], &[]),
        (
            "16 buckets",
            0.75,
            &[],
            &[("bucket", "16"), ("bucket-key", "id")],
        ),
        ("100 partitions", 0.60, &["dt"], &[]),
    ];
    println!("{rows} rows, {pairs} pairs; seconds: median (least to most)");
    // How near any writer can come: the library's own cost of more files of fewer rows each.
    for (name, by_dt) in [
        ("bound of 16 buckets", false),
        ("bound of 100 partitions", true),
    ] {
        if !name.contains(&only) {
            continue;
        }
        let parts = parted(&batches, by_dt)?;
        let measured = Pairs::run(
            pairs,
            ["bare", "files"],
            || {
                let at = tempfile::tempdir_in(folder)?;
                measure(|| bare(&batches, &at.path().join("bare.parquet")))
            },
            || {
                let at = tempfile::tempdir_in(folder)?;
                measure(|| bare_files(&parts, at.path()))
            },
        )?;
        println!("{name}\n{}", measured.report());
    }
    for (name, wanted, partition, options) in cases {
        if !name.contains(&only) {
            continue;
        }
        let schema = schema(partition, options)?;
        let mut sizes = [(0, 0); 2];
        // Kept to the end: ext4 looks twice at inodes that were deleted a moment ago.
        let mut written = Vec::new();
        let mut run = |ours: bool| {
            let at = tempfile::tempdir_in(folder)?;
            let cost = measure(|| {
                if ours {
                    runtime.block_on(append(&batches, at.path(), &schema))
                } else {
                    bare(&batches, &at.path().join("bare.parquet"))
                }
            })?;
            let size = size_of(at.path(), ".parquet")?;
            let [bare, own] = &mut sizes;
            *(if ours { own } else { bare }) = size;
            written.push(at);
            Ok(cost)
        };
        let run = std::cell::RefCell::new(&mut run);
        let measured = Pairs::run(
            pairs,
            ["bare", "ours"],
            || (run.borrow_mut())(false),
            || (run.borrow_mut())(true),
        )?;
        println!("{name}, wanted {wanted:.2}\n{}", measured.report());
        let [(_, bare), (files, ours)] = sizes;
        println!("  bytes bare {bare} in 1 file, ours {ours} in {files}");
    }
    Ok(())
}
