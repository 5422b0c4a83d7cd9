//! The delay of each byte, between the places where it was seen.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use serde::Serialize;

use super::arrivals::Arrivals;
use super::tcp::tcp;
use crate::bluetooth::{Decoder, Happening};
use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::network::{Flow, network};
use crate::reader::Reader;
use crate::source::Source;

const PROXY_HEADER: &str = "time_s,event,bytes";
/// Wrong sequence numbers must not make streams of terabytes.
const MAX_STREAM: u64 = 1 << 40;
/// ACKs that are kept to compare clocks.
const MAX_ACKS: usize = 1 << 20;

/// One direction of a connection at one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Which.
    pub flow: Flow,
    /// Number of the stream's first byte.
    base: u32,
    /// Whether the connection's beginning was seen.
    from_start: bool,
    /// When each byte first passed.
    pub arrivals: Arrivals,
    /// Bytes that passed again.
    pub retransmitted_bytes: u64,
    /// When the other end first acknowledged so much.
    acknowledged: BTreeMap<u64, u64>,
    /// Why reading stopped early.
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

    /// Where in the stream a number is, near `near`: numbers begin again each 4 GiB.
    fn offset(&self, number: u32, near: u64) -> Option<u64> {
        let distance = number
            .wrapping_sub(self.base)
            .wrapping_sub(near as u32)
            .cast_signed();
        near.checked_add_signed(i64::from(distance))
            .filter(|o| *o < MAX_STREAM)
    }

    fn highest(&self) -> u64 {
        self.arrivals.borders().last().unwrap_or_default()
    }
}

/// Reads a capture, and gives the direction of a TCP connection that carries most. With `like`,
/// the same connection as seen elsewhere: the one whose numbers fit best.
///
/// # Errors
/// When it is no capture, or has no such connection.
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
            // Numbers mean the same everywhere.
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
        // Ports are the server's own; addresses and the client's port may be translated between.
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
                (None, None) => "no TCP connection that carries data".to_owned(),
                (None, Some(_)) => "none of its TCP connections is the other capture's".to_owned(),
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

/// Reads the proxy's log (`time_s,event,bytes`): `read` when it had bytes from TCP (t_A), `sent`
/// when it gave them to Bluetooth (t_BS), each with how many; times since the Unix epoch.
///
/// # Errors
/// One line that names file, line and reason.
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
            return Err(lines.error(format!("`{at}` is no time in seconds")));
        };
        let bytes = bytes.parse::<u64>().ok().filter(|b| *b < MAX_STREAM);
        let Some(bytes) = bytes else {
            return Err(lines.error("not a number of bytes that occurs"));
        };
        let (arrivals, total) = match event {
            "read" => &mut read,
            "sent" => &mut sent,
            other => return Err(lines.error(format!("`{other}` is not read or sent"))),
        };
        arrivals.add(*total, *total + bytes, at_ns);
        *total += bytes;
    }
    Ok((read.0, sent.0))
}

/// Decimal seconds in ns, exactly: a double has not enough digits since 1970.
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

/// The RFCOMM payload of a Bluetooth log in one direction, on the channel that carries most.
///
/// # Errors
/// When it is no Bluetooth log, or carries none that way.
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
            reason: incomplete.unwrap_or_else(|| "no RFCOMM payload that way".to_owned()),
        }),
    }
}

/// Where bytes were seen; at least two neighbours are needed for a delay.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// t_S: the server's capture.
    pub server: Option<Transfer>,
    /// t_IR: the phone's capture.
    pub phone: Option<Transfer>,
    /// t_A: the proxy had them.
    pub proxy_read: Option<Arrivals>,
    /// t_BS: the proxy gave them to Bluetooth.
    pub proxy_sent: Option<Arrivals>,
    /// t_BR: the watch had them.
    pub watch: Option<Arrivals>,
}

/// One part of the delay, over bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Segment {
    /// Bytes that were seen at both ends.
    pub bytes: u64,
    /// Their mean.
    pub mean_s: f64,
    /// The least.
    pub min_s: f64,
    /// The median byte's.
    pub median_s: f64,
    /// 95 of 100 bytes had less.
    pub p95_s: f64,
    /// The most.
    pub max_s: f64,
}

/// The parts; `None` where a place is missing.
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

/// The phone's clock minus the server's, from the same segments and ACKs seen at both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClockBound {
    /// The middle of where it can be; taken off d1.
    pub offset_us: f64,
    /// It can be so far from there.
    pub error_us: f64,
}

/// Delays and how sure they are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayReport {
    /// The parts.
    pub segments: Segments,
    /// From the first place to the last.
    pub total: Option<Segment>,
    /// Of server and phone: how wrong d1 may be. `None` when it could not be compared.
    pub clock_error_us: Option<f64>,
    /// What was taken off d1.
    pub clock: Option<ClockBound>,
    /// Bytes that the server sent again; without its capture, that the phone had again.
    pub retransmitted_bytes: u64,
    /// What makes the figures less than sure.
    pub notes: Vec<String>,
    /// Why reading stopped early.
    pub incomplete: Option<String>,
}

/// Why there are no delays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwdError {
    /// Bytes were seen at one place only.
    #[error("no byte was seen at two neighbouring places: a delay needs two")]
    OnePlace,
}

/// Delays between neighbouring places.
///
/// # Errors
/// [`OwdError`] when there are no two.
pub fn one_way(places: &Places) -> Result<DelayReport, OwdError> {
    let clock = match (&places.server, &places.phone) {
        (Some(server), Some(phone)) => bound(server, phone),
        _ => None,
    };
    let shift = clock.map_or(0.0, |c| c.offset_us * 1e3);
    let server = places.server.as_ref().map(|t| &t.arrivals);
    let phone = places.phone.as_ref().map(|t| &t.arrivals);
    let (read, sent) = (places.proxy_read.as_ref(), places.proxy_sent.as_ref());
    let watch = places.watch.as_ref();
    let segments = Segments {
        d1: between(server, phone, shift),
        d2: between(phone, read, 0.0),
        d3: between(read, sent, 0.0),
        d4: between(sent, watch, 0.0),
    };
    let all = [server, phone, read, sent, watch];
    let first = all.iter().flatten().next().copied();
    let last = all.iter().flatten().next_back().copied();
    let total = between(first, last, if server.is_some() { shift } else { 0.0 });
    if total.is_none() || all.iter().flatten().count() < 2 {
        return Err(OwdError::OnePlace);
    }
    let mut notes = Vec::new();
    if segments.d1.is_some() && clock.is_none() {
        notes
            .push("server and phone have no ACK in common: d1 is of two clocks as they are".into());
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
        clock_error_us: clock.map(|c| c.error_us),
        clock,
        retransmitted_bytes: transfers
            .clone()
            .next()
            .map_or(0, |t| t.retransmitted_bytes),
        notes,
        incomplete: transfers.filter_map(|t| t.incomplete.clone()).next(),
    })
}

/// No byte arrives before it was sent, and no ACK: each bounds the clocks from one side.
fn bound(server: &Transfer, phone: &Transfer) -> Option<ClockBound> {
    let difference = |a: u64, b: u64| (i128::from(b) - i128::from(a)) as f64;
    let borders: BTreeSet<u64> = server
        .arrivals
        .borders()
        .chain(phone.arrivals.borders())
        .collect();
    // Retransmitted bytes may have come by a later copy than the first that was sent, which only
    // makes the bound wider.
    let high = borders
        .iter()
        .filter_map(|at| {
            Some(difference(
                server.arrivals.at_ns(*at)?,
                phone.arrivals.at_ns(*at)?,
            ))
        })
        .reduce(f64::min)?;
    let low = phone
        .acknowledged
        .iter()
        .filter_map(|(offset, left)| Some(difference(*server.acknowledged.get(offset)?, *left)))
        .reduce(f64::max)?;
    Some(ClockBound {
        offset_us: f64::midpoint(low, high) / 1e3,
        error_us: (high - low).abs() / 2.0 / 1e3,
    })
}

fn between(a: Option<&Arrivals>, b: Option<&Arrivals>, shift_ns: f64) -> Option<Segment> {
    let (a, b) = (a?, b?);
    let borders: BTreeSet<u64> = a.borders().chain(b.borders()).collect();
    let mut all: Vec<(f64, u64)> = Vec::new();
    for (from, to) in borders.iter().zip(borders.iter().skip(1)) {
        if let (Some(left), Some(came)) = (a.at_ns(*from), b.at_ns(*from)) {
            let ns = (i128::from(came) - i128::from(left)) as f64 - shift_ns;
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
