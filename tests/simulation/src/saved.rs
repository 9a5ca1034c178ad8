//! What checkpoint records promise: a commit is in a record before it is visible, and the files of a
//! commit that is only in a record stay until it is.

use tidegate_commit::{ActiveAt, PositionMarks, committable};
use tidegate_model::layout;
use tidegate_recovery::{CheckpointRecord, decode};
use tidegate_sink::{CheckpointId, Epoch};

use crate::target::data_path;

/// A commit that the newest record of a job holds.
#[derive(Debug)]
struct Held {
    user: String,
    identifier: i64,
    compacts: bool,
    files: Vec<String>,
}

/// The records of one job, as far as they matter.
#[derive(Debug)]
pub(crate) struct Saved {
    largest: u64,
    at: (Epoch, CheckpointId),
    newest: Vec<Held>,
}

impl Default for Saved {
    fn default() -> Self {
        Self {
            largest: 0,
            at: (Epoch(0), CheckpointId(0)),
            newest: Vec::new(),
        }
    }
}

impl Saved {
    /// A record was written.
    pub(crate) fn recorded(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let record: CheckpointRecord = decode(bytes, path).map_err(|e| e.to_string())?;
        self.largest = self.largest.max(record.id.0);
        // A zombie may record a number that retention has freed, or a larger one under the eyes of its
        // successor: nobody goes on from it.
        if (record.epoch, record.id) < self.at {
            return Ok(());
        }
        self.at = (record.epoch, record.id);
        self.newest.clear();
        for framed in &record.committables {
            let decoded = committable::decode(framed).map_err(|e| e.to_string())?;
            let mut files = Vec::new();
            for message in &decoded.java.messages {
                let new = message.data.new_files.iter();
                for file in new.chain(&message.compact.compact_after) {
                    files.push(data_path(message.bucket, &file.file_name));
                }
            }
            self.newest.push(Held {
                user: framed.user.to_string(),
                identifier: framed.identifier.0,
                compacts: decoded.java.messages.iter().any(|m| !m.compact.is_empty()),
                files,
            });
        }
        Ok(())
    }

    /// Whether a commit of this checkpoint may be visible by now.
    pub(crate) fn covers(&self, checkpoint: u64) -> bool {
        checkpoint <= self.largest
    }

    /// A file that is gone although a commit that is not visible yet needs it.
    pub(crate) fn lost(
        &self,
        published: impl Fn(&str, i64, bool) -> bool,
        there: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let pending = self
            .newest
            .iter()
            .filter(|held| !published(&held.user, held.identifier, held.compacts));
        for held in pending {
            if let Some(file) = held.files.iter().find(|file| !there(file)) {
                let (user, identifier) = (&held.user, held.identifier);
                return Some(format!("{file} of commit {identifier} of {user}"));
            }
        }
        None
    }
}

/// User and identifier of every commit that a record holds and that makes a snapshot.
pub(crate) fn commits_of(path: &str, bytes: &[u8]) -> Result<Vec<(String, i64)>, String> {
    let record: CheckpointRecord = decode(bytes, path).map_err(|e| e.to_string())?;
    let mut commits = Vec::new();
    for framed in &record.committables {
        if !committable::decode(framed)
            .map_err(|e| e.to_string())?
            .is_empty()
        {
            commits.push((framed.user.to_string(), framed.identifier.0));
        }
    }
    Ok(commits)
}

/// Who wrote a record, and the paths under the table that its committables name: data files and objects of
/// positions.
pub(crate) fn files_of(path: &str, bytes: &[u8]) -> Result<(Epoch, Vec<String>), String> {
    let record: CheckpointRecord = decode(bytes, path).map_err(|e| e.to_string())?;
    let mut files = Vec::new();
    for framed in &record.committables {
        let decoded = committable::decode(framed).map_err(|e| e.to_string())?;
        for message in &decoded.java.messages {
            let new = message.data.new_files.iter();
            let new = new.chain(&message.compact.compact_after);
            files.extend(new.map(|file| data_path(message.bucket, &file.file_name)));
        }
        let Some(extras) = &decoded.extras else {
            continue;
        };
        if let Some(positions) = &extras.positions {
            let (marks, _) = PositionMarks::of(&extras.job, extras.epoch, positions);
            if let ActiveAt::Object(name) = marks.active {
                files.push(name);
            }
            files.extend(marks.finished_at);
        }
    }
    Ok((record.epoch, files))
}

/// The job whose record this is, and its name, where it is one.
pub(crate) fn job_of_record(path: &str) -> Option<&str> {
    let mut parts = path.split('/').skip(1);
    let job = parts.next()?;
    let name = parts.nth(1)?;
    layout::versioned("checkpoint-", name).map(|_| job)
}
