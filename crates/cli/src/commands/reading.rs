//! `tidegate table read`, and what the parts of a name such as `shop.orders$branch_b$audit_log` mean.

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use tidegate::model::{DataField, SnapshotId};
use tidegate::scan::{At, Binlog, KindedRows, Predicate, ScanPlan, TableReader};

use crate::args::{OutputArgs, ReadArgs, RowArgs, TableName, VersionArgs};
use crate::exit::{Failure, Result};
use crate::output::Printer;

/// Column of row kinds beside the rows themselves.
pub(crate) const KIND: &str = "_kind";
/// The same in `$audit_log`.
const ROW_KIND: &str = "rowkind";

/// What is shown of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Rows,
    AuditLog,
    Binlog,
    ReadOptimized,
}

/// A table as its name on the command line says.
pub(crate) struct Named {
    /// `database.table`
    pub(crate) table: String,
    branch: Option<String>,
    pub(crate) view: View,
}

impl Named {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        let mut parts = name.split('$');
        let table = parts.next().unwrap_or_default().to_owned();
        let (mut branch, mut view) = (None, View::Rows);
        for part in parts {
            view = match part {
                _ if view != View::Rows => {
                    return Err(Failure::config(format!(
                        "`{name}`: nothing comes behind a view"
                    )));
                }
                "audit_log" => View::AuditLog,
                "binlog" => View::Binlog,
                "ro" => View::ReadOptimized,
                "snapshots" | "schemas" | "options" | "manifests" | "files" | "partitions"
                | "buckets" => {
                    return Err(Failure::config(format!(
                        "`{name}` is shown by `tidegate table {part} {table}`"
                    )));
                }
                other => match other.strip_prefix("branch_") {
                    Some(given) if !given.is_empty() && branch.is_none() => {
                        branch = Some(given.to_owned());
                        View::Rows
                    }
                    _ => {
                        return Err(Failure::config(format!(
                            "`{name}`: `${other}` is no view; there are $audit_log, $binlog, $ro and $branch_NAME"
                        )));
                    }
                },
            };
        }
        Ok(Self {
            table,
            branch,
            view,
        })
    }

    /// Opens the table for reading.
    pub(crate) async fn reader(&self, table: &TableName) -> Result<TableReader> {
        let open = table.warehouse.table(&self.table).await?;
        let reader = open
            .reader()
            .with_store_options(table.warehouse.store_options()?);
        let Some(branch) = &self.branch else {
            return Ok(reader);
        };
        let reader = reader.with_branch(branch);
        match reader.latest_schema().await {
            Err(tidegate::scan::Error::NoTable(_)) => Err(Failure::not_found(format!(
                "table `{}` has no branch `{branch}`",
                self.table
            ))),
            other => other.map(|_| reader).map_err(failure),
        }
    }
}

pub(crate) fn failure(e: tidegate::scan::Error) -> Failure {
    tidegate::Error::from(e).into()
}

pub(crate) async fn run(args: &ReadArgs, output: &OutputArgs) -> Result<u8> {
    let named = Named::parse(&args.table.name)?;
    let at = version(&args.version)?;
    let reader = named.reader(&args.table).await?;
    let mut plan = narrowed(reader.scan(&at).await.map_err(failure)?, &args.rows)?;
    if let Some(limit) = args.limit {
        plan = plan.with_limit(limit as u64);
    }
    let out = std::io::BufWriter::new(std::io::stdout().lock());
    let (plan, label) = match named.view {
        View::Rows => (plan, args.kinds.then_some(KIND)),
        View::ReadOptimized => (plan.read_optimized(), args.kinds.then_some(KIND)),
        View::AuditLog => (plan.with_deletes(), Some(ROW_KIND)),
        View::Binlog => {
            let plan = plan.with_deletes();
            let mut binlog = Binlog::new(plan.columns());
            let columns = binlog.columns().to_vec();
            let mut printer = printer(output, &columns, out)?;
            let mut batches = plan.read_kinds().map_err(failure)?;
            while let Some(batch) = batches.try_next().await.map_err(failure)? {
                let packed = binlog.pack(batch).map_err(failure)?;
                printer.batch(&columns, &packed)?;
            }
            if let Some(last) = binlog.finish().map_err(failure)? {
                printer.batch(&columns, &last)?;
            }
            printer.finish()?;
            return Ok(0);
        }
    };
    let Some(label) = label else {
        let columns = plan.columns().to_vec();
        let mut printer = printer(output, &columns, out)?;
        let mut batches = plan.read().map_err(failure)?;
        while let Some(batch) = batches.try_next().await.map_err(failure)? {
            printer.batch(&columns, &batch)?;
        }
        printer.finish()?;
        return Ok(0);
    };
    let columns = labelled(label, plan.columns());
    let mut printer = printer(output, &columns, out)?;
    let mut batches = plan.read_kinds().map_err(failure)?;
    while let Some(batch) = batches.try_next().await.map_err(failure)? {
        let batch: RecordBatch = batch.labelled(label).map_err(failure)?;
        printer.batch(&columns, &batch)?;
    }
    printer.finish()?;
    Ok(0)
}

/// The name of the column of kinds that a view shows.
pub(crate) fn label_of(view: View) -> &'static str {
    match view {
        View::AuditLog => ROW_KIND,
        View::Rows | View::Binlog | View::ReadOptimized => KIND,
    }
}

/// The columns with one of row kinds in front.
pub(crate) fn labelled(label: &str, columns: &[DataField]) -> Vec<DataField> {
    std::iter::once(KindedRows::label(label))
        .chain(columns.iter().cloned())
        .collect()
}

pub(crate) fn printer<W: std::io::Write>(
    output: &OutputArgs,
    columns: &[DataField],
    out: W,
) -> Result<Printer<W>> {
    let names = columns.iter().map(|f| f.name.clone()).collect();
    Printer::new(output.format, names, out)
}

fn narrowed(plan: ScanPlan, rows: &RowArgs) -> Result<ScanPlan> {
    let mut plan = plan;
    if let Some(condition) = &rows.condition {
        let condition = Predicate::parse(condition, plan.schema()).map_err(failure)?;
        plan = plan.with_filter(condition).map_err(failure)?;
    }
    if !rows.columns.is_empty() {
        plan = plan.with_columns(&rows.columns).map_err(failure)?;
    }
    Ok(plan)
}

fn version(args: &VersionArgs) -> Result<At> {
    if let Some(id) = args.snapshot {
        return Ok(At::Snapshot(SnapshotId(id)));
    }
    if let Some(tag) = &args.tag {
        return Ok(At::Tag(tag.clone()));
    }
    match &args.as_of {
        None => Ok(At::Latest),
        Some(text) => millis(text).map(At::Timestamp).ok_or_else(|| {
            Failure::usage(format!(
                "--as-of {text}: expected epoch milliseconds or a time such as 2026-01-31T12:00:00Z"
            ))
        }),
    }
}

/// Epoch milliseconds, an instant with its offset, or a wall clock in UTC.
fn millis(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(millis) = text.parse() {
        return Some(millis);
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(instant.as_millisecond());
    }
    let wall: jiff::civil::DateTime = text.parse().ok()?;
    let instant = jiff::tz::Offset::UTC.to_timestamp(wall).ok()?;
    Some(instant.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_branch_and_view() {
        let named = Named::parse("shop.orders$branch_b1$audit_log").unwrap();
        assert_eq!(
            (named.table.as_str(), named.branch.as_deref(), named.view),
            ("shop.orders", Some("b1"), View::AuditLog)
        );
        let plain = Named::parse("shop.orders").unwrap();
        assert_eq!((plain.branch, plain.view), (None, View::Rows));
        for (name, why) in [
            ("shop.orders$files", "tidegate table files shop.orders"),
            ("shop.orders$nope", "no view"),
            ("shop.orders$ro$audit_log", "nothing comes behind"),
            ("shop.orders$branch_", "no view"),
        ] {
            let failed = Named::parse(name).map(|n| n.table).unwrap_err();
            assert!(failed.message.contains(why), "{name}: {}", failed.message);
        }
    }

    #[test]
    fn times_are_epoch_milliseconds_instants_or_utc() {
        let noon = Some(1_769_860_800_000);
        for text in [
            "1769860800000",
            "2026-01-31T12:00:00Z",
            "2026-01-31T14:00:00+02:00",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00",
        ] {
            assert_eq!(millis(text), noon, "{text}");
        }
        assert_eq!(millis("2026-01-31"), Some(1_769_817_600_000));
        assert_eq!(millis("yesterday"), None);
    }
}
