//! Where a message of HTTP/1.1 ends, and what an S3 request is about.
//!
//! Messages are held whole, as they were on the wire: a proxy that is to stop in the middle of a body
//! must know where its middle is.

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request or an answer, byte for byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    /// Start line and headers, with the empty line after them.
    pub(crate) head: Vec<u8>,
    /// With the framing of chunks where it has any.
    pub(crate) body: Vec<u8>,
    /// Only the end of the connection ends it.
    pub(crate) until_close: bool,
}

impl Message {
    /// All its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.head[..], &self.body].concat()
    }

    /// Up to the middle of its body; of a message without one, up to the middle of its head.
    pub(crate) fn half(&self) -> Vec<u8> {
        match self.body.len() {
            0 => self.head[..self.head.len() / 2].to_vec(),
            n => [&self.head[..], &self.body[..n / 2]].concat(),
        }
    }

    /// Method (or version) and target (or status) of its first line.
    pub(crate) fn start(&self) -> (String, String) {
        let text = String::from_utf8_lossy(&self.head);
        let mut words = text.lines().next().unwrap_or_default().split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        (word(), word())
    }

    /// Its body comes only after an answer to its head (Java's S3 client does so).
    fn waits_for_leave(&self) -> bool {
        let expects = self.header("expect");
        expects.is_some_and(|text| text.eq_ignore_ascii_case("100-continue"))
    }

    fn drop_header(&mut self, name: &str) {
        let text = String::from_utf8_lossy(&self.head).into_owned();
        let named = |line: &str| {
            let key = line.split_once(':').map_or("", |(key, _)| key);
            key.eq_ignore_ascii_case(name)
        };
        let kept = text.split_inclusive("\r\n").filter(|line| !named(line));
        self.head = kept.collect::<String>().into_bytes();
    }

    fn header(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.head);
        text.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            let same = key.eq_ignore_ascii_case(name);
            same.then(|| value.trim().to_owned())
        })
    }
}

/// What a request asks an S3 server for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// PUT that must find the name free (`If-None-Match`) or as it was (`If-Match`).
    Create,
    /// PUT of an object, whatever was there.
    Put,
    /// The beginning of an upload in parts.
    UploadBegin,
    /// A part of it.
    UploadPart,
    /// Its end, which makes the object visible.
    UploadComplete,
    /// Its abandonment.
    UploadAbort,
    /// GET of a whole object.
    Get,
    /// GET of a range.
    GetRange,
    /// HEAD.
    Head,
    /// Names below a prefix, or unfinished uploads.
    List,
    /// DELETE of one object or of many.
    Delete,
    /// None of these.
    Other,
}

impl Kind {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 12] = [
        Self::Create,
        Self::Put,
        Self::UploadBegin,
        Self::UploadPart,
        Self::UploadComplete,
        Self::UploadAbort,
        Self::Get,
        Self::GetRange,
        Self::Head,
        Self::List,
        Self::Delete,
        Self::Other,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Put => "put",
            Self::UploadBegin => "begin",
            Self::UploadPart => "part",
            Self::UploadComplete => "complete",
            Self::UploadAbort => "abort",
            Self::Get => "get",
            Self::GetRange => "range",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }

    pub(crate) fn of(request: &Message) -> Self {
        let (method, target) = request.start();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let has = |key: &str| {
            let named = |part: &str| part.split('=').next() == Some(key);
            query.split('&').any(named)
        };
        let conditional = ["if-none-match", "if-match"];
        match method.as_str() {
            "PUT" if has("partNumber") => Self::UploadPart,
            "PUT" if conditional.iter().any(|h| request.header(h).is_some()) => Self::Create,
            "PUT" => Self::Put,
            "POST" if has("uploadId") => Self::UploadComplete,
            "POST" if has("uploads") => Self::UploadBegin,
            "POST" if has("delete") => Self::Delete,
            "DELETE" if has("uploadId") => Self::UploadAbort,
            "DELETE" => Self::Delete,
            "HEAD" => Self::Head,
            "GET"
                if ["list-type", "prefix", "delimiter", "uploads"]
                    .map(has)
                    .contains(&true) =>
            {
                Self::List
            }
            "GET" if request.header("range").is_some() => Self::GetRange,
            "GET" => Self::Get,
            _ => Self::Other,
        }
    }
}

/// Reads a connection message by message.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Read and not yet handed out.
    rest: Vec<u8>,
}

impl Reader {
    /// The next request; `None` where the connection ends instead.
    pub(crate) async fn request(&mut self, from: &mut TcpStream) -> io::Result<Option<Message>> {
        let Some(head) = self.head(from).await? else {
            return Ok(None);
        };
        let mut message = Message {
            head,
            ..Message::default()
        };
        if message.waits_for_leave() {
            // The server will see it whole: it has no leave to give.
            from.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            message.drop_header("expect");
        }
        message.body = match Length::of(&message) {
            // A request without a length has no body.
            Length::UntilClose => Vec::new(),
            length => self.body(from, length).await?,
        };
        Ok(Some(message))
    }

    /// The answer to a request of this method.
    pub(crate) async fn answer(
        &mut self,
        from: &mut TcpStream,
        method: &str,
    ) -> io::Result<Message> {
        loop {
            let head = self.head(from).await?.ok_or_else(ended)?;
            let mut message = Message {
                head,
                ..Message::default()
            };
            let (_, status) = message.start();
            if status == "100" {
                continue;
            }
            let bare = method == "HEAD" || status == "204" || status == "304";
            let length = Length::of(&message);
            if !bare {
                message.until_close = length == Length::UntilClose;
                message.body = self.body(from, length).await?;
            }
            return Ok(message);
        }
    }

    async fn more(&mut self, from: &mut TcpStream) -> io::Result<usize> {
        let mut buffer = vec![0; 64 << 10];
        let n = from.read(&mut buffer).await?;
        self.rest.extend(&buffer[..n]);
        Ok(n)
    }

    async fn head(&mut self, from: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.rest.windows(4).position(|w| w == b"\r\n\r\n") {
                return Ok(Some(self.take(at + 4)));
            }
            if self.more(from).await? == 0 {
                return match self.rest.is_empty() {
                    true => Ok(None),
                    false => Err(ended()),
                };
            }
        }
    }

    async fn body(&mut self, from: &mut TcpStream, length: Length) -> io::Result<Vec<u8>> {
        loop {
            let end = match length {
                Length::Bytes(n) => (self.rest.len() >= n).then_some(n),
                Length::Chunked => chunks_end(&self.rest),
                Length::UntilClose => None,
            };
            if let Some(end) = end {
                return Ok(self.take(end));
            }
            if self.more(from).await? == 0 {
                return match length {
                    Length::UntilClose => Ok(std::mem::take(&mut self.rest)),
                    _ => Err(ended()),
                };
            }
        }
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        let rest = self.rest.split_off(n);
        std::mem::replace(&mut self.rest, rest)
    }
}

fn ended() -> io::Error {
    io::Error::from(io::ErrorKind::UnexpectedEof)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
    UntilClose,
}

impl Length {
    fn of(message: &Message) -> Self {
        let chunked = message
            .header("transfer-encoding")
            .is_some_and(|v| v.to_ascii_lowercase().contains("chunked"));
        if chunked {
            return Self::Chunked;
        }
        let length = message.header("content-length");
        length
            .and_then(|v| v.parse().ok())
            .map_or(Self::UntilClose, Self::Bytes)
    }
}

/// Where a body in chunks ends, if it is whole.
fn chunks_end(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize| {
        let rest = bytes.get(from..)?;
        Some(from + rest.windows(2).position(|w| w == b"\r\n")? + 2)
    };
    let mut at = 0;
    loop {
        let data = line(at)?;
        let text = String::from_utf8_lossy(&bytes[at..data]).into_owned();
        let size = text.split([';', '\r']).next().unwrap_or_default().trim();
        match usize::from_str_radix(size, 16).ok()? {
            0 => {
                // Trailers, each a line, then an empty one.
                let mut trailer = data;
                loop {
                    let next = line(trailer)?;
                    if next == trailer + 2 {
                        return Some(next);
                    }
                    trailer = next;
                }
            }
            size => at = data + size + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(head: &str) -> Message {
        Message {
            head: format!("{head}\r\n\r\n").into_bytes(),
            ..Message::default()
        }
    }

    #[test]
    fn each_kind_of_request_is_told_from_the_others() {
        for (head, kind) in [
            ("PUT /b/k HTTP/1.1\r\nIf-None-Match: *", Kind::Create),
            ("PUT /b/k HTTP/1.1\r\nif-match: \"x\"", Kind::Create),
            ("PUT /b/k HTTP/1.1", Kind::Put),
            (
                "PUT /b/k?partNumber=1&uploadId=u HTTP/1.1",
                Kind::UploadPart,
            ),
            ("POST /b/k?uploads= HTTP/1.1", Kind::UploadBegin),
            ("POST /b/k?uploads HTTP/1.1", Kind::UploadBegin),
            ("POST /b/k?uploadId=u HTTP/1.1", Kind::UploadComplete),
            ("DELETE /b/k?uploadId=u HTTP/1.1", Kind::UploadAbort),
            ("POST /b?delete HTTP/1.1", Kind::Delete),
            ("DELETE /b/k HTTP/1.1", Kind::Delete),
            ("GET /b?list-type=2&prefix=a HTTP/1.1", Kind::List),
            ("GET /b?uploads HTTP/1.1", Kind::List),
            ("GET /b/k HTTP/1.1\r\nRange: bytes=0-1", Kind::GetRange),
            ("GET /b/k HTTP/1.1", Kind::Get),
            ("HEAD /b/k HTTP/1.1", Kind::Head),
            ("OPTIONS /b HTTP/1.1", Kind::Other),
        ] {
            assert_eq!(Kind::of(&request(head)), kind, "{head}");
        }
    }

    #[test]
    fn a_body_in_chunks_ends_after_its_trailers_and_not_before() {
        let whole = b"4\r\nabcd\r\n0a;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
        assert_eq!(chunks_end(whole), Some(whole.len()));
        for cut in 0..whole.len() {
            assert_eq!(chunks_end(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(chunks_end(b"0\r\n\r\nGET"), Some(5));
    }
}
