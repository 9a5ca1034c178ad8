//! `cargo xtask test`: all that must hold, in an order that fails early, and where the time went.

use crate::process::{Failure, cargo, run as command, say, target_directory};
use crate::{golden, interop, layers, simulate};
use std::time::{Duration, Instant};

/// Steps that were done, with what became of them.
struct Steps {
    done: Vec<(&'static str, Duration, bool)>,
    keep_going: bool,
}

impl Steps {
    fn step(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        say(&format!("\n== {name}"));
        let begun = Instant::now();
        let result = work();
        self.done.push((name, begun.elapsed(), result.is_ok()));
        match result {
            Err(why) if self.keep_going => {
                say(&format!("xtask: {why}"));
                Ok(())
            }
            other => other,
        }
    }

    fn table(&self) {
        let whole: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        say("\nwhere the time went:");
        for (name, took, good) in &self.done {
            let seconds = took.as_secs_f64();
            let share = 100.0 * seconds / whole.as_secs_f64().max(0.001);
            let mark = if *good { "ok" } else { "FAILED" };
            say(&format!(
                "  {name:<34} {seconds:>7.1} s {share:>4.0} %  {mark}"
            ));
        }
        say(&format!("  {:<34} {:>7.1} s", "all", whole.as_secs_f64()));
    }
}

fn all(steps: &mut Steps) -> Result<(), Failure> {
    steps.step("format", || {
        command(cargo().args(["fmt", "--all", "--check"]))
    })?;
    steps.step("layers", layers::check)?;
    steps.step("golden sizes", golden::check_sizes)?;
    // Without peers: they are built by `bench` alone.
    let workspace = ["--workspace", "--exclude", "tidegate-benches", "--locked"];
    steps.step("compile the tests", || {
        command(cargo().args(["test", "--no-run"]).args(workspace))
    })?;
    steps.step("compile the binary", || {
        command(cargo().args(["build", "--locked", "--package", "tidegate-cli"]))
    })?;
    let binary = target_directory()?.join("debug/tidegate");
    steps.step("unit and integration tests", || {
        command(
            cargo()
                .env("TIDEGATE_BIN", &binary)
                .args([
                    "test",
                    "--lib",
                    "--bins",
                    "--tests",
                    "--examples",
                    "--no-fail-fast",
                ])
                .args(workspace),
        )
    })?;
    steps.step("Java Paimon and pypaimon", || {
        interop::quick(binary.clone())
    })?;
    steps.step("simulation", simulate::in_ci)?;
    steps.step("examples in the documentation", || {
        command(cargo().args(["test", "--doc"]).args(workspace))
    })?;
    steps.step("clippy", || {
        command(
            cargo()
                .args(["clippy", "--all-targets"])
                .args(workspace)
                .args(["--", "-D", "warnings"]),
        )
    })?;
    steps.step("documentation", || {
        // The program before the libraries: both are called `tidegate`, and two at once remove each
        // other's pages.
        for targets in [&["--bin", "tidegate"][..], &[]] {
            command(
                cargo()
                    .env("RUSTDOCFLAGS", "-D warnings")
                    .args(["doc", "--no-deps"])
                    .args(targets)
                    .args(workspace),
            )?;
        }
        Ok(())
    })?;
    steps.step("packages", || {
        let mut package = cargo();
        package.args([
            "package",
            "--workspace",
            "--no-verify",
            "--allow-dirty",
            "--locked",
            "--quiet",
        ]);
        command(&mut package)
    })
}

pub(crate) fn run(keep_going: bool) -> Result<(), Failure> {
    let mut steps = Steps {
        done: Vec::new(),
        keep_going,
    };
    let result = all(&mut steps);
    steps.table();
    result?;
    let failed: Vec<&str> = steps
        .done
        .iter()
        .filter(|(.., good)| !good)
        .map(|(n, ..)| *n)
        .collect();
    if failed.is_empty() {
        say("\nall good");
        return Ok(());
    }
    Err(format!("failed: {}", failed.join(", ")))
}
