//! What a running job tells a person: one line that is rewritten on a terminal, plain lines
//! elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_runtime::{Phase, Progress};
use tokio::sync::watch;

/// A plain line at most so often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// The terminal line is drawn so often.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Shows progress until dropped.
pub(crate) struct Shown(tokio::task::JoinHandle<()>, ProgressBar);

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.abort();
        self.1.finish_and_clear();
    }
}

pub(crate) fn show(job: &str, progress: watch::Receiver<Progress>, quiet: bool) -> Shown {
    let terminal = std::io::stderr().is_terminal() && !quiet;
    let bar = ProgressBar::with_draw_target(
        None,
        if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        },
    );
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let job = job.to_owned();
    let line = bar.clone();
    let task = tokio::spawn(async move {
        let mut rate = Rate::new();
        let mut last_plain = Instant::now();
        let mut last = Progress::default();
        let mut ticks = tokio::time::interval(DRAW_EVERY);
        loop {
            ticks.tick().await;
            let now = progress.borrow().clone();
            let text = text(&job, &now, rate.per_second(now.rows));
            if terminal {
                line.set_message(text);
                line.tick();
            } else if !quiet
                && (now.phase != last.phase
                    || (now.rows != last.rows && last_plain.elapsed() >= PLAIN_EVERY))
            {
                say(&text);
                last_plain = Instant::now();
            }
            last = now;
        }
    });
    Shown(task, bar)
}

#[expect(clippy::print_stderr, reason = "progress is for the person at stderr")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Rows per second over the last seconds.
struct Rate {
    at: Instant,
    rows: u64,
    smoothed: f64,
}

impl Rate {
    fn new() -> Self {
        Self {
            at: Instant::now(),
            rows: 0,
            smoothed: 0.0,
        }
    }

    fn per_second(&mut self, rows: u64) -> f64 {
        let elapsed = self.at.elapsed().as_secs_f64();
        if elapsed > 0.05 {
            let now = rows.saturating_sub(self.rows) as f64 / elapsed;
            self.smoothed = if self.smoothed == 0.0 {
                now
            } else {
                0.8 * self.smoothed + 0.2 * now
            };
            self.at = Instant::now();
            self.rows = rows;
        }
        self.smoothed
    }
}

fn text(job: &str, p: &Progress, rate: f64) -> String {
    let phase = match p.phase {
        Phase::Starting => "starting",
        Phase::Recovering => "recovering",
        Phase::Running => "running",
        Phase::Paused => "paused (commits wait)",
        Phase::Stopping => "stopping",
        Phase::Restarting => "restarting",
        Phase::Ended => "ended",
    };
    let mut text = format!("{job}: {phase}, {} rows, {rate:.0} rows/s", p.rows);
    if let Some(published) = &p.published {
        text.push_str(&format!(", snapshot {}", published.version));
    }
    if let (Some(id), Some(at)) = (p.checkpoint, p.checkpoint_at_ms) {
        let age = (now_millis() - at).max(0) / 1000;
        text.push_str(&format!(", checkpoint {id} {age} s ago"));
    }
    if p.pending_commits > 0 {
        text.push_str(&format!(", {} commits pending", p.pending_commits));
    }
    if let Some(trouble) = &p.trouble {
        text.push_str(&format!("; {trouble}"));
    }
    text
}

fn now_millis() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
