//! Crash labs: ends or records this process at named places (`tidegate::sink::probe`).
//!
//! Owns two environment variables that only labs set:
//!
//! * `TIDEGATE_STOP_AT=NAME[:N]` ends the process by SIGKILL when it passes the place for the N-th
//!   time (the first by default): no destructor runs, nothing is flushed. `row-taken:N` ends it when
//!   the N-th row of this run was taken from the source.
//! * `TIDEGATE_PROBE_FILE=FILE` keeps the name of the last place passed in a file, so that whoever
//!   kills the process sees where it was.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::sink::probe;

use crate::exit::{Failure, Result};

struct Lab {
    stop: Option<(String, u64)>,
    file: Option<File>,
    passed: AtomicU64,
}

static LAB: OnceLock<Lab> = OnceLock::new();

/// Sets the hook where a lab asks for it.
pub(crate) fn start() -> Result<()> {
    let stop = match std::env::var("TIDEGATE_STOP_AT") {
        Ok(text) => {
            let (name, nth) = match text.split_once(':') {
                Some((name, n)) => (name.to_owned(), n.parse().map_err(|_| unknown(&text))?),
                None => (text.clone(), 1),
            };
            if !probe::ALL.contains(&name.as_str()) && name != probe::ROW_TAKEN {
                return Err(unknown(&text));
            }
            Some((name, nth))
        }
        Err(_) => None,
    };
    let file = match std::env::var("TIDEGATE_PROBE_FILE") {
        Ok(path) => Some(
            File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(|e| Failure::config(format!("TIDEGATE_PROBE_FILE={path}: {e}")))?,
        ),
        Err(_) => None,
    };
    if stop.is_some() || file.is_some() {
        let lab = Lab {
            stop,
            file,
            passed: AtomicU64::new(0),
        };
        if LAB.set(lab).is_ok() {
            probe::set(Some(passed));
        }
    }
    Ok(())
}

fn unknown(text: &str) -> Failure {
    Failure::config(format!(
        "TIDEGATE_STOP_AT={text}: expected NAME[:N] with NAME one of {}, {}",
        probe::ALL.join(", "),
        probe::ROW_TAKEN
    ))
}

fn passed(name: &'static str) {
    let Some(lab) = LAB.get() else { return };
    // Rows come in between all other places and would hide them.
    if let Some(file) = &lab.file
        && name != probe::ROW_TAKEN
    {
        // One write of fixed length: a reader never sees half a name. A lab that cannot write sees
        // an old name and nothing worse.
        let _lost = file.write_all_at(format!("{name:<32}\n").as_bytes(), 0);
    }
    if let Some((stop, nth)) = &lab.stop
        && stop == name
        && lab.passed.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        let me = std::process::id().to_string();
        let _started = std::process::Command::new("kill")
            .args(["-9", &me])
            .status();
        std::process::abort();
    }
}
