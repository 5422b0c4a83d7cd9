//! Requests to a primary's API.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use mpbond::api;
use mpbond::config::{ConfigError, Role, config_file, status_sockets};
use mpbond_command::Failure;
use serde::Deserialize;

use super::socket::socket_of;

/// Maximum length of a line, which names and reasons do not reach.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Maximum size of an answer: 2,048 rules with names of 100 octets, or as many connections.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// A refusal of the API.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

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

/// The text of the answer of the first of these sockets at which a primary answers.
///
/// # Errors
/// None answers, or it refuses. What the user gave is wrong (422), or too long (413): exit code 2.
pub(super) fn ask_first(
    sockets: &[PathBuf],
    request: &str,
    more: &str,
    body: &str,
) -> Result<String, Failure> {
    let mut failure = "no socket of a primary is known".to_owned();
    for socket in sockets {
        match whole(socket, request, more, body) {
            Ok(Ok(text)) => return Ok(text),
            Ok(Err(refusal)) => return Err(refusal),
            Err(e) => failure = format!("{}: {e}", socket.display()),
        }
    }
    let advice = "is `mpbond primary` running?";
    Err(Failure::run(format_args!("{failure}; {advice}")))
}

/// The text of an answer, or the refusal.
fn whole(
    socket: &Path,
    request: &str,
    more: &str,
    body: &str,
) -> io::Result<Result<String, Failure>> {
    let answer = ask(socket, request, more, body)?;
    let code = answer.code().to_owned();
    let mut text = String::new();
    answer
        .body
        .take(MAX_ANSWER_BYTES)
        .read_to_string(&mut text)?;
    if code == "200" {
        return Ok(Ok(text));
    }
    let reason = serde_json::from_str::<Refusal>(&text).map_or(text, |r| r.error);
    Ok(Err(match code.as_str() {
        "413" | "422" => Failure::input(reason),
        _ => Failure::run(reason),
    }))
}

/// A line of an answer.
pub(super) enum Line {
    /// Without its end.
    Text(String),
    /// It has [`MAX_LINE_BYTES`] and more; the rest of it comes next.
    TooLong,
}

/// The next line; `None` at the end of the stream.
pub(super) fn next_line(lines: &mut BufReader<UnixStream>) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut whole = lines.by_ref().take(MAX_LINE_BYTES);
    whole.read_until(b'\n', &mut line)?;
    Ok(match line.as_slice() {
        [] => None,
        [.., b'\n'] => Some(Line::Text(text(&line))),
        _ if line.len() as u64 == MAX_LINE_BYTES => Some(Line::TooLong),
        _ => Some(Line::Text(text(&line))),
    })
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
}

/// A line without its end, of less than [`MAX_LINE_BYTES`]; `None` at the end of the stream.
pub(super) fn line(lines: &mut BufReader<UnixStream>) -> io::Result<Option<String>> {
    match next_line(lines)? {
        Some(Line::Text(text)) => Ok(Some(text)),
        Some(Line::TooLong) => Err(io::Error::other("a line is too long")),
        None => Ok(None),
    }
}
