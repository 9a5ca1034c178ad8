//! Arrow to Parquet and back with Paimon's physical types, field ids and statistics.
