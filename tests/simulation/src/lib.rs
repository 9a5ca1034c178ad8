//! Deterministic simulation of jobs on one table.
//!
//! One seed is one schedule: jobs run as shipped ([`tidegate_runtime::Job`], the real committer, recovery,
//! clean-up and store), and every request that they send waits at a gate until one scheduler lets it
//! through, fails it, loses its answer, holds it back, or kills its sender. Time stands still while
//! anything moves, clocks and dice are injected, there is one thread: a seed gives the same trace twice.
//! After every step that changed the table its promises are checked by decoders alone.
//!
//! In reading order: `choices` (decisions as numbers), `plan` (what a schedule is about), `gate` and
//! `world` (the loop), `fates` (what strikes), `operator` (restarts and the quiet end), `target`, `rows`
//! and `others` (who is at the table), `check` (the promises), [`schedule`], [`script`], [`hunt`].
#![allow(
    clippy::indexing_slicing,
    reason = "a harness that loses count of its own processes may panic"
)]

mod check;
mod choices;
pub mod coverage;
mod env;
mod fates;
mod gate;
pub mod hunt;
#[cfg(feature = "mutants")]
pub mod mutants;
mod operator;
mod others;
mod plan;
mod readers;
mod rows;
mod saved;
pub mod schedule;
pub mod script;
mod target;
mod traces;
mod world;
