//! Files that conditions rule out.
