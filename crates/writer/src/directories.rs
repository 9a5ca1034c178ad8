//! Where the files of a partition and bucket go, and whether its bucket count is the table's.

use tidegate_model::layout::{PartitionPaths, bucket_dir};
use tidegate_model::options::DataFileOptions;
use tidegate_model::{BucketView, TableSchema};

use crate::error::{Result, WriterError};
use crate::route::GroupKey;
use crate::views::BucketViews;

/// Folders of partitions and buckets below the table.
#[derive(Debug)]
pub(crate) struct Directories {
    paths: PartitionPaths,
    below: String,
}

impl Directories {
    pub(crate) fn new(schema: &TableSchema, table: &DataFileOptions) -> Result<Self> {
        let paths = schema
            .partition_paths()
            .map_err(|e| WriterError::Config(e.to_string()))?;
        Ok(Self {
            paths,
            below: table.path_directory.clone().unwrap_or_default(),
        })
    }

    pub(crate) fn of(&self, key: &GroupKey) -> Result<String> {
        let partition = self.paths.path(&key.partition)?;
        let bucket = bucket_dir(key.bucket);
        Ok(tidegate_model::layout::join([
            self.below.as_str(),
            &partition,
            &bucket,
        ]))
    }

    /// How buckets stand in the table, in the same order; their partitions must have `wanted` buckets
    /// \[W-2].
    pub(crate) async fn views(
        &self,
        views: &dyn BucketViews,
        keys: &[GroupKey],
        wanted: i32,
    ) -> Result<Vec<BucketView>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let count = keys.len();
        let found = views.views(keys).await;
        let found = found.map_err(|source| WriterError::Views { count, source })?;
        let mut found = found.into_iter();
        keys.iter()
            .map(|key| self.checked(key, found.next(), wanted))
            .collect()
    }

    /// The view that was asked for, where it is of that bucket and its partition has `wanted` buckets
    /// \[W-2].
    fn checked(&self, key: &GroupKey, view: Option<BucketView>, wanted: i32) -> Result<BucketView> {
        let view = view.filter(|view| view.bucket == key.bucket && view.partition == key.partition);
        let Some(view) = view else {
            return Err(WriterError::Config(
                "the provider of bucket views answered for other buckets than it was asked"
                    .to_owned(),
            ));
        };
        match view.total_buckets {
            Some(found) if found != wanted => {
                let path = self.paths.path(&key.partition)?;
                let partition = match path.as_str() {
                    "" => "table".to_owned(),
                    path => format!("partition {path}"),
                };
                Err(WriterError::BucketCount {
                    partition,
                    wanted,
                    found,
                })
            }
            _ => Ok(view),
        }
    }
}

/// The first sequence number of new rows of a bucket \[F-6.3].
pub(crate) fn next_sequence(view: &BucketView) -> i64 {
    view.max_sequence_number
        .map_or(0, |max| max.saturating_add(1))
}
