//! Servers that the tests start themselves.
//!
//! Owns installing, starting and stopping S3 servers (MiniStack from PyPI and the Versity gateway from
//! the Go module proxy: real servers over HTTP whose conditional put is atomic), and installing
//! pypaimon, a reader that is not ours.
//! Everything listens on 127.0.0.1, needs no root, and ends with the process that started it, even
//! if that is killed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The version that was measured: atomic in 1,300 of 1,300 races.
const MINISTACK: [&str; 1] = ["ministack==1.5.33"];
/// Keeps its objects as files, whatever becomes of its process.
const VERSITY: &str = "v1.8.0";
/// Reads all tables that Java writes, as far as they were tried.
const PYPAIMON: [&str; 2] = ["pypaimon==2.1.0", "pyarrow==19.0.1"];
const START_LIMIT: Duration = Duration::from_secs(60);

/// Which server it is, and where its objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// MiniStack, objects in memory.
    Forgetful,
    /// MiniStack, objects in a folder.
    Keeping,
    /// Versity gateway over a folder: each object is a file.
    Versity,
}

/// A running S3 server with one bucket; dropping stops it. Objects are in its memory, or in a folder
/// where it was started to be killed.
#[derive(Debug)]
pub struct S3Server {
    /// e.g. `http://127.0.0.1:40123`
    pub endpoint: String,
    /// Name of the bucket made at the start.
    pub bucket: String,
    /// Access key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Region.
    pub region: String,
    dir: PathBuf,
    port: u16,
    program: Program,
    watchdog: Mutex<Option<(Child, ChildStdin)>>,
}

fn failed(message: impl Into<String>) -> io::Error {
    io::Error::other(message.into())
}

/// Folder for installed servers: `$TIDEGATE_CACHE`, else `~/.cache/tidegate`.
pub fn cache_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("TIDEGATE_CACHE") {
        return dir.into();
    }
    let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
    home.join(".cache/tidegate")
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{command:?}: {}\n{text}", output.status)))
}

/// A virtual environment with these packages, made once, however many processes ask; its `bin`.
fn install(name: &str, packages: &[&str]) -> io::Result<PathBuf> {
    let cache = cache_dir();
    fs::create_dir_all(&cache)?;
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock()?;
    let venv = cache.join(name);
    let marker = venv.join(".installed");
    let wanted = packages.join(" ");
    let installed = fs::read_to_string(&marker).is_ok_and(|text| text == wanted);
    if !installed {
        if venv.exists() {
            fs::remove_dir_all(&venv)?;
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        run(Command::new(venv.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(packages))?;
        fs::write(&marker, wanted)?;
    }
    Ok(venv.join("bin"))
}

/// Installs MiniStack; returns its program.
///
/// # Errors
/// Where there is no `python3` with `venv`, or the package cannot be had.
pub fn install_ministack() -> io::Result<PathBuf> {
    Ok(install("ministack", &MINISTACK)?.join("ministack"))
}

/// Installs pypaimon; returns the Python that has it.
///
/// # Errors
/// As [`install_ministack`].
pub fn install_pypaimon() -> io::Result<PathBuf> {
    Ok(install("pypaimon", &PYPAIMON)?.join("python"))
}

/// Builds the Versity gateway, once, however many processes ask; its program.
///
/// # Errors
/// Where there is no `go` (1.26 or later), or its modules cannot be had.
pub fn install_versity() -> io::Result<PathBuf> {
    let cache = cache_dir();
    let bin = cache.join(format!("versitygw-{VERSITY}"));
    fs::create_dir_all(&bin)?;
    let lock = File::create(cache.join("versitygw.lock"))?;
    lock.lock()?;
    let program = bin.join("versitygw");
    if !program.exists() {
        let module = format!("github.com/versity/versitygw/cmd/versitygw@{VERSITY}");
        let mut build = Command::new("go");
        build
            .args(["install", "-ldflags=-s -w", &module])
            .env("GOBIN", &bin);
        run(&mut build)
            .map_err(|e| failed(format!("the Versity gateway cannot be built with Go: {e}")))?;
    }
    Ok(program)
}

impl S3Server {
    /// Starts a server on a free port, waits until it answers and makes a bucket. Its log goes
    /// to `dir/server.log`.
    ///
    /// # Errors
    /// Where it cannot be installed or does not answer within a minute; the end of its log is in
    /// the message.
    pub fn start(dir: &Path) -> io::Result<Self> {
        Self::start_on_a_free_port(dir, Program::Forgetful)
    }

    /// As [`S3Server::start`], with objects in `dir/objects`: they outlive [`S3Server::kill`].
    ///
    /// # Errors
    /// As [`S3Server::start`].
    pub fn start_on_disk(dir: &Path) -> io::Result<Self> {
        Self::start_on_a_free_port(dir, Program::Keeping)
    }

    /// A Versity gateway over `dir/objects`: they outlive [`S3Server::kill`]. Takes signed requests
    /// only; [`S3Server::files`] are its objects.
    ///
    /// # Errors
    /// As [`S3Server::start`] and [`install_versity`].
    pub fn start_versity(dir: &Path) -> io::Result<Self> {
        Self::start_on_a_free_port(dir, Program::Versity)
    }

    /// The folder that has the bucket's objects as files of their names, where it is one.
    pub fn files(&self) -> Option<PathBuf> {
        let versity = self.program == Program::Versity;
        versity.then(|| self.dir.join("objects").join(&self.bucket))
    }

    fn start_on_a_free_port(dir: &Path, program: Program) -> io::Result<Self> {
        install_program(program)?;
        fs::create_dir_all(dir)?;
        let mut last = failed("not tried");
        // Somebody else may take the free port before the server does.
        for _ in 0..3 {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let server = Self {
                endpoint: format!("http://127.0.0.1:{port}"),
                bucket: "test-bucket".to_owned(),
                access_key: "test".to_owned(),
                secret_key: "testtest".to_owned(),
                region: "us-east-1".to_owned(),
                dir: dir.to_path_buf(),
                port,
                program,
                watchdog: Mutex::default(),
            };
            match server.again() {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// One server per process, for tests that keep to prefixes of their own.
    ///
    /// # Errors
    /// As [`S3Server::start`]; the reason of the first attempt is repeated.
    pub fn shared() -> io::Result<&'static Self> {
        static SHARED: OnceLock<Result<S3Server, String>> = OnceLock::new();
        let started = SHARED.get_or_init(|| {
            let dir = std::env::temp_dir().join(format!("tidegate-s3-{}", std::process::id()));
            Self::start(&dir).map_err(|error| error.to_string())
        });
        started.as_ref().map_err(|message| failed(message.clone()))
    }

    /// Starts the server (again, after [`S3Server::kill`]) on its port, with its objects where it
    /// keeps them.
    ///
    /// # Errors
    /// As [`S3Server::start`].
    pub fn again(&self) -> io::Result<()> {
        let log = self.dir.join("server.log");
        let output = OpenOptions::new().create(true).append(true).open(&log)?;
        // The shell ends the server when our end of the pipe closes, however we end; a server that
        // is paused takes note only when it goes on.
        let objects = self.dir.join("objects");
        if let Some(bucket) = self.files() {
            // A bucket is a folder.
            fs::create_dir_all(bucket)?;
        }
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                r#"pid=$1; shift; "$@" & server=$!; echo $server >"$pid"; cat >/dev/null; kill $server; kill -CONT $server; wait $server"#,
                "sh",
            ])
            .arg(self.dir.join("pid"))
            .arg(install_program(self.program)?)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        let persist = match self.program {
            Program::Keeping => "1",
            _ => "0",
        };
        match self.program {
            Program::Versity => command
                .arg("--port")
                .arg(format!("127.0.0.1:{}", self.port))
                .args(["--health", "/_health", "--quiet", "posix"])
                .arg(&objects)
                .env("ROOT_ACCESS_KEY", &self.access_key)
                .env("ROOT_SECRET_KEY", &self.secret_key),
            Program::Forgetful | Program::Keeping => command
                .env("BIND_HOST", "127.0.0.1")
                .env("GATEWAY_PORT", self.port.to_string())
                .env("SERVICES", "s3")
                .env("S3_PERSIST", persist)
                .env("S3_DATA_DIR", &objects),
        };
        let mut child = command.spawn()?;
        let stdin = child
            .stdin
            .take()
            .ok_or_else(|| failed("no pipe to the server"))?;
        *self.watchdog() = Some((child, stdin));
        let begun = Instant::now();
        let health = match self.program {
            Program::Versity => "/_health",
            _ => "/_ministack/health",
        };
        while !matches!(http(self.port, "GET", health), Ok(200)) {
            if begun.elapsed() > START_LIMIT {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<_> = text.lines().rev().take(20).collect();
                let end: Vec<_> = lines.into_iter().rev().collect();
                return Err(failed(format!(
                    "the S3 server on port {} does not answer:\n{}",
                    self.port,
                    end.join("\n")
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if self.program == Program::Versity {
            return Ok(());
        }
        match http(self.port, "PUT", &format!("/{}", self.bucket))? {
            200 => Ok(()),
            // It has kept the bucket.
            409 if self.program == Program::Keeping => Ok(()),
            status => Err(failed(format!("making the bucket: status {status}"))),
        }
    }

    /// Sends the server's process a signal by its name, e.g. `STOP` or `CONT`.
    ///
    /// # Errors
    /// Where it is not running.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let pid = fs::read_to_string(self.dir.join("pid"))?;
        run(Command::new("kill").args([&format!("-{name}"), pid.trim()]))
    }

    /// Kills the server with SIGKILL, in the middle of whatever it does.
    ///
    /// # Errors
    /// Where it is not running.
    pub fn kill(&self) -> io::Result<()> {
        self.signal("KILL")?;
        let watchdog = self.watchdog().take();
        if let Some((mut child, stdin)) = watchdog {
            drop(stdin);
            child.wait()?;
        }
        Ok(())
    }

    fn watchdog(&self) -> std::sync::MutexGuard<'_, Option<(Child, ChildStdin)>> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `s3://BUCKET/prefix`
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{}/{prefix}", self.bucket)
    }

    /// The options that open it, in Paimon's keys.
    pub fn options(&self) -> BTreeMap<String, String> {
        [
            ("s3.endpoint", &self.endpoint),
            ("s3.access-key", &self.access_key),
            ("s3.secret-key", &self.secret_key),
            ("s3.region", &self.region),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .chain([("s3.path.style.access".to_owned(), "true".to_owned())])
        .collect()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let watchdog = self.watchdog().take();
        if let Some((mut child, stdin)) = watchdog {
            drop(stdin);
            // The shell waits for the server, so the port is free afterwards.
            let _ = child.wait();
        }
    }
}

fn install_program(program: Program) -> io::Result<PathBuf> {
    match program {
        Program::Forgetful | Program::Keeping => install_ministack(),
        Program::Versity => install_versity(),
    }
}

/// One request without a body; the status of the answer. MiniStack takes any credentials.
fn http(port: u16, method: &str, path: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    status.ok_or_else(|| failed("no HTTP answer"))
}
