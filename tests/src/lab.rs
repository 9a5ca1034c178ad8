//! A folder with a job, and the commands of a user on it.

use crate::{binary, judge, mirror, outside};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tidegate_test_services::S3Server;

/// Nothing here takes so long unless it hangs, also on a machine that has other things to do.
pub const DEADLINE: Duration = Duration::from_secs(600);

/// The table of every lab.
pub const TABLE: &str = "shop.orders";

/// How a command ended.
#[derive(Debug)]
pub struct Done {
    /// Exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Data.
    pub stdout: String,
    /// Logs and the last word.
    pub stderr: String,
}

impl Done {
    /// Fails unless the command ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "signal {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.signal,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Fails unless the last word holds each of these texts.
    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.stderr.contains(text),
                "`{text}` is not in:\n{}",
                self.stderr
            );
        }
        self
    }

    /// Fails unless SIGKILL ended it.
    #[track_caller]
    pub fn killed(self) -> Self {
        assert_eq!(
            self.signal,
            Some(9),
            "exit code {:?}\n--- stderr\n{}",
            self.code,
            self.stderr
        );
        self
    }
}

/// A command under way; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// SIGKILL.
    pub fn kill(mut self) -> Done {
        self.child.kill().unwrap();
        self.wait()
    }

    /// Sends a signal by its name, e.g. `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success(), "kill -{name}: {status}");
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Largest resident memory so far, bytes; 0 once it has ended.
    pub fn peak_memory(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next());
        kib.map_or(0, |k| k.parse::<u64>().unwrap() * 1024)
    }

    /// What it has said so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(self) -> Done {
        self.wait_within(DEADLINE)
    }

    /// Waits for its end, which may take so long.
    #[track_caller]
    pub fn wait_within(mut self, deadline: Duration) -> Done {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > deadline {
                let said = self.stderr();
                let _gone = self.child.kill();
                panic!("no end within {deadline:?}:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.done(status)
    }

    fn done(&self, status: ExitStatus) -> Done {
        use std::os::unix::process::ExitStatusExt;
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        Done {
            code: status.code(),
            signal: status.signal(),
            stdout: text(&self.out),
            stderr: text(&self.err),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Waits for a condition; fails with what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A generator job on [`TABLE`]: ids from 1, two days.
#[derive(Debug, Clone)]
pub struct Generator<'a> {
    /// Rows in all; unbounded by default.
    pub rows: Option<u64>,
    /// Rows per second; as fast as it goes by default.
    pub rate: Option<u64>,
    /// Checkpoint interval; none by default.
    pub interval: Option<&'a str>,
    /// Checkpoint records kept; 3 by default.
    pub retain: Option<u64>,
    /// Buckets; -1 is unaware.
    pub bucket: i32,
    /// Partition columns.
    pub partition_by: &'a str,
    /// Further top-level YAML lines.
    pub more: &'a str,
}

impl Default for Generator<'_> {
    fn default() -> Self {
        Self {
            rows: None,
            rate: None,
            interval: None,
            retain: None,
            bucket: -1,
            partition_by: "",
            more: "",
        }
    }
}

/// A folder with `job.yaml`, a warehouse (in the folder or on S3) and checkpoints.
#[derive(Debug)]
pub struct Lab {
    dir: TempDir,
    s3: Option<(&'static S3Server, String)>,
    env: Vec<(String, String)>,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// On the local disk.
    pub fn new() -> Self {
        Self {
            dir: tempfile::Builder::new()
                .prefix("tidegate-lab-")
                .tempdir()
                .unwrap(),
            s3: None,
            env: Vec::new(),
        }
    }

    /// On an S3 server, below a prefix that no other lab has.
    pub fn on_s3(server: &'static S3Server) -> Self {
        let lab = Self::new();
        let prefix = lab
            .dir
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        Self {
            s3: Some((server, prefix)),
            ..lab
        }
    }

    /// A copy of everything: folder, warehouse, checkpoints. Local labs only: paths in it are
    /// relative to the job file.
    pub fn copy(&self) -> Self {
        assert!(self.s3.is_none());
        let copy = Self {
            env: self.env.clone(),
            ..Self::new()
        };
        let status = Command::new("cp")
            .arg("-a")
            .arg(self.dir.path().join("."))
            .arg(copy.dir.path())
            .status()
            .unwrap();
        assert!(status.success());
        copy
    }

    /// A variable for every command of this lab.
    pub fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.env.retain(|(n, _)| n != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the folder, making folders on the way.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The warehouse as a job file and `-w` name it.
    pub fn warehouse(&self) -> String {
        match &self.s3 {
            Some((server, prefix)) => server.url(&format!("{prefix}/warehouse")),
            None => self.path("warehouse").display().to_string(),
        }
    }

    fn store_yaml(&self) -> String {
        let Some((server, _)) = &self.s3 else {
            return String::new();
        };
        let pairs: Vec<_> = server
            .options()
            .iter()
            .map(|(k, v)| format!("{k}: \"{v}\""))
            .collect();
        format!("  store: {{ {} }}\n", pairs.join(", "))
    }

    /// The `sink` and `checkpoint` parts of a job file. Manifests are not compressed: the judge
    /// reads names from their bytes.
    pub fn sink_yaml(
        &self,
        columns: &str,
        partition_by: &str,
        options: &str,
        checkpoint: &str,
    ) -> String {
        let (warehouse, checkpoints) = match &self.s3 {
            Some((server, prefix)) => (
                server.url(&format!("{prefix}/warehouse")),
                server.url(&format!("{prefix}/checkpoints")),
            ),
            None => ("warehouse".into(), "checkpoints".into()),
        };
        format!(
            "sink:\n  warehouse: {warehouse}\n{}  table: {TABLE}\n  columns: {{ {columns} }}\n  \
             partition-by: [{partition_by}]\n  \
             options: {{ manifest.compression: \"null\"{options} }}\n\
             checkpoint: {{ directory: {checkpoints}{checkpoint} }}\n",
            self.store_yaml()
        )
    }

    /// Writes `job.yaml` for a generator.
    pub fn generator(&self, job: &Generator<'_>) -> &Self {
        let number = |key: &str, value: Option<u64>| {
            value.map_or_else(String::new, |v| format!(", {key}: {v}"))
        };
        let options = match job.bucket {
            -1 => ", bucket: -1".to_owned(),
            n => format!(", bucket: {n}, bucket-key: id"),
        };
        let interval = job
            .interval
            .map_or_else(String::new, |i| format!(", interval: {i}"));
        let checkpoint = interval + &number("retain", job.retain);
        let text = format!(
            "name: lab\nsource: {{ type: generator{}{}, columns: {{ id: {{ sequence: {{ start: 1 }} }}, \
             name: {{ template: \"name-{{id}}\" }}, dt: {{ choice: [\"2024-01-01\", \"2024-01-02\"] }} }} }}\n{}{}",
            number("rows", job.rows),
            number("rate", job.rate),
            self.sink_yaml(
                "id: BIGINT NOT NULL, name: STRING, dt: STRING",
                job.partition_by,
                &options,
                &checkpoint
            ),
            job.more,
        );
        self.write("job.yaml", text);
        self
    }

    /// Writes `job.yaml` for files below `in/`.
    pub fn files(
        &self,
        path: &str,
        source: &str,
        columns: &str,
        partition_by: &str,
        interval: Option<&str>,
    ) -> &Self {
        let interval = interval.map_or_else(String::new, |i| format!(", interval: {i}"));
        let text = format!(
            "name: lab\nsource: {{ type: files, path: \"{path}\"{source} }}\n{}",
            self.sink_yaml(columns, partition_by, "", &interval)
        );
        self.write("job.yaml", text);
        self
    }

    /// Starts `tidegate ARGS` in the folder.
    pub fn spawn(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        let mut command = Command::new(binary::tidegate());
        command.args(args);
        self.start(command, env)
    }

    /// Starts `tidegate ARGS` under a shell prefix such as `ulimit -f 10; exec`.
    pub fn spawn_under(&self, prefix: &str, args: &[&str]) -> Running {
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(format!("{prefix} \"$0\" \"$@\""))
            .arg(binary::tidegate())
            .args(args);
        self.start(command, &[])
    }

    fn start(&self, mut command: Command, env: &[(&str, &str)]) -> Running {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NTH: AtomicUsize = AtomicUsize::new(0);
        let n = NTH.fetch_add(1, Ordering::Relaxed);
        let logs = std::env::temp_dir().join(format!("tidegate-lab-out-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        let (out, err) = (logs.join(format!("{n}.out")), logs.join(format!("{n}.err")));
        for name in [
            "TIDEGATE_STOP_AT",
            "TIDEGATE_PROBE_FILE",
            "TIDEGATE_STORE_LATENCY",
            "TIDEGATE_WAREHOUSE",
        ] {
            command.env_remove(name);
        }
        let child = command
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .envs(env.iter().copied())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Running { child, out, err }
    }

    /// `tidegate run job.yaml ARGS`, started.
    pub fn start_job(&self, args: &[&str]) -> Running {
        self.spawn(&[&["run", "job.yaml"], args].concat(), &[])
    }

    /// `tidegate run job.yaml ARGS` to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Done {
        self.start_job(args).wait()
    }

    /// The same command, killed at the n-th pass of a named place.
    #[track_caller]
    pub fn run_to(&self, place: &str) -> Done {
        self.spawn(&["run", "job.yaml"], &[("TIDEGATE_STOP_AT", place)])
            .wait()
    }

    /// As [`Lab::run_to`] with a generator of so many rows a second: slow enough that a stall of the
    /// whole machine, after which it catches up, does not bring it to its end before the place.
    #[track_caller]
    pub fn run_slowly_to(&self, place: &str, rate: u64) -> Done {
        let rate = format!("source.rate={rate}");
        let args = ["run", "job.yaml", "--set", &rate];
        self.spawn(&args, &[("TIDEGATE_STOP_AT", place)]).wait()
    }

    /// Any command to its end.
    #[track_caller]
    pub fn tidegate(&self, args: &[&str]) -> Done {
        self.spawn(args, &[]).wait()
    }

    /// Arguments that name the warehouse.
    fn located(&self) -> Vec<String> {
        let mut all = vec!["--warehouse".to_owned(), self.warehouse()];
        if let Some((server, _)) = &self.s3 {
            for (key, value) in server.options() {
                all.push("--store".into());
                all.push(format!("{key}={value}"));
            }
        }
        all
    }

    /// Starts a command on the warehouse.
    pub fn start_on(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        let located = self.located();
        let located = located.iter().map(String::as_str);
        let all: Vec<&str> = args.iter().copied().chain(located).collect();
        self.spawn(&all, env)
    }

    /// A command on the warehouse, its lines as JSON.
    #[track_caller]
    pub fn query(&self, args: &[&str]) -> Vec<Value> {
        let done = self
            .start_on(&[args, &["--format", "jsonl"]].concat(), &[])
            .wait()
            .expect(0);
        done.stdout
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// Rows of the table.
    #[track_caller]
    pub fn rows(&self) -> Vec<Value> {
        self.query(&["table", "read", TABLE])
    }

    /// The `id` column, sorted.
    #[track_caller]
    pub fn ids(&self) -> Vec<i64> {
        let rows = self.query(&["table", "read", TABLE, "--columns", "id"]);
        let mut ids: Vec<i64> = rows.iter().map(|r| r["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    /// Snapshots of the table, oldest first.
    #[track_caller]
    pub fn snapshots(&self) -> Vec<Value> {
        self.query(&["table", "snapshots", TABLE])
    }

    /// Live data files.
    #[track_caller]
    pub fn data_files(&self) -> Vec<Value> {
        self.query(&["table", "files", TABLE])
    }

    /// The table's folder; local labs only.
    pub fn table_dir(&self) -> PathBuf {
        assert!(self.s3.is_none());
        self.path("warehouse/shop.db/orders")
    }

    /// How many snapshots are visible on the local disk.
    pub fn visible(&self) -> usize {
        let entries = fs::read_dir(self.table_dir().join("snapshot"));
        let named = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with("snapshot-");
        entries.map_or(0, |e| e.flatten().filter(named).count())
    }

    /// How many snapshots the table has, asked by a user's command; 0 where there is no table yet.
    pub fn published(&self) -> usize {
        let done = self.start_on(&["table", "snapshots", TABLE, "-f", "jsonl"], &[]);
        done.wait().stdout.lines().count()
    }

    /// Looks at the table's folder, or at a copy of it where it is on S3.
    fn with_table<T>(&self, look: impl FnOnce(&Path) -> T) -> T {
        match &self.s3 {
            None => look(&self.table_dir()),
            Some((server, prefix)) => {
                let copy = TempDir::new().unwrap();
                let from = format!("{prefix}/warehouse/shop.db/orders/");
                // As deep as in a warehouse: pypaimon reads the table's name from its path.
                let table = copy.path().join("shop.db/orders");
                mirror::download(server, &from, &table);
                look(&table)
            }
        }
    }

    /// What an outsider finds in the table's folder.
    pub fn judge(&self) -> judge::Findings {
        self.with_table(judge::look)
    }

    /// What pypaimon reads.
    #[track_caller]
    pub fn outside(&self) -> outside::Reading {
        self.with_table(outside::pypaimon)
    }

    /// The whole verdict on a lab whose ids count from 1: nothing lost, doubled or left over.
    #[track_caller]
    pub fn whole(&self, rows: i64) -> judge::Findings {
        let found = self.whole_but_for_leftovers(rows);
        assert!(found.orphans.is_empty(), "left over: {:#?}", found.orphans);
        found
    }

    /// As [`Lab::whole`], but for what is left over: that is the caller's to judge.
    #[track_caller]
    pub fn whole_but_for_leftovers(&self, rows: i64) -> judge::Findings {
        let ids = self.ids();
        let wrong = judge::differences(&ids, rows);
        assert!(
            wrong.is_empty(),
            "ids 1..={rows}: {wrong}; kept {:?}",
            self.keep()
        );
        let found = self.judge();
        assert!(
            found.dangling.is_empty(),
            "referenced, absent: {:#?}",
            found.dangling
        );
        let total: i64 = found
            .snapshots
            .last()
            .map_or(0, |s| s["totalRecordCount"].as_i64().unwrap());
        assert_eq!(total, rows, "record count of the newest snapshot");
        assert_eq!(found.users.len(), 1, "one commit user: {:?}", found.users);
        // It knows of the same left-overs as bytes alone do; unfinished uploads are no objects.
        let report = self.query(&["verify", TABLE]).remove(0);
        let findings = report["findings"].as_array().unwrap();
        let mut unknown: Vec<&str> = findings
            .iter()
            .filter(|f| f["kind"] == "unknown-file")
            .filter_map(|f| f["place"].as_str())
            .filter(|place| !place.contains(" (upload "))
            .collect();
        unknown.sort_unstable();
        assert_eq!(unknown, found.orphans, "verify beside the judge");
        found
    }

    /// Runs of the lab's job that are still registered.
    pub fn registered(&self) -> Vec<u64> {
        self.with_table(|table| {
            let names = fs::read_dir(table.join("tidegate/jobs/lab")).unwrap();
            let epoch = |name: String| name.strip_prefix("epoch-")?.parse().ok();
            names
                .filter_map(|e| epoch(e.unwrap().file_name().into_string().unwrap()))
                .collect()
        })
    }

    /// Keeps a lab's folder, and its objects where it is on S3, for a look at it, where a test fails.
    pub fn keep(&self) -> PathBuf {
        let kept = std::env::temp_dir().join(format!(
            "kept-{}",
            self.dir.path().file_name().unwrap().to_string_lossy()
        ));
        let _copied = Command::new("cp")
            .arg("-a")
            .arg(self.dir.path())
            .arg(&kept)
            .status();
        if let Some((server, prefix)) = &self.s3 {
            mirror::download(server, &format!("{prefix}/"), &kept.join("s3"));
        }
        kept
    }
}
