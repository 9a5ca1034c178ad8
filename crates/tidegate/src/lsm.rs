//! The levels of a keyed table's buckets: which sorted runs there are, and what is in them.

use tidegate_commit::LiveView;
use tidegate_lsm::{CompactionOptions, Levels};
use tidegate_model::KeyOrder;

use crate::error::{Error, Result};
use crate::system::{Cell, Sheet};
use crate::table::Table;

/// One sorted run of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its level; each file of level 0 is a run.
    pub level: i32,
    /// Files.
    pub files: u64,
    /// Rows, old versions and deletes included.
    pub rows: i64,
    /// Rows that take a row back; `None` where a file does not say.
    pub deletes: Option<i64>,
    /// Bytes.
    pub bytes: u64,
    /// Smallest and largest sequence number.
    pub sequences: (i64, i64),
}

/// A bucket with its runs, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The partition's folder, empty without partitions.
    pub partition: String,
    /// The bucket.
    pub bucket: i32,
    /// Newest first.
    pub runs: Vec<Run>,
}

/// The buckets of the newest snapshot, in the order of partition and bucket.
///
/// # Errors
/// [`Error::Config`] for a table without primary key; files that do not make a tree; faults of the store.
pub async fn buckets(table: &Table) -> Result<Vec<Bucket>> {
    let schema = table.schema();
    if schema.is_append() {
        return Err(Error::Config(format!(
            "table `{}` has no primary key, so its files have no levels; see `tidegate table files`",
            table.name()
        )));
    }
    let broken = |e: tidegate_lsm::Error| Error::Config(format!("table `{}`: {e}", table.name()));
    let options = CompactionOptions::of(schema).map_err(broken)?;
    let order = KeyOrder::of(schema)?;
    let paths = schema.partition_paths()?;
    let view = LiveView::open(table.store(), None).await?;
    let mut keys = view.all_buckets().await?;
    keys.sort();
    let mut out = Vec::with_capacity(keys.len());
    for (partition, bucket) in keys {
        let files = view.bucket(&partition, bucket).await?.files;
        let levels = Levels::new(files, order.clone(), options.num_levels).map_err(broken)?;
        let runs = levels.runs().into_iter().map(|run| {
            let files = &run.run.files;
            let deletes = files
                .iter()
                .map(|f| f.delete_row_count)
                .sum::<Option<i64>>();
            let low = files.iter().map(|f| f.min_sequence_number).min();
            Run {
                level: run.level.0,
                files: files.len() as u64,
                rows: run.run.row_count(),
                deletes,
                bytes: run.run.size(),
                sequences: (low.unwrap_or(0), run.run.max_sequence_number()),
            }
        });
        out.push(Bucket {
            partition: paths.path(&partition)?.trim_matches('/').to_owned(),
            bucket: bucket.0,
            runs: runs.collect(),
        });
    }
    Ok(out)
}

/// One line per run.
pub fn sheet(buckets: &[Bucket]) -> Sheet {
    let mut sheet = Sheet::new([
        "partition",
        "bucket",
        "run",
        "level",
        "files",
        "rows",
        "deletes",
        "bytes",
        "min_sequence_number",
        "max_sequence_number",
    ]);
    let count = |n: u64| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX));
    for bucket in buckets {
        for (place, run) in bucket.runs.iter().enumerate() {
            sheet.push(vec![
                bucket.partition.as_str().into(),
                i64::from(bucket.bucket).into(),
                count(place as u64),
                i64::from(run.level).into(),
                count(run.files),
                run.rows.into(),
                Cell::int(run.deletes),
                count(run.bytes),
                run.sequences.0.into(),
                run.sequences.1.into(),
            ]);
        }
    }
    sheet
}

/// Height of a run in the picture.
const LINE: u64 = 18;
/// Where runs begin, and how wide the largest one is.
const LEFT: u64 = 220;
const WIDTH: u64 = 560;

/// A picture: one line per run, newest on top, as long as it has bytes.
pub fn svg(title: &str, buckets: &[Bucket]) -> String {
    let lines: u64 = buckets.iter().map(|b| b.runs.len() as u64 + 1).sum();
    let height = 40 + lines * LINE;
    let largest = buckets.iter().flat_map(|b| &b.runs).map(|r| r.bytes);
    let largest = largest.max().unwrap_or(1).max(1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<text x=\"10\" y=\"20\" font-size=\"14\">{}</text>\n",
        LEFT + WIDTH + 240,
        escaped(title)
    );
    let mut y = 40;
    for bucket in buckets {
        let name = match bucket.partition.as_str() {
            "" => format!("bucket {}", bucket.bucket),
            partition => format!("{partition}, bucket {}", bucket.bucket),
        };
        out.push_str(&format!(
            "<text x=\"10\" y=\"{}\">{}</text>\n",
            y + 12,
            escaped(&name)
        ));
        for run in &bucket.runs {
            let width = (run.bytes.saturating_mul(WIDTH) / largest).max(2);
            let colour = match run.level {
                0 => "#e07b39",
                level if level < 5 => "#6c9bd1",
                _ => "#2f5d8a",
            };
            out.push_str(&format!(
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{colour}\"/>\n\
                 <text x=\"{}\" y=\"{}\">L{}: {} files, {} rows, {} bytes</text>\n",
                LINE - 3,
                LEFT + width + 6,
                y + 12,
                run.level,
                run.files,
                run.rows,
                run.bytes
            ));
            y += LINE;
        }
        y += LINE;
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
