//! The decompressed bytes of a file, in order, with bounded memory.

use std::io::{BufRead, ErrorKind, Read};

use bytes::{Buf, Bytes};

/// How a file is compressed, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Splits a compression's extension off a name.
    pub(super) fn of(name: &str) -> (&str, Self) {
        for (extension, compression) in [
            (".gz", Self::Gzip),
            (".gzip", Self::Gzip),
            (".zst", Self::Zstd),
            (".zstd", Self::Zstd),
        ] {
            if let Some(stem) = name.strip_suffix(extension) {
                return (stem, compression);
            }
        }
        (name, Self::None)
    }

    /// The name of the compression where bytes at the beginning of a file are not of it.
    pub(super) fn unlike(self, beginning: &[u8]) -> Option<&'static str> {
        let (name, magics): (_, &[&[u8]]) = match self {
            Self::None => return None,
            Self::Gzip => ("gzip", &[&[0x1f, 0x8b]]),
            // A zstd frame, or one of the frames that a reader skips.
            Self::Zstd => ("zstd", &[&[0x28, 0xb5, 0x2f, 0xfd], &[0x2a, 0x4d, 0x18]]),
        };
        let skippable = beginning.get(1..).unwrap_or_default();
        let like = |magic: &&[u8]| match magic.len() {
            3 => skippable.starts_with(magic),
            _ => beginning.starts_with(magic),
        };
        (!magics.iter().any(like)).then_some(name)
    }
}

/// Compressed bytes that are handed in from outside; asks for more by `WouldBlock`.
#[derive(Debug, Default)]
pub(super) struct Feed {
    bytes: Bytes,
    last: bool,
}

impl Read for Feed {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let available = self.fill_buf()?;
        let n = available.len().min(out.len());
        for (to, from) in out.iter_mut().zip(available) {
            *to = *from;
        }
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.bytes.is_empty() && !self.last {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes)
    }

    fn consume(&mut self, n: usize) {
        self.bytes.advance(n.min(self.bytes.len()));
    }
}

/// Turns stored bytes into record bytes, piece by piece: what is not asked for is not decompressed,
/// so a small file that unpacks to a huge one costs no more memory than any other.
pub(super) enum Decompressor {
    Plain(Feed),
    Gzip(flate2::bufread::MultiGzDecoder<Feed>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Feed>>),
}

/// What a call for more bytes came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// So many bytes were appended.
    Bytes(usize),
    /// The stored bytes handed in so far are used up.
    Hungry,
    /// The end.
    End,
}

impl Decompressor {
    pub(super) fn new(compression: Compression) -> std::io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(Feed::default()),
            Compression::Gzip => Self::Gzip(flate2::bufread::MultiGzDecoder::new(Feed::default())),
            Compression::Zstd => Self::Zstd(Box::new(zstd::stream::read::Decoder::with_buffer(
                Feed::default(),
            )?)),
        })
    }

    /// Hands in stored bytes; `last` when no more will come. Only after [`Piece::Hungry`].
    pub(super) fn feed(&mut self, bytes: Bytes, last: bool) {
        let feed = match self {
            Self::Plain(feed) => feed,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => decoder.get_mut(),
        };
        *feed = Feed { bytes, last };
    }

    /// Appends up to `most` record bytes.
    pub(super) fn pull(&mut self, out: &mut Vec<u8>, most: usize) -> std::io::Result<Piece> {
        let before = out.len();
        out.resize(before + most, 0);
        let into = out.get_mut(before..).unwrap_or_default();
        let result = match self {
            Self::Plain(feed) => feed.read(into),
            Self::Gzip(decoder) => decoder.read(into),
            Self::Zstd(decoder) => decoder.read(into),
        };
        out.truncate(before + result.as_ref().copied().unwrap_or(0));
        match result {
            Ok(0) => Ok(Piece::End),
            Ok(n) => Ok(Piece::Bytes(n)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(Piece::Hungry),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unpack(compression: Compression, packed: &[u8], chunk: usize) -> std::io::Result<Vec<u8>> {
        let mut decompressor = Decompressor::new(compression)?;
        let mut out = Vec::new();
        let mut chunks = packed.chunks(chunk).map(Bytes::copy_from_slice);
        loop {
            match decompressor.pull(&mut out, 1000)? {
                Piece::Bytes(_) => {}
                Piece::End => return Ok(out),
                Piece::Hungry => match chunks.next() {
                    Some(bytes) => decompressor.feed(bytes, false),
                    None => decompressor.feed(Bytes::new(), true),
                },
            }
        }
    }

    #[test]
    fn every_cut_of_the_stored_bytes_unpacks_to_the_same() {
        let text: Vec<u8> = (0..20_000u32)
            .flat_map(|i| format!("row {i}\n").into_bytes())
            .collect();
        let mut gzip = Vec::new();
        // Two members behind each other are one file.
        for half in text.chunks(text.len() / 2 + 1) {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(half).unwrap();
            gzip.extend(encoder.finish().unwrap());
        }
        let mut zst = zstd::encode_all(&text[..70_000], 1).unwrap();
        zst.extend(zstd::encode_all(&text[70_000..], 1).unwrap());
        for chunk in [1, 2, 7, 1000, 1 << 20] {
            assert!(
                unpack(Compression::None, &text, chunk).unwrap() == text,
                "plain {chunk}"
            );
            assert!(
                unpack(Compression::Gzip, &gzip, chunk).unwrap() == text,
                "gzip {chunk}"
            );
            assert!(
                unpack(Compression::Zstd, &zst, chunk).unwrap() == text,
                "zstd {chunk}"
            );
        }
        assert!(unpack(Compression::Gzip, &gzip[..gzip.len() - 3], 100).is_err());
        assert!(unpack(Compression::Zstd, &zst[..zst.len() - 3], 100).is_err());
        assert!(unpack(Compression::Gzip, b"no gzip at all", 100).is_err());
    }
}
