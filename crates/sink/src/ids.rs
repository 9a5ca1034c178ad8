//! Identities that cross the border, as newtypes: what must never be mixed up has its own type.

use std::fmt;

/// Number of a checkpoint of one job; grows by one from 1. The first one of a job is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub u64);

/// The number under which a target knows one commit of one [`CommitUser`]; strictly growing.
///
/// An engine uses its checkpoint id. The largest value is reserved: other writers of Paimon tables
/// use 2^63-1 for batch commits, and it closes a commit user \[R-12].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitIdentifier(pub i64);

impl CommitIdentifier {
    /// 2^63-1, which batch commits of other writers carry \[C-1].
    pub const BATCH: Self = Self(i64::MAX);
}

impl TryFrom<CheckpointId> for CommitIdentifier {
    type Error = IdError;

    fn try_from(id: CheckpointId) -> Result<Self, IdError> {
        match i64::try_from(id.0) {
            Ok(n) if n < i64::MAX => Ok(Self(n)),
            _ => Err(IdError(format!(
                "checkpoint id {} leaves the range of commit identifiers",
                id.0
            ))),
        }
    }
}

/// Who commits: random, made once per job, durable before the first data file \[R-1].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitUser(String);

impl CommitUser {
    /// Takes a user name as it stands in a snapshot; it must not be empty.
    pub fn new(name: impl Into<String>) -> Result<Self, IdError> {
        let name = name.into();
        if name.is_empty() {
            return Err(IdError("a commit user must not be empty".to_owned()));
        }
        Ok(Self(name))
    }

    /// The text that a snapshot records.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a job: unique per table, chosen by the user, part of object names.
///
/// 1 to 128 characters out of letters, digits, `-`, `_` and `.`, not starting with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(String);

impl JobName {
    /// Checks the name; the error says which rule it breaks.
    pub fn new(name: impl Into<String>) -> Result<Self, IdError> {
        let name = name.into();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 128 {
            return Err(IdError(format!(
                "job name `{name}` must have 1 to 128 characters"
            )));
        }
        if name.starts_with('.') || !name.chars().all(allowed) {
            return Err(IdError(format!(
                "job name `{name}` may hold letters, digits, `-`, `_` and `.` and must not start with a dot"
            )));
        }
        Ok(Self(name))
    }

    /// The name as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One run of a job: every start and every in-process restart has its own, growing \[R-2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Reads an epoch in a name. Only the text that is written for it counts: `+1` and `01` are parts of
    /// other names.
    pub fn parse(text: &str) -> Option<Self> {
        let epoch = text.parse().ok().map(Self)?;
        (epoch.to_string() == text).then_some(epoch)
    }
}

/// What every data file name of one run starts with, so that a later run can find what a crash left
/// behind \[R-2], \[R-13].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunPrefix(pub String);

/// SHA-256 over the canonical content of a committable, computed once, in `combine`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Reads the 64 hex digits that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError(format!("`{text}` is not a digest of 64 hex digits"));
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            // Refused above.
            _ => 0,
        };
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let [high, low] = *pair;
            *byte = digit(high) << 4 | digit(low);
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

macro_rules! display_inner {
    ($($t:ty),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
display_inner!(
    CheckpointId,
    CommitIdentifier,
    CommitUser,
    JobName,
    Epoch,
    RunPrefix
);

/// A text or number that is no valid identity, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdError(pub String);

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IdError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_are_safe_as_path_parts() {
        for bad in ["", ".x", "a/b", "a b", "..", "é", &"x".repeat(129)] {
            assert!(JobName::new(bad).is_err(), "{bad}");
        }
        assert_eq!(
            JobName::new("orders-2.eu_1").unwrap().as_str(),
            "orders-2.eu_1"
        );
    }

    #[test]
    fn an_epoch_in_a_name_is_the_text_that_is_written_for_it() {
        for epoch in [Epoch(0), Epoch(17), Epoch(u64::MAX)] {
            assert_eq!(Epoch::parse(&epoch.to_string()), Some(epoch));
        }
        for other in ["", "+1", "01", "-1", "1 ", "18446744073709551616"] {
            assert_eq!(Epoch::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_digest_survives_its_text_form() {
        let digest = Digest(std::array::from_fn(|i| i as u8));
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
        assert!(Digest::parse("zz").is_err());
        assert!(Digest::parse(&"é".repeat(32)).is_err());
    }

    #[test]
    fn the_reserved_identifier_is_never_made_from_a_checkpoint() {
        assert!(CommitIdentifier::try_from(CheckpointId(i64::MAX as u64)).is_err());
        assert_eq!(
            CommitIdentifier::try_from(CheckpointId(7)),
            Ok(CommitIdentifier(7))
        );
    }

    /// `u8::from_str_radix` takes a sign; a digest has none.
    #[test]
    fn a_digest_is_64_hex_digits_and_nothing_else() {
        let good = "0aF9".repeat(16);
        assert_eq!(
            Digest::parse(&good).unwrap().to_string(),
            good.to_lowercase()
        );
        for odd in ["+", "-", " ", "_", "g", "\0", "é"] {
            for at in 0..good.len() {
                let mut text = good.clone();
                text.replace_range(at..at + 1, odd);
                assert!(Digest::parse(&text).is_err(), "{text:?}");
            }
        }
        assert!(Digest::parse(&good[1..]).is_err());
        assert!(Digest::parse(&format!("{good}0")).is_err());
    }
}
