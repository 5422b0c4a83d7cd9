//! TCP segments (RFC 9293, section 3.1).

use crate::network::Network;
use crate::source::u32_at;

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    /// Number of its first octet, or of SYN.
    pub sequence: u32,
    /// What the sender expects next, where it says.
    pub acknowledged: Option<u32>,
    /// Whether it opens the connection.
    pub syn: bool,
    /// Whether it ends it, at least one way (FIN or RST).
    pub ends: bool,
    /// How much it carried on the link.
    pub bytes: u32,
    /// What was kept of that.
    pub payload: &'a [u8],
}

/// The segment in a packet; `None` when it is no TCP, a later fragment, or its header is cut.
pub fn tcp<'a>(network: &Network<'a>) -> Option<TcpSegment<'a>> {
    let flow = network.flow?;
    let first = *network.data.first()?;
    let ip = if first >> 4 == 4 {
        usize::from(first & 0xf) * 4
    } else {
        40
    };
    // Without ports it is a later fragment.
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
        // What follows the IP packet is padding of the link.
        payload: kept
            .get(..kept.len().min(bytes as usize))
            .unwrap_or_default(),
    })
}
