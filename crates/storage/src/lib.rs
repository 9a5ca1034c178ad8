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
//! In reading order: [`Store`] and [`Create`]; [`StoreError`], which says whether an operation
//! may have happened; `backend`, the single requests of each kind of store.

mod backend;
pub mod conformance;
mod error;
mod faults;
mod metrics;
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
pub use faults::{Fault, Faults, Injected, Rule};
pub use metrics::{MetricsSnapshot, Op, OpCounts};
pub use options::{is_secret, known_keys};
pub use path::ObjectPath;
pub use retry::RetryPolicy;
pub use store::{Create, Store};
pub use upload::{Upload, UploadOptions};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
