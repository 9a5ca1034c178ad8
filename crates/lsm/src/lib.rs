//! What the files of a keyed bucket mean: levels, sorted runs, sections, compaction picks. No I/O.
