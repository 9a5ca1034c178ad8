//! `tidegate doctor`: can a store be trusted with a table, and is a warehouse as its jobs need it?

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::recovery::{CheckpointStore, RunStatus};
use tidegate::sink::{CommitUser, JobName};
use tidegate::storage::conformance::{self, Check, Needed, Options, Outcome, Report, Usable};
use tidegate::system::{Cell, Sheet};
use tidegate::{Table, TargetOptions, Warehouse};

use crate::args::{Doctor, Format, OutputArgs};
use crate::exit::{CHECK_FAILED, Result};
use crate::{context, output};

pub(crate) async fn run(doctor: Doctor, output: &OutputArgs) -> Result<u8> {
    match doctor {
        Doctor::Store { url, store, rounds } => {
            let store = context::open_store(&url, &store)?;
            let report = conformance::run(&store, &options(rounds)).await;
            show_store(&report, output)
        }
        Doctor::Warehouse {
            warehouse,
            checkpoints,
            rounds,
        } => {
            let mut findings = Findings::default();
            let place = warehouse.open()?;
            place.require().await?;
            let report = conformance::run(place.store(), &options(rounds)).await;
            findings.store(&report);
            for url in &checkpoints {
                let store = context::open_store(url, &warehouse.store)?;
                let report = conformance::run(&store, &options(rounds)).await;
                findings.store(&report);
            }
            let usable = report.verdict().usable != Usable::Not;
            if usable {
                findings.catalog(&place, &warehouse.store).await;
            }
            findings.show(output)
        }
    }
}

fn options(rounds: u32) -> Options {
    Options {
        rounds,
        ..Options::default()
    }
}

/// How a check ended, as people read it: what nothing needs is a note.
fn outcome(check: &Check) -> &'static str {
    match (check.outcome, check.needed) {
        (Outcome::Passed, _) => "passed",
        (Outcome::Skipped, _) => "skipped",
        (Outcome::Failed, Needed::Never) => "note",
        (Outcome::Failed, _) => "failed",
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn show_store(report: &Report, output: &OutputArgs) -> Result<u8> {
    let verdict = report.verdict();
    if output.format == Format::Table {
        let mut sheet = Sheet::new(["check", "outcome", "ms", "detail"]);
        for check in &report.checks {
            sheet.push(vec![
                check.name.into(),
                outcome(check).into(),
                Cell::Int(millis(check.duration)),
                check.detail.as_str().into(),
            ]);
        }
        output::sheet(output.format, &sheet)?;
        output::line(&format!("{}: {}", report.url, usable_text(verdict.usable)))?;
        for reason in &verdict.reasons {
            output::line(&format!("  {reason}"))?;
        }
    } else {
        let checks: Vec<_> = report
            .checks
            .iter()
            .map(|c| json!({"check": c.name, "outcome": outcome(c), "ms": millis(c.duration), "detail": c.detail}))
            .collect();
        let value = json!({"url": report.url, "usable": format!("{:?}", verdict.usable), "reasons": verdict.reasons, "checks": checks});
        output::object(output.format, &value)?;
    }
    Ok(if verdict.usable == Usable::ReadWrite {
        0
    } else {
        CHECK_FAILED
    })
}

fn usable_text(usable: Usable) -> &'static str {
    match usable {
        Usable::ReadWrite => "good for reading and writing tables",
        Usable::ReadOnly => "good for reading only: writing here could lose commits",
        _ => "not good for tables",
    }
}

/// What was looked at in a warehouse, line by line.
struct Findings {
    sheet: Sheet,
    failed: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            sheet: Sheet::new(["place", "check", "outcome", "ms", "detail"]),
            failed: false,
        }
    }
}

impl Findings {
    fn push(&mut self, place: &str, check: &str, outcome: &str, begun: Instant, detail: &str) {
        self.failed |= outcome == "failed";
        self.sheet.push(vec![
            place.into(),
            check.into(),
            outcome.into(),
            Cell::Int(millis(begun.elapsed())),
            detail.into(),
        ]);
    }

    fn store(&mut self, report: &Report) {
        for check in &report.checks {
            let outcome = outcome(check);
            self.failed |= outcome == "failed";
            self.sheet.push(vec![
                report.url.as_str().into(),
                check.name.into(),
                outcome.into(),
                Cell::Int(millis(check.duration)),
                check.detail.as_str().into(),
            ]);
        }
        let usable = report.verdict().usable;
        let outcome = match usable {
            Usable::ReadWrite => "passed",
            _ => "failed",
        };
        let text = usable_text(usable);
        self.push(&report.url, "store", outcome, Instant::now(), text);
    }

    /// Every table and every job of a warehouse.
    async fn catalog(&mut self, warehouse: &Warehouse, store: &[String]) {
        let begun = Instant::now();
        let databases = match warehouse.databases().await {
            Ok(databases) => databases,
            Err(e) => {
                let why = e.to_string();
                return self.push(warehouse.url(), "databases", "failed", begun, &why);
            }
        };
        let listed = match databases.as_slice() {
            [] => "none: a database is a folder NAME.db".to_owned(),
            some => some.join(", "),
        };
        self.push(warehouse.url(), "databases", "passed", begun, &listed);
        for database in databases {
            let begun = Instant::now();
            let tables = match warehouse.tables(&database).await {
                Ok(tables) => tables,
                Err(e) => {
                    self.push(&database, "tables", "failed", begun, &e.to_string());
                    continue;
                }
            };
            for name in tables {
                let begun = Instant::now();
                match warehouse.table(&database, &name).await {
                    Ok(table) => self.table(&table, store).await,
                    Err(e) => {
                        let place = format!("{database}.{name}");
                        self.push(&place, "schema", "failed", begun, &e.to_string());
                    }
                }
            }
        }
    }

    async fn table(&mut self, table: &Table, store: &[String]) {
        let name = table.name().to_owned();
        let begun = Instant::now();
        let schema = format!("schema {}", table.schema().id);
        // What this build cannot write others may: no fault of the table.
        match table.target(TargetOptions::default()) {
            Ok(_) => self.push(&name, "schema", "passed", begun, &schema),
            Err(e) => {
                let detail = format!("{schema}; not written by this build: {e}");
                self.push(&name, "schema", "note", begun, &detail);
            }
        }
        let begun = Instant::now();
        match table.latest_snapshot().await {
            Ok(Some(snapshot)) => {
                let rows = snapshot.total_record_count;
                let rows = rows.map_or_else(String::new, |rows| format!(", {rows} records"));
                let detail = format!("snapshot {}{rows}", snapshot.id);
                self.push(&name, "newest snapshot", "passed", begun, &detail);
            }
            Ok(None) => self.push(&name, "newest snapshot", "passed", begun, "no snapshot yet"),
            Err(e) => self.push(&name, "newest snapshot", "failed", begun, &e.to_string()),
        }
        let begun = Instant::now();
        match table.jobs().jobs().await {
            Ok(jobs) => {
                for job in jobs {
                    if let Some(run) = job.newest() {
                        self.job(&name, &job.job, run, store).await;
                    }
                }
            }
            Err(e) => self.push(&name, "jobs", "failed", begun, &e.to_string()),
        }
    }

    /// Whether the next start of a job finds its checkpoints.
    async fn job(&mut self, table: &str, job: &JobName, run: &RunStatus, store: &[String]) {
        let begun = Instant::now();
        let place = format!("{table}, job {job}");
        let registration = &run.registration;
        if let Some(newer) = &registration.adopted_by {
            let detail = format!("goes on as job {newer}");
            return self.push(&place, "checkpoints", "passed", begun, &detail);
        }
        let retired = run
            .ended
            .as_ref()
            .is_some_and(|e| e.how.name() == "retired");
        if retired {
            return self.push(
                &place,
                "checkpoints",
                "skipped",
                begun,
                "the job is retired",
            );
        }
        if !registration.keeps_checkpoints() {
            let detail = "it keeps none: it takes no rows from a source";
            return self.push(&place, "checkpoints", "skipped", begun, detail);
        }
        let url = &registration.checkpoints;
        let found = records(url, job, registration.commit_user(), store).await;
        match found {
            Ok(Some(newest)) => {
                let detail = format!("newest {newest} in {url}");
                self.push(&place, "checkpoints", "passed", begun, &detail);
            }
            Ok(None) => {
                let detail = format!(
                    "{url} holds none of this job: its next start stops with exit code 6; bring them back, \
                     or start with --on-mismatch and one of the ways out"
                );
                self.push(&place, "checkpoints", "note", begun, &detail);
            }
            Err(why) => {
                let detail = format!("{url}: {why}");
                self.push(&place, "checkpoints", "failed", begun, &detail);
            }
        }
    }

    fn show(self, output: &OutputArgs) -> Result<u8> {
        output::sheet(output.format, &self.sheet)?;
        if output.format == Format::Table {
            output::line(match self.failed {
                true => "something is wrong: see what failed",
                false => "nothing is wrong",
            })?;
        }
        Ok(if self.failed { CHECK_FAILED } else { 0 })
    }
}

/// The newest record of a job in a checkpoint directory; `None` where there is none.
async fn records(
    url: &str,
    job: &JobName,
    user: &str,
    store: &[String],
) -> std::result::Result<Option<String>, String> {
    let place = context::open_store(url, store).map_err(|e| e.message)?;
    let user = CommitUser::new(user).map_err(|e| e.0)?;
    let mut checkpoints = CheckpointStore::new(place).job(job, &user);
    checkpoints.load().await.map_err(|e| e.to_string())?;
    let newest = checkpoints.newest().await.map_err(|e| e.to_string())?;
    Ok(newest.map(|record| record.id.to_string()))
}
