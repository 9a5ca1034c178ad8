//! The generator: rows out of rules, the same rows for the same seed and position, on any machine.
//!
//! Owns rules and pacing. Row `n` is a pure function of (rules, seed, n), so a position is a row
//! number and nothing has to be remembered. Pacing delays rows and never changes them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, SchemaRef};
use tidegate_sink::BoxFuture;
use tokio::time::Instant;

use super::convert::Column;
use super::{
    BadRecord, Boundedness, Discovery, Position, Read, Source, SourceBatch, SourceError,
    SourceState, Split, SplitEnumerator, SplitId, SplitReader,
};

/// How the values of one column are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// `start`, `start + step`, …
    Sequence {
        /// Value of the first row.
        start: i64,
        /// Added per row.
        step: i64,
    },
    /// Text in which `{column}` stands for that column's value in the same row, and `{row}` for the
    /// row number from 0. A template may use columns whose own rule is no template.
    Template(String),
    /// One of these texts, evenly by the seed.
    Choice(Vec<String>),
    /// A number between two bounds, both included, evenly by the seed: whole for integers, with the
    /// column's scale for decimals.
    Random {
        /// Smallest value.
        min: String,
        /// Largest value.
        max: String,
    },
    /// Always the same text.
    Constant(String),
}

/// What a generator makes.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorConfig {
    /// Rows in all; `None` = without end.
    pub rows: Option<u64>,
    /// Rows per second; `None` = as fast as they are taken.
    pub rate: Option<u64>,
    /// Chooses among the random streams.
    pub seed: u64,
    /// One rule per column, by name. A nullable column without a rule is null.
    pub columns: Vec<(String, Rule)>,
}

/// A source of generated rows.
#[derive(Debug)]
pub struct GeneratorSource {
    schema: SchemaRef,
    rows: Option<u64>,
    rate: Option<u64>,
    seed: u64,
    makers: Arc<Vec<Maker>>,
}

/// Rows per batch at most; fewer where a rate asks for them sooner.
const BATCH: u64 = 8192;
/// A paced generator hands out rows this often at least.
const TICK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
enum Maker {
    Null,
    Sequence { start: i64, step: i64 },
    Template(Vec<Part>),
    Choice(Vec<String>),
    Whole { min: i128, span: u128, scale: u32 },
    Real { min: f64, max: f64 },
    Constant(String),
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Column(usize),
    Row,
}

impl GeneratorSource {
    /// Checks rules against the schema.
    ///
    /// # Errors
    /// A rule for no column, a NOT NULL column without one, a template of templates, bounds that are
    /// no numbers, or a value that does not fit its column: the first row is made to see that.
    pub fn new(schema: SchemaRef, config: GeneratorConfig) -> Result<Self, SourceError> {
        if config.rate == Some(0) {
            return Err(SourceError::Config(
                "a generator's rate of 0 rows per second makes nothing; leave it out for no limit"
                    .into(),
            ));
        }
        for (name, _) in &config.columns {
            if schema.index_of(name).is_err() {
                let known: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                return Err(SourceError::Config(format!(
                    "the generator has a rule for `{name}`, the table no such column; its columns are {}",
                    known.join(", ")
                )));
            }
        }
        let rules: HashMap<&str, &Rule> = config
            .columns
            .iter()
            .map(|(n, r)| (n.as_str(), r))
            .collect();
        let makers = schema
            .fields()
            .iter()
            .map(|field| match rules.get(field.name().as_str()) {
                Some(rule) => maker(field, rule, &schema, &rules),
                None if field.is_nullable() => Ok(Maker::Null),
                None => Err(SourceError::Config(format!(
                    "column `{}` is NOT NULL and has no generator rule",
                    field.name()
                ))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let source = Self {
            schema,
            rows: config.rows,
            rate: config.rate,
            seed: config.seed,
            makers: Arc::new(makers),
        };
        source.maker_of_rows().make(0, 1)?;
        Ok(source)
    }

    fn maker_of_rows(&self) -> Rows {
        Rows {
            schema: self.schema.clone(),
            makers: self.makers.clone(),
            seed: self.seed,
        }
    }
}

fn maker(
    field: &Field,
    rule: &Rule,
    schema: &SchemaRef,
    rules: &HashMap<&str, &Rule>,
) -> Result<Maker, SourceError> {
    let wrong =
        |why: String| SourceError::Config(format!("generator column `{}`: {why}", field.name()));
    Ok(match rule {
        Rule::Sequence { start, step } => Maker::Sequence {
            start: *start,
            step: *step,
        },
        Rule::Choice(values) if values.is_empty() => {
            return Err(wrong("a choice of nothing".into()));
        }
        Rule::Choice(values) => Maker::Choice(values.clone()),
        Rule::Constant(value) => Maker::Constant(value.clone()),
        Rule::Template(text) => {
            let mut parts = Vec::new();
            let mut rest = text.as_str();
            while let Some((before, after)) = rest.split_once('{') {
                let (name, tail) = after
                    .split_once('}')
                    .ok_or_else(|| wrong(format!("`{text}` has `{{` without `}}`")))?;
                if !before.is_empty() {
                    parts.push(Part::Text(before.to_owned()));
                }
                parts.push(match (schema.index_of(name), rules.get(name)) {
                    (_, Some(Rule::Template(_))) => {
                        return Err(wrong(format!("`{{{name}}}` is a template itself")));
                    }
                    (Ok(at), Some(_)) => Part::Column(at),
                    (Err(_), None) if name == "row" => Part::Row,
                    _ => return Err(wrong(format!("`{{{name}}}` names no column with a rule"))),
                });
                rest = tail;
            }
            if !rest.is_empty() {
                parts.push(Part::Text(rest.to_owned()));
            }
            Maker::Template(parts)
        }
        Rule::Random { min, max } => {
            let bounds = || wrong(format!("`{min}` to `{max}` is no range of numbers"));
            match field.data_type() {
                DataType::Float32 | DataType::Float64 => {
                    let (min, max): (f64, f64) = (
                        min.parse().map_err(|_| bounds())?,
                        max.parse().map_err(|_| bounds())?,
                    );
                    if !(min <= max && (max - min).is_finite()) {
                        return Err(bounds());
                    }
                    Maker::Real { min, max }
                }
                other => {
                    let scale = match other {
                        DataType::Decimal128(_, scale) => {
                            u32::try_from(*scale).map_err(|_| bounds())?
                        }
                        _ => 0,
                    };
                    let whole = |text: &str| scaled(text, scale).ok_or_else(bounds);
                    let (min, max) = (whole(min)?, whole(max)?);
                    let span = max
                        .checked_sub(min)
                        .and_then(|s| u128::try_from(s).ok())
                        .ok_or_else(bounds)?;
                    Maker::Whole { min, span, scale }
                }
            }
        }
    })
}

/// `1.5` at scale 2 is 150.
fn scaled(text: &str, scale: u32) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > scale as usize || fraction.starts_with(['-', '+']) {
        return None;
    }
    let digits = format!("{whole}{fraction:0<width$}", width = scale as usize);
    digits.parse().ok()
}

fn unscaled(value: i128, scale: u32) -> String {
    if scale == 0 {
        return value.to_string();
    }
    let digits = format!(
        "{:0>width$}",
        value.unsigned_abs(),
        width = scale as usize + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" })
}

/// A well-mixed 64-bit value of (seed, column, row): SplitMix64's finaliser.
fn mixed(seed: u64, column: usize, row: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add((column as u64).wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(row.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct Rows {
    schema: SchemaRef,
    makers: Arc<Vec<Maker>>,
    seed: u64,
}

impl Rows {
    fn make(&self, from: u64, count: u64) -> Result<RecordBatch, SourceError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.makers.len());
        let mut text = String::new();
        for (index, field) in self.schema.fields().iter().enumerate() {
            let mut column =
                Column::new(field.clone()).map_err(|e| SourceError::Config(e.to_string()))?;
            for row in from..from.saturating_add(count) {
                text.clear();
                let added = match self.write(index, row, &mut text) {
                    true => column.append_text(&text),
                    false => column.append_null(),
                };
                added.map_err(|m| BadRecord {
                    file: "generator".into(),
                    line: Some(row.saturating_add(1)),
                    column: Some(field.name().clone()),
                    value: Some(m.value),
                    why: m.why,
                    ..BadRecord::default()
                })?;
            }
            arrays.push(
                column
                    .finish()
                    .map_err(|e| SourceError::Config(e.to_string()))?,
            );
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count as usize));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|e| SourceError::Config(format!("generator: {e}")))
    }

    /// Writes a column's value of a row; false = null.
    fn write(&self, column: usize, row: u64, out: &mut String) -> bool {
        use std::fmt::Write as _;
        let written = match self.makers.get(column) {
            None | Some(Maker::Null) => return false,
            Some(Maker::Sequence { start, step }) => {
                let value = i128::from(*start) + i128::from(*step) * i128::from(row);
                write!(out, "{value}")
            }
            Some(Maker::Constant(value)) => out.write_str(value),
            Some(Maker::Choice(values)) => {
                let at = mixed(self.seed, column, row) % values.len() as u64;
                out.write_str(values.get(at as usize).map_or("", String::as_str))
            }
            Some(Maker::Whole { min, span, scale }) => {
                let high = u128::from(mixed(self.seed, column, row));
                let low = u128::from(mixed(self.seed ^ u64::MAX, column, row));
                let offset = match span.checked_add(1) {
                    Some(count) => (high << 64 | low) % count,
                    None => high << 64 | low,
                };
                out.write_str(&unscaled(min.wrapping_add(offset as i128), *scale))
            }
            Some(Maker::Real { min, max }) => {
                let unit = (mixed(self.seed, column, row) >> 11) as f64 / (1u64 << 53) as f64;
                write!(out, "{}", min + (max - min) * unit)
            }
            Some(Maker::Template(parts)) => {
                for part in parts {
                    match part {
                        Part::Text(text) => out.push_str(text),
                        Part::Row => out.push_str(&row.to_string()),
                        Part::Column(at) => {
                            let _is_null = self.write(*at, row, out);
                        }
                    }
                }
                Ok(())
            }
        };
        // Writing to a String cannot fail.
        written.is_ok()
    }
}

const SPLIT: &str = "generator";
const POSITION_VERSION: u16 = 1;

fn position(row: u64) -> Position {
    Position {
        version: POSITION_VERSION,
        bytes: row.to_be_bytes().to_vec(),
    }
}

fn row_of(position: &Position) -> Result<u64, SourceError> {
    let wrong = |what: String| SourceError::Position {
        split: SPLIT.into(),
        what,
    };
    if position.version != POSITION_VERSION {
        return Err(wrong(format!(
            "version {} is not known here",
            position.version
        )));
    }
    let bytes: [u8; 8] = position.bytes.as_slice().try_into().map_err(|_| {
        wrong(format!(
            "a row number has 8 bytes, found {}",
            position.bytes.len()
        ))
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// The row of a saved position, where a generator wrote it.
pub(super) fn row_of_position(position: &Position) -> Option<u64> {
    row_of(position).ok()
}

/// There is one split. A finished generator that is asked for more rows goes on in the next run.
struct Enumerator {
    next: Option<Split>,
}

impl SplitEnumerator for Enumerator {
    fn discover<'a>(&'a mut self) -> BoxFuture<'a, Result<Discovery, SourceError>> {
        let splits = self.next.take().into_iter().collect();
        Box::pin(async move {
            Ok(Discovery {
                splits,
                complete: true,
            })
        })
    }

    fn finished(&mut self, _split: &Split) {}
}

struct Reader {
    rows: Rows,
    at: u64,
    end: Option<u64>,
    rate: Option<u64>,
    begun: Option<(Instant, u64)>,
}

impl SplitReader for Reader {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.at));
            if left == 0 {
                return Ok(Read::End(position(self.at)));
            }
            // A saved row number may be anything.
            let mut count = BATCH.min(left).min(u64::MAX - self.at);
            if count == 0 {
                return Ok(Read::End(position(self.at)));
            }
            if let Some(rate) = self.rate {
                let (start, first) = *self.begun.get_or_insert_with(|| (Instant::now(), self.at));
                let made = self.at.saturating_sub(first);
                let per_tick = (u128::from(rate) * TICK.as_millis() / 1000).max(1);
                count = count.min(u64::try_from(per_tick).unwrap_or(u64::MAX));
                let due = u128::from(made + count) * 1_000_000_000 / u128::from(rate);
                let due = Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX));
                // Dropped here, nothing has changed: the next call waits for the same rows.
                tokio::time::sleep_until(start + due).await;
            }
            let batch = self.rows.make(self.at, count)?;
            self.at += count;
            Ok(Read::Rows(SourceBatch::new(batch, position(self.at))))
        })
    }
}

impl Source for GeneratorSource {
    fn name(&self) -> String {
        "generator".into()
    }

    fn identity(&self) -> String {
        "generator".into()
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn boundedness(&self) -> Boundedness {
        if self.rows.is_some() {
            Boundedness::Bounded
        } else {
            Boundedness::Unbounded
        }
    }

    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
        Box::pin(async move {
            let id = SplitId(SPLIT.into());
            let next = if state.active.contains_key(&id) {
                None
            } else {
                let from = state.finished.get(&id).map_or(Ok(0), row_of)?;
                // A finished generator goes on when it is asked for more rows than last time.
                let grown = self.rows.is_none_or(|rows| rows > from);
                let fresh = from == 0 && !state.finished.contains_key(&id);
                (fresh || grown).then(|| Split {
                    id,
                    position: position(from),
                })
            };
            Ok(Box::new(Enumerator { next }) as Box<dyn SplitEnumerator>)
        })
    }

    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
        Box::pin(async move {
            Ok(Box::new(Reader {
                rows: self.maker_of_rows(),
                at: row_of(&split.position)?,
                end: self.rows,
                rate: self.rate,
                begun: None,
            }) as Box<dyn SplitReader>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Int64Type, Schema};

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
            Field::new("amount", DataType::Decimal128(10, 2), true),
            Field::new("dt", DataType::Utf8, true),
        ]))
    }

    fn config(rows: Option<u64>) -> GeneratorConfig {
        GeneratorConfig {
            rows,
            rate: None,
            seed: 7,
            columns: vec![
                ("id".into(), Rule::Sequence { start: 1, step: 1 }),
                ("name".into(), Rule::Template("name-{id}".into())),
                (
                    "amount".into(),
                    Rule::Random {
                        min: "-1.50".into(),
                        max: "100".into(),
                    },
                ),
                ("dt".into(), Rule::Choice(vec!["a".into(), "b".into()])),
            ],
        }
    }

    #[test]
    fn a_row_is_a_function_of_its_number() {
        let source = GeneratorSource::new(schema(), config(None)).unwrap();
        let rows = source.maker_of_rows();
        let whole = rows.make(0, 100).unwrap();
        let parts = [rows.make(0, 33).unwrap(), rows.make(33, 67).unwrap()];
        assert_eq!(
            arrow::compute::concat_batches(&schema(), &parts).unwrap(),
            whole
        );
        assert_eq!(whole.column(0).as_primitive::<Int64Type>().value(99), 100);
        assert_eq!(whole.column(1).as_string::<i32>().value(9), "name-10");
        let choices: std::collections::BTreeSet<&str> = whole
            .column(3)
            .as_string::<i32>()
            .iter()
            .flatten()
            .collect();
        assert_eq!(choices.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_delays_rows_and_changes_none() {
        let mut paced = config(Some(40));
        paced.rate = Some(20);
        let source = GeneratorSource::new(schema(), paced).unwrap();
        let split = source
            .enumerator(&SourceState::default())
            .await
            .unwrap()
            .discover()
            .await
            .unwrap()
            .splits
            .remove(0);
        let mut reader = source.reader(&split).await.unwrap();
        let start = Instant::now();
        let mut rows = 0;
        loop {
            match reader.next().await.unwrap() {
                Read::Rows(batch) => rows += batch.batch.num_rows(),
                Read::End(end) => break assert_eq!(end, position(40)),
                Read::Idle => panic!("a generator is never idle"),
            }
        }
        assert_eq!(rows, 40);
        assert_eq!(start.elapsed().as_millis(), 2000);
    }

    #[test]
    fn wrong_rules_are_named() {
        let cases: [(&str, Rule, &str); 4] = [
            ("nope", Rule::Constant("1".into()), "no such column"),
            ("name", Rule::Template("{nope}".into()), "names no column"),
            (
                "amount",
                Rule::Random {
                    min: "x".into(),
                    max: "1".into(),
                },
                "no range",
            ),
            ("id", Rule::Constant("x".into()), "no whole number"),
        ];
        for (column, rule, expected) in cases {
            let mut wrong = config(Some(1));
            wrong.columns.retain(|(n, _)| n != column);
            wrong.columns.push((column.into(), rule));
            let error = GeneratorSource::new(schema(), wrong)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{column}: {error}");
        }
    }

    #[test]
    fn scaled_numbers_keep_their_digits() {
        assert_eq!(scaled("-1.5", 2), Some(-150));
        assert_eq!(scaled("-0.05", 2), Some(-5));
        assert_eq!(scaled("1.234", 2), None);
        assert_eq!(unscaled(-5, 2), "-0.05");
        assert_eq!(unscaled(12345, 2), "123.45");
    }
}
