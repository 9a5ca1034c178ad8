//! One writer task: rows into pending files.
//!
//! Owns open and finished pending files since the last barrier. Never makes a file final.

use std::mem;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tidegate_sink::{BoxFuture, Message, Router, RowKind, Rows, SinkError, Writer};
use tidegate_storage::{Store, Upload};
use uuid::Uuid;

use crate::encode::{Encoder, Format};
use crate::error::FilesError;
use crate::log::{DataFile, pending_path};

/// Version of the messages of these writers.
pub(crate) const MESSAGE_VERSION: u32 = 1;

struct OpenFile {
    name: String,
    schema: SchemaRef,
    encoder: Encoder,
    upload: Upload,
    rows: u64,
}

pub(crate) struct FilesWriter {
    store: Store,
    format: Format,
    roll_at: u64,
    /// `part-<run prefix><uuid>`: of this writer alone.
    stem: String,
    next: u64,
    open: Option<OpenFile>,
    /// Durable, to be handed over at the next barrier.
    done: Vec<DataFile>,
    /// Names begun since the last barrier, durable or not.
    begun: Vec<String>,
    /// Inside a call; still set where a call was dropped or failed halfway.
    broken: bool,
}

impl FilesWriter {
    pub(crate) fn new(store: Store, format: Format, roll_at: u64, prefix: &str) -> Self {
        Self {
            store,
            format,
            roll_at,
            stem: format!("part-{prefix}{}", Uuid::new_v4().simple()),
            next: 0,
            open: None,
            done: Vec::new(),
            begun: Vec::new(),
            broken: false,
        }
    }

    fn enter(&mut self) -> Result<(), FilesError> {
        if mem::replace(&mut self.broken, true) {
            return Err(FilesError::Interrupted);
        }
        Ok(())
    }

    async fn begin(&mut self, schema: SchemaRef) -> Result<OpenFile, FilesError> {
        let name = format!("{}-{}.{}", self.stem, self.next, self.format.extension());
        self.next += 1;
        self.begun.push(name.clone());
        let encoder = Encoder::new(self.format, &schema).map_err(|what| FilesError::Data {
            file: name.clone(),
            what,
        })?;
        let upload = self.store.upload(&pending_path(&name)).await;
        let upload = upload.map_err(FilesError::store(format!("beginning {name}")))?;
        Ok(OpenFile {
            name,
            schema,
            encoder,
            upload,
            rows: 0,
        })
    }

    async fn take(&mut self, rows: Rows<RecordBatch>) -> Result<(), FilesError> {
        let Rows { batch, kinds } = rows;
        if let Some(kind) = kinds
            .iter()
            .flatten()
            .find(|kind| **kind != RowKind::Insert)
        {
            return Err(FilesError::Data {
                file: self.stem.clone(),
                what: format!("a row of kind {kind:?}: plain files take inserts only"),
            });
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // A file has one schema.
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.schema != batch.schema())
        {
            self.close().await?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(batch.schema()).await?,
        };
        let bytes = open.encoder.write(&batch);
        let bytes = bytes.map_err(|what| FilesError::Data {
            file: open.name.clone(),
            what,
        })?;
        send(&mut open, bytes).await?;
        open.rows += batch.num_rows() as u64;
        let size = open.upload.written() + open.encoder.held();
        self.open = Some(open);
        if size >= self.roll_at {
            self.close().await?;
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), FilesError> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        // The encoder is used up by its end.
        let encoder = mem::replace(&mut open.encoder, Encoder::JsonLines);
        let bytes = encoder.finish();
        let bytes = bytes.map_err(|what| FilesError::Data {
            file: open.name.clone(),
            what,
        })?;
        send(&mut open, bytes).await?;
        let finished = open.upload.finish().await;
        let bytes = finished.map_err(FilesError::store(format!("finishing {}", open.name)))?;
        self.done.push(DataFile {
            name: open.name,
            rows: open.rows,
            bytes,
        });
        Ok(())
    }

    async fn give_up(&mut self) -> Result<(), FilesError> {
        self.broken = true;
        if let Some(open) = self.open.take() {
            let aborted = open.upload.abort().await;
            aborted.map_err(FilesError::store(format!("giving up {}", open.name)))?;
        }
        let paths: Vec<_> = self.begun.iter().map(|name| pending_path(name)).collect();
        for result in self.store.delete_many(&paths).await {
            result.map_err(FilesError::store("removing files that were given up"))?;
        }
        self.begun.clear();
        self.done.clear();
        self.broken = false;
        Ok(())
    }
}

async fn send(open: &mut OpenFile, bytes: Vec<u8>) -> Result<(), FilesError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let sent = open.upload.write(bytes.into()).await;
    sent.map_err(FilesError::store(format!("writing {}", open.name)))
}

impl Writer for FilesWriter {
    type Batch = RecordBatch;

    fn write<'a>(&'a mut self, rows: Rows<RecordBatch>) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            self.enter()?;
            self.take(rows).await?;
            self.broken = false;
            Ok(())
        })
    }

    fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>> {
        Box::pin(async move {
            self.enter()?;
            self.close().await?;
            let messages = self
                .done
                .iter()
                .map(DataFile::to_message)
                .collect::<Result<_, _>>()?;
            self.done.clear();
            self.begun.clear();
            self.broken = false;
            Ok(messages)
        })
    }

    fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move { Ok(self.give_up().await?) })
    }
}

/// Any writer may take any row: each caller has its own.
pub(crate) struct AnyWriter(pub(crate) usize);

impl Router<RecordBatch> for AnyWriter {
    fn route(
        &self,
        channel: usize,
        rows: Rows<RecordBatch>,
    ) -> Result<Vec<(usize, Rows<RecordBatch>)>, SinkError> {
        Ok(vec![(channel % self.0.max(1), rows)])
    }
}
