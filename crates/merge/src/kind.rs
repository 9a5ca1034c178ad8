//! Row kinds as key-value files hold them, in the column `_VALUE_KIND` \[W-20].

/// A new row.
pub const INSERT: i8 = 0;
/// The old values of a row that changes.
pub const UPDATE_BEFORE: i8 = 1;
/// Its new values.
pub const UPDATE_AFTER: i8 = 2;
/// A row that goes.
pub const DELETE: i8 = 3;

/// True for kinds that take something away: `-U` and `-D`.
pub const fn is_retract(kind: i8) -> bool {
    matches!(kind, UPDATE_BEFORE | DELETE)
}

/// The short form, as in `+I`.
pub const fn short(kind: i8) -> &'static str {
    match kind {
        INSERT => "+I",
        UPDATE_BEFORE => "-U",
        UPDATE_AFTER => "+U",
        DELETE => "-D",
        _ => "?",
    }
}
