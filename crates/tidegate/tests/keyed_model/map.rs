//! What a keyed table must hold: a map, changed record by record in the order in which the source gives
//! them. Written from the sheets' rules and not from `tidegate-merge`: no files, no levels, no batches.

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Number(i64),
    Text(String),
    Truth(bool),
}

/// A value or null.
pub(crate) type Cell = Option<Value>;
/// The columns behind the key.
pub(crate) type Row = Vec<Cell>;

/// What happens to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    UpdateBefore,
    UpdateAfter,
    Delete,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Self::Insert,
        Self::UpdateBefore,
        Self::UpdateAfter,
        Self::Delete,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Insert => "+I",
            Self::UpdateBefore => "-U",
            Self::UpdateAfter => "+U",
            Self::Delete => "-D",
        }
    }

    pub(crate) fn retracts(self) -> bool {
        matches!(self, Self::UpdateBefore | Self::Delete)
    }
}

/// What a column of `aggregation`, or of a sequence group, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Sum,
    Max,
    Min,
    LastValue,
    LastNonNull,
    FirstValue,
    FirstNonNull,
    Concatenate,
    And,
    Or,
}

/// A sequence group of `partial-update`.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) ordering: usize,
    /// Columns that are taken as they are.
    pub(crate) plain: Vec<usize>,
    /// Columns with a function.
    pub(crate) computed: Vec<(usize, Function)>,
    /// A delete that is new enough removes the row.
    pub(crate) removes: bool,
}

/// How records of one key become a row.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    /// The newest record counts: by arrival, or by a column.
    Deduplicate {
        sequence: Option<usize>,
    },
    FirstRow,
    PartialUpdate {
        free: Vec<usize>,
        groups: Vec<Group>,
        /// `partial-update.remove-record-on-delete`
        delete_removes: bool,
    },
    Aggregation {
        functions: Vec<Function>,
        sequence: Option<usize>,
    },
}

/// The content of a table.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) engine: Engine,
    pub(crate) columns: usize,
    pub(crate) rows: BTreeMap<i64, Row>,
}

fn truth(cell: &Cell) -> Option<bool> {
    match cell {
        Some(Value::Truth(t)) => Some(*t),
        _ => None,
    }
}

fn number(cell: &Cell) -> i64 {
    match cell {
        Some(Value::Number(n)) => *n,
        other => panic!("{other:?} is no number"),
    }
}

fn text(cell: &Cell) -> &str {
    match cell {
        Some(Value::Text(t)) => t,
        other => panic!("{other:?} is no text"),
    }
}

/// `old` with `new` added after it.
fn added(function: Function, old: &Cell, new: &Cell) -> Cell {
    use Function as F;
    match function {
        F::LastValue => new.clone(),
        F::FirstValue => old.clone(),
        F::LastNonNull => new.clone().or_else(|| old.clone()),
        F::FirstNonNull => old.clone().or_else(|| new.clone()),
        _ if old.is_none() => new.clone(),
        _ if new.is_none() => old.clone(),
        F::Sum => Some(Value::Number(number(old) + number(new))),
        F::Max => old.clone().max(new.clone()),
        F::Min => old.clone().min(new.clone()),
        F::Concatenate => Some(Value::Text(format!("{},{}", text(old), text(new)))),
        F::And => Some(Value::Truth(
            truth(old) == Some(true) && truth(new) == Some(true),
        )),
        F::Or => Some(Value::Truth(
            truth(old) == Some(true) || truth(new) == Some(true),
        )),
    }
}

/// `old` with `gone` taken back: only sums and last values know how; the tables of this test say
/// `ignore-retract` for all others.
fn taken_back(function: Function, old: &Cell, gone: &Cell) -> Cell {
    match function {
        Function::Sum => match (old, gone) {
            (_, None) => old.clone(),
            (None, Some(_)) => Some(Value::Number(-number(gone))),
            _ => Some(Value::Number(number(old) - number(gone))),
        },
        Function::LastValue => None,
        _ => old.clone(),
    }
}

impl Map {
    pub(crate) fn new(engine: Engine, columns: usize) -> Self {
        Self {
            engine,
            columns,
            rows: BTreeMap::new(),
        }
    }

    pub(crate) fn apply(&mut self, kind: Kind, key: i64, row: &Row) {
        assert_eq!(row.len(), self.columns);
        match &self.engine {
            Engine::Deduplicate { sequence } => {
                let late = sequence.is_some_and(|at| {
                    let stored = self.rows.get(&key);
                    stored.is_some_and(|stored| row[at] < stored[at])
                });
                match (late, kind.retracts()) {
                    (true, _) => {}
                    (false, true) => drop(self.rows.remove(&key)),
                    (false, false) => drop(self.rows.insert(key, row.clone())),
                }
            }
            Engine::FirstRow => {
                if !kind.retracts() {
                    self.rows.entry(key).or_insert_with(|| row.clone());
                }
            }
            Engine::PartialUpdate { .. } => self.partial(kind, key, row),
            Engine::Aggregation { .. } => self.aggregate(kind, key, row),
        }
    }

    fn partial(&mut self, kind: Kind, key: i64, row: &Row) {
        let Engine::PartialUpdate {
            free,
            groups,
            delete_removes,
        } = &self.engine
        else {
            return;
        };
        if kind.retracts() {
            let Some(stored) = self.rows.get_mut(&key) else {
                return;
            };
            let newer = |g: &Group, stored: &Row| {
                row[g.ordering].is_some() && row[g.ordering] >= stored[g.ordering]
            };
            let removes = groups.iter().any(|g| g.removes && newer(g, stored));
            if kind == Kind::Delete && (removes || *delete_removes) {
                self.rows.remove(&key);
                return;
            }
            for group in groups {
                if newer(group, stored) {
                    stored[group.ordering].clone_from(&row[group.ordering]);
                    group.plain.iter().for_each(|at| stored[*at] = None);
                }
            }
            return;
        }
        let empty = vec![None; self.columns];
        let stored = self.rows.entry(key).or_insert(empty);
        for at in free {
            if row[*at].is_some() {
                stored[*at].clone_from(&row[*at]);
            }
        }
        for group in groups.iter().filter(|g| row[g.ordering].is_some()) {
            let newer = row[group.ordering] >= stored[group.ordering];
            if newer {
                stored[group.ordering].clone_from(&row[group.ordering]);
                for at in &group.plain {
                    stored[*at].clone_from(&row[*at]);
                }
            }
            for (at, function) in &group.computed {
                stored[*at] = match newer {
                    true => added(*function, &stored[*at], &row[*at]),
                    false => added(*function, &row[*at], &stored[*at]),
                };
            }
        }
    }

    fn aggregate(&mut self, kind: Kind, key: i64, row: &Row) {
        let Engine::Aggregation {
            functions,
            sequence,
        } = &self.engine
        else {
            return;
        };
        let Some(stored) = self.rows.get_mut(&key) else {
            if !kind.retracts() {
                self.rows.insert(key, row.clone());
            }
            return;
        };
        let late = sequence.is_some_and(|at| row[at] < stored[at]);
        for (at, function) in functions.iter().enumerate() {
            stored[at] = match (kind.retracts(), late) {
                (true, _) => taken_back(*function, &stored[at], &row[at]),
                (false, false) => added(*function, &stored[at], &row[at]),
                (false, true) => added(*function, &row[at], &stored[at]),
            };
        }
    }
}
