//! What can go wrong with a store, and what a caller may conclude from it.
//!
//! Owns [`StoreError`], its coarse [`ErrorKind`] and the two questions that decide everything
//! above: *may the operation have happened?* ([`StoreError::effect_unknown`]) and *is it worth
//! asking again?* ([`StoreError::is_transient`]). Does not own retrying: see [`crate::RetryPolicy`].

use std::fmt;

use crate::metrics::Op;

/// Result with a [`StoreError`].
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Coarse class of a failure; prescribes what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No object (or no bucket, no directory) of that name.
    NotFound,
    /// An object of that name is there already, where none may be.
    AlreadyExists,
    /// The store refused the credentials or the file mode forbids it: fix the rights.
    PermissionDenied,
    /// No space or no quota left: make room.
    Full,
    /// A path or one of its names is too long for this store, or has no valid form.
    NameTooLong,
    /// The store asked for fewer requests (503 *slow down*, 429): wait, then go on.
    Throttled,
    /// Time-out, lost connection, server error: may pass by itself.
    Transient,
    /// This store cannot do that; the message names the way out.
    Unsupported,
    /// The answer contradicts itself (short body, range beyond the end, unreadable listing).
    Corrupt,
    /// The configuration of the store is wrong: unknown key, bad URL, bad value.
    Config,
    /// Anything else; see the source.
    Other,
}

impl ErrorKind {
    /// Whether the same request may succeed a moment later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Throttled | Self::Transient)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not found",
            Self::AlreadyExists => "exists already",
            Self::PermissionDenied => "permission denied",
            Self::Full => "no space left",
            Self::NameTooLong => "name too long or invalid",
            Self::Throttled => "throttled by the store",
            Self::Transient => "temporary failure",
            Self::Unsupported => "not supported by this store",
            Self::Corrupt => "inconsistent answer",
            Self::Config => "wrong store configuration",
            Self::Other => "failed",
        })
    }
}

/// A failed operation of a store: what, where, why, and whether it may have taken effect.
#[derive(Debug)]
pub struct StoreError {
    kind: ErrorKind,
    op: Op,
    path: String,
    url: String,
    message: String,
    effect_unknown: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync + 'static>>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if !self.url.is_empty() || !self.path.is_empty() {
            let both = !self.url.is_empty() && !self.path.is_empty();
            let slash = if both { "/" } else { "" };
            write!(f, " {}{slash}{}", self.url, self.path)?;
        }
        write!(f, ": {}", self.kind)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        if self.effect_unknown && self.op.writes() {
            f.write_str(" (it may have taken effect)")?;
        }
        Ok(())
    }
}

// The source is part of the message, so it is not offered a second time.
impl std::error::Error for StoreError {}

impl StoreError {
    /// An error of this kind in this operation on this path, provably without effect.
    pub fn new(kind: ErrorKind, op: Op, path: impl Into<String>) -> Self {
        Self {
            kind,
            op,
            path: path.into(),
            url: String::new(),
            message: String::new(),
            effect_unknown: false,
            source: None,
        }
    }

    /// Adds a sentence for the reader.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Adds the cause.
    pub fn source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// States that the operation may have happened, or may still happen.
    pub fn maybe_applied(mut self) -> Self {
        self.effect_unknown = true;
        self
    }

    pub(crate) fn maybe_applied_if(mut self, unknown: bool) -> Self {
        self.effect_unknown |= unknown;
        self
    }

    /// Names the store's root, unless it is named already.
    pub(crate) fn at(mut self, url: &str) -> Self {
        if self.url.is_empty() {
            self.url = url.to_owned();
        }
        self
    }

    /// An error of the local file system. `unknown`: the step that failed may have taken effect.
    pub(crate) fn io(op: Op, path: &str, step: &str, error: std::io::Error, unknown: bool) -> Self {
        let kind = match (op, error.kind()) {
            // Where something is to be written, a file in the way is no absence.
            (Op::Create | Op::Put | Op::BeginUpload, std::io::ErrorKind::NotADirectory) => {
                ErrorKind::NameTooLong
            }
            _ => io_kind(&error),
        };
        // A full disk, a missing right or a name that is too long is found before the effect.
        let definite = matches!(
            kind,
            ErrorKind::Full
                | ErrorKind::PermissionDenied
                | ErrorKind::NameTooLong
                | ErrorKind::NotFound
        );
        Self::new(kind, op, path)
            .message(step.to_owned())
            .source(error)
            .maybe_applied_if(unknown && !definite)
    }

    /// The class of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation that failed.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The path, relative to [`Self::url`]; empty where the whole store is meant.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The root of the store.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether asking again later may help. Says nothing about whether asking again is *safe*.
    pub fn is_transient(&self) -> bool {
        self.kind.is_transient()
    }

    /// Whether the operation may have happened, or may still happen later ([R-6]). `false` is a
    /// proof that it had no effect and never will.
    pub fn effect_unknown(&self) -> bool {
        self.effect_unknown
    }

    /// Whether this says that there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }
}

/// Class of an error of the operating system.
pub(crate) fn io_kind(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match error.kind() {
        // A file where a directory should be: nothing can be below it.
        Io::NotFound | Io::NotADirectory => ErrorKind::NotFound,
        Io::AlreadyExists => ErrorKind::AlreadyExists,
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::Full,
        Io::InvalidFilename => ErrorKind::NameTooLong,
        Io::Unsupported => ErrorKind::Unsupported,
        Io::Interrupted | Io::TimedOut | Io::WouldBlock | Io::ResourceBusy => ErrorKind::Transient,
        Io::UnexpectedEof => ErrorKind::Corrupt,
        _ => ErrorKind::Other,
    }
}
