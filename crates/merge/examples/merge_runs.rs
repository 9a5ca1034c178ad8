//! How fast sorted runs are merged: `deduplicate` of 5 runs × 200,000 rows (or as many as the argument says) over
//! one key space, and the same with `aggregation`.
//!
//! ```console
//! $ cargo run --release -p tidegate-merge --example merge_runs [ROWS]
//! ```

#![allow(clippy::print_stdout)]

use arrow::array::{Int8Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use tidegate_merge::{
    Deletes, MergeOptions, MergeSpec, Merger, SortBuffer, Step, key_value_schema,
};
use tidegate_model::{DataField, TableSchema};

const RUNS: usize = 5;
const BATCH: usize = 8192;

fn spec(options: &[(&str, &str)]) -> Result<MergeSpec, Box<dyn Error>> {
    let column = |name: &str, t: &str| -> Result<DataField, tidegate_model::Error> {
        Ok(DataField::new(name, t.parse()?))
    };
    let columns = vec![
        column("id", "BIGINT")?,
        column("amount", "BIGINT")?,
        column("name", "STRING")?,
    ];
    let options = options.iter().copied().chain([("bucket", "1")]).collect();
    let table = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0)?;
    Ok(MergeSpec::new(&table)?)
}

fn schema() -> SchemaRef {
    key_value_schema(&Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("amount", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

fn batch(ids: &[i64], first_sequence: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let rows = ids.len() as i64;
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            first_sequence..first_sequence + rows,
        )),
        Arc::new(Int8Array::from(vec![0; ids.len()])),
        Arc::new(Int64Array::from_iter_values(ids.iter().copied())),
        Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| id % 1000))),
        Arc::new(StringArray::from_iter_values(
            ids.iter().map(|id| format!("name of {id}")),
        )),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let rows: usize = std::env::args()
        .nth(1)
        .map_or(Ok(200_000), |text| text.parse())?;
    for (what, options) in [
        ("deduplicate", &[][..]),
        (
            "aggregation (sum, last_non_null_value)",
            &[
                ("merge-engine", "aggregation"),
                ("fields.amount.aggregate-function", "sum"),
            ][..],
        ),
    ] {
        let spec = spec(options)?;
        // Which keys a run has: all of one space, every run about a third of it.
        let mut runs = Vec::new();
        for run in 0..RUNS as i64 {
            let mut ids: Vec<i64> = (0..rows as i64)
                .map(|i| i * 3 + (i * 7 + run * 5) % 3)
                .collect();
            ids.dedup();
            let cut = ids.chunks(BATCH).enumerate();
            let sequence = |n: usize| run * 10_000_000 + (n * BATCH) as i64;
            runs.push(
                cut.map(|(n, ids)| batch(ids, sequence(n)))
                    .collect::<Result<Vec<_>, _>>()?,
            );
        }
        let total: usize = runs.iter().flatten().map(RecordBatch::num_rows).sum();
        let mut best = f64::MAX;
        let mut keys = 0;
        for _ in 0..7 {
            let mut sources: Vec<_> = runs.iter().map(|r| r.iter()).collect();
            let options = MergeOptions {
                deletes: Deletes::Drop,
                ..MergeOptions::default()
            };
            let started = Instant::now();
            let mut merger = Merger::new(&spec, schema(), RUNS, options)?;
            keys = 0;
            loop {
                match merger.step()? {
                    Step::Needs(run) => match sources.get_mut(run).and_then(Iterator::next) {
                        Some(batch) => merger.push(run, batch.clone())?,
                        None => merger.end(run)?,
                    },
                    Step::Batch(batch) => keys += batch.num_rows(),
                    Step::Changelog(_) => {}
                    Step::Done => break,
                }
            }
            best = best.min(started.elapsed().as_secs_f64());
        }
        let rate = total as f64 / best / 1e6;
        println!(
            "{what}: {total} rows of {RUNS} runs to {keys} keys in {best:.3} s, {rate:.1} million rows/s"
        );

        let mut best = f64::MAX;
        for _ in 0..5 {
            let started = Instant::now();
            let mut buffer = SortBuffer::new(&spec, schema())?;
            // The runs as a writer would get them: interleaved.
            for n in 0..rows.div_ceil(BATCH) {
                for run in &runs {
                    if let Some(batch) = run.get(n) {
                        buffer.push(batch.clone())?;
                    }
                }
            }
            let sorted = buffer.sort();
            keys = sorted
                .merged(4096)
                .map(|b| b.map(|b| b.num_rows()))
                .sum::<Result<usize, _>>()?;
            best = best.min(started.elapsed().as_secs_f64());
        }
        let rate = total as f64 / best / 1e6;
        println!(
            "{what}: {total} rows sorted in a buffer to {keys} keys in {best:.3} s, {rate:.1} million rows/s"
        );
    }
    Ok(())
}
