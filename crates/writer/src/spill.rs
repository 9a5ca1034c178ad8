//! Rows that wait on local disk: runs sorted by group.
//!
//! Owns the files of a writer's spill (unlinked at once, so that a crash leaves none), their index
//! in memory, and reading them back group by group. A run is a sequence of blocks; a block is one
//! Arrow IPC stream with the rows of one or more groups, in group order. The format never outlives
//! the process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

use crate::error::{Result, WriterError};
use crate::route::GroupId;

/// A finished run.
#[derive(Debug)]
pub(crate) struct Run {
    dir: PathBuf,
    file: File,
    blocks: Vec<Block>,
    entries: Vec<Entry>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    at: u64,
    length: usize,
    /// Of its bytes: a disk that gives back others must not become rows.
    checksum: u32,
}

/// Rows of one group in one block; sorted by group, then in the order of arrival.
#[derive(Clone, Copy, Debug)]
struct Entry {
    group: GroupId,
    block: u32,
    start: u32,
    rows: u32,
}

/// A run being written.
#[derive(Debug)]
pub(crate) struct RunWriter {
    run: Run,
    schema: SchemaRef,
    block_bytes: usize,
    buffer: Vec<u8>,
}

fn failed(dir: &Path, what: &'static str) -> impl FnOnce(io::Error) -> WriterError {
    move |source| WriterError::Spill {
        dir: dir.to_owned(),
        what,
        source,
    }
}

impl RunWriter {
    /// Begins a run in a file without a name below `dir`; blocks have about `block_bytes`.
    pub(crate) fn new(dir: &Path, schema: &SchemaRef, block_bytes: usize) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(failed(dir, "creating the directory"))?;
        let file = tempfile::tempfile_in(dir).map_err(failed(dir, "creating a file"))?;
        Ok(Self {
            run: Run {
                dir: dir.to_owned(),
                file,
                blocks: Vec::new(),
                entries: Vec::new(),
                bytes: 0,
            },
            schema: schema.clone(),
            block_bytes,
            buffer: Vec::new(),
        })
    }

    /// Bytes of rows that a block should have.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Appends a block: the rows of the groups, in order, none before the groups of earlier blocks.
    pub(crate) fn push(
        &mut self,
        groups: &[(GroupId, usize)],
        chunks: &[RecordBatch],
    ) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let arrow = |e| WriterError::Arrow {
            what: "writing rows to the spill",
            source: e,
        };
        let batch = concat_batches(&self.schema, chunks).map_err(arrow)?;
        self.buffer.clear();
        let mut ipc = StreamWriter::try_new(&mut self.buffer, &self.schema).map_err(arrow)?;
        ipc.write(&batch)
            .and_then(|()| ipc.finish())
            .map_err(arrow)?;
        drop(ipc);
        let run = &mut self.run;
        run.file
            .write_all(&self.buffer)
            .map_err(failed(&run.dir, "writing rows"))?;
        let block = run.blocks.len() as u32;
        run.blocks.push(Block {
            at: run.bytes,
            length: self.buffer.len(),
            checksum: crc32fast::hash(&self.buffer),
        });
        run.bytes += self.buffer.len() as u64;
        let mut start = 0;
        for (group, rows) in groups {
            let rows = *rows as u32;
            run.entries.push(Entry {
                group: *group,
                block,
                start,
                rows,
            });
            start += rows;
        }
        Ok(())
    }

    /// Ends the run.
    pub(crate) fn finish(mut self) -> Result<Run> {
        self.run.entries.shrink_to_fit();
        Ok(self.run)
    }
}

impl Run {
    /// A run of one block with these bytes, said to hold so many rows of one group.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of_block(
        dir: &Path,
        bytes: &[u8],
        group: GroupId,
        rows: u32,
    ) -> io::Result<Self> {
        let mut file = tempfile::tempfile_in(dir)?;
        file.write_all(bytes)?;
        Ok(Self {
            dir: dir.to_owned(),
            file,
            blocks: vec![Block {
                at: 0,
                length: bytes.len(),
                checksum: crc32fast::hash(bytes),
            }],
            entries: vec![Entry {
                group,
                block: 0,
                start: 0,
                rows,
            }],
            bytes: bytes.len() as u64,
        })
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory of the index.
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.blocks.capacity() * size_of::<Block>()
    }

    /// Groups that have rows here, in order; repeated where they span blocks.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.entries.iter().map(|entry| entry.group)
    }

    fn read(&self, block: u32, schema: &SchemaRef) -> Result<RecordBatch> {
        let Some(block) = self.blocks.get(block as usize) else {
            return Err(lost(ArrowError::IpcError("no such block".to_owned())));
        };
        let mut bytes = vec![0; block.length];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(block.at))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(failed(&self.dir, "reading rows back"))?;
        if crc32fast::hash(&bytes) != block.checksum {
            let (at, length) = (block.at, block.length);
            let what =
                format!("the {length} bytes from byte {at} on are not those that were written");
            let altered = io::Error::new(io::ErrorKind::InvalidData, what);
            return Err(failed(&self.dir, "reading rows back")(altered));
        }
        let mut buffer = Buffer::from_vec(bytes);
        let mut decoder = StreamDecoder::new();
        // The library panics at some of what a broken disk may give back: that is an error, not a crash.
        let decoded = catch_unwind(AssertUnwindSafe(|| decoder.decode(&mut buffer)));
        let decoded = decoded.unwrap_or_else(|panic| Err(ArrowError::IpcError(gave_up(&*panic))));
        let batch = decoded.map_err(lost)?;
        let batch = batch.ok_or_else(|| lost(ArrowError::IpcError("empty block".to_owned())))?;
        RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).map_err(lost)
    }
}

fn gave_up(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "the decoder gave up: {}",
        text.as_deref().unwrap_or("unknown cause")
    )
}

fn lost(source: ArrowError) -> WriterError {
    WriterError::Arrow {
        what: "reading rows back from the spill",
        source,
    }
}

/// Reads a run in the order of groups; holds one decoded block.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    next: usize,
    block: Option<(u32, RecordBatch)>,
}

impl Cursor {
    /// Hands out the rows of `group`, in order. Groups must be asked for in order; those passed over
    /// are skipped.
    pub(crate) fn take(
        &mut self,
        run: &Run,
        group: GroupId,
        schema: &SchemaRef,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        while let Some(rows) = self.next_of(run, group, schema)? {
            each(rows)?;
        }
        Ok(())
    }

    /// True where the run holds rows of `group` that were not handed out; groups before it are passed
    /// over.
    pub(crate) fn has(&mut self, run: &Run, group: GroupId) -> bool {
        let rest = run.entries.get(self.next..).unwrap_or_default();
        self.next += rest.iter().take_while(|e| e.group < group).count();
        run.entries.get(self.next).is_some_and(|e| e.group == group)
    }

    /// The next rows of `group`; `None` after the last ones.
    pub(crate) fn next_of(
        &mut self,
        run: &Run,
        group: GroupId,
        schema: &SchemaRef,
    ) -> Result<Option<RecordBatch>> {
        if !self.has(run, group) {
            return Ok(None);
        }
        let Some(entry) = run.entries.get(self.next) else {
            return Ok(None);
        };
        let block = match &self.block {
            Some((number, block)) if *number == entry.block => block.clone(),
            _ => {
                // The old block goes before the new one comes.
                self.block = None;
                let block = run.read(entry.block, schema)?;
                self.block = Some((entry.block, block.clone()));
                block
            }
        };
        let (start, rows) = (entry.start as usize, entry.rows as usize);
        if start.saturating_add(rows) > block.num_rows() {
            let what = format!("a block of {} rows, not {}", block.num_rows(), start + rows);
            return Err(lost(ArrowError::IpcError(what)));
        }
        self.next += 1;
        Ok(Some(block.slice(start, rows)))
    }

    /// A cursor that stands before `group`.
    pub(crate) fn at(run: &Run, group: GroupId) -> Self {
        Self {
            next: run.entries.partition_point(|e| e.group < group),
            block: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    #[test]
    fn bytes_that_changed_on_disk_are_an_error_and_no_rows() {
        let dir = tempfile::tempdir().unwrap();
        let ids = Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
        let rows = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let schema = rows.schema();
        let mut writer = RunWriter::new(dir.path(), &schema, 1 << 10).unwrap();
        for group in [GroupId(1), GroupId(2)] {
            writer
                .push(&[(group, 100)], std::slice::from_ref(&rows))
                .unwrap();
        }
        let run = writer.finish().unwrap();
        let read = |group| {
            let mut found = 0;
            let mut cursor = Cursor::at(&run, group);
            let taken = cursor.take(&run, group, &schema, |rows| {
                found += rows.num_rows();
                Ok(())
            });
            taken.map(|()| found)
        };
        assert_eq!(read(GroupId(2)).unwrap(), 100);
        // A value in the middle of the second block: without a checksum it would be another number.
        let at = run.blocks[1].at + run.blocks[1].length as u64 / 2;
        let mut file = &run.file;
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[0xff]).unwrap();
        assert_eq!(read(GroupId(1)).unwrap(), 100);
        let error = read(GroupId(2)).unwrap_err().to_string();
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
    }
}
