//! One play: a stream into a table of the memory store, checkpoints, crashes, restarts and compactions as
//! the seed draws them, and after every commit the table's content beside the map's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use tidegate::model::{DataField, Options, TableSchema};
use tidegate::scan::{Changes, From, ScanPlan};
use tidegate::storage::{ErrorKind, Fault, Faults, RetryPolicy, Rule, Store};
use tidegate::{CompactOptions, Result, Stream, Table};

use crate::map::{Cell, Engine, Kind, Map, Row, Value};
use crate::source::{Draw, Source, Type};

/// A table, and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) engine: Engine,
    pub(crate) columns: Vec<(&'static str, Type)>,
    pub(crate) options: Vec<(String, String)>,
}

impl Setup {
    fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    fn schema(&self) -> TableSchema {
        let field = |name: &str, of: &str| DataField::new(name, of.parse().unwrap());
        let mut fields = vec![field("k", "BIGINT"), field("op", "STRING")];
        fields.extend(self.columns.iter().map(|(name, of)| {
            let of = match of {
                Type::Number => "BIGINT",
                Type::Text => "STRING",
                Type::Truth => "BOOLEAN",
            };
            field(name, of)
        }));
        let mut options: Options = [("rowkind.field", "op")].into_iter().collect();
        for (name, value) in &self.options {
            options.set(name.as_str(), value.as_str());
        }
        TableSchema::create(fields, vec![], vec!["k".into()], options, None, 0).unwrap()
    }

    fn names(&self) -> Vec<&'static str> {
        std::iter::once("k")
            .chain(self.columns.iter().map(|c| c.0))
            .collect()
    }
}

/// What the changes of a table come to.
enum Fold {
    /// Records as they came, or merged within a commit: applied by the same rules as the source's.
    Records(Map),
    /// Changes of rows: each applies to exactly the row that it names. They tell of the top level.
    Rows(BTreeMap<i64, Row>),
}

struct Play<'a> {
    setup: &'a Setup,
    name: String,
    store: Store,
    source: Source,
    /// The content at `at`.
    seen: Map,
    at: usize,
    fold: Fold,
    changes: Changes,
    draw: Draw,
    /// Records written at a time, at most.
    batch: u64,
    /// Commits that were compared with the map.
    compared: usize,
    crashes: usize,
    /// Commits at which a bucket had files on two levels above 0: a compaction had left the top level out.
    partly: usize,
}

fn batch(setup: &Setup, records: &[crate::source::Record]) -> RecordBatch {
    let keys = Int64Array::from_iter_values(records.iter().map(|r| r.key));
    let ops = StringArray::from_iter_values(records.iter().map(|r| r.kind.text()));
    let mut columns: Vec<(&str, ArrayRef, bool)> =
        vec![("k", Arc::new(keys), false), ("op", Arc::new(ops), true)];
    for (at, (name, of)) in setup.columns.iter().enumerate() {
        let cells = records.iter().map(|r| &r.row[at]);
        let array: ArrayRef = match of {
            Type::Number => Arc::new(Int64Array::from_iter(cells.map(|c| match c {
                Some(Value::Number(n)) => Some(*n),
                _ => None,
            }))),
            Type::Text => Arc::new(StringArray::from_iter(cells.map(|c| match c {
                Some(Value::Text(t)) => Some(t.as_str()),
                _ => None,
            }))),
            Type::Truth => Arc::new(BooleanArray::from_iter(cells.map(|c| match c {
                Some(Value::Truth(t)) => Some(*t),
                _ => None,
            }))),
        };
        columns.push((name, array, true));
    }
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn cell(array: &dyn Array, row: usize) -> Cell {
    if array.is_null(row) {
        return None;
    }
    Some(
        if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
            Value::Number(numbers.value(row))
        } else if let Some(texts) = array.as_string_opt::<i32>() {
            Value::Text(texts.value(row).to_owned())
        } else {
            Value::Truth(array.as_boolean().value(row))
        },
    )
}

/// Rows of `k` and the value columns.
fn rows(batch: &RecordBatch) -> Vec<(i64, Row)> {
    let keys = batch.column(0).as_primitive::<Int64Type>();
    let row = |at: usize| {
        let values = batch.columns().iter().skip(1);
        (keys.value(at), values.map(|c| cell(c, at)).collect())
    };
    (0..batch.num_rows()).map(row).collect()
}

impl<'a> Play<'a> {
    async fn new(setup: &'a Setup, name: String, seed: u64) -> Self {
        let store = Store::open("memory://", &BTreeMap::new()).unwrap();
        tidegate::commit::create_table(&store.child("table"), &setup.schema())
            .await
            .unwrap();
        let types: Vec<Type> = setup.columns.iter().map(|c| c.1).collect();
        let map = Map::new(setup.engine.clone(), types.len());
        let told_by_rows = setup.option("changelog-producer") == Some("full-compaction");
        let table = Table::on(store.child("table"), "t".into()).await.unwrap();
        let changes = table.reader().changes(From::Earliest).await.unwrap();
        let mut draw = Draw(seed);
        let keys = match draw.percent(50) {
            true => 20 + draw.below(60),
            false => 300 + draw.below(600),
        };
        Self {
            setup,
            name,
            store,
            source: Source::new(seed ^ 0x5eed, types, keys, setup.engine.clone()),
            fold: match told_by_rows {
                true => Fold::Rows(BTreeMap::new()),
                false => Fold::Records(map.clone()),
            },
            seen: map,
            at: 0,
            changes,
            batch: if draw.percent(15) { 80 } else { 260 },
            draw,
            compared: 0,
            crashes: 0,
            partly: 0,
        }
    }

    async fn table(&self) -> Table {
        Table::on(self.store.child("table"), "t".into())
            .await
            .unwrap()
    }

    async fn read(&self, plan: ScanPlan) -> BTreeMap<i64, Row> {
        let plan = plan.with_columns(&self.setup.names()).unwrap();
        let batches: Vec<RecordBatch> = plan.read().unwrap().try_collect().await.unwrap();
        let mut found = BTreeMap::new();
        for (key, row) in batches.iter().flat_map(rows) {
            let before = found.insert(key, row);
            assert!(before.is_none(), "{}: key {key} is there twice", self.name);
        }
        found
    }

    /// The map goes on to a position that the table has reached.
    fn advance(&mut self, to: usize) {
        assert!(
            to >= self.at,
            "{}: back from {} to {to}",
            self.name,
            self.at
        );
        for record in &self.source.records[self.at..to] {
            self.seen.apply(record.kind, record.key, &record.row);
        }
        self.at = to;
    }

    /// The content is the map's, and the fold of all changes is it too.
    async fn compare(&mut self, what: &str) {
        let table = self.table().await;
        let what = format!("{}: {what} at record {}", self.name, self.at);
        let plan = table.scan(&Default::default()).await.unwrap();
        let mut levels: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for split in plan.splits().iter().filter(|s| s.file.level.0 > 0) {
            let level = split.file.level.0;
            levels.entry(split.bucket).or_default().insert(level);
        }
        self.partly += usize::from(levels.values().any(|levels| levels.len() > 1));
        let found = self.read(plan).await;
        same(&found, &self.seen.rows, &what);
        while let Some(step) = self.changes.next().await.unwrap() {
            let step = step.with_columns(&self.setup.names()).unwrap();
            let mut stream = step.read().unwrap();
            while let Some(part) = stream.try_next().await.unwrap() {
                for ((key, row), kind) in rows(&part.rows).into_iter().zip(part.texts().iter()) {
                    let kind = Kind::ALL.into_iter().find(|k| Some(k.text()) == kind);
                    self.fold.apply(kind.unwrap(), key, row, &what);
                }
            }
        }
        match &self.fold {
            Fold::Records(map) => same(&map.rows, &self.seen.rows, &format!("{what}: changes")),
            Fold::Rows(told) => {
                let plan = table.scan(&Default::default()).await.unwrap();
                let top = self.read(plan.read_optimized()).await;
                same(told, &top, &format!("{what}: changelog and top level"));
            }
        }
        self.compared += 1;
    }

    async fn open(&self, faults: &Faults) -> Result<Stream> {
        let store = self.store.clone();
        let store = store
            .with_retry(RetryPolicy::none())
            .with_faults(faults.clone());
        let table = Table::on(store.child("table"), "t".into()).await?;
        let stream = table.stream("job")?;
        stream
            .checkpoint_store(store.child("checkpoints"))
            .open()
            .await
    }

    /// Some request soon is the process's last one, or fails, or its answer is lost.
    fn arm(&mut self, faults: &Faults) {
        let fault = match self.draw.below(6) {
            0..=1 => Fault::DieBefore,
            2..=3 => Fault::DieAfter,
            4 => Fault::After,
            _ => Fault::Before(ErrorKind::Transient),
        };
        let nth = 1 + self.draw.below(40) as u32;
        faults.rule(Rule::new(fault).nth(nth));
    }

    async fn compact(&mut self) {
        let full = self.draw.percent(50);
        let table = self.table().await;
        let options = CompactOptions {
            full,
            ..CompactOptions::default()
        };
        table.compact("compactor", options).await.unwrap();
        self.compare(if full {
            "full compaction"
        } else {
            "compaction"
        })
        .await;
    }

    /// One run of the job, until it crashes, ends, or `records` are through. An error is an injected one.
    async fn run(&mut self, records: usize) {
        let faults = Faults::new();
        if self.draw.percent(10) {
            self.arm(&faults);
        }
        let ended = self.live(records, &faults).await;
        if let Err(error) = ended {
            assert!(
                !faults.log().is_empty(),
                "{}: not injected: {error} at record {}",
                self.name,
                self.at
            );
            self.crashes += 1;
        }
    }

    async fn live(&mut self, records: usize, faults: &Faults) -> Result<()> {
        let mut stream = self.open(faults).await?;
        let mut next = position(&stream);
        self.advance(next);
        self.compare("opened").await;
        while next < records {
            match self.draw.below(100) {
                0..=4 => {
                    // Killed with rows in its buffers and perhaps a compaction under way.
                    self.crashes += 1;
                    return Ok(());
                }
                5..=6 => break,
                7..=9 if self.setup.engine.may_be_compacted_beside() => self.compact().await,
                10..=17 => self.arm(faults),
                18..=60 => {
                    let to = records.min(next + 1 + self.draw.below(self.batch) as usize);
                    self.source.up_to(to);
                    let rows = batch(self.setup, &self.source.records[next..to]);
                    stream.write(&rows, &to.to_be_bytes()).await?;
                    next = to;
                }
                _ => {
                    stream.checkpoint().await?;
                    self.advance(next);
                    self.compare("checkpoint").await;
                }
            }
        }
        stream.finish().await?;
        self.advance(next);
        self.compare("finished").await;
        Ok(())
    }

    /// Everything through, compacted fully, nothing left over.
    async fn end(&mut self, records: usize) {
        let none = Faults::new();
        let mut stream = self.open(&none).await.unwrap();
        let next = position(&stream);
        self.advance(next);
        self.source.up_to(records);
        let rows = batch(self.setup, &self.source.records[next..records]);
        stream.write(&rows, &records.to_be_bytes()).await.unwrap();
        stream.finish().await.unwrap();
        self.advance(records);
        self.compare("the end").await;
        let options = CompactOptions {
            full: true,
            ..CompactOptions::default()
        };
        let table = self.table().await;
        table.compact("compactor", options).await.unwrap();
        self.compare("the last compaction").await;
        let plan = table.scan(&Default::default()).await.unwrap();
        let top = self.read(plan.read_optimized()).await;
        same(
            &top,
            &self.seen.rows,
            &format!("{}: compacted fully", self.name),
        );
        let report = tidegate::verify::verify(&table).await.unwrap();
        let left = report
            .findings
            .iter()
            .filter(|f| f.kind.name() == "unknown-file");
        let left: Vec<_> = left.collect();
        assert_eq!(report.errors(), 0, "{}: {report:?}", self.name);
        assert!(left.is_empty(), "{}: left over: {left:?}", self.name);
    }
}

fn position(stream: &Stream) -> usize {
    let saved = stream.position();
    saved.map_or(0, |p| usize::from_be_bytes(p.try_into().unwrap()))
}

impl Engine {
    /// `first-row` shows nothing of level 0: where somebody else compacts beside it, its own compaction is
    /// the one that loses, and its rows are seen one checkpoint later.
    fn may_be_compacted_beside(&self) -> bool {
        !matches!(self, Self::FirstRow)
    }
}

impl Fold {
    fn apply(&mut self, kind: Kind, key: i64, row: Row, what: &str) {
        match self {
            Self::Records(map) => map.apply(kind, key, &row),
            Self::Rows(rows) if kind.retracts() => {
                let stood = rows.remove(&key);
                assert_eq!(stood, Some(row), "{what}: {} of key {key}", kind.text());
            }
            Self::Rows(rows) => {
                let stood = rows.insert(key, row);
                assert_eq!(stood, None, "{what}: {} of key {key}", kind.text());
            }
        }
    }
}

#[track_caller]
fn same(found: &BTreeMap<i64, Row>, wanted: &BTreeMap<i64, Row>, what: &str) {
    for key in found.keys().chain(wanted.keys()) {
        assert_eq!(
            found.get(key),
            wanted.get(key),
            "{what}: key {key}: found, and what the map says"
        );
    }
}

/// Plays `records` records; returns commits compared, those with files on two levels above 0, and crashes.
pub(crate) async fn play(setup: &Setup, name: String, seed: u64, records: usize) -> [usize; 3] {
    let mut play = Play::new(setup, name, seed).await;
    // The last ones are for the end, which compacts and looks for what is left over.
    let most = records.saturating_sub(50);
    while play.at < most {
        play.run(most).await;
    }
    play.end(records).await;
    [play.compared, play.partly, play.crashes]
}
