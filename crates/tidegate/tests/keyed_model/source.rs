//! What a stream brings: records drawn by a seed, such that their answer does not hang on when files are
//! compacted.
//!
//! Some sequences of records have no such answer, by the format's rules and with every implementation: a
//! late record whose delete was compacted away; a delete and a partial row in one merge, which leaves old
//! values behind; a retract of a key that is not there. Those are left out here, each at its place; they
//! have tests of their own.

use std::collections::BTreeMap;

use crate::map::{Cell, Engine, Kind, Map, Row, Value};

/// Numbers by a seed (splitmix).
#[derive(Clone, Debug)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Number,
    Text,
    Truth,
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) key: i64,
    pub(crate) row: Row,
}

/// Draws records and keeps them: a restart reads them again from any position.
pub(crate) struct Source {
    draw: Draw,
    types: Vec<Type>,
    keys: u64,
    /// The content after all that was drawn.
    ahead: Map,
    /// What no later record of a key may be older than: its last delete, by column.
    floors: BTreeMap<(i64, usize), Cell>,
    clock: i64,
    pub(crate) records: Vec<Record>,
}

impl Source {
    pub(crate) fn new(seed: u64, types: Vec<Type>, keys: u64, engine: Engine) -> Self {
        let columns = types.len();
        Self {
            draw: Draw(seed),
            types,
            keys,
            ahead: Map::new(engine, columns),
            floors: BTreeMap::new(),
            clock: 100,
            records: Vec::new(),
        }
    }

    /// Draws until there are at least so many records.
    pub(crate) fn up_to(&mut self, records: usize) {
        while self.records.len() < records {
            let key = self.draw.below(self.keys) as i64;
            self.clock += 1;
            match self.ahead.engine.clone() {
                Engine::Deduplicate { sequence } => self.deduplicate(key, sequence),
                Engine::FirstRow => {
                    let row = self.row();
                    let kind = Kind::ALL[self.draw.below(4) as usize];
                    self.push(kind, key, row);
                }
                Engine::PartialUpdate { .. } => self.partial(key),
                Engine::Aggregation { sequence, .. } => self.aggregation(key, sequence),
            }
        }
    }

    fn push(&mut self, kind: Kind, key: i64, row: Row) {
        self.ahead.apply(kind, key, &row);
        self.records.push(Record { kind, key, row });
    }

    fn cell(&mut self, of: Type) -> Cell {
        Some(match of {
            Type::Number => Value::Number(self.draw.below(2000) as i64 - 1000),
            Type::Text => Value::Text(format!("t{}", self.draw.below(500))),
            Type::Truth => Value::Truth(self.draw.percent(50)),
        })
    }

    fn row(&mut self) -> Row {
        let types = self.types.clone();
        let cells = types.into_iter().map(|of| match self.draw.percent(20) {
            true => None,
            false => self.cell(of),
        });
        cells.collect()
    }

    /// A value of an ordering column: often late, never older than the last delete of the key.
    fn order(&mut self, key: i64, at: usize) -> Cell {
        let late = match self.draw.percent(50) {
            true => 0,
            false => self.draw.below(60) as i64,
        };
        let drawn = match self.draw.percent(4) {
            true => None,
            false => Some(Value::Number(self.clock - late)),
        };
        let floor = self.floors.get(&(key, at)).cloned().flatten();
        drawn.max(floor)
    }

    fn deduplicate(&mut self, key: i64, sequence: Option<usize>) {
        let mut row = self.row();
        if let Some(at) = sequence {
            row[at] = self.order(key, at);
        }
        let stored = self.ahead.rows.get(&key).cloned();
        match self.draw.below(10) {
            0..=1 => {
                if let Some(at) = sequence
                    && stored.is_none_or(|stored| row[at] >= stored[at])
                {
                    self.floors.insert((key, at), row[at].clone());
                }
                self.push(Kind::Delete, key, row);
            }
            // An update as a database tells it.
            2..=3 if sequence.is_none() && stored.is_some() => {
                self.push(Kind::UpdateBefore, key, stored.unwrap_or_default());
                self.push(Kind::UpdateAfter, key, row);
            }
            n => {
                let kind = [Kind::Insert, Kind::UpdateAfter][n as usize % 2];
                self.push(kind, key, row);
            }
        }
    }

    fn partial(&mut self, key: i64) {
        let Engine::PartialUpdate {
            free,
            groups,
            delete_removes,
        } = self.ahead.engine.clone()
        else {
            return;
        };
        let nothing: Row = vec![None; self.types.len()];
        let removable = delete_removes || groups.iter().any(|g| g.removes);
        let Some(stored) = self.ahead.rows.get(&key).cloned() else {
            // What comes first, or after a delete, is complete and newest: one merge may hold the delete and
            // what stood before it, whose values come through else.
            let mut row = self.row();
            for at in free {
                row[at] = self.cell(self.types[at]);
            }
            for group in &groups {
                row[group.ordering] = Some(Value::Number(self.clock));
            }
            return self.push(Kind::Insert, key, row);
        };
        match self.draw.below(10) {
            0 if delete_removes => self.push(Kind::Delete, key, nothing),
            // A delete that is late could meet newer rows of lower levels only, or their older ones first.
            0 if removable => {
                let mut row = nothing;
                for group in groups.iter().filter(|g| g.removes) {
                    row[group.ordering] = Some(Value::Number(self.clock));
                }
                self.push(Kind::Delete, key, row);
            }
            // The other groups are taken back: their order, and no values, so that it is the same whether the
            // merge has an older row or not.
            1 if groups.iter().any(|g| !g.removes) => {
                let mut row = nothing;
                for group in groups.iter().filter(|g| !g.removes) {
                    row[group.ordering] = self.order(key, group.ordering);
                }
                self.push(Kind::UpdateBefore, key, row);
            }
            n => {
                let mut row = self.row();
                for group in &groups {
                    row[group.ordering] = match self.draw.percent(30) {
                        true => None,
                        false => self.order(key, group.ordering),
                    };
                }
                drop(stored);
                self.push([Kind::Insert, Kind::UpdateAfter][n as usize % 2], key, row);
            }
        }
    }

    fn aggregation(&mut self, key: i64, sequence: Option<usize>) {
        let mut row = self.row();
        if let Some(at) = sequence {
            row[at] = Some(Value::Number(self.clock - self.draw.below(60) as i64));
        }
        let live = self.ahead.rows.contains_key(&key);
        // A retract takes the order back too, so that none are drawn where there is one.
        let retracts = live && sequence.is_none() && self.draw.percent(20);
        let kind = match (retracts, self.draw.percent(50)) {
            (true, true) => Kind::Delete,
            (true, false) => Kind::UpdateBefore,
            (false, true) => Kind::Insert,
            (false, false) => Kind::UpdateAfter,
        };
        self.push(kind, key, row);
    }
}
