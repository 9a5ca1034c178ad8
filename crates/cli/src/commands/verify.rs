//! `tidegate verify`: is the table whole, and where did rows of a source go?

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tidegate::system::{Cell, Sheet};
use tidegate::verify::{self, Finding, Options, Origin, Report, UnknownFile};
use tidegate_runtime::source::SourceState;
use tidegate_runtime::source::place::{Place, places};

use crate::args::{Format, OutputArgs, VerifyArgs};
use crate::exit::{CHECK_FAILED, Failure, Result};
use crate::output;

pub(crate) async fn run(args: VerifyArgs, output: &OutputArgs) -> Result<u8> {
    let table = args.table.warehouse.table(&args.table.name).await?;
    match &args.offset {
        Some(offset) => receipt(&table, offset, args.job.as_deref(), output).await,
        None => {
            let options = Options {
                store: args.table.warehouse.store_options()?,
                ..Options::default()
            };
            let report = verify::verify_with(&table, options).await?;
            show(table.name(), &report, output)
        }
    }
}

/// Only errors fail: with warnings readers get along, and a file that nothing refers to harms none.
fn show(name: &str, report: &Report, output: &OutputArgs) -> Result<u8> {
    let now = SystemTime::now();
    match output.format {
        Format::Table => {
            if !report.findings.is_empty() {
                output::sheet(output.format, &for_people(report, now))?;
            }
            output::line(&summary(name, report))?;
            if report.unknown.0 > 0 {
                output::line(
                    "unknown files harm no reader; young ones may belong to a writer that is at work: see \
                     what each is before you remove it",
                )?;
            }
        }
        Format::Csv => {
            output::sheet(output.format, &for_machines(report, now))?;
            output::note(&summary(name, report));
        }
        Format::Json | Format::Jsonl => {
            let findings: Vec<Value> = report.findings.iter().map(|f| json(f, now)).collect();
            output::object(
                output.format,
                &json!({
                    "table": name, "snapshots": report.snapshots, "tags": report.tags,
                    "branches": report.branches, "manifests": report.manifests, "files": report.files,
                    "rows": report.rows, "checkpoints": report.checkpoints, "errors": report.errors(),
                    "warnings": report.warnings(), "notes": report.notes(),
                    "unknown_files": report.unknown.0, "unknown_bytes": report.unknown.1,
                    "left_out": report.left_out, "findings": findings,
                }),
            )?;
        }
    }
    Ok(match report.errors() {
        0 => 0,
        _ => CHECK_FAILED,
    })
}

fn summary(name: &str, report: &Report) -> String {
    let mut versions = format!("{} snapshots", report.snapshots);
    for (count, what) in [(report.tags, "tags"), (report.branches, "branches")] {
        if count > 0 {
            versions += &format!(", {count} {what}");
        }
    }
    if report.checkpoints > 0 {
        versions += &format!(", {} checkpoints", report.checkpoints);
    }
    let mut text = format!(
        "{name}: {versions}, {} manifests, {} data files, {} rows looked at; {} errors, {} warnings",
        report.manifests,
        report.files,
        report.rows,
        report.errors(),
        report.warnings()
    );
    let (files, bytes) = report.unknown;
    if files > 0 {
        text += &format!(", {files} unknown files ({})", size(bytes));
    }
    if report.left_out > 0 {
        text += &format!("; {} more findings are counted, not shown", report.left_out);
    }
    text
}

fn age(file: &UnknownFile, now: SystemTime) -> Option<Duration> {
    // Clocks differ: what is of the future is just written.
    let modified = file.modified?;
    Some(now.duration_since(modified).unwrap_or_default())
}

fn for_people(report: &Report, now: SystemTime) -> Sheet {
    let mut sheet = Sheet::new(["severity", "kind", "place", "finding"]);
    for finding in &report.findings {
        let what = match &finding.unknown {
            None => finding.what.clone(),
            Some(file) => {
                let age = age(file, now).map_or_else(|| "age unknown".to_owned(), old);
                format!("{}, {age}: {}", size(file.bytes), finding.what)
            }
        };
        sheet.push(vec![
            finding.severity.name().into(),
            finding.kind.name().into(),
            finding.place.as_str().into(),
            what.into(),
        ]);
    }
    sheet
}

fn for_machines(report: &Report, now: SystemTime) -> Sheet {
    let mut sheet = Sheet::new([
        "severity", "kind", "place", "finding", "bytes", "age_s", "origin",
    ]);
    let int = |n: u64| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX));
    for finding in &report.findings {
        let file = finding.unknown.as_ref();
        let age = file.and_then(|file| age(file, now));
        sheet.push(vec![
            finding.severity.name().into(),
            finding.kind.name().into(),
            finding.place.as_str().into(),
            finding.what.as_str().into(),
            file.map_or(Cell::Null, |file| int(file.bytes)),
            age.map_or(Cell::Null, |age| int(age.as_secs())),
            file.map_or(Cell::Null, |file| file.origin.name().into()),
        ]);
    }
    sheet
}

fn json(finding: &Finding, now: SystemTime) -> Value {
    let mut value = json!({
        "severity": finding.severity.name(), "kind": finding.kind.name(), "place": finding.place,
        "finding": finding.what,
    });
    if let (Some(file), Some(map)) = (&finding.unknown, value.as_object_mut()) {
        map.insert("bytes".to_owned(), file.bytes.into());
        let age = age(file, now).map(|age| age.as_secs());
        map.insert("age_s".to_owned(), age.into());
        map.insert("origin".to_owned(), file.origin.name().into());
        if let Origin::Run(run) | Origin::Unfinished(Some(run)) = &file.origin {
            map.insert("job".to_owned(), run.job.clone().into());
            map.insert("commit_user".to_owned(), run.user.clone().into());
            map.insert("epoch".to_owned(), run.epoch.0.into());
        }
    }
    value
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut at = 0;
    while value >= 1024.0 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    let unit = units.get(at).copied().unwrap_or_default();
    match at {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// An age for people.
fn old(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds} s old"),
        120..7200 => format!("{} min old", seconds / 60),
        7200..172_800 => format!("{} h old", seconds / 3600),
        _ => format!("{} days old", seconds / 86_400),
    }
}

/// The split that a file's name means. Splits are named below the folder that the source looks through,
/// so that the folder may move; a person names the file as the job file does, or as it stands on disk:
/// then the longest split that the name ends in is meant. A source of one file has an unnamed split, and
/// any name of that file will do.
fn meant<'p>(places: &'p [Place], file: &str) -> Option<&'p Place> {
    let ends = |place: &&Place| {
        let split = place.split.0.as_str();
        file == split
            || !split.is_empty() && file.strip_suffix(split).is_some_and(|f| f.ends_with('/'))
    };
    let longest = places.iter().filter(ends).max_by_key(|p| p.split.0.len());
    longest.or(match places {
        [only] if only.split.0.is_empty() => Some(only),
        _ => None,
    })
}

/// FILE:POS → checkpoint → snapshot → files.
async fn receipt(
    table: &tidegate::Table,
    offset: &str,
    job: Option<&str>,
    output: &OutputArgs,
) -> Result<u8> {
    let (file, position) = offset
        .rsplit_once(':')
        .and_then(|(file, position)| Some((file, position.parse::<u64>().ok()?)))
        .ok_or_else(|| {
            Failure::usage(format!(
                "--offset {offset}: expected FILE:POS, for instance in/orders.csv:4096; POS is a whole \
                 number of bytes (of rows for Parquet, and for `generator:POS`)"
            ))
        })?;
    let commits = verify::commits(table).await?;
    if let Some(job) = job
        && !commits.iter().any(|c| c.marks.job.as_str() == job)
    {
        let known: BTreeSet<&str> = commits.iter().map(|c| c.marks.job.as_str()).collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::not_found(format!(
            "no retained snapshot of `{}` is of a job `{job}`; jobs there: {}",
            table.name(),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        )));
    }
    let mut before: Option<(String, u64)> = None;
    for commit in commits
        .iter()
        .filter(|c| job.is_none_or(|j| c.marks.job.as_str() == j))
    {
        let Some(positions) = &commit.positions else {
            continue;
        };
        let Ok(state) = SourceState::from_positions(positions) else {
            continue;
        };
        let all = places(&state);
        let Some(place) = meant(&all, file) else {
            continue;
        };
        let Some(reached) = place.offset else {
            continue;
        };
        let key = commit.marks.job.to_string();
        let from = before
            .as_ref()
            .filter(|(j, _)| *j == key)
            .map_or(0, |(_, at)| *at);
        if position < reached {
            if position < from {
                return Err(Failure::not_found(format!(
                    "offset {position} of `{file}` lies before what the retained snapshots of job `{key}` hold; older ones have expired"
                )));
            }
            let mut sheet = Sheet::new([
                "job",
                "file",
                "offset_from",
                "offset_to",
                "checkpoint_id",
                "snapshot_id",
                "files",
            ]);
            let files = serde_json::to_string(&commit.files)
                .map_err(|e| Failure::runtime(e.to_string()))?;
            sheet.push(vec![
                key.into(),
                file.into(),
                Cell::Int(i64::try_from(from).unwrap_or(i64::MAX)),
                Cell::Int(i64::try_from(reached).unwrap_or(i64::MAX)),
                Cell::Int(i64::try_from(commit.marks.checkpoint.0).unwrap_or(i64::MAX)),
                Cell::Int(commit.snapshot.id.0),
                Cell::Json(files),
            ]);
            output::sheet(output.format, &sheet)?;
            return Ok(0);
        }
        before = Some((key, reached));
    }
    Err(Failure::not_found(match before {
        Some((job, reached)) => format!(
            "offset {position} of `{file}` is not published yet: job `{job}` has published up to {reached}"
        ),
        None => format!(
            "no retained snapshot of `{}` says anything about `{file}`",
            table.name()
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_runtime::source::SplitId;

    #[test]
    fn sizes_and_ages_are_for_people() {
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 40, "5.0 TiB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        let ages = [
            (0, "0 s old"),
            (119, "119 s old"),
            (7199, "119 min old"),
            (90_000, "25 h old"),
            (864_000, "10 days old"),
        ];
        for (seconds, text) in ages {
            assert_eq!(old(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_file_is_found_by_its_name_in_the_job_file_on_disk_and_below_the_folder() {
        let place = |split: &str| Place {
            split: SplitId(split.to_owned()),
            offset: Some(1),
            line: None,
            finished: true,
        };
        let places = [place("a.csv"), place("x/a.csv"), place("ba.csv")];
        for (file, expected) in [
            ("a.csv", Some("a.csv")),
            ("in/a.csv", Some("a.csv")),
            ("./in/a.csv", Some("a.csv")),
            ("/data/in/a.csv", Some("a.csv")),
            ("s3://lake/in/a.csv", Some("a.csv")),
            ("in/x/a.csv", Some("x/a.csv")),
            ("ba.csv", Some("ba.csv")),
            ("ca.csv", None),
            ("in/", None),
        ] {
            let found = meant(&places, file).map(|p| p.split.0.as_str());
            assert_eq!(found, expected, "{file}");
        }
        let one = [place("")];
        assert!(meant(&one, "whatever.csv").is_some());
    }
}
