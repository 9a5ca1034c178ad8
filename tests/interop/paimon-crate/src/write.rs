//! Commands that add snapshots.

use crate::{Failure, to_arrow};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use paimon::arrow::paimon_type_to_arrow;
use paimon::table::{COMMIT_MESSAGE_SERIALIZER_VERSION, CommitMessage, Table, WriteBuilder};
use serde_json::{Value, json};
use std::sync::Arc;

/// `rows` as files; then committed, or handed out as a committable with `prepareOnly`.
pub(crate) async fn write(table: &Table, request: &Value) -> Result<Value, Failure> {
    let builder = builder(table, request)?;
    let mut writer = builder.new_write()?;
    let rows = request["rows"].as_array().cloned().unwrap_or_default();
    writer.write_arrow_batch(&batch(table, &rows)?).await?;
    let messages = writer.prepare_commit().await?;
    let identifier = request["commitIdentifier"].as_i64();
    if request["prepareOnly"] == json!(true) {
        let serialized = messages.iter().map(CommitMessage::serialize);
        let serialized: Vec<Vec<u8>> = serialized.collect::<Result<_, _>>()?;
        let texts: Vec<String> = serialized.iter().map(|m| STANDARD.encode(m)).collect();
        return Ok(json!({
            "commitUser": builder.commit_user(), "identifier": identifier,
            "messageVersion": COMMIT_MESSAGE_SERIALIZER_VERSION, "messages": texts,
        }));
    }
    let commit = builder.try_new_commit()?;
    match identifier {
        None => commit.commit(messages).await?,
        Some(identifier) => commit.commit_with_identifier(messages, identifier).await?,
    }
    let latest = table.snapshot_manager().get_latest_snapshot_id().await?;
    Ok(json!({"commitUser": builder.commit_user(), "snapshotId": latest}))
}

/// `committables` by `filter_and_commit` (mode `filter`), or each as it is (mode `plain`).
pub(crate) async fn commit(table: &Table, request: &Value) -> Result<Value, Failure> {
    let mut committables = Vec::new();
    for one in request["committables"].as_array().into_iter().flatten() {
        let identifier = one["identifier"].as_i64();
        let identifier = identifier.ok_or_else(|| Failure::new("no identifier"))?;
        let version = one["messageVersion"].as_i64().unwrap_or_default();
        let version = i32::try_from(version).unwrap_or_default();
        let mut messages = Vec::new();
        for text in one["messages"].as_array().into_iter().flatten() {
            let bytes = STANDARD.decode(text.as_str().unwrap_or_default());
            let bytes = bytes.map_err(|e| Failure::new(format!("messages: {e}")))?;
            messages.push(CommitMessage::deserialize(version, &bytes)?);
        }
        committables.push((identifier, messages));
    }
    let commit = builder(table, request)?.try_new_commit()?;
    let committed = if request["mode"] == json!("plain") {
        let count = committables.len();
        for (identifier, messages) in committables {
            commit.commit_with_identifier(messages, identifier).await?;
        }
        count
    } else {
        commit.filter_and_commit(committables).await?
    };
    let latest = table.snapshot_manager().get_latest_snapshot_id().await?;
    Ok(json!({"committed": committed, "snapshotId": latest}))
}

fn builder<'a>(table: &'a Table, request: &Value) -> Result<WriteBuilder<'a>, Failure> {
    let builder = table.new_write_builder();
    Ok(match request["commitUser"].as_str() {
        Some(user) => builder.with_commit_user(user)?,
        None => builder,
    })
}

fn batch(table: &Table, rows: &[Value]) -> Result<RecordBatch, Failure> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for field in table.schema().fields() {
        let kind = paimon_type_to_arrow(field.data_type())?;
        let values: Vec<&Value> = rows.iter().map(|row| &row[field.name()]).collect();
        columns.push(to_arrow::array(&kind, &values)?);
        let nullable = field.data_type().is_nullable();
        fields.push(Field::new(field.name(), kind, nullable));
    }
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}
