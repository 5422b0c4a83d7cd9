//! An application at the end of a stream, within this process: it requests bytes from an origin and
//! checks every one that arrives.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mpbond::driver::AppSocket;
use mpbond_session::ResetCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::origin::Request;
use super::pattern::Pattern;

/// Failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The stream was reset, or ended too early.
    Reset,
    /// Wrong bytes arrived.
    Wrong,
}

#[derive(Default)]
struct State {
    to_send: Vec<u8>,
    ending: bool,
    reader: Option<Waker>,
    expected: Option<(Pattern, u64)>,
    over: bool,
    wrong: bool,
    waiter: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        if let Some(w) = self.waiter.take() {
            w.wake();
        }
    }
}

/// The application's side.
pub struct App {
    state: Rc<RefCell<State>>,
}

/// The socket that the driver is given.
pub struct Socket {
    state: Rc<RefCell<State>>,
    received: Rc<Cell<u64>>,
}

/// A connected pair; every byte that arrives is added to `received`.
pub fn pair(received: Rc<Cell<u64>>) -> (App, Socket) {
    let state = Rc::new(RefCell::new(State::default()));
    let app = App {
        state: Rc::clone(&state),
    };
    (app, Socket { state, received })
}

impl App {
    /// Requests `bytes` and waits until the last has arrived.
    pub async fn fetch(&self, seed: u64, bytes: u64) -> Result<(), Failure> {
        {
            let mut state = self.state.borrow_mut();
            let request = Request {
                upload: false,
                seed,
                bytes,
            };
            state.to_send.extend_from_slice(&request.encode());
            state.expected = Some((Pattern::new(seed), bytes));
            if let Some(w) = state.reader.take() {
                w.wake();
            }
        }
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.wrong {
                return Poll::Ready(Err(Failure::Wrong));
            }
            if state.expected.is_none() {
                return Poll::Ready(Ok(()));
            }
            if state.over {
                return Poll::Ready(Err(Failure::Reset));
            }
            state.waiter = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for App {
    /// The application closes its connection.
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.ending = true;
        if let Some(w) = state.reader.take() {
            w.wake();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state.borrow_mut();
        if state.to_send.is_empty() && !state.ending {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = state.to_send.len().min(buf.remaining());
        buf.put_slice(&state.to_send[..n]);
        state.to_send.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        if state.ending && state.expected.is_some() {
            // The application has closed its connection.
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.received.set(self.received.get() + data.len() as u64);
        let right = match &mut state.expected {
            Some((pattern, left)) => {
                let fits = data.len() as u64 <= *left && pattern.check(data);
                *left = left.saturating_sub(data.len() as u64);
                fits
            }
            None => false,
        };
        state.wrong |= !right;
        let done = matches!(&state.expected, Some((_, 0)));
        if done {
            state.expected = None;
        }
        if done || state.wrong {
            state.wake();
        }
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state.borrow_mut();
        state.over = true;
        state.wake();
        Poll::Ready(Ok(()))
    }
}

impl AppSocket for Socket {
    fn abort(self: Box<Self>, _: Option<ResetCode>) {}
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.over = true;
        state.wake();
    }
}
