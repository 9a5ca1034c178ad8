//! How to read records of one shape out of a file whose writer may know more fields, fewer, or others.
//!
//! A shape is a static table of the fields we want; [`RecordPlan::resolve`] compares it by name with
//! the writer's schema once per file. Fields that we do not know are skipped; nullable ones that the
//! writer does not know are null; a missing or ill-typed field is an error before any record is read.

use super::cursor::Cursor;
use super::schema::{Id, Node, Schema, branch};
use crate::error::{Error, Problem, Result};

/// A field that we want.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) want: Want,
    /// False: may be absent from the writer's schema.
    pub(crate) required: bool,
}

/// What type we want it to be.
#[derive(Debug)]
pub(crate) enum Want {
    Int,
    Long,
    Bytes,
    Text,
    Array(&'static Want),
    Record(&'static [Field]),
}

/// A field that every writer has.
pub(crate) const fn required(name: &'static str, want: Want) -> Field {
    Field {
        name,
        want,
        required: true,
    }
}

/// A field that only some releases have.
pub(crate) const fn optional(name: &'static str, want: Want) -> Field {
    Field {
        name,
        want,
        required: false,
    }
}

/// A union of null and one type: how many branches it has, and which is the value's.
type Nullable = Option<(usize, usize)>;

/// What the writer wrote where we want something.
#[derive(Debug)]
pub(crate) struct Slot {
    union: Nullable,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// `int` and `long` have one encoding.
    Number,
    /// Likewise `bytes` and `string`.
    Bytes,
    Array(Box<Slot>),
    Record(RecordPlan),
}

/// The writer's fields in its order.
#[derive(Debug)]
pub(crate) struct RecordPlan {
    /// Of the root, where the writer lets it be null: the `paimon` crate does, Java reads it.
    root: Nullable,
    fields: &'static [Field],
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Skip(Id),
    Read(usize, Slot),
}

impl RecordPlan {
    /// Compares the root of a writer's schema with the fields that we want.
    pub(crate) fn resolve(schema: &Schema, fields: &'static [Field]) -> Result<Self> {
        let (root, id) = without_null(schema, schema.root())?;
        let plan = Self::of(schema, id, fields)?;
        Ok(Self { root, ..plan })
    }

    fn of(schema: &Schema, id: Id, fields: &'static [Field]) -> Result<Self> {
        let Node::Record(theirs) = schema.node(id) else {
            return Err(mismatch("a record", schema.node(id)));
        };
        let mut found = vec![false; fields.len()];
        let mut steps = Vec::with_capacity(theirs.len());
        for (name, id) in theirs {
            let Some((index, field)) = fields.iter().enumerate().find(|(_, f)| f.name == name)
            else {
                steps.push(Step::Skip(*id));
                continue;
            };
            if found
                .get_mut(index)
                .is_some_and(|found| std::mem::replace(found, true))
            {
                return Err(schema_error("defined twice").in_field(field.name));
            }
            let slot = Slot::of(schema, *id, &field.want).map_err(|e| e.in_field(field.name))?;
            steps.push(Step::Read(index, slot));
        }
        let missing = fields
            .iter()
            .zip(found)
            .find(|(field, found)| field.required && !found);
        match missing {
            Some((field, _)) => {
                Err(schema_error("not in the writer's schema").in_field(field.name))
            }
            None => Ok(Self {
                root: None,
                fields,
                steps,
            }),
        }
    }

    /// Reads one record: `read` gets the index of each wanted field in the order of the file.
    pub(crate) fn read<'b>(
        &'b self,
        schema: &Schema,
        cursor: &mut Cursor<'b>,
        mut read: impl FnMut(usize, &'b Slot, &mut Cursor<'b>) -> Result<()>,
    ) -> Result<()> {
        must_be_present(self.root, cursor)?;
        for step in &self.steps {
            match step {
                Step::Skip(id) => schema.skip(*id, cursor)?,
                Step::Read(index, slot) => read(*index, slot, cursor)
                    .map_err(|e| e.in_field(self.fields.get(*index).map_or("", |f| f.name)))?,
            }
        }
        Ok(())
    }
}

fn schema_error(what: &str) -> Error {
    Error::new(Problem::Schema(what.to_owned()))
}

fn mismatch(want: &str, node: &Node) -> Error {
    let theirs = match node {
        Node::Null => "null",
        Node::Boolean => "boolean",
        Node::Int => "int",
        Node::Long => "long",
        Node::Float => "float",
        Node::Double => "double",
        Node::Bytes => "bytes",
        Node::Text => "string",
        Node::Fixed(_) => "fixed",
        Node::Enum => "enum",
        Node::Array(_) => "array",
        Node::Map(_) => "map",
        Node::Union(_) => "union",
        Node::Record(_) => "record",
    };
    schema_error(&format!("{want} is needed, the file has {theirs}"))
}

/// What stands there, null taken off.
fn without_null(schema: &Schema, id: Id) -> Result<(Nullable, Id)> {
    let Node::Union(branches) = schema.node(id) else {
        return Ok((None, id));
    };
    let null = |id: &Id| matches!(schema.node(*id), Node::Null);
    // A second null would be no union of Avro's.
    let first = branches.iter().position(null);
    let others = branches.iter().enumerate();
    let mut values = others.filter(|(i, _)| Some(*i) != first);
    let (Some((value, id)), None) = (values.next(), values.next()) else {
        return Err(schema_error("a union must be of null and one type"));
    };
    Ok((Some((branches.len(), value)), *id))
}

/// True where a value follows, false for null.
fn present(union: Nullable, cursor: &mut Cursor<'_>) -> Result<bool> {
    match union {
        None => Ok(true),
        Some((branches, value)) => Ok(branch(cursor, branches)? == value),
    }
}

fn must_be_present(union: Nullable, cursor: &mut Cursor<'_>) -> Result<()> {
    if present(union, cursor)? {
        return Ok(());
    }
    Err(cursor.error(Problem::Unexpected {
        expected: "a value",
        found: "null".to_owned(),
    }))
}

impl Slot {
    fn of(schema: &Schema, id: Id, want: &'static Want) -> Result<Self> {
        let (union, id) = without_null(schema, id)?;
        Ok(Self {
            union,
            shape: Shape::of(schema, id, want)?,
        })
    }

    /// True where a value follows, false for null.
    pub(crate) fn present(&self, cursor: &mut Cursor<'_>) -> Result<bool> {
        present(self.union, cursor)
    }

    fn must_be_present(&self, cursor: &mut Cursor<'_>) -> Result<()> {
        must_be_present(self.union, cursor)
    }

    /// A number of 32 bits that may not be null.
    pub(crate) fn int(&self, cursor: &mut Cursor<'_>) -> Result<i32> {
        self.must_be_present(cursor)?;
        cursor.int()
    }

    /// A number of 64 bits that may not be null.
    pub(crate) fn long(&self, cursor: &mut Cursor<'_>) -> Result<i64> {
        self.must_be_present(cursor)?;
        cursor.long()
    }

    /// Bytes that may not be null.
    pub(crate) fn bytes<'b>(&self, cursor: &mut Cursor<'b>) -> Result<&'b [u8]> {
        self.must_be_present(cursor)?;
        cursor.bytes()
    }

    /// A text that may not be null.
    pub(crate) fn text<'b>(&self, cursor: &mut Cursor<'b>) -> Result<&'b str> {
        self.must_be_present(cursor)?;
        cursor.text()
    }

    /// A number of 32 bits whose branch was read.
    pub(crate) fn int_value(&self, cursor: &mut Cursor<'_>) -> Result<i32> {
        cursor.int()
    }

    /// A number of 64 bits whose branch was read.
    pub(crate) fn long_value(&self, cursor: &mut Cursor<'_>) -> Result<i64> {
        cursor.long()
    }

    /// `None` for null, else what `read` makes of it.
    pub(crate) fn nullable<'b, T>(
        &'b self,
        cursor: &mut Cursor<'b>,
        read: impl FnOnce(&'b Self, &mut Cursor<'b>) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.present(cursor)? {
            read(self, cursor).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The plan of a record that may not be null.
    pub(crate) fn existing_record(&self, cursor: &mut Cursor<'_>) -> Result<&RecordPlan> {
        self.must_be_present(cursor)?;
        self.record(cursor)
    }

    /// The plan of a record whose branch was read.
    pub(crate) fn record(&self, cursor: &Cursor<'_>) -> Result<&RecordPlan> {
        match &self.shape {
            Shape::Record(plan) => Ok(plan),
            _ => Err(cursor.error(Problem::Schema("a record is needed".to_owned()))),
        }
    }

    /// Reads each item of an array whose branch was read.
    pub(crate) fn items<'b>(
        &'b self,
        cursor: &mut Cursor<'b>,
        mut each: impl FnMut(&'b Slot, &mut Cursor<'b>) -> Result<()>,
    ) -> Result<()> {
        let Shape::Array(item) = &self.shape else {
            return Ok(());
        };
        let mut index = 0u64;
        loop {
            let (count, _) = cursor.block()?;
            if count == 0 {
                return Ok(());
            }
            // Every item that we want takes a byte at least.
            if count > cursor.left() as u64 {
                let length = i64::try_from(count).unwrap_or(i64::MAX);
                return Err(cursor.error(Problem::Length {
                    length,
                    available: cursor.left() as u64,
                }));
            }
            for _ in 0..count {
                each(item, cursor).map_err(|e| e.in_field(&format!("[{index}]")))?;
                index += 1;
            }
        }
    }
}

impl Shape {
    fn of(schema: &Schema, id: Id, want: &'static Want) -> Result<Self> {
        let node = schema.node(id);
        Ok(match (want, node) {
            (Want::Int, Node::Int) | (Want::Long, Node::Int | Node::Long) => Self::Number,
            (Want::Bytes | Want::Text, Node::Bytes | Node::Text) => Self::Bytes,
            (Want::Array(item), Node::Array(theirs)) => Self::Array(Box::new(
                Slot::of(schema, *theirs, item).map_err(|e| e.in_field("[]"))?,
            )),
            (Want::Record(fields), Node::Record(_)) => {
                Self::Record(RecordPlan::of(schema, id, fields)?)
            }
            (Want::Int, _) => return Err(mismatch("int", node)),
            (Want::Long, _) => return Err(mismatch("long", node)),
            (Want::Bytes, _) => return Err(mismatch("bytes", node)),
            (Want::Text, _) => return Err(mismatch("string", node)),
            (Want::Array(_), _) => return Err(mismatch("array", node)),
            (Want::Record(_), _) => return Err(mismatch("record", node)),
        })
    }
}

/// A list that lies in the file; its items were checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'b> {
    slot: &'b Slot,
    bytes: &'b [u8],
    count: usize,
}

impl<'b> List<'b> {
    /// Walks over an array whose branch was read.
    pub(crate) fn read(
        slot: &'b Slot,
        cursor: &mut Cursor<'b>,
        mut check: impl FnMut(&'b Slot, &mut Cursor<'b>) -> Result<()>,
    ) -> Result<Self> {
        let (start, mut count) = (cursor.at(), 0);
        slot.items(cursor, |item, cursor| {
            count += 1;
            check(item, cursor)
        })?;
        Ok(Self {
            slot,
            bytes: cursor.since(start),
            count,
        })
    }

    /// True without items.
    pub(crate) fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Reads the items, as they were checked.
    pub(crate) fn collect<T>(
        self,
        mut read: impl FnMut(&'b Slot, &mut Cursor<'b>) -> Result<T>,
    ) -> Vec<T> {
        // An empty text takes one byte in the file: growing step by step would be too much here.
        let mut all = Vec::with_capacity(self.count);
        // Checked when the entry was read, so that it cannot fail.
        let _checked = self
            .slot
            .items(&mut Cursor::new(self.bytes, 0), |item, cursor| {
                all.push(read(item, cursor)?);
                Ok(())
            });
        all
    }
}
