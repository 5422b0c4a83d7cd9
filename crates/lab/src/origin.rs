//! The origin server: real HTTP/1.1, knowing nothing of mpbond.
//!
//! * `GET /bytes/N`: N bytes of [`Content`]; `GET /sha256/N`: their digest.
//! * `PUT /upload` (or POST): swallows the body and answers
//!   `{"bytes": N, "sha256": "..."}`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};

use crate::content::{Content, hex};
use crate::error::{Doing, Error, Result};
use crate::host::Host;

/// Handed to the socket at once: small enough to stay in the processor's cache
/// and to be allocated without asking the kernel for pages.
const PIECE_BYTES: u64 = 64 << 10;
/// No request names more than this: 1 TiB.
const MAX_BYTES: u64 = 1 << 40;

/// What the origin has received, for progress displays.
#[derive(Clone, Default)]
pub struct Received(Arc<AtomicU64>);

impl Received {
    /// Body bytes of all uploads so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves in the foreground until the process ends.
///
/// # Errors
/// When `listen` cannot be bound.
pub fn origin(listen: SocketAddr, seed: u64) -> Result<()> {
    let listener = TcpListener::bind(listen).doing(format_args!("cannot listen on {listen}"))?;
    serve(listener, Content::new(seed), Received::default())
}

/// Starts an origin on a thread inside `host`; it lives as long as the process.
pub(crate) fn start(host: &Host, listen: SocketAddr, content: Content) -> Result<Received> {
    let listener = host
        .enter(|| TcpListener::bind(listen))?
        .doing(format_args!("cannot listen on {listen}"))?;
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
    Ok(received)
}

fn serve(listener: TcpListener, content: Content, received: Received) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
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
                // A client that goes away is its own business.
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
                Some(length) => {
                    with_type(Reply::stream(content, length), "application/octet-stream")
                }
                None => status(StatusCode::BAD_REQUEST, "write /bytes/N\n"),
            },
            (true, ["", "sha256", length]) => match read_length(length) {
                Some(length) => with_type(
                    Reply::text(format!("{}\n", content.sha256(length))),
                    "text/plain",
                ),
                None => status(StatusCode::BAD_REQUEST, "write /sha256/N\n"),
            },
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
                "here are /bytes/N, /sha256/N and /upload\n",
            ),
        },
    )
}

fn read_length(text: &str) -> Option<u64> {
    text.parse().ok().filter(|length| *length <= MAX_BYTES)
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
    next: u64,
    end: u64,
}

impl Reply {
    fn text(text: String) -> Self {
        Self {
            ready: VecDeque::from([Bytes::from(text)]),
            content: None,
            next: 0,
            end: 0,
        }
    }

    fn stream(content: Content, length: u64) -> Self {
        Self {
            ready: VecDeque::new(),
            content: Some(content),
            next: 0,
            end: length,
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(bytes) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let left = self.end - self.next;
        let piece = match &self.content {
            Some(content) if left > 0 => content.piece(self.next, left.min(PIECE_BYTES)),
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
