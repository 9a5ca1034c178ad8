//! A folder's content: what a disk holds, compared and put onto a real one.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::call::{Name, short};

/// Bytes and their hash.
#[derive(Clone, Debug)]
pub struct Blob {
    /// The bytes.
    pub bytes: Arc<Vec<u8>>,
    /// Equal for equal bytes.
    pub hash: u128,
}

impl Blob {
    /// Of these bytes.
    pub fn new(bytes: Arc<Vec<u8>>) -> Self {
        let hash = hash(&bytes[..]);
        Self { bytes, hash }
    }
}

/// 128 bits of two differently begun standard hashes.
pub(crate) fn hash(value: impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// Names below a folder; `None` is a directory.
#[derive(Clone, Debug, Default)]
pub struct Tree(pub BTreeMap<Name, Option<Blob>>);

impl Tree {
    /// What is in a folder, and the inode of each file.
    pub fn read(folder: &Path) -> (Self, BTreeMap<Name, i64>) {
        let (mut tree, mut inodes) = (Self::default(), BTreeMap::new());
        let mut open = vec![PathBuf::new()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(folder.join(&dir)).unwrap() {
                let entry = entry.unwrap();
                let path = dir.join(entry.file_name());
                let name: Name = path.to_str().unwrap().into();
                if entry.file_type().unwrap().is_dir() {
                    tree.0.insert(name, None);
                    open.push(path);
                } else {
                    let bytes = fs::read(entry.path()).unwrap();
                    let inode = entry.metadata().unwrap().ino();
                    inodes.insert(name.clone(), inode.cast_signed());
                    tree.0.insert(name, Some(Blob::new(Arc::new(bytes))));
                }
            }
        }
        (tree, inodes)
    }

    /// Equal for equal trees.
    pub fn hash(&self) -> u128 {
        self.hash_where(|_| true)
    }

    /// Equal for trees that differ only in what no reader looks at: temporary files.
    pub fn visible_hash(&self) -> u128 {
        self.hash_where(|name| !is_temporary(name))
    }

    fn hash_where(&self, counts: impl Fn(&str) -> bool) -> u128 {
        let entries = self.0.iter().filter(|(name, _)| counts(name));
        entries.fold(0u128, |sum, (name, blob)| {
            sum.wrapping_add(hash((name, blob.as_ref().map(|b| b.hash))))
        })
    }

    /// Only what lies in these folders.
    pub fn only(mut self, folders: &[&str]) -> Self {
        let inside = |name: &str| {
            let rest = folders.iter().find_map(|f| name.strip_prefix(f));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0.retain(|name, _| inside(name));
        self
    }

    /// Writes it into an empty folder. Equal bytes may share one file in `store`, where one is
    /// given: for readers only.
    pub fn write(&self, folder: &Path, store: Option<&Path>) {
        for (name, blob) in &self.0 {
            let at = folder.join(&**name);
            let Some(blob) = blob else {
                fs::create_dir(&at).unwrap();
                continue;
            };
            match store.map(|store| store.join(format!("{:032x}", blob.hash))) {
                None => fs::write(&at, &**blob.bytes).unwrap(),
                Some(shared) => {
                    if !shared.exists() {
                        fs::write(&shared, &**blob.bytes).unwrap();
                    }
                    fs::hard_link(&shared, &at).unwrap();
                }
            }
        }
    }

    /// How it differs from another, in words; empty where it does not.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, blob) in &self.0 {
            let what = match (blob, other.0.get(name)) {
                (_, None) => "is not there",
                (None, Some(None)) => continue,
                (Some(a), Some(Some(b))) if a.bytes == b.bytes => continue,
                (Some(_), Some(Some(_))) => "has other bytes",
                _ => "is of another kind",
            };
            found.push(format!("{} {what}", short(name)));
        }
        for name in other.0.keys().filter(|name| !self.0.contains_key(*name)) {
            found.push(format!("{} is there besides", short(name)));
        }
        found
    }
}

/// Whether it is a temporary file of ours, which no listing of a store shows.
pub fn is_temporary(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.starts_with('.') && last.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, Option<&str>)]) -> Tree {
        let blob = |text: &str| Blob::new(Arc::new(text.as_bytes().to_vec()));
        let entries = entries.iter();
        Tree(
            entries
                .map(|(name, text)| ((*name).into(), text.map(blob)))
                .collect(),
        )
    }

    #[test]
    fn a_tree_written_is_the_tree_read() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tree = tree(&[
            ("a", None),
            ("a/b", Some("x")),
            ("c", Some("x")),
            ("d", None),
        ]);
        tree.write(one.path(), Some(two.path()));
        let (read, inodes) = Tree::read(one.path());
        assert_eq!(tree.differences(&read), [""; 0]);
        assert_eq!(tree.hash(), read.hash());
        assert_eq!(inodes["a/b"], inodes["c"], "equal bytes share a file");
    }

    #[test]
    fn trees_that_differ_say_where_and_only_temporary_files_do_not_show() {
        let one = tree(&[("a", None), ("a/b", Some("x")), ("a/.b.tmp", Some("y"))]);
        let two = tree(&[("a", None), ("a/b", Some("z")), ("e", None)]);
        let words = one.differences(&two);
        assert_eq!(
            words,
            [
                "a/.b.tmp is not there",
                "a/b has other bytes",
                "e is there besides"
            ]
        );
        assert_ne!(one.visible_hash(), two.visible_hash());
        let three = tree(&[("a", None), ("a/b", Some("x"))]);
        assert_eq!(one.visible_hash(), three.visible_hash());
        assert_ne!(one.hash(), three.hash());
        // A directory is no empty file.
        assert_ne!(tree(&[("a", None)]).hash(), tree(&[("a", Some(""))]).hash());
    }
}
