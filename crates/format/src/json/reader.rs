//! The reader: pulls one value after the other from a text.

use crate::error::{Error, Position, Problem, Result, shorten};
use std::borrow::Cow;
use std::collections::HashSet;

/// Real files nest a few types deep; anything beyond is an attack on the stack.
const MAX_DEPTH: usize = 64;

/// A cursor over a JSON text.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// Keys of an object up to which they are compared one by one.
const FEW: usize = 32;

/// Keys of an object that were met. Few are looked through faster than they are hashed; many are hashed, so
/// that no object takes quadratic time.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    fn contains(&self, key: &str) -> bool {
        match self.many.is_empty() {
            true => self.few.iter().any(|met| met == key),
            false => self.many.contains(key),
        }
    }

    fn add(&mut self, key: Cow<'a, str>) {
        if self.many.is_empty() && self.few.len() < FEW {
            self.few.push(key);
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(key);
        }
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self {
                text,
                at: 0,
                depth: 0,
            }),
            Err(e) => {
                let valid = bytes.get(..e.valid_up_to()).unwrap_or_default();
                let text = std::str::from_utf8(valid).unwrap_or_default();
                Err(Error::new(Problem::NotUtf8).at(position(text, text.len())))
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error_at(&self, at: usize, problem: Problem) -> Error {
        Error::new(problem).at(position(self.text, at))
    }

    /// An error at the value that was just read.
    pub(crate) fn error(&self, problem: Problem) -> Error {
        self.error_at(self.at, problem)
    }

    /// Gives an error this place, unless it has one.
    pub(crate) fn located(&self, error: Error) -> Error {
        error.at(position(self.text, self.at))
    }

    fn unexpected(&self, expected: &'static str) -> Error {
        let rest = self.rest();
        if rest.is_empty() {
            return self.error(Problem::Truncated { needed: 1 });
        }
        let end = rest
            .char_indices()
            .find(|(i, c)| *i > 0 && (matches!(c, ',' | ':' | '}' | ']') || c.is_whitespace()))
            .map_or(rest.len(), |(i, _)| i);
        let found = format!("`{}`", shorten(rest.get(..end).unwrap_or_default()));
        self.error(Problem::Unexpected { expected, found })
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    /// The first byte of the next value, blanks skipped.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.byte()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
        }
        found
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(Problem::TooDeep(MAX_DEPTH)));
        }
        Ok(())
    }

    /// Reads an object; `each` must read the value of every key it is given.
    pub(crate) fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        if !self.eat(b'{') {
            return Err(self.unexpected("an object"));
        }
        self.enter()?;
        let mut seen = Keys::default();
        if !self.eat(b'}') {
            loop {
                self.skip_blanks();
                let key_at = self.at;
                let key = self.string_or("a key in quotes")?;
                if seen.contains(&key) {
                    return Err(self.error_at(key_at, Problem::DuplicateKey(shorten(&key))));
                }
                if !self.eat(b':') {
                    return Err(self.unexpected("`:`"));
                }
                each(self, &key).map_err(|e| e.in_field(&key))?;
                seen.add(key);
                if self.eat(b'}') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.unexpected("`,` or `}`"));
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an array; `each` must read every item.
    pub(crate) fn array(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if !self.eat(b'[') {
            return Err(self.unexpected("an array"));
        }
        self.enter()?;
        if !self.eat(b']') {
            let mut index = 0u64;
            loop {
                each(self).map_err(|e| e.in_field(&format!("[{index}]")))?;
                index += 1;
                if self.eat(b']') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.unexpected("`,` or `]`"));
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Eats a `null`, if one is next.
    pub(crate) fn null(&mut self) -> bool {
        self.word("null")
    }

    fn word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest();
        let found = rest.starts_with(word)
            && !rest
                .get(word.len()..)
                .is_some_and(|r| r.starts_with(|c: char| c.is_alphanumeric()));
        if found {
            self.at += word.len();
        }
        found
    }

    /// A string.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.string_or("a string")
    }

    fn string_or(&mut self, expected: &'static str) -> Result<Cow<'a, str>> {
        self.skip_blanks();
        if self.byte() != Some(b'"') {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        let mut owned: Option<String> = None;
        let mut plain_from = self.at;
        loop {
            let Some(byte) = self.byte() else {
                return Err(self.unexpected("the end of a string"));
            };
            match byte {
                b'"' => {
                    let plain = self.text.get(plain_from..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(plain),
                        Some(mut text) => {
                            text.push_str(plain);
                            Cow::Owned(text)
                        }
                    });
                }
                b'\\' => {
                    let plain = self.text.get(plain_from..self.at).unwrap_or_default();
                    let text = owned.get_or_insert_with(String::new);
                    text.push_str(plain);
                    let escaped = self.escape()?;
                    text.push(escaped);
                    plain_from = self.at;
                }
                0..=0x1f => return Err(self.unexpected("an escaped control character")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let bad = |s: &Self| {
            s.error_at(
                start,
                Problem::Unexpected {
                    expected: "a valid escape",
                    found: format!(
                        "`{}`",
                        s.text
                            .get(start..)
                            .unwrap_or_default()
                            .chars()
                            .take(6)
                            .collect::<String>()
                    ),
                },
            )
        };
        self.at += 1;
        let byte = self.byte().ok_or_else(|| self.unexpected("an escape"))?;
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex4().ok_or_else(|| bad(self))?;
                let code = match first {
                    0xd800..=0xdbff => {
                        if !self.rest().starts_with("\\u") {
                            return Err(bad(self));
                        }
                        self.at += 2;
                        match self.hex4() {
                            Some(second @ 0xdc00..=0xdfff) => {
                                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                            }
                            _ => return Err(bad(self)),
                        }
                    }
                    other => other,
                };
                char::from_u32(code).ok_or_else(|| bad(self))?
            }
            _ => return Err(bad(self)),
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at.checked_add(4)?)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    /// A number as it stands in the text.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        self.skip_blanks();
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| {
            bytes
                .get(from..)
                .unwrap_or_default()
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut end = usize::from(bytes.first() == Some(&b'-'));
        let whole = digits(end);
        let leading_zero = whole > 1 && bytes.get(end) == Some(&b'0');
        end += whole;
        let mut complete = whole > 0 && !leading_zero;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            complete &= fraction > 0;
            end += 1 + fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            end += 1;
            end += usize::from(matches!(bytes.get(end), Some(b'+' | b'-')));
            let exponent = digits(end);
            complete &= exponent > 0;
            end += exponent;
        }
        if !complete {
            return Err(self.unexpected("a number"));
        }
        self.at += end;
        Ok(rest.get(..end).unwrap_or_default())
    }

    /// A whole number of 64 bits; anything that would be rounded is refused.
    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.skip_blanks();
        let start = self.at;
        let text = self.number()?;
        text.parse().map_err(|_| {
            let found = format!("`{}`", shorten(text));
            self.error_at(
                start,
                Problem::Unexpected {
                    expected: "a whole number of 64 bits",
                    found,
                },
            )
        })
    }

    /// A whole number of 32 bits.
    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.skip_blanks();
        let start = self.at;
        let text = self.number()?;
        text.parse().map_err(|_| {
            let found = format!("`{}`", shorten(text));
            self.error_at(
                start,
                Problem::Unexpected {
                    expected: "a whole number of 32 bits",
                    found,
                },
            )
        })
    }

    /// Any value, checked, as the text between its first and last byte.
    pub(crate) fn raw(&mut self) -> Result<&'a str> {
        self.skip_blanks();
        let start = self.at;
        match self.byte() {
            Some(b'{') => self.object(|r, _| r.raw().map(drop))?,
            Some(b'[') => self.array(|r| r.raw().map(drop))?,
            Some(b'"') => drop(self.string()?),
            Some(b'-' | b'0'..=b'9') => drop(self.number()?),
            _ if self.word("null") || self.word("true") || self.word("false") => {}
            _ => return Err(self.unexpected("a value")),
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    /// `None` for null, else what `read` makes of it.
    pub(crate) fn nullable<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.null() {
            Ok(None)
        } else {
            read(self).map(Some)
        }
    }

    /// All strings of an array.
    pub(crate) fn strings(&mut self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        self.array(|r| {
            all.push(r.string()?.into_owned());
            Ok(())
        })?;
        Ok(all)
    }

    /// An object of strings, order kept.
    pub(crate) fn string_map(&mut self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        self.object(|r, key| {
            all.push((key.to_owned(), r.string()?.into_owned()));
            Ok(())
        })?;
        Ok(all)
    }

    /// Checks that only blanks follow.
    pub(crate) fn end(mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the file")),
        }
    }
}

/// Line and column of a byte offset; only computed for errors.
fn position(text: &str, at: usize) -> Position {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    Position::Text {
        line: line as u64,
        column: column as u64,
    }
}
