//! What benchmarks share: costs of a run as CPU-seconds and wall time, pairs of runs in turn and their
//! ratios, rows to write, and the bare Parquet writer that others are held against.

mod upserts;

pub use upserts::{count, keyed_schema, parts, upsert, upserts};

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tidegate::Table;
use tidegate::model::{DataField, Options, TableSchema};

/// Any error: a benchmark can only stop.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The value below which `share` of the sorted times lie; nearest rank.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Milliseconds with three digits.
pub fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

/// What one run took, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU time of all threads, user and system.
    pub cpu: f64,
    /// Time on the wall clock.
    pub wall: f64,
}

/// Runs something and says what it took this process.
///
/// # Errors
/// Those of `run`; a system without `/proc`.
pub fn measure(run: impl FnOnce() -> Result<(), Failure>) -> Result<Cost, Failure> {
    let (cpu, wall) = (cpu_seconds()?, Instant::now());
    run()?;
    Ok(Cost {
        cpu: cpu_seconds()? - cpu,
        wall: wall.elapsed().as_secs_f64(),
    })
}

/// CPU time of all threads of this process, those that ended included; counted to 10 ms.
///
/// # Errors
/// A system without `/proc`.
pub fn cpu_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    let mut fields = after.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next().unwrap_or_default().parse::<f64>();
    // A hundred ticks a second on every Linux.
    Ok((ticks()? + ticks()?) / 100.0)
}

/// Least, median and most.
pub fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |n: usize| sorted.get(n).copied().unwrap_or_default();
    [
        at(0),
        at(sorted.len() / 2),
        at(sorted.len().saturating_sub(1)),
    ]
}

/// Two ways to do the same work, run in turn.
pub struct Pairs {
    names: [String; 2],
    runs: Vec<[Cost; 2]>,
}

impl Pairs {
    /// Runs both ways `pairs` times in turn, and once more before, not counted: caches and allocator
    /// warm up. Which goes first changes from pair to pair.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn run(
        pairs: usize,
        names: [&str; 2],
        mut first: impl FnMut() -> Result<Cost, Failure>,
        mut second: impl FnMut() -> Result<Cost, Failure>,
    ) -> Result<Self, Failure> {
        let mut runs = Vec::with_capacity(pairs);
        for pair in 0..=pairs {
            let costs = if pair % 2 == 0 {
                let a = first()?;
                [a, second()?]
            } else {
                let b = second()?;
                [first()?, b]
            };
            if pair > 0 {
                runs.push(costs);
            }
        }
        Ok(Self {
            names: names.map(str::to_owned),
            runs,
        })
    }

    /// Two lines, CPU and wall: both ways, and the ratio first / second of each pair; medians, with
    /// least and most behind.
    pub fn report(&self) -> String {
        type Of = fn(&Cost) -> f64;
        let text = |[least, median, most]: [f64; 3], digits: usize| {
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        };
        let [a, b] = &self.names;
        let line = |name: &str, of: Of| {
            let one = |n: usize| spread(self.runs.iter().filter_map(|r| r.get(n)).map(of));
            let ratio = spread(self.runs.iter().map(|[a, b]| of(a) / of(b)));
            format!(
                "  {name:<4}  {a} {}  {b} {}  ratio {}",
                text(one(0), 2),
                text(one(1), 2),
                text(ratio, 3)
            )
        };
        let [cpu, wall] = [line("CPU", |c| c.cpu), line("wall", |c| c.wall)];
        format!("{cpu}\n{wall}")
    }
}

/// Rows `id BIGINT, name STRING, amount DOUBLE, dt STRING`: rising ids, a name of twelve bytes for each
/// of them, amounts with two decimals, and one of `days` texts at random; in batches of 8,192.
///
/// # Errors
/// None in practice.
pub fn batches(rows: usize, days: usize) -> Result<Vec<RecordBatch>, Failure> {
    let mut random = SmallRng::seed_from_u64(1);
    let mut id = 0i64;
    let mut batches = Vec::new();
    for first in (0..rows).step_by(8192) {
        let count = 8192.min(rows - first);
        let ids = Int64Array::from_iter_values((0..count).map(|_| {
            id += random.random_range(1..5);
            id
        }));
        let names = ids.values().iter().map(|id| Some(format!("name-{id:07}")));
        let names: StringArray = names.collect();
        let cents = (0..count).map(|_| random.random_range(0..1_000_000));
        let amounts = Float64Array::from_iter_values(cents.map(|cents| f64::from(cents) / 100.0));
        let dts = (0..count).map(|_| Some(format!("2024-{:03}", random.random_range(0..days))));
        let dts: StringArray = dts.collect();
        batches.push(RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(ids) as ArrayRef, true),
            ("name", Arc::new(names) as ArrayRef, true),
            ("amount", Arc::new(amounts) as ArrayRef, true),
            ("dt", Arc::new(dts) as ArrayRef, true),
        ])?);
    }
    Ok(batches)
}

/// The schema of [`batches`].
///
/// # Errors
/// Columns or options that are none.
pub fn schema(partition: &[&str], options: &[(&str, &str)]) -> Result<TableSchema, Failure> {
    let columns = vec![
        DataField::new("id", "BIGINT".parse()?),
        DataField::new("name", "STRING".parse()?),
        DataField::new("amount", "DOUBLE".parse()?),
        DataField::new("dt", "STRING".parse()?),
    ];
    let partition = partition.iter().map(|p| (*p).to_owned()).collect();
    let options: Options = options.iter().copied().collect();
    Ok(TableSchema::create(
        columns,
        partition,
        vec![],
        options,
        None,
        0,
    )?)
}

/// One Parquet file by the library alone, with the settings that our data files have: zstd level 1, a
/// dictionary for the one column that repeats itself, statistics per page; synced.
///
/// # Errors
/// Those of the file system.
pub fn bare(batches: &[RecordBatch], path: &Path) -> Result<(), Failure> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled("dt".into(), true)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_statistics_truncate_length(None)
        .set_max_row_group_row_count(None)
        .build();
    let schema = batches.first().ok_or("no rows")?.schema();
    let file = File::create(path)?;
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.into_inner()?.sync_all()?;
    Ok(())
}

/// The same rows in several Parquet files by the library alone, one after another.
///
/// # Errors
/// Those of the file system.
pub fn bare_files(parts: &[Vec<RecordBatch>], folder: &Path) -> Result<(), Failure> {
    for (n, part) in parts.iter().enumerate() {
        bare(part, &folder.join(format!("bare-{n}.parquet")))?;
    }
    Ok(())
}

/// Rows parted beforehand into batches of 8,192 as they would lie in the files of 16 buckets, or of
/// one partition for each value of `dt`: what is left for a writer that is handed them is encoding.
///
/// # Errors
/// None in practice.
pub fn parted(batches: &[RecordBatch], by_dt: bool) -> Result<Vec<Vec<RecordBatch>>, Failure> {
    let mut rows_of: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for (n, batch) in batches.iter().enumerate() {
        for row in 0..batch.num_rows() {
            let part = match by_dt {
                true => batch.column(3).as_string::<i32>().value(row).to_owned(),
                false => {
                    let id = batch.column(0).as_primitive::<Int64Type>().value(row);
                    let mixed = id.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (mixed >> 60).to_string()
                }
            };
            rows_of.entry(part).or_default().push((n, row));
        }
    }
    let sources: Vec<&RecordBatch> = batches.iter().collect();
    let chunks = |rows: Vec<(usize, usize)>| {
        let chunks = rows.chunks(8192);
        let gathered = chunks.map(|rows| Ok(interleave_record_batch(&sources, rows)?));
        gathered.collect::<Result<Vec<_>, Failure>>()
    };
    rows_of.into_values().map(chunks).collect()
}

/// The whole way into a table that exists: a stream is opened, all rows are written, one checkpoint
/// makes them durable and visible.
///
/// # Errors
/// Those of the store; rows that got lost.
pub async fn append(
    batches: &[RecordBatch],
    folder: &Path,
    schema: &TableSchema,
) -> Result<(), Failure> {
    let table = Table::create_or_open(&folder.join("table").to_string_lossy(), schema).await?;
    let checkpoints = folder.join("checkpoints");
    let stream = table
        .stream("bench")?
        .checkpoints(&checkpoints.to_string_lossy())?;
    let mut stream = stream.open().await?;
    for (n, batch) in batches.iter().enumerate() {
        stream.write(batch, &n.to_be_bytes()).await?;
    }
    stream.checkpoint().await?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let snapshot = table
        .latest_snapshot()
        .await?
        .ok_or("nothing was committed")?;
    if snapshot.total_record_count != Some(i64::try_from(rows)?) {
        return Err("rows were lost".into());
    }
    Ok(())
}

/// Bytes of all files below a folder whose name ends so.
///
/// # Errors
/// Those of the file system.
pub fn size_of(folder: &Path, ending: &str) -> Result<(usize, u64), Failure> {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            let below = size_of(&path, ending)?;
            files += below.0;
            bytes += below.1;
        } else if path.to_string_lossy().ends_with(ending) {
            files += 1;
            bytes += entry.metadata()?.len();
        }
    }
    Ok((files, bytes))
}
