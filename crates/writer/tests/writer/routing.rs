//! Partition and bucket of rows against the slow way, value by value.
use crate::support::{STRING, schema};
