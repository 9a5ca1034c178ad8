//! `tidegate verify`: is the table whole, and where did rows of a source go?

use std::collections::BTreeSet;

use serde_json::json;
use tidegate::system::{Cell, Sheet};
use tidegate::verify;
use tidegate_runtime::source::SourceState;
use tidegate_runtime::source::place::{Place, places};

use crate::args::{Format, OutputArgs, VerifyArgs};
use crate::exit::{CHECK_FAILED, Failure, Result};
use crate::output;

pub(crate) async fn run(args: VerifyArgs, output: &OutputArgs) -> Result<u8> {
    let table = args.table.warehouse.table(&args.table.name).await?;
    match &args.offset {
        Some(offset) => receipt(&table, offset, args.job.as_deref(), output).await,
        None => whole(&table, output).await,
    }
}

async fn whole(table: &tidegate::Table, output: &OutputArgs) -> Result<u8> {
    let report = verify::verify(table).await?;
    let mut sheet = Sheet::new(["severity", "place", "finding"]);
    for finding in &report.findings {
        sheet.push(vec![
            finding.severity.name().into(),
            finding.place.as_str().into(),
            finding.what.as_str().into(),
        ]);
    }
    if output.format == Format::Table {
        if !report.findings.is_empty() {
            output::sheet(output.format, &sheet)?;
        }
        output::line(&format!(
            "{}: {} snapshots, {} manifests, {} data files, {} rows looked at; {} errors, {} warnings",
            table.name(),
            report.snapshots,
            report.manifests,
            report.files,
            report.rows,
            report.errors(),
            report.warnings()
        ))?;
    } else {
        let findings: Vec<_> = report
            .findings
            .iter()
            .map(|f| json!({"severity": f.severity.name(), "place": f.place, "finding": f.what}))
            .collect();
        output::object(
            output.format,
            &json!({
                "table": table.name(), "snapshots": report.snapshots, "manifests": report.manifests,
                "files": report.files, "rows": report.rows, "errors": report.errors(),
                "warnings": report.warnings(), "findings": findings,
            }),
        )?;
    }
    Ok(if report.errors() == 0 {
        0
    } else {
        CHECK_FAILED
    })
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
