//! Where the bytes of a file come from: ranges, with the end of the file fetched once.

use crate::error::Error;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use std::error::Error as StdError;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one object by range.
///
/// Implemented by whoever has a store; this crate needs no more of one.
pub trait ReadAt: Send + Sync {
    /// Exactly the bytes of `range`.
    ///
    /// # Errors
    /// Whatever keeps them from being had, the object being shorter included.
    fn read_at(
        &self,
        range: Range<u64>,
    ) -> BoxFuture<'_, Result<Bytes, Box<dyn StdError + Send + Sync>>>;
}

impl ReadAt for Bytes {
    fn read_at(
        &self,
        range: Range<u64>,
    ) -> BoxFuture<'_, Result<Bytes, Box<dyn StdError + Send + Sync>>> {
        let found = within(self, 0, &range)
            .ok_or_else(|| format!("no bytes {range:?} in {}", self.len()).into());
        std::future::ready(found).boxed()
    }
}

/// An object whose bytes a function gets, for stores that this crate does not know.
pub fn ranges<Get, Got, E>(get: Get) -> impl ReadAt
where
    Get: Fn(Range<u64>) -> Got + Send + Sync,
    Got: Future<Output = Result<Bytes, E>> + Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>> + 'static,
{
    Ranges(get)
}

struct Ranges<Get>(Get);

impl<Get, Got, E> ReadAt for Ranges<Get>
where
    Get: Fn(Range<u64>) -> Got + Send + Sync,
    Got: Future<Output = Result<Bytes, E>> + Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>> + 'static,
{
    fn read_at(
        &self,
        range: Range<u64>,
    ) -> BoxFuture<'_, Result<Bytes, Box<dyn StdError + Send + Sync>>> {
        let got = (self.0)(range);
        async move { got.await.map_err(Into::into) }.boxed()
    }
}

/// The part `range` of an object of which `bytes` begin at `start`.
fn within(bytes: &Bytes, start: u64, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}

/// Bytes fetched at the end of a file at once: most footers, and small files whole.
const TAIL: u64 = 64 << 10;

/// Marks errors of the source among those of the decoder.
#[derive(Debug)]
struct SourceError(String);

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for SourceError {}

/// Tells a failing source from bad bytes.
pub(super) fn explain(file: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(e) if e.is::<SourceError>() => Error::Read {
            file: file.to_owned(),
            message: e.to_string(),
        },
        other => Error::Corrupt {
            file: file.to_owned(),
            reason: other.to_string(),
        },
    }
}

/// The Parquet library's view of a [`ReadAt`].
pub(super) struct Source {
    inner: Arc<dyn ReadAt>,
    size: u64,
    /// Where the fetched end begins, and its bytes.
    tail: Option<(u64, Bytes)>,
}

impl Source {
    pub(super) fn new(inner: Arc<dyn ReadAt>, size: u64) -> Self {
        Self {
            inner,
            size,
            tail: None,
        }
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        if range.start > range.end || range.end > self.size {
            return Err(ParquetError::General(format!(
                "the footer points at bytes {}..{} of a file of {} bytes",
                range.start, range.end, self.size
            )));
        }
        let wanted = range.end - range.start;
        let failed = |text: String| ParquetError::External(Box::new(SourceError(text)));
        let bytes = self
            .inner
            .read_at(range.clone())
            .await
            .map_err(|e| failed(chain(e.as_ref())))?;
        if bytes.len() as u64 != wanted {
            return Err(failed(format!(
                "{} bytes instead of {wanted} at {}",
                bytes.len(),
                range.start
            )));
        }
        Ok(bytes)
    }
}

/// An error with everything below it.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        below = cause.source();
    }
    text
}

impl AsyncFileReader for Source {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move {
            if let Some(bytes) = self
                .tail
                .as_ref()
                .and_then(|(start, tail)| within(tail, *start, &range))
            {
                return Ok(bytes);
            }
            self.fetch(range).await
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move {
            let tail = self.tail.as_ref();
            let source = &*self;
            let fetches = ranges.into_iter().map(|range| async move {
                match tail.and_then(|(start, tail)| within(tail, *start, &range)) {
                    Some(bytes) => Ok(bytes),
                    None => source.fetch(range).await,
                }
            });
            futures::future::try_join_all(fetches).await
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            if self.tail.is_none() {
                let start = self.size.saturating_sub(TAIL);
                let bytes = self.fetch(start..self.size).await?;
                self.tail = Some((start, bytes));
            }
            let size = self.size;
            let reader = ParquetMetaDataReader::new()
                .with_offset_index_policy(
                    options.map_or(PageIndexPolicy::Skip, |o| o.offset_index_policy()),
                )
                .with_metadata_options(options.map(|o| o.metadata_options().clone()));
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}
