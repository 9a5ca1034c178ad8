//! A source of batches that are in memory already: for examples, tests and small loads.
//!
//! Owns splits given by the caller. Positions count rows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tidegate_sink::BoxFuture;

use super::{
    Boundedness, Discovery, Position, Read, Source, SourceBatch, SourceError, SourceState, Split,
    SplitEnumerator, SplitId, SplitReader,
};

/// Batches in named splits. More can be added while a job runs where it is unbounded.
#[derive(Clone, Debug)]
pub struct MemorySource {
    schema: SchemaRef,
    boundedness: Boundedness,
    splits: Splits,
}

type Splits = Arc<Mutex<Vec<(SplitId, Vec<RecordBatch>)>>>;

impl MemorySource {
    /// A bounded source of these splits; all batches must have one schema.
    ///
    /// # Errors
    /// Where there is no batch at all, or schemas differ.
    pub fn new<N: Into<String>>(
        splits: impl IntoIterator<Item = (N, Vec<RecordBatch>)>,
    ) -> Result<Self, SourceError> {
        let splits: Vec<_> = splits
            .into_iter()
            .map(|(name, batches)| (SplitId(name.into()), batches))
            .collect();
        let mut schemas = splits.iter().flat_map(|(_, b)| b).map(RecordBatch::schema);
        let Some(schema) = schemas.next() else {
            return Err(SourceError::Config(
                "a memory source needs a batch to know its schema".into(),
            ));
        };
        if schemas.any(|other| other != schema) {
            return Err(SourceError::Config(
                "batches of a memory source differ in schema".into(),
            ));
        }
        let splits = Arc::new(Mutex::new(splits));
        Ok(Self {
            schema,
            boundedness: Boundedness::Bounded,
            splits,
        })
    }

    /// The same, but it goes on until stopped: splits may grow and new ones may come.
    pub fn unbounded(mut self) -> Self {
        self.boundedness = Boundedness::Unbounded;
        self
    }

    /// Adds a batch to a split, which is made where it is new.
    pub fn push(&self, split: &str, batch: RecordBatch) {
        let mut splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        match splits.iter_mut().find(|(id, _)| id.0 == split) {
            Some((_, batches)) => batches.push(batch),
            None => splits.push((SplitId(split.to_owned()), vec![batch])),
        }
    }
}

fn position(rows: u64) -> Position {
    Position {
        version: 1,
        bytes: rows.to_be_bytes().to_vec(),
    }
}

fn rows_of(split: &SplitId, position: &Position) -> Result<u64, SourceError> {
    let bytes = <[u8; 8]>::try_from(position.bytes.as_slice());
    match (position.version, bytes) {
        (1, Ok(bytes)) => Ok(u64::from_be_bytes(bytes)),
        _ => Err(SourceError::Position {
            split: split.to_string(),
            what: format!(
                "version {} with {} bytes",
                position.version,
                position.bytes.len()
            ),
        }),
    }
}

impl Source for MemorySource {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn identity(&self) -> String {
        "memory".to_owned()
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn boundedness(&self) -> Boundedness {
        self.boundedness
    }

    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
        Box::pin(async move {
            let begun = state.active.keys().cloned().collect();
            let mut ends = Vec::new();
            for (id, end) in &state.finished {
                ends.push((id.clone(), rows_of(id, end)?));
            }
            let bounded = self.boundedness == Boundedness::Bounded;
            let splits = Arc::clone(&self.splits);
            Ok(Box::new(Enumerator {
                splits,
                known: begun,
                ends,
                bounded,
            }) as Box<_>)
        })
    }

    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
        Box::pin(async move {
            let at = rows_of(&split.id, &split.position)?;
            let bounded = self.boundedness == Boundedness::Bounded;
            let splits = Arc::clone(&self.splits);
            Ok(Box::new(Reader {
                splits,
                id: split.id.clone(),
                at,
                bounded,
            }) as Box<_>)
        })
    }
}

struct Enumerator {
    splits: Splits,
    /// Begun before, or returned by this enumerator and not finished since.
    known: BTreeSet<SplitId>,
    ends: Vec<(SplitId, u64)>,
    bounded: bool,
}

impl SplitEnumerator for Enumerator {
    fn discover<'a>(&'a mut self) -> BoxFuture<'a, Result<Discovery, SourceError>> {
        Box::pin(async move {
            let splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
            let mut found = Vec::new();
            for (id, batches) in splits.iter() {
                let rows: u64 = batches.iter().map(|b| b.num_rows() as u64).sum();
                let end = self.ends.iter().position(|(ended, _)| ended == id);
                let from = match end.and_then(|n| self.ends.get(n)) {
                    Some((_, end)) if *end < rows => *end,
                    Some(_) => continue,
                    None => 0,
                };
                if self.known.insert(id.clone()) {
                    found.push(Split {
                        id: id.clone(),
                        position: position(from),
                    });
                }
            }
            Ok(Discovery {
                splits: found,
                complete: self.bounded,
            })
        })
    }

    fn finished(&mut self, split: &Split) {
        self.known.remove(&split.id);
        self.ends.retain(|(id, _)| *id != split.id);
        if let Ok(rows) = rows_of(&split.id, &split.position) {
            self.ends.push((split.id.clone(), rows));
        }
    }
}

struct Reader {
    splits: Splits,
    id: SplitId,
    at: u64,
    bounded: bool,
}

impl SplitReader for Reader {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            let splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
            let mut before = 0;
            for batch in splits
                .iter()
                .filter(|(id, _)| *id == self.id)
                .flat_map(|(_, b)| b)
            {
                let rows = batch.num_rows() as u64;
                if self.at < before + rows {
                    let skip = (self.at - before) as usize;
                    self.at = before + rows;
                    let rest = batch.slice(skip, batch.num_rows() - skip);
                    return Ok(Read::Rows(SourceBatch::new(rest, position(self.at))));
                }
                before += rows;
            }
            if self.at > before {
                return Err(SourceError::Changed {
                    split: self.id.to_string(),
                    what: format!("it has {before} rows, and {} were read", self.at),
                });
            }
            Ok(if self.bounded {
                Read::End(position(self.at))
            } else {
                Read::Idle
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::conformance::{self, Limits};
    use arrow::array::Int64Array;

    fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
        let ids = Arc::new(Int64Array::from_iter_values(ids));
        RecordBatch::try_from_iter([("id", ids as _)]).unwrap()
    }

    #[tokio::test]
    async fn it_holds_to_the_contract() {
        let splits = [
            ("a", vec![batch(0..3), batch(3..10)]),
            ("b", vec![batch(20..30)]),
            ("c", vec![batch(0..1), batch(1..2), batch(2..3)]),
        ];
        let source = MemorySource::new(splits).unwrap();
        let report = conformance::check(&source, Limits::default())
            .await
            .unwrap();
        assert_eq!((report.splits, report.rows), (3, 23));
        assert_eq!(report.replays, 3 + 2 + 4);
        let unbounded = source.unbounded();
        let report = conformance::check(&unbounded, Limits::default())
            .await
            .unwrap();
        assert_eq!((report.splits, report.rows), (3, 23));
    }

    /// The suite must be able to fail: a source that forgets a row after a restart.
    #[tokio::test]
    async fn the_suite_finds_a_source_that_skips() {
        struct Skips(MemorySource);
        impl Source for Skips {
            fn name(&self) -> String {
                self.0.name()
            }
            fn identity(&self) -> String {
                self.0.identity()
            }
            fn schema(&self) -> SchemaRef {
                self.0.schema()
            }
            fn boundedness(&self) -> Boundedness {
                self.0.boundedness()
            }
            fn enumerator<'a>(
                &'a self,
                state: &'a SourceState,
            ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
                self.0.enumerator(state)
            }
            fn reader<'a>(
                &'a self,
                split: &'a Split,
            ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
                Box::pin(async move {
                    let mut split = split.clone();
                    let at = rows_of(&split.id, &split.position)?;
                    split.position = position(if at == 3 { 4 } else { at });
                    self.0.reader(&split).await
                })
            }
        }
        let source = Skips(MemorySource::new([("a", vec![batch(0..3), batch(3..9)])]).unwrap());
        let error = conformance::check(&source, Limits::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("after row 3"), "{error}");
    }
}
