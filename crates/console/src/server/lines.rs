//! Body of an answer that goes on: the lines of a channel.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::Receiver;

/// The lines that a channel brings, until it is closed.
#[derive(Debug)]
pub(super) struct Lines(Receiver<Bytes>);

impl Lines {
    pub fn new(from: Receiver<Bytes>) -> Self {
        Self(from)
    }
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let line = ready!(self.0.poll_recv(context));
        Poll::Ready(line.map(|line| Ok(Frame::data(line))))
    }
}
