//! HTTP/1.1 for the few requests of the metrics and of the API: one request a connection, and one
//! copy of the library's code for all kinds of connections and answers.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::debug;

/// Maximum size of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Time for a request and its answer, unless the answer has no end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection.
trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Answer to a request, once it is there.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response<Answer>>>>;

/// Body of an answer.
pub(crate) enum Answer {
    /// A text, until it is sent.
    Whole(Option<Bytes>),
    /// Parts that come until the sender is gone.
    Endless(mpsc::Receiver<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = match self.get_mut() {
            Self::Whole(text) => Poll::Ready(text.take()),
            Self::Endless(parts) => parts.poll_recv(cx),
        };
        part.map(|part| part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |t| t.len() as u64)),
            Self::Endless(_) => SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) fn answer(
    code: StatusCode,
    content: &'static str,
    body: impl Into<Bytes>,
) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Some(body.into())));
    *response.status_mut() = code;
    let content = HeaderValue::from_static(content);
    response.headers_mut().insert(CONTENT_TYPE, content);
    response
}

/// Answers the request of a connection, and closes it. One that takes too long is closed earlier.
pub(crate) async fn serve(
    connection: impl AsyncRead + AsyncWrite + Unpin + 'static,
    answers: impl Fn(Request<Incoming>) -> Answering + 'static,
) {
    serve_boxed(Box::new(connection), Box::new(answers)).await;
}

async fn serve_boxed(
    connection: Box<dyn Io>,
    answers: Box<dyn Fn(Request<Incoming>) -> Answering>,
) {
    let is_endless = Rc::new(Cell::new(false));
    let told = Rc::clone(&is_endless);
    let service = service_fn(move |request| {
        let (answer, told) = (answers(request), Rc::clone(&told));
        async move {
            let answer = answer.await;
            told.set(matches!(answer.body(), Answer::Endless(_)));
            Ok::<_, Infallible>(answer)
        }
    });
    let mut served = pin!(
        hyper::server::conn::http1::Builder::new()
            .keep_alive(false)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(connection), service)
    );
    let in_time = timeout(PATIENCE, &mut served).await;
    let ended = match in_time {
        Err(_) if is_endless.get() => served.await,
        Err(_) => return debug!("a client is too slow"),
        Ok(ended) => ended,
    };
    if let Err(e) = ended {
        debug!(error = %e, "a client went away");
    }
}
