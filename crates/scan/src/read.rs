//! From a plan to record batches: units one after the other, files opened ahead.

use crate::error::{Error, Result};
use crate::file::{FileJob, Reading};
use crate::keyed::Unit;
use crate::kinds::KindedRows;
use crate::merge_read;
use crate::plan::ScanPlan;
use crate::predicate::Predicate;
use crate::prune::Pruner;
use crate::split::Split;
use arrow::array::{AsArray, BooleanArray, Int8Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int8Type;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::sync::Arc;
use tidegate_datafile::{SEQUENCE_NUMBER, SYSTEM_COLUMNS, VALUE_KIND};
use tidegate_merge::kind;
use tidegate_model::DataField;

/// Files or sections opened ahead of the one being read.
const AHEAD: usize = 2;

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The rows alone.
pub(crate) fn read(plan: &ScanPlan) -> Result<Batches> {
    batches(plan, false)
}

/// The rows with their kinds.
pub(crate) fn read_kinds(plan: &ScanPlan) -> Result<BoxStream<'static, Result<KindedRows>>> {
    if !plan.has_kinds {
        let rows = batches(plan, false)?;
        return Ok(rows.map_ok(KindedRows::inserts).boxed());
    }
    let table = plan.table.store().url().to_owned();
    let split = move |mut batch: RecordBatch| {
        let kinds = kinds_of(&batch).cloned().ok_or_else(|| lost(&table))?;
        batch.remove_column(0);
        Ok(KindedRows { kinds, rows: batch })
    };
    let split = move |batch: Result<RecordBatch>| batch.and_then(&split);
    Ok(batches(plan, true)?.map(split).boxed())
}

fn batches(plan: &ScanPlan, kinds: bool) -> Result<Batches> {
    let finish = Arc::new(Finish::new(plan, kinds));
    let mut readings = Readings::new(plan, &finish);
    let units = match &plan.keyed {
        Some(keyed) if !plan.raw => keyed.units(&plan.splits)?,
        _ => plan.splits.iter().map(Unit::alone).collect(),
    };
    let pruner = plan
        .filter
        .as_ref()
        .map(|filter| Pruner::new(filter, plan.schema(), &plan.schemas));
    let mut jobs = Vec::with_capacity(units.len());
    for mut unit in units {
        if let (Some(pruner), Unit::Plain { splits, .. }) = (&pruner, &mut unit) {
            splits.retain(|split| pruner.may_hold(split));
            if splits.is_empty() {
                continue;
            }
        }
        jobs.push(readings.job(unit, kinds)?);
    }
    let opened = stream::iter(jobs).map(move |job| open(job, finish.clone()));
    let batches = opened.buffered(AHEAD).try_flatten();
    Ok(match plan.limit {
        None => batches.boxed(),
        Some(0) => stream::empty().boxed(),
        Some(limit) => limited(batches.boxed(), limit),
    })
}

fn limited(batches: Batches, limit: u64) -> Batches {
    let limited = batches.scan(limit, |left, item| {
        let next = match item {
            _ if *left == 0 => None,
            Ok(batch) => {
                let rows = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(batch.num_rows());
                *left -= rows as u64;
                Some(Ok(batch.slice(0, rows)))
            }
            Err(e) => Some(Err(e)),
        };
        std::future::ready(next)
    });
    limited.boxed()
}

/// A unit with all that is needed to read it.
enum Job {
    Plain {
        files: Vec<FileJob>,
        drop_retracts: bool,
    },
    Merge(Box<merge_read::Section>),
}

async fn open(job: Job, finish: Arc<Finish>) -> Result<Batches> {
    let (batches, drop_retracts) = match job {
        Job::Plain {
            files,
            drop_retracts,
        } => (in_order(files).await?, drop_retracts),
        // What a merge leaves is decided there.
        Job::Merge(section) => (section.open().await?, false),
    };
    let finished = batches.map(move |batch| finish.apply(batch?, drop_retracts));
    let some = |batch: &Result<RecordBatch>| {
        std::future::ready(!matches!(batch, Ok(batch) if batch.num_rows() == 0))
    };
    Ok(finished.filter(some).boxed())
}

/// The rows of files one after the other; the first one is opened at once.
pub(crate) async fn in_order(files: Vec<FileJob>) -> Result<Batches> {
    let mut files = files.into_iter();
    let Some(first) = files.next() else {
        return Ok(stream::empty().boxed());
    };
    let first = first.open().await?;
    let rest = stream::iter(files).then(FileJob::open).try_flatten();
    Ok(first.chain(rest).boxed())
}

/// The columns that files are asked for, in the up to three ways in which a plan reads them.
struct Readings<'p> {
    plan: &'p ScanPlan,
    /// What the rows that come out need: asked for or compared.
    columns: Vec<DataField>,
    rows: Option<Arc<Reading>>,
    records: Option<Arc<Reading>>,
    merged: Option<Arc<Reading>>,
}

impl<'p> Readings<'p> {
    fn new(plan: &'p ScanPlan, finish: &Finish) -> Self {
        let mut columns = plan.columns.clone();
        for field in finish.filter.iter().flat_map(Predicate::fields) {
            if !columns.iter().any(|c| c.id == field.id) {
                columns.push(field.clone());
            }
        }
        Self {
            plan,
            columns,
            rows: None,
            records: None,
            merged: None,
        }
    }

    fn job(&mut self, unit: Unit, kinds: bool) -> Result<Job> {
        match unit {
            Unit::Plain { splits, retracts } => {
                let drop_retracts = retracts && !self.plan.keep_deletes;
                let (place, system) = match kinds || drop_retracts {
                    true => (&mut self.records, true),
                    false => (&mut self.rows, false),
                };
                let reading = Reading::once(place, self.plan, &self.columns, system)?;
                let files = reading.jobs(self.plan, splits)?;
                Ok(Job::Plain {
                    files,
                    drop_retracts,
                })
            }
            Unit::Merge { runs, upper } => {
                let spec = self.plan.merge_spec()?;
                let columns = merge_read::columns(spec, self.plan.schema(), &self.columns)?;
                let reading = Reading::once(&mut self.merged, self.plan, &columns, true)?;
                let jobs = |runs: Vec<Vec<Split>>| {
                    let runs = runs.into_iter().map(|run| reading.jobs(self.plan, run));
                    runs.collect::<Result<Vec<_>>>()
                };
                let (runs, upper) = (jobs(runs)?, jobs(upper)?);
                let rows = self.plan.batch_rows;
                let keep = self.plan.keep_deletes;
                let section = merge_read::Section::new(spec, &columns, runs, keep, rows)?;
                let section = section.above(self.plan.schema(), upper)?;
                Ok(Job::Merge(Box::new(section)))
            }
        }
    }
}

impl Unit {
    fn alone(split: &Split) -> Self {
        Self::Plain {
            splits: vec![split.clone()],
            retracts: false,
        }
    }
}

/// What becomes of a batch as files and merges give it: rows that are not wanted go, then columns.
struct Finish {
    table: String,
    kinds: bool,
    columns: Vec<String>,
    filter: Option<Predicate>,
}

impl Finish {
    fn new(plan: &ScanPlan, kinds: bool) -> Self {
        Self {
            table: plan.table.store().url().to_owned(),
            kinds,
            columns: plan.columns.iter().map(|c| c.name.clone()).collect(),
            filter: plan.filter.clone(),
        }
    }

    fn apply(&self, batch: RecordBatch, drop_retracts: bool) -> Result<RecordBatch> {
        let arrow = |e| Error::from(tidegate_datafile::Error::from(e));
        let mut batch = batch;
        if drop_retracts {
            let kinds = kinds_of(&batch).ok_or_else(|| lost(&self.table))?;
            if kinds.values().iter().any(|k| kind::is_retract(*k)) {
                let kept = kinds.values().iter().map(|k| !kind::is_retract(*k));
                let kept = BooleanArray::from(kept.collect::<Vec<_>>());
                batch = filter_record_batch(&batch, &kept).map_err(arrow)?;
            }
        }
        if let Some(filter) = &self.filter {
            let held = filter.holds(&self.table, &batch)?;
            if held.true_count() < held.len() {
                batch = filter_record_batch(&batch, &held).map_err(arrow)?;
            }
        }
        let schema = batch.schema();
        let system = usize::from(schema.fields().first().is_some_and(is_system)) * SYSTEM_COLUMNS;
        let mut wanted = Vec::with_capacity(self.columns.len() + 1);
        if self.kinds {
            wanted.push(schema.index_of(VALUE_KIND).map_err(arrow)?);
        }
        // Value columns stand in the order of the projection, unless a merge needs others too.
        for (i, name) in self.columns.iter().enumerate() {
            let here = system + i;
            let found = schema.fields().get(here).is_some_and(|f| f.name() == name);
            wanted.push(if found {
                here
            } else {
                schema.index_of(name).map_err(arrow)?
            });
        }
        let same = wanted.len() == schema.fields().len()
            && wanted.iter().enumerate().all(|(i, at)| i == *at);
        if same {
            return Ok(batch);
        }
        batch.project(&wanted).map_err(arrow)
    }
}

fn is_system(field: &arrow::datatypes::FieldRef) -> bool {
    field.name() == SEQUENCE_NUMBER
}

/// The kinds of a batch that has them.
pub(crate) fn kinds_of(batch: &RecordBatch) -> Option<&Int8Array> {
    let column = batch.column_by_name(VALUE_KIND)?;
    column.as_primitive_opt::<Int8Type>()
}

fn lost(table: &str) -> Error {
    Error::Inconsistent {
        file: table.to_owned(),
        what: "row kinds were asked for and not read".to_owned(),
    }
}
