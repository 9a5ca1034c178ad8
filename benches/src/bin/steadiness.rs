//! Does a keyed table take rows evenly while it is compacted? An engine of ours with a generator at full
//! speed, on the local disk: rows taken between two checkpoints, and the time from a barrier to its visible
//! snapshot.
//!
//! ```text
//! steadiness [SECONDS [INTERVAL [KEYS [DIRECTORY [OPTION=VALUE...]]]]]      default 180 10 1000000
//! ```
//!
//! Wanted: the slowest interval at least 0.7 of the median one, barrier to snapshot at most 1 s at p99.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::datafile::arrow_schema;
use tidegate::recovery::CheckpointStore;
use tidegate::sink::JobName;
use tidegate::storage::Store;
use tidegate::{Table, TargetOptions};
use tidegate_benches::{Failure, keyed_schema, percentile, spread};
use tidegate_runtime::source::generator::{GeneratorConfig, GeneratorSource, Rule};
use tidegate_runtime::{CheckpointSettings, Job, Settings, Stop};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

/// What was seen of one checkpoint.
#[derive(Clone, Copy)]
struct Seen {
    begun: Instant,
    rows: u64,
    visible: Option<Instant>,
}

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| args.get(n).map_or(Ok(default), |a| a.parse());
    let (seconds, interval, keys) = (number(0, 180)?, number(1, 10)?, number(2, 1_000_000)?);
    let temporary = tempfile::tempdir()?;
    let folder = args
        .get(3)
        .map_or(temporary.path().to_owned(), PathBuf::from);
    let mut options = vec![("bucket", "2")];
    options.extend(args.iter().skip(4).filter_map(|a| a.split_once('=')));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let seen = runtime.block_on(watch(
        &folder,
        &options,
        Duration::from_secs(seconds),
        Duration::from_secs(interval),
        keys,
    ))?;
    report(&seen);
    Ok(())
}

async fn watch(
    folder: &Path,
    options: &[(&str, &str)],
    long: Duration,
    interval: Duration,
    keys: u64,
) -> Result<Vec<Seen>, Failure> {
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let schema = keyed_schema(options)?;
    let table = Table::create_or_open(&at("table"), &schema).await?;
    let last = (keys.max(1) - 1).to_string();
    let random = |max: &str| Rule::Random {
        min: "0".to_owned(),
        max: max.to_owned(),
    };
    let rules = [
        ("id", random(&last)),
        ("name", Rule::Template("name-{id}".to_owned())),
        ("amount", random("10000")),
        ("dt", Rule::Constant("2024-001".to_owned())),
    ];
    let config = GeneratorConfig {
        rows: None,
        rate: None,
        seed: 1,
        columns: rules.map(|(name, rule)| (name.to_owned(), rule)).into(),
    };
    let source = GeneratorSource::new(Arc::new(arrow_schema(&schema.fields)?), config)?;
    let job = Job::builder(JobName::new("steadiness").map_err(|e| e.0)?)
        .source(source)
        .registry(table.jobs())
        .target(Arc::new(table.target(TargetOptions::default())?))
        .checkpoints(CheckpointStore::new(Store::open(
            &at("checkpoints"),
            &std::collections::BTreeMap::new(),
        )?))
        .settings(Settings {
            checkpoints: CheckpointSettings {
                interval: Some(interval),
                ..CheckpointSettings::default()
            },
            ..Settings::default()
        })
        .build()?;
    let mut progress = job.progress();
    let (stop, signal) = Stop::new();
    let running = tokio::spawn(job.run(signal));
    let begun = Instant::now();
    // By number of the checkpoint, from 1.
    let mut seen: Vec<Seen> = Vec::new();
    while begun.elapsed() < long && !running.is_finished() {
        let _ = tokio::time::timeout(Duration::from_millis(1), progress.changed()).await;
        let now = progress.borrow().clone();
        let count = now.checkpoint_running.or(now.checkpoint);
        while (seen.len() as u64) < count.map_or(0, |id| id.0) {
            seen.push(Seen {
                begun: Instant::now(),
                rows: now.rows,
                visible: None,
            });
        }
        let published = now.published.map_or(0, |p| p.identifier.0);
        let published = usize::try_from(published).unwrap_or(0);
        for one in seen.iter_mut().take(published) {
            one.visible.get_or_insert_with(Instant::now);
        }
    }
    stop.request();
    running.await??;
    Ok(seen)
}

fn report(seen: &[Seen]) {
    let mut rates = Vec::new();
    for pair in seen.windows(2) {
        if let [a, b] = pair {
            let seconds = (b.begun - a.begun).as_secs_f64();
            let rate = (b.rows - a.rows) as f64 / seconds;
            let visible = a.visible.map(|at| (at - a.begun).as_secs_f64());
            let visible = visible.map_or("not yet".to_owned(), |s| format!("{s:.3} s"));
            println!(
                "  {rate:>12.0} rows/s in {seconds:.1} s; its first barrier visible after {visible}"
            );
            rates.push(rate);
        }
    }
    let [least, median, most] = spread(rates.into_iter());
    println!("rows/s between barriers: median {median:.0} ({least:.0} to {most:.0})");
    println!("slowest / median, wanted 0.7: {:.3}", least / median);
    let times = seen.iter().filter_map(|s| Some(s.visible? - s.begun));
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let [half, most] = [0.5, 0.99].map(|share| percentile(&times, share).as_secs_f64());
    println!(
        "barrier to snapshot: median {half:.3} s, p99 of {} {most:.3} s, wanted 1",
        times.len()
    );
}
