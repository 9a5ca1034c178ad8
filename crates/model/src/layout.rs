//! Every object name of a table, and partition paths \[F-1].
