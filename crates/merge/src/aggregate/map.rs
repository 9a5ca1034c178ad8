//! `merge_map` and `merge_map_with_keytime`: the newer entry of a key wins, by arrival or by a time
//! that the value carries. Entries stay where they are, as those of lists do.

use super::list::{bytes, identities, offsets};
use super::{Column, select};
use crate::engine::{Op, RowRef};
use crate::error::Result;
use arrow::array::{Array, ArrayRef, MapArray, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::row::Rows;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An entry: its batch, and its place among the entries of all maps there.
type Entry = RowRef;

struct Maps<'a> {
    column: Column<'a>,
    arrays: Vec<&'a MapArray>,
    keys: Vec<Rows>,
    /// The texts by which values order, by batch.
    times: Option<Vec<&'a StringArray>>,
}

impl<'a> Maps<'a> {
    fn new(column: Column<'a>, time: Option<usize>) -> Result<Self> {
        let arrays = column.typed::<MapArray>()?;
        let keys: Vec<_> = arrays.iter().map(|a| vec![a.keys().clone()]).collect();
        let times = time.map(|at| {
            let text = |a: &&'a MapArray| -> Option<&'a StringArray> {
                let rows = a.values().as_any().downcast_ref::<StructArray>()?;
                rows.columns().get(at)?.as_any().downcast_ref()
            };
            arrays.iter().map(text).collect::<Option<Vec<_>>>()
        });
        let times = match times {
            Some(None) => {
                return Err(crate::error::Error::Column {
                    column: column.name.to_owned(),
                    what: "the time in its values comes as something else than a text".into(),
                });
            }
            Some(Some(times)) => Some(times),
            None => None,
        };
        Ok(Self {
            column,
            keys: identities(&keys)?,
            arrays,
            times,
        })
    }

    fn of(&self, row: RowRef) -> Option<Vec<Entry>> {
        let array = self
            .arrays
            .get(row.batch as usize)
            .filter(|_| !self.column.is_null(row))?;
        let offsets = array.value_offsets();
        let (start, end) = (offsets.get(row.row())?, offsets.get(row.row() + 1)?);
        Some(
            (*start..*end)
                .map(|at| Entry {
                    batch: row.batch,
                    row: at as u32,
                })
                .collect(),
        )
    }

    fn key(&self, entry: Entry) -> &[u8] {
        bytes(&self.keys, entry)
    }

    fn has_value(&self, entry: Entry) -> bool {
        self.arrays
            .get(entry.batch as usize)
            .is_some_and(|a| a.values().is_valid(entry.row()))
    }

    /// The time of an entry's value, in the order of Java's texts.
    fn time(&self, entry: Entry) -> Option<Vec<u16>> {
        let texts = self.times.as_ref()?.get(entry.batch as usize)?;
        (self.has_value(entry) && texts.is_valid(entry.row()))
            .then(|| texts.value(entry.row()).encode_utf16().collect())
    }

    /// `given` over `map`.
    fn add(&self, map: Option<Vec<Entry>>, given: Option<Vec<Entry>>) -> Option<Vec<Entry>> {
        let (map, given) = match (map, given) {
            (Some(map), Some(given)) => (map, given),
            (map, given) => return map.or(given),
        };
        let mut out: Vec<Option<Entry>> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let all = map
            .into_iter()
            .map(|e| (e, false))
            .chain(given.into_iter().map(|e| (e, true)));
        for (entry, new) in all {
            let at = *places.entry(self.key(entry)).or_insert_with(|| {
                out.push(None);
                out.len() - 1
            });
            let Some(slot) = out.get_mut(at) else {
                continue;
            };
            *slot = match (&self.times, new) {
                // A null takes the key away; a value without time changes nothing.
                (Some(_), true) if !self.has_value(entry) => None,
                (Some(_), true) => match (self.time(entry), *slot) {
                    (None, old) => old,
                    (Some(_), None) => Some(entry),
                    (Some(time), Some(old)) => Some(match self.time(old) {
                        Some(before) if time <= before => old,
                        _ => entry,
                    }),
                },
                _ => Some(entry),
            };
        }
        Some(out.into_iter().flatten().collect())
    }

    fn build(&self, maps: &[Option<Vec<Entry>>]) -> Result<ArrayRef> {
        let flat: Vec<_> = maps.iter().flatten().flatten().map(|e| Some(*e)).collect();
        let keys: Vec<_> = self.arrays.iter().map(|a| a.keys().clone()).collect();
        let values: Vec<_> = self.arrays.iter().map(|a| a.values().clone()).collect();
        let columns = vec![select(&keys, &flat)?, select(&values, &flat)?];
        let (field, ordered) = match self.arrays.first().map(|a| a.data_type()) {
            Some(DataType::Map(field, ordered)) => (field.clone(), *ordered),
            _ => return Ok(arrow::array::new_null_array(&DataType::Null, maps.len())),
        };
        let entries = match field.data_type() {
            DataType::Struct(fields) => StructArray::try_new(fields.clone(), columns, None)?,
            other => {
                return Err(crate::error::Error::Column {
                    column: self.column.name.to_owned(),
                    what: format!("comes as a map of {other}"),
                });
            }
        };
        let lengths = maps.iter().map(|m| m.as_ref().map_or(0, Vec::len));
        let nulls: NullBuffer = maps.iter().map(Option::is_some).collect();
        Ok(Arc::new(MapArray::try_new(
            field,
            offsets(lengths)?,
            entries,
            Some(nulls),
            ordered,
        )?))
    }
}

pub(super) fn merge(column: Column<'_>, time: Option<usize>) -> Result<ArrayRef> {
    let maps = Maps::new(column, time)?;
    let mut out = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut map: Option<Vec<Entry>> = None;
        for (op, row) in group {
            let given = maps.of(row);
            map = match op {
                Op::Set => given,
                Op::Add => maps.add(map, given),
                Op::AddOlder => maps.add(given, map),
                _ if time.is_some() => return Err(column.takes_no_retracts(row)),
                Op::Retract | Op::RetractOlder => map.map(|map| {
                    let taken: HashSet<&[u8]> =
                        given.iter().flatten().map(|e| maps.key(*e)).collect();
                    map.into_iter()
                        .filter(|e| !taken.contains(maps.key(*e)))
                        .collect()
                }),
            };
        }
        out.push(map);
    }
    maps.build(&out)
}
