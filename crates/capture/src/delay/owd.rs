//! Delay of each byte between the places where it was captured.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use mpbond_statistics::clock::{ClockFit, resolution_ns};
use serde::Serialize;

use super::arrivals::Arrivals;
use super::clock::ClockBound;
use super::tcp::tcp;
use crate::bluetooth::{Decoder, Happening};
use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::network::{Flow, network};
use crate::reader::Reader;
use crate::source::Source;

const PROXY_HEADER: &str = "time_s,event,bytes";
/// Maximum length of a stream: bounds the effect of wrong sequence numbers.
const MAX_STREAM: u64 = 1 << 40;
/// Maximum number of ACKs kept for the comparison of clocks.
const MAX_ACKS: usize = 1 << 20;

/// One direction of a connection at one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Addresses and ports.
    pub flow: Flow,
    /// Sequence number of the stream's first byte.
    base: u32,
    /// Whether the connection's beginning was captured.
    from_start: bool,
    /// Time of each byte's first appearance.
    pub arrivals: Arrivals,
    /// Number of retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// Time of the first acknowledgement of each offset.
    acknowledged: BTreeMap<u64, u64>,
    /// Reason why reading stopped early.
    pub incomplete: Option<String>,
}

impl Transfer {
    fn new(flow: Flow, base: u32, from_start: bool) -> Self {
        Self {
            flow,
            base,
            from_start,
            arrivals: Arrivals::default(),
            retransmitted_bytes: 0,
            acknowledged: BTreeMap::new(),
            incomplete: None,
        }
    }

    /// Offset in the stream of a sequence number near `near`: numbers wrap each 4 GiB.
    fn offset(&self, number: u32, near: u64) -> Option<u64> {
        let distance = number
            .wrapping_sub(self.base)
            .wrapping_sub(near as u32)
            .cast_signed();
        near.checked_add_signed(i64::from(distance))
            .filter(|o| *o < MAX_STREAM)
    }

    fn highest(&self) -> u64 {
        self.arrivals.end().unwrap_or_default()
    }
}

/// Reads a capture and returns the TCP connection and direction that carries the most bytes. With
/// `like`, the same connection as captured elsewhere: the one whose sequence numbers match best.
///
/// # Errors
/// When it is not a capture, or has no such connection.
pub fn tcp_transfer<R: Read>(
    file: &str,
    from: R,
    like: Option<&Transfer>,
) -> Result<Transfer, CaptureError> {
    let mut reader = Reader::new(file, from)?;
    let mut all: HashMap<Flow, Transfer> = HashMap::new();
    let mut incomplete = None;
    loop {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(e) => {
                incomplete = Some(e.to_string());
                break;
            }
        };
        let Ok(packet) = network(&record) else {
            continue;
        };
        let (Some(flow), Some(segment)) = (packet.flow, tcp(&packet)) else {
            continue;
        };
        let first = segment.sequence.wrapping_add(u32::from(segment.syn));
        let at = record.at.as_nanos();
        let transfer = all.entry(flow).or_insert_with(|| match like {
            // Sequence numbers are the same at all places.
            Some(like) => Transfer::new(flow, like.base, like.from_start),
            None => Transfer::new(flow, first, segment.syn),
        });
        let near = transfer.highest();
        if let Some(start) = transfer.offset(first, near) {
            let end = start + u64::from(segment.bytes);
            transfer.retransmitted_bytes += transfer.arrivals.add(start, end, at);
        }
        let back = Flow {
            source: flow.destination,
            destination: flow.source,
            source_port: flow.destination_port,
            destination_port: flow.source_port,
            ..flow
        };
        if let (Some(number), Some(other)) = (segment.acknowledged, all.get_mut(&back)) {
            let offset = other.offset(number, other.highest());
            if let Some(offset) = offset.filter(|_| other.acknowledged.len() < MAX_ACKS) {
                other.acknowledged.entry(offset).or_insert(at);
            }
        }
    }
    let score = |t: &Transfer| match like {
        // The port is the server's own; addresses and the client's port may be translated in
        // between.
        Some(like) if t.flow.source_port != like.flow.source_port => 0,
        Some(like) => overlap(&t.arrivals, &like.arrivals),
        None => t.arrivals.bytes(),
    };
    let best = all
        .into_values()
        .map(|t| (score(&t), t))
        .max_by_key(|(score, t)| (*score, t.flow.source_port, t.flow.destination_port));
    match best {
        Some((1.., mut found)) => {
            found.incomplete = incomplete;
            Ok(found)
        }
        _ => Err(CaptureError {
            file: file.to_owned(),
            place: crate::error::Place::Offset(0),
            reason: match (incomplete, like) {
                (Some(e), _) => e,
                (None, None) => "no TCP connection with data".to_owned(),
                (None, Some(_)) => "no TCP connection in common with the other capture".to_owned(),
            },
        }),
    }
}

fn overlap(a: &Arrivals, b: &Arrivals) -> u64 {
    let borders: BTreeSet<u64> = a.borders().chain(b.borders()).collect();
    let pairs = borders.iter().zip(borders.iter().skip(1));
    let both = pairs.filter(|(from, _)| a.at_ns(**from).is_some() && b.at_ns(**from).is_some());
    both.map(|(from, to)| to - from).sum()
}

/// Reads the proxy's log (`time_s,event,bytes`): `read` when it received bytes from TCP (t_A),
/// `sent` when it passed them to Bluetooth (t_BS), each with their number; times since the Unix
/// epoch.
///
/// # Errors
/// One line with file, line and reason.
pub fn proxy_log<R: Read>(file: &str, from: R) -> Result<(Arrivals, Arrivals), CaptureError> {
    let mut lines = Lines::new(Source::new(file, from));
    if !lines.advance()? || lines.line().trim() != PROXY_HEADER {
        return Err(lines.error(format!("must begin with `{PROXY_HEADER}`")));
    }
    let (mut read, mut sent) = ((Arrivals::default(), 0), (Arrivals::default(), 0));
    while lines.advance()? {
        let Some([at, event, bytes]) = fields::<3>(lines.line()) else {
            return Err(lines.error(format!("not three fields, as in `{PROXY_HEADER}`")));
        };
        let Some(at_ns) = nanos(at) else {
            return Err(lines.error(format!("`{at}` is not a time in seconds")));
        };
        let bytes = bytes.parse::<u64>().ok().filter(|b| *b < MAX_STREAM);
        let Some(bytes) = bytes else {
            return Err(lines.error("not a plausible number of bytes"));
        };
        let (arrivals, total) = match event {
            "read" => &mut read,
            "sent" => &mut sent,
            other => return Err(lines.error(format!("`{other}` is neither read nor sent"))),
        };
        arrivals.add(*total, *total + bytes, at_ns);
        *total += bytes;
    }
    Ok((read.0, sent.0))
}

/// Decimal seconds in ns, exactly: a double has too few digits for times since 1970.
fn nanos(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.').unwrap_or((text, ""));
    if rest.len() > 9 || !rest.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = if rest.is_empty() {
        0
    } else {
        rest.parse().ok()?
    };
    let scale = 10_u64.pow(9 - rest.len() as u32);
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * scale)
}

/// RFCOMM payload of a Bluetooth log in one direction, on the channel that carries the most.
///
/// # Errors
/// When it is not a Bluetooth log, or has no payload in that direction.
pub fn rfcomm_stream<R: Read>(
    file: &str,
    from: R,
    received: bool,
) -> Result<(Arrivals, Option<String>), CaptureError> {
    let mut reader = Reader::new(file, from)?;
    let mut decoder = Decoder::default();
    let mut channels: BTreeMap<_, (Arrivals, u64)> = BTreeMap::new();
    let mut incomplete = None;
    loop {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(e) => {
                incomplete = Some(e.to_string());
                break;
            }
        };
        let at = record.at.as_nanos();
        decoder.push(&record, &mut |what| {
            if let Happening::Rfcomm {
                link,
                received: way,
                frame,
                ..
            } = what
                && way == received
                && frame.dlci != 0
                && !frame.payload.is_empty()
            {
                let (arrivals, total) = channels.entry((link, frame.dlci)).or_default();
                let end = *total + frame.payload.len() as u64;
                arrivals.add(*total, end, at);
                *total = end;
            }
        });
    }
    match channels.into_values().max_by_key(|(_, total)| *total) {
        Some((arrivals, _)) => Ok((arrivals, incomplete)),
        None => Err(CaptureError {
            file: file.to_owned(),
            place: crate::error::Place::Offset(0),
            reason: incomplete.unwrap_or_else(|| "no RFCOMM payload in that direction".to_owned()),
        }),
    }
}

/// Places where bytes were captured; a delay needs at least two neighbouring ones.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The server's capture, t_S.
    pub server: Option<Transfer>,
    /// The phone's capture, t_IR.
    pub phone: Option<Transfer>,
    /// The proxy's reads, t_A.
    pub proxy_read: Option<Arrivals>,
    /// The proxy's writes to Bluetooth, t_BS.
    pub proxy_sent: Option<Arrivals>,
    /// The watch's log, t_BR.
    pub watch: Option<Arrivals>,
}

/// One segment of the delay, weighted by bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Segment {
    /// Number of bytes captured at both ends.
    pub bytes: u64,
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Minimum, in seconds.
    pub min_s: f64,
    /// Median, in seconds.
    pub median_s: f64,
    /// 95th percentile, in seconds.
    pub p95_s: f64,
    /// Maximum, in seconds.
    pub max_s: f64,
}

/// Segments of the delay; `None` where a place is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Segments {
    /// Server to phone: t_IR − t_S.
    pub d1: Option<Segment>,
    /// In the phone's TCP: t_A − t_IR.
    pub d2: Option<Segment>,
    /// In the proxy: t_BS − t_A.
    pub d3: Option<Segment>,
    /// Over Bluetooth: t_BR − t_BS.
    pub d4: Option<Segment>,
}

/// One-way delays and their uncertainty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayReport {
    /// Segments.
    pub segments: Segments,
    /// Delay from the first place to the last.
    pub total: Option<Segment>,
    /// Largest error of d1, in µs, from the clocks of server and phone; `None` when they could not
    /// be compared.
    pub clock_error_us: Option<f64>,
    /// Relation of the clocks, subtracted from d1.
    pub clock: Option<ClockBound>,
    /// Bytes that the server retransmitted; without its capture, those that the phone received
    /// again.
    pub retransmitted_bytes: u64,
    /// Limitations of the figures.
    pub notes: Vec<String>,
    /// Reason why reading stopped early.
    pub incomplete: Option<String>,
}

/// Reason why there are no delays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwdError {
    /// Bytes were captured at one place only.
    #[error("no byte was seen at two neighbouring places: a delay needs two")]
    OnePlace,
}

/// Delays between neighbouring places.
///
/// # Errors
/// [`OwdError`] when no two neighbouring places have bytes in common.
pub fn one_way(places: &Places) -> Result<DelayReport, OwdError> {
    let fit = match (&places.server, &places.phone) {
        (Some(server), Some(phone)) => relation(server, phone),
        _ => ClockFit::default(),
    };
    let clock = ClockBound::of(&fit);
    // Without a relation, d1 is of two clocks as they are.
    let by_two = |left: u64, came: u64| match clock {
        Some(_) => fit.at(left).map(|offset| offset.correct(left, came)),
        None => by_one(left, came),
    };
    let server = places.server.as_ref().map(|t| &t.arrivals);
    let phone = places.phone.as_ref().map(|t| &t.arrivals);
    let (read, sent) = (places.proxy_read.as_ref(), places.proxy_sent.as_ref());
    let watch = places.watch.as_ref();
    let segments = Segments {
        d1: between(server, phone, by_two),
        d2: between(phone, read, by_one),
        d3: between(read, sent, by_one),
        d4: between(sent, watch, by_one),
    };
    let all = [server, phone, read, sent, watch];
    let first = all.iter().flatten().next().copied();
    let last = all.iter().flatten().next_back().copied();
    let total = match server {
        Some(_) => between(first, last, by_two),
        None => between(first, last, by_one),
    };
    if total.is_none() || all.iter().flatten().count() < 2 {
        return Err(OwdError::OnePlace);
    }
    let mut notes = Vec::new();
    if let Some(d1) = segments.d1.as_ref().filter(|_| clock.is_none()) {
        let note = if d1.median_s < 0.0 {
            "d1 is negative: the captures of server and phone are exchanged, or their clocks differ \
             and nothing relates them"
        } else {
            "server and phone have no ACK in common: d1 is of two clocks as they are"
        };
        notes.push(note.to_owned());
    } else if server.is_some() && clock.is_none() {
        notes.push(
            "the total is of the clocks of server and phone as they are: a capture of the phone \
             that has ACKs in common with the server's relates them"
                .into(),
        );
    }
    if let Some(clock) = clock.as_ref().filter(|c| c.drifted) {
        notes.push(format!(
            "no line relates the clocks of server and phone: one was set or changed its rate; {} \
             parts are corrected each on its own, and bytes sent between them have no d1",
            clock.segments.len()
        ));
    }
    if let Some(clock) = clock.as_ref().filter(|c| c.crossed > 0) {
        notes.push(format!(
            "{} packets arrived before they were sent by any steady clock: left out of the clocks' \
             relation",
            clock.crossed
        ));
    }
    if segments.d4.is_some() {
        notes.push(
            "d4: the watch's clock is taken to be the phone's, and RFCOMM payload to be the stream \
             alone; nothing in the logs says otherwise"
                .into(),
        );
    }
    let without_start = [&places.server, &places.phone];
    if (read.is_some() || watch.is_some())
        && without_start.into_iter().flatten().any(|t| !t.from_start)
    {
        notes.push(
            "the connection began before the capture: where its stream starts is a guess".into(),
        );
    }
    let transfers = [&places.server, &places.phone];
    let transfers = transfers.into_iter().flatten();
    Ok(DelayReport {
        segments,
        total,
        clock_error_us: clock.as_ref().and_then(ClockBound::worst_us),
        clock,
        retransmitted_bytes: transfers
            .clone()
            .next()
            .map_or(0, |t| t.retransmitted_bytes),
        notes,
        incomplete: transfers.filter_map(|t| t.incomplete.clone()).next(),
    })
}

/// Relates the phone's clock to the server's: no byte and no ACK arrives before it was sent.
fn relation(server: &Transfer, phone: &Transfer) -> ClockFit {
    let borders: BTreeSet<u64> = server
        .arrivals
        .borders()
        .chain(phone.arrivals.borders())
        .collect();
    // A retransmitted byte may have arrived in a later copy than the first, which only widens the
    // bound.
    let data = borders.iter().filter_map(|at| {
        let (left, came) = (server.arrivals.at_ns(*at)?, phone.arrivals.at_ns(*at)?);
        Some((left, came, true))
    });
    let acks = phone
        .acknowledged
        .iter()
        .filter_map(|(offset, left)| Some((*server.acknowledged.get(offset)?, *left, false)));
    let mut all: Vec<(u64, u64, bool)> = data.chain(acks).collect();
    all.sort_unstable();
    let mut fit = ClockFit::new(resolution_ns(all.iter().flat_map(|p| [p.0, p.1])));
    for (at_server, at_phone, data) in all {
        match data {
            true => fit.sent(at_server, at_phone),
            false => fit.received(at_phone, at_server),
        };
    }
    fit
}

/// Difference of two stamps of one clock, in ns.
fn by_one(left: u64, came: u64) -> Option<f64> {
    Some((i128::from(came) - i128::from(left)) as f64)
}

fn between(
    a: Option<&Arrivals>,
    b: Option<&Arrivals>,
    delay_ns: impl Fn(u64, u64) -> Option<f64>,
) -> Option<Segment> {
    let (a, b) = (a?, b?);
    let borders: BTreeSet<u64> = a.borders().chain(b.borders()).collect();
    let mut all: Vec<(f64, u64)> = Vec::new();
    for (from, to) in borders.iter().zip(borders.iter().skip(1)) {
        if let (Some(left), Some(came)) = (a.at_ns(*from), b.at_ns(*from))
            && let Some(ns) = delay_ns(left, came)
        {
            all.push((ns / 1e9, to - from));
        }
    }
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let bytes: u64 = all.iter().map(|p| p.1).sum();
    let at = |share: f64| {
        let mut left = share * bytes as f64;
        let found = all.iter().find(|(_, n)| {
            left -= *n as f64;
            left <= 0.0
        });
        found.or(all.last()).map_or(0.0, |p| p.0)
    };
    let micros = |s: f64| (s * 1e9).round() / 1e9;
    Some(Segment {
        bytes,
        mean_s: micros(all.iter().map(|(s, n)| s * *n as f64).sum::<f64>() / bytes as f64),
        min_s: micros(all.first()?.0),
        median_s: micros(at(0.5)),
        p95_s: micros(at(0.95)),
        max_s: micros(all.last()?.0),
    })
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;

    /// The server's capture and the proxy's log, without the phone's capture between them.
    #[test]
    fn a_total_of_two_unrelated_clocks_has_a_note() {
        let flow = Flow {
            source: IpAddr::V4(Ipv4Addr::LOCALHOST),
            destination: IpAddr::V4(Ipv4Addr::LOCALHOST),
            protocol: 6,
            source_port: 80,
            destination_port: 4000,
        };
        let mut server = Transfer::new(flow, 0, true);
        server.arrivals.add(0, 100, 1_000_000_000);
        let mut read = Arrivals::default();
        read.add(0, 100, 3_000_000_000);
        let places = Places {
            server: Some(server),
            proxy_read: Some(read.clone()),
            ..Places::default()
        };
        let report = one_way(&places).unwrap();
        assert_eq!(report.total.unwrap().median_s, 2.0);
        assert_eq!(report.notes.len(), 1);
        assert!(report.notes[0].starts_with("the total is of the clocks of server and phone"));
        let mut sent = Arrivals::default();
        sent.add(0, 100, 4_000_000_000);
        let places = Places {
            proxy_read: Some(read),
            proxy_sent: Some(sent),
            ..Places::default()
        };
        assert!(one_way(&places).unwrap().notes.is_empty());
    }
}
