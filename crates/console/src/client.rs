//! Client of a daemon's status socket, and of a primary's API beside it.

use std::io::{self, BufReader, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use mpbond_command::Failure;
use nix::unistd::{Gid, Group, Uid, User, geteuid};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::status::Status;

/// Maximum size of an answer.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Time limit of an answer, which takes a few milliseconds.
const WITHIN: Duration = Duration::from_secs(5);

/// The daemon that is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Role of the daemon; otherwise the first that runs here.
    #[arg(long, value_enum, conflicts_with = "socket")]
    role: Option<Role>,
    /// Ask at this socket (`status_socket` in the configuration).
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

/// Role of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// The device with the applications.
    Primary,
    /// A device that lends its link.
    Helper,
    /// The end point in the network.
    Proxy,
}

impl Role {
    const ALL: [Self; 3] = [Self::Primary, Self::Helper, Self::Proxy];

    const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Helper => "helper",
            Self::Proxy => "proxy",
        }
    }

    /// Places of the socket, as the daemons choose them: this user's, the system's.
    fn sockets(self) -> Vec<PathBuf> {
        let role = self.name();
        let system = PathBuf::from(format!("/run/mpbond/{role}.sock"));
        if geteuid().is_root() {
            return vec![system];
        }
        let folder = |variable| {
            let folder = std::env::var_os(variable).map(PathBuf::from);
            folder.filter(|folder: &PathBuf| folder.is_absolute())
        };
        let of_config = || {
            let home = || folder("HOME").map(|home| home.join(".config"));
            let config = folder("XDG_CONFIG_HOME").or_else(home)?;
            Some(config.join(format!("mpbond/{role}.sock")))
        };
        let of_user = match folder("XDG_RUNTIME_DIR") {
            Some(folder) => Some(folder.join(format!("mpbond-{role}.sock"))),
            None => of_config(),
        };
        of_user.into_iter().chain([system]).collect()
    }
}

/// A daemon that has answered.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl DaemonArgs {
    /// The daemon that these options name, with its first answer.
    ///
    /// # Errors
    /// None answers.
    pub fn find(&self) -> Result<(Client, Status), Failure> {
        if let Some(socket) = &self.socket {
            let client = Client {
                socket: socket.clone(),
            };
            let status = client.ask().map_err(Failure::run)?;
            return Ok((client, status));
        }
        let roles: &[Role] = match &self.role {
            Some(role) => std::slice::from_ref(role),
            None => &Role::ALL,
        };
        let mut tried = Vec::new();
        for socket in roles.iter().flat_map(|role| role.sockets()) {
            match request(&socket) {
                Ok(status) => return Ok((Client { socket }, status)),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    tried.push(socket.display().to_string());
                }
                Err(e) => tried.push(reason(&socket, &e)),
            }
        }
        Err(Failure::run(format_args!(
            "no daemon answers here (tried {}): is one running? With `status_socket` in its \
             configuration, use --socket",
            tried.join(", ")
        )))
    }
}

impl Client {
    /// Asks for the status.
    ///
    /// # Errors
    /// Nothing answers, in one line.
    pub fn ask(&self) -> Result<Status, String> {
        request(&self.socket).map_err(|e| reason(&self.socket, &e))
    }

    /// Asks for the status with all fields, but without the connections of applications, of which
    /// their number is told, and those that wait.
    ///
    /// # Errors
    /// Nothing answers, in one line.
    pub fn ask_whole(&self) -> Result<Value, String> {
        let whole = request_as(&self.socket, |answer| {
            serde_json::from_reader::<_, Whole>(BufReader::new(answer))
        });
        let mut whole = whole.map_err(|e| reason(&self.socket, &e))?;
        let transfers = json!(whole.transfers.len());
        whole
            .rest
            .insert("transfers_left_out".to_owned(), transfers);
        Ok(Value::Object(whole.rest))
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The user whose processes see the destinations of streams, beside root.
    pub fn owner(&self) -> Option<String> {
        let meta = std::fs::metadata(&self.socket).ok()?;
        Some(user(meta.uid()))
    }

    /// The socket of a primary's API.
    pub fn api(&self) -> PathBuf {
        api_beside(&self.socket)
    }

    /// Whether there is an API, and this user may change what it governs (docs/api.md).
    pub fn may_change(&self) -> bool {
        let meta = std::fs::metadata(api_beside(&self.socket));
        meta.is_ok_and(|meta| geteuid().is_root() || geteuid().as_raw() == meta.uid())
    }

    /// Sends a request to the API; returns the code and the body of the answer.
    ///
    /// # Errors
    /// Nothing answers, in one line.
    pub async fn pass(
        &self,
        method: &str,
        resource: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>), String> {
        let socket = api_beside(&self.socket);
        let passed = timeout(WITHIN, pass(&socket, method, resource, body)).await;
        let passed = passed.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
        passed.map_err(|e| reason(&socket, &e))
    }
}

/// The socket of the API of a primary with this status socket.
fn api_beside(status: &Path) -> PathBuf {
    match status.extension().is_some_and(|e| e == "sock") {
        true => status.with_extension("api"),
        false => {
            let mut name = status.file_name().unwrap_or_default().to_owned();
            name.push(".api");
            status.with_file_name(name)
        }
    }
}

async fn pass(
    socket: &Path,
    method: &str,
    resource: &str,
    body: &[u8],
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = tokio::net::UnixStream::connect(socket).await?;
    let length = body.len();
    // By HTTP/1.0 the answer comes without chunks.
    let head =
        format!("{method} {resource} HTTP/1.0\r\nHost: mpbond\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut text = Vec::new();
    let mut answer = stream.take(MAX_ANSWER_BYTES + 1);
    answer.read_to_end(&mut text).await?;
    if text.len() as u64 > MAX_ANSWER_BYTES {
        return Err(too_long());
    }
    answered(text).ok_or_else(|| io::Error::other("not an answer of an API"))
}

/// Code and body of an answer.
fn answered(mut text: Vec<u8>) -> Option<(u16, Vec<u8>)> {
    let end = text.windows(4).position(|octets| octets == b"\r\n\r\n")?;
    let body = text.split_off(end + 4);
    let head = String::from_utf8(text).ok()?;
    let code = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    (200..600).contains(&code).then_some((code, body))
}

/// A status, with all fields but the connections of applications.
#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    transfers: Vec<IgnoredAny>,
    /// Their number is a field of its own.
    #[serde(default, rename = "waiting")]
    _waiting: IgnoredAny,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

fn request(socket: &Path) -> io::Result<Status> {
    request_as(socket, |answer| Status::read(answer))
}

fn request_as<T>(
    socket: &Path,
    read: impl FnOnce(&mut Answer) -> serde_json::Result<T>,
) -> io::Result<T> {
    let stream = UnixStream::connect(socket)?;
    // An empty request: the status.
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Answer::of(stream);
    read(&mut answer).map_err(|e| {
        // Its own text quotes what the daemon has sent.
        let place = format!("line {}, column {}", e.line(), e.column());
        let e = io::Error::from(e);
        match e.kind() {
            ErrorKind::UnexpectedEof if answer.octets == 0 => {
                io::Error::other("the daemon closed the connection without an answer: is it busy?")
            }
            ErrorKind::UnexpectedEof => io::Error::other("the daemon's answer is cut off"),
            ErrorKind::InvalidData => {
                io::Error::other(format!("not the status of a daemon ({place})"))
            }
            _ => e,
        }
    })
}

/// An answer, as long as it is read in time and is not too long.
struct Answer {
    stream: UnixStream,
    deadline: Instant,
    octets: u64,
}

impl Answer {
    fn of(stream: UnixStream) -> Self {
        Self {
            stream,
            deadline: Instant::now() + WITHIN,
            octets: 0,
        }
    }
}

impl Read for Answer {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let octets = self.stream.read(block)?;
        self.octets += octets as u64;
        if self.octets > MAX_ANSWER_BYTES {
            return Err(too_long());
        }
        Ok(octets)
    }
}

fn too_long() -> io::Error {
    io::Error::other("its answer is longer than 16 MiB")
}

/// The error in one line, with its remedy.
fn reason(socket: &Path, e: &io::Error) -> String {
    let why = match e.kind() {
        ErrorKind::NotFound => "there is no such socket: is the daemon running?".to_owned(),
        ErrorKind::ConnectionRefused => "nobody listens there: the daemon has ended".to_owned(),
        ErrorKind::PermissionDenied => permission_denied(socket),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no answer within {} s", WITHIN.as_secs())
        }
        _ => e.to_string(),
    };
    format!("{}: {why}", socket.display())
}

/// Error of a socket that this user may not use: it names the owner of the first folder or socket
/// that can be looked at.
fn permission_denied(socket: &Path) -> String {
    let meta = socket.ancestors().find_map(|at| std::fs::metadata(at).ok());
    meta.map_or_else(
        || "permission denied".to_owned(),
        |meta| {
            let group = Group::from_gid(Gid::from_raw(meta.gid()));
            let group = group.ok().flatten().map(|g| g.name);
            let group = group.unwrap_or_else(|| meta.gid().to_string());
            format!(
                "permission denied: it is for root, user {} and group {group}",
                user(meta.uid())
            )
        },
    )
}

fn user(id: u32) -> String {
    let user = User::from_uid(Uid::from_raw(id)).ok().flatten();
    user.map_or_else(|| id.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_beside_the_status_socket() {
        for (status, api) in [
            ("/run/mpbond/primary.sock", "/run/mpbond/primary.api"),
            ("a.b", "a.b.api"),
        ] {
            assert_eq!(api_beside(Path::new(status)), Path::new(api));
        }
    }

    #[test]
    fn an_answer_has_a_code_and_a_body() {
        let of = |text: &str| answered(text.as_bytes().to_vec());
        let right = of("HTTP/1.0 403 Forbidden\r\na: b\r\n\r\n{}\r\n\r\n");
        assert_eq!(right, Some((403, b"{}\r\n\r\n".to_vec())));
        for wrong in [
            "",
            "HTTP/1.0 200 OK\r\n",
            "HTTP/1.0 100 x\r\n\r\n",
            "{}\r\n\r\n",
            "HTTP/1.1 x\r\n\r\n",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
