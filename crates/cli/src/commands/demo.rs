//! `tidegate demo`: rows land exactly once while the process is killed under them.
//!
//! Runs this very binary as a child, kills it by SIGKILL five times at different places, starts it
//! again with the same command each time, and reads the table back.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use tidegate::Warehouse;
use tidegate::scan::{At, TableReader};
use tidegate::sink::probe;
use tokio::process::Command;

use crate::args::{DemoArgs, OutputArgs};
use crate::exit::{Failure, Result};
use crate::output;

const ROWS: usize = 200;

const JOB: &str = r#"# The demo's job file: 200 rows, 100 a second, a checkpoint every 200 ms.
name: demo
source:
  type: generator
  rows: 200
  rate: 100
  columns:
    id: { sequence: { start: 1 } }
    name: { template: "name-{id}" }
    dt: { choice: ["2024-01-01", "2024-01-02"] }
sink:
  warehouse: warehouse
  table: shop.orders
  columns: { id: BIGINT NOT NULL, name: STRING, dt: STRING }
  partition-by: [dt]
checkpoint: { interval: 200 ms, directory: checkpoints }
"#;

/// Where each kill falls: at a place inside a checkpoint, the n-th time it is passed.
const KILLS: [(&str, u32, &str); 5] = [
    (probe::PREPARED, 1, "files closed, checkpoint not recorded"),
    (probe::RECORDED, 1, "checkpoint complete, commit not begun"),
    (probe::BEFORE_PUBLISH, 1, "manifests written, snapshot not"),
    (probe::PUBLISHED, 1, "snapshot published, answer lost"),
    (probe::ANSWERED, 2, "published, notification lost"),
];

/// A folder that is removed unless the user named it.
struct Place {
    path: PathBuf,
    temporary: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // Left behind at worst, in the system's temporary folder.
            let _left = std::fs::remove_dir_all(&self.path);
        }
    }
}

pub(crate) async fn run(args: DemoArgs, output: &OutputArgs) -> Result<u8> {
    let place = place(args.directory)?;
    let job = place.path.join("demo.yaml");
    std::fs::write(&job, JOB).map_err(|e| Failure::runtime(format!("{}: {e}", job.display())))?;
    let say = |text: &str| {
        if output.quiet {
            Ok(())
        } else {
            output::line(text)
        }
    };
    say(&format!("The job file is {}:\n\n{JOB}", job.display()))?;
    say(
        "It is started, killed (kill -9) at five places of a checkpoint, and started again by the same command:\n",
    )?;
    let begun = Instant::now();
    for (at, n, meaning) in KILLS {
        let status = child(&job, Some(&format!("{at}:{n}"))).await?;
        if status.success() {
            say(&format!("  ran to its end before it came to `{at}`"))?;
        } else {
            let rows = ids(&place.path).await.map_or(0, |ids| ids.len());
            say(&format!("  killed: {meaning:<42} {rows:>3} rows visible"))?;
        }
    }
    let status = child(&job, None).await?;
    if !status.success() {
        return Err(Failure::runtime(format!(
            "the last run ended with {status}"
        )));
    }
    let mut ids = ids(&place.path).await?;
    let rows = ids.len();
    ids.sort_unstable();
    ids.dedup();
    say("  not killed: ran to its end\n")?;
    let warehouse = place.path.join("warehouse");
    say(&format!(
        "{rows} rows, {} distinct ids, after 5 kills, in {:.1} s",
        ids.len(),
        begun.elapsed().as_secs_f32()
    ))?;
    let whole = ids.first() == Some(&1) && ids.last() == Some(&(ROWS as i64));
    if rows != ROWS || ids.len() != ROWS || !whole {
        return Err(Failure::runtime(format!(
            "expected {ROWS} rows with ids 1 to {ROWS}; the table is in {}",
            warehouse.display()
        )));
    }
    if !place.temporary {
        say(&format!(
            "\nLook at it:\n  tidegate table snapshots shop.orders -w {0}\n  tidegate table read shop.orders --limit 5 -w {0}\n  tidegate verify shop.orders -w {0}",
            warehouse.display()
        ))?;
    }
    Ok(0)
}

fn place(directory: Option<PathBuf>) -> Result<Place> {
    let (path, temporary) = match directory {
        Some(path) => (path, false),
        None => (
            std::env::temp_dir().join(format!("tidegate-demo-{}", std::process::id())),
            true,
        ),
    };
    std::fs::create_dir_all(&path)
        .map_err(|e| Failure::runtime(format!("{}: {e}", path.display())))?;
    if std::fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::config(format!(
            "{} is not empty; the demo wants a folder of its own",
            path.display()
        )));
    }
    Ok(Place { path, temporary })
}

async fn child(job: &Path, stop_at: Option<&str>) -> Result<std::process::ExitStatus> {
    let exe = std::env::current_exe().map_err(|e| Failure::runtime(format!("where am I? {e}")))?;
    let mut command = Command::new(exe);
    command
        .arg("run")
        .arg(job)
        .arg("--quiet")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match stop_at {
        Some(at) => command.env("TIDEGATE_STOP_AT", at),
        None => command.env_remove("TIDEGATE_STOP_AT"),
    };
    let mut child = command
        .spawn()
        .map_err(|e| Failure::runtime(format!("cannot start a run: {e}")))?;
    match tokio::time::timeout(Duration::from_secs(60), child.wait()).await {
        Ok(status) => status.map_err(|e| Failure::runtime(e.to_string())),
        Err(_) => Err(Failure::runtime(
            "a run of the demo did not end within a minute",
        )),
    }
}

async fn ids(place: &Path) -> Result<Vec<i64>> {
    let url = place.join("warehouse").to_string_lossy().into_owned();
    let table = Warehouse::open(&url, &Default::default())?
        .table("shop", "orders")
        .await?;
    let reader = TableReader::new(table.store().clone());
    let plan = reader
        .scan(&At::Latest)
        .await
        .and_then(|p| p.with_columns(&["id"]));
    let batches = plan.and_then(|p| p.read()).map_err(tidegate::Error::from)?;
    let batches: Vec<_> = batches.try_collect().await.map_err(tidegate::Error::from)?;
    let mut ids = Vec::new();
    for batch in batches {
        if let Some(column) = batch.columns().first() {
            use arrow::array::AsArray;
            ids.extend_from_slice(
                column
                    .as_primitive::<arrow::datatypes::Int64Type>()
                    .values(),
            );
        }
    }
    Ok(ids)
}
