//! A YAML document as a tree whose nodes know where they stand.
//!
//! Owns parsing, environment variables and `--set`; does not know which keys mean what. Scalars stay
//! the text that was written: `bucket: -1` is the text `-1`, and what it means is decided by whoever
//! asks for it.

use super::ConfigError;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A place in a file; line and column count from 1.
    File {
        file: Arc<str>,
        line: usize,
        column: usize,
    },
    /// `--set` with its path, or another flag.
    Flag(Arc<str>),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Flag(text) => f.write_str(text),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) content: Content,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Text; `env` names the variables that went into it, `plain` = it was not quoted.
    Scalar {
        text: String,
        env: Vec<String>,
        plain: bool,
    },
    /// Values in order.
    List(Vec<Node>),
    /// Keys in order.
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_origin: Origin,
    pub(crate) value: Node,
}

/// Nodes in one document at most, aliases counted as often as they are used.
const MAX_NODES: usize = 100_000;
/// Levels of nesting at most.
const MAX_DEPTH: usize = 64;

/// How `${NAME}` is looked up; injected, so that tests need no process environment.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Parses one document; an empty one is an empty map.
pub(crate) fn parse(file: &str, text: &str, env: Environment<'_>) -> Result<Node, ConfigError> {
    let file: Arc<str> = file.into();
    let mut builder = Builder {
        events: Parser::new_from_str(text),
        file: file.clone(),
        env,
        anchors: HashMap::new(),
        nodes: 0,
    };
    let mut root = None;
    while let Some((event, span)) = builder.next()? {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
            other => {
                if root.is_some() {
                    return Err(ConfigError::at(
                        &builder.origin(span),
                        "a second document; one file holds one job",
                    ));
                }
                root = Some(builder.node(other, span, 0)?);
            }
        }
    }
    let empty = Node {
        origin: Origin::File {
            file,
            line: 1,
            column: 1,
        },
        content: Content::Map(Vec::new()),
    };
    Ok(root.map_or(empty, Node::null_as_empty_map))
}

struct Builder<'i, 'e> {
    events: Parser<'i, saphyr_parser::StrInput<'i>>,
    file: Arc<str>,
    env: Environment<'e>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

impl<'i> Builder<'i, '_> {
    fn next(&mut self) -> Result<Option<(Event<'i>, Span)>, ConfigError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(e)) => {
                let mark = e.marker();
                let origin = Origin::File {
                    file: self.file.clone(),
                    line: mark.line(),
                    column: mark.col() + 1,
                };
                Err(ConfigError::at(
                    &origin,
                    format!("not valid YAML: {}", e.info()),
                ))
            }
        }
    }

    fn origin(&self, span: Span) -> Origin {
        Origin::File {
            file: self.file.clone(),
            line: span.start.line(),
            column: span.start.col() + 1,
        }
    }

    fn count(&mut self, origin: &Origin, n: usize) -> Result<(), ConfigError> {
        self.nodes = self.nodes.saturating_add(n);
        if self.nodes > MAX_NODES {
            return Err(ConfigError::at(
                origin,
                format!("more than {MAX_NODES} values"),
            ));
        }
        Ok(())
    }

    fn inner(&mut self, origin: &Origin) -> Result<(Event<'i>, Span), ConfigError> {
        self.next()?
            .ok_or_else(|| ConfigError::at(origin, "the file ends inside this value"))
    }

    fn node(&mut self, event: Event<'i>, span: Span, depth: usize) -> Result<Node, ConfigError> {
        let origin = self.origin(span);
        if depth > MAX_DEPTH {
            return Err(ConfigError::at(
                &origin,
                format!("nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        let before = self.nodes;
        self.count(&origin, 1)?;
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let (text, env) = substitute(&text, self.env, &origin)?;
                let plain = style == ScalarStyle::Plain;
                (
                    Node {
                        origin,
                        content: Content::Scalar { text, env, plain },
                    },
                    anchor,
                )
            }
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.inner(&origin)? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                }
                (
                    Node {
                        origin,
                        content: Content::List(items),
                    },
                    anchor,
                )
            }
            Event::MappingStart(anchor, _) => {
                let mut entries: Vec<Entry> = Vec::new();
                // Where each key stands among the entries: a map may have as many as a document.
                let mut places: HashMap<String, usize> = HashMap::new();
                loop {
                    let (event, span) = self.inner(&origin)?;
                    let key_origin = self.origin(span);
                    let key = match event {
                        Event::MappingEnd => break,
                        Event::Scalar(text, ..) => text.into_owned(),
                        _ => return Err(ConfigError::at(&key_origin, "a key must be plain text")),
                    };
                    let place = places.insert(key.clone(), entries.len());
                    if let Some(first) = place.and_then(|at| entries.get(at)) {
                        let what =
                            format!("key `{key}` stands twice; first at {}", first.key_origin);
                        return Err(ConfigError::at(&key_origin, what));
                    }
                    let (event, span) = self.inner(&key_origin)?;
                    let value = self.node(event, span, depth + 1)?;
                    entries.push(Entry {
                        key,
                        key_origin,
                        value,
                    });
                }
                (
                    Node {
                        origin,
                        content: Content::Map(entries),
                    },
                    anchor,
                )
            }
            Event::Alias(id) => {
                let known = self.anchors.get(&id).cloned();
                let (node, size) = known
                    .ok_or_else(|| ConfigError::at(&origin, "an alias of nothing, or of itself"))?;
                self.count(&origin, size)?;
                (node, 0)
            }
            _ => return Err(ConfigError::at(&origin, "a value is missing here")),
        };
        if anchor > 0 {
            self.anchors
                .insert(anchor, (node.clone(), self.nodes - before));
        }
        Ok(node)
    }
}

/// Replaces `${NAME}`; `$${` is a literal `${`.
fn substitute(
    text: &str,
    env: Environment<'_>,
    origin: &Origin,
) -> Result<(String, Vec<String>), ConfigError> {
    let mut out = String::with_capacity(text.len());
    let mut used = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        let after = after.strip_prefix("${").unwrap_or(after);
        if let Some(escaped) = before.strip_suffix('$') {
            out.push_str(escaped);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let (name, tail) = after.split_once('}').ok_or_else(|| {
            ConfigError::at(
                origin,
                "`${` without `}`; write `$${` for the characters themselves",
            )
        })?;
        let value = env(name).ok_or_else(|| {
            ConfigError::at(
                origin,
                format!("the environment variable `{name}` is not set"),
            )
        })?;
        out.push_str(&value);
        used.push(name.to_owned());
        rest = tail;
    }
    out.push_str(rest);
    Ok((out, used))
}

impl Node {
    /// An empty value (`key:` and nothing behind) where a map is meant.
    fn null_as_empty_map(self) -> Self {
        match &self.content {
            Content::Scalar {
                text, plain: true, ..
            } if matches!(text.as_str(), "" | "~" | "null") => Self {
                origin: self.origin,
                content: Content::Map(Vec::new()),
            },
            _ => self,
        }
    }

    /// True for a value that was left out: nothing, `~`, or a plain `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { text, plain: true, .. }
            if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What kind of value it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.content {
            Content::Scalar { .. } => "a single value",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }

    /// Sets the value at `path`; `rest_from` tells how many leading parts name maps, the rest being
    /// one key with dots in it (options of tables and stores have such keys).
    pub(crate) fn set(&mut self, path: &[&str], value: Node) -> Result<(), ConfigError> {
        let Some((first, rest)) = path.split_first() else {
            *self = value;
            return Ok(());
        };
        if self.is_null() {
            self.content = Content::Map(Vec::new());
        }
        let origin = value.origin.clone();
        let kind = self.kind();
        let Content::Map(entries) = &mut self.content else {
            return Err(ConfigError::at(
                &origin,
                format!("`{first}` cannot be set inside {kind} ({})", self.origin),
            ));
        };
        if let Some(entry) = entries.iter_mut().find(|e| e.key == *first) {
            if rest.is_empty() {
                entry.key_origin = origin;
            }
            return entry.value.set(rest, value);
        }
        let mut inner = Node {
            origin: origin.clone(),
            content: Content::Map(Vec::new()),
        };
        inner.set(rest, value)?;
        entries.push(Entry {
            key: (*first).to_owned(),
            key_origin: origin,
            value: inner,
        });
        Ok(())
    }
}

/// Paths below which the rest is one key.
const OPEN: [&[&str]; 3] = [&["sink", "options"], &["sink", "store"], &["source", "csv"]];

/// Applies one `--set path=value`. The value is YAML, so that lists and maps can be given.
pub(crate) fn apply_set(
    root: &mut Node,
    argument: &str,
    env: Environment<'_>,
) -> Result<(), ConfigError> {
    // The path alone: the value may be a secret, and origins are printed.
    let path = argument.split_once('=').map_or(argument, |(path, _)| path);
    let flag = Origin::Flag(format!("--set {path}").into());
    let (path, text) = argument.split_once('=').ok_or_else(|| {
        ConfigError::at(
            &flag,
            "expected --set path=value, for instance --set sink.options.bucket=4",
        )
    })?;
    let mut parts: Vec<&str> = path.split('.').collect();
    for open in OPEN {
        if parts.len() > open.len() + 1 && parts.starts_with(open) {
            let offset: usize = open.iter().map(|p| p.len() + 1).sum();
            parts.truncate(open.len());
            parts.extend(path.get(offset..));
        }
    }
    if parts.iter().any(|p| p.is_empty()) {
        return Err(ConfigError::at(
            &flag,
            format!("`{path}` has an empty part"),
        ));
    }
    let mut value = match parse_flow(text) {
        Some(node) => node?,
        None => scalar(text, env, &flag)?,
    };
    adopt(&mut value, &flag);
    root.set(&parts, value)
}

/// Lists and maps in flow style are parsed; anything else is the text itself, so that
/// `--set source.csv.delimiter=;` needs no quoting for YAML.
fn parse_flow(text: &str) -> Option<Result<Node, ConfigError>> {
    let trimmed = text.trim();
    let flow = (trimmed.starts_with('[') && trimmed.ends_with(']'))
        || (trimmed.starts_with('{') && trimmed.ends_with('}'));
    flow.then(|| parse("--set", trimmed, &|name| std::env::var(name).ok()))
}

fn scalar(text: &str, env: Environment<'_>, origin: &Origin) -> Result<Node, ConfigError> {
    let (text, env) = substitute(text, env, origin)?;
    // Nothing behind the `=` takes a value of the file back, as an empty value in YAML does.
    let plain = text.is_empty();
    Ok(Node {
        origin: origin.clone(),
        content: Content::Scalar { text, env, plain },
    })
}

fn adopt(node: &mut Node, origin: &Origin) {
    node.origin = origin.clone();
    match &mut node.content {
        Content::Scalar { .. } => {}
        Content::List(items) => items.iter_mut().for_each(|n| adopt(n, origin)),
        Content::Map(entries) => entries.iter_mut().for_each(|e| {
            e.key_origin = origin.clone();
            adopt(&mut e.value, origin);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_env(_: &str) -> Option<String> {
        None
    }

    fn text_at<'n>(node: &'n Node, path: &[&str]) -> &'n str {
        let mut node = node;
        for key in path {
            let Content::Map(entries) = &node.content else {
                panic!("no map at {key}")
            };
            node = &entries.iter().find(|e| e.key == *key).unwrap().value;
        }
        let Content::Scalar { text, .. } = &node.content else {
            panic!("no scalar")
        };
        text
    }

    #[test]
    fn both_styles_give_the_same_tree() {
        let block = parse(
            "a",
            "source:\n  csv:\n    null: \"\"\n    header: true\n",
            &no_env,
        )
        .unwrap();
        let flow = parse(
            "b",
            "source: { csv: { null: \"\", header: true } }",
            &no_env,
        )
        .unwrap();
        for tree in [&block, &flow] {
            assert_eq!(text_at(tree, &["source", "csv", "null"]), "");
            assert_eq!(text_at(tree, &["source", "csv", "header"]), "true");
        }
    }

    #[test]
    fn errors_name_file_line_and_column() {
        let twice = parse("job.yaml", "a: 1\nb: 2\na: 3\n", &no_env).unwrap_err();
        assert!(
            twice
                .to_string()
                .starts_with("job.yaml:3:1: key `a` stands twice; first at job.yaml:1:1"),
            "{twice}"
        );
        let broken = parse("job.yaml", "a: [1, 2\nb: 3", &no_env)
            .unwrap_err()
            .to_string();
        assert!(broken.starts_with("job.yaml:2:"), "{broken}");
        let unset = parse("job.yaml", "a: ${NOT_THERE}", &no_env)
            .unwrap_err()
            .to_string();
        assert_eq!(
            unset,
            "job.yaml:1:4: the environment variable `NOT_THERE` is not set"
        );
    }

    #[test]
    fn variables_are_replaced_and_can_be_escaped() {
        let env = |name: &str| (name == "X").then(|| "7".to_owned());
        let tree = parse("j", "a: \"<${X}>\"\nb: $${X}", &env).unwrap();
        assert_eq!(text_at(&tree, &["a"]), "<7>");
        assert_eq!(text_at(&tree, &["b"]), "${X}");
    }

    #[test]
    fn set_reaches_option_keys_with_dots_and_makes_what_is_missing() {
        let mut tree = parse("j", "sink: { options: { bucket: -1 } }", &no_env).unwrap();
        for set in [
            "sink.options.bucket=4",
            "sink.options.manifest.merge-min-count=5",
            "restart.strategy=none",
            "sink.partition-by=[dt, hh]",
            "source.csv.delimiter=;",
        ] {
            apply_set(&mut tree, set, &no_env).unwrap();
        }
        assert_eq!(text_at(&tree, &["sink", "options", "bucket"]), "4");
        assert_eq!(
            text_at(&tree, &["sink", "options", "manifest.merge-min-count"]),
            "5"
        );
        assert_eq!(text_at(&tree, &["restart", "strategy"]), "none");
        assert_eq!(text_at(&tree, &["source", "csv", "delimiter"]), ";");
        assert!(apply_set(&mut tree, "nothing", &no_env).is_err());
        apply_set(&mut tree, "restart.strategy=", &no_env).unwrap();
        let Content::Map(entries) = &tree.content else {
            panic!()
        };
        let restart = &entries.iter().find(|e| e.key == "restart").unwrap().value;
        let Content::Map(inside) = &restart.content else {
            panic!()
        };
        assert!(inside[0].value.is_null(), "an empty --set takes back");
    }

    /// Compared with each other, so many keys would take minutes.
    #[test]
    fn a_map_may_have_as_many_keys_as_a_document_has_values() {
        let mut text: String = (1..MAX_NODES).map(|n| format!("key-{n:06}: 1\n")).collect();
        let Content::Map(entries) = parse("j", &text, &no_env).unwrap().content else {
            panic!()
        };
        assert_eq!(entries.len(), MAX_NODES - 1);
        text = text.replacen("key-099998: 1\n", "key-000007: 1\n", 1);
        assert_eq!(
            parse("j", &text, &no_env).unwrap_err().to_string(),
            "j:99998:1: key `key-000007` stands twice; first at j:7:1"
        );
    }

    #[test]
    fn hostile_documents_are_bounded() {
        let mut laughs = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
        for (i, c) in ('b'..='h').enumerate() {
            let before = (b'a' + i as u8) as char;
            laughs.push_str(&format!(
                "{c}: &{c} [{}]\n",
                vec![format!("*{before}"); 10].join(",")
            ));
        }
        assert!(
            parse("j", &laughs, &no_env)
                .unwrap_err()
                .to_string()
                .contains("more than")
        );
        assert!(parse("j", &"[".repeat(5000), &no_env).is_err());
        assert!(parse("j", "a: &a [*a]", &no_env).is_err());
    }
}
