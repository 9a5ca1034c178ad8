//! A model of a disk: what is durable after a call, and what may or may not be.
//!
//! Owns the two rules by which calls become durable ([`Rule`]). Data of a file is durable up to its
//! last fsync under both; what was written later may be there, absent, or there in part ([`Data`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::call::{Call, Name, short};
use crate::tree::{Blob, Tree};

/// How directory operations become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// As weak as POSIX: an operation on a directory is durable after an fsync of that directory and by
    /// nothing else; until then any subset of them may be on the disk. A rename within a directory is
    /// one operation, one between two directories is two.
    Posix,
    /// A journal as ext4 and XFS have: operations become durable in their order, and an fsync of a
    /// file or directory covers all up to the last one that changed it.
    Journal,
}

impl Rule {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::Journal => "journal",
        }
    }
}

/// What of a file's data that was not fsynced is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Data {
    /// Nothing since the last fsync.
    Old,
    /// All.
    New,
    /// The new length, and zeros instead of what was written: delayed allocation.
    Zeros,
    /// A part from the beginning, cut at a sector of 512 bytes.
    Short,
    /// The new length, and of what was written only the first page of 4 KiB.
    FirstPage,
    /// The same with the last page.
    LastPage,
    /// The same with the first sector of 512 bytes.
    FirstSector,
    /// The same with the last sector.
    LastSector,
}

impl Data {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Old,
        Self::New,
        Self::Zeros,
        Self::Short,
        Self::FirstPage,
        Self::LastPage,
        Self::FirstSector,
        Self::LastSector,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Old => "nothing",
            Self::New => "all",
            Self::Zeros => "the length, filled with zeros",
            Self::Short => "a first part",
            Self::FirstPage => "the length and the first page",
            Self::LastPage => "the length and the last page",
            Self::FirstSector => "the length and the first sector",
            Self::LastSector => "the length and the last sector",
        }
    }
}

/// Number of a file or directory in the model; 0 is the folder.
pub type Inode = usize;

#[derive(Clone, Debug)]
enum Body {
    Dir {
        durable: BTreeMap<Name, Inode>,
        live: BTreeMap<Name, Inode>,
    },
    File(FileBody),
}

#[derive(Clone, Debug)]
struct FileBody {
    synced: Blob,
    live: Arc<Vec<u8>>,
    /// Written since the last fsync: from, to.
    written: Vec<(usize, usize)>,
    dirty: bool,
}

#[derive(Clone, Debug)]
struct Node {
    body: Body,
    /// Number of the last call that changed it.
    touched: usize,
}

/// An operation on directories that is not durable.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Number of its call.
    pub call: usize,
    /// Names set to a file or directory, or taken away.
    changes: Vec<(Inode, Name, Option<Inode>)>,
}

/// A disk after some calls.
#[derive(Clone, Debug)]
pub struct Disk {
    rule: Rule,
    nodes: Vec<Node>,
    numbers: HashMap<i64, Inode>,
    pending: Vec<Pending>,
    calls: usize,
}

/// A call that cannot have happened on this disk: a call before it escaped the recorder.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit(pub String);

impl Disk {
    /// A disk on which all of this is durable.
    pub fn new(rule: Rule, tree: &Tree, inodes: &BTreeMap<Name, i64>) -> Self {
        let mut disk = Self {
            rule,
            nodes: vec![empty_dir(0)],
            numbers: HashMap::new(),
            pending: Vec::new(),
            calls: 0,
        };
        // Parents sort before what is in them.
        for (name, blob) in &tree.0 {
            let body = match blob {
                None => empty_dir(0).body,
                Some(blob) => Body::File(FileBody {
                    live: blob.bytes.clone(),
                    synced: blob.clone(),
                    written: Vec::new(),
                    dirty: false,
                }),
            };
            disk.nodes.push(Node { body, touched: 0 });
            let inode = disk.nodes.len() - 1;
            let (dir, last) = disk
                .parent(name)
                .expect("a tree has the parents of its names");
            if let Body::Dir { durable, live } = &mut disk.nodes[dir].body {
                durable.insert(last.clone(), inode);
                live.insert(last, inode);
            }
            if let Some(number) = inodes.get(name) {
                disk.numbers.insert(*number, inode);
            }
        }
        disk
    }

    /// What is not durable, in order.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// The same under another rule; to be chosen before the first call.
    pub fn under(mut self, rule: Rule) -> Self {
        debug_assert!(self.pending.is_empty());
        self.rule = rule;
        self
    }

    /// The rule it was made with.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    fn live(&self, dir: Inode) -> Option<&BTreeMap<Name, Inode>> {
        match &self.nodes.get(dir)?.body {
            Body::Dir { live, .. } => Some(live),
            Body::File(_) => None,
        }
    }

    fn lookup(&self, path: &str) -> Result<Inode, Misfit> {
        let mut at = 0;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let found = self.live(at).and_then(|dir| dir.get(part));
            at = *found.ok_or_else(|| Misfit(format!("{} is not there", short(path))))?;
        }
        Ok(at)
    }

    fn parent(&self, path: &str) -> Result<(Inode, Name), Misfit> {
        let (dir, last) = path.rsplit_once('/').unwrap_or(("", path));
        let inode = self.lookup(dir)?;
        match self.live(inode) {
            Some(_) => Ok((inode, last.into())),
            None => Err(Misfit(format!("{} is no directory", short(dir)))),
        }
    }

    fn file(&mut self, number: i64, path: &str) -> Result<&mut FileBody, Misfit> {
        let inode = self.numbers.get(&number).copied();
        let calls = self.calls;
        let node = inode.and_then(|inode| self.nodes.get_mut(inode));
        match node {
            Some(Node {
                body: Body::File(file),
                touched,
            }) => {
                *touched = calls;
                Ok(file)
            }
            _ => Err(Misfit(format!("{} was never created", short(path)))),
        }
    }

    /// Sets names at once, as one operation or as one per directory.
    fn set(&mut self, changes: Vec<(Inode, Name, Option<Inode>)>) {
        for (dir, name, inode) in &changes {
            if let Body::Dir { live, .. } = &mut self.nodes[*dir].body {
                // A link count is part of a file: its fsync covers it in a journal.
                let before = match inode {
                    Some(inode) => live.insert(name.clone(), *inode),
                    None => live.remove(name),
                };
                for changed in [Some(*dir), before, *inode].into_iter().flatten() {
                    self.nodes[changed].touched = self.calls;
                }
            }
        }
        let one = changes.iter().all(|(dir, ..)| *dir == changes[0].0);
        let call = self.calls - 1;
        if one || self.rule == Rule::Journal {
            self.pending.push(Pending { call, changes });
        } else {
            let apart = changes.into_iter();
            self.pending.extend(apart.map(|change| Pending {
                call,
                changes: vec![change],
            }));
        }
    }

    fn add(&mut self, path: &str, body: Body) -> Result<Inode, Misfit> {
        let (dir, name) = self.parent(path)?;
        if self.lookup(path).is_ok() {
            return Err(Misfit(format!("{} is there already", short(path))));
        }
        self.nodes.push(Node {
            body,
            touched: self.calls,
        });
        let inode = self.nodes.len() - 1;
        self.set(vec![(dir, name, Some(inode))]);
        Ok(inode)
    }

    /// Makes one call.
    ///
    /// # Errors
    /// [`Misfit`]
    pub fn apply(&mut self, call: &Call) -> Result<(), Misfit> {
        self.calls += 1;
        match call {
            Call::Create { path, inode } => {
                let empty = Arc::new(Vec::new());
                let file = FileBody {
                    synced: Blob::new(empty.clone()),
                    live: empty,
                    written: Vec::new(),
                    dirty: false,
                };
                let made = self.add(path, Body::File(file))?;
                self.numbers.insert(*inode, made);
            }
            Call::Write {
                inode,
                offset,
                bytes,
                path,
            } => {
                let file = self.file(*inode, path)?;
                let live = Arc::make_mut(&mut file.live);
                let end = offset + bytes.len();
                if live.len() < end {
                    live.resize(end, 0);
                }
                live[*offset..end].copy_from_slice(bytes);
                file.written.push((*offset, end));
                file.dirty = true;
            }
            Call::Truncate {
                inode,
                length,
                path,
            } => {
                let file = self.file(*inode, path)?;
                Arc::make_mut(&mut file.live).resize(*length, 0);
                file.dirty = true;
            }
            Call::SyncFile { inode, path } => {
                let found = self.numbers.get(inode).copied();
                let missing = || Misfit(format!("{} was never created", short(path)));
                let at = found.ok_or_else(missing)?;
                self.sync(at);
            }
            Call::SyncDir { path } => {
                let at = self.lookup(path)?;
                self.sync(at);
            }
            Call::Link { from, to } => {
                let inode = self.lookup(from)?;
                let (dir, name) = self.parent(to)?;
                if self.lookup(to).is_ok() {
                    return Err(Misfit(format!("{} is there already", short(to))));
                }
                self.set(vec![(dir, name, Some(inode))]);
            }
            Call::Rename { from, to } => {
                let inode = self.lookup(from)?;
                let (from_dir, old) = self.parent(from)?;
                let (to_dir, new) = self.parent(to)?;
                self.set(vec![(to_dir, new, Some(inode)), (from_dir, old, None)]);
            }
            Call::Unlink { path } | Call::RemoveDir { path } => {
                self.lookup(path)?;
                let (dir, name) = self.parent(path)?;
                self.set(vec![(dir, name, None)]);
            }
            Call::MakeDir { path } => {
                let body = empty_dir(0).body;
                self.add(path, body)?;
            }
            Call::SyncAll => (0..self.nodes.len()).for_each(|inode| self.sync(inode)),
            Call::Mark { .. } => {}
        }
        Ok(())
    }

    fn sync(&mut self, inode: Inode) {
        let node = &mut self.nodes[inode];
        let touched = node.touched;
        if let Body::File(file) = &mut node.body {
            file.synced = Blob::new(file.live.clone());
            file.written.clear();
            file.dirty = false;
        }
        let covered = |pending: &Pending| match self.rule {
            Rule::Posix => pending.changes.iter().all(|(dir, ..)| *dir == inode),
            Rule::Journal => pending.call < touched,
        };
        let (durable, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(covered);
        self.pending = rest;
        let durable: Vec<Pending> = durable;
        for (dir, name, to) in durable.into_iter().flat_map(|pending| pending.changes) {
            if let Body::Dir { durable, .. } = &mut self.nodes[dir].body {
                match to {
                    Some(inode) => durable.insert(name, inode),
                    None => durable.remove(&name),
                };
            }
        }
    }

    /// Names that are on the disk if just these of the pending operations are; `None` is a directory.
    pub fn names(&self, kept: &[bool]) -> Vec<(Name, Option<Inode>)> {
        let mut changed: HashMap<Inode, BTreeMap<Name, Inode>> = HashMap::new();
        for (pending, _) in self.pending.iter().zip(kept).filter(|(_, kept)| **kept) {
            for (dir, name, inode) in &pending.changes {
                let names = changed.entry(*dir).or_insert_with(|| self.durable(*dir));
                match inode {
                    Some(inode) => names.insert(name.clone(), *inode),
                    None => names.remove(name),
                };
            }
        }
        let mut found = Vec::new();
        let mut open: Vec<(Name, Inode)> = vec![("".into(), 0)];
        while let Some((path, dir)) = open.pop() {
            let own = match changed.get(&dir) {
                Some(names) => names,
                None => match &self.nodes[dir].body {
                    Body::Dir { durable, .. } => durable,
                    Body::File(_) => continue,
                },
            };
            for (name, inode) in own {
                let whole: Name = match path.is_empty() {
                    true => name.clone(),
                    false => format!("{path}/{name}").into(),
                };
                match self.nodes[*inode].body {
                    Body::Dir { .. } => {
                        found.push((whole.clone(), None));
                        open.push((whole, *inode));
                    }
                    Body::File(_) => found.push((whole, Some(*inode))),
                }
            }
        }
        found
    }

    fn durable(&self, dir: Inode) -> BTreeMap<Name, Inode> {
        match &self.nodes[dir].body {
            Body::Dir { durable, .. } => durable.clone(),
            Body::File(_) => BTreeMap::new(),
        }
    }

    /// What a file that has data which is not durable may hold; each different content once.
    pub fn contents(&self, inode: Inode) -> Vec<(Data, Blob)> {
        let Body::File(file) = &self.nodes[inode].body else {
            return Vec::new();
        };
        if !file.dirty {
            return vec![(Data::New, file.synced.clone())];
        }
        let mut found: Vec<(Data, Blob)> = Vec::new();
        for data in Data::ALL {
            let blob = file.content(data);
            if found.iter().all(|(_, other)| other.hash != blob.hash) {
                found.push((data, blob));
            }
        }
        found
    }

    /// The disk as a process sees it: all that was done.
    pub fn seen(&self) -> Tree {
        let all = vec![true; self.pending.len()];
        let names = self.names(&all).into_iter();
        Tree(
            names
                .map(|(name, inode)| (name, inode.map(|inode| self.content(inode, Data::New))))
                .collect(),
        )
    }

    /// A file with that much of its data.
    pub fn content(&self, inode: Inode, data: Data) -> Blob {
        match &self.nodes[inode].body {
            Body::File(file) if file.dirty => file.content(data),
            Body::File(file) => file.synced.clone(),
            Body::Dir { .. } => Blob::new(Arc::default()),
        }
    }

    /// A state in words: which operations came through, which did not, and what of data.
    pub fn describe(&self, calls: &[Call], kept: &[bool], data: &[(Inode, Data)]) -> Vec<String> {
        let mut words = Vec::new();
        let names = self.names(kept);
        for (inode, data) in data.iter().filter(|(_, data)| *data != Data::New) {
            let name = names.iter().find(|(_, at)| *at == Some(*inode));
            let name = name.map_or_else(String::new, |(name, _)| short(name));
            let wanted = self.content(*inode, Data::New).bytes.len();
            words.push(format!(
                "of {wanted} bytes in {name} there is {}",
                data.words()
            ));
        }
        let mut last = usize::MAX;
        for (pending, kept) in self.pending.iter().zip(kept) {
            if pending.call == last {
                continue;
            }
            last = pending.call;
            let came = if *kept { "came through" } else { "lost" };
            words.push(format!("{came}: {}", calls[pending.call]));
        }
        words
    }
}

fn empty_dir(touched: usize) -> Node {
    Node {
        body: Body::Dir {
            durable: BTreeMap::new(),
            live: BTreeMap::new(),
        },
        touched,
    }
}

impl FileBody {
    fn content(&self, data: Data) -> Blob {
        const SECTOR: usize = 512;
        const PAGE: usize = 4096;
        let (old, new) = (&self.synced.bytes, &self.live);
        let len = new.len();
        let bytes = match data {
            Data::Old => return self.synced.clone(),
            Data::New => return Blob::new(new.clone()),
            Data::Zeros => self.zeros(0..0),
            Data::Short => {
                let half = (old.len() + len) / 2 / SECTOR * SECTOR;
                new[..half.min(len)].to_vec()
            }
            Data::FirstPage => self.zeros(0..PAGE),
            Data::LastPage => self.zeros(len.saturating_sub(1) / PAGE * PAGE..len),
            Data::FirstSector => self.zeros(0..SECTOR),
            Data::LastSector => self.zeros(len.saturating_sub(1) / SECTOR * SECTOR..len),
        };
        Blob::new(Arc::new(bytes))
    }

    /// The new length; of what was written only what lies in a range, the rest is as it was or zero.
    fn zeros(&self, except: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = self.live.to_vec();
        for (from, to) in &self.written {
            for at in (*from..*to).filter(|at| !except.contains(at)) {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.synced.bytes.get(at).copied().unwrap_or(0);
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
