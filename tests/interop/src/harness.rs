//! What every part of the harness needs: the peers, the binary, the matrix, and reading with fallback.

use crate::cases::Case;
use crate::compare::{self, Rows};
use crate::matrix::{Matrix, Outcome, PARTS, Place};
use crate::ours::{Binary, Ours};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tidegate_interop::peer::Peer;
pub(crate) use tidegate_interop::say;

/// Columns that a peer refuses, with its message.
pub(crate) type Refusals = BTreeMap<String, String>;

/// Everything.
pub(crate) struct Harness {
    /// The binary under test.
    pub(crate) binary: Binary,
    /// Where tables are made.
    pub(crate) work: PathBuf,
    /// The other implementations.
    pub(crate) peers: Vec<Peer>,
    /// What was found.
    pub(crate) matrix: Matrix,
    /// Only tables whose `phase/table` fits.
    pub(crate) only: Option<String>,
    /// Where the cells go as JSON.
    pub(crate) json: Option<PathBuf>,
    /// What is said of the run in that file.
    pub(crate) head: Value,
    /// When it began.
    pub(crate) begun: Instant,
    /// When the file was written last.
    pub(crate) written: Instant,
}

/// A long run leaves what it knows behind at least this often.
const WRITE_EVERY: Duration = Duration::from_secs(60);

impl Harness {
    /// Whether the user asked for this table.
    pub(crate) fn wanted(&self, phase: &str, case: &str) -> bool {
        let name = format!("{phase}/{case}");
        self.only
            .as_ref()
            .is_none_or(|p| crate::expect::glob(p, &name) || name.contains(p.as_str()))
    }

    /// One table is done: says so, and writes out what is known by now.
    pub(crate) fn done(&mut self, line: &str) {
        say(line);
        if self.written.elapsed() > WRITE_EVERY
            && let Err(why) = self.write()
        {
            say(&why);
        }
    }

    /// The cells as JSON, where that is asked for.
    pub(crate) fn write(&mut self) -> Result<(), String> {
        self.written = Instant::now();
        let Some(path) = &self.json else {
            return Ok(());
        };
        let mut file = self.head.clone();
        if let Some(file) = file.as_object_mut() {
            file.insert("seconds".into(), json!(self.begun.elapsed().as_secs()));
            file.insert("cells".into(), self.matrix.json());
        }
        std::fs::write(path, file.to_string()).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// An empty folder for a table of ours.
    pub(crate) fn ours(&self, phase: &str, case: &str) -> Result<Ours, String> {
        let folder = self.work.join(folder_of(&format!("{phase} {case}")));
        Ours::new(&self.binary, &folder)
    }
}

/// A text as the name of a folder.
pub(crate) fn folder_of(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    text.chars().map(plain).collect()
}

/// Places of one table.
#[derive(Clone)]
pub(crate) struct At {
    /// Part of the harness.
    pub(crate) phase: &'static str,
    /// Block of the matrix.
    pub(crate) group: String,
    /// Column of the matrix.
    pub(crate) case: String,
}

impl At {
    /// The places of a case.
    pub(crate) fn of(phase: &'static str, case: &Case) -> Self {
        Self {
            phase,
            group: case.group.to_owned(),
            case: case.name.clone(),
        }
    }

    /// A cell of it.
    pub(crate) fn cell(&self, row: &str, peer: &str) -> Place {
        Place {
            phase: self.phase,
            group: self.group.clone(),
            case: self.case.clone(),
            row: row.to_owned(),
            peer: peer.to_owned(),
        }
    }

    /// The cell of a column: in a table of types in places, `int array` stands in row `int`.
    pub(crate) fn column(&self, row: &str, peer: &str) -> Place {
        let mut place = self.cell(row, peer);
        if self.group.starts_with("nested")
            && let Some((atom, spot)) = row.split_once(' ')
            && crate::types::PLACES.contains(&spot)
        {
            place.row = atom.to_owned();
            place.case = match place.case.split_once(" ⇄ ") {
                Some((table, writer)) => format!("{table} {spot} ⇄ {writer}"),
                None => format!(
                    "{} {spot}",
                    place
                        .case
                        .trim_end_matches(" multiset")
                        .trim_end_matches(" nested")
                ),
            };
        }
        place
    }
}

/// What a peer read.
#[derive(Default)]
pub(crate) struct Reading {
    /// Rows, of the columns that it reads.
    pub(crate) rows: Rows,
    /// The columns that it refuses.
    pub(crate) refused: Refusals,
    /// Why there is nothing at all.
    pub(crate) whole: Option<String>,
    /// Rows twice, rows without id.
    pub(crate) broken: Option<String>,
}

/// Reads all columns at once; where that is refused, finds the columns that are at fault.
pub(crate) fn read(peer: &mut Peer, table: &str, case: &Case, options: &Value) -> Reading {
    let names: Vec<&str> = case
        .columns
        .iter()
        .map(|c| c.name.as_str())
        .filter(|n| *n != "id")
        .collect();
    let mut reading = Reading::default();
    if let Err(said) = part(peer, table, &names, options, &mut reading) {
        if let Err(first) = part(peer, table, &[], options, &mut reading) {
            reading.whole = Some(first);
            return reading;
        }
        halves(peer, table, &names, options, &said, &mut reading);
    }
    reading
}

fn halves(
    peer: &mut Peer,
    table: &str,
    names: &[&str],
    options: &Value,
    said: &str,
    into: &mut Reading,
) {
    if let [one] = names {
        into.refused.insert((*one).to_owned(), said.to_owned());
        return;
    }
    let (a, b) = names.split_at(names.len() / 2);
    for half in [a, b].into_iter().filter(|h| !h.is_empty()) {
        if let Err(said) = part(peer, table, half, options, into) {
            halves(peer, table, half, options, &said, into);
        }
    }
}

fn part(
    peer: &mut Peer,
    table: &str,
    names: &[&str],
    options: &Value,
    into: &mut Reading,
) -> Result<(), String> {
    let mut projection = vec!["id"];
    projection.extend(names);
    let rows = peer.list(
        "read",
        table,
        json!({"projection": projection, "options": options}),
    )?;
    match compare::by_id(&rows) {
        Err(broken) => into.broken = Some(broken),
        Ok(rows) if into.rows.is_empty() => into.rows = rows,
        Ok(rows) => merge(&mut into.rows, rows),
    }
    Ok(())
}

/// Adds columns to rows that are there.
fn merge(into: &mut Rows, rows: Rows) {
    for (id, row) in rows {
        match (into.get_mut(&id).and_then(Value::as_object_mut), row) {
            (Some(known), Value::Object(cells)) => known.extend(cells),
            (_, row) => {
                into.insert(id, row);
            }
        }
    }
}

/// Cells of a reading: one per column, and `(rows)`.
pub(crate) fn judge(
    at: &At,
    case: &Case,
    peer: &str,
    expected: &Rows,
    reading: &Reading,
) -> Vec<(Place, Outcome)> {
    let whole = |row: &str| at.column(row, peer);
    let mut cells = Vec::new();
    for column in case.columns.iter().filter(|c| c.name != "id") {
        let outcome = match (&reading.whole, reading.refused.get(&column.name)) {
            (Some(said), _) | (None, Some(said)) => Outcome::Refused(said.clone()),
            (None, None) => Outcome::of(compare::column(column, expected, &reading.rows)),
        };
        cells.push((whole(&column.row), outcome));
    }
    let rows = match (&reading.whole, &reading.broken) {
        (Some(said), _) => Outcome::Refused(said.clone()),
        (None, Some(broken)) => Outcome::Differs(broken.clone()),
        (None, None) => Outcome::of(compare::ids(expected, &reading.rows)),
    };
    cells.push((at.cell("(rows)", peer), rows));
    cells
}

/// The `$` tables that are compared, and columns whose text is not comparable with a release.
pub(crate) const LISTS: &[&str] = &["snapshots", "files", "manifests", "partitions", "buckets"];

/// What we say about a table: the `$` tables by name.
pub(crate) fn our_lists(ours: &Ours) -> Result<BTreeMap<&'static str, Vec<Value>>, String> {
    LISTS
        .iter()
        .map(|name| Ok((*name, ours.list(name)?)))
        .collect()
}

/// Whether the peer's `$` tables, its check and its orphan search agree with us.
pub(crate) fn lists(
    peer: &mut Peer,
    table: &str,
    ours: &BTreeMap<&'static str, Vec<Value>>,
) -> Vec<(String, Outcome)> {
    let mut cells = Vec::new();
    let java = peer.release().map(str::to_owned);
    for name in LISTS {
        let row = format!("({name})");
        if java.is_none() && !matches!(*name, "snapshots" | "files") {
            cells.push((
                row,
                Outcome::Absent("the peer has no such list here".to_owned()),
            ));
            continue;
        }
        // Releases before 1.4 print {a, b} where 1.4 prints the path k=a/l=b.
        let ignore: &[&str] = match (&java, *name) {
            (Some(r), "partitions") if !r.starts_with("1.4") => &["partition"],
            _ => &[],
        };
        let outcome = match peer.list("system", table, json!({"table": name})) {
            Err(said) => Outcome::Refused(said),
            Ok(theirs) => {
                let none = Vec::new();
                let ours = ours.get(name).unwrap_or(&none);
                // So that a release's way of printing, or of naming folders, hides nothing else.
                let texts = ["partition", "min_partition_stats", "max_partition_stats"];
                let unfolded = |files: &[Value]| compare::without_folders(files, "file_path");
                match compare::listing(ours, &theirs, ignore) {
                    None => Outcome::Equal,
                    Some(how) if compare::listing(ours, &theirs, &texts).is_none() => {
                        Outcome::Differs(format!("only the text of partitions: {how}"))
                    }
                    Some(how)
                        if compare::listing(&unfolded(ours), &unfolded(&theirs), ignore)
                            .is_none() =>
                    {
                        Outcome::Differs(format!("only the folders of partitions: {how}"))
                    }
                    Some(how) => Outcome::Differs(how),
                }
            }
        };
        cells.push((row, outcome));
    }
    for (row, command) in [("(check)", "check"), ("(orphans)", "orphans")] {
        let outcome = match (&java, command) {
            (None, _) => Outcome::Absent("the peer has no such check".to_owned()),
            (Some(_), "check") => match peer.on("check", table, json!({})) {
                Err(said) => Outcome::Refused(said),
                Ok(found) if found.get("errors").and_then(Value::as_i64) == Some(0) => {
                    Outcome::Equal
                }
                Ok(found) => Outcome::Differs(findings(&found)),
            },
            (Some(_), _) => match peer.list("orphans", table, json!({})) {
                Err(said) => Outcome::Refused(said),
                Ok(files) if files.is_empty() => Outcome::Equal,
                Ok(files) => Outcome::Differs(format!("orphans: {}", Value::Array(files))),
            },
        };
        cells.push((row.to_owned(), outcome));
    }
    cells
}

/// The errors of a check, warnings left out; one part each, so that an expected one hides no other.
fn findings(found: &Value) -> String {
    let list = found
        .get("findings")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let text = |f: &Value, key: &str| f.get(key).and_then(Value::as_str).map(str::to_owned);
    let file = |path: String| path.rsplit('/').next().map_or(path.clone(), str::to_owned);
    let mut errors: Vec<String> = list
        .iter()
        .filter(|f| text(f, "severity").is_none_or(|s| s != "warning"))
        .map(|f| match (text(f, "where"), text(f, "what")) {
            (Some(at), Some(what)) => format!("check: {}: {what}", file(at)),
            _ => format!("check: {f}"),
        })
        .collect();
    if errors.is_empty() {
        errors.push(format!("check: {found}"));
    }
    errors.join(PARTS)
}

/// Runs `work` with every peer at once, each in a thread of its own; answers in the order of the peers.
pub(crate) fn with_all<T: Send>(
    peers: &mut [Peer],
    work: impl Fn(&mut Peer) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = peers
            .iter_mut()
            .map(|peer| scope.spawn(move || work(peer)))
            .collect();
        running
            .into_iter()
            .filter_map(|thread| match thread.join() {
                Ok(done) => Some(done),
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
