//! The `paimon` crate behind the line protocol of the other peers: one JSON request a line, one answer a line.
//!
//! Commands: version, read, system (snapshots, files), write (with `prepareOnly`: files without a commit),
//! commit (what was prepared, by `mode` `filter` or `plain`). Requests and answers are those of the Java peer
//! (`../java/README.md`); what the crate says goes out as `{"error": {"class", "message"}}`.

mod read;
mod to_arrow;
mod to_json;
mod write;

use paimon::catalog::{Catalog, Identifier};
use paimon::table::Table;
use paimon::{CatalogOptions, FileSystemCatalog, Options};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, Write};

/// A message for the other side: what kind of error, and what it says.
pub(crate) struct Failure {
    class: String,
    message: String,
}

impl Failure {
    /// Of this program.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            class: "Driver".to_owned(),
            message: message.into(),
        }
    }

    /// Whatever error, with what it names as its causes.
    fn of(class: String, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message.push_str(&format!(" <- {text}"));
            }
            cause = error.source();
        }
        Self { class, message }
    }
}

impl From<paimon::Error> for Failure {
    fn from(error: paimon::Error) -> Self {
        let shown = format!("{error:?}");
        let name = shown.split([' ', '(', '{']).next().unwrap_or_default();
        Self::of(format!("paimon.{name}"), &error)
    }
}

impl From<arrow::error::ArrowError> for Failure {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::of("ArrowError".to_owned(), &error)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (input, mut output) = (std::io::stdin(), std::io::stdout());
    for line in input.lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => runtime.block_on(answer(&request)),
            Err(error) => Err(Failure::new(format!("no JSON: {error}"))),
        };
        let answer = match answer {
            Ok(result) => json!({"result": result}),
            Err(why) => json!({"error": {"class": why.class, "message": why.message}}),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

async fn answer(request: &Value) -> Result<Value, Failure> {
    let command = request["command"].as_str().unwrap_or_default();
    if command == "version" {
        return Ok(json!({"paimon-crate": env!("PAIMON_VERSION")}));
    }
    let table = open(request).await?;
    match command {
        "read" => read::rows(&table, request).await,
        "system" => read::system(&table, request).await,
        "write" => write::write(&table, request).await,
        "commit" => write::commit(&table, request).await,
        other => Err(Failure::new(format!("unknown command: {other}"))),
    }
}

/// Opens the table at `WAREHOUSE/DATABASE.db/TABLE`.
async fn open(request: &Value) -> Result<Table, Failure> {
    let path = request["path"].as_str().unwrap_or_default();
    let path = path.strip_prefix("file:").unwrap_or(path);
    let wrong = || Failure::new(format!("not of the form WAREHOUSE/db.db/table: {path}"));
    let (rest, table) = path
        .trim_end_matches('/')
        .rsplit_once('/')
        .ok_or_else(wrong)?;
    let (warehouse, database) = rest.rsplit_once('/').ok_or_else(wrong)?;
    let database = database.strip_suffix(".db").ok_or_else(wrong)?;
    let mut options = Options::new();
    options.set(CatalogOptions::WAREHOUSE, warehouse);
    for (key, value) in texts(&request["conf"]) {
        options.set(key, value);
    }
    let catalog = FileSystemCatalog::new(options)?;
    Ok(catalog.get_table(&Identifier::new(database, table)).await?)
}

/// An object of texts.
pub(crate) fn texts(object: &Value) -> HashMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let entries = object.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}
