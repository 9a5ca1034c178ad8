//! A writer's schema, parsed and compared with the wanted fields.
//!
//! Owns remembering the last few of a thread: a table's manifests, of which a start or a clean-up reads
//! hundreds, carry one of two or three texts, and parsing one takes longer than reading a few records.
//! Bounded in number and size; what it gives depends on its arguments alone.

use super::plan::{Field, RecordPlan};
use super::schema::Schema;
use crate::error::Result;
use std::cell::RefCell;
use std::sync::Arc;

/// Shapes that a thread remembers.
const REMEMBERED: usize = 8;
/// Longer texts are parsed each time.
const LONGEST: usize = 64 * 1024;

/// What a container's records look like.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) schema: Schema,
    pub(crate) plan: RecordPlan,
}

struct Known {
    text: Box<[u8]>,
    fields: &'static [Field],
    shape: Arc<Shape>,
}

thread_local! {
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

impl Shape {
    /// Parses `avro.schema` and resolves these fields against it.
    pub(crate) fn of(text: &[u8], fields: &'static [Field]) -> Result<Arc<Self>> {
        let is_it = |known: &Known| std::ptr::eq(known.fields, fields) && *known.text == *text;
        let found = KNOWN.with_borrow_mut(|known| {
            let at = known.iter().position(is_it)?;
            // The one just used goes last, so that the first is the one to give up.
            known.get_mut(at..)?.rotate_left(1);
            known.last().map(|known| Arc::clone(&known.shape))
        });
        if let Some(found) = found {
            return Ok(found);
        }
        let schema = Schema::parse(text).map_err(|e| e.in_field("avro.schema"))?;
        let plan = RecordPlan::resolve(&schema, fields)?;
        let shape = Arc::new(Self { schema, plan });
        if text.len() <= LONGEST {
            KNOWN.with_borrow_mut(|known| {
                if known.len() >= REMEMBERED {
                    known.remove(0);
                }
                known.push(Known {
                    text: text.into(),
                    fields,
                    shape: Arc::clone(&shape),
                });
            });
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NO_FIELDS: &[Field] = &[];

    fn text(nth: usize) -> Vec<u8> {
        format!(r#"{{"type":"record","name":"r{nth}","fields":[{{"name":"a","type":"int"}}]}}"#)
            .into_bytes()
    }

    #[test]
    fn a_text_is_parsed_once_while_it_is_among_the_last_few() {
        let first = Shape::of(&text(0), NO_FIELDS).unwrap();
        for nth in 1..REMEMBERED {
            Shape::of(&text(nth), NO_FIELDS).unwrap();
        }
        assert!(Arc::ptr_eq(
            &first,
            &Shape::of(&text(0), NO_FIELDS).unwrap()
        ));
        for nth in 1..=REMEMBERED {
            Shape::of(&text(100 + nth), NO_FIELDS).unwrap();
        }
        assert!(!Arc::ptr_eq(
            &first,
            &Shape::of(&text(0), NO_FIELDS).unwrap()
        ));
        assert_eq!(KNOWN.with_borrow(Vec::len), REMEMBERED);
    }

    #[test]
    fn what_is_no_schema_is_refused_every_time() {
        for _ in 0..2 {
            assert!(Shape::of(b"{}", NO_FIELDS).is_err());
        }
    }
}
