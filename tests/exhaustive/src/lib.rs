//! Every interleaving of a few committers, faults and crashes, over the protocol itself.
//!
//! The machines of `tidegate-protocol` are driven as they are: [`world`] is a model for stateright whose
//! processes hold the real `Attempt`, guard, clean-up plan and record retention, over a table in memory.
//! See docs/model-checking.md.

pub mod bounds;
pub mod check;
pub mod effects;
pub mod invariant;
pub mod jobs;
mod others;
pub mod process;
mod restart;
pub mod shared;
pub mod table;
pub mod walk;
mod ways;
mod words;
pub mod world;
pub mod worlds;

pub use bounds::{Bounds, Variant};
pub use check::{Counterexample, Explored, explore, find_bug};
pub use world::{Action, State, World};
