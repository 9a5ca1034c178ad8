//! A proxy before an S3 server: each request goes through, or meets a fault by rule or by chance.
//!
//! Owns the connections; what a message is, is in `http`, what can happen to it in `faults`. Requests
//! go on in connections of their own, so that a fault of one is none of another's, and a server that
//! was started again is found by the next one.

mod faults;
mod http;

pub use faults::{Chances, Fault, Rule, Tally};
pub use http::Kind;

use crate::lab::wait_until;
use faults::Fate;
use http::{Message, Reader};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Who waits longer than this for an answer is let go: clients of labs give up much earlier.
const PATIENCE: Duration = Duration::from_secs(20);

/// Listens on a free port until the process ends.
#[derive(Debug, Clone)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    state: Mutex<State>,
    /// Requests that were taken and are not over.
    under_way: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    refuse: Option<String>,
    refused: usize,
    rules: Vec<Rule>,
    chances: Option<Chances>,
    nth: u64,
    tally: Tally,
}

impl Proxy {
    /// Before `http://HOST:PORT`.
    pub fn start(endpoint: &str) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            shared: Arc::new(Shared {
                server: endpoint.strip_prefix("http://").unwrap().to_owned(),
                state: Mutex::default(),
                under_way: AtomicUsize::new(0),
            }),
        };
        let shared = Arc::clone(&proxy.shared);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    if let Ok((client, _)) = listener.accept().await {
                        let shared = Arc::clone(&shared);
                        tokio::spawn(async move {
                            let _ended = connection(client, &shared).await;
                        });
                    }
                }
            });
        });
        proxy
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on a PUT whose path holds this text is not passed on and its connection closed.
    pub fn refuse(&self, text: Option<&str>) {
        self.state().refuse = text.map(str::to_owned);
    }

    /// How many requests were turned away.
    pub fn refused(&self) -> usize {
        self.state().refused
    }

    /// Requests that fit meet this fault. Rules come before chances, earlier ones before later ones.
    pub fn rule(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// Requests meet faults at random.
    pub fn chances(&self, chances: Chances) {
        self.state().chances = Some(chances);
    }

    /// From now on everything goes through; returns once nothing is held back any longer.
    pub fn heal(&self) {
        let mut state = self.state();
        state.refuse = None;
        state.rules.clear();
        state.chances = None;
        drop(state);
        wait_until("what the proxy holds", || {
            self.shared.under_way.load(Ordering::SeqCst) == 0
        });
    }

    /// What happened to the requests so far.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to a request; noted at once.
    fn fate(&self, request: &Message) -> Fate {
        let (method, target) = request.start();
        let kind = Kind::of(request);
        let mut state = self.state();
        state.nth += 1;
        let nth = state.nth;
        let mut fate = match &state.chances {
            Some(chances) => chances.fate(nth),
            None => Fate {
                fault: None,
                pause: Duration::from_millis(50),
            },
        };
        let refused = method == "PUT" && state.refuse.as_ref().is_some_and(|t| target.contains(t));
        let rule = state.rules.iter_mut().find(|rule| {
            rule.times > 0 && rule.kind.is_none_or(|k| k == kind) && target.contains(&rule.target)
        });
        if let Some(rule) = rule {
            rule.times -= 1;
            fate.fault = Some(rule.fault);
        }
        if refused {
            state.refused += 1;
            fate.fault = Some(Fault::CutBefore);
        }
        state.tally.note(fate.fault, kind);
        fate
    }
}

/// Counts a request as under way until dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Requests of one client, until it or a fault ends the connection.
async fn connection(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut requests = Reader::default();
    while let Some(request) = requests.request(&mut client).await? {
        let _counted = UnderWay::new(&shared.under_way);
        let fate = shared.fate(&request);
        if let Some(answer) = fate.fault.and_then(own_answer) {
            client.write_all(&answer).await?;
            continue;
        }
        match fate.fault {
            Some(Fault::CutBefore) => return reset(client),
            Some(Fault::CutInBody) => {
                let mut server = TcpStream::connect(&shared.server).await?;
                server.write_all(&request.half()).await?;
                // An orderly end would deliver what was sent as surely; a reset may overtake it.
                server.shutdown().await?;
                return reset(client);
            }
            Some(Fault::DropAnswer) => {
                pass_on(&request, shared).await?;
                return reset(client);
            }
            Some(Fault::Late) => {
                let _left = timeout(PATIENCE, gone(&client)).await;
                sleep(fate.pause).await;
                pass_on(&request, shared).await?;
                return reset(client);
            }
            Some(Fault::BlackHole) => {
                let _left = timeout(PATIENCE, gone(&client)).await;
                return reset(client);
            }
            Some(Fault::Delay) => sleep(fate.pause).await,
            _ => {}
        }
        let answer = pass_on(&request, shared).await?;
        if fate.fault == Some(Fault::ResetInAnswer) {
            client.write_all(&answer.half()).await?;
            return reset(client);
        }
        client.write_all(&answer.bytes()).await?;
        if answer.until_close {
            return Ok(());
        }
    }
    Ok(())
}

/// Ends a connection by RST.
fn reset(connection: TcpStream) -> io::Result<()> {
    connection.set_zero_linger()
}

/// Ends when the client has closed its connection.
async fn gone(client: &TcpStream) {
    let mut byte = [0];
    if matches!(client.peek(&mut byte).await, Ok(n) if n > 0) {
        // It sends more without having had its answer: it is there.
        std::future::pending::<()>().await;
    }
}

async fn pass_on(request: &Message, shared: &Shared) -> io::Result<Message> {
    let mut server = TcpStream::connect(&shared.server).await?;
    server.set_nodelay(true)?;
    server.write_all(&request.bytes()).await?;
    let (method, _) = request.start();
    Reader::default().answer(&mut server, &method).await
}

fn own_answer(fault: Fault) -> Option<Vec<u8>> {
    let (status, code, message) = fault.answer()?;
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>{message}</Message><RequestId>proxy</RequestId></Error>"
    );
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream as Blocking};

    /// A server that knows one answer and keeps what it was asked, whole requests only.
    struct Trivial {
        endpoint: String,
        asked: Arc<Mutex<Vec<String>>>,
        heads: Arc<Mutex<Vec<String>>>,
    }

    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";

    impl Trivial {
        fn start() -> Self {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let asked = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&asked);
            let heads = Arc::new(Mutex::new(Vec::new()));
            let noted_heads = Arc::clone(&heads);
            thread::spawn(move || {
                for mut client in listener.incoming().flatten() {
                    let mut bytes = Vec::new();
                    let mut buffer = [0; 1024];
                    while let Ok(n) = client.read(&mut buffer) {
                        bytes.extend(&buffer[..n]);
                        let text = String::from_utf8(bytes.clone()).unwrap();
                        let Some((head, body)) = text.split_once("\r\n\r\n") else {
                            if n == 0 {
                                break;
                            }
                            continue;
                        };
                        let length = head.split("Content-Length: ").nth(1).unwrap();
                        if body.len() == length.parse::<usize>().unwrap() {
                            noted_heads.lock().unwrap().push(head.to_owned());
                            noted.lock().unwrap().push(body.to_owned());
                            let _gone = client.write_all(ANSWER.as_bytes());
                            break;
                        }
                        if n == 0 {
                            break;
                        }
                    }
                }
            });
            Self {
                endpoint,
                asked,
                heads,
            }
        }

        fn heads(&self) -> Vec<String> {
            self.heads.lock().unwrap().clone()
        }

        fn asked(&self) -> Vec<String> {
            self.asked.lock().unwrap().clone()
        }
    }

    fn put(body: &str) -> String {
        let n = body.len();
        format!("PUT /b/k HTTP/1.1\r\nIf-None-Match: *\r\nContent-Length: {n}\r\n\r\n{body}")
    }

    fn connect(proxy: &Proxy) -> Blocking {
        Blocking::connect(("127.0.0.1", proxy.port)).unwrap()
    }

    /// Sends a request; what came back until the connection ended, and whether it was reset.
    fn send(proxy: &Proxy, body: &str) -> (String, bool) {
        let mut client = connect(proxy);
        client.write_all(put(body).as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            match client.read(&mut buffer) {
                Ok(0) => return (String::from_utf8(bytes).unwrap(), false),
                Ok(n) => bytes.extend(&buffer[..n]),
                Err(_) => return (String::from_utf8(bytes).unwrap(), true),
            }
            if bytes.ends_with(b"0123456789") || bytes.ends_with(b"</Error>") {
                return (String::from_utf8(bytes).unwrap(), false);
            }
        }
    }

    #[test]
    fn each_fault_does_to_request_and_answer_what_it_says() {
        let server = Trivial::start();
        let proxy = Proxy::start(&server.endpoint);
        let mut asked = 0;
        for fault in Fault::ALL {
            // These end when the client leaves; see the next test.
            if matches!(fault, Fault::Late | Fault::BlackHole) {
                continue;
            }
            proxy.rule(Rule::new(fault).on(Kind::Create));
            let (answer, reset) = send(&proxy, "abcdefgh");
            let (went_through, whole) = match fault {
                Fault::CutBefore | Fault::CutInBody => (false, answer.is_empty() && reset),
                Fault::DropAnswer => (true, answer.is_empty() && reset),
                Fault::ResetInAnswer => (true, answer.ends_with("\r\n01234") && reset),
                Fault::Delay => (true, answer == ANSWER && !reset),
                _ => {
                    let (status, code, _) = fault.answer().unwrap();
                    (false, answer.contains(status) && answer.contains(code))
                }
            };
            assert!(whole, "{fault:?}: {answer:?}, reset: {reset}");
            asked += usize::from(went_through);
            assert_eq!(server.asked(), vec!["abcdefgh"; asked], "{fault:?}");
            assert_eq!(proxy.tally().of(fault, Kind::Create), 1);
            assert_eq!(send(&proxy, "whole").0, ANSWER, "the next one goes through");
            assert_eq!(server.asked().pop().unwrap(), "whole");
            server.asked.lock().unwrap().pop();
        }
    }

    #[test]
    fn what_is_late_goes_through_after_its_sender_left_and_what_is_swallowed_never() {
        let server = Trivial::start();
        let proxy = Proxy::start(&server.endpoint);
        for (fault, body) in [(Fault::BlackHole, "swallowed"), (Fault::Late, "late")] {
            proxy.rule(Rule::new(fault));
            let mut client = connect(&proxy);
            client.write_all(put(body).as_bytes()).unwrap();
            wait_until("the fault", || proxy.tally().of(fault, Kind::Create) == 1);
            assert_eq!(server.asked(), Vec::<String>::new());
            client.shutdown(Shutdown::Both).unwrap();
            proxy.heal();
        }
        assert_eq!(server.asked(), ["late"]);
    }

    #[test]
    fn a_body_that_waits_for_leave_is_let_come_and_the_server_sees_no_such_wish() {
        let server = Trivial::start();
        let proxy = Proxy::start(&server.endpoint);
        let mut client = connect(&proxy);
        let request = put("waited");
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        write!(client, "{head}\r\nExpect: 100-continue\r\n\r\n").unwrap();
        let mut leave = [0; 25];
        client.read_exact(&mut leave).unwrap();
        assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(body.as_bytes()).unwrap();
        let mut answer = vec![0; ANSWER.len()];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, ANSWER.as_bytes());
        assert_eq!(server.asked(), ["waited"]);
        assert!(
            !server
                .heads()
                .concat()
                .to_ascii_lowercase()
                .contains("expect")
        );
    }

    #[test]
    fn a_connection_carries_one_request_after_another_and_a_refusal_ends_it() {
        let server = Trivial::start();
        let proxy = Proxy::start(&server.endpoint);
        let mut client = connect(&proxy);
        for body in ["a", "bc"] {
            client.write_all(put(body).as_bytes()).unwrap();
            let mut answer = vec![0; ANSWER.len()];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, ANSWER.as_bytes());
        }
        proxy.refuse(Some("/b/"));
        assert_eq!(send(&proxy, "d"), (String::new(), true));
        assert_eq!(proxy.refused(), 1);
        proxy.refuse(None);
        assert_eq!(send(&proxy, "e").0, ANSWER);
        assert_eq!(server.asked(), ["a", "bc", "e"]);
    }
}
