//! `tidegate`'s own stream behind the line protocol of the peers: one JSON request a line, one answer a line.
//!
//! Commands: version, open (restores the job, as a program does that was killed), write (rows up to a
//! position), commit (a checkpoint: durable, then visible), read. Checkpoints are the stream's own, so
//! nobody hands committables in or out.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use tidegate::scan::At;
use tidegate::storage::Store;
use tidegate::{Stream, Table};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (input, mut output) = (std::io::stdin(), std::io::stdout());
    let mut stream = None;
    for line in input.lock().lines() {
        let answer = match runtime.block_on(answer(&line?, &mut stream)) {
            Ok(result) => json!({"result": result}),
            Err(why) => json!({"error": {"class": "tidegate", "message": why.to_string()}}),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

async fn answer(line: &str, stream: &mut Option<Stream>) -> Result<Value, Failure> {
    let request: Value = serde_json::from_str(line)?;
    let text = |key: &str| request.get(key).and_then(Value::as_str);
    let number = |key: &str| request.get(key).and_then(Value::as_i64);
    match text("command").unwrap_or_default() {
        "version" => Ok(json!({"tidegate": env!("CARGO_PKG_VERSION")})),
        "open" => {
            // Two streams of one job in one process would fence each other.
            drop(stream.take());
            let checkpoints = text("checkpoints").ok_or("no checkpoints")?;
            let opened = table(&request)
                .await?
                .stream(text("commitUser").ok_or("no commitUser")?)?
                .checkpoint_store(Store::open(checkpoints, &conf(&request))?)
                .open()
                .await?;
            let position = opened.position().map(String::from_utf8_lossy);
            let position = position.map_or(Ok(0), |p| p.parse::<i64>())?;
            *stream = Some(opened);
            Ok(json!({"position": position}))
        }
        "write" => {
            let (from, to) = (
                number("from").ok_or("no from")?,
                number("to").ok_or("no to")?,
            );
            let stream = stream.as_mut().ok_or("not open")?;
            stream
                .write(&rows(from, to)?, to.to_string().as_bytes())
                .await?;
            Ok(Value::Null)
        }
        "commit" => {
            let stream = stream.as_mut().ok_or("not open")?;
            let published = stream.checkpoint().await?;
            Ok(json!({"snapshotId": published.map(|p| p.version)}))
        }
        "read" => {
            let plan = table(&request).await?.scan(&At::Latest).await?;
            let mut rows = Vec::new();
            let mut batches = plan.with_columns(&["id"])?.read()?;
            while let Some(batch) = batches.try_next().await? {
                let ids = batch.column(0).as_primitive::<Int64Type>();
                rows.extend(ids.values().iter().map(|id| json!({"id": id})));
            }
            Ok(Value::Array(rows))
        }
        other => Err(format!("unknown command: {other}").into()),
    }
}

fn conf(request: &Value) -> BTreeMap<String, String> {
    let entries = request.get("conf").and_then(Value::as_object);
    let entries = entries.into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries.map(|(k, v)| (k.clone(), text(v))).collect()
}

async fn table(request: &Value) -> Result<Table, Failure> {
    let path = request
        .get("path")
        .and_then(Value::as_str)
        .ok_or("no path")?;
    let path = path.strip_prefix("file:").unwrap_or(path);
    Ok(Table::on(Store::open(path, &conf(request))?, path.to_owned()).await?)
}

fn rows(from: i64, to: i64) -> Result<RecordBatch, Failure> {
    let ids = Int64Array::from_iter_values(from..=to);
    let names = StringArray::from_iter_values((from..=to).map(|id| format!("name-{id}")));
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("name", Arc::new(names))];
    let columns = columns.map(|(name, column)| (name, column, true));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}
