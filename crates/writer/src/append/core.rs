//! The working half of an append writer: runs on the thread of [`crate::worker`], one job at a time.
//!
//! Owns the open files, the spilled runs and the decision which rows go where: into an open
//! encoder, to local disk, or into a file that is finished at once. Does no asynchronous work; bytes
//! leave through [`Uploads`].

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use tidegate_datafile::{Dictionaries, slice_bytes};

use super::standing::AppendStanding;
use crate::budget::Reservation;
use crate::error::{Result, WriterError};
use crate::files::{Files, Finished, OpenFile, step_rows};
use crate::generation::{Generation, Part};
use crate::route::GroupId;
use crate::spill::{Cursor, Run, RunWriter};
use crate::taking::{Core, Drain, Of, Put, SpillMetrics};
use crate::uploads::Uploads;

/// Rows looked at to choose dictionaries.
const SAMPLE_ROWS: usize = 8192;

/// Rows that become one batch before they are encoded, where they come in small pieces.
const MERGE_ROWS: usize = 8192;

/// State of a writer that its jobs work on.
#[derive(Debug)]
pub(crate) struct AppendCore {
    files: Arc<Files>,
    uploads: Uploads,
    groups: Vec<Group>,
    finished: Vec<Finished>,
    spilled: SpillMetrics,
    runs: Vec<Run>,
    /// Index of the runs.
    runs_charge: Reservation,
    spill_directory: PathBuf,
    spill_limit: u64,
    /// Groups with an open file.
    open: Vec<GroupId>,
    /// Chosen by the first rows after a barrier, for all files until the next one.
    dictionaries: Option<Dictionaries>,
    /// Some open files take no rows before the barrier, since encoders have no more memory.
    frozen: bool,
}

/// A partition and bucket.
#[derive(Debug)]
pub(crate) struct Group {
    /// `partition/bucket-n`, below the table.
    directory: String,
    /// The next row's.
    next_sequence: i64,
    open: Option<OpenFile>,
    /// The file is small and there is no memory to let it grow: rows wait on disk.
    frozen: bool,
    spilled_bytes: usize,
    /// Runs before this one hold no rows of the group any more.
    first_run: usize,
}

impl Group {
    pub(crate) fn new(directory: String, next_sequence: i64) -> Self {
        Self {
            directory,
            next_sequence,
            open: None,
            frozen: false,
            spilled_bytes: 0,
            first_run: 0,
        }
    }

    /// True where rows go straight into an encoder.
    fn takes_rows(&self) -> bool {
        self.open.is_some() && !self.frozen
    }
}

impl AppendCore {
    pub(crate) fn new(
        files: Arc<Files>,
        uploads: Uploads,
        spill_directory: PathBuf,
        spill_limit: u64,
    ) -> Self {
        Self {
            runs_charge: files.share.take(0),
            files,
            uploads,
            groups: Vec::new(),
            finished: Vec::new(),
            spilled: SpillMetrics::default(),
            runs: Vec::new(),
            spill_directory,
            spill_limit,
            open: Vec::new(),
            dictionaries: None,
            frozen: false,
        }
    }

    /// Which groups take rows straight into an encoder, in their order.
    pub(crate) fn open_groups(&self) -> impl Iterator<Item = bool> {
        self.groups.iter().map(Group::takes_rows)
    }

    /// Numbers begin at 0 again.
    pub(crate) fn number_anew(&mut self) {
        self.groups.iter_mut().for_each(|g| g.next_sequence = 0);
    }

    /// Only while nothing of any group waits.
    pub(crate) fn forget_groups(&mut self) {
        self.groups.clear();
    }

    /// Memory for open encoders, half of what the writer may hold.
    fn encoder_limit(&self) -> usize {
        self.files.share.allowance() / 2
    }

    /// Encoders that may be open at once.
    pub(crate) fn most_open(&self) -> usize {
        (self.encoder_limit() / self.files.encoder_bytes.max(1)).max(1)
    }

    /// Encoders that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Memory of open files.
    pub(crate) fn open_bytes(&self) -> usize {
        self.open_files().map(OpenFile::memory).sum()
    }

    fn open_files(&self) -> impl Iterator<Item = &OpenFile> {
        self.open
            .iter()
            .filter_map(|group| self.group(*group)?.open.as_ref())
    }

    /// True where rows lie on local disk, or will.
    pub(crate) fn has_spilled(&self) -> bool {
        self.frozen || !self.runs.is_empty()
    }

    fn block_bytes(&self) -> usize {
        (self.files.share.allowance() / 512).clamp(16 << 10, 1 << 20)
    }

    fn group(&self, group: GroupId) -> Option<&Group> {
        self.groups.get(group.index())
    }

    fn choose_dictionaries(&mut self, generation: &Generation) {
        if self.dictionaries.is_none() && !generation.is_empty() {
            let sample = generation.sample(SAMPLE_ROWS);
            let (plan, constant) = (&self.files.plan, &self.files.partition_keys);
            self.dictionaries = Some(Dictionaries::choose(plan, &sample, constant));
        }
    }

    /// Which groups get an encoder: all where there is room for all, else the largest ones whose
    /// rows of this generation alone are worth one.
    fn choose(&self, generation: &Generation) -> Vec<GroupId> {
        let row_bytes = generation.row_bytes();
        let mut wanting: Vec<(usize, GroupId)> = generation
            .groups()
            .filter(|(id, _)| {
                self.group(*id)
                    .is_some_and(|g| g.open.is_none() && g.spilled_bytes == 0)
            })
            .map(|(id, parts)| (parts.iter().map(Part::rows).sum::<usize>() * row_bytes, id))
            .collect();
        let room = match self.frozen {
            true => 0,
            false => self.most_open().saturating_sub(self.open.len()),
        };
        if wanting.len() > room {
            wanting.retain(|(bytes, _)| *bytes >= 4 * self.files.encoder_bytes);
            wanting.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
            wanting.truncate(room);
        }
        let mut chosen: Vec<GroupId> = wanting.into_iter().map(|(_, id)| id).collect();
        chosen.sort();
        chosen
    }

    fn encode(&mut self, group: GroupId, generation: &Generation, parts: &[Part]) -> Result<()> {
        generation.gather(parts, |rows| self.append(group, rows))
    }

    /// Appends rows to the file of a group, beginning and ending files as needed.
    fn append(&mut self, group: GroupId, rows: RecordBatch) -> Result<()> {
        let files = Arc::clone(&self.files);
        let most = step_rows(&rows, files.table.target_size);
        let mut start = 0;
        while start < rows.num_rows() {
            let Some(state) = self.groups.get_mut(group.index()) else {
                return Ok(());
            };
            let mut file = match state.open.take() {
                Some(file) => file,
                None => {
                    self.open.push(group);
                    files.open(
                        &state.directory,
                        state.next_sequence,
                        self.dictionaries.as_ref(),
                    )?
                }
            };
            let left = files.table.target_rows.saturating_sub(file.rows());
            let left = usize::try_from(left).unwrap_or(usize::MAX).max(1);
            let step = (rows.num_rows() - start).min(most).min(left);
            file.write(&self.uploads, &rows.slice(start, step))?;
            state.next_sequence += step as i64;
            start += step;
            let full = file.is_full(&files.table);
            state.open = Some(file);
            if full {
                self.finish(group)?;
            }
            self.relieve()?;
        }
        Ok(())
    }

    /// Keeps open files within their memory: ends row groups of the large ones, whose bytes then
    /// travel on, and lets the small ones take no more rows, since their bytes would only wait in an
    /// upload instead of an encoder.
    fn relieve(&mut self) -> Result<()> {
        let part = self.files.part_bytes;
        while self.open_bytes() > self.encoder_limit() {
            let largest = self
                .open
                .iter()
                .filter_map(|group| Some((self.group(*group)?.open.as_ref()?.relief(), *group)))
                .filter(|(relief, _)| *relief >= part)
                .max();
            let Some((_, group)) = largest else { break };
            let open = self
                .groups
                .get_mut(group.index())
                .and_then(|g| g.open.as_mut());
            let Some(file) = open else { break };
            let before = file.encoder_memory();
            file.relieve(&self.uploads)?;
            // An encoder that still looks at its first rows has no row group to end.
            if file.encoder_memory() >= before {
                break;
            }
        }
        if self.open_bytes() > self.encoder_limit() {
            self.frozen = true;
            for group in &self.open {
                if let Some(group) = self.groups.get_mut(group.index()) {
                    group.frozen |= group.open.as_ref().is_some_and(|file| !file.is_large());
                }
            }
        }
        Ok(())
    }

    /// Ends the file of a group. Returns its bytes in memory.
    fn finish(&mut self, group: GroupId) -> Result<usize> {
        let Some(state) = self.groups.get_mut(group.index()) else {
            return Ok(0);
        };
        state.frozen = false;
        let Some(file) = state.open.take() else {
            return Ok(0);
        };
        self.open.retain(|open| *open != group);
        let (finished, bytes) = file.finish(&self.files, &self.uploads, group)?;
        self.finished.push(finished);
        Ok(bytes)
    }

    /// Encodes all of a group that has become large: what is on disk, then these rows. The file
    /// stays open where there is room.
    fn write_out(&mut self, group: GroupId, generation: &Generation, parts: &[Part]) -> Result<()> {
        let first = self.group(group).map_or(0, |g| g.first_run);
        let mut cursors: Vec<Cursor> = self.runs.iter().map(|run| Cursor::at(run, group)).collect();
        self.append_spilled(group, first, &mut cursors)?;
        self.encode(group, generation, parts)?;
        let runs = self.runs.len();
        if let Some(state) = self.groups.get_mut(group.index()) {
            state.spilled_bytes = 0;
            state.first_run = runs;
            state.frozen = false;
        }
        if self.open.len() > self.most_open() {
            self.finish(group)?;
        }
        Ok(())
    }

    /// Appends what the runs hold of a group to its file.
    fn append_spilled(
        &mut self,
        group: GroupId,
        first: usize,
        cursors: &mut [Cursor],
    ) -> Result<()> {
        let schema = self.files.plan.arrow_schema().clone();
        let runs = std::mem::take(&mut self.runs);
        let mut pieces = Pieces::default();
        let mut result = Ok(());
        for (run, cursor) in runs.iter().zip(cursors).skip(first) {
            result = cursor.take(run, group, &schema, |rows| match pieces.add(rows)? {
                Some(rows) => self.append(group, rows),
                None => Ok(()),
            });
            if result.is_err() {
                break;
            }
        }
        self.runs = runs;
        result?;
        match pieces.take()? {
            Some(rows) => self.append(group, rows),
            None => Ok(()),
        }
    }

    fn spill(&self, generation: &Generation, spill: &[&[Part]], row_bytes: usize) -> Result<Run> {
        let schema = self.files.plan.arrow_schema();
        let mut run = RunWriter::new(&self.spill_directory, schema, self.block_bytes())?;
        let mut block: Vec<Part> = Vec::new();
        let mut rows = 0;
        for part in spill.iter().flat_map(|parts| parts.iter()) {
            block.push(*part);
            rows += part.rows();
            if rows * row_bytes >= run.block_bytes() {
                write_block(&mut run, generation, &mut block)?;
                rows = 0;
            }
        }
        write_block(&mut run, generation, &mut block)?;
        run.finish()
    }

    /// Merges all runs into one where their blocks would no longer fit into memory side by side.
    fn merge_runs(&mut self) -> Result<()> {
        let fan_in = (self.files.share.allowance() / 8 / self.block_bytes()).clamp(8, 256);
        if self.runs.len() < fan_in {
            return Ok(());
        }
        let schema = self.files.plan.arrow_schema().clone();
        let order = run_groups(&self.runs);
        let mut cursors: Vec<Cursor> = self.runs.iter().map(|_| Cursor::default()).collect();
        let mut merged = RunWriter::new(&self.spill_directory, &schema, self.block_bytes())?;
        let mut groups: Vec<(GroupId, usize)> = Vec::new();
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for group in order {
            let first = self.group(group).map_or(0, |g| g.first_run);
            for (run, cursor) in self.runs.iter().zip(&mut cursors).skip(first) {
                cursor.take(run, group, &schema, |piece| {
                    match groups.last_mut() {
                        Some((last, rows)) if *last == group => *rows += piece.num_rows(),
                        _ => groups.push((group, piece.num_rows())),
                    }
                    bytes += slice_bytes(&piece);
                    chunks.push(piece);
                    if bytes >= merged.block_bytes() {
                        merged.push(&groups, &chunks)?;
                        groups.clear();
                        chunks.clear();
                        bytes = 0;
                    }
                    Ok(())
                })?;
            }
        }
        merged.push(&groups, &chunks)?;
        let merged = merged.finish()?;
        self.spilled.runs += 1;
        self.spilled.bytes += merged.bytes();
        self.runs = vec![merged];
        // What was consumed before is not in the merged run.
        self.groups.iter_mut().for_each(|g| g.first_run = 0);
        Ok(())
    }
}

impl Core for AppendCore {
    type Group = Group;
    type Cursors = Vec<Cursor>;
    type Standing = AppendStanding;

    fn admit(&mut self, groups: &mut Vec<Group>) {
        self.groups.append(groups);
    }

    fn finished(&mut self) -> Vec<(Of, Finished)> {
        let files = self.finished.drain(..);
        files.map(|file| (Of::Data, file)).collect()
    }

    fn spilled(&self) -> SpillMetrics {
        self.spilled
    }

    /// Puts the rows of a generation into encoders where there is room for these, and the rest to
    /// local disk.
    fn put(&mut self, mut generation: Generation) -> Result<Put> {
        generation.sort();
        self.choose_dictionaries(&generation);
        let row_bytes = generation.row_bytes();
        let chosen = self.choose(&generation);
        let mut spill: Vec<&[Part]> = Vec::new();
        let mut spill_rows = 0;
        for (group, parts) in generation.groups() {
            let rows: usize = parts.iter().map(Part::rows).sum();
            if self.group(group).is_some_and(Group::takes_rows)
                || chosen.binary_search(&group).is_ok()
            {
                self.encode(group, &generation, parts)?;
                continue;
            }
            let target = self.files.table.target_size;
            let waiting = self.group(group).map_or(0, |g| g.spilled_bytes);
            if (waiting + rows * row_bytes) as u64 >= target
                || (rows as u64 >= self.files.table.target_rows)
            {
                self.write_out(group, &generation, parts)?;
                continue;
            }
            spill_rows += rows;
            spill.push(parts);
        }
        if spill.is_empty() {
            return Ok(Put::Done);
        }
        let on_disk: u64 = self.runs.iter().map(Run::bytes).sum();
        let full = on_disk + (spill_rows * row_bytes) as u64 > self.spill_limit;
        let written = match full {
            true => None,
            false => match self.spill(&generation, &spill, row_bytes) {
                Ok(run) => Some(run),
                Err(WriterError::Spill { source, .. })
                    if source.kind() == std::io::ErrorKind::StorageFull =>
                {
                    None
                }
                Err(error) => return Err(error),
            },
        };
        let Some(run) = written else {
            // The rows that were encoded already must not be encoded again.
            let left: Vec<Part> = spill.into_iter().flatten().copied().collect();
            generation.keep(left);
            return Ok(Put::Full(generation));
        };
        for parts in spill {
            let rows: usize = parts.iter().map(Part::rows).sum();
            if let Some(group) = parts
                .first()
                .and_then(|p| self.groups.get_mut(p.group.index()))
            {
                group.spilled_bytes += rows * row_bytes;
            }
        }
        self.spilled.runs += 1;
        self.spilled.bytes += run.bytes();
        self.runs.push(run);
        drop(generation);
        self.merge_runs()?;
        self.runs_charge
            .resize(self.runs.iter().map(Run::memory).sum());
        Ok(Put::Done)
    }

    fn begin_drain(&mut self, mut generation: Generation) -> Drain<Vec<Cursor>> {
        generation.sort();
        self.choose_dictionaries(&generation);
        // Open files first: they hold memory.
        let mut order = self.open.clone();
        let mut rest: Vec<GroupId> = generation.groups().map(|(id, _)| id).collect();
        rest.extend(run_groups(&self.runs));
        rest.sort();
        rest.dedup();
        rest.retain(|id| self.group(*id).is_some_and(|g| g.open.is_none()));
        order.extend(rest);
        let blocks = self.runs.len() * self.block_bytes();
        Drain {
            generation,
            order,
            next: 0,
            cursors: self.runs.iter().map(|_| Cursor::default()).collect(),
            _blocks: self.files.share.take(blocks),
        }
    }

    fn drain(&mut self, drain: &mut Drain<Vec<Cursor>>, bytes: usize, most: usize) -> Result<bool> {
        let (mut done_bytes, mut done_files) = (0, 0);
        while done_bytes < bytes && done_files < most && (done_files == 0 || self.files.has_room())
        {
            let Some(group) = drain.order.get(drain.next).copied() else {
                self.runs.clear();
                self.runs_charge.resize(0);
                self.frozen = false;
                self.dictionaries = None;
                for group in &mut self.groups {
                    group.spilled_bytes = 0;
                    group.first_run = 0;
                    group.frozen = false;
                }
                return Ok(true);
            };
            drain.next += 1;
            let state = self
                .group(group)
                .map(|g| (g.first_run, g.open.is_some(), g.spilled_bytes));
            match state {
                Some((first, false, _)) => self.append_spilled(group, first, &mut drain.cursors)?,
                // Open files come out of order; only those that were frozen have rows on disk.
                Some((first, true, spilled)) if spilled > 0 => {
                    let mut cursors: Vec<Cursor> =
                        self.runs.iter().map(|run| Cursor::at(run, group)).collect();
                    self.append_spilled(group, first, &mut cursors)?;
                }
                _ => {}
            }
            let parts = drain.generation.parts_of(group);
            self.encode(group, &drain.generation, parts)?;
            done_bytes += self.finish(group)?;
            done_files += 1;
        }
        Ok(false)
    }
}

/// All groups of some runs, in order.
fn run_groups(runs: &[Run]) -> Vec<GroupId> {
    let mut groups: Vec<GroupId> = runs.iter().flat_map(Run::groups).collect();
    groups.sort();
    groups.dedup();
    groups
}

fn write_block(run: &mut RunWriter, generation: &Generation, block: &mut Vec<Part>) -> Result<()> {
    let mut groups: Vec<(GroupId, usize)> = Vec::new();
    for part in block.iter() {
        match groups.last_mut() {
            Some((group, rows)) if *group == part.group => *rows += part.rows(),
            _ => groups.push((part.group, part.rows())),
        }
    }
    let mut chunks = Vec::new();
    generation.gather(block, |chunk| {
        chunks.push(chunk);
        Ok(())
    })?;
    block.clear();
    run.push(&groups, &chunks)
}

/// Small pieces that become batches worth encoding.
#[derive(Default)]
struct Pieces {
    pieces: Vec<RecordBatch>,
    rows: usize,
}

impl Pieces {
    fn add(&mut self, piece: RecordBatch) -> Result<Option<RecordBatch>> {
        self.rows += piece.num_rows();
        self.pieces.push(piece);
        if self.rows < MERGE_ROWS {
            Ok(None)
        } else {
            self.take()
        }
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.rows = 0;
        let pieces = std::mem::take(&mut self.pieces);
        let Some(first) = pieces.first() else {
            return Ok(None);
        };
        let merged = concat_batches(first.schema_ref(), &pieces);
        merged
            .map(Some)
            .map_err(WriterError::arrow("joining rows read back from the spill"))
    }
}
