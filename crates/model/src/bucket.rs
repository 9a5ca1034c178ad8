//! Which bucket a row belongs to \[F-7.2].
