//! Merging on read: feeds the files of a section to a merge, batch by batch.
//!
//! A section holds one batch per run, and one more that is read while another run is waited for; never
//! a whole file, let alone a bucket. What versions of a key mean is `tidegate-merge`'s.

use crate::error::{Error, Result};
use crate::file::FileJob;
use crate::read::in_order;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::try_join_all;
use futures::stream::{self, BoxStream, Fuse, StreamExt};
use std::sync::Arc;
use std::task::{Context, Poll};
use tidegate_datafile::{arrow_schema, key_value_fields};
use tidegate_merge::{Changelog, Deletes, MergeOptions, MergeSpec, Merger, Step};
use tidegate_model::{DataField, Options, TableSchema};

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The columns that must be read so that the wanted ones come out merged, in the table's order.
pub(crate) fn columns(
    spec: &MergeSpec,
    schema: &TableSchema,
    wanted: &[DataField],
) -> Result<Vec<DataField>> {
    let place = |field: &DataField| {
        let at = schema.fields.iter().position(|f| f.id == field.id);
        at.ok_or_else(|| Error::NoColumn {
            column: field.name.clone(),
            known: schema
                .fields
                .iter()
                .map(|f| f.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    };
    let wanted = wanted.iter().map(place).collect::<Result<Vec<_>>>()?;
    let needed = spec.needs(&wanted);
    Ok(needed
        .iter()
        .filter_map(|at| schema.fields.get(*at).cloned())
        .collect())
}

/// Runs to be merged.
pub(crate) struct Section {
    spec: Arc<MergeSpec>,
    schema: SchemaRef,
    runs: Vec<Vec<FileJob>>,
    options: MergeOptions,
    /// Runs of which the last record of a key counts alone, and what keeps that one.
    upper: Vec<Vec<FileJob>>,
    last: Option<MergeSpec>,
}

impl Section {
    pub(crate) fn new(
        spec: &Arc<MergeSpec>,
        columns: &[DataField],
        runs: Vec<Vec<FileJob>>,
        keep_deletes: bool,
        batch_rows: Option<usize>,
    ) -> Result<Self> {
        let defaults = MergeOptions::default();
        Ok(Self {
            spec: spec.clone(),
            schema: Arc::new(arrow_schema(&key_value_fields(columns))?),
            runs,
            options: MergeOptions {
                batch_rows: batch_rows.unwrap_or(defaults.batch_rows),
                deletes: match keep_deletes {
                    true => Deletes::Keep,
                    false => Deletes::Drop,
                },
                changelog: Changelog::None,
            },
            upper: Vec::new(),
            last: None,
        })
    }

    /// Older runs, the oldest first, of whose records of a key the last one has taken in the others.
    pub(crate) fn above(mut self, schema: &TableSchema, upper: Vec<Vec<FileJob>>) -> Result<Self> {
        if !upper.is_empty() {
            // Kept in the order of sequence numbers: of equal ones the later run has the copy.
            let plain = TableSchema {
                options: Options::new(),
                ..schema.clone()
            };
            self.last = Some(MergeSpec::new(&plain)?);
            self.upper = upper;
        }
        Ok(self)
    }

    /// Opens the first file of every run; merged batches come as they are asked for.
    pub(crate) async fn open(self) -> Result<Batches> {
        let mut runs = try_join_all(self.runs.into_iter().map(in_order)).await?;
        if let Some(last) = &self.last {
            let upper = try_join_all(self.upper.into_iter().map(in_order)).await?;
            let options = MergeOptions {
                deletes: Deletes::Keep,
                ..self.options
            };
            runs.insert(0, merged(last, self.schema.clone(), upper, options)?);
        }
        merged(&self.spec, self.schema, runs, self.options)
    }
}

fn merged(
    spec: &MergeSpec,
    schema: SchemaRef,
    runs: Vec<Batches>,
    options: MergeOptions,
) -> Result<Batches> {
    let merging = Merging {
        merger: Merger::new(spec, schema, runs.len(), options)?,
        runs: runs.into_iter().map(Run::new).collect(),
    };
    Ok(stream::try_unfold(merging, Merging::next).boxed())
}

struct Merging {
    merger: Merger,
    runs: Vec<Run>,
}

/// The batches of a run, at most one of them read ahead.
struct Run {
    batches: Fuse<Batches>,
    ahead: Option<Option<Result<RecordBatch>>>,
}

impl Run {
    fn new(batches: Batches) -> Self {
        Self {
            batches: batches.fuse(),
            ahead: None,
        }
    }

    fn read_ahead(&mut self, context: &mut Context<'_>) {
        if self.ahead.is_none()
            && let Poll::Ready(batch) = self.batches.poll_next_unpin(context)
        {
            self.ahead = Some(batch);
        }
    }
}

impl Merging {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            match self.merger.step()? {
                Step::Needs(run) => match self.fetch(run).await? {
                    Some(batch) => self.merger.push(run, batch)?,
                    None => self.merger.end(run)?,
                },
                Step::Batch(rows) => return Ok(Some((rows, self))),
                Step::Changelog(_) => {}
                Step::Done => return Ok(None),
            }
        }
    }

    /// The next batch of a run. While it is waited for, the others go on with theirs: a store far away
    /// answers all runs at once.
    async fn fetch(&mut self, run: usize) -> Result<Option<RecordBatch>> {
        let next = std::future::poll_fn(|context| {
            let Some(wanted) = self.runs.get_mut(run) else {
                return Poll::Ready(None);
            };
            wanted.read_ahead(context);
            if let Some(batch) = wanted.ahead.take() {
                return Poll::Ready(batch);
            }
            self.runs.iter_mut().for_each(|r| r.read_ahead(context));
            Poll::Pending
        });
        next.await.transpose()
    }
}
