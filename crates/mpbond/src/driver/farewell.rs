//! Closing records: the reason for which a connection is closed or refused.

use std::future::poll_fn;
use std::task::{Context, Waker};
use std::time::Duration;

use mpbond_net::tls::TlsStream;
use mpbond_session::{CloseCode, SubflowError, close_record};
use tracing::debug;

use crate::memory::Full;

/// Time within which a refused peer has to take the reason.
const REFUSAL_WITHIN: Duration = Duration::from_secs(2);

/// Queues the record that says why a connection closes, and writes what the socket takes at once.
pub fn say_close(tls: &mut TlsStream, e: &SubflowError) {
    if !e.by_peer {
        let record = close_record(e.code, &e.reason);
        if tls.queue_record(&record).is_ok() {
            tls.close();
            let mut cx = Context::from_waker(Waker::noop());
            let _ = tls.poll_flush(&mut cx);
        }
    }
}

/// The same on a connection that has just come to this thread, which does not know yet whether its
/// socket is writable: waits for that.
pub async fn refuse(mut tls: TlsStream, e: SubflowError) {
    say_close(&mut tls, &e);
    let told = poll_fn(|cx| tls.poll_flush(cx));
    if !matches!(tokio::time::timeout(REFUSAL_WITHIN, told).await, Ok(Ok(()))) {
        debug!(%e, "could not send the reason of a refusal");
    }
}

/// The error of a subflow for which there is no memory.
pub(super) fn no_memory(_: Full) -> SubflowError {
    SubflowError {
        code: CloseCode::TooMuch,
        reason: "no memory left".to_owned(),
        by_peer: false,
    }
}
