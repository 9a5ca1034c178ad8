//! The tables of `tests/golden/tables`, written by released Java Paimon.

use std::path::{Path, PathBuf};

/// One golden table.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
}

/// All of them, in order of their names.
pub(crate) fn tables() -> Vec<Table> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tables");
    let mut tables: Vec<Table> = std::fs::read_dir(&golden)
        .unwrap_or_else(|e| panic!("{}: {e}", golden.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let root = entry.path().join("warehouse/golden.db").join(&name);
            Table { name, root }
        })
        .collect();
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(tables.len() > 200, "golden tables are missing");
    tables
}

/// A metadata file: its name and content.
pub(crate) struct File {
    /// Path below the table, behind its name.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl Table {
    /// Files anywhere below the table whose name starts so; the rest of the name must not be a
    /// longer kind (`manifest-` is not `manifest-list-`).
    pub(crate) fn files(&self, prefix: &str) -> Vec<File> {
        let mut all = Vec::new();
        walk(&self.root, &mut all);
        all.retain(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            path.is_file()
                && name.starts_with(prefix)
                && (prefix != "manifest-" || !name.starts_with("manifest-list-"))
        });
        all.sort();
        all.into_iter()
            .map(|path| File {
                bytes: std::fs::read(&path).unwrap(),
                path: path
                    .strip_prefix(self.root.parent().unwrap())
                    .unwrap()
                    .display()
                    .to_string(),
            })
            .collect()
    }
}

/// Files of all tables.
pub(crate) fn all_files(prefix: &str) -> Vec<File> {
    tables()
        .iter()
        .flat_map(|table| table.files(prefix))
        .collect()
}

fn walk(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, all);
        }
        all.push(path);
    }
}
