//! Receive buffers of a relay's sockets.

use std::io;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::tcp;

/// Fixes the receive buffer at `bytes` if the system's limit allows. A smaller buffer would cost
/// throughput on long paths; in that case the kernel's autotuning stays on, and the relay's
/// direction buffers less itself.
pub(super) fn limit_receive_buffer(socket: &TcpStream, bytes: u64) -> io::Result<()> {
    let s = SockRef::from(socket);
    // The kernel doubles the value for its bookkeeping.
    let asked = u32::try_from(bytes / 2).unwrap_or(u32::MAX);
    if tcp::force_recv_buffer(socket, asked).is_err() {
        if u64::from(asked) > system_recv_buffer_limit() {
            return Ok(());
        }
        s.set_recv_buffer_size(asked as usize)?;
    }
    // An open connection otherwise keeps the window of its previous buffer.
    tcp::set_window_clamp(socket, u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// File with the largest receive buffer that may be requested without privileges; read at the start
/// of a relay.
pub const RECEIVE_BUFFER_LIMIT: &str = "/proc/sys/net/core/rmem_max";

/// The largest receive buffer in bytes that may be requested without privileges.
fn system_recv_buffer_limit() -> u64 {
    std::fs::read_to_string(RECEIVE_BUFFER_LIMIT)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
