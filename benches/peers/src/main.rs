//! Our writer against others on the same rows: the `paimon` crate and, where its jars are at hand,
//! released Java Paimon. Pairs in turn, CPU-seconds and wall time, every file synced on both sides.
//! Sizes of the data files are compared as well.
//!
//! ```text
//! peers [ROWS [PAIRS [FOLDER-OF-JARS]]]      default 2000000 7 and what TIDEGATE_PAIMON_JARS names
//! ```
//!
//! Java runs in one process that is warm: what its start and its compiler take is not counted, beyond
//! what is still compiled after the first write.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use paimon::catalog::Identifier;
use paimon::spec::{BigIntType, DataType, DoubleType, Schema, VarCharType};
use paimon::{CatalogFactory, CatalogOptions, Options};
use tidegate_benches::{Cost, Failure, Pairs, append, bare, batches, measure, schema, size_of};

/// As in our binary, for both sides.
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

fn main() -> Result<(), Failure> {
    tidegate_allocator::keep_freed_memory();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: usize| args.get(n).map_or(Ok(default), |a| a.parse());
    let (rows, pairs) = (number(0, 2_000_000)?, number(1, 7)?);
    let jars = args.get(2).cloned();
    let jars = jars.or_else(|| std::env::var("TIDEGATE_PAIMON_JARS").ok());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;
    println!("{rows} rows, {pairs} pairs; seconds: median (least to most)");
    for (name, days, partition) in [
        ("unpartitioned", 365, &[] as &[&str]),
        ("28 partitions", 28, &["dt"]),
    ] {
        let batches = batches(rows, days)?;
        let mut java = match &jars {
            Some(jars) => Some(Java::start(jars, &batches, folder.path())?),
            None => None,
        };
        let mut sizes: HashMap<&str, (usize, u64)> = HashMap::new();
        let mut once = |who: &'static str| -> Result<Cost, Failure> {
            let at = tempfile::tempdir_in(folder.path())?;
            let cost = match (who, &mut java) {
                ("Java", Some(java)) => java.write(at.path(), partition)?,
                ("crate", _) => {
                    measure(|| runtime.block_on(paimon_crate(&batches, at.path(), partition)))?
                }
                ("bare", _) => measure(|| bare(&batches, &at.path().join("bare.parquet")))?,
                _ => {
                    let schema = schema(partition, &[])?;
                    measure(|| runtime.block_on(append(&batches, at.path(), &schema)))?
                }
            };
            sizes.insert(who, size_of(at.path(), ".parquet")?);
            Ok(cost)
        };
        println!("{name}, {days} values of dt");
        for peer in ["bare", "crate", "Java"] {
            if peer == "Java" && jars.is_none() {
                println!("  Java left out: TIDEGATE_PAIMON_JARS names no folder of jars");
                continue;
            }
            let once = std::cell::RefCell::new(&mut once);
            let measured = Pairs::run(
                pairs,
                [peer, "ours"],
                || (once.borrow_mut())(peer),
                || (once.borrow_mut())("ours"),
            )?;
            println!("{}", measured.report());
        }
        for who in ["bare", "crate", "Java", "ours"] {
            if let Some((files, bytes)) = sizes.get(who) {
                println!("  data files of {who}: {bytes} bytes in {files}");
            }
        }
    }
    Ok(())
}

/// A table made, rows written and committed by the `paimon` crate, then every file synced: the crate
/// leaves that to others.
async fn paimon_crate(
    batches: &[RecordBatch],
    folder: &Path,
    partition: &[&str],
) -> Result<(), Failure> {
    let mut options = Options::new();
    options.set(
        CatalogOptions::WAREHOUSE,
        folder.to_string_lossy().into_owned(),
    );
    let catalog = CatalogFactory::create(options).await?;
    catalog.create_database("db", true, HashMap::new()).await?;
    let text = || DataType::VarChar(VarCharType::string_type());
    let schema = Schema::builder()
        .column("id", DataType::BigInt(BigIntType::new()))
        .column("name", text())
        .column("amount", DataType::Double(DoubleType::new()))
        .column("dt", text())
        .partition_keys(partition.iter().map(|p| (*p).to_owned()))
        .option("bucket", "-1")
        .build()?;
    let name = Identifier::new("db", "t");
    catalog.create_table(&name, schema, false).await?;
    let table = catalog.get_table(&name).await?;
    let builder = table.new_write_builder();
    let mut writer = builder.new_write()?;
    for batch in batches {
        writer.write_arrow_batch(batch).await?;
    }
    let messages = writer.prepare_commit().await?;
    builder.try_new_commit()?.commit(messages).await?;
    sync(folder)
}

fn sync(folder: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}

/// A warm process of Java that writes the rows again and again.
struct Java {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Java {
    fn start(jars: &str, batches: &[RecordBatch], folder: &Path) -> Result<Self, Failure> {
        let rows = folder.join("rows");
        store(batches, &rows)?;
        let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("java/PaimonWriter.java");
        let mut child = Command::new("java")
            .args([
                "-Xms4g",
                "-Xmx4g",
                "-XX:+UseSerialGC",
                "-Duser.timezone=UTC",
            ])
            .args(["--add-opens=java.base/java.nio=ALL-UNNAMED"])
            .args(["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"])
            .arg("-cp")
            .arg(format!("{jars}/*"))
            .args([&program, &rows])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("Java has no output")?;
        let mut java = Self {
            child,
            answers: BufReader::new(stdout),
        };
        java.answer()?;
        Ok(java)
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("Java ended".into());
        }
        Ok(line.trim().to_owned())
    }

    fn write(&mut self, folder: &Path, partition: &[&str]) -> Result<Cost, Failure> {
        let stdin = self.child.stdin.as_mut().ok_or("Java has no input")?;
        writeln!(stdin, "{} {}", folder.display(), partition.join(" "))?;
        stdin.flush()?;
        let answer = self.answer()?;
        let (cpu, wall) = answer.split_once(' ').ok_or("an answer of two numbers")?;
        Ok(Cost {
            cpu: cpu.parse()?,
            wall: wall.parse()?,
        })
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The rows for Java: a count, then id, amount, name and dt of each, big-endian, lengths before texts.
fn store(batches: &[RecordBatch], path: &Path) -> Result<(), Failure> {
    let mut out = BufWriter::new(File::create(path)?);
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    out.write_all(&u32::try_from(rows)?.to_be_bytes())?;
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let names = batch.column(1).as_string::<i32>();
        let amounts = batch.column(2).as_primitive::<Float64Type>();
        let dts = batch.column(3).as_string::<i32>();
        for row in 0..batch.num_rows() {
            out.write_all(&ids.value(row).to_be_bytes())?;
            out.write_all(&amounts.value(row).to_be_bytes())?;
            for text in [names.value(row), dts.value(row)] {
                out.write_all(&u32::try_from(text.len())?.to_be_bytes())?;
                out.write_all(text.as_bytes())?;
            }
        }
    }
    Ok(out.flush()?)
}
