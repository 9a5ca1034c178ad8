//! `cargo xtask fuzz`: the fuzz targets of all crates, one after the other. See docs/fuzzing.md.
//!
//! Builds them once, with the coverage of libFuzzer in our own crates and dependencies as every other
//! build has them, so that nothing is compiled twice and a stable toolchain will do.

use crate::process::{Failure, cargo, output, root, run as command, say, target_directory};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Seconds per target, and per round of --cpu-seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run each target again until it had this much of a processor: on a busy machine seconds say little.
    #[arg(long, value_name = "SECONDS")]
    cpu_seconds: Option<u64>,
    /// Say which targets there are and run none.
    #[arg(long)]
    list: bool,
    /// Run only this one, or those of this crate (repeatable).
    #[arg(long, value_name = "CRATE/NAME|CRATE")]
    target: Vec<String>,
}

/// Set while cargo builds fuzz targets: this program stands between cargo and rustc then.
const WRAPS: &str = "TIDEGATE_FUZZ_WRAPS";

/// What makes rustc leave word of every edge that is taken. `fuzzing` shows the `fuzzing` modules.
const COVERAGE: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
];

/// Longest input: what is longer is slower and shows nothing new.
const LONGEST: usize = 4096;
/// A run that holds more is a find, MiB.
const MEMORY: usize = 1024;
/// An input that takes longer is a find, seconds. Generous: other programs may keep the machine busy.
const SLOWEST: usize = 25;

/// As `RUSTC_WRAPPER` of the build: rustc with coverage where it compiles a crate of ours. `None` where
/// this program was not called so.
pub(crate) fn wrapped() -> Option<ExitCode> {
    let ours = std::env::var_os(WRAPS)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut rustc = Command::new(arguments.next()?);
    rustc.args(arguments);
    let of = std::env::var_os("CARGO_MANIFEST_DIR");
    if of.is_some_and(|folder| Path::new(&folder).starts_with(ours)) {
        rustc.args(COVERAGE);
    }
    let code = rustc.status().ok().and_then(|status| status.code());
    Some(ExitCode::from(
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
    ))
}

/// A target: `format/manifest`.
struct Target {
    of: String,
    name: String,
    folder: PathBuf,
}

impl Target {
    fn shown(&self) -> String {
        format!("{}/{}", self.of, self.name)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut targets = targets()?;
    if !arguments.target.is_empty() {
        for wanted in &arguments.target {
            if !targets
                .iter()
                .any(|t| *wanted == t.shown() || *wanted == t.of)
            {
                return Err(format!("no fuzz target `{wanted}`; --list names them"));
            }
        }
        targets.retain(|t| {
            let shown = t.shown();
            arguments.target.iter().any(|w| *w == shown || *w == t.of)
        });
    }
    if arguments.list {
        targets.iter().for_each(|target| say(&target.shown()));
        return Ok(());
    }
    let binaries = build(&targets)?;
    let mut summary = Vec::new();
    let mut finds = Vec::new();
    for (n, target) in targets.iter().enumerate() {
        let how_long = match arguments.cpu_seconds {
            Some(cpu) => format!("{cpu} s of a processor"),
            None => format!("{} s", arguments.seconds),
        };
        say(&format!(
            "[{}/{}] {}, {how_long}",
            n + 1,
            targets.len(),
            target.shown(),
        ));
        let mut report = fuzz(target, &binaries, arguments.seconds)?;
        while report.find.is_none()
            && arguments
                .cpu_seconds
                .is_some_and(|wanted| report.cpu.as_secs() < wanted)
        {
            report.add(fuzz(target, &binaries, arguments.seconds)?);
        }
        say(&format!("  {}", report.line()));
        if let Some(find) = &report.find {
            finds.push(format!("{}: {find}", target.shown()));
        }
        summary.push((target.shown(), report));
    }
    say("\ntarget                              executions");
    for (name, report) in &summary {
        say(&format!("  {name:<32} {}", report.line()));
    }
    if finds.is_empty() {
        say(&format!("fuzz: {} targets, no find", summary.len()));
        return Ok(());
    }
    Err(format!(
        "{} find(s), each with the input that shows it:\n  {}\nfix it, then add the input to the target's \
         `seeds`, which `cargo test` runs",
        finds.len(),
        finds.join("\n  ")
    ))
}

fn targets() -> Result<Vec<Target>, Failure> {
    let crates = root().join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates)
        .map_err(|e| format!("{}: {e}", crates.display()))?
        .flatten()
    {
        let folder = entry.path().join("fuzz");
        let Ok(entries) = fs::read_dir(folder.join("fuzz_targets")) else {
            continue;
        };
        for target in entries.flatten() {
            if let Some(name) = target.path().file_stem().and_then(|s| s.to_str()) {
                found.push(Target {
                    of: entry.file_name().to_string_lossy().into_owned(),
                    name: name.to_owned(),
                    folder: folder.clone(),
                });
            }
        }
    }
    found.sort_by_key(Target::shown);
    Ok(found)
}

/// Builds the targets and says where they are.
fn build(targets: &[Target]) -> Result<PathBuf, Failure> {
    let this = std::env::current_exe().map_err(|e| format!("where this program is: {e}"))?;
    let mut build = cargo();
    build
        .env("RUSTC_WRAPPER", this)
        .env(WRAPS, root())
        .args(["build", "--workspace", "--manifest-path"])
        .arg(root().join("xtask/fuzz/Cargo.toml"))
        .arg("--target-dir")
        .arg(target_directory()?);
    for target in targets {
        build.args(["--bin", &target.name]);
    }
    command(&mut build)?;
    Ok(target_directory()?.join("debug"))
}

/// What became of one target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    seconds: u64,
    /// Time of a processor.
    cpu: Duration,
    executions: u64,
    /// Edges taken by the seeds and the corpus, and by the end.
    edges: Option<(u64, u64)>,
    /// Executions up to the last new edge.
    last_new: u64,
    /// Why it stopped, and the input.
    find: Option<String>,
}

impl Report {
    fn line(&self) -> String {
        let rate = self.executions / self.cpu.as_secs().max(1);
        let mut line = format!(
            "{:>10} in {:>4} s of a processor ({} s), {rate:>7}/s",
            self.executions,
            self.cpu.as_secs(),
            self.seconds
        );
        if let Some((from, to)) = self.edges {
            let at = 100 * self.last_new / self.executions.max(1);
            line += &format!("  edges {from:>5} -> {to:>5}, last new at {at:>3} %");
        }
        if self.find.is_some() {
            line += "  FIND";
        }
        line
    }

    /// The next round of the same target, from the corpus that this one left.
    fn add(&mut self, next: Self) {
        let before = self.executions;
        self.seconds += next.seconds;
        self.cpu += next.cpu;
        self.executions += next.executions;
        if next.last_new > 0 {
            self.last_new = before + next.last_new;
        }
        if let (Some((_, to)), Some((_, now))) = (&mut self.edges, next.edges) {
            *to = now.max(*to);
        }
        self.find = next.find;
    }

    /// Reads the log of libFuzzer.
    fn of(log: &str) -> Self {
        let mut report = Self::default();
        let number = |text: &str| text.trim().parse::<u64>().ok();
        for line in log.lines() {
            // `#8192	NEW    cov: 312 ft: 618 corp: …`
            if let Some((at, rest)) = line.strip_prefix('#').and_then(|l| l.split_once('\t'))
                && let Some(at) = number(at)
            {
                report.executions = report.executions.max(at);
                let cov = rest
                    .split_once("cov: ")
                    .and_then(|(_, c)| c.split_once(' '));
                let Some(cov) = cov.and_then(|(c, _)| number(c)) else {
                    continue;
                };
                let (from, to) = report.edges.unwrap_or((cov, cov));
                if rest.starts_with("INITED") {
                    report.edges = Some((cov, cov));
                } else {
                    if cov > to {
                        report.last_new = at;
                    }
                    report.edges = Some((from, cov.max(to)));
                }
            }
            if let Some(all) = line.strip_prefix("stat::number_of_executed_units:") {
                report.executions = number(all).unwrap_or(report.executions);
            }
            if let Some((_, path)) = line.split_once("Test unit written to ") {
                report.find = Some(path.trim().to_owned());
            }
        }
        report
    }
}

fn fuzz(target: &Target, binaries: &Path, seconds: u64) -> Result<Report, Failure> {
    let folder = |path: PathBuf| -> Result<PathBuf, Failure> {
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    };
    // What is found goes into the first folder, which is not committed.
    let corpus = folder(target.folder.join("corpus").join(&target.name))?;
    let artifacts = folder(target.folder.join("artifacts").join(&target.name))?;
    let seeds = target.folder.join("seeds").join(&target.name);
    let log = artifacts.join("last.log");
    let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    // Behind everything else that the machine does.
    let mut run = Command::new("nice");
    run.args(["-n", "19"])
        .arg(binaries.join(&target.name))
        .arg(&corpus);
    if seeds.is_dir() {
        run.arg(&seeds);
    }
    run.args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={LONGEST}"),
        format!("-rss_limit_mb={MEMORY}"),
        format!("-timeout={SLOWEST}"),
        format!("-artifact_prefix={}/", artifacts.display()),
    ])
    .args([
        "-print_final_stats=1",
        "-use_value_profile=0",
        "-verbosity=1",
    ])
    .stdout(Stdio::null())
    .stderr(file);
    let begun = Instant::now();
    let cpu = of_children()?;
    let status = run
        .status()
        .map_err(|e| format!("{}: {e}", target.shown()))?;
    let text = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let mut report = Report::of(&String::from_utf8_lossy(&text));
    report.seconds = begun.elapsed().as_secs();
    report.cpu = of_children()?.saturating_sub(cpu);
    if !status.success() {
        let input = report.find.take();
        let input = input.unwrap_or_else(|| format!("no input was kept ({status})"));
        report.find = Some(format!("{input} (log {})", log.display()));
        let tail = output(Command::new("tail").args(["-n", "25"]).arg(&log))?;
        say(&tail);
    }
    Ok(report)
}

/// Time of a processor that children of this process had, those that ended.
fn of_children() -> Result<Duration, Failure> {
    // Behind the name, which may hold anything, field 16 and 17 of proc(5) in ticks of 10 ms.
    let stat =
        fs::read_to_string("/proc/self/stat").map_err(|e| format!("/proc/self/stat: {e}"))?;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    Ok(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_processor_is_that_of_ended_children() {
        let before = of_children().unwrap();
        let spun = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
            .status();
        assert!(spun.unwrap().success());
        assert!(of_children().unwrap() > before);
    }

    #[test]
    fn rounds_of_a_target_add_up() {
        let round = |executions, edges, last_new| Report {
            seconds: 60,
            cpu: Duration::from_secs(10),
            executions,
            edges: Some(edges),
            last_new,
            find: None,
        };
        let mut all = round(100, (5, 9), 90);
        all.add(round(50, (9, 9), 0));
        assert_eq!(all.last_new, 90);
        all.add(round(10, (9, 12), 4));
        assert_eq!(all.executions, 160);
        assert_eq!(all.edges, Some((5, 12)));
        assert_eq!(all.last_new, 154);
        assert_eq!(all.cpu, Duration::from_secs(30));
    }

    #[test]
    fn a_log_gives_executions_edges_and_the_input_of_a_find() {
        let log = "INFO: seed corpus: files: 2\n\
             #2\tpulse  cov: 10 ft: 10 corp: 1/1b exec/s: 0 rss: 30Mb\n\
             #3\tINITED cov: 40 ft: 41 corp: 2/7b exec/s: 0 rss: 30Mb\n\
             #90\tNEW    cov: 44 ft: 50 corp: 3/9b lim: 4 exec/s: 0 rss: 30Mb L: 2/4 MS: 1 CopyPart-\n\
             #95\tREDUCE cov: 44 ft: 50 corp: 3/8b lim: 4 exec/s: 0 rss: 30Mb L: 1/4 MS: 1 Erase-\n\
             #100\tDONE   cov: 44 ft: 50 corp: 3/8b lim: 4 exec/s: 50 rss: 30Mb\n\
             stat::number_of_executed_units: 101\n";
        let report = Report::of(log);
        assert_eq!(
            report,
            Report {
                seconds: 0,
                cpu: Duration::ZERO,
                executions: 101,
                edges: Some((40, 44)),
                last_new: 90,
                find: None
            }
        );
        let report = Report::of("artifact_prefix='x/'; Test unit written to x/crash-1\n");
        assert_eq!(report.find.as_deref(), Some("x/crash-1"));
    }

    #[test]
    fn every_target_has_seeds_and_stands_in_the_manifest() {
        for target in targets().unwrap() {
            let seeds = target.folder.join("seeds").join(&target.name);
            assert!(seeds.is_dir(), "{} has no seeds", target.shown());
            let manifest = fs::read_to_string(target.folder.join("Cargo.toml")).unwrap();
            let name = format!("name = \"{}\"", target.name);
            assert!(manifest.contains(&name), "{}", target.shown());
        }
    }
}
