//! Where requests of all processes wait until the scheduler lets one through.
//!
//! Owns the waiting room and what a path is called in tables and traces. Decides nothing.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_sink::BoxFuture;
use tidegate_storage::{Decider, Fault, Op};
use tokio::sync::{Notify, oneshot};

/// A process of the simulated world, in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessId(pub(crate) usize);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A request that has not been sent yet.
pub(crate) struct Waiting {
    pub(crate) process: ProcessId,
    pub(crate) op: Op,
    pub(crate) path: String,
    answer: oneshot::Sender<Option<Fault>>,
}

impl Waiting {
    /// Lets it through, or strikes it.
    pub(crate) fn answer(self, fault: Option<Fault>) {
        // Whoever asked may be gone by now.
        let _ = self.answer.send(fault);
    }
}

/// The waiting room. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    waiting: Arc<Mutex<VecDeque<Waiting>>>,
    arrived: Arc<Notify>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the requests that wait, longest first. Those whose sender gave up are gone.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&VecDeque<Waiting>) -> T) -> T {
        let mut waiting = self.lock();
        waiting.retain(|request| !request.answer.is_closed());
        look(&waiting)
    }

    /// Takes one of those that [`Gate::look`] showed.
    pub(crate) fn take(&self, index: usize) -> Option<Waiting> {
        self.lock().remove(index)
    }

    /// Puts one back that is not to be answered yet.
    pub(crate) fn put_back(&self, request: Waiting) {
        self.lock().push_back(request);
    }

    /// Returns once a request has come, perhaps before this call.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

/// The gate as one process sees it.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) gate: Gate,
    pub(crate) process: ProcessId,
}

impl Decider for Door {
    fn decide(&self, op: Op, path: &str) -> BoxFuture<'static, Option<Fault>> {
        let (answer, fate) = oneshot::channel();
        self.gate.lock().push_back(Waiting {
            process: self.process,
            op,
            path: path.to_owned(),
            answer,
        });
        self.gate.arrived.notify_one();
        Box::pin(async move {
            match fate.await {
                Ok(fault) => fault,
                // The world is over.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// What a request does to which kind of object: a column of the table of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProtocolStep {
    pub(crate) object: &'static str,
    pub(crate) act: &'static str,
}

impl fmt::Display for ProtocolStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.act)
    }
}

/// Folder of the table and of checkpoint records in the simulated store.
pub(crate) const TABLE: &str = "table";
pub(crate) const CHECKPOINTS: &str = "checkpoints";

pub(crate) fn step_of(op: Op, path: &str) -> ProtocolStep {
    let act = match op {
        Op::Create => "create",
        Op::Put => "put",
        Op::Get | Op::GetRange | Op::Head => "read",
        Op::List => "list",
        Op::Delete => "delete",
        _ => "other",
    };
    ProtocolStep {
        object: object_of(path),
        act,
    }
}

fn object_of(path: &str) -> &'static str {
    let mut parts = path.split('/');
    match parts.next() {
        Some(CHECKPOINTS) => return "record",
        Some(TABLE) => {}
        _ => return "other",
    }
    match (parts.next(), parts.next()) {
        (None, _) => "table",
        (Some("schema"), _) => "schema",
        (Some("snapshot"), Some(name)) if name.starts_with("snapshot-") => "snapshot",
        (Some("snapshot"), None) => "snapshot",
        (Some("snapshot"), Some(_)) => "hint",
        (Some("manifest"), Some(name)) if name.starts_with("manifest-list-") => "manifest list",
        (Some("manifest"), _) => "manifest",
        (Some("tidegate"), _) => match path.rsplit('/').next().unwrap_or_default() {
            "published" => "note",
            name if name.starts_with("ended-") => "end mark",
            name if name.starts_with("positions-") || name.starts_with("finished-") => "positions",
            _ => "registration",
        },
        (Some(dir), _) if dir.starts_with("bucket-") => "data file",
        (Some("tag" | "branch" | "changelog"), _) => "tag",
        _ => "other",
    }
}
