//! Decoding of frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::{Buf, Bytes};
use mpbond_units::{BitRate, printable};

use super::bounds::{MAX_ACK_COUNTS, MAX_HOST_BYTES, MAX_NAME_BYTES, MAX_REASON_BYTES, VERSION};
use super::capabilities::{Capabilities, Families, FrameTypes};
use super::destination::Destination;
use super::error::WireError;
use super::fields::{FieldId, Fields};
use super::frame::{AckCount, CHUNK_END, FIN, Frame, Limits, PathLabel, PathReport};
use super::frame_type::FrameType;
use super::role::Role;
use super::secret::Secret;
use super::varint::{self, VARINT_MAX};
use crate::class::StreamClass;
use crate::code::{CloseCode, ResetCode};
use crate::ids::{DeviceLabel, HelperId, SessionId, StreamId, SubflowId};
use crate::least_burst::LeastBurst;
use crate::path_set::{PathNumber, PathSet};
use crate::treatment::Treatment;

impl Frame {
    /// Takes one frame off the front of `record`.
    ///
    /// # Errors
    /// Any octet sequence that is no well-formed frame; the record is then of no further use.
    pub fn parse(record: &mut Bytes) -> Result<Self, WireError> {
        if record.is_empty() {
            return Err(WireError::Empty);
        }
        let kind = FrameType(record.get_u8());
        let short = WireError::Truncated(kind);
        let len = varint::take(record).ok_or(short)?;
        let len = usize::try_from(len).map_err(|_| short)?;
        if record.len() < len {
            return Err(short);
        }
        let body = record.split_to(len);
        let mut b = Body { kind, bytes: body };
        let mut frame = match kind {
            FrameType::DATA => return b.data(),
            FrameType::MP_CAPABLE => Self::MpCapable {
                random: Secret(b.version()?.array()?),
                subflow: b.subflow()?,
                limits: b.limits()?,
                path: b.path()?,
                capabilities: Capabilities::unannounced(),
            },
            FrameType::MP_OK => Self::MpOk {
                random: Secret(b.version()?.array()?),
                session: SessionId(b.array()?),
                limits: b.limits()?,
                capabilities: Capabilities::unannounced(),
            },
            FrameType::MP_JOIN => Self::MpJoin {
                session: SessionId(b.version()?.array()?),
                subflow: b.subflow()?,
                proof: Secret(b.array()?),
                path: b.path()?,
            },
            FrameType::MP_JOIN_OK => Self::MpJoinOk {
                proof: Secret(b.array()?),
            },
            FrameType::CLOSE => Self::Close {
                code: CloseCode::from_wire(b.u16()?),
                reason: b.reason()?,
            },
            FrameType::OPEN => Self::Open {
                stream: b.stream()?,
                treatment: b.class()?.into(),
                max_stream_data: b.varint()?,
                destination: b.destination()?,
                confirm: false,
            },
            FrameType::RESET => Self::Reset {
                stream: b.stream()?,
                code: ResetCode::from_wire(b.u16()?),
                final_offset: b.varint()?,
            },
            FrameType::STOP => Self::Stop {
                stream: b.stream()?,
                code: ResetCode::from_wire(b.u16()?),
            },
            FrameType::ACK => b.ack()?,
            FrameType::MAX_DATA => Self::MaxData(b.varint()?),
            FrameType::MAX_STREAM_DATA => Self::MaxStreamData {
                stream: b.stream()?,
                max: b.varint()?,
            },
            FrameType::MAX_STREAMS => Self::MaxStreams(b.varint()?),
            FrameType::PATH_REPORT => Self::PathReport(PathReport {
                number: b.varint()?,
                subflow: b.subflow()?,
                throughput: BitRate::from_bps(b.varint()?),
                rtt: b.micros()?,
                level_bytes: b.varint()?,
                age: b.micros()?,
                sojourn: None,
                held_back: false,
            }),
            FrameType::PING => Self::Ping(b.varint()?),
            FrameType::PONG => Self::Pong(b.varint()?),
            FrameType::SUBFLOW_ROLE => Self::SubflowRole {
                subflow: b.subflow()?,
                role: Role::from_wire(b.u8()?),
                cost: 0,
            },
            FrameType::CUT => Self::Cut {
                subflow: b.subflow()?,
            },
            FrameType::GO_AWAY => Self::GoAway {
                reason: b.reason()?,
            },
            FrameType::CONNECTED => Self::Connected {
                stream: b.stream()?,
            },
            FrameType::CLASS => Self::Class {
                stream: b.stream()?,
                change: b.varint()?,
                treatment: b.class()?.into(),
            },
            FrameType::CHUNK => Self::Chunk {
                stream: b.stream()?,
                end: b.varint()?,
            },
            FrameType::ADMIT => Self::Admit {
                subflow: b.subflow()?,
                change: b.varint()?,
                least: b.least_burst()?,
            },
            _ if kind.is_extension() => {
                return Ok(Self::Extension {
                    kind,
                    body: b.bytes,
                });
            }
            _ => return Err(WireError::UnknownType(kind)),
        };
        let mut fields = Fields::new(kind, b.bytes);
        while let Some((id, value)) = fields.take()? {
            frame.set_field(id, Body { kind, bytes: value })?;
        }
        Ok(frame)
    }

    /// Sets what an optional field gives; one that has no meaning in this frame is skipped.
    fn set_field(&mut self, id: FieldId, mut value: Body) -> Result<(), WireError> {
        match (self, id) {
            (
                Self::MpCapable { capabilities, .. } | Self::MpOk { capabilities, .. },
                FieldId::FAMILIES,
            ) => capabilities.families = Some(Families::from_wire(value.u8()?)),
            (
                Self::MpCapable { capabilities, .. } | Self::MpOk { capabilities, .. },
                FieldId::FRAME_TYPES,
            ) => {
                let bits = value.bytes.split_off(0);
                let types = FrameTypes::from_wire(&bits);
                capabilities.frame_types = types.ok_or(value.field("frame types"))?;
            }
            (
                Self::MpCapable { capabilities, .. } | Self::MpOk { capabilities, .. },
                FieldId::SERVICES,
            ) => capabilities.set_services(value.u8()?),
            (Self::MpCapable { path, .. } | Self::MpJoin { path, .. }, FieldId::PATH_NUMBER) => {
                let number = PathNumber::new(value.varint()?);
                path.number = Some(number.ok_or(value.field("path number"))?);
            }
            (Self::MpCapable { path, .. } | Self::MpJoin { path, .. }, FieldId::LENDER) => {
                path.lender = Some(DeviceLabel(value.array()?));
            }
            (Self::PathReport(report), FieldId::SOJOURN) => report.sojourn = Some(value.micros()?),
            (Self::PathReport(report), FieldId::HELD_BACK) => report.held_back = true,
            (Self::Open { confirm, .. }, FieldId::CONFIRM) => *confirm = true,
            (Self::SubflowRole { cost, .. }, FieldId::COST) => *cost = value.u8()?,
            (Self::Open { treatment, .. } | Self::Class { treatment, .. }, FieldId::PATHS) => {
                let paths = PathSet::from_wire(value.varint()?);
                treatment.paths = paths.ok_or(value.field("set of paths"))?;
            }
            (Self::Open { treatment, .. } | Self::Class { treatment, .. }, FieldId::PRIORITY) => {
                treatment.priority = value.u8()?.min(Treatment::MAX_PRIORITY)
            }
            _ => return Ok(()),
        }
        if value.bytes.is_empty() {
            Ok(())
        } else {
            Err(value.field("length of an optional field"))
        }
    }
}

/// The body of a frame while it is taken apart.
struct Body {
    kind: FrameType,
    bytes: Bytes,
}

impl Body {
    fn short(&self) -> WireError {
        WireError::Truncated(self.kind)
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

    /// Reads the version, with which every hello begins.
    fn version(&mut self) -> Result<&mut Self, WireError> {
        match self.u16()? {
            VERSION => Ok(self),
            other => Err(WireError::Version(other)),
        }
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
        self.u8().map(StreamClass::from_wire)
    }

    fn text(&mut self, what: &'static str, max: usize) -> Result<String, WireError> {
        let len = self.varint()?;
        if len > max as u64 {
            return Err(self.field(what));
        }
        let len = len as usize;
        if self.bytes.len() < len {
            return Err(self.short());
        }
        String::from_utf8(self.bytes.split_to(len).to_vec()).map_err(|_| self.field(what))
    }

    /// Text for people, which reaches terminals: made printable, at most as long as on the wire.
    fn reason(&mut self) -> Result<String, WireError> {
        let text = self.text("reason", MAX_REASON_BYTES)?;
        Ok(printable(&text, MAX_REASON_BYTES))
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
        let role = Role::from_wire(self.u8()?);
        let name = self.text("name", MAX_NAME_BYTES)?;
        if name.chars().any(char::is_control) {
            return Err(self.field("name"));
        }
        Ok(PathLabel {
            helper,
            role,
            name: printable(&name, MAX_NAME_BYTES),
            number: None,
            lender: None,
        })
    }

    fn least_burst(&mut self) -> Result<LeastBurst, WireError> {
        let least = LeastBurst {
            bytes: self.varint()?,
            background_bytes: self.varint()?,
            tail: self.micros()?,
        };
        match least.tail <= LeastBurst::MAX_TAIL {
            true => Ok(least),
            false => Err(self.field("tail")),
        }
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
        let number = self.varint()?;
        if number > MAX_ACK_COUNTS as u64 {
            return Err(self.field("number of counts"));
        }
        let mut counts = Vec::new();
        for _ in 0..number {
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
