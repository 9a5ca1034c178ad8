//! Opaque names. The executor keeps the table from these to paths and bytes; the protocol only
//! compares them.
//!
//! Owns: [`ObjectId`], [`FileId`], [`PartitionId`], [`Token`], [`Half`]. Does not own: snapshot ids,
//! users and digests, which are `tidegate-model`'s.

use std::fmt;
use std::sync::Arc;
use tidegate_model::snapshot::CommitKind;

macro_rules! opaque {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

opaque!(
    /// One metadata object: a manifest, a manifest list, an index manifest, a statistics file. The
    /// executor gives each object that it meets or writes a number of its own.
    ObjectId, "o"
);
opaque!(
    /// One data, changelog or index file *identity* \[0-1]: equal ids are equal identities.
    FileId, "f"
);
opaque!(
    /// One partition value.
    PartitionId, "p"
);

/// What tells a snapshot from another one under the same number: its uuid, or `sha256:` and the
/// hash of its bytes where it has none \[R-14].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub Arc<str>);

impl Token {
    /// Takes the text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The two commits that one committable can become, in this order \[C-11], \[C-12].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// New rows; kind APPEND, or OVERWRITE when it removes something.
    Append,
    /// The same rows in other files; kind COMPACT.
    Compact,
}

impl Half {
    /// The half that a snapshot of this kind publishes; `None` where it publishes neither.
    pub fn of(kind: CommitKind) -> Option<Self> {
        match kind {
            CommitKind::Append | CommitKind::Overwrite => Some(Self::Append),
            CommitKind::Compact => Some(Self::Compact),
            CommitKind::Analyze => None,
        }
    }
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append => "append",
            Self::Compact => "compact",
        })
    }
}
