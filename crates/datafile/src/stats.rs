//! Statistics of a file's columns \[F-4.4].
//!
//! Null counts come from the rows, bounds from the Parquet encoders, which track them anyway. What the
//! encoders leave out is added here: NaN, which Java orders above everything and stores as maximum.

use crate::bounds;
use crate::error::Result;
use crate::keyed::KeyLayout;
use crate::plan::{Inner, KEY_STATS};
use crate::types::is_int96;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType as Arrow, Float32Type, Float64Type};
use arrow::record_batch::RecordBatch;
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};
use std::cmp::Ordering;
use tidegate_model::{BinaryRow, Datum, LogicalType, SimpleStats, StatsMode};

/// Longest bound that a footer holds; the manifest's are cut by the table's own rule.
const FOOTER_BOUND: usize = 64;

/// Gathers statistics of one file.
pub(crate) struct Collector {
    columns: Vec<Column>,
}

struct Column {
    logical: LogicalType,
    mode: StatsMode,
    /// It is a key column of its file: key statistics need its bounds.
    key: bool,
    /// Index of its leaf in the Parquet schema; columns with leaves of their own have one.
    leaf: Option<usize>,
    nulls: i64,
    rows: i64,
    nan: bool,
    bounds: Option<(Datum, Datum)>,
    /// A row group with values gave no bounds.
    unknown: bool,
}

impl Collector {
    pub(crate) fn new(plan: &Inner) -> Self {
        let mut leaf = 0;
        let keys: Vec<usize> = plan.keyed.iter().flat_map(KeyLayout::key_places).collect();
        let columns = plan
            .fields
            .iter()
            .zip(&plan.stats_modes)
            .enumerate()
            .map(|(place, (field, mode))| {
                let own = leaves(&field.data_type.logical);
                let first = leaf;
                leaf += own;
                Column {
                    logical: field.data_type.logical.clone(),
                    mode: *mode,
                    key: keys.contains(&place),
                    leaf: (own == 1 && crate::plan::has_stats(&field.data_type.logical))
                        .then_some(first),
                    nulls: 0,
                    rows: 0,
                    nan: false,
                    bounds: None,
                    unknown: false,
                }
            })
            .collect();
        Self { columns }
    }

    /// Takes the null counts of rows, and whether there is a NaN.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            column.nulls += array.null_count() as i64;
            column.rows += array.len() as i64;
            if column.nan {
                continue;
            }
            // Values under nulls are looked at only where a NaN was seen.
            column.nan = match array.data_type() {
                Arrow::Float32 => {
                    let values = array.as_primitive::<Float32Type>();
                    values
                        .values()
                        .iter()
                        .fold(false, |nan, v| nan | v.is_nan())
                        && values.iter().flatten().any(f32::is_nan)
                }
                Arrow::Float64 => {
                    let values = array.as_primitive::<Float64Type>();
                    values
                        .values()
                        .iter()
                        .fold(false, |nan, v| nan | v.is_nan())
                        && values.iter().flatten().any(f64::is_nan)
                }
                _ => false,
            };
        }
    }

    /// True where a leaf is a column of its own and none of its values so far is NaN.
    pub(crate) fn free_of_nan(&self, leaf: usize) -> bool {
        self.columns.iter().any(|c| c.leaf == Some(leaf) && !c.nan)
    }

    /// Takes what the encoder of a leaf says of a finished row group of `values` values, nulls included.
    pub(crate) fn add_chunk(&mut self, leaf: usize, stats: Option<&Statistics>, values: i64) {
        let Some(column) = self.columns.iter_mut().find(|c| c.leaf == Some(leaf)) else {
            return;
        };
        if !column.key && !matches!(column.mode, StatsMode::Full | StatsMode::Truncate(_)) {
            return;
        }
        match stats.and_then(|s| bounds_of(s, &column.logical)) {
            Some((min, max)) => {
                column.bounds = Some(match column.bounds.take() {
                    None => (min, max),
                    Some((low, high)) => (
                        if order(&min, &low) == Ordering::Less {
                            min
                        } else {
                            low
                        },
                        if order(&max, &high) == Ordering::Greater {
                            max
                        } else {
                            high
                        },
                    ),
                });
            }
            None => {
                let nulls = stats.and_then(Statistics::null_count_opt);
                column.unknown |= nulls != u64::try_from(values).ok();
            }
        }
    }

    /// The statistics, and which columns they cover.
    pub(crate) fn finish(self, plan: &Inner) -> Result<FileStats> {
        let keys = match &plan.keyed {
            None => None,
            Some(layout) => {
                let columns = layout.key_places().filter_map(|at| self.columns.get(at));
                let columns = columns.map(|column| (column, KEY_STATS));
                Some(simple_stats(columns)?)
            }
        };
        let covered = |mode: StatsMode| !plan.dense || mode != StatsMode::None;
        let before_values = plan.keyed.as_ref().map_or(0, |keyed| keyed.before_values);
        let values = || self.columns.iter().skip(before_values);
        let all = values().all(|c| covered(c.mode));
        let names: Vec<String> = plan
            .fields
            .iter()
            .skip(before_values)
            .zip(values())
            .filter(|(_, c)| covered(c.mode))
            .map(|(f, _)| f.name.clone())
            .collect();
        let columns = values().filter(|c| covered(c.mode)).map(|c| (c, c.mode));
        Ok(FileStats {
            values: simple_stats(columns)?,
            covered: (!all).then_some(names),
            keys,
        })
    }
}

/// What is known of the columns of a finished file.
pub(crate) struct FileStats {
    pub(crate) values: SimpleStats,
    /// Columns that `values` covers; `None` = all.
    pub(crate) covered: Option<Vec<String>>,
    /// Of the key columns, in a keyed table.
    pub(crate) keys: Option<SimpleStats>,
}

fn simple_stats<'a>(columns: impl Iterator<Item = (&'a Column, StatsMode)>) -> Result<SimpleStats> {
    let (mut types, mut min, mut max, mut nulls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (column, mode) in columns {
        types.push(column.logical.clone());
        nulls.push((mode != StatsMode::None).then_some(column.nulls));
        let (low, high) = match column.bounds(mode) {
            Some((low, high)) => (Some(low), Some(high)),
            None => (None, None),
        };
        min.push(low);
        max.push(high);
    }
    Ok(SimpleStats {
        min_values: BinaryRow::from_datums(&min, &types)?,
        max_values: BinaryRow::from_datums(&max, &types)?,
        null_counts: Some(nulls),
    })
}

impl Column {
    fn bounds(&self, mode: StatsMode) -> Option<(Datum, Datum)> {
        // Java keeps no bounds of byte strings in Parquet files, nor of INT96 (1.4.2, observed).
        let bytes = matches!(
            self.logical,
            LogicalType::Binary(_) | LogicalType::VarBinary(_)
        );
        if bytes || is_int96(&self.logical) || self.nulls == self.rows {
            return None;
        }
        let nan = match self.logical {
            LogicalType::Float => Datum::Float(f32::NAN),
            _ => Datum::Double(f64::NAN),
        };
        let (low, high) = match (self.bounds.clone(), self.nan) {
            (Some((low, _)), true) => (low, nan),
            // The encoder knows no bounds of a column of nothing but NaN.
            (None, true) => (nan.clone(), nan),
            (Some(bounds), false) if !self.unknown => bounds,
            _ => return None,
        };
        mode.bounds(low, high)
    }
}

/// Leaf columns of a type.
fn leaves(logical: &LogicalType) -> usize {
    match logical {
        LogicalType::Array(e) => leaves(&e.logical),
        LogicalType::Multiset(e) => leaves(&e.logical) + 1,
        LogicalType::Map(k, v) => leaves(&k.logical) + leaves(&v.logical),
        LogicalType::Row(fields) => fields.iter().map(|f| leaves(&f.data_type.logical)).sum(),
        _ => 1,
    }
}

fn order(a: &Datum, b: &Datum) -> Ordering {
    use Datum as D;
    match (a, b) {
        (D::Boolean(a), D::Boolean(b)) => a.cmp(b),
        (D::TinyInt(a), D::TinyInt(b)) => a.cmp(b),
        (D::SmallInt(a), D::SmallInt(b)) => a.cmp(b),
        (D::Int(a), D::Int(b))
        | (D::Date(a), D::Date(b))
        | (D::TimeMillis(a), D::TimeMillis(b)) => a.cmp(b),
        (D::BigInt(a), D::BigInt(b)) => a.cmp(b),
        (D::Float(a), D::Float(b)) => a.total_cmp(b),
        (D::Double(a), D::Double(b)) => a.total_cmp(b),
        (D::Decimal { unscaled: a, .. }, D::Decimal { unscaled: b, .. }) => a.cmp(b),
        (D::String(a), D::String(b)) => a.cmp(b),
        (D::Bytes(a), D::Bytes(b)) => a.cmp(b),
        (
            D::Timestamp {
                millis: a,
                nanos_of_milli: x,
            },
            D::Timestamp {
                millis: b,
                nanos_of_milli: y,
            },
        ) => (a, x).cmp(&(b, y)),
        // One column has one kind of value.
        _ => Ordering::Equal,
    }
}

/// Both bounds of a row group as values of the column's type.
fn bounds_of(stats: &Statistics, logical: &LogicalType) -> Option<(Datum, Datum)> {
    match stats {
        Statistics::Boolean(s) => {
            Some((Datum::Boolean(*s.min_opt()?), Datum::Boolean(*s.max_opt()?)))
        }
        Statistics::Int32(s) => Some((
            of_i32(*s.min_opt()?, logical)?,
            of_i32(*s.max_opt()?, logical)?,
        )),
        Statistics::Int64(s) => Some((
            of_i64(*s.min_opt()?, logical)?,
            of_i64(*s.max_opt()?, logical)?,
        )),
        Statistics::Float(s) => Some((Datum::Float(*s.min_opt()?), Datum::Float(*s.max_opt()?))),
        Statistics::Double(s) => Some((Datum::Double(*s.min_opt()?), Datum::Double(*s.max_opt()?))),
        Statistics::ByteArray(s) => Some((
            of_bytes(s.min_opt()?.data(), logical)?,
            of_bytes(s.max_opt()?.data(), logical)?,
        )),
        Statistics::FixedLenByteArray(s) => Some((
            of_bytes(s.min_opt()?.data(), logical)?,
            of_bytes(s.max_opt()?.data(), logical)?,
        )),
        Statistics::Int96(_) => None,
    }
}

fn of_i32(v: i32, logical: &LogicalType) -> Option<Datum> {
    Some(match logical {
        LogicalType::TinyInt => Datum::TinyInt(i8::try_from(v).ok()?),
        LogicalType::SmallInt => Datum::SmallInt(i16::try_from(v).ok()?),
        LogicalType::Int => Datum::Int(v),
        LogicalType::Date => Datum::Date(v),
        LogicalType::Time(_) => Datum::TimeMillis(v),
        LogicalType::Decimal { precision, scale } => Datum::Decimal {
            unscaled: i128::from(v),
            precision: *precision,
            scale: *scale,
        },
        _ => return None,
    })
}

fn of_i64(v: i64, logical: &LogicalType) -> Option<Datum> {
    Some(match logical {
        LogicalType::BigInt => Datum::BigInt(v),
        LogicalType::Decimal { precision, scale } => Datum::Decimal {
            unscaled: i128::from(v),
            precision: *precision,
            scale: *scale,
        },
        LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) if *p <= 3 => Datum::Timestamp {
            millis: v,
            nanos_of_milli: 0,
        },
        LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) if *p <= 6 => Datum::Timestamp {
            millis: v.div_euclid(1000),
            nanos_of_milli: v.rem_euclid(1000) as i32 * 1000,
        },
        _ => return None,
    })
}

fn of_bytes(v: &[u8], logical: &LogicalType) -> Option<Datum> {
    Some(match logical {
        LogicalType::Char(_) | LogicalType::VarChar(_) => {
            Datum::String(std::str::from_utf8(v).ok()?.to_owned())
        }
        LogicalType::Binary(_) | LogicalType::VarBinary(_) => Datum::Bytes(v.to_vec()),
        LogicalType::Decimal { precision, scale } if v.len() <= 16 => {
            let sign = if v.first().is_some_and(|b| b & 0x80 != 0) {
                0xff
            } else {
                0
            };
            let mut wide = [sign; 16];
            wide.iter_mut()
                .rev()
                .zip(v.iter().rev())
                .for_each(|(to, from)| *to = *from);
            Datum::Decimal {
                unscaled: i128::from_be_bytes(wide),
                precision: *precision,
                scale: *scale,
            }
        }
        _ => return None,
    })
}

/// The same null count without bounds: the Parquet library leaves NaN out of its bounds, so a reader
/// that looks for NaN, which Paimon's do by equality, would skip rows that are there.
pub(crate) fn without_bounds(stats: &Statistics) -> Statistics {
    let (distinct, nulls) = (stats.distinct_count_opt(), stats.null_count_opt());
    match stats {
        Statistics::Float(_) => Statistics::float(None, None, distinct, nulls, false),
        Statistics::Double(_) => Statistics::double(None, None, distinct, nulls, false),
        other => other.clone(),
    }
}

/// The same statistics with long byte strings cut, for the footer.
pub(crate) fn shorten(stats: &Statistics) -> Statistics {
    let Statistics::ByteArray(exact) = stats else {
        return stats.clone();
    };
    let long = |v: Option<&ByteArray>| v.is_some_and(|v| v.len() > FOOTER_BOUND);
    if !long(exact.min_opt()) && !long(exact.max_opt()) {
        return stats.clone();
    }
    // Cutting text between characters keeps it text; bytes that are not text are cut anywhere.
    let min = exact
        .min_opt()
        .map(|v| bounds::lower_bytes(v.data(), FOOTER_BOUND));
    let max = exact
        .max_opt()
        .and_then(|v| bounds::upper_bytes(v.data(), FOOTER_BOUND));
    let cut = ValueStatistics::new(
        min.map(ByteArray::from),
        max.map(ByteArray::from),
        exact.distinct_count(),
        exact.null_count_opt(),
        false,
    )
    .with_min_is_exact(!long(exact.min_opt()))
    .with_max_is_exact(!long(exact.max_opt()));
    Statistics::ByteArray(cut)
}
