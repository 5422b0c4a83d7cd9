//! The HTTP server of the page, on loopback addresses only.

mod answers;
mod bundle;
mod changes;
mod files;
mod guard;
mod hub;
mod lines;
mod patience;

pub(crate) use guard::Token;
pub(crate) use hub::Hub;

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use answers::{Body, plain, unauthorized, with_type};
use bundle::Bundles;
use lines::Lines;
use patience::Patience;

/// Maximum number of connections; further ones wait.
const MAX_CONNECTIONS: usize = 64;

/// Time for the head of a request, waiting for it included.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Time within which a client reads what waits for it: one that does not loses its connection.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Maximum size of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Attempts to find a port that is free for both address families.
const ATTEMPTS: usize = 16;

/// Path of the stream of data.
const STREAM: &str = "/stream";

/// Path of diagnostic bundles.
const BUNDLE: &str = "/diagnostics";

/// Sockets of the server: one for IPv4, and one for IPv6 where this machine has it.
#[derive(Debug)]
pub(crate) struct Sockets {
    port: u16,
    listeners: Vec<TcpListener>,
}

impl Sockets {
    /// Listens at 127.0.0.1 and ::1; port 0 is any that is free.
    ///
    /// # Errors
    /// The port is not free.
    pub fn bind(port: u16) -> io::Result<Self> {
        let mut attempts = if port == 0 { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match Self::bind_once(port) {
                Err(e) if e.kind() == ErrorKind::AddrInUse && attempts > 0 => {}
                result => return result,
            }
        }
    }

    fn bind_once(port: u16) -> io::Result<Self> {
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = four.local_addr()?.port();
        let mut listeners = vec![four];
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(six) => listeners.push(six),
            Err(e) if e.kind() == ErrorKind::AddrInUse => return Err(e),
            // There is no IPv6 here.
            Err(_) => {}
        }
        Ok(Self { port, listeners })
    }

    /// The port, the same for both.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers requests; for ever.
    ///
    /// # Errors
    /// The sockets cannot be used.
    pub async fn serve(self, hub: Arc<Hub>, token: Token) -> io::Result<Infallible> {
        let site = Arc::new(Site {
            port: self.port,
            hub,
            token,
            bundles: Bundles::new(),
        });
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut accepting = tokio::task::JoinSet::new();
        for listener in self.listeners {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (site, room) = (Arc::clone(&site), Arc::clone(&room));
            accepting.spawn(async move {
                loop {
                    let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                        return;
                    };
                    match listener.accept().await {
                        Ok((stream, from)) => {
                            let site = Arc::clone(&site);
                            tokio::spawn(async move {
                                site.connection(stream, from).await;
                                drop(place);
                            });
                        }
                        // No descriptors are left, or the client has gone.
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
            });
        }
        accepting.join_next().await;
        Err(io::Error::other("the server has ended"))
    }
}

/// What requests are answered with.
#[derive(Debug)]
struct Site {
    port: u16,
    hub: Arc<Hub>,
    token: Token,
    bundles: Bundles,
}

impl Site {
    async fn connection(&self, stream: TcpStream, from: SocketAddr) {
        // The listening addresses let no other in.
        if !from.ip().is_loopback() {
            return;
        }
        let _ = stream.set_nodelay(true);
        let answer = |request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.answer(request).await)
        };
        let stream = Patience::new(stream, READ_WITHIN);
        // An error concerns this client alone. With one answer for each connection nobody keeps a
        // place by asking on.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .keep_alive(false)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method(), request.uri().path());
        let passes_on = !self.hub.is_read_only();
        let is_change = passes_on && changes::are_asked(method, path);
        let methods = changes::methods(path).filter(|_| passes_on);
        let mut answer = match guard::check(method, request.headers(), self.port, is_change) {
            Err((status, why)) => plain(status, why),
            Ok(()) if is_change && self.token.is_in(request.headers()) => {
                let (head, body) = request.into_parts();
                changes::pass(&self.hub, &head.method, &head.uri, body).await
            }
            Ok(()) if is_change => unauthorized(),
            Ok(()) if passes_on && path == BUNDLE => match self.token.is_in(request.headers()) {
                true => self.bundles.make(&self.hub).await,
                false => unauthorized(),
            },
            Ok(()) => self.content(&request),
        };
        files::add_headers(answer.headers_mut(), methods.unwrap_or("GET"));
        answer
    }

    fn content(&self, request: &Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if path == STREAM {
            if !self.token.is_in(request.headers()) {
                return unauthorized();
            }
            return match self.hub.listen() {
                Some(lines) => with_type("application/x-ndjson", Lines::new(lines).boxed()),
                None => plain(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n"),
            };
        }
        match files::find(path) {
            Some((kind, text)) => with_type(kind, Full::from(text).boxed()),
            None => plain(StatusCode::NOT_FOUND, "there is no such page\n"),
        }
    }
}
