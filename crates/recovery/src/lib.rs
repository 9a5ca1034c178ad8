//! Checkpoint records, the checkpoint store, job registration and the two recovery managers, for any target.
