//! Files for tests: a name and a key range are what matters.

use tidegate_model::{
    BinaryRow, DataFileMeta, Datum, FileSource, KeyOrder, Level, LogicalType, SchemaId, SimpleStats,
};

/// Keys of one INT.
pub(crate) fn order() -> KeyOrder {
    KeyOrder::new(vec![LogicalType::Int])
}

pub(crate) fn key(value: i32) -> BinaryRow {
    BinaryRow::from_datums(&[Some(Datum::Int(value))], &[LogicalType::Int]).unwrap()
}

/// A file of level 0 with this key range, 100 bytes, one row.
pub(crate) fn file(name: &str, min: i32, max: i32) -> DataFileMeta {
    DataFileMeta {
        file_name: name.into(),
        file_size: 100,
        row_count: 1,
        min_key: key(min),
        max_key: key(max),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: 0,
        max_sequence_number: 0,
        schema_id: SchemaId(0),
        level: Level(0),
        extra_files: vec![],
        creation_time_millis: Some(0),
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(FileSource::Append),
        value_stats_cols: None,
        external_path: None,
        first_row_id: None,
        write_cols: None,
        write_cols_sequences: None,
    }
}

/// The same at a level.
pub(crate) fn at(level: i32, name: &str, min: i32, max: i32) -> DataFileMeta {
    DataFileMeta {
        level: Level(level),
        ..file(name, min, max)
    }
}

pub(crate) fn names<'a>(files: impl IntoIterator<Item = &'a DataFileMeta>) -> Vec<&'a str> {
    files.into_iter().map(|f| f.file_name.as_str()).collect()
}
