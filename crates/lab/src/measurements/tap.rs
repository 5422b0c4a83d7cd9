//! Probes in captures: the times of a request and of its answer.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use mpbond_capture::Reader;
use serde::Deserialize;

/// Method of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Method {
    /// ICMP echo.
    Icmp,
    /// TCP SYN to an open port.
    Syn,
    /// TCP SYN to a closed port.
    Rst,
    /// HTTP GET on an open connection.
    Http,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Syn => "syn",
            Self::Rst => "rst",
            Self::Http => "http",
        }
    }
}

/// Fields of a packet that relate requests and answers.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    /// Whether it leaves the probing host.
    up: bool,
    /// Key that request and answer share: the port, or ICMP's sequence number.
    key: u16,
    /// Whether it has payload or is a message of its own, not only an ACK.
    counts: bool,
}

/// Times of a probe and of its answer, by the capture's clock, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) out_ns: u64,
    pub(super) in_ns: u64,
}

impl Passed {
    pub(super) fn delay_us(&self) -> f64 {
        self.in_ns.saturating_sub(self.out_ns) as f64 / 1e3
    }
}

/// All probes in a capture of raw IPv4 packets, in the order of their answers.
pub(super) fn passed(file: &Path, method: Method) -> Result<Vec<Passed>, String> {
    let name = file.display().to_string();
    let open = File::open(file).map_err(|e| format!("{name}: {e}"))?;
    let mut reader = Reader::new(&name, BufReader::new(open)).map_err(|e| e.to_string())?;
    let mut packets = Vec::new();
    let mut first_source = None;
    while let Some(record) = reader.next().map_err(|e| e.to_string())? {
        let Some(source) = record.data.get(12..16) else {
            continue;
        };
        // The probing host sends the first packet.
        let asks: &Vec<u8> = first_source.get_or_insert_with(|| source.to_vec());
        let up = asks == source;
        if let Some(packet) = packet(record.data, up, method) {
            packets.push((record.at.as_nanos(), packet));
        }
    }
    Ok(matched(&packets, method))
}

fn packet(ip: &[u8], up: bool, method: Method) -> Option<Packet> {
    let head = usize::from(ip.first()? & 15) * 4;
    let protocol = *ip.get(9)?;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let body = ip.get(head..total.min(ip.len()))?;
    let two = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    match (method, protocol) {
        (Method::Icmp, 1) => {
            let wanted = if up { 8 } else { 0 };
            (*body.first()? == wanted).then_some(())?;
            Some(Packet {
                up,
                key: two(6)?,
                counts: true,
            })
        }
        (Method::Syn | Method::Rst | Method::Http, 6) => {
            let payload = body
                .len()
                .checked_sub(usize::from(body.get(12)? >> 4) * 4)?;
            let flags = *body.get(13)?;
            let counts = match method {
                Method::Http => payload > 0,
                // A request is a SYN without ACK; any packet can be its answer.
                _ => !up || flags & 0x12 == 0x02,
            };
            Some(Packet {
                up,
                key: if up { two(0)? } else { two(2)? },
                counts,
            })
        }
        _ => None,
    }
}

fn matched(packets: &[(u64, Packet)], method: Method) -> Vec<Passed> {
    let mut all = Vec::new();
    // Times of open requests by key.
    let mut open: BTreeMap<u16, u64> = BTreeMap::new();
    for (at, packet) in packets.iter().filter(|(_, p)| p.counts) {
        // One request at a time on an open connection; with other methods each request has its own
        // key.
        if packet.up {
            let sent = open.entry(packet.key).or_insert(*at);
            if method == Method::Http {
                *sent = *at;
            }
        } else if let Some(sent) = open.remove(&packet.key) {
            all.push(Passed {
                out_ns: sent,
                in_ns: *at,
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(at_us: u64, up: bool, key: u16, counts: bool) -> (u64, Packet) {
        (at_us * 1000, Packet { up, key, counts })
    }

    fn delays(packets: &[(u64, Packet)], method: Method) -> Vec<f64> {
        matched(packets, method)
            .iter()
            .map(Passed::delay_us)
            .collect()
    }

    #[test]
    fn questions_and_answers_are_matched() {
        let syn = [
            p(0, true, 5, true),
            p(30, false, 5, true),
            // The connection continues; the next request has another port.
            p(31, true, 5, false),
            p(100, true, 6, true),
            // A retransmission: the delay counts from the first one.
            p(150, true, 6, true),
            p(190, false, 6, true),
            p(191, false, 6, true),
        ];
        assert_eq!(delays(&syn, Method::Syn), [30.0, 90.0]);
        let http = [
            p(0, true, 5, false),
            p(10, true, 5, true),
            p(20, false, 5, false),
            p(40, false, 5, true),
            p(60, true, 5, true),
            p(80, false, 5, true),
        ];
        assert_eq!(delays(&http, Method::Http), [30.0, 20.0]);
    }

    #[test]
    fn packets_are_recognised_by_their_headers() {
        let mut echo = vec![
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ];
        echo.extend([8, 0, 0, 0, 0, 9, 0, 3]);
        let is = packet(&echo, true, Method::Icmp).unwrap();
        assert_eq!((is.key, is.counts), (3, true));
        assert_eq!(packet(&echo, false, Method::Icmp), None);
        assert_eq!(packet(&echo, true, Method::Syn), None);
        let mut syn = vec![
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ];
        syn.extend([
            0, 7, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
        ]);
        let is = packet(&syn, true, Method::Rst).unwrap();
        assert_eq!((is.key, is.counts), (7, true));
        assert!(!packet(&syn, true, Method::Http).unwrap().counts);
        for end in 0..syn.len() {
            let _ = packet(&syn[..end], true, Method::Http);
            let _ = packet(&echo[..end.min(28)], true, Method::Icmp);
        }
    }
}
