//! Identification of a file's format by its first octets.

use std::io::Read;

use crate::error::CaptureError;
use crate::source::Source;
use crate::unpack::{Unpacked, unpack};
use crate::{btsnoop, cpu_log, packet_log, packet_logger, pcap, pcapng};

/// Number of octets that identify a format.
const HEAD: usize = 32;

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Classic pcap: little or big endian, µs or ns.
    Pcap,
    /// pcapng.
    Pcapng,
    /// btsnoop with any of its data links.
    Btsnoop,
    /// Apple's PacketLogger.
    PacketLogger,
    /// The lab's packet log.
    PacketLog,
    /// Processor log.
    CpuLog,
}

/// Decompresses gzip and identifies the format.
pub(crate) fn open<R: Read>(
    file: &str,
    from: R,
) -> Result<(Source<Unpacked<R>>, Format), CaptureError> {
    let mut source = unpack(file, from)?;
    let head = source.peek(HEAD)?;
    let format = if pcapng::is(head) {
        Format::Pcapng
    } else if pcap::is(head) {
        Format::Pcap
    } else if packet_log::is(head) {
        Format::PacketLog
    } else if cpu_log::is(head) {
        Format::CpuLog
    } else if btsnoop::is(head) {
        Format::Btsnoop
    } else if packet_logger::is(head) {
        Format::PacketLogger
    } else {
        let shown: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
        let reason = format!(
            "neither a pcap, pcapng, btsnoop or PacketLogger capture nor a packet or processor log \
             (begins with {})",
            shown.join(" ")
        );
        return Err(source.error(0, reason));
    };
    Ok((source, format))
}
