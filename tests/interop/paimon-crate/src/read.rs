//! Commands that look.

use crate::{Failure, texts, to_json};
use futures::TryStreamExt;
use paimon::table::Table;
use serde_json::{Value, json};

/// The rows of the newest snapshot, or of what `options` say; of the columns in `projection`.
pub(crate) async fn rows(table: &Table, request: &Value) -> Result<Value, Failure> {
    let options = texts(&request["options"]);
    let travelled;
    let table = if options.is_empty() {
        table
    } else {
        travelled = table.copy_with_time_travel(options).await?;
        &travelled
    };
    let mut builder = table.new_read_builder();
    if let Some(names) = request["projection"].as_array() {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        builder.with_projection(&names)?;
    }
    let plan = builder.new_scan().plan().await?;
    let mut batches = builder.new_read()?.to_arrow(plan.splits())?;
    let mut rows = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        rows.extend(to_json::rows(&batch)?);
    }
    Ok(Value::Array(rows))
}

/// `$snapshots` and `$files`.
pub(crate) async fn system(table: &Table, request: &Value) -> Result<Value, Failure> {
    match request["table"].as_str().unwrap_or_default() {
        "snapshots" => snapshots(table).await,
        "files" => files(table).await,
        other => Err(Failure::new(format!("no such list here: {other}"))),
    }
}

async fn snapshots(table: &Table) -> Result<Value, Failure> {
    let snapshots = table.snapshot_manager().list_all().await?;
    let listed = snapshots.iter().map(|s| {
        json!({
            "snapshot_id": s.id(), "schema_id": s.schema_id(), "commit_user": s.commit_user(),
            "commit_identifier": s.commit_identifier(), "commit_kind": s.commit_kind().to_string(),
            "base_manifest_list": s.base_manifest_list(),
            "delta_manifest_list": s.delta_manifest_list(),
            "total_record_count": s.total_record_count(),
            "delta_record_count": s.delta_record_count(), "watermark": s.watermark(),
        })
    });
    Ok(listed.collect())
}

async fn files(table: &Table) -> Result<Value, Failure> {
    let plan = table.new_read_builder().new_scan().plan().await?;
    let mut listed = Vec::new();
    for split in plan.splits() {
        for file in split.data_files() {
            listed.push(json!({
                "bucket": split.bucket(), "file_path": split.data_file_path(file),
                "schema_id": file.schema_id, "level": file.level,
                "record_count": file.row_count, "file_size_in_bytes": file.file_size,
                "min_sequence_number": file.min_sequence_number,
                "max_sequence_number": file.max_sequence_number,
            }));
        }
    }
    Ok(Value::Array(listed))
}
