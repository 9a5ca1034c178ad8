//! A table to write to, and an independent way to read it back.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tidegate_model::layout::{bucket_dir, join};
use tidegate_model::{
    BucketView, CommitMessage, DataField, DataFileMeta, DataType, FieldId, LogicalType, Options,
    TableSchema, WritePlan,
};
use tidegate_sink::{BoxFuture, SinkError};
use tidegate_storage::Store;
use tidegate_writer::{AppendWriter, BucketViews, Clock, GroupKey, MemoryBudget, WriterOptions};
use uuid::Uuid;

pub(crate) const STRING: LogicalType = LogicalType::VarChar(2_147_483_647);

#[derive(Debug)]
pub(crate) struct FixedClock(pub(crate) i64);

impl Clock for FixedClock {
    fn local_millis(&self) -> i64 {
        self.0
    }
}

pub(crate) struct Table {
    pub(crate) store: Store,
    pub(crate) plan: WritePlan,
    pub(crate) budget: MemoryBudget,
    pub(crate) options: WriterOptions,
    pub(crate) views: Arc<Views>,
    pub(crate) spill: tempfile::TempDir,
}

/// Bucket views that a test sets; all others are empty buckets.
#[derive(Default)]
pub(crate) struct Views {
    pub(crate) known: Mutex<HashMap<GroupKey, (i64, i32)>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) calls: AtomicUsize,
}

impl BucketViews for Views {
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.asked.fetch_add(buckets.len(), Ordering::Relaxed);
        let known = self.known.lock().unwrap();
        let views = buckets
            .iter()
            .map(|key| {
                let found = known.get(key);
                BucketView {
                    base: None,
                    partition: key.partition.clone(),
                    bucket: key.bucket,
                    total_buckets: found.map(|f| f.1),
                    files: Vec::new(),
                    index_files: Vec::new(),
                    max_sequence_number: found.map(|f| f.0),
                    newest_committed: None,
                }
            })
            .collect();
        Box::pin(async move { Ok(views) })
    }
}

pub(crate) fn schema(
    columns: &[(&str, LogicalType)],
    partition: &[&str],
    options: &[(&str, &str)],
) -> TableSchema {
    let fields = columns
        .iter()
        .map(|(name, logical)| DataField {
            id: FieldId(0),
            name: (*name).to_owned(),
            data_type: DataType {
                logical: logical.clone(),
                nullable: true,
            },
            description: None,
            default_value: None,
        })
        .collect();
    let partition = partition.iter().map(|p| (*p).to_owned()).collect();
    let options: Options = options.iter().copied().collect();
    TableSchema::create(fields, partition, Vec::new(), options, None, 0).unwrap()
}

impl Table {
    /// Columns id BIGINT, name STRING, dt STRING.
    pub(crate) fn orders(partition: &[&str], options: &[(&str, &str)]) -> Self {
        Self::of(schema(
            &[
                ("id", LogicalType::BigInt),
                ("name", STRING),
                ("dt", STRING),
            ],
            partition,
            options,
        ))
    }

    pub(crate) fn of(schema: TableSchema) -> Self {
        let spill = tempfile::tempdir().unwrap();
        let options = WriterOptions {
            spill_directory: spill.path().to_owned(),
            clock: Arc::new(FixedClock(1_700_000_000_000)),
            ..WriterOptions::default()
        };
        let store = Store::open(&format!("memory://{}", Uuid::new_v4()), &BTreeMap::new()).unwrap();
        Self {
            store,
            plan: WritePlan {
                schema: Arc::new(schema),
                file_prefix: "data-tg01e1-".to_owned(),
            },
            budget: MemoryBudget::new(256 << 20),
            options,
            views: Arc::default(),
            spill,
        }
    }

    /// A small budget with encoders counted at next to nothing.
    pub(crate) fn with_budget(mut self, bytes: usize) -> Self {
        self.budget = MemoryBudget::new(bytes);
        self.options.encoder_bytes = (bytes / 16).min(1 << 20);
        self
    }

    pub(crate) fn writer(&self) -> AppendWriter {
        self.try_writer().unwrap()
    }

    pub(crate) fn try_writer(&self) -> tidegate_writer::Result<AppendWriter> {
        let views: Arc<dyn BucketViews> = self.views.clone();
        let options = WriterOptions {
            uuid: Uuid::new_v4(),
            ..self.options.clone()
        };
        AppendWriter::open(
            &self.plan,
            self.store.clone(),
            Some(views),
            &self.budget,
            options,
        )
    }

    /// The path of a file of a message.
    pub(crate) fn path(&self, message: &CommitMessage, file: &DataFileMeta) -> String {
        let partition = self
            .plan
            .schema
            .partition_paths()
            .unwrap()
            .path(&message.partition)
            .unwrap();
        let bucket = bucket_dir(message.bucket);
        let below = self
            .plan
            .schema
            .options
            .get("data-file.path-directory")
            .unwrap_or("");
        join([below, &partition, &bucket, &file.file_name])
    }

    /// The ids of a message's rows in the order of its files, everything that its metadata says
    /// checked against the bytes.
    pub(crate) async fn ids(&self, message: &CommitMessage) -> Vec<i64> {
        let mut ids = Vec::new();
        let mut next = None;
        for file in &message.data.new_files {
            let path = self.path(message, file);
            let batches = self.read(&path, file).await;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows as i64, file.row_count, "{path}");
            assert!(rows > 0, "{path} is empty");
            assert_eq!(
                file.max_sequence_number - file.min_sequence_number + 1,
                file.row_count
            );
            assert!(
                next.is_none_or(|next| file.min_sequence_number == next),
                "{path}: a gap"
            );
            next = Some(file.max_sequence_number + 1);
            for batch in batches {
                ids.extend(batch["id"].as_primitive::<Int64Type>().values());
            }
        }
        ids
    }

    pub(crate) async fn read(&self, path: &str, file: &DataFileMeta) -> Vec<RecordBatch> {
        let bytes = self.store.get(path).await.unwrap();
        assert_eq!(bytes.len() as i64, file.file_size, "{path}");
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
            .unwrap()
            .build()
            .unwrap();
        reader.map(Result::unwrap).collect()
    }

    /// Rows of all messages, by partition directory and bucket.
    pub(crate) async fn rows(
        &self,
        messages: &[CommitMessage],
    ) -> BTreeMap<(String, i32), Vec<i64>> {
        let mut rows = BTreeMap::new();
        for message in messages {
            let partition = self
                .plan
                .schema
                .partition_paths()
                .unwrap()
                .path(&message.partition)
                .unwrap();
            let old = rows.insert((partition, message.bucket.0), self.ids(message).await);
            assert!(old.is_none(), "two messages for one partition and bucket");
        }
        rows
    }

    pub(crate) async fn objects(&self) -> Vec<String> {
        let mut paths: Vec<String> = self
            .store
            .list("")
            .await
            .unwrap()
            .into_iter()
            .map(|o| o.path.to_string())
            .collect();
        paths.sort();
        paths
    }
}

/// Rows of the columns of [`Table::orders`].
pub(crate) fn orders(rows: &[(i64, Option<&str>)]) -> RecordBatch {
    let ids: Int64Array = rows.iter().map(|r| r.0).collect::<Vec<_>>().into();
    let names: StringArray = rows.iter().map(|r| Some(format!("name-{}", r.0))).collect();
    let dts: StringArray = rows.iter().map(|r| r.1).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, true),
        ("name", Arc::new(names) as ArrayRef, true),
        ("dt", Arc::new(dts) as ArrayRef, true),
    ])
    .unwrap()
}
