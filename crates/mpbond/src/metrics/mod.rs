//! Prometheus metrics, made from the daemon's [`Status`] at each scrape (text format 0.0.4).
//! Every metric is described in `docs/metrics.md`.

mod host;
mod page;

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::warn;

use crate::http::{self, Answer, Answering};
use crate::status::Status;

pub use page::text;

/// Maximum number of scrapers at a time; more wait in the kernel's queue.
const MAX_SCRAPERS: usize = 16;

/// Serves `GET /metrics` at `address`, if there is one, while the current `LocalSet` runs. The
/// address is bound at once; a failure is logged and has no other effect.
pub async fn start<F: Future<Output = Status> + 'static>(
    address: Option<SocketAddr>,
    status: impl Fn() -> F + 'static,
) {
    if let Some(listener) = listen(address).await {
        crate::task::spawn_local(serve(listener, status));
    }
}

/// Binds the address of the metrics, if there is one. A failure is logged.
pub async fn listen(address: Option<SocketAddr>) -> Option<TcpListener> {
    let address = address?;
    let listener = TcpListener::bind(address).await;
    listener
        .inspect_err(|e| warn!(%address, error = %e, "no metrics"))
        .ok()
}

/// Serves `GET /metrics`. To be run in a `LocalSet`.
pub async fn serve<F: Future<Output = Status> + 'static>(
    listener: TcpListener,
    status: impl Fn() -> F + 'static,
) {
    let status = Rc::new(status);
    let is_local = listener
        .local_addr()
        .is_ok_and(|address| address.ip().is_loopback());
    let room = Arc::new(Semaphore::new(MAX_SCRAPERS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(e) => {
                warn!(error = %e, "metrics");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let status = Rc::clone(&status);
        crate::task::spawn_local(async move {
            let _permit = permit;
            http::serve(stream, move |request| -> Answering {
                let status = Rc::clone(&status);
                Box::pin(async move { answer(&request, is_local, &*status).await })
            })
            .await;
        });
    }
}

async fn answer<F: Future<Output = Status>>(
    request: &Request<Incoming>,
    is_local: bool,
    status: &impl Fn() -> F,
) -> Response<Answer> {
    let (code, text) = match request.uri().path() {
        _ if is_local && !host::is_loopback(request.headers()) => (
            StatusCode::FORBIDDEN,
            "Host: only localhost and loopback addresses\n".to_owned(),
        ),
        "/metrics" => (StatusCode::OK, text(&status().await)),
        _ => (StatusCode::NOT_FOUND, "try /metrics\n".to_owned()),
    };
    http::answer(code, "text/plain; version=0.0.4", text)
}
