//! The commit log of one job: what is visible, in which order, by whose commit.
//!
//! Owns names and bytes of log entries and positions, and reading and appending them. An entry is
//! made by one conditional create at the next number, so that commits of one job form a chain:
//! who has not seen the newest entry cannot add one. Moving files is not its work.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_sink::{
    CommitIdentifier, CommitUser, Committable, Digest, Epoch, Message, Positions, Published,
};
use tidegate_storage::{Create, Store};

use crate::error::FilesError;
use crate::writer::MESSAGE_VERSION;

/// Everything that is not a final file is below this folder, which plain readers skip by its name.
pub(crate) const CONTROL: &str = "_tidegate";
pub(crate) const PENDING: &str = "_tidegate/pending";
pub(crate) const COMMITS: &str = "_tidegate/commits";

/// Version of payloads and log entries.
pub(crate) const VERSION: u32 = 1;

/// Larger parts of positions are objects of their own \[R-3]; bytes.
const INLINE: usize = 8 << 10;

/// How often the same bytes are offered while the answer is lost \[R-6].
const OFFERS: u32 = 5;

pub(crate) fn pending_path(name: &str) -> String {
    format!("{PENDING}/{name}")
}

fn entry_name(number: u64) -> String {
    format!("commit-{number:020}")
}

/// The number of an entry by its name. `commit-5` and `commit-+0…5` are no entries: whoever took them
/// for one would read an object that is not there.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("commit-")?.parse().ok()?;
    (entry_name(number) == name).then_some(number)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    // `from_str_radix` alone would take `+f` for a pair of digits.
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let pair = |at: usize| {
        text.get(at..at + 2)
            .and_then(|p| u8::from_str_radix(p, 16).ok())
    };
    match text.len().is_multiple_of(2) {
        true => (0..text.len()).step_by(2).map(pair).collect(),
        false => None,
    }
}

/// A file of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataFile {
    /// Its name, the same while it is pending and when it is final.
    pub name: String,
    /// Rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

impl DataFile {
    pub(crate) fn to_message(&self) -> Result<Message, FilesError> {
        let bytes = serde_json::to_vec(self).map_err(|e| FilesError::corrupt(&self.name, e))?;
        Ok(Message {
            version: MESSAGE_VERSION,
            bytes,
        })
    }

    pub(crate) fn from_message(message: &Message) -> Result<Self, FilesError> {
        if message.version != MESSAGE_VERSION {
            let why = format!("version {} is not known here", message.version);
            return Err(FilesError::corrupt("a writer's message", why));
        }
        let file: Self = serde_json::from_slice(&message.bytes)
            .map_err(|e| FilesError::corrupt("a writer's message", e))?;
        file.check()
            .map_err(|why| FilesError::corrupt("a writer's message", why))?;
        Ok(file)
    }

    /// Its name becomes a path.
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        match name.starts_with("part-") && !name.contains(['/', '\\']) {
            true => Ok(()),
            false => Err(format!("`{name}` is no name of a file of rows")),
        }
    }
}

/// A part of the positions: as hex digits, or the SHA-256 of an object that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Hex(String),
    At(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPositions {
    active: Part,
    finished: Part,
}

/// What a committable carries and a log entry repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) job: String,
    pub(crate) epoch: u64,
    pub(crate) checkpoint: u64,
    pub(crate) files: Vec<DataFile>,
    positions: Option<StoredPositions>,
    pub(crate) positions_hash: Option<String>,
    pub(crate) replaces: Option<String>,
    pub(crate) watermark: Option<i64>,
}

/// One version of the directory, as far as one job goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    version: u32,
    pub(crate) user: String,
    pub(crate) identifier: i64,
    pub(crate) digest: String,
    #[serde(rename = "content")]
    pub(crate) plan: Plan,
}

/// An entry and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    digest: Digest,
    /// Content of the object, shortened: tells it from another one of the same number.
    pub(crate) token: String,
}

pub(crate) fn hash_positions(positions: &Positions) -> String {
    let mut hash = Sha256::new();
    hash.update((positions.active.len() as u64).to_be_bytes());
    hash.update(&positions.active);
    hash.update(&positions.finished);
    hex(&hash.finalize())
}

/// Canonical content: files and positions; nothing that an attempt changes \[R-5].
pub(crate) fn digest(files: &[DataFile], positions_hash: Option<&str>) -> Digest {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\0{}\0{}\0", file.name, file.rows, file.bytes));
    }
    hash.update(positions_hash.unwrap_or("-"));
    Digest(hash.finalize().into())
}

impl Plan {
    pub(crate) fn new(context: &tidegate_sink::CommitContext, mut files: Vec<DataFile>) -> Self {
        files.sort();
        let positions = context.positions.as_ref();
        Self {
            job: context.job.to_string(),
            epoch: context.epoch.0,
            checkpoint: context.checkpoint.0,
            files,
            positions: positions.map(|p| StoredPositions {
                active: Part::Hex(hex(&p.active)),
                finished: Part::Hex(hex(&p.finished)),
            }),
            positions_hash: positions.map(hash_positions),
            replaces: context.replaces.as_ref().map(hash_positions),
            watermark: context.watermark,
        }
    }

    /// Source positions as another commit left them; none where there is no other.
    pub(crate) fn stand_at(&mut self, other: Option<&Self>) {
        self.positions = other.and_then(|other| other.positions.clone());
        self.positions_hash = other.and_then(|other| other.positions_hash.clone());
    }

    pub(crate) fn to_payload(&self) -> Result<Vec<u8>, FilesError> {
        serde_json::to_vec(self).map_err(|e| FilesError::corrupt("a committable", e))
    }

    pub(crate) fn of(committable: &Committable) -> Result<Self, FilesError> {
        let what = || format!("committable {}", committable.identifier);
        if committable.version != VERSION {
            let why = format!("payload version {} is not known here", committable.version);
            return Err(FilesError::corrupt(what(), why));
        }
        let plan: Self = serde_json::from_slice(&committable.payload)
            .map_err(|e| FilesError::corrupt(what(), e))?;
        plan.check()
            .map_err(|why| FilesError::corrupt(what(), why))?;
        Ok(plan)
    }

    /// What becomes a path must be a name: of files, and of positions that are objects of their own.
    fn check(&self) -> Result<(), String> {
        self.files.iter().try_for_each(DataFile::check)?;
        let parts = self.positions.iter().flat_map(|p| [&p.active, &p.finished]);
        for part in parts {
            match part {
                Part::Hex(text) if unhex(text).is_none() => {
                    return Err("its positions are no hex digits".to_owned());
                }
                Part::At(name) if part_epoch(name).is_none() => {
                    return Err(format!("`{name}` is no name of positions"));
                }
                Part::Hex(_) | Part::At(_) => {}
            }
        }
        Ok(())
    }
}

/// The run in `e<epoch>-<64 hex digits>`, as such names are written.
fn part_epoch(name: &str) -> Option<Epoch> {
    let (digits, hash) = name.strip_prefix('e')?.split_once('-')?;
    let hashed = hash.len() == 64 && unhex(hash).is_some();
    Epoch::parse(digits).filter(|_| hashed)
}

impl Entry {
    pub(crate) fn new(committable: &Committable) -> Result<Self, FilesError> {
        Ok(Self {
            version: VERSION,
            user: committable.user.to_string(),
            identifier: committable.identifier.0,
            digest: committable.digest.to_string(),
            plan: Plan::of(committable)?,
        })
    }

    /// Reads an entry of the log; `path` is for the error.
    pub(crate) fn decode(path: &str, bytes: &[u8]) -> Result<Self, FilesError> {
        let entry: Self =
            serde_json::from_slice(bytes).map_err(|e| FilesError::corrupt(path, e))?;
        if entry.version != VERSION {
            let why = format!("version {} is not known here", entry.version);
            return Err(FilesError::corrupt(path, why));
        }
        entry
            .plan
            .check()
            .map_err(|why| FilesError::corrupt(path, why))?;
        entry.parsed_digest(path)?;
        Ok(entry)
    }

    fn parsed_digest(&self, path: &str) -> Result<Digest, FilesError> {
        Digest::parse(&self.digest).map_err(|e| FilesError::corrupt(path, format!("digest: {e}")))
    }

    fn large_parts(&self) -> BTreeSet<String> {
        let stored = self
            .plan
            .positions
            .iter()
            .flat_map(|p| [&p.active, &p.finished]);
        stored
            .filter_map(|part| match part {
                Part::At(hash) => Some(hash.clone()),
                Part::Hex(_) => None,
            })
            .collect()
    }
}

impl Numbered {
    /// `path` is for the error.
    fn new(path: &str, number: u64, entry: Entry, bytes: &[u8]) -> Result<Self, FilesError> {
        let token = hex(&Sha256::digest(bytes)).chars().take(16).collect();
        Ok(Self {
            number,
            digest: entry.parsed_digest(path)?,
            entry,
            token,
        })
    }

    pub(crate) fn published(&self) -> Published {
        Published {
            identifier: CommitIdentifier(self.entry.identifier),
            digest: Some(self.digest),
            version: self.number,
            token: self.token.clone(),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.entry.plan.epoch)
    }
}

/// How appending ended.
pub(crate) enum Appended {
    /// The entry is there, by this call or by an earlier one whose answer was lost.
    Ours(Box<Numbered>),
    /// Another entry has that number.
    Theirs,
    /// Not settled \[R-6].
    Unknown(String),
}

/// The log of one commit user.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    store: Store,
    dir: String,
}

impl Log {
    pub(crate) fn new(store: Store, user: &CommitUser) -> Result<Self, FilesError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = user.as_str();
        if name.starts_with('.') || name.len() > 128 || !name.chars().all(plain) {
            return Err(FilesError::Config(format!(
                "commit user `{name}` cannot stand in a path: it may hold letters, digits, `-`, `_`, `.`"
            )));
        }
        Ok(Self {
            store,
            dir: format!("{COMMITS}/{name}"),
        })
    }

    /// Logs of all users of a directory.
    pub(crate) async fn all(store: &Store) -> Result<Vec<Self>, FilesError> {
        let users = store.list_names(COMMITS).await;
        let users = users.map_err(FilesError::store("listing the users of the commit log"))?;
        let log = |name: &str| Self {
            store: store.clone(),
            dir: format!("{COMMITS}/{name}"),
        };
        Ok(users
            .iter()
            .filter(|e| e.is_dir)
            .map(|e| log(&e.name))
            .collect())
    }

    /// An entry that is seen is taken for published: who added it may have been killed before it was
    /// durable.
    pub(crate) async fn make_durable(&self) -> Result<(), FilesError> {
        let done = self.store.make_durable(&self.dir).await;
        done.map_err(FilesError::store("making the commit log durable"))
    }

    fn path(&self, number: u64) -> String {
        format!("{}/{}", self.dir, entry_name(number))
    }

    fn part_path(&self, hash: &str) -> String {
        format!("{}/positions-{hash}", self.dir)
    }

    async fn names(&self) -> Result<Vec<String>, FilesError> {
        let names = self.store.list_names(&self.dir).await;
        let names = names.map_err(FilesError::store("listing the commit log"))?;
        Ok(names
            .into_iter()
            .filter(|e| !e.is_dir)
            .map(|e| e.name)
            .collect())
    }

    /// Numbers of the entries, ascending.
    pub(crate) async fn numbers(&self) -> Result<Vec<u64>, FilesError> {
        let names = self.names().await?;
        let numbers = names.iter().filter_map(|name| number_of(name));
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(crate) async fn read(&self, number: u64) -> Result<Numbered, FilesError> {
        let path = self.path(number);
        let bytes = self.store.get(&path).await;
        let bytes = bytes.map_err(FilesError::store("reading the commit log"))?;
        let entry = Entry::decode(&path, &bytes)?;
        Numbered::new(&path, number, entry, &bytes)
    }

    pub(crate) async fn newest(&self) -> Result<Option<Numbered>, FilesError> {
        match self.numbers().await?.last() {
            Some(number) => Ok(Some(self.read(*number).await?)),
            None => Ok(None),
        }
    }

    /// Entries above an identifier, oldest first, and the one with just that identifier.
    pub(crate) async fn above(
        &self,
        identifier: Option<CommitIdentifier>,
    ) -> Result<(Vec<Numbered>, Option<Numbered>), FilesError> {
        let mut above = Vec::new();
        let mut at = None;
        for number in self.numbers().await?.into_iter().rev() {
            let found = self.read(number).await?;
            match identifier.map(|id| found.entry.identifier.cmp(&id.0)) {
                None | Some(std::cmp::Ordering::Greater) => above.push(found),
                Some(std::cmp::Ordering::Equal) => {
                    at = Some(found);
                    break;
                }
                Some(std::cmp::Ordering::Less) => break,
            }
        }
        above.reverse();
        Ok((above, at))
    }

    /// Adds an entry: the one create by which a commit becomes visible.
    pub(crate) async fn append(
        &self,
        number: u64,
        mut entry: Entry,
    ) -> Result<Appended, FilesError> {
        let epoch = entry.plan.epoch;
        if let Some(stored) = &mut entry.plan.positions {
            for part in [&mut stored.active, &mut stored.finished] {
                self.set_aside(epoch, part).await?;
            }
        }
        let path = self.path(number);
        let bytes = serde_json::to_vec(&entry).map_err(|e| FilesError::corrupt(&path, e))?;
        let bytes = Bytes::from(bytes);
        let ours = Box::new(Numbered::new(&path, number, entry, &bytes)?);
        let mut offers = 1;
        loop {
            match self.store.create_if_absent(&path, bytes.clone()).await {
                created if created.holds(&bytes) => return Ok(Appended::Ours(ours)),
                Create::Created | Create::Exists(_) => return Ok(Appended::Theirs),
                Create::Failed(error) => {
                    return Err(FilesError::store("adding to the commit log")(error));
                }
                Create::Unknown(error) if offers >= OFFERS => {
                    return Ok(Appended::Unknown(format!(
                        "{}: {error}",
                        self.store.url_of(&path)
                    )));
                }
                Create::Unknown(_) => offers += 1,
            }
        }
    }

    /// A large part goes into an object named by run and content: a clean-up goes by the run \[R-13].
    async fn set_aside(&self, epoch: u64, part: &mut Part) -> Result<(), FilesError> {
        let Part::Hex(text) = part else { return Ok(()) };
        if text.len() <= 2 * INLINE {
            return Ok(());
        }
        let bytes = unhex(text).ok_or_else(|| FilesError::corrupt("positions", "not hex"))?;
        let name = format!("e{epoch}-{}", hex(&Sha256::digest(&bytes)));
        let path = self.part_path(&name);
        let written = self.store.write_once(&path, bytes.into()).await;
        written.map_err(FilesError::store("writing positions"))?;
        *part = Part::At(name);
        Ok(())
    }

    async fn part(&self, part: &Part) -> Result<Vec<u8>, FilesError> {
        match part {
            Part::Hex(text) => {
                unhex(text).ok_or_else(|| FilesError::corrupt("positions in the log", "not hex"))
            }
            Part::At(hash) => {
                let bytes = self.store.get(&self.part_path(hash)).await;
                Ok(bytes
                    .map_err(FilesError::store("reading positions"))?
                    .to_vec())
            }
        }
    }

    pub(crate) async fn positions(&self, entry: &Entry) -> Result<Option<Positions>, FilesError> {
        let Some(stored) = &entry.plan.positions else {
            return Ok(None);
        };
        Ok(Some(Positions {
            active: self.part(&stored.active).await?,
            finished: self.part(&stored.finished).await?,
        }))
    }

    /// Removes positions that a newer entry replaced. Safe late: a next entry has the newer number.
    pub(crate) async fn forget(&self, old: &Entry, new: &Entry) -> Result<(), FilesError> {
        let kept = new.large_parts();
        for hash in old.large_parts().difference(&kept) {
            let deleted = self.store.delete(&self.part_path(hash)).await;
            deleted.map_err(FilesError::store("removing replaced positions"))?;
        }
        Ok(())
    }

    /// Paths of positions that runs before this one wrote and the newest entry does not refer to: left by
    /// crashes. Those of the run itself may be of a commit under way.
    pub(crate) async fn stray_positions(
        &self,
        newest: &Entry,
        before: Epoch,
    ) -> Result<Vec<String>, FilesError> {
        let kept = newest.large_parts();
        let names = self.names().await?;
        let parts = names
            .iter()
            .filter_map(|name| name.strip_prefix("positions-"));
        Ok(parts
            .filter(|name| part_epoch(name).is_some_and(|epoch| epoch < before))
            .filter(|name| !kept.contains(*name))
            .map(|name| self.part_path(name))
            .collect())
    }
}
