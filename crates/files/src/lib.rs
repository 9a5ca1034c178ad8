//! Exactly-once plain files: pending files made final at commit, as Parquet, CSV or JSON lines.
