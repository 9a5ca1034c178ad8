//! What a power failure leaves on a local disk, tried out on what the real binary did.
//!
//! A run of `tidegate` is recorded call by call ([`recorder`], [`call`]); a model of a disk
//! ([`disk`]) says after each call what is durable and what is not yet; every state that a disk
//! may be in after a power failure there ([`states`]) is judged: the table opens, with the commit
//! or without it, nothing acknowledged is missing ([`judge`]), and the job goes on from it
//! ([`restart`]). [`mutants`] leave calls out and show that the judgement can fail.
//!
//! What a disk may do, and what is assumed of it: `docs/crash-consistency.md`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test rig fails by panicking, with the place"
)]

pub mod call;
pub mod campaign;
pub mod disk;
pub mod judge;
pub mod mutants;
pub mod recorder;
pub mod restart;
pub mod scenario;
pub mod states;
pub mod tree;

pub use call::Call;
pub use tree::Tree;
