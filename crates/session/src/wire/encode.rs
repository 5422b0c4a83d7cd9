//! Encoding of frames.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BufMut;

use super::bounds::{MAX_ACK_COUNTS, MAX_HOST_BYTES, MAX_NAME_BYTES, MAX_REASON_BYTES, VERSION};
use super::capabilities::Capabilities;
use super::destination::Destination;
use super::fields::{self, FieldId};
use super::frame::{CHUNK_END, FIN, Frame, Limits, PathLabel};
use super::frame_type::FrameType;
use super::varint::{self, VARINT_MAX};
use crate::ids::StreamId;
use crate::least_burst::LeastBurst;
use crate::treatment::Treatment;

/// Maximum octets that a DATA frame adds to its bytes: type, length, stream, offset, flags.
pub(crate) const DATA_OVERHEAD_MAX: usize = 1 + 4 + 8 + 8 + 1;

/// No OPEN frame is longer, in octets.
pub(crate) const OPEN_BYTES_MAX: usize = 320;

/// Appends a DATA frame up to its bytes, which the caller appends.
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
    out.put_u8(FrameType::DATA.0);
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

/// Appends a text behind its length, cut to `max` octets.
fn put_text(out: &mut Vec<u8>, text: &str, max: usize) {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    varint::put(out, end as u64);
    out.put_slice(&text.as_bytes()[..end]);
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
        if let Self::Extension { kind, body } = self {
            out.push(kind.0);
            varint::put(out, body.len() as u64);
            out.extend_from_slice(body);
            return;
        }
        out.push(self.kind().0);
        // The body follows a two-octet length, which is enough for any other frame of a record.
        let at = out.len();
        out.extend_from_slice(&[0, 0]);
        self.encode_body(out);
        let len = (out.len() - at - 2) as u16 | 0x4000;
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::MpCapable {
                random,
                subflow,
                limits,
                path,
                capabilities,
            } => {
                out.put_u16(VERSION);
                out.put_slice(&random.0);
                varint::put(out, u64::from(subflow.0));
                put_limits(out, limits);
                put_path(out, path);
                put_capabilities(out, capabilities);
                put_path_fields(out, path);
            }
            Self::MpOk {
                random,
                session,
                limits,
                capabilities,
            } => {
                out.put_u16(VERSION);
                out.put_slice(&random.0);
                out.put_slice(&session.0);
                put_limits(out, limits);
                put_capabilities(out, capabilities);
            }
            Self::MpJoin {
                session,
                subflow,
                proof,
                path,
            } => {
                out.put_u16(VERSION);
                out.put_slice(&session.0);
                varint::put(out, u64::from(subflow.0));
                out.put_slice(&proof.0);
                put_path(out, path);
                put_path_fields(out, path);
            }
            Self::MpJoinOk { proof } => out.put_slice(&proof.0),
            Self::Close { code, reason } => {
                out.put_u16(code.to_wire());
                put_text(out, reason, MAX_REASON_BYTES);
            }
            Self::Open {
                stream,
                treatment,
                max_stream_data,
                destination,
                confirm,
            } => {
                varint::put(out, stream.0);
                out.put_u8(treatment.class.to_wire());
                varint::put(out, *max_stream_data);
                put_destination(out, destination);
                if *confirm {
                    fields::put(out, FieldId::CONFIRM, &[]);
                }
                put_treatment(out, treatment);
            }
            // `encode` has dealt with these.
            Self::Data { .. } | Self::Extension { .. } => {}
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
                let counts = &counts[..counts.len().min(MAX_ACK_COUNTS)];
                varint::put(out, counts.len() as u64);
                for c in counts {
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
            Self::Chunk { stream, end } => {
                varint::put(out, stream.0);
                varint::put(out, *end);
            }
            Self::PathReport(r) => {
                varint::put(out, r.number);
                varint::put(out, u64::from(r.subflow.0));
                varint::put(out, r.throughput.bps().min(VARINT_MAX));
                varint::put(out, micros(r.rtt));
                varint::put(out, r.level_bytes);
                varint::put(out, micros(r.age));
                if let Some(sojourn) = r.sojourn {
                    fields::put_varint(out, FieldId::SOJOURN, micros(sojourn));
                }
                if r.held_back {
                    fields::put(out, FieldId::HELD_BACK, &[]);
                }
            }
            Self::SubflowRole {
                subflow,
                role,
                cost,
            } => {
                varint::put(out, u64::from(subflow.0));
                out.put_u8(role.to_wire());
                if *cost != 0 {
                    fields::put(out, FieldId::COST, &[*cost]);
                }
            }
            Self::Cut { subflow } => varint::put(out, u64::from(subflow.0)),
            Self::GoAway { reason } => put_text(out, reason, MAX_REASON_BYTES),
            Self::Connected { stream } => varint::put(out, stream.0),
            Self::Class {
                stream,
                change,
                treatment,
            } => {
                varint::put(out, stream.0);
                varint::put(out, *change);
                out.put_u8(treatment.class.to_wire());
                put_treatment(out, treatment);
            }
            Self::Admit {
                subflow,
                change,
                least,
            } => {
                varint::put(out, u64::from(subflow.0));
                varint::put(out, *change);
                varint::put(out, least.bytes.min(VARINT_MAX));
                varint::put(out, least.background_bytes.min(VARINT_MAX));
                varint::put(out, micros(least.tail.min(LeastBurst::MAX_TAIL)));
            }
        }
    }
}

fn put_limits(out: &mut Vec<u8>, l: &Limits) {
    varint::put(out, l.max_data);
    varint::put(out, l.max_stream_data);
    varint::put(out, l.max_streams);
}

fn put_path(out: &mut Vec<u8>, p: &PathLabel) {
    varint::put(out, p.helper.map_or(0, |h| u64::from(h.0) + 1));
    out.put_u8(p.role.to_wire());
    put_text(out, &p.name, MAX_NAME_BYTES);
}

fn put_path_fields(out: &mut Vec<u8>, p: &PathLabel) {
    if let Some(number) = p.number {
        fields::put_varint(out, FieldId::PATH_NUMBER, u64::from(number.get()));
    }
    if let Some(lender) = &p.lender {
        fields::put(out, FieldId::LENDER, &lender.0);
    }
}

/// Appends the fields of a treatment; its class is a fixed field.
fn put_treatment(out: &mut Vec<u8>, t: &Treatment) {
    if let Some(paths) = t.paths.to_wire() {
        fields::put_varint(out, FieldId::PATHS, paths);
    }
    if t.priority != 0 {
        fields::put(out, FieldId::PRIORITY, &[t.priority]);
    }
}

fn put_capabilities(out: &mut Vec<u8>, c: &Capabilities) {
    if let Some(families) = c.families {
        fields::put(out, FieldId::FAMILIES, &[families.to_wire()]);
    }
    fields::put(out, FieldId::FRAME_TYPES, c.frame_types.octets());
    if c.services() != 0 {
        fields::put(out, FieldId::SERVICES, &[c.services()]);
    }
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
            put_text(out, host, MAX_HOST_BYTES);
        }
    }
}
