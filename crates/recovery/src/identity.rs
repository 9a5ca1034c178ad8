//! Random identities: commit users of new jobs, nonces of registrations.
//!
//! Owns where they come from: the system's randomness, or whatever a simulation injects, so that one
//! seed makes one run.

use std::fmt;
use std::sync::Arc;

use tidegate_sink::CommitUser;

/// Draws identities of 128 random bits. Clones draw from the same place.
#[derive(Clone)]
pub struct Identities(Arc<dyn Fn() -> [u8; 16] + Send + Sync>);

impl Default for Identities {
    /// From the system's randomness.
    fn default() -> Self {
        Self::from_bytes(|| uuid::Uuid::new_v4().into_bytes())
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identities")
    }
}

impl Identities {
    /// From a function that never gives the same bytes twice.
    pub fn from_bytes(draw: impl Fn() -> [u8; 16] + Send + Sync + 'static) -> Self {
        Self(Arc::new(draw))
    }

    /// The next one, as text.
    pub(crate) fn draw(&self) -> String {
        uuid::Builder::from_random_bytes((self.0)())
            .into_uuid()
            .to_string()
    }

    /// A commit user for a new job \[R-1].
    pub(crate) fn commit_user(&self) -> CommitUser {
        // A uuid is never empty, which is all that a commit user must not be.
        CommitUser::new(self.draw()).unwrap_or_else(|_| unreachable!())
    }
}
