//! Names of the local store's temporary files.
//!
//! Owns writing and reading them: who cleans up tells by the name alone which object a file was to become,
//! and whose it was.

/// Longest name that file systems in use allow, in bytes.
pub(super) const NAME_MAX: usize = 255;

/// Name of a temporary file of ours: `.NAME.TAG.UUID.tmp` or `.NAME.UUID.tmp`, where UUID is 32
/// hexadecimal digits without hyphens (Java's temporary files have hyphens and are not ours).
pub(super) fn temp_name(name: &str, tag: &str) -> String {
    let unique = uuid::Uuid::new_v4().simple();
    let tag = if tag.is_empty() {
        String::new()
    } else {
        format!("~{tag}.")
    };
    let room = NAME_MAX.saturating_sub(tag.len() + 32 + ".".len() * 2 + ".tmp".len());
    let mut end = name.len().min(room);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let start = name.get(..end).unwrap_or_default();
    format!(".{start}.{tag}{unique}.tmp")
}

/// Target name and tag of a temporary file of ours; `None` for any other file.
pub(crate) fn parse_temp(name: &str) -> Option<(&str, Option<&str>)> {
    let inner = name.strip_prefix('.')?.strip_suffix(".tmp")?;
    let (rest, unique) = inner.rsplit_once('.')?;
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if unique.len() != 32 || !unique.bytes().all(hex) {
        return None;
    }
    match rest.rsplit_once(".~") {
        Some((target, tag)) if !tag.contains('.') => Some((target, Some(tag))),
        _ => Some((rest, None)),
    }
}
