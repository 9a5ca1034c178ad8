//! Functions over arrays: `collect`, `nested_update`, `nested_partial_update`.
//!
//! Elements stay where they are; accumulators hold references to them, told apart by sort-key bytes.
//! The order of elements is that of their first appearance. Java's is that of a hash table where it
//! tells elements apart: the same elements, in no order that means anything.

use super::{Column, select};
use crate::engine::{Op, RowRef};
use crate::error::Result;
use crate::sort_key::one_nan;
use crate::spec::function::NullKeys;
use arrow::array::{Array, ArrayRef, ListArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef};
use arrow::row::{RowConverter, Rows, SortField};
use std::collections::HashMap;
use std::sync::Arc;

/// What `nested_update` and `nested_partial_update` go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nested<'a> {
    pub(super) key: &'a [usize],
    pub(super) sequence: &'a [usize],
    pub(super) nulls: NullKeys,
    pub(super) limit: usize,
}

/// An element: its batch, and its place among the elements of all lists there.
type Element = RowRef;

struct Lists<'a> {
    column: Column<'a>,
    arrays: Vec<&'a ListArray>,
    elements: Vec<ArrayRef>,
}

impl<'a> Lists<'a> {
    fn new(column: Column<'a>) -> Result<Self> {
        let arrays = column.typed::<ListArray>()?;
        let elements = arrays.iter().map(|a| a.values().clone()).collect();
        Ok(Self {
            column,
            arrays,
            elements,
        })
    }

    /// The elements of a row's list; `None` where it is null.
    fn of(&self, row: RowRef) -> Option<Vec<Element>> {
        let array = self
            .arrays
            .get(row.batch as usize)
            .filter(|_| !self.column.is_null(row))?;
        let offsets = array.value_offsets();
        let (start, end) = (offsets.get(row.row())?, offsets.get(row.row() + 1)?);
        let element = |at: i32| Element {
            batch: row.batch,
            row: at as u32,
        };
        Some((*start..*end).map(element).collect())
    }

    fn is_null(&self, element: Element) -> bool {
        let elements = self.elements.get(element.batch as usize);
        elements.is_none_or(|e| element.row() >= e.len() || e.is_null(element.row()))
    }

    /// Bytes that tell elements apart.
    fn identities(&self) -> Result<Vec<Rows>> {
        identities(
            &self
                .elements
                .iter()
                .map(|e| vec![e.clone()])
                .collect::<Vec<_>>(),
        )
    }

    /// Columns of element rows, by batch.
    fn fields(&self, places: &[usize]) -> Vec<Vec<ArrayRef>> {
        let picked = |e: &ArrayRef| -> Vec<ArrayRef> {
            let rows = e.as_any().downcast_ref::<StructArray>();
            let column = |at: &usize| rows.and_then(|r| r.columns().get(*at).cloned());
            places.iter().filter_map(column).collect()
        };
        self.elements.iter().map(picked).collect()
    }

    fn build(&self, lists: &[Option<Vec<Element>>]) -> Result<ArrayRef> {
        let flat: Vec<_> = lists.iter().flatten().flatten().map(|e| Some(*e)).collect();
        self.assemble(
            lists.iter().map(|l| l.as_ref().map(Vec::len)),
            select(&self.elements, &flat)?,
        )
    }

    fn assemble(
        &self,
        lengths: impl Iterator<Item = Option<usize>> + Clone,
        elements: ArrayRef,
    ) -> Result<ArrayRef> {
        let field = match self.arrays.first().map(|a| a.data_type()) {
            Some(DataType::List(field)) => field.clone(),
            _ => FieldRef::new(arrow::datatypes::Field::new(
                "element",
                elements.data_type().clone(),
                true,
            )),
        };
        let offsets = offsets(lengths.clone().map(|l| l.unwrap_or(0)))?;
        let nulls: NullBuffer = lengths.map(|l| l.is_some()).collect();
        Ok(Arc::new(ListArray::try_new(
            field,
            offsets,
            elements,
            Some(nulls),
        )?))
    }
}

/// Offsets of lists of these lengths.
pub(super) fn offsets(lengths: impl Iterator<Item = usize>) -> Result<OffsetBuffer<i32>> {
    let mut end: i32 = 0;
    let mut out = vec![0];
    for length in lengths {
        let longer = i32::try_from(length).ok().and_then(|l| end.checked_add(l));
        end = longer.ok_or_else(|| {
            crate::error::Error::Batch(
                "merged lists have more than 2^31 elements; read fewer rows at once".into(),
            )
        })?;
        out.push(end);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(out)))
}

/// Sort keys of columns, by batch.
pub(super) fn identities(columns: &[Vec<ArrayRef>]) -> Result<Vec<Rows>> {
    let Some(first) = columns.first() else {
        return Ok(Vec::new());
    };
    let fields = first
        .iter()
        .map(|c| SortField::new(c.data_type().clone()))
        .collect();
    let converter = RowConverter::new(fields)?;
    let mut out = Vec::with_capacity(columns.len());
    for batch in columns {
        let batch: Vec<_> = batch.iter().cloned().map(one_nan).collect();
        out.push(converter.convert_columns(&batch)?);
    }
    Ok(out)
}

/// The bytes of a referenced row. Rows are in range: references come from the same arrays.
pub(super) fn bytes(rows: &[Rows], at: RowRef) -> &[u8] {
    rows.get(at.batch as usize)
        .map_or(&[], |r| r.row(at.row()).data())
}

pub(super) fn collect(column: Column<'_>, distinct: bool) -> Result<ArrayRef> {
    let lists = Lists::new(column)?;
    let identities = lists.identities()?;
    let identity = |e: Element| bytes(&identities, e);
    let once = |elements: Vec<Element>| {
        let mut seen = std::collections::HashSet::new();
        elements
            .into_iter()
            .filter(|e| seen.insert(identity(*e)))
            .collect()
    };
    let mut out = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut list: Option<Vec<Element>> = None;
        for (op, row) in group {
            let given = lists.of(row);
            list = match op {
                Op::Set => given,
                Op::Add | Op::AddOlder => match (list, given) {
                    (None, None) => None,
                    (a, b) => {
                        let both = a.into_iter().chain(b).flatten().collect();
                        Some(if distinct { once(both) } else { both })
                    }
                },
                Op::Retract | Op::RetractOlder => list.map(|list| {
                    let mut taken: HashMap<&[u8], usize> = HashMap::new();
                    for element in given.into_iter().flatten() {
                        *taken.entry(identity(element)).or_default() += 1;
                    }
                    let keep = |e: &Element| match taken.get_mut(identity(*e)) {
                        Some(left @ 1..) => {
                            *left -= 1;
                            false
                        }
                        _ => true,
                    };
                    list.into_iter().filter(keep).collect()
                }),
            };
        }
        out.push(list);
    }
    lists.build(&out)
}

/// Keys of element rows.
struct Keys {
    bytes: Vec<Rows>,
    columns: Vec<Vec<ArrayRef>>,
}

impl Keys {
    fn new(lists: &Lists<'_>, places: &[usize]) -> Result<Self> {
        let columns = lists.fields(places);
        Ok(Self {
            bytes: identities(&columns)?,
            columns,
        })
    }

    fn of(&self, element: Element) -> &[u8] {
        bytes(&self.bytes, element)
    }

    fn has_null(&self, element: Element) -> bool {
        let columns = self.columns.get(element.batch as usize);
        columns.is_some_and(|c| c.iter().any(|a| a.is_null(element.row())))
    }

    /// Whether the element counts \[W-64]: by `nested-key-null-strategy`.
    fn counts(
        &self,
        element: Element,
        nulls: NullKeys,
        column: Column<'_>,
        row: RowRef,
    ) -> Result<bool> {
        match nulls {
            NullKeys::Merge => Ok(true),
            _ if !self.has_null(element) => Ok(true),
            NullKeys::Ignore => Ok(false),
            NullKeys::Error => Err(column.refuse(
                row,
                format!(
                    "an element has a null in its nested key; leave such elements out by \
                     'fields.{}.nested-key-null-strategy' = 'ignore'",
                    column.name
                ),
            )),
        }
    }
}

pub(super) fn nested_update(column: Column<'_>, nested: Nested<'_>) -> Result<ArrayRef> {
    let lists = Lists::new(column)?;
    let keyed = !nested.key.is_empty();
    let keys = match keyed {
        true => Keys::new(&lists, nested.key)?,
        false => Keys {
            bytes: lists.identities()?,
            columns: Vec::new(),
        },
    };
    let sequence = match nested.sequence.is_empty() {
        true => None,
        false => Some(identities(&lists.fields(nested.sequence))?),
    };
    let present = |list: Vec<Element>| -> Vec<Element> {
        list.into_iter().filter(|e| !lists.is_null(*e)).collect()
    };
    // A null list adds nothing; elements that are null go with the first merge.
    let add = |list: Option<Vec<Element>>, given: Option<Vec<Element>>, row: RowRef| -> Result<_> {
        let Some(given) = given else { return Ok(list) };
        if !keyed {
            let Some(list) = list else {
                return Ok(Some(
                    present(given).into_iter().take(nested.limit).collect(),
                ));
            };
            if list.len() >= nested.limit {
                return Ok(Some(list));
            }
            let more = nested.limit - list.len();
            let given = present(given).into_iter().take(more);
            return Ok(Some(present(list).into_iter().chain(given).collect()));
        }
        let mut out: Vec<Element> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        let all = list.into_iter().flatten().map(|e| (e, false));
        for (element, new) in all.chain(given.into_iter().map(|e| (e, true))) {
            if lists.is_null(element) || !keys.counts(element, nested.nulls, column, row)? {
                continue;
            }
            let known = places.get(keys.of(element)).copied();
            if let Some(old) = known.and_then(|at| out.get_mut(at)) {
                let newer = |s: &Vec<Rows>| bytes(s, element) >= bytes(s, *old);
                if sequence.as_ref().is_none_or(newer) {
                    *old = element;
                }
            } else if !new || out.len() < nested.limit {
                places.insert(keys.of(element), out.len());
                out.push(element);
            }
        }
        Ok(Some(out))
    };
    let mut out = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut list: Option<Vec<Element>> = None;
        for (op, row) in group {
            let given = lists.of(row);
            list = match op {
                Op::Set => given,
                Op::Add => add(list, given, row)?,
                Op::AddOlder => add(given, list, row)?,
                Op::Retract | Op::RetractOlder => match (list, given) {
                    (Some(list), Some(given)) => {
                        let taken: std::collections::HashSet<&[u8]> =
                            present(given).into_iter().map(|e| keys.of(e)).collect();
                        Some(
                            present(list)
                                .into_iter()
                                .filter(|e| !taken.contains(keys.of(*e)))
                                .collect(),
                        )
                    }
                    (list, _) => list,
                },
            };
        }
        out.push(list);
    }
    lists.build(&out)
}

/// An element row as it came, or put together of several.
enum Row {
    Whole(Element),
    /// Any element with its key, and where each field comes from.
    Parts(Element, Vec<Option<Element>>),
}

pub(super) fn nested_partial_update(column: Column<'_>, nested: Nested<'_>) -> Result<ArrayRef> {
    let lists = Lists::new(column)?;
    let keys = Keys::new(&lists, nested.key)?;
    let width = match lists.elements.first().map(|e| e.data_type()) {
        Some(DataType::Struct(fields)) => fields.len(),
        _ => 0,
    };
    let every: Vec<usize> = (0..width).collect();
    let fields = lists.fields(&every);
    let part = |element: Element, field: usize| {
        let array = fields
            .get(element.batch as usize)
            .and_then(|b| b.get(field));
        array.filter(|a| a.is_valid(element.row())).map(|_| element)
    };
    let parts = |row: &Row, field: usize| match row {
        Row::Whole(element) => part(*element, field),
        Row::Parts(_, parts) => parts.get(field).copied().flatten(),
    };
    let add = |list: Option<Vec<Row>>, given: Option<Vec<Row>>, at: RowRef| -> Result<_> {
        let Some(given) = given else { return Ok(list) };
        let mut out: Vec<Row> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        for row in list.into_iter().flatten().chain(given) {
            let (Row::Whole(element) | Row::Parts(element, _)) = row;
            if matches!(row, Row::Whole(e) if lists.is_null(e))
                || !keys.counts(element, nested.nulls, column, at)?
            {
                continue;
            }
            match places.get(keys.of(element)).and_then(|i| out.get_mut(*i)) {
                Some(Row::Parts(_, old)) => {
                    for (field, slot) in old.iter_mut().enumerate() {
                        *slot = parts(&row, field).or(*slot);
                    }
                }
                _ => {
                    places.insert(keys.of(element), out.len());
                    out.push(Row::Parts(
                        element,
                        every.iter().map(|f| parts(&row, *f)).collect(),
                    ));
                }
            }
        }
        Ok(Some(out))
    };
    let mut out: Vec<Option<Vec<Row>>> = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut list: Option<Vec<Row>> = None;
        for (op, row) in group {
            let whole = |elements: Vec<Element>| elements.into_iter().map(Row::Whole).collect();
            let given = lists.of(row).map(whole);
            list = match op {
                Op::Set => given,
                Op::Add => add(list, given, row)?,
                Op::AddOlder => add(given, list, row)?,
                Op::Retract | Op::RetractOlder => return Err(column.takes_no_retracts(row)),
            };
        }
        out.push(list);
    }
    let flat: Vec<&Row> = out.iter().flatten().flatten().collect();
    let mut columns = Vec::with_capacity(width);
    for field in &every {
        let arrays: Vec<ArrayRef> = fields
            .iter()
            .filter_map(|b| b.get(*field).cloned())
            .collect();
        let picks: Vec<_> = flat.iter().map(|row| parts(row, *field)).collect();
        columns.push(select(&arrays, &picks)?);
    }
    let rows: ArrayRef = match lists.elements.first().map(|e| e.data_type()) {
        Some(DataType::Struct(fields)) => {
            let present = |row: &&Row| !matches!(row, Row::Whole(e) if lists.is_null(*e));
            let nulls: NullBuffer = flat.iter().map(present).collect();
            Arc::new(StructArray::try_new(fields.clone(), columns, Some(nulls))?)
        }
        _ => select(&lists.elements, &[])?,
    };
    lists.assemble(out.iter().map(|l| l.as_ref().map(Vec::len)), rows)
}
