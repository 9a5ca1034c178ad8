//! Directories of the local store that are durable: made so, and remembered.
//!
//! Owns the order in which a directory and its parents become durable, and what is believed of one that is
//! there already.

use std::io;
use std::path::Path;
use std::sync::PoisonError;

use super::{Inner, disk};
use crate::error::{Result, StoreError};
use crate::metrics::Op;

/// Directories remembered as durable before the memory is emptied and begun anew.
const REMEMBERED_DIRS: usize = 65_536;

impl Inner {
    pub(super) fn known(&self, dir: &Path) -> bool {
        self.durable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(dir)
    }

    pub(super) fn remember(&self, dir: &Path) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() >= REMEMBERED_DIRS {
            durable.clear();
        }
        durable.insert(dir.to_owned());
    }

    pub(super) fn forget(&self, dir: &Path) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.retain(|known| !dir.starts_with(known));
    }

    /// Makes a directory and its parents, each durable before the next. An existing directory is
    /// fsynced into its parent once, up to the root of the file system: another process may just
    /// have made it, or been killed before it was durable.
    pub(super) fn ensure_dir(&self, dir: &Path) -> io::Result<()> {
        if self.known(dir) {
            return Ok(());
        }
        let made = match disk::make_dir(dir) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !dir.is_dir() {
                    return Err(error);
                }
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(above) = dir.parent() else {
                    return Err(error);
                };
                self.ensure_dir(above)?;
                match disk::make_dir(dir) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => true,
                }
            }
            // A read-only parent is no obstacle where the directory is there already.
            Err(_) if dir.is_dir() => false,
            Err(error) => return Err(error),
        };
        let inside = dir != self.root && dir.starts_with(&self.root);
        if let Some(above) = dir.parent() {
            self.ensure_dir(above)?;
            match disk::sync_dir(above) {
                // Above the store there are folders of others: where we may not even look, no
                // process of ours has made one.
                Err(error) if !made && !inside && closed(&error) => {}
                other => other?,
            }
        }
        self.remember(dir);
        Ok(())
    }

    /// Makes durable what stands in a directory now.
    pub(super) fn make_durable(&self, dir: &str) -> Result<()> {
        let full = self.full(dir);
        if !full.is_dir() {
            return Ok(());
        }
        self.ensure_dir(&full)
            .and_then(|()| disk::sync_dir(&full))
            .map_err(|error| {
                StoreError::io(Op::MakeDurable, dir, "fsync of the directory", error, false)
            })
    }
}

/// Whether a directory cannot be opened or fsynced by us at all, whatever is tried.
fn closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
    )
}
