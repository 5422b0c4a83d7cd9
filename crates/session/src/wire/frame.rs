use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use mpbond_units::BitRate;
use thiserror::Error;

use super::varint::{self, VARINT_MAX};
use super::{MAX_ACK_COUNTS, MAX_HOST_BYTES, MAX_NAME_BYTES, MAX_REASON_BYTES};
use crate::{CloseCode, HelperId, ResetCode, SessionId, StreamClass, StreamId, SubflowId};

/// Where a stream leads, as the application named it. Names resolve at the proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Destination {
    /// A literal address.
    Addr(SocketAddr),
    /// A host name of at most 255 octets, and a port.
    Name {
        /// The name, as text.
        host: String,
        /// TCP port.
        port: u16,
    },
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(a) => a.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// What an end is ready to keep for its peer; absolute and only ever raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Unique stream bytes over all streams.
    pub max_data: u64,
    /// Bytes of a stream that has no limit of its own yet.
    pub max_stream_data: u64,
    /// Stream ids below this one may be used.
    pub max_streams: u64,
}

/// What the primary tells the proxy of a new subflow's way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathLabel {
    /// The helper it runs through; `None` for a direct one. It decides how PAD is computed.
    pub helper: Option<HelperId>,
    /// Used only when no regular subflow is left.
    pub backup: bool,
    /// A backup that also takes urgent copies past what its helper holds for another subflow. On
    /// the wire it is a third value of the same octet; who does not know it refuses the hello.
    pub express: bool,
    /// For people, at most [`super::MAX_NAME_BYTES`] octets.
    pub name: String,
}

/// How far one subflow has been received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckCount {
    /// The subflow.
    pub subflow: SubflowId,
    /// Ciphertext octets from the start of its TLS stream to the end of the last accepted record.
    pub count: u64,
    /// How long ago that record arrived, when the ACK was written.
    pub age: Duration,
    /// The pace at which its octets arrive while they come without a pause; zero if not known.
    pub pace: BitRate,
}

/// What is known of the hop of a helper subflow that the frame's receiver can't see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathReport {
    /// Rises with every report of the session: an older one is ignored.
    pub number: u64,
    /// The subflow that is spoken of.
    pub subflow: SubflowId,
    /// Throughput of the far hop, zero if unknown.
    pub throughput: BitRate,
    /// Round-trip time of the far hop, zero if unknown.
    pub rtt: Duration,
    /// Bytes in the helper's buffer, in the direction towards the frame's sender.
    pub level_bytes: u64,
    /// How old the facts were when the frame was written.
    pub age: Duration,
    /// How long the last byte that left the helper had been there; told only where
    /// [`crate::BufferDelay::Measured`] asks for it.
    pub sojourn: Option<Duration>,
}

/// A frame of the session protocol (`docs/protocol.md`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// First frame of the session's first subflow.
    MpCapable {
        /// Protocol version, [`super::VERSION`].
        version: u16,
        /// The primary's share of the session key.
        random: [u8; 32],
        /// This subflow's number.
        subflow: SubflowId,
        /// What the primary is ready to keep.
        limits: Limits,
        /// Which way it takes.
        path: PathLabel,
    },
    /// The proxy's answer to MP_CAPABLE.
    MpOk {
        /// Protocol version.
        version: u16,
        /// The proxy's share of the session key.
        random: [u8; 32],
        /// The new session.
        session: SessionId,
        /// What the proxy is ready to keep.
        limits: Limits,
    },
    /// First frame of a further subflow.
    MpJoin {
        /// Protocol version.
        version: u16,
        /// The session to join.
        session: SessionId,
        /// This subflow's number, never used before in the session.
        subflow: SubflowId,
        /// Proof of the session key, bound to this TLS session.
        proof: [u8; 32],
        /// Which way it takes.
        path: PathLabel,
    },
    /// The proxy's answer to MP_JOIN.
    MpJoinOk {
        /// The proxy's proof.
        proof: [u8; 32],
    },
    /// The subflow ends here.
    Close {
        /// Why.
        code: CloseCode,
        /// The same for people; may be empty.
        reason: String,
    },
    /// A new stream.
    Open {
        /// Its number.
        stream: StreamId,
        /// What kind of traffic it carries.
        class: StreamClass,
        /// How many bytes of it the primary is ready to keep.
        max_stream_data: u64,
        /// Where it leads.
        destination: Destination,
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// The stream ends after these bytes.
        fin: bool,
        /// An application data chunk ends after these bytes.
        chunk_end: bool,
        /// The bytes; empty only together with `fin` or `chunk_end`.
        bytes: Bytes,
    },
    /// The sender of a stream gives it up.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why.
        code: ResetCode,
        /// How many bytes of the stream were ever sent.
        final_offset: u64,
    },
    /// The receiver of a stream wants no more of it.
    Stop {
        /// The stream.
        stream: StreamId,
        /// Why.
        code: ResetCode,
    },
    /// How far subflows have been received.
    Ack {
        /// The writer's clock when it wrote this, microseconds from an epoch of its own.
        time_us: u64,
        /// One count a subflow.
        counts: Vec<AckCount>,
    },
    /// Raises the session window.
    MaxData(u64),
    /// Raises a stream's window.
    MaxStreamData {
        /// The stream.
        stream: StreamId,
        /// Bytes of the stream that may be sent in all.
        max: u64,
    },
    /// Raises the number of streams.
    MaxStreams(u64),
    /// Facts on a helper subflow's far hop.
    PathReport(PathReport),
    /// Asks for a PONG with the same token.
    Ping(u64),
    /// Answers PING.
    Pong(u64),
    /// Makes a subflow regular or backup.
    SubflowPriority {
        /// The subflow.
        subflow: SubflowId,
        /// Used only when no regular subflow is left.
        backup: bool,
    },
    /// The writer resets this subflow, since it carried only copies: join anew.
    Cut {
        /// The subflow.
        subflow: SubflowId,
    },
    /// No new streams, please.
    GoAway {
        /// Why, for people.
        reason: String,
    },
}

/// A record that is not made of well-formed frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// A length points beyond the record, or a body is shorter than its fields.
    #[error("frame of type {kind:#04x} is cut short")]
    Truncated {
        /// The frame type.
        kind: u8,
    },
    /// Octets are left over in a body.
    #[error("frame of type {kind:#04x} is longer than its fields")]
    Excess {
        /// The frame type.
        kind: u8,
    },
    /// A field holds a value out of bounds.
    #[error("frame of type {kind:#04x}: {what} is out of bounds")]
    Field {
        /// The frame type.
        kind: u8,
        /// The field.
        what: &'static str,
    },
    /// A frame type that this version does not know.
    #[error("unknown frame type {0:#04x}")]
    UnknownType(u8),
}

mod kind {
    pub const MP_CAPABLE: u8 = 0x01;
    pub const MP_OK: u8 = 0x02;
    pub const MP_JOIN: u8 = 0x03;
    pub const MP_JOIN_OK: u8 = 0x04;
    pub const CLOSE: u8 = 0x05;
    pub const OPEN: u8 = 0x10;
    pub const DATA: u8 = 0x11;
    pub const RESET: u8 = 0x12;
    pub const STOP: u8 = 0x13;
    pub const ACK: u8 = 0x14;
    pub const MAX_DATA: u8 = 0x15;
    pub const MAX_STREAM_DATA: u8 = 0x16;
    pub const MAX_STREAMS: u8 = 0x17;
    pub const PATH_REPORT: u8 = 0x18;
    // 0x19 is kept for DATAGRAM (UDP, not yet carried).
    pub const PING: u8 = 0x1a;
    pub const PONG: u8 = 0x1b;
    pub const SUBFLOW_PRIORITY: u8 = 0x1c;
    pub const CUT: u8 = 0x1d;
    pub const GO_AWAY: u8 = 0x1e;
}

const FIN: u8 = 1;
const CHUNK_END: u8 = 2;

/// Most octets that a DATA frame adds to its bytes: type, length, stream, offset, flags.
pub(crate) const DATA_OVERHEAD_MAX: usize = 1 + 4 + 8 + 8 + 1;

/// Writes all of a DATA frame but its bytes, which the caller appends.
#[inline]
pub(crate) fn put_data_header(
    out: &mut Vec<u8>,
    stream: StreamId,
    offset: u64,
    len: usize,
    fin: bool,
    chunk_end: bool,
) {
    let body = varint::varint_len(stream.0) + varint::varint_len(offset) + 1 + len;
    out.put_u8(kind::DATA);
    varint::put(out, body as u64);
    varint::put(out, stream.0);
    varint::put(out, offset);
    out.put_u8(if fin { FIN } else { 0 } | if chunk_end { CHUNK_END } else { 0 });
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros())
        .unwrap_or(VARINT_MAX)
        .min(VARINT_MAX)
}

fn cut_text(text: &str, max: usize) -> &[u8] {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

impl Frame {
    /// Appends the frame to a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Self::Data {
            stream,
            offset,
            fin,
            chunk_end,
            bytes,
        } = self
        {
            put_data_header(out, *stream, *offset, bytes.len(), *fin, *chunk_end);
            out.extend_from_slice(bytes);
            return;
        }
        out.push(self.kind());
        // The body goes behind a two-octet length, which every other frame fits.
        let at = out.len();
        out.extend_from_slice(&[0, 0]);
        self.encode_body(out);
        let len = (out.len() - at - 2) as u16 | 0x4000;
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Self::MpCapable { .. } => kind::MP_CAPABLE,
            Self::MpOk { .. } => kind::MP_OK,
            Self::MpJoin { .. } => kind::MP_JOIN,
            Self::MpJoinOk { .. } => kind::MP_JOIN_OK,
            Self::Close { .. } => kind::CLOSE,
            Self::Open { .. } => kind::OPEN,
            Self::Data { .. } => kind::DATA,
            Self::Reset { .. } => kind::RESET,
            Self::Stop { .. } => kind::STOP,
            Self::Ack { .. } => kind::ACK,
            Self::MaxData(_) => kind::MAX_DATA,
            Self::MaxStreamData { .. } => kind::MAX_STREAM_DATA,
            Self::MaxStreams(_) => kind::MAX_STREAMS,
            Self::PathReport(_) => kind::PATH_REPORT,
            Self::Ping(_) => kind::PING,
            Self::Pong(_) => kind::PONG,
            Self::SubflowPriority { .. } => kind::SUBFLOW_PRIORITY,
            Self::Cut { .. } => kind::CUT,
            Self::GoAway { .. } => kind::GO_AWAY,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::MpCapable {
                version,
                random,
                subflow,
                limits,
                path,
            } => {
                out.put_u16(*version);
                out.put_slice(random);
                varint::put(out, u64::from(subflow.0));
                put_limits(out, limits);
                put_path(out, path);
            }
            Self::MpOk {
                version,
                random,
                session,
                limits,
            } => {
                out.put_u16(*version);
                out.put_slice(random);
                out.put_slice(&session.0);
                put_limits(out, limits);
            }
            Self::MpJoin {
                version,
                session,
                subflow,
                proof,
                path,
            } => {
                out.put_u16(*version);
                out.put_slice(&session.0);
                varint::put(out, u64::from(subflow.0));
                out.put_slice(proof);
                put_path(out, path);
            }
            Self::MpJoinOk { proof } => out.put_slice(proof),
            Self::Close { code, reason } => {
                out.put_u16(code.to_wire());
                out.put_slice(cut_text(reason, MAX_REASON_BYTES));
            }
            Self::Open {
                stream,
                class,
                max_stream_data,
                destination,
            } => {
                varint::put(out, stream.0);
                out.put_u8(class.to_wire());
                varint::put(out, *max_stream_data);
                put_destination(out, destination);
            }
            // `encode` has dealt with it.
            Self::Data { .. } => {}
            Self::Reset {
                stream,
                code,
                final_offset,
            } => {
                varint::put(out, stream.0);
                out.put_u16(code.to_wire());
                varint::put(out, *final_offset);
            }
            Self::Stop { stream, code } => {
                varint::put(out, stream.0);
                out.put_u16(code.to_wire());
            }
            Self::Ack { time_us, counts } => {
                varint::put(out, *time_us);
                for c in counts.iter().take(MAX_ACK_COUNTS) {
                    varint::put(out, u64::from(c.subflow.0));
                    varint::put(out, c.count);
                    varint::put(out, micros(c.age));
                    varint::put(out, c.pace.bps().min(VARINT_MAX));
                }
            }
            Self::MaxData(v) | Self::MaxStreams(v) | Self::Ping(v) | Self::Pong(v) => {
                varint::put(out, *v);
            }
            Self::MaxStreamData { stream, max } => {
                varint::put(out, stream.0);
                varint::put(out, *max);
            }
            Self::PathReport(r) => {
                varint::put(out, r.number);
                varint::put(out, u64::from(r.subflow.0));
                varint::put(out, r.throughput.bps().min(VARINT_MAX));
                varint::put(out, micros(r.rtt));
                varint::put(out, r.level_bytes);
                varint::put(out, micros(r.age));
                if let Some(sojourn) = r.sojourn {
                    varint::put(out, micros(sojourn));
                }
            }
            Self::SubflowPriority { subflow, backup } => {
                varint::put(out, u64::from(subflow.0));
                out.put_u8(u8::from(*backup));
            }
            Self::Cut { subflow } => varint::put(out, u64::from(subflow.0)),
            Self::GoAway { reason } => out.put_slice(cut_text(reason, MAX_REASON_BYTES)),
        }
    }

    /// Takes one frame off the front of `record`.
    ///
    /// # Errors
    /// Any octet sequence that is no well-formed frame; the record is then of no further use.
    pub fn parse(record: &mut Bytes) -> Result<Self, WireError> {
        if record.is_empty() {
            return Err(WireError::Truncated { kind: 0 });
        }
        let kind = record.get_u8();
        let short = WireError::Truncated { kind };
        let len = varint::take(record).ok_or(short)?;
        let len = usize::try_from(len).map_err(|_| short)?;
        if record.len() < len {
            return Err(short);
        }
        let body = record.split_to(len);
        let mut b = Body { kind, bytes: body };
        let frame = match kind {
            kind::DATA => return b.data(),
            kind::MP_CAPABLE => Self::MpCapable {
                version: b.u16()?,
                random: b.array()?,
                subflow: b.subflow()?,
                limits: b.limits()?,
                path: b.path()?,
            },
            kind::MP_OK => Self::MpOk {
                version: b.u16()?,
                random: b.array()?,
                session: SessionId(b.array()?),
                limits: b.limits()?,
            },
            kind::MP_JOIN => Self::MpJoin {
                version: b.u16()?,
                session: SessionId(b.array()?),
                subflow: b.subflow()?,
                proof: b.array()?,
                path: b.path()?,
            },
            kind::MP_JOIN_OK => Self::MpJoinOk { proof: b.array()? },
            kind::CLOSE => Self::Close {
                code: CloseCode::from_wire(b.u16()?),
                reason: b.text("reason", MAX_REASON_BYTES)?,
            },
            kind::OPEN => Self::Open {
                stream: b.stream()?,
                class: b.class()?,
                max_stream_data: b.varint()?,
                destination: b.destination()?,
            },
            kind::RESET => Self::Reset {
                stream: b.stream()?,
                code: ResetCode::from_wire(b.u16()?),
                final_offset: b.varint()?,
            },
            kind::STOP => Self::Stop {
                stream: b.stream()?,
                code: ResetCode::from_wire(b.u16()?),
            },
            kind::ACK => b.ack()?,
            kind::MAX_DATA => Self::MaxData(b.varint()?),
            kind::MAX_STREAM_DATA => Self::MaxStreamData {
                stream: b.stream()?,
                max: b.varint()?,
            },
            kind::MAX_STREAMS => Self::MaxStreams(b.varint()?),
            kind::PATH_REPORT => Self::PathReport(PathReport {
                number: b.varint()?,
                subflow: b.subflow()?,
                throughput: BitRate::from_bps(b.varint()?),
                rtt: b.micros()?,
                level_bytes: b.varint()?,
                age: b.micros()?,
                sojourn: b.micros_if_any()?,
            }),
            kind::PING => Self::Ping(b.varint()?),
            kind::PONG => Self::Pong(b.varint()?),
            kind::SUBFLOW_PRIORITY => Self::SubflowPriority {
                subflow: b.subflow()?,
                backup: b.flag("backup")?,
            },
            kind::CUT => Self::Cut {
                subflow: b.subflow()?,
            },
            kind::GO_AWAY => Self::GoAway {
                reason: b.text("reason", MAX_REASON_BYTES)?,
            },
            other => return Err(WireError::UnknownType(other)),
        };
        if b.bytes.is_empty() {
            Ok(frame)
        } else {
            Err(WireError::Excess { kind })
        }
    }

    /// Whether the receiver owes an acknowledgement for it: all but ACK, PATH_REPORT and PONG.
    pub fn elicits_ack(&self) -> bool {
        !matches!(
            self,
            Self::Ack { .. } | Self::PathReport(_) | Self::Pong(_) | Self::Close { .. }
        )
    }
}

fn put_limits(out: &mut Vec<u8>, l: &Limits) {
    varint::put(out, l.max_data);
    varint::put(out, l.max_stream_data);
    varint::put(out, l.max_streams);
}

fn put_path(out: &mut Vec<u8>, p: &PathLabel) {
    varint::put(out, p.helper.map_or(0, |h| u64::from(h.0) + 1));
    out.put_u8(if p.express { 2 } else { u8::from(p.backup) });
    out.put_slice(cut_text(&p.name, MAX_NAME_BYTES));
}

fn put_destination(out: &mut Vec<u8>, d: &Destination) {
    match d {
        Destination::Addr(SocketAddr::V4(a)) => {
            out.put_u8(4);
            out.put_slice(&a.ip().octets());
            out.put_u16(a.port());
        }
        Destination::Addr(SocketAddr::V6(a)) => {
            out.put_u8(6);
            out.put_slice(&a.ip().octets());
            out.put_u16(a.port());
        }
        Destination::Name { host, port } => {
            out.put_u8(3);
            out.put_u16(*port);
            out.put_slice(cut_text(host, MAX_HOST_BYTES));
        }
    }
}

/// The body of a frame while it is taken apart.
struct Body {
    kind: u8,
    bytes: Bytes,
}

impl Body {
    fn short(&self) -> WireError {
        WireError::Truncated { kind: self.kind }
    }

    fn field(&self, what: &'static str) -> WireError {
        WireError::Field {
            kind: self.kind,
            what,
        }
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        if self.bytes.is_empty() {
            return Err(self.short());
        }
        Ok(self.bytes.get_u8())
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        if self.bytes.len() < 2 {
            return Err(self.short());
        }
        Ok(self.bytes.get_u16())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        if self.bytes.len() < N {
            return Err(self.short());
        }
        let mut a = [0; N];
        self.bytes.copy_to_slice(&mut a);
        Ok(a)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        varint::take(&mut self.bytes).ok_or(self.short())
    }

    fn micros(&mut self) -> Result<Duration, WireError> {
        Ok(Duration::from_micros(self.varint()?))
    }

    fn micros_if_any(&mut self) -> Result<Option<Duration>, WireError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.micros().map(Some)
    }

    fn subflow(&mut self) -> Result<SubflowId, WireError> {
        let v = self.varint()?;
        u32::try_from(v)
            .map(SubflowId)
            .map_err(|_| self.field("subflow id"))
    }

    fn stream(&mut self) -> Result<StreamId, WireError> {
        self.varint().map(StreamId)
    }

    fn class(&mut self) -> Result<StreamClass, WireError> {
        let v = self.u8()?;
        StreamClass::from_wire(v).ok_or(self.field("class"))
    }

    fn flag(&mut self, what: &'static str) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.field(what)),
        }
    }

    fn text(&mut self, what: &'static str, max: usize) -> Result<String, WireError> {
        let rest = self.bytes.split_off(0);
        if rest.len() > max {
            return Err(self.field(what));
        }
        String::from_utf8(rest.to_vec()).map_err(|_| self.field(what))
    }

    fn limits(&mut self) -> Result<Limits, WireError> {
        Ok(Limits {
            max_data: self.varint()?,
            max_stream_data: self.varint()?,
            max_streams: self.varint()?,
        })
    }

    fn path(&mut self) -> Result<PathLabel, WireError> {
        let helper = match self.varint()? {
            0 => None,
            n => Some(HelperId(
                u32::try_from(n - 1).map_err(|_| self.field("helper"))?,
            )),
        };
        let (backup, express) = match self.u8()? {
            0 => (false, false),
            1 => (true, false),
            2 => (true, true),
            _ => return Err(self.field("backup")),
        };
        let name = self.text("name", MAX_NAME_BYTES)?;
        if name.chars().any(char::is_control) {
            return Err(self.field("name"));
        }
        Ok(PathLabel {
            helper,
            backup,
            express,
            name,
        })
    }

    fn destination(&mut self) -> Result<Destination, WireError> {
        match self.u8()? {
            4 => {
                let ip = Ipv4Addr::from(self.array::<4>()?);
                Ok(Destination::Addr((IpAddr::V4(ip), self.u16()?).into()))
            }
            6 => {
                let ip = Ipv6Addr::from(self.array::<16>()?);
                Ok(Destination::Addr((IpAddr::V6(ip), self.u16()?).into()))
            }
            3 => {
                let port = self.u16()?;
                let host = self.text("host name", MAX_HOST_BYTES)?;
                if host.is_empty() || host.chars().any(|c| c.is_control() || c.is_whitespace()) {
                    return Err(self.field("host name"));
                }
                Ok(Destination::Name { host, port })
            }
            _ => Err(self.field("destination type")),
        }
    }

    fn ack(&mut self) -> Result<Frame, WireError> {
        let time_us = self.varint()?;
        let mut counts = Vec::new();
        while !self.bytes.is_empty() {
            if counts.len() == MAX_ACK_COUNTS {
                return Err(self.field("number of counts"));
            }
            counts.push(AckCount {
                subflow: self.subflow()?,
                count: self.varint()?,
                age: self.micros()?,
                pace: BitRate::from_bps(self.varint()?),
            });
        }
        Ok(Frame::Ack { time_us, counts })
    }

    fn data(mut self) -> Result<Frame, WireError> {
        let stream = self.stream()?;
        let offset = self.varint()?;
        let flags = self.u8()?;
        if flags & !(FIN | CHUNK_END) != 0 {
            return Err(self.field("flags"));
        }
        if self.bytes.is_empty() && flags == 0 {
            return Err(self.field("length"));
        }
        if offset + self.bytes.len() as u64 > VARINT_MAX {
            return Err(self.field("offset"));
        }
        Ok(Frame::Data {
            stream,
            offset,
            fin: flags & FIN != 0,
            chunk_end: flags & CHUNK_END != 0,
            bytes: self.bytes,
        })
    }
}

#[cfg(test)]
mod tests;
