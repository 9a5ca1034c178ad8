//! Our writer against others on the same rows: the `paimon` crate and, where its jars are at hand,
//! released Java Paimon. Pairs in turn, CPU-seconds and wall time, every file synced on both sides.
//! Sizes of the data files are compared as well.
//!
//! ```text
//! peers [ROWS [PAIRS [FOLDER-OF-JARS]]]      default 2000000 7 and what TIDEGATE_PAIMON_JARS names
//! ```
//!
//! Java runs in one process that is warm: what its start and its compiler take is not counted, beyond
//! what is still compiled after the first write.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::HashMap;

use tidegate_bench_peers::{CrateTable, Java};
use tidegate_benches::{Cost, Failure, Pairs, append, bare, batches, measure, schema, size_of};

/// As in our binary, for both sides.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: usize| args.get(n).map_or(Ok(default), |a| a.parse());
    let (rows, pairs) = (number(0, 2_000_000)?, number(1, 7)?);
    let jars = args.get(2).cloned();
    let jars = jars.or_else(|| std::env::var("TIDEGATE_PAIMON_JARS").ok());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;
    println!("{rows} rows, {pairs} pairs; seconds: median (least to most)");
    for (name, days, partition) in [
        ("unpartitioned", 365, &[] as &[&str]),
        ("28 partitions", 28, &["dt"]),
    ] {
        let batches = batches(rows, days)?;
        let mut java = match &jars {
            Some(jars) => Some(Java::start(jars, &batches, folder.path())?),
            None => None,
        };
        let mut sizes: HashMap<&str, (usize, u64)> = HashMap::new();
        let mut once = |who: &'static str| -> Result<Cost, Failure> {
            let at = tempfile::tempdir_in(folder.path())?;
            let cost = match (who, &mut java) {
                ("Java", Some(java)) => java.run(at.path(), partition)?,
                ("crate", _) => {
                    measure(|| {
                        runtime.block_on(async {
                            let table = CrateTable::create(at.path(), partition, &[], &[]).await?;
                            table.write(&batches, 1).await
                        })
                    })?
                }
                ("bare", _) => measure(|| bare(&batches, &at.path().join("bare.parquet")))?,
                _ => {
                    let schema = schema(partition, &[])?;
                    measure(|| runtime.block_on(append(&batches, at.path(), &schema)))?
                }
            };
            sizes.insert(who, size_of(at.path(), ".parquet")?);
            Ok(cost)
        };
        println!("{name}, {days} values of dt");
        for peer in ["bare", "crate", "Java"] {
            if peer == "Java" && jars.is_none() {
                println!("  Java left out: TIDEGATE_PAIMON_JARS names no folder of jars");
                continue;
            }
            let once = std::cell::RefCell::new(&mut once);
            let measured = Pairs::run(
                pairs,
                [peer, "ours"],
                || (once.borrow_mut())(peer),
                || (once.borrow_mut())("ours"),
            )?;
            println!("{}", measured.report());
        }
        for who in ["bare", "crate", "Java", "ours"] {
            if let Some((files, bytes)) = sizes.get(who) {
                println!("  data files of {who}: {bytes} bytes in {files}");
            }
        }
    }
    Ok(())
}
