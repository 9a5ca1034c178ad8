//! The pretty printer that Java Paimon's files show: two blanks per object, arrays on one line.

/// Writes one JSON text.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    text: String,
    /// Per open object or array: whether it is an object, and whether it has a member yet.
    open: Vec<(bool, bool)>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Between two members, and before the first one.
    fn next_member(&mut self) {
        let indent = self.open.iter().filter(|(object, _)| *object).count();
        let Some((object, started)) = self.open.last_mut() else {
            return;
        };
        if *started {
            self.text.push(',');
        }
        *started = true;
        if *object {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n("  ", indent));
        } else {
            self.text.push(' ');
        }
    }

    /// Starts an object as an item or a value.
    pub(crate) fn begin_object(&mut self) {
        self.text.push('{');
        self.open.push((true, false));
    }

    /// Ends it.
    pub(crate) fn end_object(&mut self) {
        if let Some((_, started)) = self.open.pop() {
            if started {
                let indent = self.open.iter().filter(|(object, _)| *object).count();
                self.text.push('\n');
                self.text.extend(std::iter::repeat_n("  ", indent));
            } else {
                self.text.push(' ');
            }
        }
        self.text.push('}');
    }

    /// Starts an array.
    pub(crate) fn begin_array(&mut self) {
        self.text.push('[');
        self.open.push((false, false));
    }

    /// Ends it.
    pub(crate) fn end_array(&mut self) {
        self.open.pop();
        self.text.push_str(" ]");
    }

    /// Announces the next item of an array.
    pub(crate) fn item(&mut self) {
        self.next_member();
    }

    /// Starts a member of an object; its value follows.
    pub(crate) fn key(&mut self, key: &str) {
        self.next_member();
        self.quoted(key);
        self.text.push_str(" : ");
    }

    /// A value as JSON text.
    pub(crate) fn raw(&mut self, json: &str) {
        self.text.push_str(json);
    }

    /// A string with Jackson's escapes.
    pub(crate) fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                c if c < ' ' => self.text.push_str(&format!("\\u{:04X}", u32::from(c))),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    /// Member with a whole number.
    pub(crate) fn int(&mut self, key: &str, value: i64) {
        self.key(key);
        self.text.push_str(&value.to_string());
    }

    /// Member with a whole number, left out where there is none.
    pub(crate) fn optional_int(&mut self, key: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.int(key, value);
        }
    }

    /// Member with a string.
    pub(crate) fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        self.quoted(value);
    }

    /// Member with a string, left out where there is none.
    pub(crate) fn optional_string(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(key, value);
        }
    }

    /// Member with an array of strings.
    pub(crate) fn strings(&mut self, key: &str, values: &[String]) {
        self.key(key);
        self.begin_array();
        for value in values {
            self.item();
            self.quoted(value);
        }
        self.end_array();
    }

    /// Member with an object of strings.
    pub(crate) fn string_map<'s>(
        &mut self,
        key: &str,
        pairs: impl Iterator<Item = (&'s str, &'s str)>,
    ) {
        self.key(key);
        self.begin_object();
        pairs.for_each(|(k, v)| self.string(k, v));
        self.end_object();
    }

    /// The bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}
