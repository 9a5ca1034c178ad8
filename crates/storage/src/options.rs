//! Option keys of stores, in the spellings that Paimon, Flink and Hadoop users know.
//!
//! Owns the list of known keys. An unknown key is an error that names the nearest known one;
//! a key of another kind of store is known and has no effect.

use std::collections::BTreeMap;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use std::time::Duration;

use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;

/// Meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Setting {
    S3Endpoint,
    S3KeyId,
    S3Secret,
    S3SessionToken,
    S3Region,
    S3PathStyle,
    S3Anonymous,
    S3ConditionalPut,
    S3UnsignedPayload,
    RequestTimeout,
    ConnectTimeout,
    GcsServiceAccount,
    AzureAccount,
    AzureSecret,
    AzureSas,
    AzureEndpoint,
}

/// The spelling of each key that messages use comes first.
const KEYS: &[(Setting, &[&str])] = &[
    (Setting::S3Endpoint, &["s3.endpoint"]),
    (
        Setting::S3KeyId,
        &[
            "s3.access-key",
            "s3.access-key-id",
            "s3.access.key",
            "s3.accessKeyId",
        ],
    ),
    (
        Setting::S3Secret,
        &[
            "s3.secret-key",
            "s3.secret-access-key",
            "s3.secret.key",
            "s3.accessKeySecret",
            "s3.access-key-secret",
        ],
    ),
    (
        Setting::S3SessionToken,
        &[
            "s3.session-token",
            "s3.session.token",
            "s3.securityToken",
            "s3.security-token",
        ],
    ),
    (
        Setting::S3Region,
        &["s3.region", "s3.endpoint.region", "s3.signing-region"],
    ),
    (
        Setting::S3PathStyle,
        &[
            "s3.path.style.access",
            "s3.path-style-access",
            "s3.path-style",
        ],
    ),
    (Setting::S3Anonymous, &["s3.anonymous", "s3.skip-signature"]),
    (Setting::S3ConditionalPut, &["s3.conditional-put"]),
    (Setting::S3UnsignedPayload, &["s3.unsigned-payload"]),
    (
        Setting::RequestTimeout,
        &[
            "s3.request-timeout",
            "s3.request.timeout",
            "request-timeout",
        ],
    ),
    (
        Setting::ConnectTimeout,
        &[
            "s3.connect-timeout",
            "s3.connection.timeout",
            "connect-timeout",
        ],
    ),
    (
        Setting::GcsServiceAccount,
        &["gs.service-account", "gcs.service-account-path"],
    ),
    (Setting::AzureAccount, &["az.account", "azure.account-name"]),
    (
        Setting::AzureSecret,
        &["az.access-key", "azure.account-key"],
    ),
    (Setting::AzureSas, &["az.sas-token"]),
    (Setting::AzureEndpoint, &["az.endpoint"]),
];

/// Prefixes that Hadoop's and Python's worlds put where `s3.` stands here.
const S3_PREFIXES: &[&str] = &["fs.s3a.", "fs.s3.", "s3a."];

/// Known options, by meaning.
#[derive(Clone, Default)]
pub(crate) struct Settings(BTreeMap<Setting, (String, String)>);

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secrets.
        f.debug_set()
            .entries(self.0.values().map(|(key, _)| key))
            .finish()
    }
}

fn known(key: &str) -> Option<Setting> {
    let plain = S3_PREFIXES
        .iter()
        .find_map(|prefix| key.strip_prefix(prefix))
        .map(|rest| format!("s3.{rest}"));
    let key = plain.as_deref().unwrap_or(key);
    KEYS.iter()
        .find(|(_, names)| names.iter().any(|name| name.eq_ignore_ascii_case(key)))
        .map(|(found, _)| *found)
}

/// Whether the value of this key must not be printed.
///
/// ```
/// assert!(tidegate_storage::is_secret("s3.secret-key"));
/// assert!(!tidegate_storage::is_secret("s3.endpoint"));
/// ```
pub fn is_secret(key: &str) -> bool {
    match known(key) {
        Some(found) => matches!(
            found,
            Setting::S3KeyId
                | Setting::S3Secret
                | Setting::S3SessionToken
                | Setting::AzureSecret
                | Setting::AzureSas
        ),
        // A key that is misspelt may still hold a secret.
        None => ["key", "secret", "token", "password"]
            .iter()
            .any(|word| key.to_ascii_lowercase().contains(word)),
    }
}

/// All option keys in their first spelling, sorted.
pub fn known_keys() -> Vec<&'static str> {
    let mut keys: Vec<_> = KEYS
        .iter()
        .filter_map(|(_, names)| names.first().copied())
        .collect();
    keys.sort_unstable();
    keys
}

/// Letters to change, insert or remove to come from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, (y, pair)) in b.iter().zip(row.windows(2)).enumerate() {
            if let (&[diagonal, above], Some(&left)) = (pair, next.get(j)) {
                let swap = diagonal + usize::from(x != *y);
                next.push(swap.min(above + 1).min(left + 1));
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, String>) -> Result<Self> {
        let mut settings = Self::default();
        for (key, value) in options {
            let Some(found) = known(key) else {
                let nearest = KEYS
                    .iter()
                    .flat_map(|(_, names)| names.iter())
                    .min_by_key(|name| distance(key, name))
                    .copied()
                    .unwrap_or_default();
                return Err(config(format!(
                    "unknown store option '{key}'; did you mean '{nearest}'?"
                )));
            };
            let value = (key.clone(), value.clone());
            if let Some((other, before)) = settings.0.insert(found, value.clone())
                && before != value.1
            {
                return Err(config(format!(
                    "store options '{other}' and '{key}' mean the same and differ"
                )));
            }
        }
        Ok(settings)
    }

    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    pub(crate) fn text(&self, setting: Setting) -> Option<&str> {
        self.0.get(&setting).map(|(_, value)| value.as_str())
    }

    #[cfg(feature = "s3")]
    pub(crate) fn flag(&self, setting: Setting) -> Result<Option<bool>> {
        let Some((name, value)) = self.0.get(&setting) else {
            return Ok(None);
        };
        match value.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(config(format!(
                "store option '{name}' is '{value}', must be true or false"
            ))),
        }
    }

    /// Seconds, or a number with `ms`, `s` or `min`.
    #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
    pub(crate) fn duration(&self, setting: Setting) -> Result<Option<Duration>> {
        let Some((name, value)) = self.0.get(&setting) else {
            return Ok(None);
        };
        let text = value.trim();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let number = digits.parse::<u64>().ok();
        let unit = text.get(digits.len()..).unwrap_or_default().trim();
        let duration = number.and_then(|n| match unit {
            "ms" => Some(Duration::from_millis(n)),
            "" | "s" | "sec" => Some(Duration::from_secs(n)),
            "min" => n.checked_mul(60).map(Duration::from_secs),
            _ => None,
        });
        match duration {
            Some(duration) if !duration.is_zero() => Ok(Some(duration)),
            _ => Err(config(format!(
                "store option '{name}' is '{value}', must be a time such as '30 s' or '500 ms'"
            ))),
        }
    }
}

pub(crate) fn config(message: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Config, Op::Open, "").message(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(
            &pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn both_spellings_and_hadoop_prefixes_mean_the_same() {
        for key in [
            "s3.access-key",
            "s3.access-key-id",
            "fs.s3a.access.key",
            "s3a.access-key",
            "fs.s3.accessKeyId",
        ] {
            assert_eq!(known(key), Some(Setting::S3KeyId), "{key}");
        }
        assert!(parse(&[("s3.endpoint", "a"), ("fs.s3a.endpoint", "a")]).is_ok());
        assert!(parse(&[("s3.endpoint", "a"), ("fs.s3a.endpoint", "b")]).is_err());
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = parse(&[("s3.enpoint", "x")]).unwrap_err().to_string();
        assert!(error.contains("'s3.enpoint'"), "{error}");
        assert!(error.contains("did you mean 's3.endpoint'"), "{error}");
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn debug_output_hides_values() {
        let settings = parse(&[("s3.secret-key", "hunter2")]).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
