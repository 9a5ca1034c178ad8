//! The text grammar of types \[F-2.3]: one pass, bounded depth, errors with the place.

use super::{DataField, DataType, LogicalType, MAX_DEPTH, MAX_LENGTH};
use crate::error::{Error, Result};

/// Reads a whole text as one type.
pub(super) fn parse(text: &str) -> Result<DataType> {
    let mut parser = Parser {
        text,
        chars: text.chars().collect(),
        pos: 0,
    };
    let (data_type, _) = parser.data_type(0)?;
    parser.skip_blanks();
    if parser.pos < parser.chars.len() {
        return Err(parser.expected("the end of the type"));
    }
    Ok(data_type)
}

fn not_writable(word: &str) -> Error {
    Error::TypeNotWritable {
        word: word.to_owned(),
    }
}

struct Parser<'a> {
    text: &'a str,
    chars: Vec<char>,
    pos: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.pos).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.pos += 1;
        }
    }

    /// An error at the next token.
    fn expected(&mut self, what: &str) -> Error {
        self.skip_blanks();
        self.expected_here(what)
    }

    fn expected_here(&self, what: &str) -> Error {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(c) if is_word(c) => {
                let rest = self.chars.get(self.pos..).unwrap_or_default();
                let word: String = rest
                    .iter()
                    .copied()
                    .take_while(|c| is_word(*c))
                    .take(40)
                    .collect();
                format!("'{word}'")
            }
            Some(c) => format!("'{}'", c.escape_debug()),
        };
        // A hostile text must not come back whole in an error.
        let text: String = self.text.chars().take(200).collect();
        Error::TypeText {
            text,
            at: self.pos,
            expected: what.to_owned(),
            found,
        }
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip_blanks();
        let hit = self.peek() == Some(c);
        if hit {
            self.pos += 1;
        }
        hit
    }

    fn demand(&mut self, c: char) -> Result<()> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(self.expected(&format!("'{c}'")))
        }
    }

    /// The next word in upper case, not consumed.
    fn peek_word(&mut self) -> String {
        self.skip_blanks();
        let rest = self.chars.get(self.pos..).unwrap_or_default();
        rest.iter()
            .take_while(|c| is_word(**c))
            .map(char::to_ascii_uppercase)
            .collect()
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let hit = self.peek_word() == word;
        if hit {
            self.pos += word.len();
        }
        hit
    }

    fn demand_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.expected(word))
        }
    }

    fn number(&mut self) -> Result<u32> {
        self.skip_blanks();
        let start = self.pos;
        let mut value: u32 = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            match value.checked_mul(10).and_then(|v| v.checked_add(digit)) {
                Some(next) if next <= MAX_LENGTH => value = next,
                _ => {
                    self.pos = start;
                    return Err(self.expected_here(&format!("a number up to {MAX_LENGTH}")));
                }
            }
            self.pos += 1;
        }
        if self.pos == start {
            Err(self.expected_here("a number"))
        } else {
            Ok(value)
        }
    }

    /// `(n)` within a range; `None` without brackets.
    fn parameter(&mut self, range: std::ops::RangeInclusive<u32>) -> Result<Option<u32>> {
        if !self.eat('(') {
            return Ok(None);
        }
        let value = self.ranged(&range)?;
        self.demand(')')?;
        Ok(Some(value))
    }

    fn ranged(&mut self, range: &std::ops::RangeInclusive<u32>) -> Result<u32> {
        self.skip_blanks();
        let start = self.pos;
        let value = self.number()?;
        if !range.contains(&value) {
            self.pos = start;
            return Err(self.expected_here(&format!(
                "a number from {} to {}",
                range.start(),
                range.end()
            )));
        }
        Ok(value)
    }

    /// A type with its suffixes, and how deep it nests.
    fn data_type(&mut self, depth: usize) -> Result<(DataType, usize)> {
        if depth > MAX_DEPTH {
            return Err(self.expected(&format!("at most {MAX_DEPTH} levels of nesting")));
        }
        let (logical, mut height) = self.base(depth)?;
        let mut data_type = DataType {
            logical,
            nullable: self.nullability()?,
        };
        loop {
            let wrap: fn(Box<DataType>) -> LogicalType = match self.peek_word().as_str() {
                "ARRAY" => LogicalType::Array,
                "MULTISET" => LogicalType::Multiset,
                _ => return Ok((data_type, height)),
            };
            height += 1;
            if depth + height > MAX_DEPTH {
                return Err(self.expected(&format!("at most {MAX_DEPTH} levels of nesting")));
            }
            self.pos += self.peek_word().len();
            data_type = DataType {
                logical: wrap(Box::new(data_type)),
                nullable: self.nullability()?,
            };
        }
    }

    /// `NOT NULL`, `NULL` or nothing.
    fn nullability(&mut self) -> Result<bool> {
        if self.eat_word("NOT") {
            self.demand_word("NULL")?;
            return Ok(false);
        }
        self.eat_word("NULL");
        Ok(true)
    }

    fn base(&mut self, depth: usize) -> Result<(LogicalType, usize)> {
        let word = self.peek_word();
        let start = self.pos;
        self.pos += word.chars().count();
        let atomic = match word.as_str() {
            "BOOLEAN" => LogicalType::Boolean,
            "TINYINT" => LogicalType::TinyInt,
            "SMALLINT" => LogicalType::SmallInt,
            "INT" | "INTEGER" => LogicalType::Int,
            "BIGINT" => LogicalType::BigInt,
            "FLOAT" => LogicalType::Float,
            "DOUBLE" => {
                self.eat_word("PRECISION");
                LogicalType::Double
            }
            "DECIMAL" | "NUMERIC" | "DEC" => self.decimal()?,
            "CHAR" => LogicalType::Char(self.parameter(1..=MAX_LENGTH)?.unwrap_or(1)),
            "VARCHAR" => LogicalType::VarChar(self.parameter(1..=MAX_LENGTH)?.unwrap_or(1)),
            "STRING" => LogicalType::STRING,
            "BINARY" => LogicalType::Binary(self.parameter(1..=MAX_LENGTH)?.unwrap_or(1)),
            "VARBINARY" => LogicalType::VarBinary(self.parameter(1..=MAX_LENGTH)?.unwrap_or(1)),
            "BYTES" => LogicalType::BYTES,
            "DATE" => LogicalType::Date,
            "TIME" => {
                let precision = self.parameter(0..=9)?.unwrap_or(0);
                if self.eat_word("WITHOUT") {
                    self.demand_word("TIME")?;
                    self.demand_word("ZONE")?;
                }
                LogicalType::Time(precision as u8)
            }
            "TIMESTAMP" => self.timestamp()?,
            "TIMESTAMP_LTZ" => LogicalType::TimestampLtz(self.parameter(0..=9)?.unwrap_or(6) as u8),
            // Tables of released Paimon spell them without brackets, SQL does not always.
            "VARIANT" | "BLOB" if self.next_is('(') => return Err(not_writable(&word)),
            "VECTOR" if !self.next_is('<') => return Err(not_writable(&word)),
            "VARIANT" => LogicalType::Variant,
            "BLOB" => LogicalType::Blob,
            "GEOMETRY" => LogicalType::Geometry(self.raw_arguments("OGC:CRS84")?),
            "GEOGRAPHY" => LogicalType::Geography(self.raw_arguments("OGC:CRS84, spherical")?),
            "ARRAY" | "MULTISET" | "MAP" | "VECTOR" | "ROW" => {
                return self.constructed(&word, depth);
            }
            _ => {
                self.pos = start;
                return Err(self.expected_here("a type such as BIGINT, STRING or ARRAY<INT>"));
            }
        };
        Ok((atomic, 0))
    }

    fn next_is(&mut self, c: char) -> bool {
        self.skip_blanks();
        self.peek() == Some(c)
    }

    fn decimal(&mut self) -> Result<LogicalType> {
        let (mut precision, mut scale) = (10, 0);
        if self.eat('(') {
            precision = self.ranged(&(1..=38))?;
            if self.eat(',') {
                scale = self.ranged(&(0..=precision))?;
            }
            self.demand(')')?;
        }
        Ok(LogicalType::Decimal {
            precision: precision as u8,
            scale: scale as u8,
        })
    }

    fn timestamp(&mut self) -> Result<LogicalType> {
        let precision = self.parameter(0..=9)?.unwrap_or(6) as u8;
        if self.eat_word("WITH") {
            for word in ["LOCAL", "TIME", "ZONE"] {
                self.demand_word(word)?;
            }
            return Ok(LogicalType::TimestampLtz(precision));
        }
        if self.eat_word("WITHOUT") {
            self.demand_word("TIME")?;
            self.demand_word("ZONE")?;
        }
        Ok(LogicalType::Timestamp(precision))
    }

    /// The text between brackets as it is.
    fn raw_arguments(&mut self, default: &str) -> Result<String> {
        if !self.eat('(') {
            return Ok(default.to_owned());
        }
        let mut out = String::new();
        loop {
            match self.peek() {
                Some(')') => break,
                Some('(') | None => return Err(self.expected_here("')'")),
                Some(c) => out.push(c),
            }
            self.pos += 1;
        }
        self.pos += 1;
        let out = out.trim();
        if out.is_empty() {
            return Err(self.expected_here("a coordinate system between the brackets"));
        }
        Ok(out.to_owned())
    }

    fn constructed(&mut self, word: &str, depth: usize) -> Result<(LogicalType, usize)> {
        let close = if word == "ROW" && self.eat('(') {
            ')'
        } else {
            self.demand('<')?;
            '>'
        };
        let (logical, height) = match word {
            "ROW" => self.fields(depth, close)?,
            "MAP" => {
                let (key, a) = self.data_type(depth + 1)?;
                self.demand(',')?;
                let (value, b) = self.data_type(depth + 1)?;
                (LogicalType::Map(Box::new(key), Box::new(value)), a.max(b))
            }
            "VECTOR" => {
                let (element, height) = self.data_type(depth + 1)?;
                self.demand(',')?;
                let length = self.ranged(&(1..=MAX_LENGTH))?;
                (
                    LogicalType::Vector {
                        element: Box::new(element),
                        length,
                    },
                    height,
                )
            }
            _ => {
                let (element, height) = self.data_type(depth + 1)?;
                let element = Box::new(element);
                let logical = if word == "ARRAY" {
                    LogicalType::Array(element)
                } else {
                    LogicalType::Multiset(element)
                };
                (logical, height)
            }
        };
        self.demand(close)?;
        Ok((logical, height + 1))
    }

    fn fields(&mut self, depth: usize, close: char) -> Result<(LogicalType, usize)> {
        let (mut fields, mut height) = (Vec::<DataField>::new(), 0);
        self.skip_blanks();
        while self.peek() != Some(close) {
            if !fields.is_empty() {
                self.demand(',')?;
            }
            self.skip_blanks();
            let start = self.pos;
            let name = self.identifier()?;
            if fields.iter().any(|f| f.name == name) {
                self.pos = start;
                return Err(self.expected_here("a field name that has not occurred yet"));
            }
            let (data_type, inner) = self.data_type(depth + 1)?;
            height = height.max(inner);
            let mut field = DataField::new(name, data_type);
            field.description = self.comment()?;
            fields.push(field);
            self.skip_blanks();
        }
        Ok((LogicalType::Row(fields), height))
    }

    fn identifier(&mut self) -> Result<String> {
        self.skip_blanks();
        if self.peek() == Some('`') {
            return self.quoted('`');
        }
        let rest = self.chars.get(self.pos..).unwrap_or_default();
        let name: String = rest.iter().copied().take_while(|c| is_word(*c)).collect();
        if name.is_empty() {
            return Err(self.expected_here("a field name"));
        }
        self.pos += name.chars().count();
        Ok(name)
    }

    fn comment(&mut self) -> Result<Option<String>> {
        let announced = self.eat_word("COMMENT");
        self.skip_blanks();
        match self.peek() {
            Some('\'') => self.quoted('\'').map(Some),
            _ if announced => Err(self.expected("a comment in single quotes")),
            _ => Ok(None),
        }
    }

    /// A text in quotes; a doubled quote stands for itself.
    fn quoted(&mut self, quote: char) -> Result<String> {
        self.pos += 1;
        let mut out = String::new();
        loop {
            match self.peek() {
                None => return Err(self.expected_here(&format!("a closing {quote}"))),
                Some(c) if c == quote => {
                    self.pos += 1;
                    if self.peek() != Some(quote) {
                        break;
                    }
                    out.push(quote);
                }
                Some(c) => out.push(c),
            }
            self.pos += 1;
        }
        Ok(out)
    }
}
