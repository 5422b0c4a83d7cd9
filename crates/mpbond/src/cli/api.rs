//! Requests to a primary's API.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use mpbond::api;
use mpbond::config::{ConfigError, Role, config_file, status_sockets};

use super::socket::socket_of;

/// Maximum length of a line: names and reasons are shorter.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 10;

/// An answer: its status, and its body as it comes.
pub(super) struct Answer {
    status: String,
    pub(super) body: BufReader<UnixStream>,
}

impl Answer {
    pub(super) fn status(&self) -> &str {
        &self.status
    }

    /// The code of the status, "200" for example.
    pub(super) fn code(&self) -> &str {
        self.status.split(' ').nth(1).unwrap_or_default()
    }
}

/// Sockets of which one is the API of the primary with this configuration, or with that in the
/// usual place.
///
/// # Errors
/// The configuration is wrong.
pub(super) fn sockets(config: Option<PathBuf>) -> Result<Vec<PathBuf>, ConfigError> {
    let file = config.clone();
    let file = file.unwrap_or_else(|| config_file(Role::Primary));
    let status = match config.is_some() || file.exists() {
        true => vec![socket_of(Role::Primary, &file)?],
        false => status_sockets(Role::Primary),
    };
    Ok(status.iter().map(|s| api::path_beside(s)).collect())
}

/// Sends a request, such as "GET" of a resource, with further lines of its head.
///
/// # Errors
/// No daemon answers at the socket.
pub(super) fn ask(socket: &Path, request: &str, more: &str, body: &str) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    // By HTTP/1.0 the answer comes without chunks.
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.0\r\nHost: mpbond\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    );
    stream.write_all(head.as_bytes())?;
    let mut body = BufReader::new(stream);
    let status = line(&mut body)?.ok_or(ErrorKind::UnexpectedEof)?;
    while line(&mut body)?.is_some_and(|line| !line.is_empty()) {}
    Ok(Answer { status, body })
}

/// A line without its end; `None` at the end of the stream.
pub(super) fn line(lines: &mut BufReader<UnixStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    lines.take(MAX_LINE_BYTES).read_line(&mut line)?;
    if line.len() as u64 == MAX_LINE_BYTES {
        return Err(io::Error::other("a line is too long"));
    }
    let is_end = line.is_empty();
    Ok((!is_end).then(|| line.trim_end().to_owned()))
}
