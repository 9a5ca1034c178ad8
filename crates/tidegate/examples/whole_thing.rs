//! A table, a stream into it, and going on after a stop or a crash: run it twice, or kill it.
//!
//! `cargo run -p tidegate --example whole_thing [FOLDER]`

#![allow(clippy::print_stdout, clippy::expect_used)]

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use tidegate::Table;
use tidegate::model::{DataField, Options, TableSchema};

/// What the program reads: rows of 1,000 numbers each, from a number on.
fn batches_from(first: i64) -> impl Iterator<Item = (RecordBatch, i64)> {
    (first..).step_by(1_000).map(|from| {
        let ids = Int64Array::from_iter_values(from..from + 1_000);
        let names =
            StringArray::from_iter_values(ids.values().iter().map(|id| format!("order {id}")));
        let columns = [("id", Arc::new(ids) as _), ("name", Arc::new(names) as _)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true)));
        (batch.expect("columns of one length"), from + 1_000)
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let folder = std::env::args().nth(1);
    let folder = folder.unwrap_or_else(|| scratch.path().display().to_string());

    let columns = vec![
        DataField::new("id", "BIGINT".parse()?),
        DataField::new("name", "STRING".parse()?),
    ];
    let schema = TableSchema::create(columns, vec![], vec![], Options::default(), None, 0)?;
    let table = Table::create_or_open(&format!("{folder}/shop.db/orders"), &schema).await?;
    let mut stream = table
        .stream("orders-job")?
        .checkpoints(&format!("{folder}/checkpoints"))?
        .open()
        .await?;

    // Where to go on reading, after a crash too.
    let from = match stream.position() {
        Some(position) => std::str::from_utf8(position)?.parse()?,
        None => 0,
    };
    println!("epoch {}, from row {from}", stream.run().epoch);
    for (n, (batch, next)) in batches_from(from).take(10).enumerate() {
        stream.write(&batch, next.to_string().as_bytes()).await?;
        if n % 4 == 3 {
            // Durable, then visible, exactly once.
            if let Some(published) = stream.checkpoint().await? {
                println!("snapshot {}: up to row {next}", published.version);
            }
        }
    }
    stream.finish().await?;
    // Of a table with a primary key only reading tells.
    if let Some(rows) = table.scan(&Default::default()).await?.row_count() {
        println!("{rows} rows in the table");
    }
    Ok(())
}
