//! A small HTTP proxy before the S3 server that does what real networks and servers do.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the proxy does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Passes it on, and the answer back.
    Forward,
    /// Passes it on without this header, as a server does that ignores it.
    Without(&'static str),
    /// Answers itself; the server never sees it.
    Answer(u16, &'static str),
    /// Passes it on and answers itself.
    ForwardThenAnswer(u16, &'static str),
    /// Passes it on and closes the connection without an answer.
    ForwardThenClose,
    /// Closes the connection at once.
    Close,
    /// Passes it on and never answers, keeping the connection open.
    ForwardThenHang,
    /// Sends only so many bytes of the answer.
    CutAnswer(usize),
}

/// A request as the proxy saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) conditional: bool,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

type Script = Arc<dyn Fn(&Seen, usize) -> Action + Send + Sync>;

impl Proxy {
    /// `script` gets the request and how many of the same method and target came before.
    pub(crate) async fn start(
        upstream: &str,
        script: impl Fn(&Seen, usize) -> Action + Send + Sync + 'static,
    ) -> Self {
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let script: Script = Arc::new(script);
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(
                    client,
                    upstream.clone(),
                    Arc::clone(&script),
                    Arc::clone(&log),
                ));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|one| one.method == method).count()
    }
}

async fn serve(
    mut client: TcpStream,
    upstream: String,
    script: Script,
    log: Arc<Mutex<Vec<Seen>>>,
) {
    let Some((head, body)) = read_request(&mut client).await else {
        return;
    };
    let mut words = head[0].split(' ');
    let seen = Seen {
        method: words.next().unwrap().to_owned(),
        target: words.next().unwrap().to_owned(),
        conditional: head
            .iter()
            .any(|line| line.to_ascii_lowercase().starts_with("if-none-match:")),
    };
    let before = {
        let mut log = log.lock().unwrap();
        let same = |one: &&Seen| one.method == seen.method && one.target == seen.target;
        let before = log.iter().filter(same).count();
        log.push(seen.clone());
        before
    };
    let action = script(&seen, before);
    let without = match &action {
        Action::Without(header) => Some(format!("{header}:")),
        _ => None,
    };
    let answer = match action {
        Action::Answer(..) | Action::Close => Vec::new(),
        _ => forward(&upstream, &head, &body, without.as_deref()).await,
    };
    match action {
        Action::Forward | Action::Without(_) => client.write_all(&answer).await.unwrap_or(()),
        Action::CutAnswer(bytes) => {
            client
                .write_all(&answer[..bytes.min(answer.len())])
                .await
                .unwrap_or(());
        }
        Action::Answer(status, body) | Action::ForwardThenAnswer(status, body) => {
            let text = format!(
                "HTTP/1.1 {status} Injected\r\nContent-Type: application/xml\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            client.write_all(text.as_bytes()).await.unwrap_or(());
        }
        Action::Close | Action::ForwardThenClose => {}
        Action::ForwardThenHang => {
            // Until the client gives up.
            let _ = client.read(&mut [0]).await;
        }
    }
}

/// Lines of the head without the empty one, and the body.
async fn read_request(client: &mut TcpStream) -> Option<(Vec<String>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut chunk = vec![0; 65_536];
        let n = client.read(&mut chunk).await.ok()?;
        if n == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..n]);
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let lines: Vec<String> = head.split("\r\n").map(str::to_owned).collect();
    let length = lines
        .iter()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().ok())?
        })
        .unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        let mut chunk = vec![0; 65_536];
        let n = client.read(&mut chunk).await.ok()?;
        if n == 0 {
            return None;
        }
        body.extend_from_slice(&chunk[..n]);
    }
    Some((lines, body))
}

async fn forward(upstream: &str, head: &[String], body: &[u8], without: Option<&str>) -> Vec<u8> {
    let mut server = TcpStream::connect(upstream).await.unwrap();
    let mut request = String::new();
    for line in head {
        let lower = line.to_ascii_lowercase();
        let drop = lower.starts_with("connection:")
            || without.is_some_and(|header| lower.starts_with(header));
        if !drop {
            request += line;
            request += "\r\n";
        }
    }
    request += "Connection: close\r\n\r\n";
    server.write_all(request.as_bytes()).await.unwrap();
    server.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.unwrap();
    answer
}
