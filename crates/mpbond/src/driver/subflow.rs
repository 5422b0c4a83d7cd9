//! Subflows: records between the session and TLS connections.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Weak;
use std::task::{Context, Poll, Waker};

use mpbond_net::tls::TlsError;
use mpbond_session::{CloseCode, SubflowId, driving};
use tracing::{debug, info, trace};

use super::fair_queue::CALL;
use super::farewell::say_close;
use super::inner::{Inner, with};
use super::notice::Notice;
use super::totals::MAX_NAMES;

impl Inner {
    /// Fetches records from the session and writes them; whether there was any.
    pub(super) fn transmit(&mut self) -> bool {
        self.refresh_paths();
        let now = self.clock.now();
        if let Some(links) = &mut self.links {
            links.exchange(now, &mut self.session);
        }
        let mut any = false;
        let mut flush = Vec::new();
        loop {
            self.record.clear();
            let Some(t) = self.session.poll_transmit(now, &mut self.record) else {
                // What a full batch left over goes out now, and may make room for more.
                if flush.is_empty() {
                    return any;
                }
                for id in flush.drain(..) {
                    self.flush(id);
                }
                continue;
            };
            any = true;
            let Some(io) = self.subflows.get_mut(&t.subflow) else {
                continue;
            };
            match io.tls.queue_record(&self.record) {
                Ok(end) => {
                    if end != t.octets_end {
                        self.session.handle_octets(t.subflow, end);
                    }
                }
                Err(e) => {
                    debug!(subflow = %t.subflow, error = %e, "cannot write a record");
                    self.close_subflow(t.subflow);
                    continue;
                }
            }
            io.room = io.room.saturating_sub(self.record.len() as u64);
            if io.room == 0 {
                flush.retain(|id| *id != t.subflow);
                self.flush(t.subflow);
            } else if !flush.contains(&t.subflow) {
                flush.push(t.subflow);
            }
        }
    }

    /// Writes what is queued on a subflow; a socket that takes no more is left to its task.
    fn flush(&mut self, id: SubflowId) {
        let Some(io) = self.subflows.get_mut(&id) else {
            return;
        };
        if io.blocked {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        match io.tls.poll_flush(&mut cx) {
            Poll::Ready(Ok(())) => self.give_room(id),
            Poll::Ready(Err(e)) => self.broken(id, &e),
            Poll::Pending => {
                io.blocked = true;
                io.room = 0;
                self.session.handle_room(id, 0);
                if let Some(w) = io.waker.take() {
                    self.wake.push(w);
                }
            }
        }
    }

    fn give_room(&mut self, id: SubflowId) {
        if let Some(io) = self.subflows.get_mut(&id) {
            io.blocked = false;
            io.room = io.room_bytes();
            self.session.handle_room(id, io.room);
        }
    }

    /// Reads the kernel's view of paths while data flows.
    pub(super) fn refresh_paths(&mut self) {
        let now = self.clock.now();
        let is_due = |asked, sending| driving::is_path_info_due(now, asked, sending);
        if !self.subflows.values().any(|io| is_due(io.asked, true)) {
            return;
        }
        let sending = self.session.is_sending();
        for (id, io) in &mut self.subflows {
            if !is_due(io.asked, sending) {
                continue;
            }
            io.asked = Some(now);
            if let Some(path) = io.path_info(now) {
                self.session.handle_path(now, *id, path);
                io.tune(path.delivery_rate);
                trace!(subflow = %id, ?path, "path");
            }
        }
    }

    /// A connection failed.
    fn broken(&mut self, id: SubflowId, e: &dyn std::fmt::Display) {
        if let Some(line) = self.line() {
            let (name, left_out) = (self.name(id), line.left_out);
            info!(subflow = %id, name, error = %e, left_out, "subflow's connection is gone");
        }
        self.close_subflow(id);
    }

    /// Closes a subflow, here and in the session.
    pub(super) fn close_subflow(&mut self, id: SubflowId) {
        let now = self.clock.now();
        self.session.handle_subflow_closed(now, id);
        if let Some(links) = &mut self.links {
            links.closed(id);
        }
        let Some(mut io) = self.subflows.remove(&id) else {
            return;
        };
        self.account.give_back(crate::memory::SUBFLOW);
        let name = std::mem::take(&mut io.name);
        // A proxy has the names from its peer.
        if self.closed_octets.len() < MAX_NAMES || self.closed_octets.contains_key(&name) {
            *self.closed_octets.entry(name).or_default() += io.octets();
        }
        // A reset and not FIN: a helper then discards the bytes that it holds in both directions.
        if io.tls.queued_bytes() > 0 || io.blocked || !io.closing {
            io.tls.get_ref().reset_when_dropped();
        }
        if let Some(w) = io.waker.take() {
            self.wake.push(w);
        }
        self.notice(Notice::SubflowGone(id));
    }

    /// Takes in what a subflow has received.
    fn receive(&mut self, id: SubflowId, cx: &mut Context<'_>) -> Received {
        let now = self.clock.now();
        let Some(io) = self.subflows.get_mut(&id) else {
            return Received::Gone;
        };
        let eof = match io.tls.poll_fill(cx) {
            Poll::Pending => return Received::Nothing,
            Poll::Ready(Ok(n)) => {
                self.session.handle_arrival(now, id, n as u64);
                self.turn.spend(CALL + n as u64);
                n == 0
            }
            Poll::Ready(Err(e)) => {
                self.broken(id, &e);
                return Received::Gone;
            }
        };
        self.take_records(id, eof)
    }

    /// Hands the session what was read; `eof` says that nothing follows.
    fn take_records(&mut self, id: SubflowId, eof: bool) -> Received {
        let now = self.clock.now();
        loop {
            let Some(io) = self.subflows.get_mut(&id) else {
                return Received::Gone;
            };
            match io.tls.next_record() {
                Ok(Some(record)) => {
                    let result =
                        self.session
                            .handle_record(now, id, record.payload, record.ciphertext_end);
                    if let Err(e) = result {
                        self.misbehaved(id, &e);
                        return Received::Gone;
                    }
                }
                // Nothing behind the end of the TLS stream is a record, and none of it is taken.
                Ok(None) if eof || io.tls.peer_closed() => {
                    self.broken(id, &"closed by the other end");
                    return Received::Gone;
                }
                Ok(None) => return Received::Something,
                Err(e) => {
                    self.tls_failed(id, &e);
                    return Received::Gone;
                }
            }
        }
    }

    fn misbehaved(&mut self, id: SubflowId, e: &mpbond_session::SubflowError) {
        if let Some(line) = self.line() {
            let (name, left_out) = (self.name(id), line.left_out);
            let (code, reason) = (e.code, &e.reason);
            let who = if e.by_peer { "the other end" } else { "we" };
            info!(subflow = %id, name, %code, reason, left_out, "{who} closed the subflow");
        }
        if e.by_peer && e.code == CloseCode::NotTrusted {
            self.notice(Notice::Distrusted);
        }
        self.say_last(id, e);
    }

    /// Sends the reason to the other end, and closes.
    pub(super) fn say_last(&mut self, id: SubflowId, e: &mpbond_session::SubflowError) {
        if let Some(io) = self.subflows.get_mut(&id) {
            say_close(&mut io.tls, e);
            io.closing = true;
        }
        self.close_subflow(id);
    }

    fn tls_failed(&mut self, id: SubflowId, e: &TlsError) {
        if let Some(io) = self.subflows.get_mut(&id) {
            let mut cx = Context::from_waker(Waker::noop());
            let _: Poll<io::Result<()>> = io.tls.poll_flush(&mut cx);
        }
        // The handshake is done, so this comes from the proxy itself.
        if matches!(e, TlsError::NotTrusted { .. }) {
            self.notice(Notice::Distrusted);
            self.session.handle_distrust(self.clock.now());
        }
        self.broken(id, e);
    }
}

enum Received {
    Something,
    Nothing,
    Gone,
}

/// Reads records and waits for a socket that takes no more; ends with the subflow.
pub(super) async fn run(shared: Weak<RefCell<Inner>>, id: SubflowId) {
    // The hello, and records that were read together with it or with the handshake: the socket
    // reports them no more.
    if let Some(shared) = shared.upgrade() {
        with(&shared, |inner| {
            inner.give_room(id);
            inner.take_records(id, false);
        });
    }
    poll_fn(|cx| {
        let Some(shared) = shared.upgrade() else {
            return Poll::Ready(());
        };
        with(&shared, |inner| {
            let Some(io) = inner.subflows.get_mut(&id) else {
                return Poll::Ready(());
            };
            io.waker = Some(cx.waker().clone());
            if io.blocked {
                match io.tls.poll_flush(cx) {
                    Poll::Ready(Ok(())) => inner.give_room(id),
                    Poll::Ready(Err(e)) => {
                        inner.broken(id, &e);
                        return Poll::Ready(());
                    }
                    Poll::Pending => {}
                }
            }
            let mut worked = false;
            while !inner.turn.is_over(cx.waker(), worked) {
                match inner.receive(id, cx) {
                    // Results go out before more comes in.
                    Received::Something => inner.settle(),
                    Received::Nothing => return Poll::Pending,
                    Received::Gone => return Poll::Ready(()),
                }
                worked = true;
            }
            Poll::Pending
        })
    })
    .await;
}
