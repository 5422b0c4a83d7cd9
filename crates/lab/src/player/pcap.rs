//! Captures of links: a pcap file (draft-ietf-opsawg-pcap) for each, with nanoseconds and raw IP
//! packets.
//!
//! A file is equivalent to a capture at the near host's device: packets sent by the host at their
//! time of sending, lost on the link or not, and packets received at their time of receipt. Times
//! are those of the packet log.

use std::io::Write;
use std::path::Path;

use mpbond_units::Timestamp;

use super::background::{Entry, LogFile};
use crate::error::Result;

/// Maximum size of a captured packet; no device has a larger MTU.
const SNAP_BYTES: u32 = 65_535;
/// LINKTYPE_RAW: packets start with their IPv4 or IPv6 header.
const RAW_IP: u32 = 101;

const HEADER: [u8; 24] = {
    let mut header = [0; 24];
    // Nanosecond times; version 2.4; zone and accuracy are always 0.
    let fields: [(usize, u32); 4] = [
        (0, 0xa1b2_3c4d),
        (4, 0x0004_0002),
        (16, SNAP_BYTES),
        (20, RAW_IP),
    ];
    let mut field = 0;
    while field < fields.len() {
        let (at, value) = fields[field];
        let octets = value.to_le_bytes();
        let mut i = 0;
        while i < 4 {
            header[at + i] = octets[i];
            i += 1;
        }
        field += 1;
    }
    header
};

/// A captured packet.
pub(crate) struct Captured {
    /// Time by the clock of the capture.
    pub at: Timestamp,
    /// Octets from the IP header on.
    pub packet: Vec<u8>,
}

impl Entry for Captured {
    const HEADER: &'static [u8] = &HEADER;
    // The batches that may wait hold 24 MB at most.
    const BATCH: usize = 64;

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let ns = self.at.as_nanos();
        let bytes = self.packet.len() as u32;
        for field in [
            (ns / 1_000_000_000) as u32,
            (ns % 1_000_000_000) as u32,
            bytes,
            bytes,
        ] {
            out.write_all(&field.to_le_bytes())?;
        }
        out.write_all(&self.packet)
    }
}

/// The capture of one link.
pub(crate) type Pcap = LogFile<Captured>;

/// Creates the capture of `link` in `folder`.
///
/// # Errors
/// When the file cannot be created.
pub(crate) fn create(folder: &Path, link: &str) -> Result<Pcap> {
    Pcap::create(&folder.join(format!("{link}.pcap")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_documented_format() {
        let mut file = Captured::HEADER.to_vec();
        let packet = Captured {
            at: Timestamp::from_nanos(3_000_000_007),
            packet: vec![0x45, 1, 2],
        };
        packet.write(&mut file).unwrap();
        let words = |from: usize, count: usize| -> Vec<u32> {
            file[from..from + 4 * count]
                .chunks(4)
                .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
                .collect()
        };
        assert_eq!(words(0, 6), [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 101]);
        assert_eq!(words(24, 4), [3, 7, 3, 3]);
        assert_eq!(file[40..], [0x45, 1, 2]);
    }
}
