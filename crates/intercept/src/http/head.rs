//! Parsing and rewriting of request heads.

use bytes::{BufMut, Bytes, BytesMut};

use super::Framing;
use crate::credentials::Basic;
use crate::destination::{BadDestination, Destination};
use crate::{BadIntent, Credentials, Intent};

/// Maximum length of request line and header section in bytes. Browsers and servers usually stay
/// under 16 KiB; large cookies need more.
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Maximum number of header fields.
const MAX_FIELDS: usize = 128;

/// Default port of `http://` addresses.
const HTTP_PORT: u16 = 80;

/// A valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `CONNECT host:port`: a tunnel.
    Connect(Destination),
    /// An absolute-form request, to be forwarded in origin-form.
    Forward {
        /// The origin.
        destination: Destination,
        /// The rewritten head, with its empty line.
        head: Bytes,
        /// Framing of the body.
        framing: Framing,
    },
}

/// Error of parsing a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// More than [`MAX_HEAD_BYTES`] or too many fields.
    #[error("the header is too large")]
    TooLarge,
    /// A control character, a bare CR or LF, or a folded line.
    #[error("the header has a bare CR, a bare LF, a control character or a folded line")]
    BadBytes,
    /// Not HTTP/1.x, or malformed.
    #[error("this is not a valid HTTP/1 request")]
    Syntax,
    /// Origin-form: the client treats the proxy as an origin server.
    #[error("this is a proxy: it accepts CONNECT and absolute-form requests for http:// addresses")]
    NotForAProxy,
    /// A scheme other than http.
    #[error("only http:// addresses are forwarded; use CONNECT for others")]
    Scheme,
    /// `http://user:password@host/` or `#fragment`.
    #[error("the address has a user name or a fragment, which are not allowed")]
    OddTarget,
    /// The target is not a valid destination.
    #[error(transparent)]
    Destination(#[from] BadDestination),
    /// Content-Length and Transfer-Encoding are both present, repeated, or malformed.
    #[error("the length of the request's body is ambiguous")]
    AmbiguousLength,
    /// A transfer coding other than chunked.
    #[error("only the transfer coding chunked is supported")]
    TransferCoding,
    /// More than one Host field, or none in HTTP/1.1.
    #[error("the request must have exactly one Host field")]
    Host,
    /// A Connection field that names Content-Length, Transfer-Encoding or Host.
    #[error("the Connection field names a field that has to reach the origin")]
    Connection,
    /// Credentials are required, and missing or wrong.
    #[error("user name and password are required")]
    Unauthorized,
    /// Unknown parameters behind the user name.
    #[error(transparent)]
    Intent(#[from] BadIntent),
}

impl BadRequest {
    /// Status code and reason phrase (RFC 9110, section 15).
    pub fn status(&self) -> (u16, &'static str) {
        match self {
            Self::TooLarge => (431, "Request Header Fields Too Large"),
            Self::TransferCoding => (501, "Not Implemented"),
            Self::Unauthorized => (407, "Proxy Authentication Required"),
            _ => (400, "Bad Request"),
        }
    }
}

/// Index after the empty line that ends the head. `from` is the length already searched by an
/// earlier call.
pub fn find_head_end(input: &[u8], from: usize) -> Option<usize> {
    // The end may straddle the boundary of two reads.
    let from = from.saturating_sub(3);
    let at = input
        .get(from..)?
        .windows(4)
        .position(|w| w == b"\r\n\r\n")?;
    Some(from + at + 4)
}

/// Parses a head, including its empty line: the request, and the client's parameters.
///
/// # Errors
/// [`BadRequest`], to be answered with [`bad_request`](super::bad_request).
pub fn parse(
    head: &[u8],
    credentials: Option<&Credentials>,
) -> Result<(Request, Intent), BadRequest> {
    if head.len() > MAX_HEAD_BYTES {
        return Err(BadRequest::TooLarge);
    }
    check_bytes(head)?;
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(n)) if n == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(BadRequest::TooLarge),
        _ => return Err(BadRequest::Syntax),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Err(BadRequest::Syntax);
    };
    let fields = Fields::read(request.headers, minor)?;
    let intent = authorize(fields.authorization, credentials)?;
    if method == "CONNECT" {
        if fields.framing.is_some() {
            return Err(BadRequest::AmbiguousLength);
        }
        let to = Destination::from_authority(target, None)?;
        return Ok((Request::Connect(to), intent));
    }
    let (authority, path) = absolute_form(target)?;
    let destination = Destination::from_authority(authority, Some(HTTP_PORT))?;
    let path = match path {
        "" if method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    let mut out = BytesMut::with_capacity(head.len() + 32);
    out.put_slice(format!("{method} {path} HTTP/1.{minor}\r\nHost: {authority}\r\n").as_bytes());
    for field in request.headers.iter() {
        if !fields.is_dropped(field.name) {
            out.put_slice(field.name.as_bytes());
            out.put_slice(b": ");
            out.put_slice(field.value);
            out.put_slice(b"\r\n");
        }
    }
    out.put_slice(b"Connection: close\r\n\r\n");
    let request = Request::Forward {
        destination,
        head: out.freeze(),
        framing: fields.framing.unwrap_or(Framing::Length(0)),
    };
    Ok((request, intent))
}

/// Checks the credentials, where some are required; the client's parameters.
fn authorize(
    field: Option<&[u8]>,
    credentials: Option<&Credentials>,
) -> Result<Intent, BadRequest> {
    let shown = field.and_then(Basic::read);
    let (user, password) = shown
        .as_ref()
        .map_or((&[][..], &[][..]), |b| (&*b.user, &*b.password));
    let Some(credentials) = credentials else {
        return Ok(Intent::of_any_name(user)?);
    };
    let (name, intent) = Intent::split(user);
    match credentials.matches(name, password) {
        true => Ok(intent?),
        false => Err(BadRequest::Unauthorized),
    }
}

/// Rejects bare CR and LF, control characters and folded lines (RFC 9112, sections 2.2 and 5.2, in
/// their strictest reading).
fn check_bytes(head: &[u8]) -> Result<(), BadRequest> {
    let mut before = 0;
    let mut bytes = head.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let next = bytes.peek().copied();
        let good = match byte {
            b'\r' => next == Some(b'\n'),
            b'\n' => before == b'\r' && !matches!(next, Some(b' ' | b'\t')),
            b'\t' => true,
            _ => byte >= 0x20 && byte != 0x7f,
        };
        if !good {
            return Err(BadRequest::BadBytes);
        }
        before = byte;
    }
    Ok(())
}

/// Splits `http://authority/path?query` (RFC 9112, section 3.2.2).
fn absolute_form(target: &str) -> Result<(&str, &str), BadRequest> {
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err(BadRequest::NotForAProxy);
    };
    if !scheme.eq_ignore_ascii_case("http") {
        // "/go?to=http://example.com" is a path, not a scheme.
        return Err(if scheme.contains('/') {
            BadRequest::NotForAProxy
        } else {
            BadRequest::Scheme
        });
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') || path.contains('#') {
        return Err(BadRequest::OddTarget);
    }
    Ok((authority, path))
}

/// Header fields that determine framing and authorization.
struct Fields<'h> {
    framing: Option<Framing>,
    authorization: Option<&'h [u8]>,
    /// Field names listed in Connection fields.
    named: Vec<&'h str>,
}

impl<'h> Fields<'h> {
    fn read(fields: &[httparse::Header<'h>], minor: u8) -> Result<Self, BadRequest> {
        let mut hosts = 0;
        let mut length = None;
        let mut chunked = false;
        let mut authorization = None;
        let mut named = Vec::new();
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("host") {
                hosts += 1;
            } else if is("content-length") {
                // A list is refused, even of equal numbers.
                if length.replace(parse_length(field.value)?).is_some() {
                    return Err(BadRequest::AmbiguousLength);
                }
            } else if is("transfer-encoding") {
                if chunked || minor == 0 {
                    return Err(BadRequest::AmbiguousLength);
                }
                if !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(BadRequest::TransferCoding);
                }
                chunked = true;
            } else if is("proxy-authorization") {
                if authorization.replace(field.value).is_some() {
                    return Err(BadRequest::Syntax);
                }
            } else if is("connection") {
                let value = std::str::from_utf8(field.value).map_err(|_| BadRequest::Syntax)?;
                named.extend(value.split(',').map(str::trim));
            }
        }
        if hosts > 1 || (hosts == 0 && minor > 0) {
            return Err(BadRequest::Host);
        }
        let needed = ["content-length", "transfer-encoding", "host"];
        if named
            .iter()
            .any(|n| needed.iter().any(|m| n.eq_ignore_ascii_case(m)))
        {
            return Err(BadRequest::Connection);
        }
        let framing = match (length, chunked) {
            (Some(_), true) => return Err(BadRequest::AmbiguousLength),
            (Some(length), false) => Some(Framing::Length(length)),
            (None, true) => Some(Framing::chunked()),
            (None, false) => None,
        };
        Ok(Self {
            framing,
            authorization,
            named,
        })
    }

    /// Fields not forwarded: hop-by-hop fields (RFC 9110, section 7.6.1), and Host, which the
    /// target overrides (RFC 9112, section 3.2.2).
    fn is_dropped(&self, name: &str) -> bool {
        let hop = ["connection", "keep-alive", "te", "upgrade", "host"];
        hop.iter()
            .chain(&self.named)
            .any(|n| name.eq_ignore_ascii_case(n))
            || name
                .get(..6)
                .is_some_and(|p| p.eq_ignore_ascii_case("proxy-"))
    }
}

fn parse_length(value: &[u8]) -> Result<u64, BadRequest> {
    let value = value.trim_ascii();
    // 18 digits cannot overflow.
    if value.is_empty() || value.len() > 18 {
        return Err(BadRequest::AmbiguousLength);
    }
    value.iter().try_fold(0u64, |n, &b| match b {
        b'0'..=b'9' => Ok(n * 10 + u64::from(b - b'0')),
        _ => Err(BadRequest::AmbiguousLength),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;
    use proptest::prelude::*;

    fn ask(head: &str) -> Result<Request, BadRequest> {
        parse(head.as_bytes(), None).map(|(request, _)| request)
    }

    fn forward(head: &str) -> (String, String, Framing) {
        match ask(head) {
            Ok(Request::Forward {
                destination,
                head,
                framing,
            }) => (
                destination.to_string(),
                String::from_utf8(head.to_vec()).unwrap(),
                framing,
            ),
            other => panic!("{head:?}: {other:?}"),
        }
    }

    #[test]
    fn connect() {
        for (target, want) in [
            ("example.com:443", "example.com:443"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("192.0.2.1:22", "192.0.2.1:22"),
        ] {
            let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            let Ok(Request::Connect(d)) = ask(&head) else {
                panic!("{head}");
            };
            assert_eq!(d.to_string(), want);
        }
        assert_eq!(
            ask("CONNECT example.com HTTP/1.1\r\nHost: a\r\n\r\n"),
            Err(BadRequest::Destination(BadDestination::BadPort))
        );
        assert_eq!(
            ask("CONNECT a.b:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"),
            Err(BadRequest::AmbiguousLength)
        );
    }

    #[test]
    fn rewriting() {
        let (to, head, framing) = forward(
            "GET HTTP://Example.com:8080/a?b=1 HTTP/1.1\r\nHost: other.example\r\n\
             Accept: */*\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop\r\n\
             x-hop: 1\r\nTE: trailers\r\nCookie: c=1\r\n\r\n",
        );
        assert_eq!(to, "example.com:8080");
        assert_eq!(
            head,
            "GET /a?b=1 HTTP/1.1\r\nHost: Example.com:8080\r\n\
             Accept: */*\r\nCookie: c=1\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(framing, Framing::Length(0));

        for (line, want) in [
            ("GET http://a.example HTTP/1.1", "GET / HTTP/1.1"),
            ("GET http://a.example?q HTTP/1.1", "GET /?q HTTP/1.1"),
            ("OPTIONS http://a.example HTTP/1.1", "OPTIONS * HTTP/1.1"),
            ("GET http://[::1]:8/ HTTP/1.0", "GET / HTTP/1.0"),
        ] {
            let (_, head, _) = forward(&format!("{line}\r\nHost: x\r\n\r\n"));
            assert_eq!(head.lines().next(), Some(want));
        }
    }

    #[test]
    fn bodies() {
        let post = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n";
        let (_, head, framing) = forward(&format!("{post}Content-Length: 42\r\n\r\n"));
        assert_eq!(framing, Framing::Length(42));
        assert!(head.contains("\r\nContent-Length: 42\r\n"));
        let (_, head, framing) = forward(&format!("{post}Transfer-Encoding: Chunked\r\n\r\n"));
        assert_eq!(framing, Framing::chunked());
        assert!(head.contains("\r\nTransfer-Encoding: Chunked\r\n"));
    }

    #[test]
    fn ambiguous_and_malformed_requests_are_refused() {
        use BadRequest::*;
        let get = "GET http://a.example/ HTTP/1.1\r\n";
        let host = "Host: a.example\r\n";
        for (head, want) in [
            (
                format!("{get}{host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Content-Length: 3, 3\r\n\r\n"),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Content-Length: +3\r\n\r\n"),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Content-Length: \r\n\r\n"),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Content-Length: 9999999999999999999\r\n\r\n"),
                AmbiguousLength,
            ),
            (
                format!(
                    "{get}{host}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
                ),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Transfer-Encoding: gzip, chunked\r\n\r\n"),
                TransferCoding,
            ),
            (
                format!("{get}{host}Transfer-Encoding: xchunked\r\n\r\n"),
                TransferCoding,
            ),
            (
                "GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                AmbiguousLength,
            ),
            (
                format!("{get}{host}Transfer-Encoding : chunked\r\n\r\n"),
                Syntax,
            ),
            (format!("{get}{host}X: a\nY: b\r\n\r\n"), BadBytes),
            (format!("{get}{host}X: a\rY: b\r\n\r\n"), BadBytes),
            (format!("{get}{host}X: a\r\n b\r\n\r\n"), BadBytes),
            (format!("{get}{host}X: a\0\r\n\r\n"), BadBytes),
            (format!("{get}{host}Host: b\r\n\r\n"), Host),
            (format!("{get}X: 1\r\n\r\n"), Host),
            (
                format!("{get}{host}Connection: Content-Length\r\n\r\n"),
                Connection,
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".into(), NotForAProxy),
            (
                "GET /?u=http://b.example/ HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                NotForAProxy,
            ),
            (
                "GET https://a.example/ HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                Scheme,
            ),
            (
                "GET http://u:p@a.example/ HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                OddTarget,
            ),
            (
                "GET http://a.example/#x HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                OddTarget,
            ),
            (
                "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                Destination(BadDestination::EmptyHost),
            ),
            (
                "GET http://a.example/ HTTP/2.0\r\nHost: a\r\n\r\n".into(),
                Syntax,
            ),
            (
                "GET  http://a.example/ HTTP/1.1\r\nHost: a\r\n\r\n".into(),
                Syntax,
            ),
            ("PRI * HTTP/2.0\r\n\r\n".into(), Syntax),
            (
                format!("{get}{host}{}\r\n", "A: b\r\n".repeat(200)),
                TooLarge,
            ),
            (
                format!("{get}{host}A: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES)),
                TooLarge,
            ),
        ] {
            assert_eq!(ask(&head), Err(want), "{head:?}");
        }
    }

    #[test]
    fn parameters_stand_behind_the_user_name_whether_or_not_one_is_required() {
        use base64::Engine as _;
        let c = Credentials::new("anna", "s3cret").unwrap();
        let ask = |user: &str, credentials| {
            let token = base64::engine::general_purpose::STANDARD.encode(user);
            let head = format!(
                "CONNECT a.b:1 HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic {token}\r\n\r\n"
            );
            parse(head.as_bytes(), credentials).map(|(_, intent)| intent.class)
        };
        for credentials in [None, Some(&c)] {
            assert_eq!(ask("anna:s3cret", credentials), Ok(None));
            let read = ask("anna,class=background:s3cret", credentials);
            assert_eq!(read, Ok(Some(Class::Background)));
            let refused = ask("anna,class=urgent:s3cret", credentials);
            assert_eq!(refused, Err(BadIntent::Class.into()));
        }
        let wrong = ask("ann,class=urgent:s3cret", Some(&c));
        assert_eq!(wrong, Err(BadRequest::Unauthorized));
        let answer = super::super::bad_request(&BadIntent::Class.into());
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(
            answer.ends_with("realtime, interactive, bulk, background\n"),
            "{answer}"
        );
        // Other schemes are no user names.
        let head = "CONNECT a.b:1 HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Bearer x\r\n\r\n";
        let (_, intent) = parse(head.as_bytes(), None).unwrap();
        assert_eq!(intent, Intent::default());
    }

    #[test]
    fn credentials_are_required_and_not_forwarded() {
        let c = Credentials::new("anna", "s3cret").unwrap();
        let head = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n";
        let refused = parse(format!("{head}\r\n").as_bytes(), Some(&c));
        assert_eq!(refused, Err(BadRequest::Unauthorized));
        let shown = format!("{head}Proxy-Authorization: Basic YW5uYTpzM2NyZXQ=\r\n\r\n");
        let Ok((Request::Forward { head, .. }, _)) = parse(shown.as_bytes(), Some(&c)) else {
            panic!("refused");
        };
        assert!(!head.to_ascii_lowercase().windows(6).any(|w| w == b"proxy-"));
    }

    #[test]
    fn the_end_of_a_head_is_found_across_reads() {
        let head = b"GET / HTTP/1.1\r\n\r\nrest";
        for cut in 0..18 {
            assert_eq!(find_head_end(&head[..cut], 0), None);
            assert_eq!(find_head_end(head, cut), Some(18), "cut at {cut}");
        }
    }

    proptest! {
        /// Every forwarded head is a single head with one Host and at most one length, which a
        /// conforming parser reads as this one did.
        #[test]
        fn forwarded_heads_are_unambiguous(
            fields in proptest::collection::vec(
                (
                    "(Host|Content-Length|Transfer-Encoding|Connection|X|Proxy-X|TE)",
                    "[ -~]{0,12}|[0-9]{1,3}|chunked|a.example",
                ),
                0..6,
            ),
            target in "(http://)?[a-z.@/?#:0-9\\[\\]]{0,24}",
        ) {
            let mut head = format!("POST {target} HTTP/1.1\r\n");
            for (name, value) in &fields {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            if let Ok(Request::Forward { head, framing, .. }) = ask(&head) {
                let text = String::from_utf8(head.to_vec()).unwrap().to_ascii_lowercase();
                prop_assert_eq!(find_head_end(text.as_bytes(), 0), Some(text.len()));
                prop_assert_eq!(text.matches("\r\nhost:").count(), 1);
                prop_assert_eq!(text.matches("\r\nconnection:").count(), 1);
                let lengths = text.matches("\r\ncontent-length:").count();
                let codings = text.matches("\r\ntransfer-encoding:").count();
                let want = match framing {
                    Framing::Chunked(_) => (0, 1),
                    Framing::Length(0) => (lengths.min(1), 0),
                    Framing::Length(_) => (1, 0),
                };
                prop_assert_eq!((lengths, codings), want);
            }
        }
    }
}
