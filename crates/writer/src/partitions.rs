//! Which partition the rows of a batch belong to, as numbers.
//!
//! Owns the partitions met so far, each with a number in the order of their first rows. What makes
//! two values one partition is the binary row \[F-4.5]; since encoding one for every row costs more
//! than everything else on the way, tables with a single partition column remember the number of
//! each raw value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use tidegate_model::BinaryRow;

use crate::error::{Result, WriterError};
use crate::fold::Fold;
use crate::keys::{KeyColumns, KeyRows};

/// Partitions by number.
#[derive(Debug)]
pub(crate) struct Partitions {
    key: KeyColumns,
    rows: Vec<BinaryRow>,
    by_row: HashMap<Arc<[u8]>, u32, Fold>,
    memo: Memo,
}

/// Numbers of raw values of a single partition column.
#[derive(Debug, Default)]
struct Memo {
    null: Option<u32>,
    words: HashMap<u64, u32, Fold>,
    short: HashMap<Short, u32, Fold>,
    bytes: HashMap<Box<[u8]>, u32, Fold>,
}

/// Up to sixteen bytes as two words and their number, which compare and hash without a loop: the words
/// overlap where there are fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Short {
    first: u64,
    last: u64,
    length: u64,
}

impl Short {
    fn of(bytes: &[u8]) -> Option<Self> {
        let length = bytes.len() as u64;
        let (first, last) = match bytes.len() {
            0..=3 => {
                let word = |word, byte: &u8| (word << 8) | u64::from(*byte);
                (bytes.iter().fold(0, word), 0)
            }
            4..=7 => {
                let (first, last) = (bytes.first_chunk::<4>()?, bytes.last_chunk::<4>()?);
                let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
                (word(first), word(last))
            }
            8..=16 => {
                let (first, last) = (bytes.first_chunk::<8>()?, bytes.last_chunk::<8>()?);
                (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
            }
            _ => return None,
        };
        Some(Self {
            first,
            last,
            length,
        })
    }
}

impl Partitions {
    pub(crate) fn new(key: KeyColumns) -> Self {
        Self {
            key,
            rows: Vec::new(),
            by_row: HashMap::default(),
            memo: Memo::default(),
        }
    }

    /// All of them, by number.
    pub(crate) fn rows(&self) -> &[BinaryRow] {
        &self.rows
    }

    /// Memory of what is remembered, about.
    pub(crate) fn memory(&self) -> usize {
        let row = self.rows.first().map_or(8, |r| r.bytes().len());
        self.rows.len() * (2 * row + 144)
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Forgets all but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
        let stays = |number: &u32| (*number as usize) < count;
        self.by_row.retain(|_, number| stays(number));
        self.memo.words.retain(|_, number| stays(number));
        self.memo.short.retain(|_, number| stays(number));
        self.memo.bytes.retain(|_, number| stays(number));
        self.memo.null = self.memo.null.filter(stays);
    }

    /// Fills the number of every row's partition.
    pub(crate) fn assign(
        &mut self,
        batch: &RecordBatch,
        keys: &mut KeyRows,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        numbers.clear();
        if self.key.len() == 0 {
            if self.rows.is_empty() {
                self.rows.push(BinaryRow::empty());
            }
            numbers.resize(batch.num_rows(), 0);
            return Ok(());
        }
        if let Some(column) = self.key.single(batch) {
            match column.data_type() {
                DataType::Utf8 => {
                    return self.by_bytes(batch, column.as_string::<i32>(), keys, numbers);
                }
                DataType::Int8 => return self.by_word::<Int8Type>(batch, column, keys, numbers),
                DataType::Int16 => return self.by_word::<Int16Type>(batch, column, keys, numbers),
                DataType::Int32 => return self.by_word::<Int32Type>(batch, column, keys, numbers),
                DataType::Int64 => return self.by_word::<Int64Type>(batch, column, keys, numbers),
                DataType::Date32 => {
                    return self.by_word::<Date32Type>(batch, column, keys, numbers);
                }
                _ => {}
            }
        }
        self.key.encode(batch, keys)?;
        let mut last: Option<(&[u8], u32)> = None;
        for row in keys.iter() {
            let number = match last {
                Some((bytes, number)) if bytes == row => number,
                _ => number_of(&mut self.rows, &mut self.by_row, self.key.len(), row)?,
            };
            last = Some((row, number));
            numbers.push(number);
        }
        Ok(())
    }

    fn by_bytes(
        &mut self,
        batch: &RecordBatch,
        column: &StringArray,
        keys: &mut KeyRows,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        let data = column.value_data();
        let mut start = column.value_offsets().first().map_or(0, |o| *o as usize);
        for (row, end) in column.value_offsets().iter().skip(1).enumerate() {
            let bytes = data.get(start..*end as usize).unwrap_or_default();
            start = *end as usize;
            if column.is_null(row) {
                numbers.push(self.null(batch, row, keys)?);
                continue;
            }
            let short = Short::of(bytes);
            let known = match &short {
                Some(short) => self.memo.short.get(short),
                None => self.memo.bytes.get(bytes),
            };
            if let Some(number) = known {
                numbers.push(*number);
                continue;
            }
            let number = self.of(batch, row, keys)?;
            match short {
                Some(short) => self.memo.short.insert(short, number),
                None => self.memo.bytes.insert(bytes.into(), number),
            };
            numbers.push(number);
        }
        Ok(())
    }

    fn by_word<T: ArrowPrimitiveType>(
        &mut self,
        batch: &RecordBatch,
        column: &dyn Array,
        keys: &mut KeyRows,
        numbers: &mut Vec<u32>,
    ) -> Result<()>
    where
        T::Native: Into<i64>,
    {
        let column: &PrimitiveArray<T> = column.as_primitive();
        let mut last: Option<(i64, u32)> = None;
        for (row, value) in column.values().iter().enumerate() {
            if column.is_null(row) {
                numbers.push(self.null(batch, row, keys)?);
                continue;
            }
            let value: i64 = (*value).into();
            let number = match last {
                Some((before, number)) if before == value => number,
                _ => match self.memo.words.get(&(value as u64)) {
                    Some(number) => *number,
                    None => {
                        let number = self.of(batch, row, keys)?;
                        self.memo.words.insert(value as u64, number);
                        number
                    }
                },
            };
            last = Some((value, number));
            numbers.push(number);
        }
        Ok(())
    }

    fn null(&mut self, batch: &RecordBatch, row: usize, keys: &mut KeyRows) -> Result<u32> {
        match self.memo.null {
            Some(number) => Ok(number),
            None => {
                let number = self.of(batch, row, keys)?;
                self.memo.null = Some(number);
                Ok(number)
            }
        }
    }

    /// The number of one row's partition, by its binary row.
    fn of(&mut self, batch: &RecordBatch, row: usize, keys: &mut KeyRows) -> Result<u32> {
        self.key.encode(&batch.slice(row, 1), keys)?;
        let key = keys.iter().next().unwrap_or_default();
        number_of(&mut self.rows, &mut self.by_row, self.key.len(), key)
    }
}

fn number_of(
    rows: &mut Vec<BinaryRow>,
    by_row: &mut HashMap<Arc<[u8]>, u32, Fold>,
    arity: usize,
    key: &[u8],
) -> Result<u32> {
    if let Some(number) = by_row.get(key) {
        return Ok(*number);
    }
    let number = rows.len() as u32;
    let bytes: Arc<[u8]> = key.into();
    let row = BinaryRow::from_bytes(arity as u32, Arc::clone(&bytes))
        .map_err(|e| WriterError::Rows(e.to_string()))?;
    rows.push(row);
    by_row.insert(bytes, number);
    Ok(number)
}
