//! Reading a snapshot of a table: some columns, batch by batch.
//!
//! `cargo run -p tidegate --example reading [TABLE SNAPSHOT COLUMN…]`; without arguments it makes a
//! table first.

#![allow(clippy::print_stdout)]

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use futures::TryStreamExt;
use tidegate::Table;
use tidegate::model::{DataField, Options, SnapshotId, TableSchema};
use tidegate::scan::At;

/// Three snapshots of 100 rows each.
async fn make(folder: &str) -> Result<Table, Box<dyn std::error::Error>> {
    let columns = ["id", "amount"]
        .map(|name| Ok::<_, tidegate::model::Error>(DataField::new(name, "BIGINT".parse()?)));
    let columns = columns.into_iter().collect::<Result<_, _>>()?;
    let schema = TableSchema::create(columns, vec![], vec![], Options::default(), None, 0)?;
    let table = Table::create_or_open(&format!("{folder}/shop.db/orders"), &schema).await?;
    let mut stream = table
        .stream("make")?
        .checkpoints(&format!("{folder}/checkpoints"))?
        .open()
        .await?;
    for n in 0..3_u8 {
        let ids = Arc::new(Int64Array::from_iter_values(
            (0..100).map(|id| id + i64::from(n) * 100),
        ));
        let columns = [("id", ids.clone() as _, true), ("amount", ids as _, true)];
        stream
            .write(&RecordBatch::try_from_iter_with_nullable(columns)?, &[n])
            .await?;
        stream.checkpoint().await?;
    }
    stream.finish().await?;
    Ok(table)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let (table, snapshot) = match (arguments.next(), arguments.next()) {
        (Some(url), Some(snapshot)) => (Table::open(&url).await?, snapshot.parse()?),
        _ => {
            // A stream and its table make a large future.
            let made = Box::pin(make(&scratch.path().display().to_string())).await?;
            (made, 2)
        }
    };
    let mut columns: Vec<String> = arguments.collect();
    if columns.is_empty() {
        columns.extend(
            table
                .schema()
                .fields
                .first()
                .map(|field| field.name.clone()),
        );
    }

    let plan = table
        .scan(&At::Snapshot(SnapshotId(snapshot)))
        .await?
        .with_columns(&columns)?;
    // Of a keyed table it is known once rows of a key are merged.
    match plan.row_count() {
        Some(rows) => println!("{rows} rows in {} files", plan.splits().len()),
        None => println!("{} files", plan.splits().len()),
    }
    let mut batches = plan.read()?;
    while let Some(batch) = batches.try_next().await? {
        println!("{} rows of {:?}", batch.num_rows(), columns);
    }
    Ok(())
}
