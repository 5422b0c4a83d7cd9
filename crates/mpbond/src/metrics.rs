//! Prometheus metrics, made from the daemon's [`Status`] at each scrape (text format 0.0.4).
//! Every metric is described in `docs/metrics.md`.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::status::{Status, SubflowStatus};

/// Maximum number of scrapers at a time; more wait in the kernel's queue.
const MAX_SCRAPERS: usize = 16;

/// Time limit of a scrape.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves `GET /metrics` at `address`, if there is one, while the current `LocalSet` runs. The
/// address is bound at once; a failure is logged and has no other effect.
pub async fn start<F: Future<Output = Status> + 'static>(
    address: Option<SocketAddr>,
    status: impl Fn() -> F + 'static,
) {
    if let Some(listener) = listen(address).await {
        tokio::task::spawn_local(serve(listener, status));
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
        tokio::task::spawn_local(async move {
            let _permit = permit;
            let service = service_fn(move |request| {
                let status = Rc::clone(&status);
                async move { Ok::<_, Infallible>(answer(&request, &*status).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            if let Ok(Err(e)) = tokio::time::timeout(PATIENCE, connection).await {
                debug!(error = %e, "a scraper went away");
            }
        });
    }
}

async fn answer<F: Future<Output = Status>>(
    request: &Request<Incoming>,
    status: &impl Fn() -> F,
) -> Response<Full<Bytes>> {
    let (code, text) = match request.uri().path() {
        "/metrics" => (StatusCode::OK, text(&status().await)),
        _ => (StatusCode::NOT_FOUND, "try /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("text/plain; version=0.0.4"),
    );
    response
}

/// The metrics as text.
pub fn text(s: &Status) -> String {
    let mut out = Page::default();
    out.single(
        "mpbond_uptime_seconds",
        "gauge",
        "Since the daemon started.",
        s.uptime_s,
    );
    if let Some(memory) = &s.memory {
        let (used, most) = (memory.used_bytes as f64, memory.most_bytes as f64);
        out.single(
            "mpbond_memory_bytes",
            "gauge",
            "What all sessions hold, as the daemon counts it.",
            used,
        );
        out.single(
            "mpbond_memory_limit_bytes",
            "gauge",
            "What they may hold.",
            most,
        );
    }
    out.sessions(s);
    out.subflows(s);
    out.relays(s);
    out.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        let _ = writeln!(self.text, "{name} {value}");
    }

    fn family(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(name, kind, help);
        for (labels, value) in samples {
            let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
        }
    }

    fn sessions(&mut self, s: &Status) {
        let each = |value: fn(&crate::status::SessionStatus) -> u64| {
            s.sessions
                .iter()
                .map(move |x| (label("session", &x.id), value(x) as f64))
                .collect::<Vec<_>>()
        };
        self.family(
            "mpbond_streams_open",
            "gauge",
            "Streams that are open.",
            each(|x| x.streams_open),
        );
        self.family(
            "mpbond_streams_total",
            "counter",
            "Streams that there ever were.",
            each(|x| x.streams_total),
        );
        self.family(
            "mpbond_unscheduled_bytes",
            "gauge",
            "Bytes in the meta buffer.",
            each(|x| x.unscheduled_bytes),
        );
        self.family(
            "mpbond_reinjected_bytes_total",
            "counter",
            "Bytes recalled from slow, silent or lost subflows.",
            each(|x| x.reinjected_bytes_out),
        );
        let both = |input: fn(&crate::status::SessionStatus) -> u64,
                    output: fn(&crate::status::SessionStatus) -> u64| {
            s.sessions
                .iter()
                .flat_map(move |x| {
                    let id = label("session", &x.id);
                    [
                        (format!("{id},direction=\"in\""), input(x) as f64),
                        (format!("{id},direction=\"out\""), output(x) as f64),
                    ]
                })
                .collect::<Vec<_>>()
        };
        self.family(
            "mpbond_redundant_bytes_total",
            "counter",
            "Stream bytes that arrived, or were sent, more than once.",
            both(|x| x.redundant_bytes_in, |x| x.redundant_bytes_out),
        );
    }

    fn subflows(&mut self, s: &Status) {
        let all: Vec<(String, &SubflowStatus)> = s
            .sessions
            .iter()
            .flat_map(|x| {
                x.subflows.iter().map(|f| {
                    let labels = format!(
                        "{},{},subflow=\"{}\"",
                        label("session", &x.id),
                        label("path", &f.name),
                        f.id
                    );
                    (labels, f)
                })
            })
            .collect();
        let mut bytes = Vec::new();
        for (labels, f) in &all {
            bytes.push((format!("{labels},direction=\"in\""), f.bytes_in as f64));
            bytes.push((format!("{labels},direction=\"out\""), f.bytes_out as f64));
        }
        self.family(
            "mpbond_subflow_bytes_total",
            "counter",
            "Stream bytes by subflow and direction.",
            bytes,
        );
        let each = |value: fn(&SubflowStatus) -> f64| {
            all.iter()
                .map(move |(labels, f)| (labels.clone(), value(f)))
                .collect::<Vec<_>>()
        };
        self.family(
            "mpbond_subflow_pad_seconds",
            "gauge",
            "Pipe-aware delay.",
            each(|f| f.pad_ms / 1e3),
        );
        self.family(
            "mpbond_subflow_b_s_bytes",
            "gauge",
            "Bytes that have not left the near hop.",
            each(|f| f.b_s as f64),
        );
        self.family(
            "mpbond_subflow_b_p_bytes",
            "gauge",
            "Bytes that wait at the helper.",
            each(|f| f.b_p as f64),
        );
        self.family(
            "mpbond_subflow_throughput_bits_per_second",
            "gauge",
            "End-to-end throughput where load has shown it within 10 s.",
            all.iter()
                .filter_map(|(labels, f)| Some((labels.clone(), f.th_mbps? * 1e6))),
        );
        self.family(
            "mpbond_subflow_rtt_seconds",
            "gauge",
            "Round-trip time over all hops.",
            each(|f| f.rtt_ms / 1e3),
        );
        self.family(
            "mpbond_subflow_potentially_failed",
            "gauge",
            "1 while acknowledgements of the subflow have stopped for longer than any repair takes.",
            each(|f| f64::from(u8::from(f.state == "potentially-failed"))),
        );
    }

    fn relays(&mut self, s: &Status) {
        let mut bytes = Vec::new();
        let mut levels = Vec::new();
        for (i, r) in s.relays.iter().enumerate() {
            let labels = format!("{},relay=\"{i}\"", label("primary", &r.primary));
            for (direction, moved, level) in [
                ("down", r.bytes_down, r.level_down_bytes),
                ("up", r.bytes_up, r.level_up_bytes),
            ] {
                let labels = format!("{labels},direction=\"{direction}\"");
                bytes.push((labels.clone(), moved as f64));
                levels.push((labels, level as f64));
            }
        }
        self.family(
            "mpbond_relay_bytes_total",
            "counter",
            "Bytes relayed.",
            bytes,
        );
        self.family(
            "mpbond_relay_level_bytes",
            "gauge",
            "Bytes that wait in the relay.",
            levels,
        );
        if let Some(b) = &s.budget {
            self.single(
                "mpbond_budget_used_bytes",
                "gauge",
                "Bytes relayed this calendar month.",
                b.used_bytes as f64,
            );
        }
    }
}

/// A label with an arbitrary value, escaped.
fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::SessionStatus;

    #[test]
    fn text_is_well_formed() {
        let status = Status {
            uptime_s: 1.5,
            sessions: vec![SessionStatus {
                id: "ab".into(),
                redundant_bytes_in: 7,
                subflows: vec![SubflowStatus {
                    id: 3,
                    name: "a \"b\"".into(),
                    bytes_in: 12,
                    pad_ms: 40.0,
                    ..SubflowStatus::default()
                }],
                ..SessionStatus::default()
            }],
            ..Status::default()
        };
        let text = text(&status);
        assert!(text.contains("mpbond_uptime_seconds 1.5\n"));
        assert!(text.contains(
            "mpbond_subflow_bytes_total{session=\"ab\",path=\"a \\\"b\\\"\",subflow=\"3\",direction=\"in\"} 12\n"
        ));
        assert!(text.contains("mpbond_redundant_bytes_total{session=\"ab\",direction=\"in\"} 7\n"));
        assert!(text.contains(
            "mpbond_subflow_pad_seconds{session=\"ab\",path=\"a \\\"b\\\"\",subflow=\"3\"} 0.04\n"
        ));
        // No family without a sample.
        assert!(!text.contains("mpbond_relay_bytes_total"));
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            assert!(
                line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(),
                "{line}"
            );
        }
    }
}
