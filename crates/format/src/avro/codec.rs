//! The block codecs, with a bound on what a block may grow to.

use crate::error::{Problem, Result, shorten};
use std::io::Read;
use zstd::zstd_safe;

/// How the blocks of a container are compressed.
///
/// Option `manifest.compression` of a table; Java's default is `zstd` at the level of
/// `file.compression.zstd-level`, which is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    Null,
    /// Raw deflate.
    Deflate,
    /// Snappy with a CRC of the plain bytes.
    Snappy,
    /// Zstandard at a level.
    Zstandard {
        /// 1 to 22; counts only when writing.
        level: i32,
    },
}

impl Default for Codec {
    fn default() -> Self {
        Self::Zstandard { level: 1 }
    }
}

impl Codec {
    /// By the name of the table option or of the container's header.
    ///
    /// # Errors
    /// Other codecs; `none` too, which Java refuses as well \[F-14.6].
    pub fn from_name(name: &str, zstd_level: i32) -> Result<Self> {
        match name {
            "null" => Ok(Self::Null),
            "deflate" => Ok(Self::Deflate),
            "snappy" => Ok(Self::Snappy),
            "zstandard" | "zstd" => Ok(Self::Zstandard { level: zstd_level }),
            other => Err(Problem::Codec(shorten(other)).into()),
        }
    }

    /// As the header spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Deflate => "deflate",
            Self::Snappy => "snappy",
            Self::Zstandard { .. } => "zstandard",
        }
    }
}

/// No block of any writer is larger.
const MOST: usize = 256 << 20;
/// Writers make blocks of 16 to 64 KiB; so much is always allowed.
const ALWAYS: usize = 1 << 20;
/// Beyond that a block may grow so many times.
const GROWTH: usize = 256;

/// What a block of this compressed size may decompress to.
fn limit(compressed: usize) -> usize {
    ALWAYS
        .saturating_add(compressed.saturating_mul(GROWTH))
        .min(MOST)
}

/// Decompresses one block into `out`, whose former content goes. `Null` is not for this function.
pub(crate) fn decompress(codec: Codec, block: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let limit = limit(block.len());
    out.clear();
    match codec {
        Codec::Null => out.extend_from_slice(block),
        Codec::Deflate => {
            let inflater = flate2::read::DeflateDecoder::new(block);
            inflater
                .take(limit as u64 + 1)
                .read_to_end(out)
                .map_err(|e| Problem::Decompress(e.to_string()))?;
            if out.len() > limit {
                return Err(Problem::BlockTooLarge {
                    limit: limit as u64,
                }
                .into());
            }
        }
        Codec::Snappy => snappy(block, limit, out)?,
        Codec::Zstandard { .. } => zstandard(block, limit, out)?,
    }
    Ok(())
}

fn snappy(block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some((body, stored)) = block.split_last_chunk::<4>() else {
        return Err(Problem::Truncated {
            needed: 4 - block.len() as u64,
        }
        .into());
    };
    let failed = |e: snap::Error| Problem::Decompress(e.to_string());
    let size = snap::raw::decompress_len(body).map_err(failed)?;
    // Snappy's copies make at most 64 bytes out of 2.
    if size > limit || size > body.len().saturating_mul(64) {
        return Err(Problem::BlockTooLarge {
            limit: limit as u64,
        }
        .into());
    }
    out.resize(size, 0);
    snap::raw::Decoder::new()
        .decompress(body, out)
        .map_err(failed)?;
    let (stored, found) = (u32::from_be_bytes(*stored), crc32fast::hash(out));
    if stored != found {
        return Err(Problem::Checksum { stored, found }.into());
    }
    Ok(())
}

/// Straight into the buffer, which grows by doubling: Java's frames do not tell their size, and the
/// streaming interface would keep a window of its own.
fn zstandard(block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let told = zstd_safe::get_frame_content_size(block).ok().flatten();
    if told.is_some_and(|size| size > limit as u64) {
        return Err(Problem::BlockTooLarge {
            limit: limit as u64,
        }
        .into());
    }
    let wish = block
        .len()
        .saturating_mul(8)
        .max(told.unwrap_or(0) as usize)
        .max(1 << 10);
    let mut capacity = out.capacity().max(wish).min(limit);
    let mut context = zstd_safe::DCtx::create();
    loop {
        out.clear();
        out.reserve_exact(capacity);
        match context.decompress(out, block) {
            Ok(_) => return Ok(()),
            Err(code) if too_small(code) && capacity < limit => {
                capacity = capacity.saturating_mul(2).min(limit);
            }
            Err(code) if too_small(code) => {
                return Err(Problem::BlockTooLarge {
                    limit: limit as u64,
                }
                .into());
            }
            Err(code) => {
                return Err(Problem::Decompress(zstd_safe::get_error_name(code).to_owned()).into());
            }
        }
    }
}

fn too_small(code: zstd_safe::ErrorCode) -> bool {
    zstd_safe::get_error_name(code).starts_with("Destination buffer is too small")
}

/// Compresses one block, appending to `out`.
pub(crate) fn compress(codec: Codec, block: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let failed =
        |e: &dyn std::fmt::Display| Problem::CannotHold(format!("compression failed: {e}"));
    match codec {
        Codec::Null => out.extend_from_slice(block),
        Codec::Deflate => {
            let level = flate2::Compression::default();
            flate2::read::DeflateEncoder::new(block, level)
                .read_to_end(out)
                .map_err(|e| failed(&e))?;
        }
        Codec::Snappy => {
            let packed = snap::raw::Encoder::new()
                .compress_vec(block)
                .map_err(|e| failed(&e))?;
            out.extend_from_slice(&packed);
            out.extend_from_slice(&crc32fast::hash(block).to_be_bytes());
        }
        Codec::Zstandard { level } => {
            let packed = zstd::bulk::compress(block, level).map_err(|e| failed(&e))?;
            out.extend_from_slice(&packed);
        }
    }
    Ok(())
}
