//! How long from the start of the process to the first committed row, and from `kill -9` to the next
//! commit? The real binary with a generator, on the local disk.
//!
//! ```text
//! start [RUNS [SECONDS [BINARY]]]      default 7 runs, checkpoints every 1.0 s, `tidegate` beside this
//! ```
//!
//! Wanted: at most 1 s beyond the checkpoint interval, both.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_benches::{Failure, spread};

/// Longest wait for a commit.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runs: usize = args.first().map_or(Ok(7), |a| a.parse())?;
    let seconds: f64 = args.get(1).map_or(Ok(1.0), |a| a.parse())?;
    let interval = Duration::from_secs_f64(seconds);
    let binary = match args.get(2) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("tidegate"),
    };
    if !binary.is_file() {
        let path = binary.display();
        return Err(format!("{path} is not there: build tidegate-cli in release mode").into());
    }
    let (mut starts, mut restarts) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let folder = tempfile::tempdir()?;
        let job = folder.path().join("job.yaml");
        std::fs::write(&job, job_file(interval))?;
        let begun = Instant::now();
        let mut child = Running::start(&binary, &job)?;
        let first = child.next_snapshot(folder.path(), 0)?;
        starts.push(begun.elapsed().as_secs_f64());
        // Two more intervals and a part of one, each time another.
        sleep(interval.mul_f64(2.0 + run as f64 / runs as f64));
        child.kill()?;
        let killed = Instant::now();
        let last = newest(folder.path())?.max(first);
        let mut child = Running::start(&binary, &job)?;
        child.next_snapshot(folder.path(), last)?;
        restarts.push(killed.elapsed().as_secs_f64());
        child.kill()?;
    }
    println!("{runs} runs, checkpoints every {seconds} s; seconds: median (least to most)");
    for (name, times) in [
        ("start of the process to the first committed row", starts),
        ("kill -9 to the next commit", restarts),
    ] {
        let [least, median, most] = spread(times.into_iter());
        println!("{name}: {median:.3} ({least:.3} to {most:.3})");
        let [least, median, most] = [least, median, most].map(|t| t - seconds);
        println!("  beyond the interval, wanted at most 1: {median:.3} ({least:.3} to {most:.3})");
    }
    Ok(())
}

fn job_file(interval: Duration) -> String {
    format!(
        "name: start
source:
  type: generator
  rate: 1000
  columns:
    id: {{ sequence: {{ start: 1 }} }}
    name: {{ template: \"name-{{id}}\" }}
sink:
  warehouse: warehouse
  table: bench.start
  columns:
    id: BIGINT NOT NULL
    name: STRING
checkpoint:
  interval: {} ms
  directory: checkpoints
",
        interval.as_millis()
    )
}

/// A process that does not outlive this one.
struct Running(Child);

impl Running {
    fn start(binary: &Path, job: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(binary);
        command.arg("run").arg(job).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    /// Waits for a snapshot after this one. Checkpoints without rows make none.
    fn next_snapshot(&mut self, folder: &Path, after: u64) -> Result<u64, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let found = newest(folder)?;
            if found > after {
                return Ok(found);
            }
            if let Some(status) = self.0.try_wait()? {
                return Err(format!("the job ended by itself: {status}").into());
            }
            sleep(Duration::from_millis(2));
        }
        Err("no commit within a minute".into())
    }

    /// SIGKILL, and waits until it is gone.
    fn kill(&mut self) -> Result<(), Failure> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Id of the newest snapshot; 0 without one.
fn newest(folder: &Path) -> Result<u64, Failure> {
    let snapshots = folder.join("warehouse/bench.db/start/snapshot");
    let Ok(entries) = std::fs::read_dir(&snapshots) else {
        return Ok(0);
    };
    let mut newest = 0;
    for entry in entries {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|n| n.strip_prefix("snapshot-"));
        newest = newest.max(id.and_then(|id| id.parse().ok()).unwrap_or(0));
    }
    Ok(newest)
}
