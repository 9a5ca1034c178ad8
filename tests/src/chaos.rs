//! One rolling job, killed over and over at random moments, then finished and judged.

use crate::judge::differences;
use crate::lab::{Generator, Lab, wait_until};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Places of a kill: the last named place that the process had passed.
const PLACES: [&str; 8] = [
    "starting",
    "before-checkpoint",
    "prepared",
    "recorded",
    "before-publish",
    "published",
    "answered",
    "notified",
];

/// Between *record complete* and *notified*: here a stock sink loses or doubles.
const CRITICAL: std::ops::Range<usize> = 3..7;

/// What is done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How often the job is killed.
    pub kills: usize,
    /// Of the moments; the same seed makes the same choices.
    pub seed: u64,
    /// Buckets; -1 is unaware.
    pub bucket: i32,
    /// Stop killing after so long, whatever was asked for.
    pub limit: Option<Duration>,
    /// pypaimon reads the finished table.
    pub judge: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Kills by place.
    pub histogram: BTreeMap<&'static str, usize>,
    /// Kills done.
    pub kills: usize,
    /// Rows, all there once.
    pub rows: i64,
    /// Snapshots.
    pub snapshots: usize,
    /// Of these pypaimon read so many, and all ids of the newest.
    pub judged: Option<usize>,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// Share of kills between *record complete* and *notified*.
    pub fn critical(&self) -> f64 {
        let n: usize = CRITICAL.filter_map(|i| self.histogram.get(PLACES[i])).sum();
        n as f64 / self.kills.max(1) as f64
    }

    /// The histogram for a person.
    pub fn picture(&self) -> String {
        let mut text = String::from("where each kill landed (last place passed before it):\n");
        for (i, place) in PLACES.iter().enumerate() {
            let n = self.histogram.get(place).copied().unwrap_or(0);
            let mark = if CRITICAL.contains(&i) { '|' } else { ' ' };
            let _written = writeln!(text, "  {mark} {place:<18} {n:>4}  {}", "#".repeat(n));
        }
        let _written = write!(
            text,
            "  | = between record complete and notified: {:.0} % of {} kills\n  {} rows in {} snapshots, {:.0} s",
            100.0 * self.critical(),
            self.kills,
            self.rows,
            self.snapshots,
            self.took.as_secs_f64()
        );
        if let Some(judged) = self.judged {
            let _written = write!(
                text,
                "\n  pypaimon: ids 1 to {}, each once; {judged} snapshots read, each with the rows that it says",
                self.rows
            );
        }
        text
    }
}

/// Runs it. Panics where a row is lost, doubled, or a file left over.
///
/// A moment is drawn like this: a start, a number of passed places drawn from 2 to 16 (a checkpoint
/// has seven), then 0 to 25 ms more. Places of the commit are a store request or more apart (20 ms
/// each by injected latency), while most of a checkpoint interval passes between `notified` and
/// `before-checkpoint` doing nothing new; so counting places and not milliseconds puts about half
/// of the kills where a commit is under way, without any place being left out.
pub fn run(lab: &mut Lab, plan: &Plan, mut progress: impl FnMut(&str)) -> Outcome {
    let begun = Instant::now();
    let mut random = StdRng::seed_from_u64(plan.seed);
    lab.generator(&Generator {
        rate: Some(2000),
        interval: Some("200 ms"),
        bucket: plan.bucket,
        ..Generator::default()
    });
    lab.env("TIDEGATE_STORE_LATENCY", "20 ms");
    let probe = lab.path("probe");
    let probe_text = probe.display().to_string();
    let mut histogram = BTreeMap::new();
    let mut kills = 0;
    while kills < plan.kills && plan.limit.is_none_or(|l| begun.elapsed() < l) {
        let _absent = std::fs::remove_file(&probe);
        let mut run = lab.spawn(
            &["run", "job.yaml", "--quiet"],
            &[("TIDEGATE_PROBE_FILE", &probe_text)],
        );
        let place = || {
            let text = std::fs::read_to_string(&probe).unwrap_or_default();
            PLACES
                .iter()
                .copied()
                .find(|p| *p == text.trim())
                .unwrap_or(PLACES[0])
        };
        let passes = random.random_range(0..=16);
        let extra = Duration::from_micros(random.random_range(0..25_000));
        let (mut seen, mut last) = (0, PLACES[0]);
        wait_until("places to pass", || {
            assert!(!run.ended(), "ended by itself:\n{}", run.stderr());
            let now = place();
            if now != last {
                (seen, last) = (seen + 1, now);
            }
            seen >= passes
        });
        let moment = Instant::now() + extra;
        while Instant::now() < moment {
            std::thread::sleep(Duration::from_micros(500));
        }
        run.kill().killed();
        *histogram.entry(place()).or_insert(0) += 1;
        kills += 1;
        if kills % 10 == 0 {
            progress(&format!(
                "{kills} of {} kills, {:.0} s",
                plan.kills,
                begun.elapsed().as_secs_f64()
            ));
        }
    }
    // The rolling job becomes a bounded one and runs to its end: what the kills left is settled now.
    let visible = lab.ids().last().copied().unwrap_or(0);
    let rows = visible + 20_000;
    lab.run(&["--quiet", "--set", &format!("source.rows={rows}")])
        .expect(0);
    let found = lab.whole(rows);
    let judged = plan.judge.then(|| {
        let read = lab.outside();
        let wrong = differences(&read.ids, rows);
        assert!(wrong.is_empty(), "pypaimon reads ids 1..={rows}: {wrong}");
        for snapshot in &found.snapshots {
            if let Some(rows) = read.rows.get(&snapshot["id"].as_i64().unwrap()) {
                let said = snapshot["totalRecordCount"].as_i64();
                assert_eq!(Some(*rows), said, "{snapshot}");
            }
        }
        read.rows.len()
    });
    Outcome {
        histogram,
        kills,
        rows,
        snapshots: found.snapshots.len(),
        judged,
        took: begun.elapsed(),
    }
}
