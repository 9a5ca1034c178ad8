//! A rig for labs on the real `tidegate` binary: jobs in folders of their own, kills, and a judge
//! that reads the store without our decoders.
//!
//! Owns nothing that a user gets; depends on no crate of ours but the test servers, so what it says
//! about a table is an outsider's word.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test rig fails by panicking, with the place"
)]

pub mod binary;
pub mod campaign;
pub mod chaos;
pub mod clock;
pub mod disk;
pub mod judge;
pub mod keyed;
pub mod lab;
pub mod labs;
pub mod mirror;
pub mod outside;
pub mod proxy;

pub use lab::{Done, Lab, Running};
