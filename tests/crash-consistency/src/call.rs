//! The calls of a process that change a folder, as the recorder wrote them down.

use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;

/// A name in the folder, relative to it; the folder itself is the empty text.
pub type Name = Arc<str>;

/// One call that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A new, empty file.
    Create {
        /// Its name.
        path: Name,
        /// What the system calls it; used again for another file once this one is gone.
        inode: i64,
    },
    /// Bytes at an offset.
    Write {
        /// Into this file.
        inode: i64,
        /// From here on.
        offset: usize,
        /// These.
        bytes: Arc<[u8]>,
        /// A name it had.
        path: Name,
    },
    /// Cut or grown to a length.
    Truncate {
        /// This file.
        inode: i64,
        /// To this length.
        length: usize,
        /// A name it had.
        path: Name,
    },
    /// fsync or fdatasync of a file.
    SyncFile {
        /// This file.
        inode: i64,
        /// A name it had.
        path: Name,
    },
    /// fsync of a directory.
    SyncDir {
        /// Its name.
        path: Name,
    },
    /// A further name of a file.
    Link {
        /// A name it has.
        from: Name,
        /// The new one.
        to: Name,
    },
    /// Another name instead.
    Rename {
        /// The old one.
        from: Name,
        /// The new one; what stood there is replaced.
        to: Name,
    },
    /// A name goes.
    Unlink {
        /// This one.
        path: Name,
    },
    /// A new directory.
    MakeDir {
        /// Its name.
        path: Name,
    },
    /// An empty directory goes.
    RemoveDir {
        /// Its name.
        path: Name,
    },
    /// sync or syncfs: all is durable.
    SyncAll,
    /// The process passed a named place, or ended well ([`Call::ENDED`]).
    Mark {
        /// Of the place.
        name: Name,
    },
}

impl Call {
    /// The mark behind the last call of a process that ended by itself with exit code 0.
    pub const ENDED: &'static str = "ended";

    /// Whether it makes something durable.
    pub fn syncs(&self) -> bool {
        matches!(
            self,
            Self::SyncFile { .. } | Self::SyncDir { .. } | Self::SyncAll
        )
    }

    /// The name that it is about, the new one of two.
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Write { path, .. }
            | Self::Truncate { path, .. }
            | Self::SyncFile { path, .. }
            | Self::SyncDir { path }
            | Self::Unlink { path }
            | Self::MakeDir { path }
            | Self::RemoveDir { path } => path,
            Self::Link { to, .. } | Self::Rename { to, .. } => to,
            Self::SyncAll => "",
            Self::Mark { name } => name,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path, .. } => write!(f, "create {}", short(path)),
            Self::Write {
                offset,
                bytes,
                path,
                ..
            } => {
                write!(
                    f,
                    "write {} bytes at {offset} of {}",
                    bytes.len(),
                    short(path)
                )
            }
            Self::Truncate { length, path, .. } => write!(f, "cut {} to {length}", short(path)),
            Self::SyncFile { path, .. } => write!(f, "fsync {}", short(path)),
            Self::SyncDir { path } => write!(f, "fsync directory {}", short(path)),
            Self::Link { from, to } => write!(f, "link {} to {}", short(from), short(to)),
            Self::Rename { from, to } => write!(f, "rename {} to {}", short(from), short(to)),
            Self::Unlink { path } => write!(f, "unlink {}", short(path)),
            Self::MakeDir { path } => write!(f, "mkdir {}", short(path)),
            Self::RemoveDir { path } => write!(f, "rmdir {}", short(path)),
            Self::SyncAll => write!(f, "sync"),
            Self::Mark { name } => write!(f, "[{name}]"),
        }
    }
}

/// A name for a person: without the table's folder, long runs of hexadecimal digits shortened.
pub fn short(path: &str) -> String {
    let path = path
        .strip_prefix("warehouse/shop.db/orders/")
        .unwrap_or(path);
    if path.is_empty() {
        return "(the folder)".to_owned();
    }
    let mut text = String::new();
    let mut run = String::new();
    for c in path.chars().chain(['\0']) {
        if c.is_ascii_hexdigit() || c == '-' && !run.is_empty() {
            run.push(c);
            continue;
        }
        let digits = run.chars().filter(char::is_ascii_hexdigit).count();
        match digits >= 24 {
            true => {
                text.extend(run.chars().take(4));
                text.push('…');
                // Numbers behind an identifier tell files apart.
                if let Some((_, number)) = run.rsplit_once('-')
                    && number.len() < 8
                {
                    text.push('-');
                    text.push_str(number);
                }
            }
            false => text.push_str(&run),
        }
        run.clear();
        if c != '\0' {
            text.push(c);
        }
    }
    text
}

/// A record that the recorder could not describe, or that makes no sense.
#[derive(Debug)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Length of the fixed part of a record, see `recorder.c`.
const HEAD: usize = 40;

/// Reads what the recorder wrote. A record cut off at the end is that of a process killed in the
/// middle of writing it down: the call itself took effect, so it is an error.
///
/// # Errors
/// [`Unreadable`]
pub fn parse(bytes: &[u8], folder: &Path) -> Result<Vec<Call>, Unreadable> {
    let mut calls = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let cut = || Unreadable(format!("the record at byte {at} is cut off"));
        let (head, behind) = rest.split_at_checked(HEAD).ok_or_else(cut)?;
        let number = |from: usize| i64::from_ne_bytes(head[from..from + 8].try_into().unwrap());
        let op = u32::from_ne_bytes(head[..4].try_into().unwrap());
        let (inode, offset) = (number(8), usize::try_from(number(16)).unwrap_or(usize::MAX));
        let length = |from| usize::try_from(number(from)).unwrap_or(usize::MAX);
        let (first, behind) = behind.split_at_checked(length(24)).ok_or_else(cut)?;
        let (second, behind) = behind.split_at_checked(length(32)).ok_or_else(cut)?;
        rest = behind;
        let path = || name(first, folder);
        calls.push(match op {
            1 => Call::Create {
                path: path()?,
                inode,
            },
            2 => Call::Write {
                inode,
                offset,
                bytes: second.into(),
                path: path()?,
            },
            3 => Call::Truncate {
                inode,
                length: offset,
                path: path()?,
            },
            4 => Call::SyncFile {
                inode,
                path: path()?,
            },
            5 => Call::SyncDir { path: path()? },
            6 => Call::Link {
                from: path()?,
                to: name(second, folder)?,
            },
            7 => Call::Rename {
                from: path()?,
                to: name(second, folder)?,
            },
            8 => Call::Unlink { path: path()? },
            9 => Call::MakeDir { path: path()? },
            10 => Call::RemoveDir { path: path()? },
            11 => Call::Mark {
                name: text(second)?.trim().into(),
            },
            12 => Call::SyncAll,
            // Asks for nothing durable: neither metadata nor the disk's cache.
            13 => continue,
            14 => return Err(Unreadable(format!("not modelled: {}", text(first)?))),
            other => return Err(Unreadable(format!("record of kind {other} at byte {at}"))),
        });
    }
    Ok(calls)
}

fn text(bytes: &[u8]) -> Result<&str, Unreadable> {
    std::str::from_utf8(bytes).map_err(|e| Unreadable(format!("{bytes:?}: {e}")))
}

/// An absolute path as a name in the folder.
fn name(bytes: &[u8], folder: &Path) -> Result<Name, Unreadable> {
    let whole = text(bytes)?;
    let whole = whole.strip_suffix(" (deleted)").unwrap_or(whole);
    let inside = Path::new(whole)
        .strip_prefix(folder)
        .map_err(|_| Unreadable(format!("{whole}: not in {}", folder.display())))?;
    let mut parts = Vec::new();
    for part in inside.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => return Err(Unreadable(format!("{whole}: not a plain path"))),
        }
    }
    Ok(parts.join("/").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(op: u32, inode: i64, offset: i64, path: &str, more: &[u8]) -> Vec<u8> {
        let mut bytes = op.to_ne_bytes().to_vec();
        bytes.extend(7u32.to_ne_bytes());
        bytes.extend(inode.to_ne_bytes());
        bytes.extend(offset.to_ne_bytes());
        bytes.extend((path.len() as u64).to_ne_bytes());
        bytes.extend((more.len() as u64).to_ne_bytes());
        bytes.extend(path.as_bytes());
        bytes.extend(more);
        bytes
    }

    #[test]
    fn records_are_read_and_names_are_relative_to_the_folder() {
        let mut bytes = record(1, 5, 0, "/lab/a/./b", b"");
        bytes.extend(record(2, 5, 3, "/lab/a/b (deleted)", b"xyz"));
        bytes.extend(record(6, 0, 0, "/lab/a/b", b"/lab/c"));
        bytes.extend(record(11, 0, 0, "/probe", b"published   \n"));
        let calls = parse(&bytes, Path::new("/lab")).unwrap();
        let words: Vec<String> = calls.iter().map(Call::to_string).collect();
        assert_eq!(
            words,
            [
                "create a/b",
                "write 3 bytes at 3 of a/b",
                "link a/b to c",
                "[published]"
            ]
        );
    }

    #[test]
    fn what_is_cut_off_outside_or_not_modelled_is_refused() {
        let folder = Path::new("/lab");
        let whole = record(8, 0, 0, "/lab/a", b"");
        let cut = parse(&whole[..whole.len() - 1], folder).unwrap_err();
        assert!(cut.0.contains("cut off"), "{cut}");
        let outside = parse(&record(8, 0, 0, "/other/a", b""), folder).unwrap_err();
        assert!(outside.0.contains("not in /lab"), "{outside}");
        let strange = parse(&record(14, 0, 0, "fallocate", b""), folder).unwrap_err();
        assert!(strange.0.contains("not modelled: fallocate"), "{strange}");
    }

    #[test]
    fn long_identifiers_are_shortened_and_numbers_behind_them_stay() {
        let data = "warehouse/shop.db/orders/bucket-0/data-tg824235a5e1-d40c0763-dd1c-41c5-9c38-8bd66e6380c8-16.parquet";
        assert_eq!(short(data), "bucket-0/data-tg8242…-16.parquet");
        assert_eq!(short("checkpoints/lab"), "checkpoints/lab");
    }
}
