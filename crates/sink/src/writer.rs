//! The writing side of the contract: rows in, durable files and messages out.

use crate::{BoxFuture, Message, SinkError};

/// What happened to a row; written `+I -U +U -D` in outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a new row.
    Insert = 0,
    /// `-U`: the old image of an update.
    UpdateBefore = 1,
    /// `+U`: the new image of an update.
    UpdateAfter = 2,
    /// `-D`: a removed row.
    Delete = 3,
}

/// A batch and, for change streams, the kind of each row. Without kinds every row is an insert.
#[derive(Clone, Debug)]
pub struct Rows<B> {
    /// The rows; for our own engine an Arrow record batch.
    pub batch: B,
    /// One kind per row, or nothing when all are inserts.
    pub kinds: Option<Vec<RowKind>>,
}

impl<B> Rows<B> {
    /// Rows that are all inserts.
    pub fn inserts(batch: B) -> Self {
        Self { batch, kinds: None }
    }
}

/// One writer task. Generic over its batch, so that the contract needs no Arrow.
///
/// Cancellation \[R-18]: a dropped `write` may have taken the batch or not, and a dropped `prepare`
/// leaves the writer unusable except for `abort`; nothing half-done is ever handed over later.
pub trait Writer: Send {
    /// The rows that this writer takes.
    type Batch;

    /// Takes rows. They are durable only after the next [`Writer::prepare`].
    fn write<'a>(&'a mut self, rows: Rows<Self::Batch>) -> BoxFuture<'a, Result<(), SinkError>>;

    /// Closes all files before the barrier and hands them over: after success every file named in
    /// the messages is durable, no half-open file stays, and the writer goes on with an empty hand.
    /// May be empty.
    fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>>;

    /// No more rows will come: the next [`Writer::prepare`] is the last one and waits for work that is
    /// still under way beside the rows, such as compactions. Nothing to do for most writers.
    fn end_of_input(&mut self) {}

    /// Gives up: deletes what was written since the last `prepare`. What was handed over stays.
    fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>>;
}

/// Decides which writer gets which rows, so that one (partition, bucket) has one writer where the
/// target needs that.
pub trait Router<B>: Send + Sync {
    /// Splits rows over the writers: pairs of writer index and rows, each row exactly once, order
    /// kept within a writer. `channel` tells parallel callers apart where any writer will do.
    fn route(&self, channel: usize, rows: Rows<B>) -> Result<Vec<(usize, Rows<B>)>, SinkError>;
}
