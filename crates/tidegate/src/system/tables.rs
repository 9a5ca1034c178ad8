//! Tables about versions: schema, options, snapshots.

use serde_json::Value;
use tidegate_commit::Marks;
use tidegate_model::snapshot::CommitKind;
use tidegate_model::{SchemaId, TableSchema, layout};

use super::java_order::in_java_order;
use super::sheet::{Cell, Sheet};
use crate::error::{Error, Result};
use crate::table::Table;

/// Columns, keys and options of the newest schema, for people.
pub fn describe(table: &Table) -> Sheet {
    let schema = table.schema();
    let mut sheet = Sheet::new(["what", "name", "value"]);
    for field in &schema.fields {
        let mut notes = Vec::new();
        if let Some(at) = schema.partition_keys.iter().position(|k| *k == field.name) {
            notes.push(format!("partition column {}", at + 1));
        }
        if schema.primary_keys.contains(&field.name) {
            notes.push("primary key".to_owned());
        }
        let mut text = field.data_type.to_string();
        if !notes.is_empty() {
            text.push_str(&format!(" ({})", notes.join(", ")));
        }
        if let Some(comment) = &field.description {
            text.push_str(&format!(": {comment}"));
        }
        sheet.push(vec![
            "column".into(),
            field.name.as_str().into(),
            text.into(),
        ]);
    }
    for (key, value) in schema.options.iter() {
        sheet.push(vec!["option".into(), key.into(), value.into()]);
    }
    if let Some(comment) = &schema.comment {
        sheet.push(vec![
            "table".into(),
            "comment".into(),
            comment.as_str().into(),
        ]);
    }
    sheet.push(vec![
        "table".into(),
        "schema".into(),
        schema.id.to_string().into(),
    ]);
    sheet.push(vec![
        "table".into(),
        "location".into(),
        table.store().url().into(),
    ]);
    sheet
}

/// `$options`.
pub fn options(table: &Table) -> Sheet {
    let mut sheet = Sheet::new(["key", "value"]);
    for (key, value) in table.schema().options.iter() {
        sheet.push(vec![key.into(), value.into()]);
    }
    sheet
}

fn kind_text(kind: CommitKind) -> String {
    kind.to_string()
}

/// `$snapshots`; ours behind: job, epoch and checkpoint.
///
/// # Errors
/// Faults of the store, unreadable snapshots.
pub async fn snapshots(table: &Table) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "snapshot_id",
        "schema_id",
        "commit_user",
        "commit_identifier",
        "commit_kind",
        "commit_time",
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "total_record_count",
        "delta_record_count",
        "changelog_record_count",
        "watermark",
        "next_row_id",
        "job",
        "epoch",
        "checkpoint_id",
    ]);
    for s in table.snapshots().await? {
        // Marks that make no sense are for `verify` to tell; here the rest is shown.
        let marks = Marks::of(&s).unwrap_or_default();
        sheet.push(vec![
            s.id.0.into(),
            s.schema_id.0.into(),
            s.commit_user.as_str().into(),
            s.commit_identifier.0.into(),
            kind_text(s.commit_kind).into(),
            Cell::Millis(s.time_millis),
            s.base_manifest_list.name.as_str().into(),
            s.delta_manifest_list.name.as_str().into(),
            Cell::text(s.changelog_manifest_list.as_ref().map(|l| l.name.as_str())),
            Cell::int(s.total_record_count),
            Cell::int(s.delta_record_count),
            Cell::int(s.changelog_record_count),
            Cell::int(s.watermark),
            Cell::int(s.next_row_id),
            Cell::text(marks.as_ref().map(|m| m.job.as_str())),
            Cell::int(marks.as_ref().and_then(|m| i64::try_from(m.epoch.0).ok())),
            Cell::int(
                marks
                    .as_ref()
                    .and_then(|m| i64::try_from(m.checkpoint.0).ok()),
            ),
        ]);
    }
    Ok(sheet)
}

/// `$schemas`.
///
/// # Errors
/// Faults of the store, unreadable schemas.
pub async fn schemas(table: &Table) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "schema_id",
        "fields",
        "partition_keys",
        "primary_keys",
        "options",
        "comment",
        "update_time",
    ]);
    let reader = table.reader();
    let entries = table.store().list_names(layout::SCHEMA_DIR).await?;
    let mut ids: Vec<SchemaId> = entries
        .iter()
        .filter_map(|e| layout::schema_id(&e.name))
        .collect();
    ids.sort_unstable();
    for id in ids {
        let schema = reader.schema(id).await?;
        let json = SchemaJson::of(&schema)?;
        let mut options: Vec<(&str, &str)> = schema.options.iter().collect();
        in_java_order(&mut options, |(key, _)| key);
        let options = options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), Value::from(*v)));
        let options = Value::Object(options.collect()).to_string();
        sheet.push(vec![
            schema.id.0.into(),
            json.part("fields").into(),
            json.part("partitionKeys").into(),
            json.part("primaryKeys").into(),
            options.into(),
            Cell::text(schema.comment.as_deref()),
            Cell::Millis(schema.time_millis),
        ]);
    }
    Ok(sheet)
}

/// Parts of a schema file as compact JSON.
struct SchemaJson(Value);

impl SchemaJson {
    fn of(schema: &TableSchema) -> Result<Self> {
        let bytes = tidegate_format::schema::encode(schema);
        let value = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Config(format!("schema {}: {e}", schema.id)))?;
        Ok(Self(value))
    }

    fn part(&self, key: &str) -> String {
        self.0.get(key).map(ToString::to_string).unwrap_or_default()
    }
}
