//! Text and JSON values into Arrow columns.
//!
//! Owns which spelling of a value is accepted for which type, for every source that reads text: one
//! rule per type, whatever the format. Numbers are exact or refused; instants and wall clocks are
//! never converted into each other; nothing depends on the process's time zone.
//!
//! | type | text | JSON |
//! |---|---|---|
//! | BOOLEAN | `true`, `false` | boolean |
//! | integers | digits with a sign | number, or such text in a string |
//! | FLOAT, DOUBLE | decimal or exponent form, `NaN`, `Infinity`, `-Infinity` | number or such a string |
//! | DECIMAL | decimal or exponent form, exact at the column's scale | number or such a string |
//! | STRING | as it stands | string |
//! | BYTES | base64 | base64 string |
//! | DATE | `2024-01-31` | string |
//! | TIME | `12:34[:56[.789]]` | string |
//! | TIMESTAMP | `2024-01-31T12:34[:56[.123456789]]` or with a blank; no zone | string |
//! | … WITH LOCAL TIME ZONE | the same with `Z` or `+hh:mm` | string |
//! | ARRAY, ROW | JSON text | array, object |
//! | MAP, MULTISET | JSON text | array of pairs; an object where keys are text |
//!
//! Limits that Arrow's types do not carry come as field metadata: [`MAX_CHARS`], [`MAX_BYTES`],
//! [`PRECISION`].

mod column;
mod json;
mod text;
mod time;

pub use column::{Column, Mismatch};

/// Metadata key of a field: characters that a text may have at most.
pub const MAX_CHARS: &str = "tidegate:max-chars";
/// Metadata key of a field: bytes that a byte string may have at most.
pub const MAX_BYTES: &str = "tidegate:max-bytes";
/// Metadata key of a field: digits of a second that a time may have at most, 0 to 9.
pub const PRECISION: &str = "tidegate:precision";
