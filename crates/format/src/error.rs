//! The one error of this crate: what is wrong, in which file, at which place, in which field.

use std::fmt;

/// Result of every decoder.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes that are not what they should be, or a value that the asked format cannot hold.
///
/// The decoders see bytes only: who knows their name adds it with [`Error::in_file`].
#[derive(Debug)]
pub struct Error(Box<Context>);

#[derive(Debug)]
struct Context {
    file: Option<String>,
    position: Option<Position>,
    field: Option<String>,
    problem: Problem,
}

/// Where in the bytes the trouble lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// In a text file; both count from 1, columns in characters.
    Text {
        /// Line.
        line: u64,
        /// Column.
        column: u64,
    },
    /// Offset from the start of the bytes given.
    Byte(u64),
    /// In the uncompressed bytes of one block of an Avro container.
    Block {
        /// File offset of the block.
        block: u64,
        /// Which record of the file, from 0.
        record: u64,
        /// Offset in the uncompressed block.
        byte: u64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "line {line}, column {column}"),
            Self::Byte(at) => write!(f, "byte {at}"),
            Self::Block {
                block,
                record,
                byte,
            } => {
                write!(
                    f,
                    "block at byte {block}, record {record}, byte {byte} of the block"
                )
            }
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end inside a value.
    #[error(
        "the file ends too early: {needed} more bytes are needed; it was cut off or is still being written"
    )]
    Truncated {
        /// How many bytes are missing at least.
        needed: u64,
    },
    /// Something else stands where a value should be.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What should stand there.
        expected: &'static str,
        /// What stands there, shortened.
        found: String,
    },
    /// A key occurs twice in one object.
    #[error("the key `{0}` occurs twice: which value counts is not defined")]
    DuplicateKey(String),
    /// A field without which the value has no meaning is absent.
    #[error("the field is missing")]
    Missing,
    /// Nested deeper than any real file.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// A text is not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// A count or length that the remaining bytes cannot hold.
    #[error("a length of {length} does not fit into the {available} bytes that are left")]
    Length {
        /// As it stands in the file.
        length: i64,
        /// What is left.
        available: u64,
    },
    /// The file does not start as an Avro container does.
    #[error("not an Avro container: it must start with `Obj` and a 1")]
    Magic,
    /// A codec that this build does not read.
    #[error(
        "Avro codec `{0}` is not supported; null, deflate, snappy and zstandard are (option manifest.compression of the writer)"
    )]
    Codec(String),
    /// A block does not decompress.
    #[error("the block does not decompress: {0}")]
    Decompress(String),
    /// A block that would take more memory than any writer's blocks do.
    #[error(
        "the block decompresses to more than {limit} bytes, which no writer of this format makes"
    )]
    BlockTooLarge {
        /// The limit for a block of this compressed size.
        limit: u64,
    },
    /// A checksum differs.
    #[error("checksum {found:08x} differs from the stored {stored:08x}: the bytes are damaged")]
    Checksum {
        /// In the file.
        stored: u32,
        /// Of the bytes.
        found: u32,
    },
    /// The marker after a block is not the one of the header.
    #[error("the sync marker after the block differs from the header's: the file is damaged")]
    Sync,
    /// A block holds more bytes than its records.
    #[error("{0} bytes are left over after the last record")]
    Leftover(u64),
    /// The writer's schema is no Avro schema, or not one of a file of this kind.
    #[error("writer schema: {0}")]
    Schema(String),
    /// A format version that this build does not know.
    #[error("version {found} is not supported; {supported} is")]
    Version {
        /// In the file, or asked for.
        found: i64,
        /// What would be.
        supported: &'static str,
    },
    /// A value that the asked layout has no place for.
    #[error("{0}")]
    CannotHold(String),
}

impl Error {
    pub(crate) fn new(problem: Problem) -> Self {
        Self(Box::new(Context {
            file: None,
            position: None,
            field: None,
            problem,
        }))
    }

    pub(crate) fn at(mut self, position: Position) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    /// Replaces a position that was counted from another start.
    pub(crate) fn moved(mut self, position: impl FnOnce(Option<Position>) -> Position) -> Self {
        self.0.position = Some(position(self.0.position));
        self
    }

    /// Prefixes the field, so that an outer reader adds its name while the error passes through.
    pub(crate) fn in_field(mut self, name: &str) -> Self {
        let name = shorten(name);
        self.0.field = Some(match self.0.field.take() {
            Some(inner) if inner.starts_with('[') => format!("{name}{inner}"),
            Some(inner) => format!("{name}.{inner}"),
            None => name,
        });
        self
    }

    /// Adds the name of the file, unless it has one.
    #[must_use]
    pub fn in_file(mut self, name: impl Into<String>) -> Self {
        if self.0.file.is_none() {
            self.0.file = Some(name.into());
        }
        self
    }

    /// The file, where the caller named it.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The place in the bytes.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// The field, with dots and `[n]` down to the innermost.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context {
            file,
            position,
            field,
            problem,
        } = &*self.0;
        let mut first = true;
        let mut lead = |f: &mut fmt::Formatter<'_>| {
            let lead = if first { "" } else { ", " };
            first = false;
            f.write_str(lead)
        };
        if let Some(file) = file {
            lead(f)?;
            f.write_str(file)?;
        }
        if let Some(position) = position {
            lead(f)?;
            write!(f, "{position}")?;
        }
        if let Some(field) = field {
            lead(f)?;
            write!(f, "field `{field}`")?;
        }
        if !first {
            f.write_str(": ")?;
        }
        write!(f, "{problem}")
    }
}

impl std::error::Error for Error {}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

/// Names the file of an error on its way up.
pub trait InFile<T> {
    /// See [`Error::in_file`].
    fn in_file(self, name: &str) -> Result<T>;
}

impl<T> InFile<T> for Result<T> {
    fn in_file(self, name: &str) -> Result<T> {
        self.map_err(|e| e.in_file(name))
    }
}

/// Errors quote what they found, but never a whole file.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
