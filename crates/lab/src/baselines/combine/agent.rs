//! A helper's agent: takes requests over the pipe, fetches the chunks that they
//! name over the HS-Path, and hands them over to the primary.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::error::{Doing, Error, Result};
use crate::experiment::HandOver;
use crate::transfer::client::{Connection, Dial};

/// Time limit of one chunk; the primary's limit is shorter.
const LIMIT: Duration = Duration::from_secs(600);
const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 16;

/// Starts an agent on a thread inside the host of `onward`; it serves one
/// connection and ends with it.
///
/// # Errors
/// When `listen` cannot be bound.
pub(super) fn start(onward: Dial, listen: SocketAddrV4, hand_over: HandOver) -> Result<()> {
    let host = onward.host.clone();
    let listener = host
        .enter(|| TcpListener::bind(listen))?
        .doing(format_args!("{}: cannot listen on {listen}", host.name()))?;
    std::thread::Builder::new()
        .name("agent".into())
        .spawn(move || {
            // The primary reports that the connection ended.
            let served = host
                .move_in()
                .and_then(|()| serve(&onward, listener, hand_over));
            if let Err(e) = served {
                eprintln!("mpbond: the COMBINE agent on {}: {e}", host.name());
            }
        })
        .doing("cannot start an agent")?;
    Ok(())
}

fn serve(onward: &Dial, listener: TcpListener, hand_over: HandOver) -> Result<()> {
    let (mut primary, _) = listener.accept().doing("cannot accept")?;
    // The agent of the next transfer may listen there before this one ends.
    drop(listener);
    primary.set_nodelay(true).doing("cannot set up the pipe")?;
    let mut origin: Option<Connection> = None;
    while let Some((path, range)) = read_request(&mut primary)? {
        let deadline = Instant::now() + LIMIT;
        let connection = match &mut origin {
            Some(connection) => connection,
            none => none.insert(onward.connect_here(deadline)?),
        };
        let head = connection.ask(&path, Some(range.clone()), deadline)?;
        let whole = head.range.map_or(0, |(_, whole)| whole);
        let answer = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n\
             Content-Range: bytes {}-{}/{whole}\r\n\r\n",
            head.length,
            range.start,
            range.end - 1
        );
        let mut respond = || -> io::Result<()> {
            match hand_over {
                HandOver::Streaming => {
                    primary.write_all(answer.as_bytes())?;
                    connection.body(head.length, deadline, &mut |piece| primary.write_all(piece))
                }
                HandOver::WholeChunk => {
                    let mut chunk = Vec::new();
                    connection.body(head.length, deadline, &mut |piece| {
                        chunk.extend_from_slice(piece);
                        Ok(())
                    })?;
                    primary.write_all(answer.as_bytes())?;
                    primary.write_all(&chunk)
                }
            }
        };
        respond().doing("cannot send a chunk to the primary")?;
    }
    Ok(())
}

/// Path and byte range of the next request; `None` when the primary has closed.
fn read_request(primary: &mut TcpStream) -> Result<Option<(String, Range<u64>)>> {
    let mut head = Vec::new();
    let mut piece = [0; 1 << 10];
    loop {
        let length = match primary.read(&mut piece) {
            Ok(length) => length,
            // A primary that gave up closes with bytes still in flight.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(e) => return Err(e).doing("cannot read from the pipe"),
        };
        if length == 0 {
            return Ok(None);
        }
        head.extend_from_slice(piece.get(..length).unwrap_or_default());
        if let Some(request) = parse_request(&head)? {
            return Ok(Some(request));
        }
        if head.len() > MAX_HEAD_BYTES {
            return Err(Error::run("the request head is too long"));
        }
    }
}

/// A GET with one byte range, when it is complete. Nothing follows, since the primary waits for
/// each response.
fn parse_request(bytes: &[u8]) -> Result<Option<(String, Range<u64>)>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(e) => return Err(Error::run(format!("no HTTP request: {e}"))),
    }
    let range = request
        .headers
        .iter()
        .find(|f| f.name.eq_ignore_ascii_case("Range"))
        .and_then(|f| read_range(std::str::from_utf8(f.value).ok()?));
    match (request.method, request.path, range) {
        (Some("GET"), Some(path), Some(range)) => Ok(Some((path.to_owned(), range))),
        _ => Err(Error::run("expected a GET request for a byte range")),
    }
}

fn read_range(text: &str) -> Option<Range<u64>> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    let end = last.checked_add(1)?;
    (first < end).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        let whole = "GET /bytes/9 HTTP/1.1\r\nHost: a\r\nrange: bytes=2-4\r\n\r\n";
        let want = Some(("/bytes/9".to_owned(), 2..5));
        assert_eq!(parse_request(whole.as_bytes()).unwrap(), want);
        for cut in 0..whole.len() {
            assert_eq!(parse_request(&whole.as_bytes()[..cut]).unwrap(), None);
        }
        for wrong in [
            "PUT /x HTTP/1.1\r\nRange: bytes=2-4\r\n\r\n",
            "GET /x HTTP/1.1\r\n\r\n",
            "GET /x HTTP/1.1\r\nRange: bytes=4-2\r\n\r\n",
            "GET /x HTTP/1.1\r\nRange: bytes=0-18446744073709551615\r\n\r\n",
            "\0\0\r\n\r\n",
        ] {
            assert!(parse_request(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
