//! Object stores by URL with an honest create-if-absent.
//!
//! Everything that must happen exactly once comes down to one operation:
//! [`Store::create_if_absent`], whose outcome is [`Create::Created`], [`Create::Exists`] with the
//! bytes that are there, [`Create::Unknown`] where the answer was lost, or [`Create::Failed`]
//! where it provably had no effect. On local disks it is atomic between processes and durable; on
//! S3 it is a conditional put. A store that cannot do it is refused for writing
//! ([`Store::open_for_write`]).
//!
//! Around it: whole and ranged reads, listings, uploads in parts ([`Upload`]), deletion, counters
//! by kind of request ([`MetricsSnapshot`]), faults on purpose ([`Faults`]) and a suite that tries
//! a store out ([`conformance`]).
//!
//! Knows nothing of tables.
//!
//! ```
//! use std::collections::BTreeMap;
//! use tidegate_storage::{Create, Store};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // `file:///srv/log` and `s3://bucket/log` do the same between processes.
//! let store = Store::open_for_write("memory://first-page", &BTreeMap::new()).await?;
//! let first = store.create_if_absent("leader/epoch-7", "anna".into()).await;
//! assert!(matches!(first, Create::Created));
//! // Whoever comes second is told who was first, by the object's bytes.
//! match store.create_if_absent("leader/epoch-7", "ben".into()).await {
//!     Create::Exists(theirs) => assert_eq!(theirs, "anna"),
//!     other => return Err(format!("{other:?}").into()),
//! }
//! assert_eq!(store.list("leader").await?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`Store`] and [`Create`]; [`StoreError`], which says whether an operation
//! may have happened; `backend`, the single requests of each kind of store.

mod backend;
pub mod conformance;
mod error;
mod faults;
mod metrics;
pub mod mutant;
mod open;
mod options;
mod path;
mod retry;
mod store;
mod upload;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use backend::{Capabilities, Entry, ObjectMeta, Scheme, Unfinished};
pub use error::{ErrorKind, Result, StoreError};
pub use faults::{Decider, Fault, Faults, Injected, Rule};
pub use metrics::{MetricsSnapshot, Op, OpCounts};
pub use options::{is_secret, known_keys};
pub use path::ObjectPath;
pub use retry::RetryPolicy;
pub use store::{Create, Store};
pub use upload::{Upload, UploadOptions};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
