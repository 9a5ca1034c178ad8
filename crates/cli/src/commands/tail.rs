//! `tidegate tail`: the changes of a table, snapshot by snapshot.

use std::io::Write;
use std::time::Duration;

use futures::TryStreamExt;
use tidegate::model::{DataField, SnapshotId};
use tidegate::scan::{Binlog, Changes, From, Step};

use super::reading::{Named, View, failure, label_of, labelled, printer};
use crate::args::{Format, OutputArgs, TailArgs};
use crate::exit::{Failure, Result};
use crate::output::{self, Printer};

/// How long to wait before looking for the next snapshot.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: TailArgs, output: &OutputArgs) -> Result<u8> {
    let named = Named::parse(&args.table.name)?;
    if named.view == View::ReadOptimized {
        return Err(Failure::config(
            "`$ro` has no changes of its own; read the table itself, or its `$audit_log`",
        ));
    }
    let from = match place(&args.from) {
        Some(Place::Earliest) => From::Earliest,
        Some(Place::Latest) => From::Latest,
        Some(Place::Snapshot(id)) => From::Snapshot(id),
        None => return Err(no_place("--from", &args.from)),
    };
    let to = match args.to.as_deref().map(|to| (to, place(to))) {
        None => None,
        Some((_, Some(to @ (Place::Latest | Place::Snapshot(_))))) => Some(to),
        Some((to, _)) => return Err(no_place("--to", to)),
    };
    let reader = named.reader(&args.table).await?;
    let newest = reader.latest_snapshot().await.map_err(failure)?;
    let newest = newest.map(|s| s.id);
    let last = match (to, args.follow) {
        (Some(Place::Snapshot(id)), false) if newest.is_none_or(|n| n < id) => {
            let there = newest.map_or("none".to_owned(), |n| format!("{n}"));
            return Err(Failure::not_found(format!(
                "--to snapshot:{id} is not there yet (the newest is {there}); pass --follow to wait for it"
            )));
        }
        (Some(Place::Snapshot(id)), _) => Some(id),
        (Some(_), _) | (None, false) => Some(newest.unwrap_or(SnapshotId(0))),
        (None, true) => None,
    };
    let mut changes = reader.changes(from).await.map_err(failure)?;
    let mut shown = Shown::new(named.view, &args, output);
    while last.is_none_or(|last| changes.position() <= last) {
        match changes.next().await.map_err(failure)? {
            Some(step) => shown.step(step).await?,
            None if args.follow => tokio::time::sleep(PAUSE).await,
            None => break,
        }
    }
    shown.finish(&changes)?;
    Ok(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Earliest,
    Latest,
    Snapshot(SnapshotId),
}

fn place(text: &str) -> Option<Place> {
    match text {
        "earliest" => Some(Place::Earliest),
        "latest" => Some(Place::Latest),
        other => {
            let id: i64 = other.strip_prefix("snapshot:")?.parse().ok()?;
            (id > 0).then_some(Place::Snapshot(SnapshotId(id)))
        }
    }
}

fn no_place(flag: &str, text: &str) -> Failure {
    let places = match flag {
        "--from" => "earliest, latest or snapshot:ID",
        _ => "latest or snapshot:ID",
    };
    Failure::usage(format!("{flag} {text}: expected {places}"))
}

type Out = std::io::BufWriter<std::io::Stdout>;

/// Prints changes as they come.
struct Shown<'a> {
    view: View,
    args: &'a TailArgs,
    output: &'a OutputArgs,
    /// With the columns that were announced.
    printer: Option<(Vec<DataField>, Printer<Out>)>,
}

impl<'a> Shown<'a> {
    fn new(view: View, args: &'a TailArgs, output: &'a OutputArgs) -> Self {
        Self {
            view,
            args,
            output,
            printer: None,
        }
    }

    async fn step(&mut self, step: Step) -> Result<()> {
        let step = match self.args.columns.as_slice() {
            [] => step,
            columns => step.with_columns(columns).map_err(failure)?,
        };
        let mut batches = step.read().map_err(failure)?;
        if self.view == View::Binlog {
            let mut binlog = Binlog::new(step.columns());
            let columns = binlog.columns().to_vec();
            while let Some(batch) = batches.try_next().await.map_err(failure)? {
                let packed = binlog.pack(batch).map_err(failure)?;
                self.printer(&columns)?.batch(&columns, &packed)?;
            }
            if let Some(last) = binlog.finish().map_err(failure)? {
                self.printer(&columns)?.batch(&columns, &last)?;
            }
        } else {
            let label = label_of(self.view);
            let columns = labelled(label, step.columns());
            while let Some(batch) = batches.try_next().await.map_err(failure)? {
                let batch = batch.labelled(label).map_err(failure)?;
                self.printer(&columns)?.batch(&columns, &batch)?;
            }
        }
        // Who follows sees a snapshot as soon as it is there.
        if let Some((_, printer)) = &mut self.printer
            && self.args.follow
        {
            printer.flush()?;
        }
        Ok(())
    }

    /// The printer; other columns than those announced can be printed in JSON only.
    fn printer(&mut self, columns: &[DataField]) -> Result<&mut Printer<Out>> {
        let names = |columns: &[DataField]| -> Vec<String> {
            columns.iter().map(|c| c.name.clone()).collect()
        };
        let same = |known: &[DataField]| names(known) == names(columns);
        match &mut self.printer {
            Some((known, printer)) if !same(known) => {
                if matches!(self.output.format, Format::Csv | Format::Table) {
                    return Err(Failure::config(
                        "the table has other columns from here on; go on with --format jsonl, or with --columns",
                    ));
                }
                printer.rename(names(columns));
                *known = columns.to_vec();
            }
            Some(_) => {}
            None => {
                let out = std::io::BufWriter::new(std::io::stdout());
                self.printer = Some((columns.to_vec(), printer(self.output, columns, out)?));
            }
        }
        match &mut self.printer {
            Some((_, printer)) => Ok(printer),
            None => Err(Failure::runtime("nothing can be printed")),
        }
    }

    fn finish(mut self, changes: &Changes) -> Result<()> {
        if self.printer.is_none() {
            let columns = labelled(label_of(self.view), &changes.schema().fields);
            self.printer(&columns)?;
        }
        if let Some((_, printer)) = self.printer {
            printer.finish()?;
        }
        if !self.output.quiet {
            std::io::stdout().flush()?;
            output::note(&format!(
                "the next change is of snapshot {0}: --from snapshot:{0}",
                changes.position()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words_or_snapshots() {
        assert_eq!(place("earliest"), Some(Place::Earliest));
        assert_eq!(place("latest"), Some(Place::Latest));
        assert_eq!(place("snapshot:7"), Some(Place::Snapshot(SnapshotId(7))));
        for bad in ["snapshot:0", "snapshot:-1", "snapshot:", "7", "newest"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
