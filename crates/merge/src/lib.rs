//! What the versions of a key mean: merge engines, aggregate functions, changelogs, over Arrow. No I/O.
