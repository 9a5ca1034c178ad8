//! What is done to the job and to what it stands on.

use super::{Place, SHARE, reports::Heard};
use crate::clock::Clock;
use crate::disk::{Disk, ReadOnly};
use crate::lab::{DEADLINE, Done, Lab, Running};
use crate::proxy::{Chances, Proxy};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tidegate_test_services::S3Server;

/// Two runs of one job that both go on for so long are a fault of ours: one must have noticed.
const GIVES_WAY: Duration = Duration::from_secs(180);

/// The job, what it stands on, and what was seen.
pub(crate) struct Rig<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) place: Place,
    pub(crate) server: Option<&'a S3Server>,
    pub(crate) proxy: Option<&'a Proxy>,
    pub(crate) disk: Option<&'a Disk>,
    pub(crate) clock: &'a Clock,
    pub(crate) random: StdRng,
    pub(crate) seed: u64,
    /// Not on the disk that becomes full.
    pub(crate) outside: &'a Path,
    pub(crate) nth: usize,
    pub(crate) heard: Heard,
    pub(crate) kills: usize,
    pub(crate) events: BTreeMap<&'static str, usize>,
    pub(crate) not_done: Vec<&'static str>,
}

/// A process of the job.
pub(crate) struct Job {
    run: Running,
    probe: PathBuf,
}

impl Job {
    /// The last place of a checkpoint that it passed.
    fn place(&self) -> String {
        let text = fs::read_to_string(&self.probe).unwrap_or_default();
        text.trim().to_owned()
    }
}

/// What is done, with how often it comes among all. What goes on all the time is the proxy's.
const ANYWHERE: [(Event, u32); 4] = [
    (Event::Kill, 24),
    (Event::Pause, 2),
    (Event::Zombie, 4),
    (Event::Clock, 2),
];
const ON_DISK: [(Event, u32); 2] = [(Event::DiskFull, 2), (Event::ReadOnly, 2)];
const ON_S3: [(Event, u32); 3] = [
    (Event::ServerKill, 3),
    (Event::ServerPause, 1),
    (Event::Storm, 2),
];

#[derive(Debug, Clone, Copy)]
enum Event {
    Kill,
    Pause,
    Zombie,
    Clock,
    DiskFull,
    ReadOnly,
    ServerKill,
    ServerPause,
    Storm,
}

/// Lets time pass: it is the condition itself.
fn let_pass(time: Duration) {
    let begun = Instant::now();
    crate::lab::wait_until("time", || begun.elapsed() > time);
}

impl Rig<'_> {
    /// Starts the job, by the same command every time.
    pub(crate) fn start(&mut self) -> Job {
        self.nth += 1;
        let probe = self.outside.join(format!("probe-{}", self.nth));
        let text = probe.display().to_string();
        let run = self.lab.spawn(&COMMAND, &[("TIDEGATE_PROBE_FILE", &text)]);
        Job { run, probe }
    }

    /// The bounded run at the end, when everything has healed.
    #[track_caller]
    pub(crate) fn finish(&mut self, rows: i64) {
        self.nth += 1;
        let rows = format!("source.rows={rows}");
        let args = [&COMMAND[..], &["--set", &rows]].concat();
        let done = self.lab.spawn(&args, &[]).wait().expect(0);
        self.heard.process(&Done { code: None, ..done });
    }

    /// The end of the last process.
    pub(crate) fn last(&mut self, job: Job) {
        self.kill(job);
    }

    fn count(&mut self, what: &'static str) {
        *self.events.entry(what).or_default() += 1;
    }

    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.random.random_range(least..most))
    }

    /// One of them, drawn; the job that goes on afterwards.
    pub(crate) fn event(&mut self, job: Job) -> Job {
        let here = match self.place {
            Place::Local => &ON_DISK[..],
            Place::MiniStack | Place::Versity => &ON_S3[..],
        };
        let all: Vec<(Event, u32)> = ANYWHERE.iter().chain(here).copied().collect();
        let mut drawn = self
            .random
            .random_range(0..all.iter().map(|(_, n)| n).sum());
        let chosen = all.iter().find(|(_, n)| match drawn < *n {
            true => true,
            false => {
                drawn -= n;
                false
            }
        });
        let (event, _) = chosen.unwrap();
        let job = self.moment(job);
        match event {
            Event::Kill => {
                self.kill(job);
                self.start()
            }
            Event::Pause => {
                self.count("pauses");
                job.run.signal("STOP");
                let_pass(self.between(50, 2000));
                job.run.signal("CONT");
                job
            }
            Event::Zombie => self.zombie(job),
            Event::Clock => {
                self.count("moves of the clock");
                let range = self.place.clock_range();
                self.clock.set(self.random.random_range(-range..=range));
                job
            }
            Event::DiskFull => self.disk_full(job),
            Event::ReadOnly => self.read_only(job),
            Event::ServerKill => self.server_kill(job),
            Event::ServerPause => {
                self.count("pauses of the server");
                let server = self.server.unwrap();
                server.signal("STOP").unwrap();
                let_pass(self.between(100, 3000));
                server.signal("CONT").unwrap();
                job
            }
            Event::Storm => {
                self.count("storms of faults");
                let (proxy, seed) = (self.proxy.unwrap(), self.seed);
                proxy.chances(Chances { seed, share: 0.5 });
                let_pass(self.between(300, 3000));
                proxy.chances(Chances { seed, share: SHARE });
                job
            }
        }
    }

    /// Waits until the job has passed a number of places that is drawn (a checkpoint has seven), and a
    /// little more; under faults it may hang in one of them, so not for ever.
    fn moment(&mut self, job: Job) -> Job {
        let passes = self.random.random_range(0..=14);
        let extra = Duration::from_micros(self.random.random_range(0..15_000));
        let longest = self.between(500, 6000);
        let begun = Instant::now();
        let mut job = self.alive(job);
        let (mut seen, mut last) = (0, job.place());
        while seen < passes && begun.elapsed() < longest {
            job = self.alive(job);
            let now = job.place();
            if now != last {
                (seen, last) = (seen + 1, now);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let_pass(extra);
        job
    }

    /// This job, or the next one where it has ended by itself, as it may under faults.
    fn alive(&mut self, mut job: Job) -> Job {
        if !job.run.ended() {
            return job;
        }
        self.ended(job.run.wait());
        self.start()
    }

    /// A process has ended: by SIGKILL, fenced, or of what the rig did to its store.
    #[track_caller]
    fn ended(&mut self, done: Done) {
        let met = |what: &str| done.stderr.contains(what);
        let (full, locked) = (met("o space left on device"), met("ead-only file system"));
        let good = match done.code {
            None => done.signal == Some(9),
            Some(8) => true,
            Some(1 | 9) => self.proxy.is_some() || full || locked,
            Some(3) => locked,
            Some(_) => false,
        };
        assert!(
            good,
            "ended with code {:?}, signal {:?}; kept {:?}:\n{}",
            done.code,
            done.signal,
            self.lab.keep(),
            done.stderr
        );
        self.heard.process(&done);
    }

    /// SIGKILL, unless it has ended just now.
    fn kill(&mut self, job: Job) {
        let job = self.alive(job);
        self.killed(job);
    }

    fn killed(&mut self, job: Job) {
        let _unused = fs::remove_file(&job.probe);
        let done = job.run.kill();
        self.kills += usize::from(done.signal == Some(9));
        self.ended(done);
    }

    /// The job stands still, is started a second time meanwhile, and wakes up.
    fn zombie(&mut self, first: Job) -> Job {
        self.count("zombies");
        first.run.signal("STOP");
        let mut second = self.start();
        let commits = self.random.random_range(0..3);
        let (begun, longest) = (Instant::now(), self.between(500, 8000));
        let mut notified = 0;
        let mut last = String::new();
        while notified < commits && begun.elapsed() < longest && !second.run.ended() {
            let now = second.place();
            notified += usize::from(now == "notified" && last != "notified");
            last = now;
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.random.random_range(0..4) {
            // It dies in its sleep.
            0 => {
                self.killed(first);
                second
            }
            // The second one dies and it is alone again.
            1 => {
                self.kill(second);
                first.run.signal("CONT");
                first
            }
            _ => {
                first.run.signal("CONT");
                self.one_gives_way(first, second)
            }
        }
    }

    /// Waits until one of two has noticed that it is not alone; the other one.
    #[track_caller]
    fn one_gives_way(&mut self, mut first: Job, mut second: Job) -> Job {
        let begun = Instant::now();
        loop {
            if first.run.ended() {
                self.ended(first.run.wait());
                return second;
            }
            if second.run.ended() {
                self.ended(second.run.wait());
                return first;
            }
            assert!(
                begun.elapsed() < GIVES_WAY,
                "two runs of one job go on together; kept {:?}\n--- first\n{}\n--- second\n{}",
                self.lab.keep(),
                first.run.stderr(),
                second.run.stderr()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn disk_full(&mut self, job: Job) -> Job {
        let Some(disk) = self.disk else {
            return self.unable(job, "full disks: mounting a file system was refused");
        };
        self.count("full disks");
        disk.fill(self.random.random_range(0..8));
        let_pass(self.between(50, 2500));
        let job = match self.random.random_bool(0.5) {
            true => {
                self.kill(job);
                let job = self.start();
                let_pass(self.between(50, 1000));
                job
            }
            false => job,
        };
        disk.make_room();
        job
    }

    fn read_only(&mut self, mut job: Job) -> Job {
        let folders = [
            "warehouse",
            "checkpoints",
            "warehouse/shop.db/orders/snapshot",
        ];
        let folder = folders[self.random.random_range(0..folders.len())];
        let folder = self.lab.path(folder);
        if !folder.exists() {
            return job;
        }
        let Some(locked) = ReadOnly::over(&folder) else {
            return self.unable(job, "read-only folders: mounting was refused");
        };
        self.count("read-only folders");
        let (begun, longest) = (Instant::now(), self.between(50, 3000));
        while begun.elapsed() < longest && !job.run.ended() {
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(locked);
        self.alive(job)
    }

    fn server_kill(&mut self, job: Job) -> Job {
        self.count("kills of the server");
        let server = self.server.unwrap();
        server.kill().unwrap();
        let job = match self.random.random_bool(0.3) {
            true => {
                self.kill(job);
                self.start()
            }
            false => job,
        };
        let_pass(self.between(0, 1500));
        server.again().unwrap();
        job
    }

    fn unable(&mut self, job: Job, what: &'static str) -> Job {
        if !self.not_done.contains(&what) {
            self.not_done.push(what);
        }
        job
    }
}

/// The job's commits are told as JSON lines.
const COMMAND: [&str; 7] = [
    "run",
    "job.yaml",
    "--quiet",
    "--log",
    "warn,tidegate_runtime=info",
    "--log-format",
    "json",
];

const _: () = assert!(GIVES_WAY.as_secs() < DEADLINE.as_secs());
