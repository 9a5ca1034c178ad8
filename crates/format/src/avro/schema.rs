//! The schema that a container was written with.

use super::cursor::Cursor;
use crate::error::{Error, Problem, Result, shorten};
use crate::json::Reader;
use std::collections::HashMap;

/// Deeper schemas are refused, and so are values nested deeper through recursive types.
const MAX_DEPTH: usize = 32;

/// Fields of a record, those of records directly inside it included.
const MAX_WEIGHT: usize = 4096;

/// Index of a type in its [`Schema`].
pub(crate) type Id = usize;

/// One Avro type; parts are referred to by index, so that recursive types are plain.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum,
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record(Vec<(String, Id)>),
}

/// All types of a writer's schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    nodes: Vec<Node>,
    root: Id,
}

impl Schema {
    /// Parses the text of `avro.schema`.
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        let mut parser = Parser {
            nodes: Vec::new(),
            names: HashMap::new(),
        };
        let root = Reader::new(json)
            .and_then(|mut reader| {
                let root = parser.any(&mut reader, "", 0)?;
                reader.end()?;
                Ok(root)
            })
            .map_err(|e| match e.problem() {
                Problem::Schema(_) => e,
                _ => Error::new(Problem::Schema(e.to_string())),
            })?;
        let schema = Self {
            nodes: parser.nodes,
            root,
        };
        schema.check_weight()?;
        Ok(schema)
    }

    /// Refuses records that unfold into so many others that a few bytes would take hours to skip, or
    /// that contain themselves without end.
    fn check_weight(&self) -> Result<()> {
        let mut weights = vec![None; self.nodes.len()];
        (0..self.nodes.len()).try_for_each(|id| self.weight(id, &mut weights, 0).map(drop))
    }

    fn weight(&self, id: Id, weights: &mut [Option<usize>], depth: usize) -> Result<usize> {
        let Node::Record(fields) = self.node(id) else {
            return Ok(1);
        };
        if let Some(known) = weights.get(id).copied().flatten() {
            return Ok(known);
        }
        if depth > MAX_DEPTH {
            return Err(bad(format!(
                "records nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let mut weight = 1usize;
        for (_, field) in fields {
            weight = weight.saturating_add(self.weight(*field, weights, depth + 1)?);
        }
        if weight > MAX_WEIGHT {
            return Err(bad(format!(
                "a record unfolds into more than {MAX_WEIGHT} fields"
            )));
        }
        if let Some(slot) = weights.get_mut(id) {
            *slot = Some(weight);
        }
        Ok(weight)
    }

    pub(crate) fn root(&self) -> Id {
        self.root
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        self.nodes.get(id).unwrap_or(&Node::Null)
    }

    /// Reads a value of any type and forgets it.
    pub(crate) fn skip(&self, id: Id, cursor: &mut Cursor<'_>) -> Result<()> {
        self.skip_at(id, cursor, 0)
    }

    fn skip_at(&self, id: Id, cursor: &mut Cursor<'_>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(cursor.error(Problem::TooDeep(MAX_DEPTH)));
        }
        match self.node(id) {
            Node::Null => {}
            Node::Boolean => drop(cursor.take(1)?),
            Node::Int | Node::Long | Node::Enum => drop(cursor.long()?),
            Node::Float => drop(cursor.take(4)?),
            Node::Double => drop(cursor.take(8)?),
            Node::Bytes | Node::Text => drop(cursor.bytes()?),
            Node::Fixed(size) => drop(cursor.take(*size)?),
            Node::Array(item) => self.skip_blocks(cursor, |s, c| s.skip_at(*item, c, depth + 1))?,
            Node::Map(value) => self.skip_blocks(cursor, |s, c| {
                c.bytes()?;
                s.skip_at(*value, c, depth + 1)
            })?,
            Node::Union(branches) => {
                let branch = branch(cursor, branches.len())?;
                let id = branches.get(branch).copied().unwrap_or_default();
                self.skip_at(id, cursor, depth + 1)?;
            }
            Node::Record(fields) => {
                for (_, id) in fields {
                    self.skip_at(*id, cursor, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn skip_blocks(
        &self,
        cursor: &mut Cursor<'_>,
        mut skip: impl FnMut(&Self, &mut Cursor<'_>) -> Result<()>,
    ) -> Result<()> {
        loop {
            let (count, size) = cursor.block()?;
            if count == 0 {
                return Ok(());
            }
            if let Some(size) = size {
                cursor.take(usize::try_from(size).unwrap_or(usize::MAX))?;
                continue;
            }
            for _ in 0..count {
                let before = cursor.at();
                skip(self, cursor)?;
                // An item without bytes is like all its brothers: a count of billions costs nothing.
                if cursor.at() == before {
                    break;
                }
            }
        }
    }
}

/// The branch of a union, checked.
pub(crate) fn branch(cursor: &mut Cursor<'_>, branches: usize) -> Result<usize> {
    let start = cursor.clone();
    let branch = cursor.long()?;
    usize::try_from(branch)
        .ok()
        .filter(|b| *b < branches)
        .ok_or_else(|| {
            start.error(Problem::Unexpected {
                expected: "a branch of the union",
                found: branch.to_string(),
            })
        })
}

struct Parser {
    nodes: Vec<Node>,
    names: HashMap<String, Id>,
}

/// The members of a schema object that count; parts stay text until the namespace is known.
#[derive(Default)]
struct Members<'a> {
    kind: Option<&'a str>,
    name: Option<String>,
    namespace: Option<String>,
    fields: Option<&'a str>,
    items: Option<&'a str>,
    values: Option<&'a str>,
    size: Option<i64>,
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(Problem::Schema(what.into()))
}

impl Parser {
    fn push(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn text(&mut self, json: &str, namespace: &str, depth: usize) -> Result<Id> {
        self.any(&mut Reader::new(json.as_bytes())?, namespace, depth)
    }

    fn any(&mut self, r: &mut Reader<'_>, namespace: &str, depth: usize) -> Result<Id> {
        if depth > MAX_DEPTH {
            return Err(bad(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        match r.peek() {
            Some(b'"') => {
                let name = r.string()?;
                self.named(&name, namespace)
            }
            Some(b'[') => {
                let mut branches = Vec::new();
                r.array(|r| {
                    branches.push(self.any(r, namespace, depth + 1)?);
                    Ok(())
                })?;
                Ok(self.push(Node::Union(branches)))
            }
            _ => self.object(r, namespace, depth),
        }
    }

    fn named(&mut self, name: &str, namespace: &str) -> Result<Id> {
        let node = match name {
            "null" => Node::Null,
            "boolean" => Node::Boolean,
            "int" => Node::Int,
            "long" => Node::Long,
            "float" => Node::Float,
            "double" => Node::Double,
            "bytes" => Node::Bytes,
            "string" => Node::Text,
            _ => {
                let full = full_name(name, namespace);
                return self
                    .names
                    .get(&full)
                    .or_else(|| self.names.get(name))
                    .copied()
                    .ok_or_else(|| bad(format!("type `{}` is not defined", shorten(name))));
            }
        };
        Ok(self.push(node))
    }

    fn object(&mut self, r: &mut Reader<'_>, namespace: &str, depth: usize) -> Result<Id> {
        let mut m = Members::default();
        r.object(|r, key| {
            match key {
                "type" => m.kind = Some(r.raw()?),
                "name" => m.name = Some(r.string()?.into_owned()),
                "namespace" => m.namespace = r.nullable(|r| Ok(r.string()?.into_owned()))?,
                "fields" => m.fields = Some(r.raw()?),
                "items" => m.items = Some(r.raw()?),
                "values" => m.values = Some(r.raw()?),
                "size" => m.size = Some(r.i64()?),
                _ => drop(r.raw()?),
            }
            Ok(())
        })?;
        let kind = m.kind.ok_or_else(|| bad("an object without `type`"))?;
        match kind {
            "\"array\"" => {
                let items = m.items.ok_or_else(|| bad("an array without `items`"))?;
                let item = self.text(items, namespace, depth + 1)?;
                Ok(self.push(Node::Array(item)))
            }
            "\"map\"" => {
                let values = m.values.ok_or_else(|| bad("a map without `values`"))?;
                let value = self.text(values, namespace, depth + 1)?;
                Ok(self.push(Node::Map(value)))
            }
            "\"record\"" | "\"error\"" => {
                let name = m.name.ok_or_else(|| bad("a record without `name`"))?;
                let full = full_name(&name, m.namespace.as_deref().unwrap_or(namespace));
                let inner = full
                    .rsplit_once('.')
                    .map_or("", |(space, _)| space)
                    .to_owned();
                let id = self.define(full, Node::Record(Vec::new()))?;
                let json = m.fields.ok_or_else(|| bad("a record without `fields`"))?;
                let fields = self.fields(json, &inner, depth + 1)?;
                if let Some(node) = self.nodes.get_mut(id) {
                    *node = Node::Record(fields);
                }
                Ok(id)
            }
            "\"enum\"" => {
                let name = m.name.ok_or_else(|| bad("an enum without `name`"))?;
                let full = full_name(&name, m.namespace.as_deref().unwrap_or(namespace));
                self.define(full, Node::Enum)
            }
            "\"fixed\"" => {
                let name = m.name.ok_or_else(|| bad("a fixed without `name`"))?;
                let full = full_name(&name, m.namespace.as_deref().unwrap_or(namespace));
                let size = m.size.and_then(|s| usize::try_from(s).ok());
                let size = size.ok_or_else(|| bad("a fixed without a `size`"))?;
                self.define(full, Node::Fixed(size))
            }
            // A plain type with attributes, such as a logical type.
            other => self.text(other, namespace, depth + 1),
        }
    }

    fn define(&mut self, name: String, node: Node) -> Result<Id> {
        let id = self.push(node);
        match self.names.insert(name, id) {
            None => Ok(id),
            Some(_) => Err(bad("a type name is defined twice")),
        }
    }

    fn fields(&mut self, json: &str, namespace: &str, depth: usize) -> Result<Vec<(String, Id)>> {
        let mut fields: Vec<(String, Id)> = Vec::new();
        Reader::new(json.as_bytes())?.array(|r| {
            let (mut name, mut kind) = (None, None);
            r.object(|r, key| {
                match key {
                    "name" => name = Some(r.string()?.into_owned()),
                    "type" => kind = Some(r.raw()?),
                    _ => drop(r.raw()?),
                }
                Ok(())
            })?;
            let name = name.ok_or_else(|| bad("a field without `name`"))?;
            let kind =
                kind.ok_or_else(|| bad(format!("field `{}` without `type`", shorten(&name))))?;
            let id = self.text(kind, namespace, depth)?;
            fields.push((name, id));
            Ok(())
        })?;
        Ok(fields)
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}
