//! Lists, maps and rows, level by level. `None` = the Arrow type is not of that kind at all.

use super::{Converted, Fault, convert, first_null, shown};
use crate::error::Error;
use crate::types::join;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType as Arrow, Field, Fields};
use std::sync::Arc;
use tidegate_model::{DataField, DataType};

/// The same array whose null slots cover no children and whose children begin at the first one used.
fn compact(array: ArrayRef) -> Converted {
    let loose = |offsets: &OffsetBuffer<i32>, array: &dyn Array, children: usize| {
        let whole =
            offsets.first() == Some(&0) && offsets.last().is_some_and(|l| *l as usize == children);
        let hidden = array.null_count() > 0
            && offsets
                .lengths()
                .enumerate()
                .any(|(i, length)| length > 0 && array.is_null(i));
        !whole || hidden
    };
    let needed = match array.data_type() {
        Arrow::List(_) => {
            let list = array.as_list::<i32>();
            loose(list.offsets(), list, list.values().len())
        }
        Arrow::Map(_, _) => {
            let map = array.as_map();
            loose(map.offsets(), map, map.entries().len())
        }
        _ => false,
    };
    if !needed {
        return Ok(array);
    }
    let all = UInt64Array::from_iter_values(0..array.len() as u64);
    Ok(take(&array, &all, None)?)
}

/// The row in whose range a child lies.
fn row_of(offsets: &OffsetBuffer<i32>, child: usize) -> usize {
    offsets
        .partition_point(|o| (*o as usize) <= child)
        .saturating_sub(1)
}

pub(super) fn list(
    array: &ArrayRef,
    element: &DataType,
    target: &Arrow,
    path: &str,
) -> Option<Converted> {
    let Arrow::List(target) = target else {
        return None;
    };
    let list: ArrayRef = match array.data_type() {
        Arrow::List(_) => array.clone(),
        Arrow::LargeList(f)
        | Arrow::FixedSizeList(f, _)
        | Arrow::ListView(f)
        | Arrow::LargeListView(f) => match cast(array, &Arrow::List(f.clone())) {
            Ok(list) => list,
            Err(e) => return Some(Err(e.into())),
        },
        _ => return None,
    };
    Some((|| {
        let list = compact(list)?;
        let list = list.as_list::<i32>();
        let path = format!("{path}[element]");
        let values = convert(list.values(), element, target, &path)
            .map_err(|fault| fault.map_index(|i| row_of(list.offsets(), i)))?;
        let nulls = list.nulls().cloned();
        let made = ListArray::try_new(target.clone(), list.offsets().clone(), values, nulls)?;
        Ok(Arc::new(made) as ArrayRef)
    })())
}

pub(super) fn map(
    array: &ArrayRef,
    key: &DataType,
    value: &DataType,
    target: &Arrow,
    path: &str,
) -> Option<Converted> {
    let Arrow::Map(entry, sorted) = target else {
        return None;
    };
    let Arrow::Struct(targets) = entry.data_type() else {
        return None;
    };
    let (Arrow::Map(_, _), [key_target, value_target]) = (array.data_type(), targets.as_ref())
    else {
        return None;
    };
    Some((|| {
        let map = compact(array.clone())?;
        let map = map.as_map();
        let outwards = |fault: Fault| fault.map_index(|i| row_of(map.offsets(), i));
        let required = DataType {
            logical: key.logical.clone(),
            nullable: false,
        };
        let keys = convert(map.keys(), &required, key_target, &format!("{path}[key]"))
            .map_err(outwards)?;
        let outwards = |fault: Fault| fault.map_index(|i| row_of(map.offsets(), i));
        let values = convert(map.values(), value, value_target, &format!("{path}[value]"))
            .map_err(outwards)?;
        duplicate_keys(map, &keys, path)?;
        let entries = StructArray::try_new(targets.clone(), vec![keys, values], None)?;
        let nulls = map.nulls().cloned();
        let made = MapArray::try_new(
            entry.clone(),
            map.offsets().clone(),
            entries,
            nulls,
            *sorted,
        )?;
        Ok(Arc::new(made) as ArrayRef)
    })())
}

/// A map holds each key once; readers that build hash maps would drop one of two silently.
fn duplicate_keys(map: &MapArray, keys: &ArrayRef, path: &str) -> Result<(), Fault> {
    if map.offsets().lengths().all(|n| n < 2) || keys.data_type().is_nested() {
        return Ok(());
    }
    let converter =
        arrow::row::RowConverter::new(vec![arrow::row::SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    let mut seen = std::collections::HashSet::new();
    for (row, range) in map.offsets().windows(2).enumerate() {
        let [start, end] = *range else { continue };
        seen.clear();
        for i in start as usize..end as usize {
            if !seen.insert(rows.row(i)) {
                let (column, value) = (format!("{path}[key]"), shown(keys, i));
                return Err(Fault::at(row, move |row| Error::Value {
                    column,
                    row,
                    value,
                    reason: "occurs twice in one map".to_owned(),
                }));
            }
        }
    }
    Ok(())
}

pub(super) fn row(
    array: &ArrayRef,
    fields: &[DataField],
    target: &Arrow,
    path: &str,
) -> Option<Converted> {
    let (Arrow::Struct(_), Arrow::Struct(targets)) = (array.data_type(), target) else {
        return None;
    };
    Some(row_of_fields(array.as_struct(), fields, targets, path))
}

fn row_of_fields(
    array: &StructArray,
    fields: &[DataField],
    targets: &Fields,
    path: &str,
) -> Converted {
    let present = || array.column_names().join(", ");
    for name in array.column_names() {
        if !fields.iter().any(|f| f.name == name) {
            let known = fields
                .iter()
                .map(|f| f.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Error::UnknownColumn {
                column: join(path, name),
                known,
            }
            .into());
        }
    }
    let mut columns = Vec::with_capacity(fields.len());
    for (field, target) in fields.iter().zip(targets) {
        let path = join(path, &field.name);
        let Some(column) = array.column_by_name(&field.name) else {
            return Err(Error::MissingColumn {
                column: path,
                present: present(),
            }
            .into());
        };
        columns.push(field_of_row(array, column, field, target, &path)?);
    }
    let nulls = array.nulls().cloned();
    let made = if columns.is_empty() {
        StructArray::try_new_with_length(targets.clone(), columns, nulls, array.len())?
    } else {
        StructArray::try_new(targets.clone(), columns, nulls)?
    };
    Ok(Arc::new(made))
}

/// A field may be null below a null row even where it is `NOT NULL`.
fn field_of_row(
    row: &StructArray,
    column: &ArrayRef,
    field: &DataField,
    target: &Field,
    path: &str,
) -> Converted {
    let relaxed = DataType {
        logical: field.data_type.logical.clone(),
        nullable: true,
    };
    let made = convert(column, &relaxed, target, path)?;
    if !field.data_type.nullable
        && first_null(&made).is_some()
        && let Some(index) = (0..made.len()).find(|i| made.is_null(*i) && row.is_valid(*i))
    {
        return Err(Fault::null(path, index));
    }
    Ok(made)
}
