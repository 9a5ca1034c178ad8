//! Released Java Paimon as a peer: one warm process that is told what to do line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use tidegate_benches::{Cost, Failure};

/// A warm process of Java that writes the rows again and again.
pub struct Java {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Java {
    /// Starts it, and waits until it has read the rows.
    ///
    /// # Errors
    /// No `java`; a program that ends.
    pub fn start(jars: &str, batches: &[RecordBatch], folder: &Path) -> Result<Self, Failure> {
        let rows = folder.join("rows");
        store(batches, &rows)?;
        let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("java/PaimonWriter.java");
        let mut child = Command::new("java")
            .args([
                "-Xms6g",
                "-Xmx6g",
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

    /// Lets it do one thing, see `PaimonWriter.java`, and answers with its costs.
    ///
    /// # Errors
    /// An exception in Java: its output says which.
    pub fn run(&mut self, folder: &Path, words: &[&str]) -> Result<Cost, Failure> {
        let stdin = self.child.stdin.as_mut().ok_or("Java has no input")?;
        writeln!(stdin, "{} {}", folder.display(), words.join(" "))?;
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
