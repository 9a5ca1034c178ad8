//! Bytes of data files on their way to the store.
//!
//! Owns one task per file, which takes bytes while the file is still being encoded, the limit on
//! requests under way, and the list of everything begun, so that an abort can remove it. Bytes stay
//! charged to the budget until the store has them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tidegate_storage::{Scheme, Store, Upload, UploadOptions};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::budget::Reservation;
use crate::error::{Result, WriterError};

/// Bytes of a part: remote stores want at least 5 MiB, and every open file may hold one back.
pub(crate) fn part_bytes(store: &Store, allowance: usize) -> usize {
    match store.capabilities().scheme {
        Scheme::File | Scheme::Memory => (allowance / 64).clamp(64 << 10, 1 << 20),
        _ => (allowance / 64).clamp(5 << 20, 8 << 20),
    }
}

/// All uploads of a writer between two hand-overs. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Uploads {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    runtime: Handle,
    options: UploadOptions,
    /// Requests under way; not held while a file waits for its next bytes.
    permits: Semaphore,
    given_up: AtomicBool,
    begun: Mutex<Vec<String>>,
    failure: Mutex<Option<WriterError>>,
    held: AtomicUsize,
    progress: Notify,
    /// Tasks that have not ended.
    alive: AtomicUsize,
    ended: Notify,
}

/// Counts a task until it ends, in whatever way.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_waiters();
    }
}

/// A file that takes bytes. Dropped without [`Sending::end`], the file does not appear.
#[derive(Debug)]
pub(crate) struct Sending {
    path: String,
    sent: u64,
    pieces: mpsc::UnboundedSender<Piece>,
    done: JoinHandle<Option<u64>>,
    /// Bytes that wait until they make a part.
    parked: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes, Reservation),
    End,
}

/// A file that has all of its bytes.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) path: String,
    sent: u64,
    done: JoinHandle<Option<u64>>,
    uploads: Uploads,
}

impl Uploads {
    /// At most `requests` under way at once.
    pub(crate) fn new(store: Store, runtime: Handle, requests: usize, part_bytes: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                runtime,
                options: UploadOptions {
                    part_size: Some(part_bytes),
                    ..UploadOptions::default()
                },
                permits: Semaphore::new(requests.max(1)),
                given_up: AtomicBool::new(false),
                begun: Mutex::default(),
                failure: Mutex::default(),
                held: AtomicUsize::new(0),
                progress: Notify::new(),
                alive: AtomicUsize::new(0),
                ended: Notify::new(),
            }),
        }
    }

    /// Begins a file. May be called from any thread.
    pub(crate) fn begin(&self, path: String) -> Sending {
        let (pieces, incoming) = mpsc::unbounded_channel();
        lock(&self.shared.begun).push(path.clone());
        self.shared.alive.fetch_add(1, Ordering::AcqRel);
        let alive = Alive(Arc::clone(&self.shared));
        let parked: Arc<AtomicUsize> = Arc::default();
        let task = Arc::clone(&self.shared).run(path.clone(), incoming, Arc::clone(&parked));
        let done = self.shared.runtime.spawn(async move {
            let _alive = alive;
            task.await
        });
        Sending {
            path,
            sent: 0,
            pieces,
            done,
            parked,
        }
    }

    /// Bytes that are on their way; those that wait in an upload for more of their file are not.
    pub(crate) fn held(&self) -> usize {
        self.shared.held.load(Ordering::Acquire)
    }

    /// Waits until some bytes have arrived, or returns at once where none are on their way.
    pub(crate) async fn progress(&self) {
        let notified = self.shared.progress.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if self.held() > 0 && !self.failed() {
            notified.await;
        }
    }

    fn failed(&self) -> bool {
        lock(&self.shared.failure).is_some()
    }

    /// The first failure, once.
    pub(crate) fn take_failure(&self) -> Option<WriterError> {
        lock(&self.shared.failure).take()
    }

    /// All files begun were handed over.
    pub(crate) fn handed_over(&self) {
        lock(&self.shared.begun).clear();
    }

    /// These of the files begun were handed over, or are somebody else's to delete.
    pub(crate) fn let_go(&self, paths: &HashSet<String>) {
        lock(&self.shared.begun).retain(|path| !paths.contains(path));
    }

    /// The paths of all files begun since they were last handed over.
    pub(crate) fn begun(&self) -> Vec<String> {
        lock(&self.shared.begun).clone()
    }

    /// Waits until no task is left: whatever they did has happened.
    pub(crate) async fn settled(&self) {
        loop {
            let ended = self.shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.shared.alive.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// From now on nothing more is sent.
    pub(crate) fn give_up(&self) {
        self.shared.given_up.store(true, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    async fn run(
        self: Arc<Self>,
        path: String,
        mut pieces: mpsc::UnboundedReceiver<Piece>,
        parked: Arc<AtomicUsize>,
    ) -> Option<u64> {
        let result = self.send(&path, &mut pieces, &parked).await;
        parked.store(0, Ordering::Release);
        // What is still queued gives its bytes back.
        pieces.close();
        while let Ok(piece) = pieces.try_recv() {
            if let Piece::Bytes(_, charge) = piece {
                self.arrived(charge.bytes());
            }
        }
        match result {
            Ok(size) => size,
            Err(error) => {
                lock(&self.failure).get_or_insert(error);
                self.progress.notify_waiters();
                None
            }
        }
    }

    fn arrived(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::AcqRel);
        self.progress.notify_waiters();
    }

    /// `None` where the file was given up.
    async fn send(
        &self,
        path: &str,
        pieces: &mut mpsc::UnboundedReceiver<Piece>,
        parked: &AtomicUsize,
    ) -> Result<Option<u64>> {
        let failed = |source| WriterError::Upload {
            path: path.to_owned(),
            source: Box::new(source),
        };
        let mut upload: Option<Upload> = None;
        let mut held: Option<Reservation> = None;
        let result = loop {
            let piece = pieces.recv().await;
            let Ok(_permit) = self.permits.acquire().await else {
                break Ok(None);
            };
            if self.given_up.load(Ordering::Acquire) {
                break Ok(None);
            }
            let open = match upload.take() {
                Some(open) => open,
                None => match self.store.upload_with(path, self.options).await {
                    Ok(open) => open,
                    Err(error) => break Err(failed(error)),
                },
            };
            match piece {
                Some(Piece::Bytes(bytes, charge)) => {
                    let moved = charge.bytes();
                    let held = match &mut held {
                        Some(held) => {
                            held.absorb(charge);
                            held
                        }
                        None => held.insert(charge),
                    };
                    let open = upload.insert(open);
                    let written = open.write(bytes).await;
                    // What the upload still keeps stays charged, but moves only with the next bytes.
                    held.resize(held.bytes().min(open.memory()));
                    parked.store(held.bytes(), Ordering::Release);
                    self.arrived(moved);
                    if let Err(error) = written {
                        break Err(failed(error));
                    }
                }
                Some(Piece::End) => break open.finish().await.map(Some).map_err(failed),
                None => {
                    upload = Some(open);
                    break Ok(None);
                }
            }
        };
        drop(held);
        self.progress.notify_waiters();
        if let Some(open) = upload
            && let Err(error) = open.abort().await
        {
            tracing::warn!(path, %error, "an upload that was given up may leave parts behind");
        }
        result
    }
}

impl Sending {
    /// Bytes handed in so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that are kept until they make a part.
    pub(crate) fn parked(&self) -> usize {
        self.parked.load(Ordering::Acquire)
    }

    /// Sends the next bytes, charged until they have arrived.
    pub(crate) fn push(&mut self, uploads: &Uploads, bytes: Bytes, charge: Reservation) {
        if bytes.is_empty() {
            return;
        }
        self.sent += bytes.len() as u64;
        let charged = charge.bytes();
        uploads.shared.held.fetch_add(charged, Ordering::AcqRel);
        // A task that failed has said why in `failure`; the bytes are of no use then.
        if self.pieces.send(Piece::Bytes(bytes, charge)).is_err() {
            uploads.shared.arrived(charged);
        }
    }

    /// No more bytes.
    pub(crate) fn end(self, uploads: &Uploads) -> Ended {
        drop(self.pieces.send(Piece::End));
        Ended {
            path: self.path,
            sent: self.sent,
            done: self.done,
            uploads: uploads.clone(),
        }
    }
}

impl Ended {
    /// Waits until the file is durable; the size is the one that the store confirmed (case B24).
    pub(crate) async fn confirmed(self) -> Result<u64> {
        let Self {
            path,
            sent,
            done,
            uploads,
        } = self;
        match done.await {
            Ok(Some(confirmed)) if confirmed == sent => Ok(confirmed),
            Ok(Some(confirmed)) => Err(WriterError::Size {
                path,
                sent,
                confirmed,
            }),
            Ok(None) => Err(uploads.take_failure().unwrap_or(WriterError::Task {
                what: "an upload",
                reason: format!("{path} was given up"),
            })),
            Err(error) => Err(WriterError::Task {
                what: "an upload",
                reason: error.to_string(),
            }),
        }
    }
}
