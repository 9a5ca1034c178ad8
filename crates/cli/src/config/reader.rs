//! Typed, complete reading of a tree: every key that is asked for is known, every other one is an
//! error that names the nearest known key.

use super::document::{Content, Entry, Node, Origin};
use super::{ConfigError, nearest};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// One effective value, for `--dry-run`.
#[derive(Clone, Debug)]
pub(crate) struct Effective {
    pub(crate) path: String,
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// A map of the tree while it is read.
pub(crate) struct Section<'n> {
    path: String,
    node: Option<&'n Node>,
    asked: RefCell<Vec<&'static str>>,
    effective: Rc<RefCell<Vec<Effective>>>,
}

/// Words that mark a key whose value is never printed.
const SECRET: [&str; 6] = [
    "secret",
    "password",
    "token",
    "credential",
    "access-key",
    "private",
];

impl<'n> Section<'n> {
    pub(crate) fn root(node: &'n Node) -> Result<Self, ConfigError> {
        let section = Self {
            path: String::new(),
            node: Some(node),
            asked: RefCell::default(),
            effective: Rc::default(),
        };
        section.entries()?;
        Ok(section)
    }

    /// Everything read so far with its origin.
    pub(crate) fn effective(&self) -> Vec<Effective> {
        self.effective.borrow().clone()
    }

    pub(crate) fn origin(&self) -> Origin {
        self.node.map_or(Origin::Default, |n| n.origin.clone())
    }

    pub(crate) fn full(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn entries(&self) -> Result<&'n [Entry], ConfigError> {
        match self.node.map(|n| (n, &n.content)) {
            None => Ok(&[]),
            Some((_, Content::Map(entries))) => Ok(entries),
            Some((node, _)) if node.is_null() => Ok(&[]),
            Some((node, _)) => Err(ConfigError::at(
                &node.origin,
                format!("`{}` must be a map of keys, not {}", self.path, node.kind()),
            )),
        }
    }

    /// The node under a key; a null counts as absent.
    pub(crate) fn node(&self, key: &'static str) -> Result<Option<&'n Node>, ConfigError> {
        self.asked.borrow_mut().push(key);
        let entry = self.entries()?.iter().find(|e| e.key == key);
        Ok(entry.map(|e| &e.value).filter(|n| !n.is_null()))
    }

    pub(crate) fn section(&self, key: &'static str) -> Result<Section<'n>, ConfigError> {
        let section = Section {
            path: self.full(key),
            node: self.node(key)?,
            asked: RefCell::default(),
            effective: self.effective.clone(),
        };
        section.entries()?;
        Ok(section)
    }

    fn record(&self, key: &str, value: &str, origin: String) {
        let path = self.full(key);
        let lower = path.to_ascii_lowercase();
        let secret = SECRET.iter().any(|w| lower.contains(w));
        let value = if secret {
            "******".to_owned()
        } else {
            value.to_owned()
        };
        self.effective.borrow_mut().push(Effective {
            path,
            value,
            origin,
        });
    }

    fn record_node(&self, key: &str, node: &Node) {
        if let Content::Scalar { text, env, .. } = &node.content {
            let mut origin = node.origin.to_string();
            for name in env {
                origin.push_str(&format!(" (${{{name}}})"));
            }
            self.record(key, text, origin);
        }
    }

    /// Text as written.
    pub(crate) fn text(
        &self,
        key: &'static str,
    ) -> Result<Option<(&'n str, &'n Origin)>, ConfigError> {
        let Some(node) = self.node(key)? else {
            return Ok(None);
        };
        let Content::Scalar { text, .. } = &node.content else {
            let what = format!(
                "`{}` must be a single value, not {}",
                self.full(key),
                node.kind()
            );
            return Err(ConfigError::at(&node.origin, what));
        };
        self.record_node(key, node);
        Ok(Some((text, &node.origin)))
    }

    pub(crate) fn required(
        &self,
        key: &'static str,
        example: &str,
    ) -> Result<(&'n str, &'n Origin), ConfigError> {
        self.text(key)?.ok_or_else(|| {
            // A misspelt key is the likelier story than a missing one.
            let typo = self
                .entries()
                .ok()
                .into_iter()
                .flatten()
                .find(|e| nearest(&e.key, [key]).is_some());
            if let Some(entry) = typo {
                let what = format!(
                    "unknown key `{}`; did you mean `{key}`?",
                    self.full(&entry.key)
                );
                return ConfigError::at(&entry.key_origin, what);
            }
            let what = format!(
                "`{}` is missing; for instance `{key}: {example}`",
                self.full(key)
            );
            ConfigError::at(&self.origin(), what)
        })
    }

    /// A value with its parser; `default` stands in the effective configuration when absent.
    pub(crate) fn parsed<T>(
        &self,
        key: &'static str,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let wrong = |origin: &Origin, why: String| {
            ConfigError::at(origin, format!("`{}`: {why}", self.full(key)))
        };
        match self.text(key)? {
            Some((text, origin)) => parse(text).map(Some).map_err(|why| wrong(origin, why)),
            None => match default {
                Some(text) => {
                    self.record(key, text, Origin::Default.to_string());
                    parse(text)
                        .map(Some)
                        .map_err(|why| wrong(&Origin::Default, why))
                }
                None => Ok(None),
            },
        }
    }

    /// As [`Self::parsed`], for keys that always have a value.
    pub(crate) fn with_default<T>(
        &self,
        key: &'static str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.parsed(key, Some(default), parse)?
            .ok_or_else(|| ConfigError::new(format!("`{}` has no value", self.full(key))))
    }

    /// A list of texts with the place of each; a single text counts as a list of one.
    pub(crate) fn list(&self, key: &'static str) -> Result<Vec<(String, Origin)>, ConfigError> {
        let Some(node) = self.node(key)? else {
            return Ok(Vec::new());
        };
        let items = match &node.content {
            Content::List(items) => items.as_slice(),
            Content::Scalar { .. } => std::slice::from_ref(node),
            Content::Map(_) => {
                return Err(ConfigError::at(
                    &node.origin,
                    format!("`{}` must be a list", self.full(key)),
                ));
            }
        };
        let texts: Vec<(String, Origin)> = items
            .iter()
            .map(|item| match &item.content {
                Content::Scalar { text, .. } => Ok((text.clone(), item.origin.clone())),
                _ => Err(ConfigError::at(
                    &item.origin,
                    format!("`{}` must hold single values", self.full(key)),
                )),
            })
            .collect::<Result<_, _>>()?;
        let shown: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
        self.record(
            key,
            &format!("[{}]", shown.join(", ")),
            node.origin.to_string(),
        );
        Ok(texts)
    }

    /// All keys of an open map with their texts: table options, store options, columns. A nested map
    /// is flattened with dots, so that both `{a.b: 1}` and `{a: {b: 1}}` work.
    pub(crate) fn open_map(
        &self,
        key: &'static str,
    ) -> Result<Vec<(String, String, Origin)>, ConfigError> {
        let section = self.section(key)?;
        let mut out = Vec::new();
        section.flatten("", section.entries()?, &mut out, &mut HashMap::new())?;
        Ok(out)
    }

    fn flatten(
        &self,
        prefix: &str,
        entries: &[Entry],
        out: &mut Vec<(String, String, Origin)>,
        seen: &mut HashMap<String, Origin>,
    ) -> Result<(), ConfigError> {
        for entry in entries {
            let key = if prefix.is_empty() {
                entry.key.clone()
            } else {
                format!("{prefix}.{}", entry.key)
            };
            match &entry.value.content {
                Content::Scalar { text, .. } => {
                    self.record_node(&key, &entry.value);
                    let origin = entry.value.origin.clone();
                    if let Some(first) = seen.insert(key.clone(), origin.clone()) {
                        let what =
                            format!("`{}` is given twice; first at {first}", self.full(&key));
                        return Err(ConfigError::at(&entry.key_origin, what));
                    }
                    out.push((key, text.clone(), origin));
                }
                Content::Map(inner) => self.flatten(&key, inner, out, seen)?,
                Content::List(_) => {
                    let what = format!("`{}` must be a single value, not a list", self.full(&key));
                    return Err(ConfigError::at(&entry.value.origin, what));
                }
            }
        }
        Ok(())
    }

    /// Every key that nobody asked for is an error.
    pub(crate) fn finish(&self) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        for entry in self.entries()? {
            if !asked.contains(&entry.key.as_str()) {
                let mut what = format!("unknown key `{}`", self.full(&entry.key));
                match nearest(&entry.key, asked.iter().copied()) {
                    Some(known) => what.push_str(&format!("; did you mean `{known}`?")),
                    None => {
                        let mut known: Vec<&str> = asked.clone();
                        known.sort_unstable();
                        known.dedup();
                        what.push_str(&format!("; known here: {}", known.join(", ")));
                    }
                }
                return Err(ConfigError::at(&entry.key_origin, what));
            }
        }
        Ok(())
    }
}

/// `10 s`, `200 ms`, `1 min`, `2 h`, `1 d`: as Paimon writes durations; a bare number is milliseconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = || format!("`{text}` is no duration; write for instance `10 s`, `200 ms`, `5 min`");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let nanos: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(nanos)
        .map(Duration::from_nanos)
        .ok_or_else(|| format!("`{text}` is too long"))
}

/// `true` or `false`, nothing else.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{text}` must be true or false")),
    }
}

/// A whole number of at least `least`.
pub(crate) fn whole(least: u64) -> impl Fn(&str) -> Result<u64, String> {
    move |text| match text.trim().replace('_', "").parse::<u64>() {
        Ok(n) if n >= least => Ok(n),
        _ => Err(format!(
            "`{text}` must be a whole number of at least {least}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document;

    #[test]
    fn unknown_keys_name_the_nearest_known_one() {
        let tree =
            document::parse("j.yaml", "checkpoint:\n  intervall: 10 s\n", &|_| None).unwrap();
        let root = Section::root(&tree).unwrap();
        let checkpoint = root.section("checkpoint").unwrap();
        checkpoint.parsed("interval", None, duration).unwrap();
        let error = checkpoint.finish().unwrap_err().to_string();
        assert_eq!(
            error,
            "j.yaml:2:3: unknown key `checkpoint.intervall`; did you mean `interval`?"
        );
        root.finish().unwrap();
    }

    #[test]
    fn secrets_never_reach_the_effective_configuration() {
        let text = "store: { s3.secret-key: hunter2, s3.endpoint: \"http://x\" }";
        let tree = document::parse("j", text, &|_| None).unwrap();
        let root = Section::root(&tree).unwrap();
        root.open_map("store").unwrap();
        let shown: Vec<String> = root.effective().into_iter().map(|e| e.value).collect();
        assert_eq!(shown, ["******", "http://x"]);
    }

    #[test]
    fn durations_follow_paimons_grammar() {
        assert_eq!(duration("10 s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1500"), Ok(Duration::from_millis(1500)));
        for bad in ["", "s", "10 parsecs", "-1 s", "99999999999999999999 d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
