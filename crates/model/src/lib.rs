//! The values of an Apache Paimon table: schema, types, binary rows, file metadata, commit messages, names.
