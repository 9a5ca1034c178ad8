//! A target in memory whose writers continue sequence numbers of their bucket, as fixed buckets do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_sink::*;

#[derive(Clone, Debug)]
pub struct SimCommit {
    pub identifier: CommitIdentifier,
    pub digest: Digest,
    /// Bucket, first and last sequence number.
    pub ranges: Vec<(u8, u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub struct SimTable(pub Arc<Mutex<Vec<SimCommit>>>);

impl SimTable {
    /// What a writer that opens now restores: the largest sequence number of each bucket.
    fn largest(&self) -> BTreeMap<u8, u64> {
        let mut largest = BTreeMap::new();
        for (bucket, _, last) in self.0.lock().unwrap().iter().flat_map(|c| &c.ranges) {
            let entry = largest.entry(*bucket).or_insert(0);
            *entry = (*entry).max(*last);
        }
        largest
    }

    pub fn open_writer(&self) -> SimWriter {
        SimWriter {
            next: self.largest(),
            open: BTreeMap::new(),
        }
    }

    /// The invariant of buckets: ranges never overlap.
    pub fn overlapping(&self) -> Vec<(u8, u64)> {
        let mut seen = BTreeMap::new();
        for (bucket, first, last) in self.0.lock().unwrap().iter().flat_map(|c| &c.ranges) {
            for number in *first..=*last {
                *seen.entry((*bucket, number)).or_insert(0) += 1;
            }
        }
        seen.into_iter()
            .filter(|(_, n)| *n > 1)
            .map(|(at, _)| at)
            .collect()
    }

    pub fn identifiers(&self) -> Vec<i64> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|c| c.identifier.0)
            .collect()
    }
}

pub struct SimWriter {
    next: BTreeMap<u8, u64>,
    open: BTreeMap<u8, (u64, u64)>,
}

impl Writer for SimWriter {
    type Batch = Vec<u8>;

    fn write<'a>(&'a mut self, rows: Rows<Vec<u8>>) -> BoxFuture<'a, Result<(), SinkError>> {
        for bucket in rows.batch {
            let last = self.next.entry(bucket).or_insert(0);
            *last += 1;
            let range = self.open.entry(bucket).or_insert((*last, *last));
            range.1 = *last;
        }
        Box::pin(async { Ok(()) })
    }

    fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>> {
        let message = |(bucket, (first, last)): (u8, (u64, u64))| Message {
            version: 1,
            bytes: [&[bucket][..], &first.to_be_bytes(), &last.to_be_bytes()].concat(),
        };
        let messages = std::mem::take(&mut self.open)
            .into_iter()
            .map(message)
            .collect();
        Box::pin(async { Ok(messages) })
    }

    fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        self.open.clear();
        Box::pin(async { Ok(()) })
    }
}

pub fn user() -> CommitUser {
    CommitUser::new("sim-user").unwrap()
}

pub struct SimCommitter {
    pub table: SimTable,
    /// Commits that fail for want of a network before they are tried.
    pub failing: u32,
    /// Overrides the comparison.
    pub standing: Option<Standing>,
}

impl SimCommitter {
    pub fn new(table: &SimTable) -> Self {
        Self {
            table: table.clone(),
            failing: 0,
            standing: None,
        }
    }
}

pub fn context(checkpoint: u64) -> CommitContext {
    CommitContext {
        job: JobName::new("sim").unwrap(),
        epoch: Epoch(1),
        checkpoint: CheckpointId(checkpoint),
        positions: None,
        replaces: None,
        watermark: None,
    }
}

impl SimCommitter {
    fn publish(
        &mut self,
        committable: &Committable,
        takes_over: bool,
    ) -> Result<Outcome, SinkError> {
        if self.failing > 0 {
            self.failing -= 1;
            return Err(SinkError::new(ErrorKind::Transient, "no network"));
        }
        let mut commits = self.table.0.lock().unwrap();
        let published = Published {
            identifier: committable.identifier,
            digest: Some(committable.digest),
            version: commits.len() as u64 + 1,
            token: format!("t{}", committable.identifier),
        };
        if let Some(there) = commits
            .iter()
            .find(|c| c.identifier == committable.identifier)
        {
            return Ok(match there.digest == committable.digest {
                true => Outcome::AlreadyPublished(published),
                false => Outcome::Fenced("other content".into()),
            });
        }
        if committable.payload.is_empty() && !takes_over {
            return Ok(Outcome::Empty);
        }
        let number = |b: &[u8]| u64::from_be_bytes(b.try_into().unwrap());
        let range = |b: &[u8]| (b[0], number(&b[1..9]), number(&b[9..17]));
        commits.push(SimCommit {
            identifier: committable.identifier,
            digest: committable.digest,
            ranges: committable.payload.chunks(17).map(range).collect(),
        });
        Ok(Outcome::Published(published))
    }
}

impl Committer for SimCommitter {
    fn combine(
        &self,
        context: &CommitContext,
        messages: Vec<Message>,
        expected: u32,
        received: u32,
    ) -> Result<Committable, SinkError> {
        let payload: Vec<u8> = messages.iter().flat_map(|m| m.bytes.clone()).collect();
        let mut digest = [0u8; 32];
        for (n, byte) in payload.iter().enumerate() {
            digest[n % 32] = digest[n % 32].wrapping_mul(31).wrapping_add(*byte);
        }
        Ok(Committable {
            user: user(),
            identifier: context.checkpoint.try_into().unwrap(),
            digest: Digest(digest),
            expected,
            received,
            version: 1,
            payload,
        })
    }

    fn is_empty(&self, committable: &Committable) -> Result<bool, SinkError> {
        Ok(committable.payload.is_empty())
    }

    fn commit<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(async move { self.publish(committable, false) })
    }

    fn take_over<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(async move { self.publish(committable, true) })
    }

    fn standing<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Standing, SinkError>> {
        Box::pin(async move {
            if let Some(standing) = &self.standing {
                return Ok(standing.clone());
            }
            let commits = self.table.0.lock().unwrap();
            let there = saved.committables.iter().filter_map(|c| {
                let at = commits.iter().position(|t| t.identifier == c.identifier)?;
                Some(Published {
                    identifier: c.identifier,
                    digest: Some(c.digest),
                    version: at as u64 + 1,
                    token: String::new(),
                })
            });
            let there: Vec<_> = there.collect();
            Ok(if there.is_empty() {
                Standing::Equal
            } else {
                Standing::AheadByPrefix(there)
            })
        })
    }

    fn history<'a>(&'a mut self) -> BoxFuture<'a, Result<JobHistory, SinkError>> {
        Box::pin(async { Ok(JobHistory::default()) })
    }

    fn hidden<'a>(
        &'a mut self,
        _: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Option<String>, SinkError>> {
        Box::pin(async { Ok(None) })
    }

    fn resolve<'a>(
        &'a mut self,
        _: &'a Saved,
        _: Resolution,
        _: bool,
    ) -> BoxFuture<'a, Result<ResolutionPlan, SinkError>> {
        Box::pin(async { Ok(ResolutionPlan::default()) })
    }

    fn leave_note<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }
}
