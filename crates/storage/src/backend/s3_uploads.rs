//! Uploads in parts that were never finished, on S3.
//!
//! Owns one request that `object_store` does not have (*ListMultipartUploads*) and the reading of
//! its answer. Such uploads are invisible in listings and paid for (case B65).

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody};

use super::Unfinished;
use super::remote::PendingUploads;
use super::wire::NotingConnector;
use crate::error::{ErrorKind, Result, StoreError};
use crate::metrics::Op;

/// Pages read at most: 1000 uploads each.
const MAX_PAGES: usize = 1000;

#[derive(Debug)]
pub(crate) struct S3Uploads {
    pub(crate) bucket_url: String,
    pub(crate) region: String,
    /// `None` sends requests unsigned.
    pub(crate) credentials: Option<AwsCredentialProvider>,
    pub(crate) options: ClientOptions,
    /// Connected at the first use, which most processes never come to.
    pub(crate) client: OnceLock<HttpClient>,
}

/// Where a page of the list ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Marker {
    key: String,
    upload: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) uploads: Vec<(String, String, Option<SystemTime>)>,
    pub(crate) next: Option<Marker>,
}

impl S3Uploads {
    fn client(&self) -> object_store::Result<&HttpClient> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = NotingConnector.connect(&self.options)?;
        Ok(self.client.get_or_init(|| made))
    }

    async fn page(&self, prefix: &str, marker: &Marker) -> Result<Page> {
        let fail = |kind| StoreError::new(kind, Op::List, prefix);
        let mut url = format!("{}/?uploads=&prefix={}", self.bucket_url, encode(prefix));
        if !marker.key.is_empty() {
            url += &format!(
                "&key-marker={}&upload-id-marker={}",
                encode(&marker.key),
                encode(&marker.upload)
            );
        }
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url
            .parse()
            .map_err(|_| fail(ErrorKind::Config).message(format!("'{url}' is no URL")))?;
        if let Some(credentials) = &self.credentials {
            let credential = credentials
                .get_credential()
                .await
                .map_err(|error| fail(ErrorKind::PermissionDenied).source(error))?;
            AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        }
        let client = self
            .client()
            .map_err(|error| fail(ErrorKind::Config).source(error))?;
        let lost = |error| fail(ErrorKind::Transient).source(error);
        let (parts, body) = client.execute(request).await.map_err(lost)?.into_parts();
        let mut bytes = Vec::new();
        let mut body = body.bytes_stream();
        while let Some(chunk) = futures::StreamExt::next(&mut body).await {
            bytes.extend_from_slice(&chunk.map_err(lost)?);
        }
        let text = String::from_utf8_lossy(&bytes);
        match parts.status.as_u16() {
            200 => parse(&text)
                .ok_or_else(|| fail(ErrorKind::Corrupt).message("unreadable list of uploads")),
            status => {
                let kind = match status {
                    403 | 401 => ErrorKind::PermissionDenied,
                    404 => ErrorKind::NotFound,
                    429 | 503 => ErrorKind::Throttled,
                    405 | 501 => ErrorKind::Unsupported,
                    500.. => ErrorKind::Transient,
                    _ => ErrorKind::Other,
                };
                Err(fail(kind).message(format!("listing uploads: status {status}: {text}")))
            }
        }
    }
}

#[async_trait]
impl PendingUploads for S3Uploads {
    async fn list(&self, prefix: &str) -> Result<Vec<Unfinished>> {
        let wanted = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}/")
        };
        let mut found = Vec::new();
        let mut marker = Marker::default();
        for _ in 0..MAX_PAGES {
            let page = self.page(&wanted, &marker).await?;
            found.extend(
                page.uploads
                    .into_iter()
                    // Some servers ignore the prefix.
                    .filter(|(key, _, _)| key.starts_with(&wanted))
                    .map(|(key, id, modified)| Unfinished {
                        target: key.clone(),
                        tag: None,
                        size: 0,
                        modified,
                        handle: id,
                        full_target: key,
                    }),
            );
            match page.next {
                Some(next) if next != marker => marker = next,
                Some(_) => break,
                None => return Ok(found),
            }
        }
        Err(StoreError::new(ErrorKind::Corrupt, Op::List, prefix)
            .message("the list of unfinished uploads does not end"))
    }
}

/// Percent-encodes all but the letters that AWS signatures leave alone.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// The text between `<name>` and `</name>`, entities resolved; and what follows.
fn element<'a>(xml: &'a str, name: &str) -> Option<(String, &'a str)> {
    let (inner, rest) = raw_element(xml, name)?;
    Some((unescape(inner)?, rest))
}

fn raw_element<'a>(xml: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    after.split_once(&format!("</{name}>"))
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain += before;
        let (entity, after) = after.split_once(';')?;
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = entity.strip_prefix('#')?;
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = after;
    }
    plain += rest;
    Some(plain)
}

pub(crate) fn parse(xml: &str) -> Option<Page> {
    if !xml.contains("ListMultipartUploadsResult") {
        return None;
    }
    let mut uploads = Vec::new();
    let mut rest = xml;
    let mut outside = String::new();
    while let Some((before, _)) = rest.split_once("<Upload>") {
        outside += before;
        let (upload, after) = raw_element(rest, "Upload")?;
        let (key, _) = element(upload, "Key")?;
        let (id, _) = element(upload, "UploadId")?;
        let begun = element(upload, "Initiated").and_then(|(time, _)| timestamp(&time));
        uploads.push((key, id, begun));
        rest = after;
    }
    outside += rest;
    let more = element(&outside, "IsTruncated").is_some_and(|(value, _)| value == "true");
    let next = more.then(|| Marker {
        key: element(&outside, "NextKeyMarker").map_or_else(String::new, |(key, _)| key),
        upload: element(&outside, "NextUploadIdMarker").map_or_else(String::new, |(id, _)| id),
    });
    Some(Page { uploads, next })
}

/// `2026-11-30T04:00:00.000Z` as a time; the fraction is let go.
fn timestamp(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let clock = time.get(..8)?;
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range {
        return None;
    }
    // Days since 1970-01-01, in years that begin with March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_uploads_is_read() {
        let xml = r#"<?xml version="1.0"?><ListMultipartUploadsResult xmlns="x">
            <Bucket>b</Bucket><KeyMarker></KeyMarker><NextKeyMarker>p/a&amp;b</NextKeyMarker>
            <NextUploadIdMarker>u2</NextUploadIdMarker><IsTruncated>true</IsTruncated>
            <Upload><Key>p/&lt;x&gt;&#38;é</Key><UploadId>u1</UploadId>
            <Initiated>1970-01-02T00:00:01.000Z</Initiated></Upload>
            <Upload><Key>p/a&amp;b</Key><UploadId>u2</UploadId></Upload>
            </ListMultipartUploadsResult>"#;
        let page = parse(xml).unwrap();
        let first = SystemTime::UNIX_EPOCH + Duration::from_secs(86_401);
        let expected = [("p/<x>&é", "u1", Some(first)), ("p/a&b", "u2", None)];
        let expected = expected.map(|(key, id, time)| (key.to_owned(), id.to_owned(), time));
        assert_eq!(page.uploads, expected);
        let next = page.next.unwrap();
        assert_eq!((next.key.as_str(), next.upload.as_str()), ("p/a&b", "u2"));
        assert_eq!(parse("<html>no</html>"), None);
        let cut = xml.split_once("</Upload>").unwrap().0;
        assert_eq!(parse(cut), None);
    }

    #[test]
    fn timestamps_count_seconds_since_1970() {
        let seconds = |text| {
            let time = timestamp(text)?;
            Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
        };
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-03-01T00:00:00.000Z"), Some(951_868_800));
        assert_eq!(seconds("2024-02-29T12:34:56.789Z"), Some(1_709_210_096));
        assert_eq!(seconds("2024-13-01T00:00:00Z"), None);
        assert_eq!(seconds("yesterday"), None);
    }
}
