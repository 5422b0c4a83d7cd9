//! TCP segments (RFC 9293, section 3.1).

use crate::network::Network;
use crate::source::u32_at;

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    /// Sequence number of its first octet, or of SYN.
    pub sequence: u32,
    /// Next sequence number that the sender expects, if given.
    pub acknowledged: Option<u32>,
    /// Whether it opens the connection (SYN).
    pub syn: bool,
    /// Whether it closes the connection, at least in one direction (FIN or RST).
    pub ends: bool,
    /// Length of its data on the link.
    pub bytes: u32,
    /// Captured part of its data.
    pub payload: &'a [u8],
}

/// Segment in a packet; `None` when it is not TCP, a later fragment, or its header is truncated.
pub fn tcp<'a>(network: &Network<'a>) -> Option<TcpSegment<'a>> {
    let flow = network.flow?;
    let first = *network.data.first()?;
    let ip = if first >> 4 == 4 {
        usize::from(first & 0xf) * 4
    } else {
        40
    };
    // A later fragment has no ports.
    if flow.protocol != 6 || (flow.source_port, flow.destination_port) == (0, 0) {
        return None;
    }
    let head = network.data.get(ip..)?;
    let whole = head.get(..20)?;
    let header = usize::from(*whole.get(12)? >> 4) * 4;
    let flags = *whole.get(13)?;
    let bytes = network.bytes.checked_sub((ip + header) as u32)?;
    let kept = head.get(header..).unwrap_or_default();
    Some(TcpSegment {
        sequence: u32_at(whole, 4, true),
        acknowledged: (flags & 0x10 != 0).then(|| u32_at(whole, 8, true)),
        syn: flags & 2 != 0,
        ends: flags & 5 != 0,
        bytes,
        // Octets after the IP packet are padding of the link.
        payload: kept
            .get(..kept.len().min(bytes as usize))
            .unwrap_or_default(),
    })
}
