//! One rolling job under faults of every kind at once, then everything heals, it ends, and it is judged.
//!
//! Owns what a campaign is and its verdict; what is done to the job is in `events`, what the job said
//! in `reports`. The faults are real: signals to real processes, a server that is killed and started
//! again, a proxy that cuts and answers in its stead, a full and a read-only file system, a wall clock
//! that is moved.

mod events;
mod reports;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::judge::differences;
use crate::lab::{Generator, Lab};
pub use crate::proxy::Tally;
use crate::proxy::{Chances, Proxy};
use events::Rig;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tidegate_test_services::S3Server;

/// Where the table and the checkpoints are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A file system of its own on the local disk.
    Local,
    /// MiniStack with its objects in a folder, behind the proxy.
    MiniStack,
    /// Versity gateway over a folder, behind the proxy.
    Versity,
}

impl Place {
    /// For a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local disk",
            Self::MiniStack => "MiniStack behind the proxy",
            Self::Versity => "Versity gateway behind the proxy",
        }
    }

    fn server(self) -> Option<S3Server> {
        let dir = tempfile::Builder::new()
            .prefix("tidegate-campaign-")
            .tempdir()
            .unwrap()
            .keep();
        match self {
            Self::Local => None,
            Self::MiniStack => Some(S3Server::start_on_disk(&dir).unwrap()),
            Self::Versity => Some(S3Server::start_versity(&dir).unwrap()),
        }
    }

    /// How far the clock is moved. Versity refuses a signature that is 15 minutes off, as S3 does.
    fn clock_range(self) -> i64 {
        match self {
            Self::Versity => 600,
            _ => 3 * 86_400,
        }
    }
}

/// What is done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where.
    pub place: Place,
    /// Buckets; -1 is unaware.
    pub bucket: i32,
    /// For so long, without the end and the judging.
    pub time: Duration,
    /// Of what is done and when; the same seed makes the same choices.
    pub seed: u64,
    /// pypaimon reads the finished table.
    pub judge: bool,
}

/// What came of it; nothing was lost or doubled, and what is left over is told.
#[derive(Debug)]
pub struct Outcome {
    /// Of the job, by SIGKILL.
    pub kills: usize,
    /// What was done, and how often.
    pub events: BTreeMap<&'static str, usize>,
    /// What the proxy did, where there was one.
    pub tally: Option<Tally>,
    /// Rows that the job said were published.
    pub acknowledged: i64,
    /// Commits that it said were.
    pub commits: usize,
    /// Processes, and runs in them.
    pub starts: usize,
    /// Runs: a process begins further ones by itself.
    pub runs: usize,
    /// Ends of the job that nobody asked for, by exit code.
    pub ends: BTreeMap<i32, usize>,
    /// Last words of these, each once.
    pub last_words: BTreeMap<String, usize>,
    /// Snapshots that are older by their time than the one before.
    pub backwards: usize,
    /// Rows in the end.
    pub rows: i64,
    /// Snapshots in the end.
    pub snapshots: usize,
    /// Of these pypaimon read so many, and all ids of the newest.
    pub judged: Option<usize>,
    /// Files of killed runs, written after a newer run had cleaned up behind them and forgotten them.
    pub late: usize,
    /// What could not be done here.
    pub not_done: Vec<&'static str>,
    /// Without the end and the judging.
    pub took: Duration,
    /// The end, once everything has healed.
    pub end: Duration,
    /// All judging, pypaimon's included (and its installation).
    pub judging: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |counts: &BTreeMap<&'static str, usize>| -> String {
            let texts: Vec<String> = counts.iter().map(|(w, n)| format!("{n} {w}")).collect();
            texts.join(", ")
        };
        writeln!(f, "  done to it: {}", counted(&self.events))?;
        if let Some(tally) = &self.tally {
            writeln!(f, "{tally}")?;
            writeln!(
                f,
                "  {} of {} requests met a fault",
                tally.faults(),
                tally.requests()
            )?;
        }
        let ends: Vec<String> = self
            .ends
            .iter()
            .map(|(c, n)| format!("{n} x code {c}"))
            .collect();
        writeln!(
            f,
            "  {} kills, {} starts, {} runs; ends by itself: {}",
            self.kills,
            self.starts,
            self.runs,
            if ends.is_empty() {
                "none".to_owned()
            } else {
                ends.join(", ")
            }
        )?;
        for (words, n) in &self.last_words {
            writeln!(f, "    {n} x {words}")?;
        }
        if self.late > 0 {
            let what = "files left by killed runs that wrote after a newer one had cleaned up and forgotten them";
            writeln!(f, "  {} {what}", self.late)?;
        }
        for missing in &self.not_done {
            writeln!(f, "  not done here: {missing}")?;
        }
        write!(
            f,
            "  {} rows acknowledged in {} commits, each there as it was said; {} rows in {} snapshots \
             ({} of them earlier by the clock than the one before)\n  \
             {:.0} s, end {:.0} s, judging {:.0} s",
            self.acknowledged,
            self.commits,
            self.rows,
            self.snapshots,
            self.backwards,
            self.took.as_secs_f64(),
            self.end.as_secs_f64(),
            self.judging.as_secs_f64()
        )?;
        if let Some(judged) = self.judged {
            write!(
                f,
                "\n  pypaimon: ids 1 to {}, each once; {judged} snapshots read, each with the rows that it says",
                self.rows
            )?;
        }
        Ok(())
    }
}

/// Share of requests that meet a fault, in quiet times.
const SHARE: f64 = 0.04;

/// Runs it. Panics where a row is lost, doubled, or a file left over, or the job ends in a way that it
/// must not.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Outcome {
    let begun = Instant::now();
    let server = plan.place.server();
    // Until the process ends, as the other labs' servers: a lab refers to it.
    let server: Option<&'static S3Server> = server.map(|s| &*Box::leak(Box::new(s)));
    let mut lab = server.map_or_else(Lab::new, Lab::on_s3);
    let outside = TempDir::new().unwrap();
    let megabytes = 128 + 48 * plan.time.as_secs().div_ceil(60);
    let disk = match server {
        None => Disk::large(&lab.path(""), megabytes),
        Some(_) => None,
    };
    lab.generator(&Generator {
        rate: Some(2000),
        interval: Some("100 ms"),
        bucket: plan.bucket,
        ..Generator::default()
    });
    let proxy = server.map(|server| {
        let proxy = Proxy::start(&server.endpoint);
        let text = fs::read_to_string(lab.path("job.yaml")).unwrap();
        // Gives a request up early: what is late is late enough.
        let quick = "store: { s3.request-timeout: \"1 s\", s3.connect-timeout: \"1 s\", ";
        assert!(text.contains("store: { ") && text.contains(&server.endpoint));
        let text = text.replace("store: { ", quick);
        lab.write(
            "job.yaml",
            text.replace(&server.endpoint, &proxy.endpoint()),
        );
        proxy.chances(Chances {
            seed: plan.seed,
            share: SHARE,
        });
        proxy
    });
    if server.is_none() {
        // Places of a commit are far enough from each other for a kill to come in between.
        lab.env("TIDEGATE_STORE_LATENCY", "5 ms");
    }
    let clock = Clock::new(outside.path());
    for (name, value) in clock.env() {
        lab.env(name, value);
    }
    let mut rig = Rig {
        lab: &lab,
        place: plan.place,
        server,
        proxy: proxy.as_ref(),
        disk: disk.as_ref(),
        clock: &clock,
        random: StdRng::seed_from_u64(plan.seed),
        seed: plan.seed,
        outside: outside.path(),
        nth: 0,
        heard: reports::Heard::default(),
        kills: 0,
        events: BTreeMap::new(),
        not_done: Vec::new(),
    };
    let mut told = Duration::ZERO;
    let mut job = rig.start();
    while begun.elapsed() < plan.time {
        job = rig.event(job);
        if begun.elapsed() > told + Duration::from_secs(60) {
            told = begun.elapsed();
            progress(&format!("{:.0} s: {} kills", told.as_secs_f64(), rig.kills));
        }
    }
    rig.last(job);
    verdict(plan, rig, begun)
}

/// The run in `…tg<8 hex digits>e<epoch>-…`, or in the name of a job's side object.
fn epoch_in(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?;
    let side = ["positions-e", "finished-e"];
    let rest = match side.iter().find_map(|start| name.strip_prefix(start)) {
        Some(rest) => rest,
        None => name.split_once("tg")?.1.get(8..)?.strip_prefix('e')?,
    };
    rest.split_once('-')?.0.parse().ok()
}

/// Everything heals, the job ends, the table is judged.
fn verdict(plan: &Plan, mut rig: Rig<'_>, begun: Instant) -> Outcome {
    let lab = rig.lab;
    if let Some(proxy) = rig.proxy {
        proxy.heal();
    }
    rig.clock.set(0);
    let took = begun.elapsed();
    let visible = lab.ids().last().copied().unwrap_or(0);
    let said = rig.heard.rows();
    assert!(
        visible >= said,
        "{said} rows were acknowledged, {visible} are there; kept {:?}",
        lab.keep()
    );
    // What was recorded and not published comes first: after a long stall one commit holds many seconds of rows.
    rig.finish(visible);
    let visible = lab.ids().last().copied().unwrap_or(0).max(visible);
    let rows = visible + 2000;
    rig.finish(rows);
    let end = begun.elapsed() - took;
    let found = lab.whole_but_for_leftovers(rows);
    // One class of left-over is promised nowhere: a run writes, or its request lands, after a newer
    // run has cleaned up behind it and forgotten its registration; alive it removes that itself, killed
    // first nobody knows of it. Its name tells its run, and that run is not registered any more.
    let registered = lab.registered();
    let of_a_forgotten_run =
        |path: &String| epoch_in(path).is_some_and(|epoch| !registered.contains(&epoch));
    let strange = found.orphans.iter().find(|path| !of_a_forgotten_run(path));
    assert!(
        strange.is_none(),
        "left over: {strange:?}, registered runs {registered:?}; kept {:?}",
        lab.keep()
    );
    rig.heard.check(&found.snapshots);
    let time = |s: &serde_json::Value| s["timeMillis"].as_i64().unwrap();
    let pairs = found.snapshots.windows(2);
    let backwards = pairs.filter(|pair| time(&pair[1]) < time(&pair[0])).count();
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
        kills: rig.kills,
        tally: rig.proxy.map(Proxy::tally),
        acknowledged: rig.heard.rows(),
        commits: rig.heard.commits(),
        starts: rig.nth,
        runs: rig.heard.runs,
        ends: rig.heard.ends,
        last_words: rig.heard.last_words,
        events: rig.events,
        not_done: rig.not_done,
        backwards,
        rows,
        snapshots: found.snapshots.len(),
        late: found.orphans.len(),
        judged,
        took,
        end,
        judging: begun.elapsed() - took - end,
    }
}
