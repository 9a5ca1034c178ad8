//! The peers that benchmarks hold our work against: released Java Paimon and the `paimon` crate.

mod java;
mod paimon_crate;

pub use java::Java;
pub use paimon_crate::CrateTable;
