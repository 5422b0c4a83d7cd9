//! HTTP/1.1 (RFC 9112) over a connected socket, as far as a client of the origin needs it: GET with
//! a byte range, PUT, CONNECT; persistent.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::ops::Range;
use std::time::Instant;

use super::deadline::left;
use crate::error::{Doing, Error, Result};

/// Size of the read buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum size of a response's head.
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;

/// A connection for one request after the other.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Value of the Host field.
    authority: SocketAddrV4,
    buffer: Vec<u8>,
    /// Part of the buffer that has not been used.
    unread: Range<usize>,
    first_byte: Option<Instant>,
    carried: Carried,
}

/// Bytes of a connection, in each direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub status: u16,
    /// Length of the body, in bytes.
    pub length: u64,
    /// First byte and total length, of a partial response.
    pub range: Option<(u64, u64)>,
}

/// Receiver of a body in pieces, in order.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

impl Connection {
    /// Takes over a connected socket to `authority`.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn new(stream: TcpStream, authority: SocketAddrV4) -> Result<Self> {
        Ok(Self {
            stream,
            authority,
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            first_byte: None,
            carried: Carried::default(),
        })
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Bytes received and sent so far, heads included.
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// Arrival of the first byte of the last response.
    pub fn first_byte(&self) -> Option<Instant> {
        self.first_byte
    }

    /// GETs `path`, or `range` of it, and passes the body to `sink`.
    ///
    /// # Errors
    /// When the connection breaks, the deadline passes, the response is a different one, or `sink`
    /// fails.
    pub fn get(
        &mut self,
        path: &str,
        range: Option<Range<u64>>,
        deadline: Instant,
        sink: Sink,
    ) -> Result<Head> {
        let head = self.ask(path, range.clone(), deadline)?;
        self.body(head.length, deadline, sink)
            .doing(format_args!("GET {path}"))?;
        Ok(head)
    }

    /// Sends the request of [`Connection::get`] and reads the head; the body follows.
    ///
    /// # Errors
    /// As [`Connection::get`].
    pub fn ask(
        &mut self,
        path: &str,
        range: Option<Range<u64>>,
        deadline: Instant,
    ) -> Result<Head> {
        let fields = match &range {
            Some(range) => format!("Range: bytes={}-{}\r\n", range.start, range.end - 1),
            None => String::new(),
        };
        self.request("GET", path, &fields, deadline)
            .doing(format_args!("GET {path}"))?;
        let head = self.head(deadline).doing(format_args!("GET {path}"))?;
        let as_asked = match range {
            None => head.status == 200,
            Some(range) => {
                let starts_there = head.range.is_some_and(|(first, _)| first == range.start);
                head.status == 206 && starts_there && head.length == range.end - range.start
            }
        };
        if !as_asked {
            return Err(Error::run(format!(
                "GET {path}: unexpected response: {head:?}"
            )));
        }
        Ok(head)
    }

    /// PUTs `length` bytes, in `pieces`, and returns the text of the response.
    ///
    /// # Errors
    /// As [`Connection::get`]; also when the status is not 200.
    pub fn put(
        &mut self,
        path: &str,
        length: u64,
        pieces: impl Iterator<Item = Vec<u8>>,
        deadline: Instant,
    ) -> Result<String> {
        const MAX_ANSWER_BYTES: u64 = 64 << 10;
        let send = |connection: &mut Self| -> io::Result<()> {
            let fields = format!("Content-Length: {length}\r\n");
            connection.request("PUT", path, &fields, deadline)?;
            for piece in pieces {
                connection.stream.set_write_timeout(Some(left(deadline)?))?;
                connection.stream.write_all(&piece)?;
                connection.carried.bytes_out += piece.len() as u64;
            }
            Ok(())
        };
        send(self).doing(format_args!("PUT {path}"))?;
        let head = self.head(deadline).doing(format_args!("PUT {path}"))?;
        if head.status != 200 || head.length > MAX_ANSWER_BYTES {
            return Err(Error::run(format!("PUT {path}: refused: {head:?}")));
        }
        let mut answer = Vec::new();
        self.body(head.length, deadline, &mut |piece| {
            answer.extend_from_slice(piece);
            Ok(())
        })
        .doing(format_args!("PUT {path}"))?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Requests a tunnel to the authority from an HTTP proxy (RFC 9110, section 9.3.6).
    ///
    /// # Errors
    /// When the proxy refuses.
    pub fn tunnel(&mut self, deadline: Instant) -> Result<()> {
        let to = self.authority.to_string();
        let what = format!("CONNECT {to}");
        self.request("CONNECT", &to, "", deadline).doing(&what)?;
        let head = self.head(deadline).doing(&what)?;
        if !(200..300).contains(&head.status) {
            return Err(Error::run(format!("{what}: refused: {}", head.status)));
        }
        Ok(())
    }

    fn request(
        &mut self,
        method: &str,
        target: &str,
        fields: &str,
        deadline: Instant,
    ) -> io::Result<()> {
        self.first_byte = None;
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n",
            self.authority
        );
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.carried.bytes_out += head.len() as u64;
        self.stream.write_all(head.as_bytes())
    }

    /// Reads the head of a response; bytes behind it stay in the buffer.
    fn head(&mut self, deadline: Instant) -> io::Result<Head> {
        let mut so_far = Vec::new();
        loop {
            let piece = self.next(deadline, usize::MAX)?;
            so_far.extend_from_slice(piece);
            let taken = piece.len();
            if let Some((head, length)) = parse_head(&so_far)? {
                // The last piece may contain the start of the body.
                let body = so_far.len() - length;
                debug_assert!(body <= taken);
                self.unread.start -= body.min(taken);
                return Ok(head);
            }
            if so_far.len() > MAX_HEAD_BYTES {
                return Err(io::Error::other("the response head is too long"));
            }
        }
    }

    /// Passes exactly `length` bytes to `sink` as they arrive.
    pub fn body(&mut self, length: u64, deadline: Instant, sink: Sink) -> io::Result<()> {
        let mut missing = length;
        while missing > 0 {
            let most = usize::try_from(missing).unwrap_or(usize::MAX);
            let piece = self.next(deadline, most)?;
            missing -= piece.len() as u64;
            sink(piece)?;
        }
        Ok(())
    }

    /// The next bytes, at most `most`, from the buffer or the socket.
    fn next(&mut self, deadline: Instant, most: usize) -> io::Result<&[u8]> {
        if self.unread.is_empty() {
            let length = loop {
                self.stream.set_read_timeout(Some(left(deadline)?))?;
                match self.stream.read(&mut self.buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(length) => break length,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    Err(e) => return Err(e),
                }
            };
            self.first_byte.get_or_insert_with(Instant::now);
            self.carried.bytes_in += length as u64;
            self.unread = 0..length;
        }
        let from = self.unread.start;
        self.unread.start += self.unread.len().min(most);
        Ok(self.buffer.get(from..self.unread.start).unwrap_or_default())
    }
}

/// The head of a response and its length in bytes, when it is complete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(e) => return Err(io::Error::other(format!("no HTTP response: {e}"))),
    };
    let field = |name: &str| {
        let mut fields = response.headers.iter();
        let found = fields.find(|f| f.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    if field("Transfer-Encoding").is_some() {
        return Err(io::Error::other("unsupported transfer encoding: chunked"));
    }
    let status = response.code.unwrap_or_default();
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| io::Error::other(format!("Content-Length: {text}")))
    };
    let head = Head {
        status,
        length: field("Content-Length").map_or(Ok(0), number)?,
        range: field("Content-Range").and_then(read_content_range),
    };
    Ok(Some((head, length)))
}

/// `bytes 0-99/1000` as (0, 1000).
fn read_content_range(text: &str) -> Option<(u64, u64)> {
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    let whole = whole.parse().ok()?;
    (first <= last && last < whole).then_some((first, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn heads_are_read_or_refused() {
        let head = |text: &str| parse_head(text.as_bytes());
        let partial = "HTTP/1.1 206 Partial Content\r\ncontent-length: 10\r\n\
                       Content-Range: bytes 5-14/100\r\n\r\n";
        let want = Head {
            status: 206,
            length: 10,
            range: Some((5, 100)),
        };
        assert_eq!(head(partial).unwrap(), Some((want, partial.len())));
        for cut in 0..partial.len() {
            assert_eq!(head(&partial[..cut]).unwrap(), None, "{cut}");
        }
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            assert!(head(wrong).is_err(), "{wrong}");
        }
        for (text, want) in [
            ("bytes 0-0/1", Some((0, 1))),
            ("bytes 0-1/1", None),
            ("bytes 1-0/9", None),
            ("bytes */9", None),
            ("octets 0-0/1", None),
        ] {
            assert_eq!(read_content_range(text), want, "{text}");
        }
    }

    /// A server that answers each request with the next of `answers`, one octet at a time.
    fn served(answers: Vec<&'static str>) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            for answer in answers {
                let mut request = Vec::new();
                let mut octet = [0];
                while !request.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut octet).unwrap();
                    request.push(octet[0]);
                }
                for octet in answer.bytes() {
                    stream.write_all(&[octet]).unwrap();
                }
            }
        });
        let stream = TcpStream::connect(address).unwrap();
        Connection::new(stream, "127.0.0.1:1".parse().unwrap()).unwrap()
    }

    fn text_of(connection: &mut Connection, range: Option<Range<u64>>) -> Result<String> {
        let mut body = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(5);
        connection.get("/x", range, deadline, &mut |piece| {
            body.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn answers_on_one_connection_do_not_run_together() {
        let mut connection = served(vec![
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\
             Content-Range: bytes 2-4/5\r\n\r\nllo",
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\
             Content-Range: bytes 0-2/5\r\n\r\nhel",
        ]);
        assert_eq!(text_of(&mut connection, None).unwrap(), "hello");
        assert_eq!(text_of(&mut connection, Some(2..5)).unwrap(), "llo");
        let e = text_of(&mut connection, Some(2..5)).unwrap_err();
        assert!(e.to_string().contains("unexpected response"), "{e}");
    }

    #[test]
    fn a_tunnel_has_no_body() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut connection = served(vec![
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ]);
        connection.tunnel(deadline).unwrap();
        assert_eq!(text_of(&mut connection, None).unwrap(), "hello");
        let mut connection = served(vec!["HTTP/1.1 403 Forbidden\r\n\r\n"]);
        assert!(connection.tunnel(deadline).is_err());
    }

    #[test]
    fn an_answer_that_breaks_off_is_an_error() {
        let mut connection = served(vec!["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"]);
        assert!(text_of(&mut connection, None).is_err());
    }
}
