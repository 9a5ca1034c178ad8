//! Names of objects: one validated relative path type.
//!
//! Owns what a legal path is. The bytes of a name are used as they are: Paimon's partition
//! paths are escaped already (`dt=a%2Fb`), so nothing here encodes or decodes.

use std::fmt;
use std::ops::Deref;

use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;

/// A path relative to the root of a store: one or more names separated by `/`.
///
/// No empty name, no `.` or `..`, no leading or trailing `/`, no control characters of ASCII. Others may
/// stand in partition values, which Java escapes in ASCII alone.
///
/// ```
/// use tidegate_storage::ObjectPath;
///
/// let path = ObjectPath::new("dt=a%2Fb/bucket-0/data é.parquet")?;
/// assert_eq!(path.name(), "data é.parquet");
/// assert_eq!(path.parent(), Some("dt=a%2Fb/bucket-0"));
/// assert!(ObjectPath::new("../outside").is_err());
/// # Ok::<(), tidegate_storage::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectPath(String);

impl ObjectPath {
    /// Checks a path.
    ///
    /// # Errors
    /// [`ErrorKind::NameTooLong`] (*invalid name*) where the path is none.
    pub fn new(path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        check(&path)?;
        Ok(Self(path))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn name(&self) -> &str {
        name(&self.0)
    }

    /// Everything before the last name; `None` directly under the root.
    pub fn parent(&self) -> Option<&str> {
        parent(&self.0)
    }
}

impl Deref for ObjectPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

/// `prefix/path`, either of which may be empty.
pub(crate) fn join(prefix: &str, path: &str) -> String {
    match (prefix.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (_, true) => prefix.to_owned(),
        _ => format!("{prefix}/{path}"),
    }
}

/// What is wrong with a path, if anything.
pub(crate) fn fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("the path is empty");
    }
    // Asked before every request: one look at each byte.
    let (mut empty, mut dots, mut control) = (false, false, false);
    for name in path.as_bytes().split(|byte| *byte == b'/') {
        empty |= name.is_empty();
        dots |= matches!(name, b"." | b"..");
        control |= name.iter().any(u8::is_ascii_control);
    }
    if empty {
        Some("the path begins or ends with '/' or holds an empty name")
    } else if dots {
        Some("the path holds '.' or '..'")
    } else if control {
        Some("the path holds a control character")
    } else {
        None
    }
}

pub(crate) fn check(path: &str) -> Result<()> {
    match fault(path) {
        None => Ok(()),
        Some(reason) => {
            Err(StoreError::new(ErrorKind::NameTooLong, Op::Open, path).message(reason))
        }
    }
}

/// A directory or prefix: as a path, but the empty one is the root; one trailing `/` is let go.
pub(crate) fn check_prefix(prefix: &str) -> Result<&str> {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if !prefix.is_empty() {
        check(prefix)?;
    }
    Ok(prefix)
}
