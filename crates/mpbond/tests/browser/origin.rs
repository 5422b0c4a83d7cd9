//! The web server that the page is loaded from, and what it has seen of the page.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, RANGE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::PublicKeyData;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;

use crate::{video, websocket};

/// Octets of an object, and of the video, that are sent at once, and how often: 1.2 MB/s for 60
/// objects, 6.4 MB/s for the video.
const OBJECT_PIECE: usize = 2_000;
const OBJECT_PAUSE: Duration = Duration::from_millis(100);
const VIDEO_PIECE: usize = 64_000;
const VIDEO_PAUSE: Duration = Duration::from_millis(10);

/// The page's results, when everything has ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Report {
    /// Octets of each object.
    pub objects: Vec<usize>,
    /// Messages sent, and their echoes.
    pub sent: u64,
    pub echoed: u64,
    /// Places in the video that were found and shown.
    pub seeks: u64,
    /// Hosts that were visited.
    pub visits: u64,
}

/// The state of the page, as the server knows it.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Messages over the WebSocket.
    pub messages: u64,
    /// Places in the video that were found, and requests for parts of it.
    pub seeks: u64,
    pub ranges: u64,
    /// Hosts that were visited.
    pub visits: u64,
    /// Octets that have arrived of the object of which the fewest have.
    pub least: u64,
    /// Anything that went wrong.
    pub faults: Vec<String>,
    /// Addresses of clients.
    pub clients: BTreeSet<IpAddr>,
    pub report: Option<Report>,
    /// Octets sent of each object that has ended.
    pub objects: Vec<Option<usize>>,
    /// Whether the objects end.
    over: bool,
}

/// The server at [`HTTPS`](Self::HTTPS) with HTTP/2, and at [`PLAIN`](Self::PLAIN) without.
#[derive(Clone)]
pub struct Origin {
    progress: Arc<Mutex<Progress>>,
    video: Bytes,
}

impl Origin {
    pub const OBJECTS: usize = 60;
    const HTTPS: u16 = 443;
    /// Over HTTP/1.1 alone, with a connection for each request.
    const PLAIN: u16 = 8443;

    /// Starts it; returns it with the hash of its public key, base64.
    pub fn start() -> (Self, String) {
        let names = vec!["one.test".to_owned(), "*.one.test".to_owned()];
        let key = rcgen::generate_simple_self_signed(names).unwrap();
        let public = digest(&SHA256, &key.signing_key.subject_public_key_info());
        let progress = Progress {
            objects: vec![None; Self::OBJECTS],
            ..Progress::default()
        };
        let origin = Self {
            progress: Arc::new(Mutex::new(progress)),
            video: video::file().into(),
        };
        let alpn = [
            (Self::HTTPS, &["h2", "http/1.1"][..]),
            (Self::PLAIN, &["http/1.1"]),
        ];
        let servers = alpn.map(|(port, protocols)| {
            let certificate = key.cert.der().clone();
            let private = key.signing_key.serialize_der();
            let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
                rustls::crypto::ring::default_provider(),
            ))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], private.try_into().unwrap())
            .unwrap();
            config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
            let listener = std::net::TcpListener::bind(("::", port)).unwrap();
            listener.set_nonblocking(true).unwrap();
            (listener, TlsAcceptor::from(Arc::new(config)))
        });
        let server = origin.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let [main, plain] = servers.map(|(listener, acceptor)| {
                    let listener = TcpListener::from_std(listener).unwrap();
                    server.clone().accept(listener, acceptor)
                });
                tokio::join!(main, plain);
            });
        });
        (origin, BASE64_STANDARD.encode(public))
    }

    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap().clone()
    }

    /// Ends the objects, and with them the page's work.
    pub fn end(&self) {
        self.note(|p| p.over = true);
    }

    fn note<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        change(&mut self.progress.lock().unwrap())
    }

    fn fault(&self, text: String) {
        self.note(|p| p.faults.push(text));
    }

    async fn accept(self, listener: TcpListener, acceptor: TlsAcceptor) {
        loop {
            let (tcp, from): (_, SocketAddr) = listener.accept().await.unwrap();
            self.note(|p| p.clients.insert(from.ip().to_canonical()));
            let (origin, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(async move {
                // A browser also opens connections that it does not use.
                let Ok(tls) = acceptor.accept(tcp).await else {
                    return;
                };
                let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
                let service = service_fn(move |request| origin.clone().serve(request));
                let io = TokioIo::new(tls);
                let _ = if is_h2 {
                    http2::Builder::new(TokioExecutor::new())
                        .serve_connection(io, service)
                        .await
                } else {
                    http1::Builder::new()
                        .serve_connection(io, service)
                        .with_upgrades()
                        .await
                };
            });
        }
    }

    async fn serve(self, request: Request<Incoming>) -> hyper::Result<Response<Pieces>> {
        let path = request.uri().path().to_owned();
        let response = match path.as_str() {
            "/" => response(
                StatusCode::OK,
                Pieces::one(include_str!("page.html")),
                &[(CONTENT_TYPE, "text/html; charset=utf-8".to_owned())],
            ),
            "/video.webm" => self.part(&request),
            "/socket" => self.socket(request),
            "/visit" => response(
                StatusCode::OK,
                Pieces::one("hello"),
                &[
                    (ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned()),
                    (CONNECTION, "close".to_owned()),
                ],
            ),
            "/report" => {
                let body = request.collect().await?.to_bytes();
                match serde_json::from_slice(&body) {
                    Ok(report) => self.note(|p| p.report = Some(report)),
                    Err(e) => self.fault(format!("report: {e}")),
                }
                response(StatusCode::OK, Pieces::one("thanks"), &[])
            }
            "/fault" => {
                let body = request.collect().await?.to_bytes();
                self.fault(String::from_utf8_lossy(&body).into_owned());
                response(StatusCode::OK, Pieces::one("thanks"), &[])
            }
            _ => match path.strip_prefix("/object/").map(str::parse) {
                Some(Ok(number)) if number < Self::OBJECTS => {
                    if request.version() != Version::HTTP_2 {
                        self.fault(format!("{path} over {:?}", request.version()));
                    }
                    response(StatusCode::OK, self.object(number), &[])
                }
                _ => response(StatusCode::NOT_FOUND, Pieces::one("nothing here"), &[]),
            },
        };
        Ok(response)
    }

    /// An object, which ends when all do.
    fn object(self, number: usize) -> Pieces {
        let (sender, pieces) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut at = 0;
            while !self.note(|p| p.over) {
                let octets = at..at + OBJECT_PIECE;
                let piece: Bytes = octets.map(|i| (i ^ (i >> 8) ^ number) as u8).collect();
                at += piece.len();
                if sender.send(piece).await.is_err() {
                    return self.fault(format!("object {number} is broken off"));
                }
                tokio::time::sleep(OBJECT_PAUSE).await;
            }
            self.note(|p| p.objects[number] = Some(at));
        });
        Pieces(pieces)
    }

    /// The part of the video that the request names (RFC 9110, section 14).
    fn part(self, request: &Request<Incoming>) -> Response<Pieces> {
        let range = request.headers().get(RANGE).map(|v| v.to_str().unwrap());
        let Some((first, last)) = range.and_then(|r| r.strip_prefix("bytes=")?.split_once('-'))
        else {
            self.fault(format!("the video is asked for with the range {range:?}"));
            return response(StatusCode::OK, Pieces::one(""), &[]);
        };
        let first: usize = first.parse().unwrap();
        let end = last
            .parse()
            .map_or(self.video.len(), |last: usize| last + 1);
        let length = self.video.len();
        self.note(|p| p.ranges += 1);
        let (sender, pieces) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut rest = self.video.slice(first..end);
            while !rest.is_empty() {
                let piece = rest.split_to(rest.len().min(VIDEO_PIECE));
                // Browsers break off when they have enough.
                if sender.send(piece).await.is_err() {
                    return;
                }
                tokio::time::sleep(VIDEO_PAUSE).await;
            }
        });
        response(
            StatusCode::PARTIAL_CONTENT,
            Pieces(pieces),
            &[
                (CONTENT_TYPE, "video/webm".to_owned()),
                (ACCEPT_RANGES, "bytes".to_owned()),
                (CONTENT_LENGTH, (end - first).to_string()),
                (CONTENT_RANGE, format!("bytes {first}-{}/{length}", end - 1)),
            ],
        )
    }

    /// A WebSocket whose messages have numbers.
    fn socket(self, mut request: Request<Incoming>) -> Response<Pieces> {
        let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
            return response(StatusCode::BAD_REQUEST, Pieces::one("no key"), &[]);
        };
        let accept = websocket::accept(key.to_str().unwrap());
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let io = TokioIo::new(upgrade.await.unwrap());
            let ended = websocket::serve(io, |text| self.message(text)).await;
            if let Err(e) = ended {
                self.fault(format!("the WebSocket breaks: {e}"));
            }
        });
        response(
            StatusCode::SWITCHING_PROTOCOLS,
            Pieces::one(""),
            &[
                (CONNECTION, "Upgrade".to_owned()),
                (UPGRADE, "websocket".to_owned()),
                (SEC_WEBSOCKET_ACCEPT, accept),
            ],
        )
    }

    /// The echo of a message, its number; the other figures tell the page's progress.
    fn message(&self, text: &str) -> String {
        let figures: Vec<u64> = text.split(' ').map(|f| f.parse().unwrap()).collect();
        let [number, seeks, visits, least] = figures[..] else {
            panic!("{text}");
        };
        self.note(|p| {
            if number != p.messages {
                let expected = p.messages;
                p.faults
                    .push(format!("message {number} instead of {expected}"));
            }
            p.messages += 1;
            (p.seeks, p.visits, p.least) = (seeks, visits, least);
        });
        number.to_string()
    }
}

fn response(
    status: StatusCode,
    body: Pieces,
    headers: &[(hyper::header::HeaderName, String)],
) -> Response<Pieces> {
    let mut response = Response::builder()
        .status(status)
        .header("cache-control", "no-store");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).unwrap()
}

/// A body that comes in pieces.
struct Pieces(mpsc::Receiver<Bytes>);

impl Pieces {
    fn one(text: &'static str) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        sender
            .try_send(Bytes::from_static(text.as_bytes()))
            .unwrap();
        Self(pieces)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|octets| Ok(Frame::data(octets))))
    }
}
