//! A proxy before the S3 server that can turn some requests away, for outages of one kind.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Listens on a free port until the process ends.
#[derive(Debug, Clone)]
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    refuse: Mutex<Option<String>>,
    refused: AtomicUsize,
}

impl Proxy {
    /// Before `http://HOST:PORT`.
    pub fn start(endpoint: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::default(),
        };
        let (state, to) = (
            proxy.state.clone(),
            endpoint.strip_prefix("http://").unwrap().to_owned(),
        );
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (state, to) = (state.clone(), to.clone());
                thread::spawn(move || serve(&client, &to, &state));
            }
        });
        proxy
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on a PUT whose path holds this text is not passed on and its connection closed.
    pub fn refuse(&self, text: Option<&str>) {
        *self.state.refuse.lock().unwrap() = text.map(str::to_owned);
    }

    /// How many requests were turned away.
    pub fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }
}

fn serve(client: &TcpStream, to: &str, state: &State) {
    let Ok(server) = TcpStream::connect(to) else {
        return;
    };
    let (mut up, mut down) = (server.try_clone().unwrap(), server.try_clone().unwrap());
    let (mut from, mut back) = (client.try_clone().unwrap(), client.try_clone().unwrap());
    let answers = thread::spawn(move || {
        let _closed = std::io::copy(&mut down, &mut back);
        let _gone = back.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n) = from.read(&mut buffer) {
        // A client writes the head of a request at once, so the path is within one read.
        let text = String::from_utf8_lossy(&buffer[..n]);
        let refuse = state.refuse.lock().unwrap().clone();
        let turned_away = refuse.is_some_and(|part| {
            text.lines()
                .any(|l| l.starts_with("PUT ") && l.contains(&part))
        });
        if turned_away {
            state.refused.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if n == 0 || up.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _closed = client.shutdown(Shutdown::Both);
    let _closed = server.shutdown(Shutdown::Both);
    let _ended = answers.join();
}
