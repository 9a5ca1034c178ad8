//! `verify` against the place of every row: right in all that released Java wrote and in what we write,
//! and found where a file stands under another bucket or partition.

// Helpers may panic as the tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use tidegate::Table;
use tidegate::commit::{PaimonCommitter, create_table, run_prefix};
use tidegate::model::bucket::{bucket_of_hash, hash};
use tidegate::model::{
    BinaryRow, BucketId, BucketView, CommitMessage, DataField, Datum, LogicalType, Options,
    SchemaId, TableSchema, WritePlan,
};
use tidegate::scan::canonical::{Times, rows};
use tidegate::scan::{At, TableReader};
use tidegate::sink::{
    CheckpointId, CommitContext, CommitUser, Committer, Epoch, JobName, Outcome, Positions, Run,
    SinkError,
};
use tidegate::storage::Store;
use tidegate::verify::{Report, Severity, verify};
use tidegate::writer::{AppendWriter, BucketViews, GroupKey, MemoryBudget, WriterOptions};

/// Every bucket is empty.
struct Empty;

impl BucketViews for Empty {
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        let empty = |key: &GroupKey| BucketView {
            base: None,
            partition: key.partition.clone(),
            bucket: key.bucket,
            total_buckets: None,
            files: vec![],
            index_files: vec![],
            max_sequence_number: None,
            newest_committed: None,
        };
        Box::pin(async move { Ok(buckets.iter().map(empty).collect()) })
    }
}

fn schema(id: &str, options: &[(&str, &str)]) -> TableSchema {
    let columns = vec![
        DataField::new("dt", "STRING".parse().unwrap()),
        DataField::new("id", id.parse().unwrap()),
    ];
    let options: Options = options.iter().copied().collect();
    TableSchema::create(columns, vec!["dt".into()], vec![], options, None, 0).unwrap()
}

fn batch(partition: &[Option<&str>], ids: &[i32]) -> RecordBatch {
    let partition = Arc::new(StringArray::from(partition.to_vec()));
    let ids = Arc::new(Int32Array::from(ids.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("dt", partition as _, true), ("id", ids as _, true)])
        .unwrap()
}

struct Rig {
    store: Store,
    run: Run,
}

impl Rig {
    async fn new(schema: &TableSchema) -> Self {
        let store = Store::open("memory://", &BTreeMap::new()).unwrap();
        create_table(&store, schema).await.unwrap();
        let user = CommitUser::new("places").unwrap();
        let epoch = Epoch(1);
        let run = Run {
            job: JobName::new("places").unwrap(),
            prefix: run_prefix(&user, epoch),
            user,
            epoch,
            restored: None,
        };
        Self { store, run }
    }

    /// Files of some rows as a table of `schema` has them; nothing is visible yet.
    async fn write(&self, schema: &TableSchema, rows: &RecordBatch) -> Vec<CommitMessage> {
        let plan = WritePlan {
            schema: Arc::new(schema.clone()),
            file_prefix: format!("data-{}", self.run.prefix),
        };
        let budget = MemoryBudget::new(64 << 20);
        let (store, options) = (self.store.clone(), WriterOptions::default());
        let mut writer =
            AppendWriter::open(&plan, store, Some(Arc::new(Empty)), &budget, options).unwrap();
        writer.write(rows).await.unwrap();
        writer.prepare().await.unwrap()
    }

    async fn commit(&self, checkpoint: u64, messages: Vec<CommitMessage>) {
        let (store, run) = (self.store.clone(), self.run.clone());
        let mut committer = PaimonCommitter::open(store, run).await.unwrap();
        let positions = |n: u64| Positions {
            active: n.to_be_bytes().to_vec(),
            finished: vec![],
        };
        let context = CommitContext {
            job: self.run.job.clone(),
            epoch: self.run.epoch,
            checkpoint: CheckpointId(checkpoint),
            positions: Some(positions(checkpoint)),
            replaces: (checkpoint > 1).then(|| positions(checkpoint - 1)),
            watermark: None,
        };
        let committable = committer
            .combine_messages(&context, messages, 1, 1)
            .unwrap();
        let outcome = committer.commit(&committable).await.unwrap();
        assert!(matches!(outcome, Outcome::Published(_)), "{outcome:?}");
    }

    /// Gives a file another place, in its message and in the store.
    async fn move_to(&self, message: &mut CommitMessage, from: &str, to: &str) {
        for file in &message.data.new_files {
            let (from, to) = (
                format!("{from}/{}", file.file_name),
                format!("{to}/{}", file.file_name),
            );
            self.store.copy_once(&from, &to).await.unwrap();
            self.store.delete(&from).await.unwrap();
        }
    }

    async fn verify(&self) -> Report {
        let table = Table::on(self.store.clone(), "places".into())
            .await
            .unwrap();
        verify(&table).await.unwrap()
    }
}

/// The one thing that is found.
fn one(report: &Report) -> &str {
    assert_eq!(report.findings.len(), 1, "{report:#?}");
    &report.findings[0].what
}

const BUCKETS: [&[(&str, &str)]; 4] = [
    &[],
    &[("bucket", "4"), ("bucket-key", "id")],
    &[
        ("bucket", "4"),
        ("bucket-key", "id"),
        ("bucket-function.type", "mod"),
    ],
    &[
        ("bucket", "4"),
        ("bucket-key", "id"),
        ("bucket-function.type", "hive"),
    ],
];

#[tokio::test]
async fn a_row_that_stands_in_another_bucket_or_partition_is_found() {
    let rows = batch(
        &[Some("a"), Some("b"), None, Some("a"), Some("b"), None],
        &[-7, 3, 0, i32::MAX, i32::MIN, 11],
    );
    for options in BUCKETS {
        let schema = schema("INT", options);
        let rig = Rig::new(&schema).await;
        let messages = rig.write(&schema, &rows).await;
        rig.commit(1, messages).await;
        let report = rig.verify().await;
        assert_eq!(report.findings, [], "{options:?}");
        assert_eq!(report.rows, 6, "{options:?}");

        // One row, so one file.
        let mut moved = rig.write(&schema, &batch(&[Some("a")], &[7])).await;
        assert_eq!(moved.len(), 1);
        let right = moved[0].bucket.0;
        let wrong = (right + 1) % 4;
        moved[0].bucket = BucketId(wrong);
        let bucket = |n: i32| format!("dt=a/bucket-{n}");
        rig.move_to(&mut moved[0], &bucket(right), &bucket(wrong))
            .await;
        rig.commit(2, moved).await;
        let report = rig.verify().await;
        let place = &report.findings[0].place;
        assert!(
            place.starts_with(&format!("dt=a/bucket-{wrong}/data-")),
            "{place}"
        );
        let expected = match options.is_empty() {
            true => "stands in bucket 1, a table without buckets has bucket 0 alone".to_owned(),
            false => format!(
                r#"row 0 (counted from 0) holds {{"id":7}}, which belongs to bucket {right} of 4, the file stands in bucket {wrong}; 1 of 1 rows are in a wrong bucket: readers that look for a key pass them by"#
            ),
        };
        assert_eq!(one(&report), expected, "{options:?}");

        let rig = Rig::new(&schema).await;
        let ids = [5, 5, 5, 5];
        let mut moved = rig.write(&schema, &batch(&[Some("a"); 4], &ids)).await;
        let of_b = rig.write(&schema, &batch(&[Some("b")], &[5])).await;
        let bucket = |p: &str| format!("dt={p}/bucket-{}", of_b[0].bucket);
        rig.move_to(&mut moved[0], &bucket("a"), &bucket("b")).await;
        moved[0].partition = of_b[0].partition.clone();
        rig.commit(1, [moved, of_b].concat()).await;
        assert_eq!(
            one(&rig.verify().await),
            r#"row 0 (counted from 0) holds {"dt":"a"}, the file stands in partition dt=b; 4 of 4 rows are in a wrong partition: readers that look for it pass them by"#,
            "{options:?}"
        );
    }
}

#[tokio::test]
async fn the_first_row_in_a_wrong_bucket_is_named_and_the_others_are_counted() {
    let (default, modulo) = (schema("INT", BUCKETS[1]), schema("INT", BUCKETS[2]));
    let rig = Rig::new(&default).await;
    // All of bucket 1 by another function than the table's.
    let ids: Vec<i32> = (0..5_000).map(|n| 4 * n + 1).collect();
    let messages = rig
        .write(&modulo, &batch(&vec![Some("a"); ids.len()], &ids))
        .await;
    rig.commit(1, messages).await;
    let bucket = |id: i32| {
        let key = BinaryRow::from_datums(&[Some(Datum::Int(id))], &[LogicalType::Int]).unwrap();
        bucket_of_hash(hash(key.bytes()), 4)
    };
    let wrong: Vec<usize> = (0..ids.len()).filter(|n| bucket(ids[*n]) != 1).collect();
    assert!(wrong.len() > 1_000 && wrong.len() < 4_999);
    let (first, n) = (wrong[0], wrong.len());
    let expected = format!(
        r#"row {first} (counted from 0) holds {{"id":{}}}, which belongs to bucket {} of 4, the file stands in bucket 1; {n} of 5000 rows are in a wrong bucket: readers that look for a key pass them by"#,
        ids[first],
        bucket(ids[first]),
    );
    assert_eq!(one(&rig.verify().await), expected);
}

#[tokio::test]
async fn rows_stand_where_the_type_of_their_key_put_them_when_they_were_written() {
    let old = schema("INT", BUCKETS[1]);
    let rig = Rig::new(&old).await;
    let ids: Vec<i32> = (-40..0).collect();
    let rows = batch(&[Some("a"); 40], &ids);
    rig.commit(1, rig.write(&old, &rows).await).await;
    // A negative INT has another hash than the same BIGINT.
    let mut new = schema("BIGINT", BUCKETS[1]);
    new.id = SchemaId(1);
    let bytes = tidegate::format::schema::encode(&new);
    rig.store
        .write_once("schema/schema-1", bytes.into())
        .await
        .unwrap();
    rig.commit(2, rig.write(&new, &rows).await).await;
    let report = rig.verify().await;
    assert_eq!((report.findings.as_slice(), report.rows), (&[][..], 80));
}

#[tokio::test]
async fn a_partition_column_that_is_null_in_a_whole_file_is_a_warning() {
    let schema = schema("INT", BUCKETS[1]);
    let rig = Rig::new(&schema).await;
    let mut moved = rig.write(&schema, &batch(&[None; 2], &[5, 5])).await;
    let of_b = rig.write(&schema, &batch(&[Some("b")], &[5])).await;
    let bucket = |p: &str| format!("dt={p}/bucket-{}", of_b[0].bucket);
    rig.move_to(
        &mut moved[0],
        &bucket("__DEFAULT_PARTITION__"),
        &bucket("b"),
    )
    .await;
    moved[0].partition = of_b[0].partition.clone();
    rig.commit(1, [moved, of_b].concat()).await;
    let report = rig.verify().await;
    assert_eq!(
        one(&report),
        r#"has no values of its partition dt=b, {"dt":null} in all 2 rows: readers give those of the partition"#
    );
    assert_eq!(report.findings[0].severity, Severity::Warning);
    // Readers do: whatever columns they ask for, the partition's alone included.
    let reader = TableReader::new(rig.store.clone());
    for (columns, expected) in [
        (&["id", "dt"][..], r#"{"id":5,"dt":"b"}"#),
        (&["dt"], r#"{"dt":"b"}"#),
    ] {
        let plan = reader.scan(&At::Latest).await.unwrap();
        let plan = plan.with_columns(columns).unwrap();
        let batches: Vec<RecordBatch> = plan.read().unwrap().try_collect().await.unwrap();
        let texts = batches
            .iter()
            .flat_map(|batch| rows(plan.columns(), batch, Times::Precision).unwrap());
        assert_eq!(texts.collect::<Vec<_>>(), vec![expected; 3]);
    }
}

/// Golden tables whose rows are read here. One data file of `pk_avro_1_0_1` is not in the collection.
fn golden() -> Vec<String> {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tables");
    let mut names: Vec<String> = std::fs::read_dir(tables)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().join("rows.json").exists())
        .map(|e| e.file_name().into_string().unwrap())
        .filter(|name| !name.contains("_orc"))
        .filter(|name| {
            let others = [
                "append_blob",
                "append_data_evolution",
                "append_variant",
                "pk_avro_1_0_1",
            ];
            !others.contains(&name.as_str())
        })
        .collect();
    names.sort();
    names
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn golden_table(name: &str) -> std::path::PathBuf {
    let external = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tables")
        .join(name)
        .join("external");
    if external.is_dir() {
        // The manifests hold this very path.
        copy(
            &external,
            &Path::new("/tmp/paimon-golden-external").join(name),
        );
    }
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tables")
        .join(name)
        .join("warehouse/golden.db")
        .join(name)
}

async fn verified(path: &Path, name: &str) -> Report {
    let store = Store::open(path.to_str().unwrap(), &BTreeMap::new()).unwrap();
    let table = Table::on(store, name.to_owned()).await.unwrap();
    verify(&table).await.unwrap()
}

#[tokio::test]
async fn every_row_that_java_wrote_stands_in_its_bucket_and_partition() {
    let (mut wrong, mut rows) = (Vec::new(), 0);
    for name in golden() {
        let report = verified(&golden_table(&name), &name).await;
        rows += report.rows;
        wrong.extend(
            report
                .findings
                .into_iter()
                // Java leaves files that nothing refers to.
                .filter(|f| f.severity != Severity::Note)
                .map(|f| format!("{name}: {f:?}")),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(rows > 1_000, "{rows}");
}
