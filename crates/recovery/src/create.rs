//! Creating an object whose outcome must be known.
//!
//! Owns the rule \[R-6] for this crate's objects: the same bytes are offered again until the answer
//! is *created* or *exists*.

use bytes::Bytes;
use tidegate_storage::{Create, Store};

use crate::error::RecoveryError;

/// How often the same bytes are offered while the answer is lost. The store repeats throttled
/// requests by itself and waits; beyond that the caller decides when to try again.
const OFFERS: u32 = 5;

/// What stands at the name now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Our bytes, made by this call or by an earlier one whose answer was lost.
    Ours,
    /// Somebody else's bytes.
    Theirs(Bytes),
}

pub(crate) async fn create(
    store: &Store,
    path: &str,
    bytes: Bytes,
    doing: &'static str,
) -> Result<Settled, RecoveryError> {
    let mut offers = 1;
    loop {
        match store.create_if_absent(path, bytes.clone()).await {
            Create::Created => return Ok(Settled::Ours),
            Create::Exists(there) if there == bytes => return Ok(Settled::Ours),
            Create::Exists(there) => return Ok(Settled::Theirs(there)),
            Create::Failed(source) => return Err(RecoveryError::Store { doing, source }),
            Create::Unknown(source) if offers >= OFFERS => {
                return Err(RecoveryError::Undecided {
                    url: store.url_of(path),
                    source,
                });
            }
            Create::Unknown(error) => {
                tracing::warn!(%error, "answer lost; the same bytes are offered again");
                offers += 1;
            }
        }
    }
}
