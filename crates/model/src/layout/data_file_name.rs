//! Names of data files: prefix, uuid, counter, extension \[F-1.2].

/// Suffix of a codec in a file name; `None` where there is none.
pub fn codec_suffix(codec: &str) -> Option<String> {
    let codec = codec.to_ascii_lowercase();
    match codec.as_str() {
        "none" | "" => None,
        "zstd" => Some("zst".to_owned()),
        "gzip" => Some("gz".to_owned()),
        "bzip2" => Some("bz2".to_owned()),
        _ => Some(codec),
    }
}

fn is_codec_suffix(suffix: &str) -> bool {
    matches!(suffix, "zst" | "gz" | "bz2" | "deflate" | "snappy" | "lz4")
}

/// Gives the data files of one writer of one (partition, bucket) their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataFileName {
    stem: String,
    extension: String,
}

impl DataFileName {
    /// `prefix` is the option `data-file.prefix` with the run prefix \[R-13]; `uuid` is the writer's
    /// own. `compression` comes into the name where `file.suffix.include.compression` says so, and
    /// always behind the text formats.
    pub fn new(
        prefix: &str,
        uuid: &str,
        format: &str,
        compression: &str,
        include_compression: bool,
    ) -> Self {
        let suffix = codec_suffix(compression);
        let text = matches!(format, "json" | "csv");
        let extension = match suffix {
            Some(codec) if text => format!("{format}.{codec}"),
            Some(codec) if include_compression => format!("{codec}.{format}"),
            _ => format.to_owned(),
        };
        Self {
            stem: format!("{prefix}{uuid}"),
            extension,
        }
    }

    /// `<prefix><uuid>-<n>.<extension>`
    pub fn nth(&self, n: u64) -> String {
        format!("{}-{n}.{}", self.stem, self.extension)
    }
}

/// The format of a data file by its name: the last extension, one known compression suffix skipped.
/// Readers go by it and not by the table's option \[F-1.2], \[F-12.38].
pub fn format_of(file_name: &str) -> Option<&str> {
    let (rest, last) = file_name.rsplit_once('.')?;
    if !is_codec_suffix(last) {
        return Some(last);
    }
    rest.rsplit_once('.').map(|(_, format)| format)
}
