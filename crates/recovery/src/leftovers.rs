//! Temporary files of processes that died while they created one of our objects.
//!
//! Owns finding and removing them. A local store writes an object beside its name and then gives it the
//! name; killed in between it leaves the file, which no listing shows. Which of them have no living owner
//! is said by the caller, by name and tag, never by age \[R-13]. Where one was alive after all, its create
//! finds the name taken or begins anew: removing costs it a repetition and never an answer.

use tidegate_storage::{Scheme, Store};

/// Removes those directly in `dir` that are `dead` by the name they were to get and the tag of their
/// writer. What cannot be removed now is found again by a later run.
pub(crate) async fn remove(store: &Store, dir: &str, dead: impl Fn(&str, Option<&str>) -> bool) {
    // Elsewhere a create is one request and leaves nothing.
    if store.capabilities().scheme != Scheme::File {
        return;
    }
    let found = match store.list_unfinished(dir).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "temporary files of dead runs stay for now");
            return;
        }
    };
    for file in found {
        let name = match dir {
            "" => Some(file.target.as_str()),
            dir => file
                .target
                .strip_prefix(dir)
                .and_then(|rest| rest.strip_prefix('/')),
        };
        if !name.is_some_and(|name| dead(name, file.tag.as_deref())) {
            continue;
        }
        match store.discard_unfinished(&file).await {
            Ok(()) => {
                tracing::info!(target = %file.target, "a temporary file of a dead run is removed")
            }
            Err(error) => {
                tracing::warn!(target = %file.target, %error, "a temporary file stays for now")
            }
        }
    }
}
