//! Where the data, changelog and index files of a table lie.

use tidegate_model::layout::{self, PartitionPaths};
use tidegate_model::options::TableOptions;
use tidegate_model::{BinaryRow, BucketId, TableSchema};

use crate::error::{CommitError, Result};
use crate::registry::File;
use crate::settings::config;

/// Paths of files, relative to the table.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    partitions: PartitionPaths,
    data_dir: Option<String>,
    index_beside_data: bool,
    unaware: bool,
}

impl Paths {
    pub(crate) fn of_table(schema: &TableSchema) -> Result<Self> {
        let options = TableOptions::of(schema).map_err(config)?;
        let beside = schema
            .options
            .bool("index-file-in-data-file-dir")
            .map_err(config)?;
        Ok(Self {
            partitions: schema.partition_paths().map_err(config)?,
            data_dir: options.data_file.path_directory,
            index_beside_data: beside == Some(true),
            unaware: schema.is_append() && options.bucket == -1,
        })
    }

    /// True where rows belong to no bucket \[F-7.1].
    pub(crate) fn unaware_buckets(&self) -> bool {
        self.unaware
    }

    /// `key=value/…`, empty for an unpartitioned table.
    pub(crate) fn partition(&self, partition: &BinaryRow) -> Result<String> {
        let path = self.partitions.path(partition);
        path.map_err(|e| CommitError::corrupt("partition of a file", e))
    }

    /// The directory of a bucket.
    pub(crate) fn bucket(&self, partition: &BinaryRow, bucket: BucketId) -> Result<String> {
        let partition = self.partition(partition)?;
        let data_dir = self.data_dir.as_deref().unwrap_or_default();
        Ok(layout::join([
            data_dir,
            &partition,
            &layout::bucket_dir(bucket),
        ]))
    }

    /// A file and its companions. Files outside the table are not ours to look at: no path.
    pub(crate) fn of(&self, file: &File) -> Result<Vec<String>> {
        match file {
            File::Data(_, _, meta) if meta.external_path.is_some() => Ok(Vec::new()),
            File::Index(_, _, meta) if meta.external_path.is_some() => Ok(Vec::new()),
            File::Data(partition, bucket, meta) => {
                let dir = self.bucket(partition, *bucket)?;
                let names = std::iter::once(&meta.file_name).chain(&meta.extra_files);
                Ok(names
                    .map(|name| layout::join([dir.as_str(), name]))
                    .collect())
            }
            File::Index(partition, bucket, meta) if self.index_beside_data => Ok(vec![
                layout::join([self.bucket(partition, *bucket)?.as_str(), &meta.file_name]),
            ]),
            File::Index(_, _, meta) => Ok(vec![layout::index_path(&meta.file_name)]),
        }
    }
}
