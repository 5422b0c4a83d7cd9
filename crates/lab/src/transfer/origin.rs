//! The origin server: real HTTP/1.1, knowing nothing of mpbond.
//!
//! * `GET /bytes/N`: N bytes of [`Content`], or a byte range of them; `GET
//!   /sha256/N`: their digest.
//! * `GET /stream/RATE/MS/BYTES`: messages of so many bytes at RATE bit/s for
//!   so many milliseconds, each beginning with the time at which it was due; with `/written`
//!   behind it, the time at which it is written.
//! * `PUT /upload` (or POST): swallows the body and answers
//!   `{"bytes": N, "sha256": "..."}`.
//!
//! It speaks Multipath TCP where the kernel does; a client that does not gets
//! plain TCP.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future as _;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT_RANGES, ALLOW, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RANGE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mpbond_units::BitRate;
use sha2::{Digest, Sha256};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::{Doing, Error, Result};
use crate::network::host::Host;
use crate::transfer::content::{Content, hex};
use crate::transfer::stamp::{STAMP_BYTES, stamp};

/// Port of the origin, that of HTTP.
pub(crate) const ORIGIN_PORT: u16 = 80;
/// Bytes handed to the socket at once: few enough to stay in the processor's cache, and to be
/// allocated without requesting pages from the kernel.
const PIECE_BYTES: u64 = 64 << 10;
/// Maximum size of a response.
const MAX_BYTES: u64 = 1 << 40;

/// Counter of uploaded bytes, for progress displays.
#[derive(Clone, Default)]
pub struct Received(Arc<AtomicU64>);

impl Received {
    /// Bytes of all uploads so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The listening socket, for settings that connections inherit.
pub(crate) struct Listening(TcpListener);

impl Listening {
    /// Sets the congestion control of incoming connections. Plain TCP uses that of its route;
    /// joined subflows of Multipath TCP use this one.
    ///
    /// # Errors
    /// When the kernel has no such algorithm.
    pub fn set_congestion(&self, algorithm: &str) -> Result<()> {
        SockRef::from(&self.0)
            .set_tcp_congestion(algorithm.as_bytes())
            .doing(format_args!("the origin cannot use {algorithm}"))
    }
}

/// Serves in the foreground until the process ends.
///
/// # Errors
/// When `listen` cannot be bound.
pub fn origin(listen: SocketAddr, seed: u64) -> Result<()> {
    let listener = bind(listen).doing(format_args!("cannot listen on {listen}"))?;
    serve(listener, Content::new(seed), Received::default())
}

/// Starts an origin on a thread inside `host`; it lives as long as the process.
pub(crate) fn start(
    host: &Host,
    listen: SocketAddr,
    content: Content,
) -> Result<(Received, Listening)> {
    let listener = host
        .enter(|| bind(listen))?
        .doing(format_args!("cannot listen on {listen}"))?;
    let listening = Listening(listener.try_clone().doing("cannot copy a socket")?);
    let received = Received::default();
    let counter = received.clone();
    std::thread::Builder::new()
        .name("origin".into())
        .spawn(move || {
            if let Err(e) = serve(listener, content, counter) {
                eprintln!("origin: {e}");
            }
        })
        .doing("cannot start the origin")?;
    Ok((received, listening))
}

/// Listens for Multipath TCP, or for TCP alone on a kernel without it.
fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    const BACKLOG: i32 = 1024;
    let domain = Domain::for_address(listen);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP))
        .or_else(|_| Socket::new(domain, Type::STREAM, Some(Protocol::TCP)))?;
    socket.set_reuse_address(true)?;
    socket.bind(&listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn serve(listener: TcpListener, content: Content, received: Received) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing("cannot start the origin")?;
    runtime.block_on(async {
        listener.set_nonblocking(true).doing("origin")?;
        let listener = tokio::net::TcpListener::from_std(listener).doing("origin")?;
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(e) if is_about_one_connection(&e) => continue,
                Err(e) => return Err(Error::run(format!("cannot accept: {e}"))),
            };
            let _ = stream.set_nodelay(true);
            let (content, received) = (content.clone(), received.clone());
            tokio::spawn(async move {
                let answer =
                    service_fn(move |request| answer(request, content.clone(), received.clone()));
                // A client that disconnects is no error.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    })
}

fn is_about_one_connection(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(e.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

async fn answer(
    request: Request<Incoming>,
    content: Content,
    received: Received,
) -> Result<Response<Reply>, Infallible> {
    let path = request.uri().path().to_owned();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    Ok(
        match (is_read, path.split('/').collect::<Vec<_>>().as_slice()) {
            (true, ["", "bytes", length]) => match read_length(length) {
                Some(length) => file(content, length, request.headers().get(RANGE)),
                None => status(StatusCode::BAD_REQUEST, "write /bytes/N\n"),
            },
            (true, ["", "sha256", length]) => match read_length(length) {
                Some(length) => with_type(
                    Reply::text(format!("{}\n", content.sha256(length))),
                    "text/plain",
                ),
                None => status(StatusCode::BAD_REQUEST, "write /sha256/N\n"),
            },
            (true, ["", "stream", rate, ms, bytes, stamp @ ..])
                if matches!(stamp, [] | ["written"]) =>
            {
                match read_stream(rate, ms, bytes) {
                    Some(stream) => {
                        let body = Reply::due(stream, !stamp.is_empty());
                        with_type(body, "application/octet-stream")
                    }
                    None => status(StatusCode::BAD_REQUEST, "write /stream/RATE/MS/BYTES\n"),
                }
            }
            (false, ["", "upload"]) => match swallow(request.into_body(), &received).await {
                Ok((bytes, sha256)) => {
                    let text = serde_json::json!({"bytes": bytes, "sha256": sha256}).to_string();
                    with_type(Reply::text(text + "\n"), "application/json")
                }
                Err(_) => status(StatusCode::BAD_REQUEST, "the body broke off\n"),
            },
            (true, ["", "upload"]) => {
                let mut refusal = status(StatusCode::METHOD_NOT_ALLOWED, "PUT to /upload\n");
                let methods = HeaderValue::from_static("PUT, POST");
                refusal.headers_mut().insert(ALLOW, methods);
                refusal
            }
            _ => status(
                StatusCode::NOT_FOUND,
                "known paths: /bytes/N, /sha256/N, /stream/RATE/MS/BYTES, /upload\n",
            ),
        },
    )
}

fn read_length(text: &str) -> Option<u64> {
    text.parse().ok().filter(|length| *length <= MAX_BYTES)
}

/// Messages that are due at a steady pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    messages: u64,
    bytes: usize,
    every: Duration,
}

fn read_stream(rate: &str, ms: &str, bytes: &str) -> Option<Due> {
    let (rate, ms): (u64, u64) = (rate.parse().ok()?, ms.parse().ok()?);
    let bytes: usize = bytes.parse().ok()?;
    if rate == 0 || !(STAMP_BYTES..=1 << 20).contains(&bytes) {
        return None;
    }
    let every = BitRate::from_bps(rate).time_for(bytes as u64);
    let all = u128::from(ms) * 1_000_000 / every.as_nanos().max(1);
    let messages = u64::try_from(all).ok()?.max(1);
    let total = messages.checked_mul(bytes as u64)?;
    (total <= MAX_BYTES).then_some(Due {
        messages,
        bytes,
        every,
    })
}

/// The first `length` bytes of `content`, or the range of them that was asked
/// for (RFC 9110, section 14).
fn file(content: Content, length: u64, range: Option<&HeaderValue>) -> Response<Reply> {
    const KIND: &str = "application/octet-stream";
    let asked = range.and_then(|value| value.to_str().ok());
    let (range, code, place) = match asked.map_or(Asked::Whole, |text| read_range(text, length)) {
        Asked::Whole => (0..length, StatusCode::OK, None),
        Asked::Part(range) => {
            let place = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            (range, StatusCode::PARTIAL_CONTENT, Some(place))
        }
        Asked::Beyond => {
            let place = format!("bytes */{length}");
            (0..0, StatusCode::RANGE_NOT_SATISFIABLE, Some(place))
        }
    };
    let mut response = with_type(Reply::stream(content, range), KIND);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let place = place.and_then(|text| HeaderValue::from_str(&text).ok());
    headers.extend(place.map(|place| (CONTENT_RANGE, place)));
    response
}

/// What a Range field asks of a file.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// All of it; also what fields that are not understood ask for.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// None that it has.
    Beyond,
}

fn read_range(text: &str, length: u64) -> Asked {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // A number beyond 64 bits is beyond every file, too.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let range = match text
        .strip_prefix("bytes=")
        .and_then(|range| range.trim().split_once('-'))
    {
        Some(("", last)) if digits(last) => length.saturating_sub(number(last))..length,
        Some((first, "")) if digits(first) => number(first)..length,
        Some((first, last)) if digits(first) && digits(last) => {
            let (first, last) = (number(first), number(last));
            if last < first {
                return Asked::Whole;
            }
            first..last.saturating_add(1).min(length)
        }
        _ => return Asked::Whole,
    };
    if range.is_empty() {
        return Asked::Beyond;
    }
    Asked::Part(range)
}

async fn swallow(mut body: Incoming, received: &Received) -> Result<(u64, String), hyper::Error> {
    let mut digest = Sha256::new();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            digest.update(data);
            bytes += data.len() as u64;
            received.0.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
    }
    Ok((bytes, hex(&digest.finalize())))
}

fn with_type(body: Reply, kind: &'static str) -> Response<Reply> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn status(code: StatusCode, text: &str) -> Response<Reply> {
    let mut response = with_type(Reply::text(text.to_owned()), "text/plain");
    *response.status_mut() = code;
    response
}

/// A response body: some ready text, then pieces of content as they are taken.
struct Reply {
    ready: VecDeque<Bytes>,
    content: Option<Content>,
    due: Option<Clocked>,
    next: u64,
    end: u64,
}

/// Messages on their way, by the clock.
struct Clocked {
    due: Due,
    /// When the next one is, by the runtime's clock and as its stamp.
    at: tokio::time::Instant,
    stamp: u64,
    /// Whether stamps are those of writing.
    when_written: bool,
    alarm: Pin<Box<tokio::time::Sleep>>,
}

impl Clocked {
    /// The next message, when it is due. One that is late has its due time, so that waiting here
    /// counts into its delay, unless stamps are those of writing.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        std::task::ready!(self.alarm.as_mut().poll(cx));
        let mut message = vec![0; self.due.bytes];
        let stamped = match self.when_written {
            true => stamp(),
            false => self.stamp,
        };
        for (to, from) in message.iter_mut().zip(stamped.to_be_bytes()) {
            *to = from;
        }
        self.at += self.due.every;
        self.stamp += u64::try_from(self.due.every.as_nanos()).unwrap_or(0);
        self.alarm.as_mut().reset(self.at);
        Poll::Ready(message)
    }
}

impl Reply {
    fn text(text: String) -> Self {
        Self {
            ready: VecDeque::from([Bytes::from(text)]),
            content: None,
            due: None,
            next: 0,
            end: 0,
        }
    }

    fn stream(content: Content, range: Range<u64>) -> Self {
        Self {
            ready: VecDeque::new(),
            content: Some(content),
            due: None,
            next: range.start,
            end: range.end,
        }
    }

    fn due(due: Due, when_written: bool) -> Self {
        let at = tokio::time::Instant::now();
        Self {
            ready: VecDeque::new(),
            content: None,
            due: Some(Clocked {
                due,
                at,
                stamp: stamp(),
                when_written,
                alarm: Box::pin(tokio::time::sleep_until(at)),
            }),
            next: 0,
            end: due.messages * due.bytes as u64,
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(bytes) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let left = self.end - self.next;
        let reply = &mut *self;
        let piece = match (&reply.content, &mut reply.due) {
            (Some(content), _) if left > 0 => content.piece(reply.next, left.min(PIECE_BYTES)),
            (None, Some(due)) if left > 0 => std::task::ready!(due.poll(cx)),
            _ => return Poll::Ready(None),
        };
        self.next += piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.next == self.end
    }

    fn size_hint(&self) -> SizeHint {
        let ready = self.ready.iter().map(|b| b.len() as u64).sum::<u64>();
        SizeHint::with_exact(ready + self.end - self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded() {
        let read = |text: &str| {
            let words: Vec<&str> = text.split('/').collect();
            read_stream(words[0], words[1], words[2])
        };
        let ten = Due {
            messages: 10,
            bytes: 1250,
            every: Duration::from_millis(10),
        };
        assert_eq!(read("1000000/100/1250"), Some(ten));
        for wrong in [
            "0/100/1250",
            "1/1/7",
            "1/1/2000000",
            "x/1/100",
            "9999999999999/999999999999/100",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        for (text, want) in [
            ("bytes=0-0", Asked::Part(0..1)),
            ("bytes=10-19", Asked::Part(10..20)),
            ("bytes=90-", Asked::Part(90..100)),
            ("bytes=90-1000", Asked::Part(90..100)),
            ("bytes=-30", Asked::Part(70..100)),
            ("bytes=-300", Asked::Part(0..100)),
            ("bytes=99-99999999999999999999", Asked::Part(99..100)),
            ("bytes=100-", Asked::Beyond),
            ("bytes=100-200", Asked::Beyond),
            ("bytes=-0", Asked::Beyond),
            ("bytes=99999999999999999999-", Asked::Beyond),
            ("bytes=5-4", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=+1-2", Asked::Whole),
            ("bytes=0-1,5-6", Asked::Whole),
            ("lines=0-1", Asked::Whole),
        ] {
            assert_eq!(read_range(text, 100), want, "{text}");
        }
        assert_eq!(read_range("bytes=0-", 0), Asked::Beyond);
    }

    #[test]
    fn a_part_has_its_place_and_its_bytes() {
        let content = Content::new(3);
        let part = |range: &'static str| {
            let field = HeaderValue::from_static(range);
            file(content.clone(), 200_000, Some(&field))
        };
        let place = |r: &Response<Reply>| r.headers()[CONTENT_RANGE].to_str().unwrap().to_owned();
        let mut response = part("bytes=70000-70009");
        assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(place(&response), "bytes 70000-70009/200000");
        assert_eq!(response.body().size_hint().exact(), Some(10));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let body = Pin::new(response.body_mut()).poll_frame(&mut context);
        let Poll::Ready(Some(Ok(frame))) = body else {
            panic!("no body");
        };
        let whole: Vec<u8> = content.pieces(200_000).flatten().collect();
        assert_eq!(frame.into_data().unwrap(), whole[70_000..70_010]);

        let response = part("bytes=200000-");
        assert_eq!(response.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(place(&response), "bytes */200000");
        assert_eq!(response.body().size_hint().exact(), Some(0));
    }
}
