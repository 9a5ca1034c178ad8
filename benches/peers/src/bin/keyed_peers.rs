//! Upserts into a keyed table, and reading it back, against the `paimon` crate and, where its jars are at
//! hand, released Java Paimon. Pairs in turn, CPU-seconds and wall time, every file synced on both sides.
//!
//! ```text
//! keyed_peers [ROWS [KEYS [PAIRS [CASE]]]]      default 10000000 1000000 7, all cases
//! ```
//!
//! Two buckets, a commit for each tenth of the rows. Cases: `write` (`write-only`: no compaction on any
//! side), `changelog` (the same with `changelog-producer = input`), `merged` (compaction while writing, and
//! at the end all to one sorted run per bucket), `read` (merge on read of five overlapping runs).
//!
//! Java's jars stand where `TIDEGATE_PAIMON_JARS` says. It runs in one process that is warm.
//!
//! Wanted (peer / ours): crate 2, Java 5, reading 1.5.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::cell::RefCell;
use std::collections::HashMap;

use tidegate::Table;
use tidegate_bench_peers::{CrateTable, Java};
use tidegate_benches::{
    Cost, Failure, Pairs, count, keyed_schema, measure, size_of, upsert, upserts,
};

/// As in our binary, for both sides.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

/// Commits of a run.
const COMMITS: usize = 10;
/// Sorted runs that a read merges.
const RUNS: usize = 5;

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: usize| args.get(n).map_or(Ok(default), |a| a.parse());
    let (rows, keys, pairs) = (number(0, 10_000_000)?, number(1, 1_000_000)?, number(2, 7)?);
    let only = args.get(3).map_or("", String::as_str);
    let jars = std::env::var("TIDEGATE_PAIMON_JARS").ok();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    println!("{rows} rows, {keys} keys, {pairs} pairs; seconds: median (least to most)");
    let keys = i64::try_from(keys)?;
    let writing: [(&str, bool, &[(&str, &str)]); 3] = [
        ("write", false, &[("write-only", "true")]),
        (
            "changelog",
            false,
            &[("write-only", "true"), ("changelog-producer", "input")],
        ),
        ("merged", true, &[]),
    ];
    let folder = tempfile::tempdir()?;
    let batches = upserts(rows, keys)?;
    let mut java = match &jars {
        Some(jars) if only != "read" => Some(Java::start(jars, &batches, folder.path())?),
        _ => None,
    };
    for (name, full, options) in writing {
        if !name.contains(only) {
            continue;
        }
        let mut options = options.to_vec();
        options.push(("bucket", "2"));
        let schema = keyed_schema(&options)?;
        let mut sizes: HashMap<&str, (usize, u64)> = HashMap::new();
        let mut once = |who: &'static str| -> Result<Cost, Failure> {
            let at = tempfile::tempdir_in(folder.path())?;
            let cost = match (who, &mut java) {
                ("Java", Some(java)) => {
                    let mut words = vec!["key=id".to_owned(), format!("commits={COMMITS}")];
                    words.extend(options.iter().map(|(k, v)| format!("{k}={v}")));
                    words.extend(full.then(|| "full".to_owned()));
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    java.run(at.path(), &words)?
                }
                ("crate", _) => measure(|| {
                    runtime.block_on(async {
                        let table = CrateTable::create(at.path(), &[], &["id"], &options).await?;
                        table.write(&batches, COMMITS).await
                    })
                })?,
                _ => measure(|| {
                    runtime
                        .block_on(upsert(&batches, at.path(), &schema, COMMITS, full))
                        .map(drop)
                })?,
            };
            sizes.insert(who, size_of(at.path(), ".parquet")?);
            Ok(cost)
        };
        println!("{name}");
        for peer in ["crate", "Java"] {
            // The crate does not compact.
            if (peer == "crate" && full) || (peer == "Java" && jars.is_none()) {
                println!("  {peer} left out");
                continue;
            }
            let once = RefCell::new(&mut once);
            let measured = Pairs::run(
                pairs,
                [peer, "ours"],
                || (once.borrow_mut())(peer),
                || (once.borrow_mut())("ours"),
            )?;
            println!("{}", measured.report());
        }
        for who in ["crate", "Java", "ours"] {
            if let Some((files, bytes)) = sizes.get(who) {
                println!("  Parquet files of {who}: {bytes} bytes in {files}");
            }
        }
    }
    if "read".contains(only) {
        let half = usize::try_from(keys)? / 2;
        read(&runtime, half * RUNS, keys, pairs)?;
    }
    Ok(())
}

/// Both read the same table, which ours has written: each run holds about two fifths of the keys.
fn read(
    runtime: &tokio::runtime::Runtime,
    rows: usize,
    keys: i64,
    pairs: usize,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let batches = upserts(rows, keys)?;
    let schema = keyed_schema(&[("write-only", "true"), ("bucket", "2")])?;
    // Where the crate's catalog looks for it.
    let database = folder.path().join("db.db");
    runtime.block_on(upsert(&batches, &database, &schema, RUNS, false))?;
    std::fs::rename(database.join("table"), database.join("t"))?;
    let ours = runtime.block_on(Table::open(&database.join("t").to_string_lossy()))?;
    let theirs = runtime.block_on(CrateTable::open(folder.path()))?;
    let counts = RefCell::new([0, 0]);
    let measured = Pairs::run(
        pairs,
        ["crate", "ours"],
        || {
            measure(|| {
                counts.borrow_mut()[0] = runtime.block_on(theirs.count())?;
                Ok(())
            })
        },
        || {
            measure(|| {
                counts.borrow_mut()[1] = runtime.block_on(count(&ours))?;
                Ok(())
            })
        },
    )?;
    let [a, b] = *counts.borrow();
    if a != b {
        return Err(format!("the crate reads {a} rows, ours {b}").into());
    }
    println!("read: {rows} rows in {RUNS} runs, {b} remain");
    println!("{}", measured.report());
    Ok(())
}
