//! Where the files of a table lie: below it, or outside.

use crate::error::{Error, Result};
use crate::table::TableReader;
use tidegate_model::layout::{self, PartitionPaths};
use tidegate_model::options::TableOptions;
use tidegate_model::{BinaryRow, BucketId, IndexManifestEntry, ManifestEntry, TableSchema};
use tidegate_storage::Store;

/// The store in which a path lies, and the path there.
pub(crate) fn located(table: &TableReader, path: &str) -> Result<(Store, String)> {
    if !is_absolute(path) {
        return Ok((table.store().clone(), path.to_owned()));
    }
    let unreadable = || Error::Inconsistent {
        file: path.to_owned(),
        what: "not the path of a file".to_owned(),
    };
    let (directory, name) = path.rsplit_once('/').ok_or_else(unreadable)?;
    Ok((
        Store::open(&url_of(directory), table.store_options())?,
        name.to_owned(),
    ))
}

/// Where files of a table lie: below the table, or the full path where a file lies outside.
#[derive(Clone, Debug)]
pub struct Places {
    partitions: PartitionPaths,
    directory: String,
    index_beside_data: bool,
}

impl Places {
    /// Those of a table with this schema.
    ///
    /// # Errors
    /// Options or partition columns that make no paths.
    pub fn new(schema: &TableSchema) -> Result<Self> {
        let index_beside_data = schema.options.bool("index-file-in-data-file-dir")?;
        Ok(Self {
            partitions: schema.partition_paths()?,
            directory: TableOptions::of(schema)?
                .data_file
                .path_directory
                .unwrap_or_default(),
            index_beside_data: index_beside_data.unwrap_or(false),
        })
    }

    fn bucket(&self, partition: &BinaryRow, bucket: BucketId) -> Result<String> {
        let partition = self.partitions.path(partition)?;
        let bucket = layout::bucket_dir(bucket);
        Ok(layout::join([
            self.directory.as_str(),
            partition.as_str(),
            bucket.as_str(),
        ]))
    }

    /// The path of a data file.
    ///
    /// # Errors
    /// A partition that makes no path.
    pub fn of(&self, entry: &ManifestEntry) -> Result<String> {
        match &entry.file.external_path {
            Some(path) => Ok(path.clone()),
            None => {
                let bucket = self.bucket(&entry.partition, entry.bucket)?;
                Ok(layout::join([
                    bucket.as_str(),
                    entry.file.file_name.as_str(),
                ]))
            }
        }
    }

    /// The path of an index file.
    ///
    /// # Errors
    /// A partition that makes no path.
    pub fn of_index(&self, entry: &IndexManifestEntry) -> Result<String> {
        match &entry.file.external_path {
            Some(path) => Ok(path.clone()),
            None if self.index_beside_data => {
                let bucket = self.bucket(&entry.partition, entry.bucket)?;
                Ok(layout::join([
                    bucket.as_str(),
                    entry.file.file_name.as_str(),
                ]))
            }
            None => Ok(layout::index_path(&entry.file.file_name)),
        }
    }
}

pub(crate) fn is_absolute(path: &str) -> bool {
    path.starts_with('/')
        || path.split_once(':').is_some_and(|(scheme, rest)| {
            rest.starts_with('/')
                && !scheme.is_empty()
                && scheme.chars().all(|c| c.is_ascii_alphanumeric())
        })
}

/// Java writes local paths as `file:/dir`.
fn url_of(path: &str) -> String {
    match path.strip_prefix("file:/") {
        Some(rest) if !rest.starts_with('/') => format!("file:///{rest}"),
        _ => path.to_owned(),
    }
}
