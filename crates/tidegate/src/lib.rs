//! Streams into lake tables, exactly once: tables, stream writers and committers in one crate.
