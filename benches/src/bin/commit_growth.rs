//! Does a commit cost what it changes, or what the table has? Commits to a table of few snapshots and
//! to one of many, in turn, on the local disk with fsync, and compares them as ratios in one run.
//!
//! ```text
//! commit_growth [SNAPSHOTS [COMMITS [DIRECTORY]]]      default 10000 512 and a temporary folder
//! ```

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use tidegate::commit::{PaimonCommitter, create_table, run_prefix};
use tidegate::model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataField, DataFileMeta, DataIncrement,
    FileSource, Level, Options, SchemaId, SimpleStats, TableSchema,
};
use tidegate::sink::{
    CheckpointId, CommitContext, CommitUser, Committer, Epoch, JobName, Outcome, Positions, Run,
};
use tidegate::storage::Store;
use tidegate_benches::{millis, percentile};

/// Snapshots of the small table when measuring begins.
const FEW: u64 = 10;

struct Table {
    store: Store,
    committer: PaimonCommitter,
    next: u64,
    times: Vec<Duration>,
}

impl Table {
    async fn new(store: Store) -> Result<Self, Box<dyn Error>> {
        let columns = vec![
            DataField::new("id", "BIGINT NOT NULL".parse()?),
            DataField::new("name", "STRING".parse()?),
        ];
        let schema = TableSchema::create(columns, vec![], vec![], Options::new(), None, 0)?;
        create_table(&store, &schema).await?;
        let user = CommitUser::new("bench")?;
        let run = Run {
            job: JobName::new("bench")?,
            prefix: run_prefix(&user, Epoch(1)),
            user,
            epoch: Epoch(1),
            restored: None,
        };
        let store = store.with_own_metrics();
        let committer = PaimonCommitter::open(store.clone(), run).await?;
        Ok(Self {
            store,
            committer,
            next: 1,
            times: Vec::new(),
        })
    }

    /// One file per commit, as a job without partitions makes it.
    fn message(&self) -> CommitMessage {
        let file = DataFileMeta {
            file_name: format!(
                "data-tg00000000e1-0b4e2a3c-7f6d-4c1e-9a58-2d1f0c3b4a59-{}.parquet",
                self.next
            ),
            file_size: 1 << 20,
            row_count: 10_000,
            min_key: BinaryRow::empty(),
            max_key: BinaryRow::empty(),
            key_stats: SimpleStats::empty(),
            value_stats: SimpleStats::empty(),
            min_sequence_number: 0,
            max_sequence_number: 9_999,
            schema_id: SchemaId(0),
            level: Level(0),
            extra_files: vec![],
            creation_time_millis: Some(1_704_067_200_000),
            delete_row_count: Some(0),
            embedded_index: None,
            file_source: Some(FileSource::Append),
            value_stats_cols: Some(vec![]),
            external_path: None,
            first_row_id: None,
            write_cols: None,
            write_cols_sequences: None,
        };
        CommitMessage {
            partition: BinaryRow::empty(),
            bucket: BucketId(0),
            total_buckets: Some(-1),
            data: DataIncrement {
                new_files: vec![file],
                ..DataIncrement::default()
            },
            compact: CompactIncrement::default(),
        }
    }

    async fn commit(&mut self) -> Result<Duration, Box<dyn Error>> {
        let positions = |n: u64| Positions {
            active: n.to_be_bytes().to_vec(),
            finished: vec![],
        };
        let context = CommitContext {
            job: JobName::new("bench")?,
            epoch: Epoch(1),
            checkpoint: CheckpointId(self.next),
            positions: Some(positions(self.next)),
            replaces: (self.next > 1).then(|| positions(self.next - 1)),
            watermark: None,
        };
        let committable = self
            .committer
            .combine_messages(&context, vec![self.message()], 1, 1)?;
        let begun = Instant::now();
        let outcome = self.committer.commit(&committable).await?;
        let took = begun.elapsed();
        if !matches!(outcome, Outcome::Published(_)) {
            return Err(format!("commit {} came to {outcome:?}", self.next).into());
        }
        self.next += 1;
        Ok(took)
    }

    fn report(&mut self, name: &str) -> [Duration; 2] {
        self.times.sort_unstable();
        let [median, p95] = [percentile(&self.times, 0.5), percentile(&self.times, 0.95)];
        println!(
            "{name:<28} median {:>10}  p95 {:>10}",
            millis(median),
            millis(p95)
        );
        [median, p95]
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |a| a.parse());
    let (many, commits) = (number(0, 10_000)?, number(1, 512)?);
    let temporary = tempfile::tempdir()?;
    let root = args
        .get(2)
        .map_or_else(|| temporary.path().to_path_buf(), Into::into);
    let open = |name: &str| Store::open(&root.join(name).to_string_lossy(), &BTreeMap::new());
    let mut small = Table::new(open("small")?).await?;
    let mut large = Table::new(open("large")?).await?;
    let begun = Instant::now();
    while small.next <= FEW {
        small.commit().await?;
    }
    while large.next <= many {
        large.commit().await?;
        if large.next % 1000 == 0 {
            println!(
                "{} snapshots after {:.0} s",
                large.next,
                begun.elapsed().as_secs_f32()
            );
        }
    }
    let before = [small.store.metrics(), large.store.metrics()];
    for i in 0..commits {
        // Which goes first changes, so that neither always finds the disk warm.
        let pair = if i % 2 == 0 {
            [&mut small, &mut large]
        } else {
            [&mut large, &mut small]
        };
        for table in pair {
            let took = table.commit().await?;
            table.times.push(took);
        }
    }
    for ((name, table), before) in [("small", &small), ("large", &large)]
        .into_iter()
        .zip(&before)
    {
        let used = table.store.metrics().since(before);
        let per = |n: u64| n as f64 / commits as f64;
        println!(
            "{name}: per commit {:.2} writes, {:.2} reads, {:.2} lists, {:.2} deletes",
            per(used.writes()),
            per(used.reads()),
            per(used.lists()),
            per(used.deletes())
        );
        let kinds = used.iter().filter(|(_, counts)| counts.requests > 0);
        let kinds: Vec<String> = kinds
            .map(|(op, counts)| format!("{} {:.2}", op.name(), per(counts.requests)))
            .collect();
        println!("  by kind: {}", kinds.join(", "));
    }
    let [few_median, few_p95] = small.report(&format!("from {FEW} snapshots"));
    let [many_median, many_p95] = large.report(&format!("from {many} snapshots"));
    let ratio = |many: Duration, few: Duration| many.as_secs_f64() / few.as_secs_f64();
    println!(
        "ratio: median {:.2}, p95 {:.2} over {commits} interleaved commits",
        ratio(many_median, few_median),
        ratio(many_p95, few_p95)
    );
    Ok(())
}
