//! Closing of a client's connection: behind an answer that it is to read, or with a reset.

use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum time for a refused client to read its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of bytes read from a refused client before closing: unread bytes would turn the
/// close into a reset, which discards the answer (RFC 9112, section 9.6).
const MAX_DRAINED_BYTES: u64 = 256 * 1024;

/// Sends an answer and closes the connection so that it is delivered.
pub(crate) async fn answer_and_close(mut stream: TcpStream, answer: &[u8]) {
    let exchange = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(MAX_DRAINED_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Errors and the timeout end the attempt.
    if let Ok(Err(error)) = timeout(ANSWER_TIMEOUT, exchange).await {
        tracing::debug!(%error, "refused client closed before reading its answer");
    }
}

/// Makes closing this socket send a reset.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // If the option cannot be set, the client sees a FIN instead of a reset.
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "cannot reset a client");
    }
}
