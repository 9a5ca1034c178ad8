//! Bucketed append writers under one memory budget: batches in, durable files and commit messages out.
