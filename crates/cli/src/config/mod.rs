//! Job files: from YAML, flags and defaults to what a run needs, each value with its origin.
//!
//! Owns the keys of a job file and their meaning. Does not open tables or sources.

pub(crate) mod document;
pub(crate) mod job;
mod nearest;
pub(crate) mod reader;

pub(crate) use nearest::nearest;

use document::Origin;
use std::fmt;

/// A wrong configuration: where, what, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    place: String,
    what: String,
}

impl ConfigError {
    pub(crate) fn at(origin: &Origin, what: impl Into<String>) -> Self {
        let place = match origin {
            Origin::Default => String::new(),
            other => format!("{other}: "),
        };
        Self {
            place,
            what: what.into(),
        }
    }

    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            place: String::new(),
            what: what.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.what)
    }
}

impl std::error::Error for ConfigError {}
