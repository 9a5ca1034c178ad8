//! Objects written in stretches, sent while the next stretch is being made.
//!
//! Owns cutting into parts, the number of parts under way, and what happens to a half-written
//! object: whatever way an [`Upload`] ends but by [`Upload::finish`], no object appears.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::backend::{PartSink, pieces_len};
use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;
use crate::store::Store;

/// How an upload is cut; what is left open is chosen by the kind of store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UploadOptions {
    /// Bytes per part. S3 wants at least 5 MiB; default 8 MiB there, 1 MiB on disk.
    pub part_size: Option<usize>,
    /// Parts under way before [`Upload::write`] waits; default 4 on S3, 2 on disk.
    pub parts_under_way: Option<usize>,
}

impl UploadOptions {
    pub(crate) fn or(self, plan: (usize, usize)) -> (usize, usize) {
        (
            self.part_size.unwrap_or(plan.0).max(1),
            self.parts_under_way.unwrap_or(plan.1).max(1),
        )
    }
}

/// An object being written. Dropped unfinished, it is given up (best effort).
#[derive(Debug)]
pub struct Upload {
    store: Store,
    path: String,
    full: String,
    part_size: usize,
    under_way: usize,
    pieces: Vec<Bytes>,
    buffered: usize,
    /// Bytes cut into parts so far, and their number.
    offset: u64,
    parts: usize,
    sink: Option<Arc<dyn PartSink>>,
    tasks: JoinSet<Result<()>>,
    failed: bool,
}

impl Upload {
    pub(crate) fn new(store: Store, path: String, full: String, plan: (usize, usize)) -> Self {
        Self {
            store,
            path,
            full,
            part_size: plan.0,
            under_way: plan.1,
            pieces: Vec::new(),
            buffered: 0,
            offset: 0,
            parts: 0,
            sink: None,
            tasks: JoinSet::new(),
            failed: false,
        }
    }

    /// Where the object will be, relative to its store.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Bytes accepted so far.
    pub fn written(&self) -> u64 {
        self.offset + self.buffered as u64
    }

    /// Bytes held in memory at most: those not yet cut into parts and the parts under way.
    pub fn memory(&self) -> usize {
        self.buffered + self.tasks.len() * self.part_size
    }

    /// Takes the next bytes. Full parts are sent in the background; waits while too many are
    /// under way.
    ///
    /// # Errors
    /// The failure of any part, after repetitions; the upload is then given up.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let mut bytes = bytes;
        self.check_alive()?;
        while self.buffered + bytes.len() >= self.part_size {
            let head = bytes.split_to(self.part_size - self.buffered);
            self.take(head);
            if let Err(error) = self.send_part().await {
                return Err(self.give_up(error).await);
            }
        }
        self.take(bytes);
        Ok(())
    }

    fn take(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.buffered += bytes.len();
            self.pieces.push(bytes);
        }
    }

    fn check_alive(&self) -> Result<()> {
        if self.failed {
            return Err(self.error("this upload failed before and was given up"));
        }
        Ok(())
    }

    fn error(&self, message: &str) -> StoreError {
        StoreError::new(ErrorKind::Other, Op::PutPart, &self.full)
            .message(message)
            .at(self.store.base())
    }

    async fn send_part(&mut self) -> Result<()> {
        let sink = match &self.sink {
            Some(sink) => Arc::clone(sink),
            None => {
                let sink = self.store.begin_upload(&self.full).await?;
                Arc::clone(self.sink.insert(sink))
            }
        };
        while self.tasks.len() >= self.under_way {
            self.part_done().await?;
        }
        let pieces = std::mem::take(&mut self.pieces);
        let size = pieces_len(&pieces);
        let (index, offset) = (self.parts, self.offset);
        self.parts += 1;
        self.offset += size;
        self.buffered = 0;
        let store = self.store.clone();
        self.tasks.spawn(async move {
            let request = || sink.put_part(index, offset, pieces.clone());
            store.repeated(Op::PutPart, size, |()| 0, request).await
        });
        Ok(())
    }

    /// Waits for one part under way.
    async fn part_done(&mut self) -> Result<()> {
        match self.tasks.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(ended)) => Err(self.error("a part's task ended early").source(ended)),
            None => Ok(()),
        }
    }

    async fn give_up(&mut self, error: StoreError) -> StoreError {
        self.failed = true;
        self.tasks.shutdown().await;
        if let Some(sink) = self.sink.take()
            && let Err(left) = self.abort_sink(&sink).await
        {
            tracing::warn!(error = %left, "an unfinished upload stays behind");
        }
        error
    }

    async fn abort_sink(&self, sink: &Arc<dyn PartSink>) -> Result<()> {
        self.store
            .repeated(Op::AbortUpload, 0, |()| 0, || sink.abort())
            .await
    }

    /// Sends what is left and makes the object appear. Returns the size that the store confirmed;
    /// the object is durable then (case B24).
    ///
    /// # Errors
    /// Any failure of a part or of the completing request, after repetitions. Where
    /// [`StoreError::effect_unknown`], the object may be there nevertheless.
    pub async fn finish(mut self) -> Result<u64> {
        self.check_alive()?;
        if self.sink.is_none() {
            let pieces = std::mem::take(&mut self.pieces);
            let size = pieces_len(&pieces);
            self.store.put_pieces(&self.path, pieces).await?;
            return Ok(size);
        }
        match self.finish_parts().await {
            Ok(size) => {
                self.sink = None;
                Ok(size)
            }
            Err(error) => Err(self.give_up(error).await),
        }
    }

    async fn finish_parts(&mut self) -> Result<u64> {
        if self.buffered > 0 {
            self.send_part().await?;
        }
        while !self.tasks.is_empty() {
            self.part_done().await?;
        }
        let Some(sink) = self.sink.clone() else {
            return Err(self.error("the upload was never begun"));
        };
        let (parts, size) = (self.parts, self.offset);
        let confirmed = self
            .store
            .repeated(Op::CompleteUpload, 0, |_| 0, || sink.complete(parts, size))
            .await?;
        if confirmed != size {
            return Err(self.error(&format!("{size} bytes sent, {confirmed} confirmed")));
        }
        Ok(confirmed)
    }

    /// Gives the upload up; no object appears.
    ///
    /// # Errors
    /// Where what was sent so far could not be removed; [`Store::list_unfinished`] finds it.
    pub async fn abort(mut self) -> Result<()> {
        self.failed = true;
        self.tasks.shutdown().await;
        match self.sink.take() {
            Some(sink) => self.abort_sink(&sink).await,
            None => Ok(()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.tasks.abort_all();
        if let Some(sink) = self.sink.take() {
            sink.abandon();
        }
    }
}
