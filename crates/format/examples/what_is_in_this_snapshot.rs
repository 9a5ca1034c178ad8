//! What does a snapshot hold? Only bytes in, values out: this program does its own reading.
//!
//! ```text
//! cargo run -p tidegate-format --example what_is_in_this_snapshot -- TABLE-FOLDER [SNAPSHOT-ID]
//! ```
//!
//! Without arguments it looks into a table that Java Paimon wrote.

#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::error::Error;
use std::path::PathBuf;
use tidegate_format::{InFile, hint, manifest, manifest_list, schema, snapshot};
use tidegate_model::{EntryKind, LogicalType};

const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/golden/tables/partition_by_date/warehouse/golden.db/partition_by_date"
);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let table = PathBuf::from(arguments.next().unwrap_or_else(|| EXAMPLE.to_owned()));
    let read = |name: String| -> Result<Vec<u8>, String> {
        std::fs::read(table.join(&name)).map_err(|e| format!("{name}: {e}"))
    };
    let id = match arguments.next() {
        Some(id) => id,
        None => hint::decode(&read("snapshot/LATEST".to_owned())?)
            .in_file("LATEST")?
            .to_string(),
    };

    let name = format!("snapshot/snapshot-{id}");
    let bytes = read(name.clone())?;
    let snapshot = snapshot::decode(&bytes).in_file(&name)?;
    println!(
        "snapshot {}: {} by {}, commit {}, {} rows in all",
        snapshot.id,
        snapshot.commit_kind,
        snapshot.commit_user.as_str(),
        snapshot.commit_identifier.0,
        snapshot.total_record_count.unwrap_or(0),
    );
    // Nothing is lost on the way: unknown keys survive, the bytes are Java's.
    assert_eq!(snapshot::encode(&snapshot), bytes);

    let name = format!("schema/schema-{}", snapshot.schema_id);
    let schema = schema::decode(&read(name.clone())?).in_file(&name)?;
    let partition_types: Vec<LogicalType> = schema
        .partition_keys
        .iter()
        .filter_map(|key| schema.fields.iter().find(|field| field.name == *key))
        .map(|field| field.data_type.logical.clone())
        .collect();

    for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
        let name = format!("manifest/{}", list.name);
        for meta in manifest_list::decode(&read(name.clone())?).in_file(&name)? {
            let name = format!("manifest/{}", meta.file_name);
            let bytes = read(name.clone())?;
            println!(
                "{name}: {} added, {} deleted",
                meta.num_added_files, meta.num_deleted_files
            );
            // One entry after the other; a block of the file is all that lies in memory.
            for entry in manifest::entries(&bytes).in_file(&name)? {
                let entry = entry.in_file(&name)?;
                let sign = if entry.kind == EntryKind::Add {
                    '+'
                } else {
                    '-'
                };
                println!(
                    "  {sign} {} {:?} bucket {}: {} rows, {} bytes",
                    entry.file.file_name,
                    entry.partition.datums(&partition_types)?,
                    entry.bucket,
                    entry.file.row_count,
                    entry.file.file_size,
                );
            }
        }
    }
    Ok(())
}
