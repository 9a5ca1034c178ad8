//! Objects of an S3 server as files: its own files where it keeps them so, else by plain HTTP, for
//! MiniStack asks for no signature.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use tidegate_test_services::S3Server;

/// Copies every object below a prefix into a folder.
pub fn download(server: &S3Server, prefix: &str, into: &Path) {
    if let Some(files) = server.files() {
        fs::create_dir_all(into).unwrap();
        let copied = Command::new("cp")
            .arg("-a")
            .arg(files.join(prefix).join("."))
            .arg(into)
            .status();
        assert!(copied.unwrap().success());
        return;
    }
    // What ends in a slash is a mark for a folder that some clients make.
    for key in list(server, prefix)
        .into_iter()
        .filter(|key| !key.ends_with('/'))
    {
        let path = into.join(&key[prefix.len()..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            path,
            get(server, &format!("/{}/{}", server.bucket, escaped(&key))),
        )
        .unwrap();
    }
}

/// Puts an object; MiniStack asks for no signature.
pub fn upload(server: &S3Server, key: &str, bytes: &[u8]) {
    let host = server.endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let path = format!("/{}/{}", server.bucket, escaped(key));
    write!(
        stream,
        "PUT {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )
    .unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.lines().next().unwrap_or_default().contains(" 200"),
        "PUT {path}: {answer}"
    );
}

fn list(server: &S3Server, prefix: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    loop {
        let after = keys
            .last()
            .map_or_else(String::new, |k| format!("&start-after={}", escaped(k)));
        let path = format!(
            "/{}?list-type=2&prefix={}{after}",
            server.bucket,
            escaped(prefix)
        );
        let text = String::from_utf8(get(server, &path)).unwrap();
        let before = keys.len();
        keys.extend(
            text.split("<Key>")
                .skip(1)
                .map(|part| part.split("</Key>").next().unwrap().replace("&amp;", "&")),
        );
        if keys.len() == before {
            return keys;
        }
    }
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                (b as char).to_string()
            }
            _ => format!("%{b:02X}"),
        })
        .collect()
}

fn get(server: &S3Server, path: &str) -> Vec<u8> {
    let host = server.endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("headers");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.contains(" 200"), "GET {path}: {head}");
    let body = answer.split_off(end + 4);
    if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return dechunked(&body);
    }
    body
}

fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|w| w == b"\r\n").unwrap();
        let size =
            usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend(&body[end + 2..end + 2 + size]);
        body = &body[end + 4 + size..];
    }
}
