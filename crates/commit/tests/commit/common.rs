//! A table of an imaginary writer: data files are a few bytes, metadata is real. [`Table::check`]
//! reads the table with the decoders only, not with the code under test.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_commit::{PaimonCommitter, SeededEnv, create_table, run_prefix};
use tidegate_format::{index_manifest, manifest, manifest_list, snapshot};
use tidegate_model::data_type::LogicalType;
use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataField, DataFileMeta, DataIncrement,
    DataType, Datum, EntryKind, FileSource, Level, Options, SchemaId, SimpleStats, Snapshot,
    TableSchema, layout,
};
use tidegate_sink::{
    CheckpointId, CommitContext, CommitUser, Committable, Epoch, JobName, Outcome, Positions, Run,
};
use tidegate_storage::{RetryPolicy, Store};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A number that no other call in this process gets.
pub(crate) fn unique() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) struct Table {
    pub(crate) store: Store,
    pub(crate) schema: TableSchema,
    pub(crate) partitioned: bool,
    /// Keeps a directory alive.
    _dir: Option<tempfile::TempDir>,
}

/// What the decoders see.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) snapshots: Vec<Snapshot>,
    /// Live file names of the newest snapshot.
    pub(crate) live: BTreeSet<String>,
    /// Objects that nothing refers to, metadata of jobs apart.
    pub(crate) orphans: Vec<String>,
}

impl Seen {
    /// How many snapshots carry (user, identifier).
    pub(crate) fn count(&self, user: &CommitUser, identifier: i64) -> usize {
        self.snapshots
            .iter()
            .filter(|s| s.commit_user == *user && s.commit_identifier.0 == identifier)
            .count()
    }

    pub(crate) fn rows(&self) -> i64 {
        self.snapshots
            .last()
            .and_then(|s| s.total_record_count)
            .unwrap_or(0)
    }

    pub(crate) fn identifiers(&self) -> Vec<i64> {
        self.snapshots
            .iter()
            .map(|s| s.commit_identifier.0)
            .collect()
    }
}

impl Table {
    pub(crate) async fn memory(options: &[(&str, &str)]) -> Self {
        let store =
            Store::open(&format!("memory://commit-{}", unique()), &BTreeMap::new()).unwrap();
        Self::over(store, options, false, None).await
    }

    pub(crate) async fn memory_partitioned(options: &[(&str, &str)]) -> Self {
        let store =
            Store::open(&format!("memory://commit-{}", unique()), &BTreeMap::new()).unwrap();
        Self::over(store, options, true, None).await
    }

    pub(crate) async fn file(options: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}/t", dir.path().display());
        let store = Store::open(&url, &BTreeMap::new()).unwrap();
        Self::over(store, options, false, Some(dir)).await
    }

    async fn over(
        store: Store,
        options: &[(&str, &str)],
        partitioned: bool,
        dir: Option<tempfile::TempDir>,
    ) -> Self {
        let store = store.with_retry(RetryPolicy::none());
        let columns = vec![
            DataField::new("id", DataType::nullable(LogicalType::BigInt)),
            DataField::new(
                "dt",
                DataType::nullable(LogicalType::VarChar(i32::MAX as u32)),
            ),
        ];
        let keys = if partitioned {
            vec!["dt".to_owned()]
        } else {
            vec![]
        };
        let options: Options = options.iter().copied().collect();
        let schema = TableSchema::create(columns, keys, vec![], options, None, 1_000).unwrap();
        create_table(&store, &schema).await.unwrap();
        Self {
            store,
            schema,
            partitioned,
            _dir: dir,
        }
    }

    pub(crate) fn env(&self, seed: u64) -> Arc<SeededEnv> {
        Arc::new(SeededEnv::new(seed, 1_000_000))
    }

    pub(crate) async fn committer(&self, run: &Run) -> PaimonCommitter {
        self.committer_on(self.store.clone(), run).await
    }

    pub(crate) async fn committer_on(&self, store: Store, run: &Run) -> PaimonCommitter {
        PaimonCommitter::open_with(store, run.clone(), self.env(unique()))
            .await
            .unwrap()
    }

    /// The partition of a name; the empty row where the table has none.
    pub(crate) fn partition(&self, name: &str) -> BinaryRow {
        if !self.partitioned {
            return BinaryRow::empty();
        }
        let value = [Some(Datum::String(name.to_owned()))];
        BinaryRow::from_datums(&value, &[LogicalType::VarChar(i32::MAX as u32)]).unwrap()
    }

    /// Writes one data file with `rows` rows and hands over its message.
    pub(crate) async fn message(&self, run: &Run, dt: &str, rows: i64) -> CommitMessage {
        self.message_of(run, dt, BucketId(0), None, rows).await
    }

    pub(crate) async fn message_of(
        &self,
        run: &Run,
        dt: &str,
        bucket: BucketId,
        total_buckets: Option<i32>,
        rows: i64,
    ) -> CommitMessage {
        let partition = self.partition(dt);
        let file = data_file(
            &format!("data-{}{:032}-0.parquet", run.prefix, unique()),
            rows,
        );
        let path = self.path(&partition, bucket, &file.file_name);
        self.store
            .write_once(&path, vec![b'x'; rows as usize].into())
            .await
            .unwrap();
        CommitMessage {
            partition,
            bucket,
            total_buckets,
            data: DataIncrement {
                new_files: vec![file],
                ..Default::default()
            },
            compact: CompactIncrement::default(),
        }
    }

    pub(crate) fn path(&self, partition: &BinaryRow, bucket: BucketId, name: &str) -> String {
        let paths = self.schema.partition_paths().unwrap();
        let dir = paths.path(partition).unwrap();
        layout::join([dir.as_str(), &layout::bucket_dir(bucket), name])
    }

    /// Everything that the table promises, or a panic that says what is broken; see invariants 2, 7
    /// and 8.
    pub(crate) async fn check(&self) -> Seen {
        let store = &self.store;
        let mut used: HashSet<String> = HashSet::new();
        let mut seen = Seen::default();
        let objects = store.list("").await.unwrap();
        let mut ids: Vec<i64> = objects
            .iter()
            .filter_map(|o| layout::versioned("snapshot/snapshot-", &o.path))
            .collect();
        ids.sort_unstable();
        if let (Some(first), Some(last)) = (ids.first(), ids.last()) {
            assert_eq!(
                ids,
                (*first..=*last).collect::<Vec<_>>(),
                "snapshot ids are dense"
            );
        }
        for id in ids {
            let path = format!("snapshot/snapshot-{id}");
            let bytes = store.get(&path).await.unwrap();
            used.insert(path);
            let s = snapshot::decode(&bytes).unwrap();
            assert_eq!(s.id.0, id);
            let mut live: BTreeMap<String, i64> = BTreeMap::new();
            let mut deleted: HashMap<String, i64> = HashMap::new();
            let mut base_rows = 0;
            for (n, list) in [&s.base_manifest_list, &s.delta_manifest_list]
                .into_iter()
                .enumerate()
            {
                let list_path = layout::manifest_path(&list.name);
                let bytes = store
                    .get(&list_path)
                    .await
                    .expect("a list that a snapshot names");
                assert_eq!(list.size, Some(bytes.len() as i64), "size of {list_path}");
                used.insert(list_path);
                for m in manifest_list::decode(&bytes).unwrap() {
                    let path = layout::manifest_path(&m.file_name);
                    let bytes = store
                        .get(&path)
                        .await
                        .expect("a manifest that a list names");
                    assert_eq!(m.file_size, bytes.len() as i64, "size of {path}");
                    used.insert(path);
                    let entries = manifest::decode(&bytes).unwrap();
                    let added = entries.iter().filter(|e| e.kind == EntryKind::Add).count();
                    assert_eq!(added as i64, m.num_added_files);
                    for e in entries {
                        let path = self.path(&e.partition, e.bucket, &e.file.file_name);
                        match e.kind {
                            EntryKind::Add => {
                                assert!(!deleted.contains_key(&path), "{path} comes back");
                                let twice = live.insert(path.clone(), e.file.row_count);
                                assert_eq!(twice, None, "{path} is live twice");
                            }
                            EntryKind::Delete => {
                                if live.remove(&path).is_none() {
                                    deleted.insert(path, e.file.row_count);
                                }
                            }
                        }
                    }
                }
                if n == 0 {
                    base_rows = live.values().sum::<i64>();
                }
            }
            assert!(
                deleted.is_empty(),
                "snapshot {id} deletes what it does not have: {deleted:?}"
            );
            let rows: i64 = live.values().sum();
            assert_eq!(s.total_record_count, Some(rows), "rows of snapshot {id}");
            assert_eq!(
                s.delta_record_count,
                Some(rows - base_rows),
                "delta of snapshot {id}"
            );
            if let Some(index) = &s.index_manifest {
                let path = layout::manifest_path(index);
                let entries = index_manifest::decode(&store.get(&path).await.unwrap()).unwrap();
                used.insert(path);
                used.extend(
                    entries
                        .iter()
                        .map(|e| layout::index_path(&e.file.file_name)),
                );
            }
            for path in live.keys() {
                let meta = store.head(path).await.unwrap();
                assert!(
                    meta.is_some(),
                    "snapshot {id} names {path}, which is not there"
                );
            }
            used.extend(live.keys().cloned());
            seen.live = live.into_keys().collect();
            if let (Some(before), false) = (seen.snapshots.last(), seen.snapshots.is_empty()) {
                assert!(
                    s.time_millis >= before.time_millis,
                    "the clock of snapshot {id}"
                );
            }
            seen.snapshots.push(s);
        }
        let free = [
            "schema/",
            "tidegate/",
            "tag/",
            "snapshot/LATEST",
            "snapshot/EARLIEST",
        ];
        seen.orphans = objects
            .into_iter()
            .map(|o| o.path)
            .filter(|p| !used.contains(p) && !free.iter().any(|f| p.starts_with(f)))
            .collect();
        seen
    }

    /// A commit of one file with 10 rows, made by `run` for `checkpoint`.
    pub(crate) async fn committable(
        &self,
        committer: &PaimonCommitter,
        checkpoint: u64,
        replaces: Option<u64>,
    ) -> Committable {
        let messages = vec![self.message(committer.run(), "a", 10).await];
        combine(committer, checkpoint, replaces, messages)
    }
}

pub(crate) fn combine(
    committer: &PaimonCommitter,
    checkpoint: u64,
    replaces: Option<u64>,
    messages: Vec<CommitMessage>,
) -> Committable {
    let context = context(committer.run(), checkpoint, replaces);
    committer
        .combine_messages(&context, messages, 1, 1)
        .unwrap()
}

pub(crate) fn data_file(name: &str, rows: i64) -> DataFileMeta {
    DataFileMeta {
        file_name: name.to_owned(),
        file_size: rows,
        row_count: rows,
        min_key: BinaryRow::empty(),
        max_key: BinaryRow::empty(),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: 0,
        max_sequence_number: rows - 1,
        schema_id: SchemaId(0),
        level: Level(0),
        extra_files: vec![],
        creation_time_millis: Some(1_704_067_200_123),
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(FileSource::Append),
        value_stats_cols: Some(vec![]),
        external_path: None,
        first_row_id: None,
        write_cols: None,
        write_cols_sequences: None,
    }
}

pub(crate) fn run(user: &str, epoch: u64) -> Run {
    run_of("job", user, epoch)
}

pub(crate) fn run_of(job: &str, user: &str, epoch: u64) -> Run {
    let user = CommitUser::new(user).unwrap();
    let epoch = Epoch(epoch);
    Run {
        job: JobName::new(job).unwrap(),
        prefix: run_prefix(&user, epoch),
        user,
        epoch,
        restored: None,
    }
}

pub(crate) fn positions(n: u64) -> Positions {
    Positions {
        active: format!("position {n}").into_bytes(),
        finished: vec![],
    }
}

pub(crate) fn context(run: &Run, checkpoint: u64, replaces: Option<u64>) -> CommitContext {
    CommitContext {
        job: run.job.clone(),
        epoch: run.epoch,
        checkpoint: CheckpointId(checkpoint),
        positions: Some(positions(checkpoint)),
        replaces: replaces.map(positions),
        watermark: None,
    }
}

pub(crate) fn is_published(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Published(_))
}

pub(crate) fn is_visible(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Published(_) | Outcome::AlreadyPublished(_)
    )
}

/// Polls a future `n` times and drops it; what it gave if it ended before.
pub(crate) async fn poll_times<F: Future>(future: F, n: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = n;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return std::task::Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
            std::task::Poll::Pending => std::task::Poll::Pending,
        }
    })
    .await
}

/// So short that a test does not notice, and yet every request waits once.
pub(crate) const TICK: Duration = Duration::from_micros(50);
