//! What decides how a table's data files are written: types and options, resolved once per table.
//!
//! Options are read here and nowhere else in this crate \[F-6.1]; rolling sizes belong to the writer.

use crate::error::{Error, Result};
use crate::keyed::{KeyLayout, SYSTEM_COLUMNS};
use crate::types::{Use, arrow_fields, parquet_schema, type_text};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::{ColumnPath, TypePtr};
use std::collections::HashSet;
use std::sync::Arc;
use tidegate_model::options::{DataFileOptions, TableOptions, parse_bool, parse_bytes};
use tidegate_model::{DataField, FieldId, LogicalType, Options, SchemaId, StatsMode, TableSchema};

/// Row groups end at this many encoded bytes unless `file.block-size` or `parquet.block.size` says
/// otherwise. Java's 128 MiB would keep a whole file in memory until it ends; smaller groups cost
/// nothing measurable and let the upload overlap the encoding.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// Page size of Java's writer.
const PAGE_BYTES: usize = 1 << 20;

/// Statistics of key and system columns, whatever the table's mode is \[F-4.4].
pub(crate) const KEY_STATS: StatsMode = StatsMode::Truncate(128);

/// Everything that a [`FileEncoder`](crate::FileEncoder) needs to know, resolved once and shared by
/// all files of a table.
#[derive(Clone, Debug)]
pub struct FilePlan {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// Columns of the file.
    pub(crate) fields: Vec<DataField>,
    /// Schema of the rows taken.
    pub(crate) rows: SchemaRef,
    /// The same as columns of the file: key columns come in front.
    pub(crate) file_rows: SchemaRef,
    /// Files of a keyed table.
    pub(crate) keyed: Option<KeyLayout>,
    /// Schema of the arrays given to the column encoders.
    pub(crate) encoding_arrow: SchemaRef,
    /// Parquet schema of the column encoders: as the file's, but `INT96` is twelve bytes.
    pub(crate) encoding_schema: TypePtr,
    /// Parquet schema of the file.
    pub(crate) file_schema: TypePtr,
    pub(crate) stats_modes: Vec<StatsMode>,
    pub(crate) dense: bool,
    pub(crate) dictionary: Dictionary,
    pub(crate) row_group_bytes: usize,
    compression: Compression,
    page_bytes: usize,
    dictionary_page_bytes: usize,
    page_rows: Option<usize>,
    version: WriterVersion,
    bloom_columns: Vec<String>,
    ignored: Vec<String>,
}

/// Which columns may have dictionaries.
#[derive(Debug)]
pub(crate) struct Dictionary {
    default: bool,
    columns: Vec<(String, bool)>,
}

impl Dictionary {
    /// What the options say of a leaf column, by its dotted path.
    pub(crate) fn allowed(&self, path: &str) -> bool {
        self.columns
            .iter()
            .find(|(c, _)| c == path)
            .map_or(self.default, |(_, on)| *on)
    }
}

impl FilePlan {
    /// Resolves a table's schema and options.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] names a column that Parquet files of this build cannot hold,
    /// [`Error::Option`] or [`Error::Model`] an option whose value means nothing.
    pub fn new(schema: &TableSchema) -> Result<Self> {
        let table = TableOptions::of(schema)?;
        Self::resolve(&schema.fields, None, &table)
    }

    /// Resolves the key-value files of a table with a primary key \[F-6.2]. Batches are key-value
    /// batches ([`key_value_schema`](crate::key_value_schema)) in key order.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn key_value(schema: &TableSchema) -> Result<Self> {
        let table = TableOptions::of(schema)?;
        Self::resolve_keyed(schema, &table)
    }

    /// The same for changelog files, which `changelog-file.format`, `.compression` and `.stats-mode`
    /// may make different.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn changelog(schema: &TableSchema) -> Result<Self> {
        let table = TableOptions::of(schema)?;
        let table = table.for_changelog(&schema.options)?;
        Self::resolve_keyed(schema, &table)
    }

    fn resolve_keyed(schema: &TableSchema, table: &TableOptions) -> Result<Self> {
        let (layout, columns) = KeyLayout::of(schema, table.data_file.thin)?;
        Self::resolve(&columns, Some(layout), table)
    }

    /// As [`new`](Self::new), of columns and options alone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_fields(fields: &[DataField], options: &Options) -> Result<Self> {
        let schema = TableSchema {
            version: 3,
            id: SchemaId(0),
            fields: fields.to_vec(),
            highest_field_id: FieldId(-1),
            partition_keys: Vec::new(),
            primary_keys: Vec::new(),
            options: options.clone(),
            comment: None,
            time_millis: 0,
            unknown: Vec::new(),
        };
        Self::new(&schema)
    }

    fn resolve(
        fields: &[DataField],
        keyed: Option<KeyLayout>,
        table: &TableOptions,
    ) -> Result<Self> {
        let data_file = &table.data_file;
        if data_file.format != "parquet" {
            let reason = "only `parquet` files are written by this build";
            return Err(option("file.format", &data_file.format, reason));
        }
        let mut names = HashSet::new();
        if let Some(field) = fields.iter().find(|f| !names.insert(f.name.as_str())) {
            return Err(Error::UnsupportedType {
                column: field.name.clone(),
                data_type: format!(
                    "{} (a second column of this name)",
                    type_text(&field.data_type)
                ),
            });
        }
        let before_values = keyed.as_ref().map_or(0, |keyed| keyed.before_values);
        let stats_modes = fields.iter().enumerate().map(|(place, field)| {
            match has_stats(&field.data_type.logical) {
                false => StatsMode::None,
                // Key and system columns have a mode of their own [F-4.4].
                true if place < before_values => KEY_STATS,
                true => table.stats.mode_of(&field.name, place - before_values),
            }
        });
        let file_rows = Arc::new(Schema::new(arrow_fields(fields, "", Use::Rows)?));
        let repeated = before_values.saturating_sub(SYSTEM_COLUMNS);
        let rows = match fields.get(repeated..) {
            Some(taken) if repeated > 0 => {
                Arc::new(Schema::new(arrow_fields(taken, "", Use::Rows)?))
            }
            _ => file_rows.clone(),
        };
        let mut plan = Inner {
            rows,
            file_rows,
            keyed,
            encoding_arrow: Arc::new(Schema::new(arrow_fields(fields, "", Use::Encoding)?)),
            encoding_schema: parquet_schema(fields, Use::Encoding)?,
            file_schema: parquet_schema(fields, Use::Rows)?,
            stats_modes: stats_modes.collect(),
            dense: table.stats.dense_store,
            dictionary: Dictionary {
                default: true,
                columns: Vec::new(),
            },
            row_group_bytes: match data_file.block_size {
                Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
                None => ROW_GROUP_BYTES,
            },
            compression: compression(data_file)?,
            page_bytes: PAGE_BYTES,
            dictionary_page_bytes: PAGE_BYTES,
            page_rows: None,
            version: WriterVersion::PARQUET_1_0,
            bloom_columns: Vec::new(),
            ignored: Vec::new(),
            fields: fields.to_vec(),
        };
        for (key, value) in &data_file.parquet {
            if let Some(name) = key.strip_prefix("parquet.") {
                plan.library_option(key, name, value)?;
            }
        }
        Ok(Self {
            inner: Arc::new(plan),
        })
    }

    /// The columns of the file.
    pub fn fields(&self) -> &[DataField] {
        &self.inner.fields
    }

    /// The Arrow schema that [`FileEncoder::write`](crate::FileEncoder::write) takes.
    pub fn arrow_schema(&self) -> &SchemaRef {
        &self.inner.rows
    }

    /// Extension of the files, with the leading dot.
    pub fn extension(&self) -> &'static str {
        ".parquet"
    }

    /// Short name of the codec as `file.suffix.include.compression` puts it before the extension;
    /// `None` for uncompressed files \[F-1.2].
    pub fn codec_suffix(&self) -> Option<&'static str> {
        match self.inner.compression {
            Compression::ZSTD(_) => Some("zst"),
            Compression::GZIP(_) => Some("gz"),
            Compression::SNAPPY => Some("snappy"),
            Compression::LZ4 | Compression::LZ4_RAW => Some("lz4"),
            _ => None,
        }
    }

    /// `parquet.*` options that are set but that this build's Parquet library has no counterpart for.
    pub fn ignored_options(&self) -> &[String] {
        &self.inner.ignored
    }

    /// Statistics mode of each column.
    pub fn stats_modes(&self) -> &[StatsMode] {
        &self.inner.stats_modes
    }

    /// Encoded bytes at which a row group ends.
    pub fn row_group_bytes(&self) -> usize {
        self.inner.row_group_bytes
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl Inner {
    fn library_option(&mut self, key: &str, name: &str, value: &str) -> Result<()> {
        let (name, column) = match name.split_once('#') {
            Some((name, column)) => (name, Some(column.to_owned())),
            None => (name, None),
        };
        match (name, column) {
            ("enable.dictionary", None) => self.dictionary.default = boolean(key, value)?,
            ("enable.dictionary", Some(column)) => {
                self.dictionary.columns.push((column, boolean(key, value)?));
            }
            ("page.size", None) => self.page_bytes = size(key, value)?,
            ("dictionary.page.size", None) => self.dictionary_page_bytes = size(key, value)?,
            ("page.row.count.limit", None) => self.page_rows = Some(size(key, value)?),
            ("bloom.filter.enabled", Some(column)) => {
                if boolean(key, value)? {
                    self.bloom_columns.push(column);
                }
            }
            ("writer.version", None) => {
                self.version = match value.to_ascii_lowercase().as_str() {
                    "v1" | "parquet_1_0" => WriterVersion::PARQUET_1_0,
                    "v2" | "parquet_2_0" => WriterVersion::PARQUET_2_0,
                    _ => return Err(option(key, value, "expected v1 or v2")),
                }
            }
            ("block.size", None) => self.row_group_bytes = size(key, value)?,
            ("compression" | "compression.codec.zstd.level", None) => {}
            _ => self.ignored.push(key.to_owned()),
        }
        Ok(())
    }

    /// Writer properties with a dictionary for exactly the leaf columns named.
    pub(crate) fn properties(
        &self,
        dictionaries: &[ColumnPath],
        no_stats: &[ColumnPath],
    ) -> WriterProperties {
        let mut builder: WriterPropertiesBuilder = WriterProperties::builder()
            .set_writer_version(self.version)
            .set_created_by(concat!("tidegate version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(self.compression)
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(self.page_bytes)
            .set_dictionary_page_size_limit(self.dictionary_page_bytes)
            .set_statistics_enabled(EnabledStatistics::Page)
            // Exact bounds feed the manifest; the footer's copy is cut when the row group ends.
            .set_statistics_truncate_length(None)
            .set_max_row_group_row_count(None);
        if let Some(rows) = self.page_rows {
            builder = builder.set_data_page_row_count_limit(rows);
        }
        for column in dictionaries {
            builder = builder.set_column_dictionary_enabled(column.clone(), true);
        }
        for column in no_stats {
            builder =
                builder.set_column_statistics_enabled(column.clone(), EnabledStatistics::None);
        }
        for column in &self.bloom_columns {
            let path = ColumnPath::new(column.split('.').map(str::to_owned).collect());
            builder = builder.set_column_bloom_filter_enabled(path, true);
        }
        builder.build()
    }
}

/// Columns of other types have no usable statistics \[F-4.4].
pub(crate) fn has_stats(logical: &LogicalType) -> bool {
    use LogicalType as L;
    !matches!(
        logical,
        L::Array(_)
            | L::Map(_, _)
            | L::Multiset(_)
            | L::Row(_)
            | L::Variant
            | L::Blob
            | L::Geometry(_)
            | L::Geography(_)
            | L::Vector { .. }
    )
}

fn compression(data_file: &DataFileOptions) -> Result<Compression> {
    let own = |wanted: &str| data_file.parquet.iter().find(|(key, _)| key == wanted);
    let (key, name) = match own("parquet.compression") {
        Some((key, name)) => (key.as_str(), name.trim().to_ascii_lowercase()),
        None => ("file.compression", data_file.compression.clone()),
    };
    match name.as_str() {
        "zstd" => {
            let level = match own("parquet.compression.codec.zstd.level") {
                None => data_file.zstd_level,
                Some((key, text)) => text
                    .trim()
                    .parse()
                    .map_err(|_| option(key, text, "expected a level from 1 to 22"))?,
            };
            Ok(Compression::ZSTD(ZstdLevel::try_new(level)?))
        }
        "none" | "uncompressed" => Ok(Compression::UNCOMPRESSED),
        "snappy" => Ok(Compression::SNAPPY),
        "gzip" => Ok(Compression::GZIP(GzipLevel::default())),
        // Java's LZ4 is Hadoop's framing, which the format deprecated; LZ4_RAW is what all judged
        // releases read as well.
        "lz4" | "lz4_raw" => Ok(Compression::LZ4_RAW),
        _ => Err(option(
            key,
            &name,
            "expected zstd, none, snappy, gzip or lz4",
        )),
    }
}

fn option(key: &str, value: &str, reason: &str) -> Error {
    Error::Option {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.to_owned(),
    }
}

fn boolean(key: &str, value: &str) -> Result<bool> {
    parse_bool(value).ok_or_else(|| option(key, value, "expected true or false"))
}

/// A size in Paimon's notation, above 0.
fn size(key: &str, value: &str) -> Result<usize> {
    parse_bytes(value)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| option(key, value, "expected a size such as `128 mb`"))
}
