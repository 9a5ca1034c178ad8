//! Reads Paimon append tables: snapshot to splits to record batches.
