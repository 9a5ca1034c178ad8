//! Drives the commit protocol against a store: exactly one snapshot per committable.
