//! The bytes of Apache Paimon metadata files, read and written.
