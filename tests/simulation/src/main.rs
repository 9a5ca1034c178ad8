//! `cargo xtask simulate`: plays schedules, tells what they met, minimises what broke.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool that talks to its user"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_simulation::hunt::Hunt;
use tidegate_simulation::{coverage, schedule, script};

#[derive(Parser)]
#[command(
    name = "cargo xtask simulate",
    about = "Play schedules of jobs on one simulated table"
)]
struct Arguments {
    /// Schedules with at least three checkpoints, one crash and two faults.
    #[arg(long, default_value_t = 1_000)]
    schedules: u64,
    /// The first seed; further ones follow. With `--schedules 1` this one schedule, with its trace.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; each schedule runs on one.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Minimise the first schedule that broke, and print it as a script.
    #[arg(long)]
    shrink: bool,
    /// Play this script and print its trace.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Switch deliberate bugs on one after the other, and count the schedules until each is noticed.
    #[arg(long)]
    mutants: bool,
    /// Only bugs whose description holds this.
    #[arg(long)]
    only: Option<String>,
    /// Also tell what the jobs themselves log, on stderr between the lines of the trace.
    #[arg(long)]
    log: bool,
    /// Play each schedule twice, and fail where two plays differ in anything.
    #[arg(long)]
    twice: bool,
    /// Fail where a cell of the table was met less often; 50 from 100,000 schedules on, else 0.
    #[arg(long)]
    least: Option<u64>,
}

/// From so many schedules on every cell is to be met.
const MANY: u64 = 100_000;
/// How often, then.
const OFTEN: u64 = 50;

#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

fn main() -> ExitCode {
    tidegate_allocator::keep_freed_memory();
    // A panic of a process is a finding, told as one; the backtrace of thousands would hide it.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments = Arguments::parse();
    if arguments.log {
        let lines = tracing_subscriber::fmt().without_time().with_ansi(false);
        lines.with_writer(std::io::stderr).init();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("simulate: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(path) = &arguments.script {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let numbers = script::read(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        return show(&schedule::of_script(&numbers, true));
    }
    if arguments.mutants {
        return mutants(arguments);
    }
    if arguments.twice {
        return twice(arguments);
    }
    if arguments.schedules == 1 {
        let report = schedule::of_seed(arguments.seed, true);
        if arguments.shrink && report.verdict.is_err() {
            return shrink(&report);
        }
        return show(&report);
    }
    let hunt = Hunt {
        seed: arguments.seed,
        schedules: arguments.schedules,
        threads: arguments.threads,
        until_broken: if arguments.shrink { 1 } else { 100 },
    };
    let caught = hunt.run(|line| eprintln!("{line}"));
    println!("{}", caught.coverage.table());
    for (cells, why) in coverage::UNREACHABLE {
        println!("–, {cells}: {why}");
    }
    println!();
    println!("{}", caught.coverage.outline());
    let played = caught.coverage.schedules;
    println!(
        "{:.1} s, {:.0} schedules/s",
        caught.took.as_secs_f64(),
        rate(played, caught.took)
    );
    let rarest = caught.coverage.rarest();
    let shown: Vec<String> = rarest
        .iter()
        .take(6)
        .map(|(n, cell)| format!("{cell} {n}"))
        .collect();
    println!("rarest cells: {}", shown.join(", "));
    for (seed, why) in caught.broken.iter().take(20) {
        println!("seed {seed}: {why}");
    }
    if let Some((seed, _)) = caught.broken.first() {
        if arguments.shrink {
            shrink(&schedule::of_seed(*seed, true))?;
        }
        return Err(format!(
            "{} of {played} schedules broke; `cargo xtask simulate --schedules 1 --seed {seed}` shows the \
             first one, with `--shrink` as a script",
            caught.broken.len()
        ));
    }
    let often = if arguments.schedules < MANY { 0 } else { OFTEN };
    let least = arguments.least.unwrap_or(often);
    let below = rarest
        .iter()
        .take_while(|(count, _)| *count < least)
        .count();
    match rarest.first() {
        Some((count, cell)) if below > 0 => Err(format!(
            "{below} cells of the table were met less than {least} times, {cell} {count} times"
        )),
        _ => Ok(()),
    }
}

fn twice(arguments: &Arguments) -> Result<(), String> {
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.schedules);
    let mut differing = 0;
    for seed in seeds {
        if let Some(how) = schedule::difference(seed) {
            println!("seed {seed}: {how}");
            differing += 1;
        }
    }
    let played = arguments.schedules;
    println!("{played} schedules played twice");
    match differing {
        0 => Ok(()),
        _ => Err(format!(
            "{differing} of {played} schedules are not one thing only"
        )),
    }
}

fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(0.001)
}

fn show(report: &schedule::Report) -> Result<(), String> {
    for line in &report.trace {
        println!("{line}");
    }
    println!(
        "{} requests, {} checkpoints, {} crashes, {} faults; trace {:016x}",
        report.steps, report.checkpoints, report.crashes, report.faults, report.hash
    );
    report.verdict.clone()
}

fn shrink(report: &schedule::Report) -> Result<(), String> {
    let smallest = script::minimise(report, 6_000);
    let report = schedule::of_script(&smallest, true);
    for line in &report.trace {
        println!("{line}");
    }
    println!(
        "\nas a script, for tests/simulation/scripts/<name>.sim:\n\n{}",
        script::write(&report)
    );
    report.verdict
}

#[cfg(feature = "mutants")]
fn mutants(arguments: &Arguments) -> Result<(), String> {
    let hunt = Hunt {
        seed: arguments.seed,
        schedules: arguments.schedules,
        threads: arguments.threads,
        until_broken: 1,
    };
    let only = arguments.only.as_deref();
    let proof = tidegate_simulation::mutants::prove(hunt, only, |line| eprintln!("{line}"));
    println!("{}", proof.table);
    match proof.missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("not noticed: {}", missed.join("; "))),
    }
}

#[cfg(not(feature = "mutants"))]
fn mutants(_: &Arguments) -> Result<(), String> {
    Err("this build holds no bugs on purpose; build it with the feature `mutants`".to_owned())
}
