//! `tidegate compact`: a run that only compacts.

use serde_json::json;
use tidegate::writer::MemoryBudget;
use tidegate::{CompactOptions, TargetOptions};

use crate::args::{CompactArgs, OutputArgs};
use crate::exit::{Failure, Result};
use crate::{output, probes};

pub(crate) async fn run(args: CompactArgs, output: &OutputArgs) -> Result<u8> {
    probes::start()?;
    let bytes = tidegate::model::options::parse_bytes(&args.memory)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            Failure::config(format!(
                "--memory '{}': expected a size such as 256 mb",
                args.memory
            ))
        })?;
    let partitions = args.partition.iter().map(|text| partition(text));
    let options = CompactOptions {
        full: args.full,
        partitions: partitions.collect::<Result<_>>()?,
        target: TargetOptions {
            budget: MemoryBudget::new(bytes),
            ..TargetOptions::default()
        },
    };
    let table = args.table.warehouse.table(&args.table.name).await?;
    let report = Box::pin(table.compact(&args.job, options)).await?;
    let snapshots = match report.snapshots.as_slice() {
        [] => "no snapshot".to_owned(),
        [one] => format!("snapshot {one}"),
        many => format!(
            "{} snapshots up to {}",
            many.len(),
            many.last().unwrap_or(&0)
        ),
    };
    let distributed = match report.distributed {
        (0, _) => String::new(),
        (files, rows) => format!("{rows} rows of {files} files that waited distributed, "),
    };
    let text = format!(
        "{}: {distributed}{} of {} buckets compacted, {} files ({} bytes) became {} ({} bytes), {snapshots}",
        args.table.name,
        report.compacted,
        report.buckets,
        report.before.0,
        report.before.1,
        report.after.0,
        report.after.1,
    );
    let data = json!({
        "table": args.table.name, "buckets": report.buckets, "compacted": report.compacted,
        "files_distributed": report.distributed.0, "rows_distributed": report.distributed.1,
        "files_before": report.before.0, "bytes_before": report.before.1,
        "files_after": report.after.0, "bytes_after": report.after.1,
        "snapshots": report.snapshots,
    });
    output::outcome(output, &text, &data)?;
    Ok(0)
}

/// `dt=2024-01-01,hour=7`
fn partition(text: &str) -> Result<Vec<(String, String)>> {
    text.split(',')
        .map(|pair| match pair.split_once('=') {
            Some((column, value)) if !column.is_empty() => {
                Ok((column.trim().to_owned(), value.to_owned()))
            }
            _ => Err(Failure::config(format!(
                "--partition '{text}': expected COLUMN=VALUE, several with commas"
            ))),
        })
        .collect()
}
