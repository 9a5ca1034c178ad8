//! Aggregate functions by name \[W-64]: which exist, what types they take, what their options mean.

use crate::error::{Error, Result, option};
use tidegate_model::{DataField, LogicalType, Options};

/// What becomes of the versions of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// A key column: all versions agree.
    Key,
    /// A column that a sequence group protects, without a function of its own: the newest value, null
    /// or not.
    Overwrite,
    /// An ordering column of a sequence group: what the newest record of the group says.
    Ordering,
    LastValue,
    LastNonNull,
    FirstValue,
    FirstNonNull,
    Max,
    Min,
    Sum,
    Product,
    BoolAnd,
    BoolOr,
    ListAgg {
        delimiter: String,
        distinct: bool,
    },
    Collect {
        distinct: bool,
    },
    MergeMap,
    MergeMapWithKeyTime {
        /// Place of the time in the value row.
        time: usize,
    },
    NestedUpdate {
        /// Places of the key in the element row; empty: rows are only appended.
        key: Vec<usize>,
        /// Places of the fields that order versions of an element.
        sequence: Vec<usize>,
        nulls: NullKeys,
        limit: usize,
    },
    NestedPartialUpdate {
        key: Vec<usize>,
        nulls: NullKeys,
    },
    Bitmap32,
    HllSketch,
    ThetaSketch,
}

/// `nested-key-null-strategy`: elements whose key has a null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullKeys {
    /// They are one like any other.
    Merge,
    /// They are left out.
    Ignore,
    /// They are an error.
    Error,
}

/// Names as the option has them.
const NAMES: &str = "sum, product, max, min, last_value, last_non_null_value, first_value, \
    first_non_null_value, listagg, bool_and, bool_or, collect, merge_map, merge_map_with_keytime, \
    nested_update, nested_partial_update, rbm32, hll_sketch, theta_sketch";

impl Function {
    /// True where a retract has a meaning.
    pub(crate) fn takes_retracts(&self) -> bool {
        match self {
            Self::Key
            | Self::Overwrite
            | Self::Ordering
            | Self::LastValue
            | Self::LastNonNull
            | Self::Sum
            | Self::Product
            | Self::Collect { .. }
            | Self::MergeMap
            | Self::NestedUpdate { .. } => true,
            Self::FirstValue
            | Self::FirstNonNull
            | Self::Max
            | Self::Min
            | Self::BoolAnd
            | Self::BoolOr
            | Self::ListAgg { .. }
            | Self::MergeMapWithKeyTime { .. }
            | Self::NestedPartialUpdate { .. }
            | Self::Bitmap32
            | Self::HllSketch
            | Self::ThetaSketch => false,
        }
    }

    /// The function of a column by its name; `from` is the key that names it.
    pub(crate) fn parse(
        name: &str,
        from: &str,
        field: &DataField,
        options: &Options,
    ) -> Result<Self> {
        let given = Given {
            name,
            from,
            field,
            options,
        };
        let logical = &field.data_type.logical;
        Ok(match name.trim() {
            "primary-key" => Self::Key,
            "last_value" => Self::LastValue,
            "last_non_null_value" => Self::LastNonNull,
            "first_value" => Self::FirstValue,
            "first_non_null_value" | "first_not_null_value" => Self::FirstNonNull,
            "max" => given.of(
                logical.unfit_as_key().is_none(),
                "values that compare",
                Self::Max,
            )?,
            "min" => given.of(
                logical.unfit_as_key().is_none(),
                "values that compare",
                Self::Min,
            )?,
            "sum" => given.of(is_number(logical), "numbers", Self::Sum)?,
            "product" => given.of(is_number(logical), "numbers", Self::Product)?,
            "bool_and" => given.of(*logical == LogicalType::Boolean, "BOOLEAN", Self::BoolAnd)?,
            "bool_or" => given.of(*logical == LogicalType::Boolean, "BOOLEAN", Self::BoolOr)?,
            "listagg" => given.list_agg()?,
            "collect" => given.collect()?,
            "merge_map" => {
                let function = given.of(
                    matches!(logical, LogicalType::Map(..)),
                    "MAP",
                    Self::MergeMap,
                )?;
                given.comparable_map_key()?;
                function
            }
            "merge_map_with_keytime" => given.merge_map_with_keytime()?,
            "nested_update" => given.nested_update()?,
            "nested_partial_update" => given.nested_partial_update()?,
            "rbm32" => given.of(is_bytes(logical), "VARBINARY or BYTES", Self::Bitmap32)?,
            "hll_sketch" => given.of(is_bytes(logical), "VARBINARY or BYTES", Self::HllSketch)?,
            "theta_sketch" => {
                given.of(is_bytes(logical), "VARBINARY or BYTES", Self::ThetaSketch)?
            }
            "rbm64" => {
                return given.refuse(
                    "is not supported: no maintained Rust library reads and writes the bytes that Java \
                     writes for it; read and write this table with Java, or use rbm32",
                );
            }
            _ => return given.refuse(&format!("is no aggregate function; use one of {NAMES}")),
        })
    }
}

fn is_number(logical: &LogicalType) -> bool {
    use LogicalType as L;
    matches!(
        logical,
        L::TinyInt | L::SmallInt | L::Int | L::BigInt | L::Float | L::Double | L::Decimal { .. }
    )
}

fn is_bytes(logical: &LogicalType) -> bool {
    matches!(logical, LogicalType::VarBinary(_))
}

/// True where values have sort keys, by which they are told apart.
fn compares(logical: &LogicalType) -> bool {
    match logical {
        LogicalType::Map(..) | LogicalType::Multiset(_) => false,
        LogicalType::Array(element) => compares(&element.logical),
        LogicalType::Row(fields) => fields.iter().all(|f| compares(&f.data_type.logical)),
        other => other.unfit_as_key().is_none(),
    }
}

/// A function as it was given, for its options and messages.
struct Given<'a> {
    name: &'a str,
    from: &'a str,
    field: &'a DataField,
    options: &'a Options,
}

impl Given<'_> {
    fn refuse<T>(&self, what: &str) -> Result<T> {
        option(
            self.from,
            self.name,
            format!("column '{}': '{}' {what}", self.field.name, self.name),
        )
    }

    fn of(&self, fits: bool, wanted: &str, function: Function) -> Result<Function> {
        match fits {
            true => Ok(function),
            false => self.refuse(&format!(
                "takes {wanted}, and the column is of type {}; use another function",
                self.field.data_type.logical
            )),
        }
    }

    fn key(&self, suffix: &str) -> String {
        format!("fields.{}.{suffix}", self.field.name)
    }

    fn distinct(&self) -> Result<bool> {
        Ok(self.options.bool(&self.key("distinct"))?.unwrap_or(false))
    }

    fn list_agg(&self) -> Result<Function> {
        let key = self.key("list-agg-delimiter");
        let delimiter = self.options.get(&key).unwrap_or(",").to_owned();
        let distinct = self.distinct()?;
        if distinct && delimiter.is_empty() {
            return option(
                &key,
                "",
                "with 'distinct' the delimiter tells the parts apart; give one",
            );
        }
        let fits = matches!(self.field.data_type.logical, LogicalType::VarChar(_));
        self.of(
            fits,
            "STRING",
            Function::ListAgg {
                delimiter,
                distinct,
            },
        )
    }

    fn collect(&self) -> Result<Function> {
        let LogicalType::Array(element) = &self.field.data_type.logical else {
            return self.of(false, "ARRAY", Function::MergeMap);
        };
        if !compares(&element.logical) {
            return self.refuse(&format!(
                "must tell elements apart, and those of type {} have no order; use another type",
                element.logical
            ));
        }
        Ok(Function::Collect {
            distinct: self.distinct()?,
        })
    }

    fn comparable_map_key(&self) -> Result<()> {
        match &self.field.data_type.logical {
            LogicalType::Map(key, _) if !compares(&key.logical) => self.refuse(&format!(
                "must tell keys apart, and those of type {} have no order; use another type",
                key.logical
            )),
            _ => Ok(()),
        }
    }

    fn merge_map_with_keytime(&self) -> Result<Function> {
        let wanted = "a MAP to rows that end in their time";
        let LogicalType::Map(_, value) = &self.field.data_type.logical else {
            return self.of(false, wanted, Function::MergeMap);
        };
        let LogicalType::Row(fields) = &value.logical else {
            return self.of(false, wanted, Function::MergeMap);
        };
        self.comparable_map_key()?;
        let key = self.key("ts-field");
        let time = match self.options.get(&key) {
            None => fields.len().saturating_sub(1),
            Some(name) => self
                .places(fields, &key, name)?
                .first()
                .copied()
                .unwrap_or(0),
        };
        let text = fields.get(time).is_some_and(|f| {
            matches!(
                f.data_type.logical,
                LogicalType::Char(_) | LogicalType::VarChar(_)
            )
        });
        let fits = fields.len() >= 2 && text;
        self.of(
            fits,
            "rows of at least two fields whose time is a text",
            Function::MergeMapWithKeyTime { time },
        )
    }

    /// The fields of the element rows.
    fn element_fields(&self) -> Result<&[DataField]> {
        match &self.field.data_type.logical {
            LogicalType::Array(element) => match &element.logical {
                LogicalType::Row(fields) => Ok(fields),
                _ => self.refuse("takes an ARRAY of rows; use another type, or another function"),
            },
            _ => self.refuse("takes an ARRAY of rows; use another type, or another function"),
        }
    }

    fn places(&self, fields: &[DataField], key: &str, names: &str) -> Result<Vec<usize>> {
        let mut out = Vec::new();
        for name in names.split(',').map(str::trim) {
            match fields.iter().position(|f| f.name == name) {
                Some(at)
                    if fields
                        .get(at)
                        .is_some_and(|f| compares(&f.data_type.logical)) =>
                {
                    out.push(at)
                }
                Some(_) => {
                    return option(
                        key,
                        names,
                        format!("the values of '{name}' do not compare; name another field"),
                    );
                }
                None => {
                    let all: Vec<_> = fields.iter().map(|f| f.name.as_str()).collect();
                    return option(
                        key,
                        names,
                        format!(
                            "'{name}' is no field of the rows; they have {}",
                            all.join(", ")
                        ),
                    );
                }
            }
        }
        Ok(out)
    }

    fn nested_key(&self, fields: &[DataField]) -> Result<Vec<usize>> {
        let key = self.key("nested-key");
        match self.options.get(&key) {
            None => Ok(Vec::new()),
            Some(names) => self.places(fields, &key, names),
        }
    }

    fn null_keys(&self) -> Result<NullKeys> {
        let word = self.options.word(
            &self.key("nested-key-null-strategy"),
            &["merge", "ignore", "error"],
        );
        Ok(match word? {
            Some("ignore") => NullKeys::Ignore,
            Some("error") => NullKeys::Error,
            _ => NullKeys::Merge,
        })
    }

    fn nested_update(&self) -> Result<Function> {
        let fields = self.element_fields()?;
        let key = self.nested_key(fields)?;
        let sequence_key = self.key("nested-sequence-field");
        let sequence = match self.options.get(&sequence_key) {
            None => Vec::new(),
            Some(names) => self.places(fields, &sequence_key, names)?,
        };
        if key.is_empty() {
            for suffix in ["nested-key-null-strategy", "nested-sequence-field"] {
                let given = self.key(suffix);
                if let Some(text) = self.options.get(&given) {
                    return option(
                        &given,
                        text,
                        format!(
                            "needs '{}'; set it too, or remove this one",
                            self.key("nested-key")
                        ),
                    );
                }
            }
            let whole = LogicalType::Row(fields.to_vec());
            if !compares(&whole) {
                return self.refuse("must tell rows apart, and some of their fields have no order; name a nested-key");
            }
        }
        let limit = match self.options.positive(&self.key("count-limit"))? {
            Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        Ok(Function::NestedUpdate {
            key,
            sequence,
            nulls: self.null_keys()?,
            limit,
        })
    }

    fn nested_partial_update(&self) -> Result<Function> {
        let key = self.nested_key(self.element_fields()?)?;
        if key.is_empty() {
            let wanted = self.key("nested-key");
            return self.refuse(&format!(
                "needs '{wanted}': name the fields that tell rows apart"
            ));
        }
        Ok(Function::NestedPartialUpdate {
            key,
            nulls: self.null_keys()?,
        })
    }
}

/// The function that the options give to a column, and the key that says so.
pub(super) fn given(field: &DataField, options: &Options) -> Result<Option<Function>> {
    let own = format!("fields.{}.aggregate-function", field.name);
    let common = "fields.default-aggregate-function";
    for key in [own.as_str(), common] {
        if let Some(name) = options.get(key) {
            return Function::parse(name, key, field, options).map(Some);
        }
    }
    Ok(None)
}

/// `fields.<column>.ignore-retract`
pub(super) fn ignores_retracts(field: &DataField, options: &Options) -> Result<bool, Error> {
    Ok(options
        .bool(&format!("fields.{}.ignore-retract", field.name))?
        .unwrap_or(false))
}
