//! Java's ManifestCommittable as bytes: all messages of one checkpoint \[F-9.3].
//!
//! | release | version it writes |
//! |---|---|
//! | 1.0, 1.1 | 3: log offsets, no properties |
//! | 1.2, 1.3 | 4: log offsets and properties |
//! | 1.4 and later | 5 ([`VERSION`]): properties |

use crate::avro::cursor::Cursor;
use crate::commit_message::{self, Layout, boolean, int, put_size};
use crate::error::{Error, Problem, Result, shorten};
use tidegate_model::ManifestCommittable;

/// What release 1.4.2 writes, and we.
pub const VERSION: i32 = 5;

/// A committable and the version of its messages, which it records itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The committable.
    pub committable: ManifestCommittable,
    /// See [`commit_message`].
    pub message_version: i32,
}

/// Writes a committable of a version with messages of a version.
///
/// # Errors
/// Unknown versions; properties where the version has none; a property beyond 65,535 bytes; what
/// [`commit_message::encode`] refuses.
pub fn encode(
    committable: &ManifestCommittable,
    version: i32,
    message_version: i32,
) -> Result<Vec<u8>> {
    check_version(version)?;
    let layout = Layout::of(message_version)?;
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(&committable.identifier.to_be_bytes());
    // The flag says *is null* [F-12.32].
    out.push(u8::from(committable.watermark.is_none()));
    out.extend(committable.watermark.iter().flat_map(|w| w.to_be_bytes()));
    if version < 5 {
        put_size(&mut out, 0)?;
    }
    if version >= 4 {
        put_size(&mut out, committable.properties.len())?;
        for (key, value) in &committable.properties {
            put_utf(&mut out, key)?;
            put_utf(&mut out, value)?;
        }
    } else if !committable.properties.is_empty() {
        return Err(Problem::CannotHold(format!(
            "version {version} of committables has no place for properties: use 4 or 5"
        ))
        .into());
    }
    out.extend_from_slice(&message_version.to_be_bytes());
    put_size(&mut out, committable.messages.len())?;
    for message in &committable.messages {
        commit_message::put(&mut out, message, layout)?;
    }
    Ok(out)
}

/// Reads a committable that was written in this version. Log offsets of old releases are dropped.
///
/// # Errors
/// Unknown versions, bytes that end too early or go on behind the last message.
pub fn decode(bytes: &[u8], version: i32) -> Result<Decoded> {
    check_version(version)?;
    let mut cursor = Cursor::new(bytes, 0);
    let identifier = i64::from_be_bytes(cursor.array()?);
    let watermark = if boolean(&mut cursor)? {
        None
    } else {
        Some(i64::from_be_bytes(cursor.array()?))
    };
    if version < 5 {
        for _ in 0..count(&mut cursor, 12)? {
            cursor.take(12)?;
        }
    }
    let mut properties: Vec<(String, String)> = Vec::new();
    if version >= 4 {
        for _ in 0..count(&mut cursor, 4)? {
            properties.push((utf(&mut cursor)?, utf(&mut cursor)?));
        }
    }
    let message_version = int(&mut cursor)?;
    let layout = Layout::of(message_version).map_err(|e| e.in_field("message version"))?;
    let mut messages = Vec::new();
    for index in 0..count(&mut cursor, 40)? {
        let message = commit_message::read(&mut cursor, layout)
            .map_err(|e| e.in_field(&format!("[{index}]")).in_field("messages"))?;
        messages.push(message);
    }
    if cursor.left() > 0 {
        return Err(cursor.error(Problem::Leftover(cursor.left() as u64)));
    }
    let committable = ManifestCommittable {
        identifier,
        watermark,
        properties,
        messages,
    };
    Ok(Decoded {
        committable,
        message_version,
    })
}

fn check_version(version: i32) -> Result<()> {
    if (1..=VERSION).contains(&version) {
        return Ok(());
    }
    Err(Error::new(Problem::Version {
        found: version.into(),
        supported: "1 to 5",
    }))
}

/// A count of items that take `least` bytes each.
fn count(cursor: &mut Cursor<'_>, least: usize) -> Result<usize> {
    let length = int(cursor)?;
    let most = cursor.left() / least;
    usize::try_from(length)
        .ok()
        .filter(|n| *n <= most)
        .ok_or_else(|| {
            cursor.error(Problem::Length {
                length: length.into(),
                available: cursor.left() as u64,
            })
        })
}

/// Java's modified UTF-8: U+0000 in two bytes, characters beyond the basic plane as two surrogates of
/// three bytes each.
fn put_utf(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let mut bytes = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let [low, mid, high] = [
            unit as u8 & 0x3f,
            (unit >> 6) as u8 & 0x3f,
            (unit >> 12) as u8,
        ];
        match unit {
            1..=0x7f => bytes.push(unit as u8),
            0 | 0x80..=0x7ff => bytes.extend([0xc0 | (unit >> 6) as u8, 0x80 | low]),
            _ => bytes.extend([0xe0 | high, 0x80 | mid, 0x80 | low]),
        }
    }
    let length = u16::try_from(bytes.len()).map_err(|_| {
        Problem::CannotHold(format!(
            "a property of {} bytes is longer than Java's 65,535: `{}`",
            bytes.len(),
            shorten(text)
        ))
    })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

fn utf(cursor: &mut Cursor<'_>) -> Result<String> {
    let length = usize::from(u16::from_be_bytes(cursor.array()?));
    let start = cursor.clone();
    let bytes = cursor.take(length)?;
    from_modified(bytes).ok_or_else(|| start.error(Problem::NotUtf8))
}

fn from_modified(bytes: &[u8]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().map(u16::from);
    let follow = |next: Option<u16>| next.filter(|b| b & 0xc0 == 0x80).map(|b| b & 0x3f);
    while let Some(first) = rest.next() {
        let unit = match first {
            0x00..=0x7f => first,
            0xc0..=0xdf => (first & 0x1f) << 6 | follow(rest.next())?,
            0xe0..=0xef => (first & 0x0f) << 12 | follow(rest.next())? << 6 | follow(rest.next())?,
            _ => return None,
        };
        units.push(unit);
    }
    String::from_utf16(&units).ok()
}
