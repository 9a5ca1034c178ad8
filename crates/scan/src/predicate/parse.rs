//! The text form of conditions.

use super::{Comparison, Condition, Predicate, Term, literal};
use tidegate_model::{DataField, TableSchema};

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Column(String),
    Op(Comparison),
}

pub(super) fn parse(text: &str, schema: &TableSchema) -> Result<Predicate, String> {
    let tokens = tokens(text)?;
    let mut rest = tokens.as_slice();
    let mut terms = Vec::new();
    loop {
        let (term, after) = term(rest, schema)?;
        terms.push(term);
        rest = match after {
            [] => return Ok(Predicate { terms }),
            [Token::Word(word), after @ ..] if word.eq_ignore_ascii_case("and") => after,
            [Token::Word(word), ..] if word.eq_ignore_ascii_case("or") => {
                return Err("only AND joins conditions here".to_owned());
            }
            [other, ..] => return Err(format!("expected AND, found {}", shown(other))),
        };
    }
}

fn term<'t>(tokens: &'t [Token], schema: &TableSchema) -> Result<(Term, &'t [Token]), String> {
    let (column, rest) = match tokens {
        [Token::Word(name) | Token::Column(name), rest @ ..] => (column(name, schema)?, rest),
        [other, ..] => return Err(format!("expected a column, found {}", shown(other))),
        [] => {
            return Err("expected `column op literal`, for instance id = 7".to_owned());
        }
    };
    let is =
        |token: &Token, word: &str| matches!(token, Token::Word(w) if w.eq_ignore_ascii_case(word));
    let with = |condition| Term {
        field: column.clone(),
        condition,
    };
    match rest {
        [i, n, after @ ..] if is(i, "is") && is(n, "null") => Ok((with(Condition::Null), after)),
        [i, not, n, after @ ..] if is(i, "is") && is(not, "not") && is(n, "null") => {
            Ok((with(Condition::NotNull), after))
        }
        [Token::Op(_), null, ..] if is(null, "null") => Err(format!(
            "nothing compares to null; ask `{0} IS NULL` or `{0} IS NOT NULL`",
            column.name
        )),
        [
            Token::Op(op),
            Token::Word(value) | Token::Quoted(value),
            after @ ..,
        ] => {
            let value = literal::read(value, &column.data_type.logical).ok_or_else(|| {
                let (name, logical) = (&column.name, &column.data_type.logical);
                format!("column `{name}` is {logical}, which '{value}' is not")
            })?;
            Ok((with(Condition::Compare(*op, value)), after))
        }
        [Token::Op(_), ..] => Err(format!("a literal is missing behind `{}`", column.name)),
        _ => Err(format!(
            "expected =, <>, <, <=, >, >=, IS NULL or IS NOT NULL behind `{}`",
            column.name
        )),
    }
}

fn column(name: &str, schema: &TableSchema) -> Result<DataField, String> {
    let found = schema.fields.iter().find(|f| f.name == name);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
        format!("no column `{name}` (there are: {})", known.join(", "))
    })
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(text) | Token::Column(text) => format!("`{text}`"),
        Token::Quoted(text) => format!("'{text}'"),
        Token::Op(_) => "an operator".to_owned(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '\'' => {
                let (value, after) = quoted(rest, '\'')?;
                (Token::Quoted(value), after)
            }
            '`' | '"' => {
                let (value, after) = quoted(rest, first)?;
                (Token::Column(value), after)
            }
            '=' | '<' | '>' | '!' => operator(rest)?,
            c if c.is_alphanumeric() || "_+-.".contains(c) => {
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || "_+-.$".contains(c)))
                    .unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                (Token::Word(word.to_owned()), after)
            }
            other => return Err(format!("unexpected `{other}`")),
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn operator(text: &str) -> Result<(Token, &str), String> {
    use Comparison as C;
    let operators = [
        ("<>", C::NotEqual),
        ("!=", C::NotEqual),
        ("<=", C::AtMost),
        (">=", C::AtLeast),
        ("==", C::Equal),
        ("=", C::Equal),
        ("<", C::Less),
        (">", C::Greater),
    ];
    let found = operators
        .iter()
        .find_map(|(word, op)| Some((Token::Op(*op), text.strip_prefix(word)?)));
    found.ok_or_else(|| "unexpected `!`".to_owned())
}

/// A quoted text; the quote itself stands in it twice.
fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some((part, after)) = rest.split_once(quote) {
        value.push_str(part);
        match after.strip_prefix(quote) {
            Some(after) => {
                value.push(quote);
                rest = after;
            }
            None => return Ok((value, after)),
        }
    }
    Err(format!("the text {text} has no end"))
}
