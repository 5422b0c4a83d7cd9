//! Pairing messages and their encoding.

use std::net::{IpAddr, SocketAddr};

use super::EnrolmentSecret;

/// Version of the pairing protocol, sent in the first message, so that a mismatch is reported as
/// such.
pub(super) const VERSION: u8 = 1;
/// SPAKE2 message: one octet for the side and a curve point.
pub(super) const SPAKE_BYTES: usize = 33;
/// Proof: an HMAC-SHA256.
pub(super) const PROOF_BYTES: usize = 32;
/// Maximum length of a device's name in octets.
pub const MAX_NAME_BYTES: usize = 64;
/// Maximum length of a message in octets.
pub const MAX_MESSAGE_BYTES: usize = 128;

/// Role of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs the applications.
    Primary,
    /// Lends its link.
    Helper,
    /// The remote end of all paths.
    Proxy,
}

impl Role {
    /// Name in commands and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Helper => "helper",
            Self::Proxy => "proxy",
        }
    }

    /// Whether devices in these roles can be paired: exactly one is a primary.
    pub fn fits(self, other: Self) -> bool {
        (self == Self::Primary) != (other == Self::Primary)
    }

    const fn number(self) -> u8 {
        match self {
            Self::Primary => 0,
            Self::Helper => 1,
            Self::Proxy => 2,
        }
    }

    fn of_number(number: u8) -> Result<Self, MessageError> {
        [Self::Primary, Self::Helper, Self::Proxy]
            .into_iter()
            .find(|r| r.number() == number)
            .ok_or(MessageError("unknown role"))
    }
}

/// Description that a device sends after the other one has proven knowledge of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Role of the device.
    pub role: Role,
    /// Display name: 1 to [`MAX_NAME_BYTES`] octets without control characters (see [`is_name`]).
    pub name: String,
    /// Address of its daemon; `None` for a primary. An unspecified address means the address used
    /// for pairing.
    pub service: Option<SocketAddr>,
}

/// Reason code for ending a pairing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The proof is wrong: another code, or a man in the middle.
    WrongCode,
    /// The code was tried too often, or has been used.
    Void,
    /// Another attempt has just failed.
    TooSoon,
    /// The user declined.
    Declined,
    /// The roles do not match.
    Roles,
    /// The trust entry could not be stored.
    NotStored,
    /// A deadline has passed.
    Late,
    /// An unexpected message, or another protocol version.
    Protocol,
    /// The user cancelled.
    GivenUp,
    /// The token is unknown.
    TokenUnknown,
    /// The token has expired.
    TokenExpired,
    /// The token has been used as often as allowed.
    TokenUsed,
}

const REASONS: [StopReason; 12] = [
    StopReason::WrongCode,
    StopReason::Void,
    StopReason::TooSoon,
    StopReason::Declined,
    StopReason::Roles,
    StopReason::NotStored,
    StopReason::Late,
    StopReason::Protocol,
    StopReason::GivenUp,
    StopReason::TokenUnknown,
    StopReason::TokenExpired,
    StopReason::TokenUsed,
];

/// A pairing message; each takes one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// SPAKE2 message of either end.
    Start([u8; SPAKE_BYTES]),
    /// Proof of knowledge of the code.
    Proof([u8; PROOF_BYTES]),
    /// Description of the sending device.
    Introduction(Introduction),
    /// The user has agreed.
    Agreed,
    /// The trust entry has been stored.
    Stored,
    /// The sender ends the pairing.
    Stop(StopReason),
    /// A primary presents a token's secret to the proxy that the token names.
    Enrol {
        /// The token's secret.
        secret: EnrolmentSecret,
        /// Name of the primary.
        name: String,
    },
    /// The proxy has stored that it trusts the primary.
    Enrolled,
}

/// Error of decoding a [`Message`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pairing message: {0}")]
pub struct MessageError(pub(super) &'static str);

const START: u8 = 1;
const PROOF: u8 = 2;
const INTRODUCTION: u8 = 3;
const AGREED: u8 = 4;
const STORED: u8 = 5;
const STOP: u8 = 6;
const ENROL: u8 = 7;
const ENROLLED: u8 = 8;

impl Message {
    /// Encodes the message: its type, then its fields, the name last.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Start(spake) => [&[START, VERSION], &spake[..]].concat(),
            Self::Proof(proof) => [&[PROOF], &proof[..]].concat(),
            Self::Introduction(i) => {
                let mut out = vec![INTRODUCTION, i.role.number()];
                match i.service.map(|s| (s.ip(), s.port())) {
                    None => out.push(0),
                    Some((IpAddr::V4(ip), port)) => {
                        out.push(4);
                        out.extend_from_slice(&ip.octets());
                        out.extend_from_slice(&port.to_be_bytes());
                    }
                    Some((IpAddr::V6(ip), port)) => {
                        out.push(6);
                        out.extend_from_slice(&ip.octets());
                        out.extend_from_slice(&port.to_be_bytes());
                    }
                }
                out.extend_from_slice(i.name.as_bytes());
                out
            }
            Self::Agreed => vec![AGREED],
            Self::Stored => vec![STORED],
            Self::Stop(reason) => {
                let number = REASONS.iter().position(|r| r == reason).unwrap_or_default();
                vec![STOP, number as u8]
            }
            Self::Enrol { secret, name } => {
                [&[ENROL, VERSION], &secret.as_bytes()[..], name.as_bytes()].concat()
            }
            Self::Enrolled => vec![ENROLLED],
        }
    }

    /// Decodes the message in one record.
    ///
    /// # Errors
    /// When the record is not exactly one message.
    pub fn decode(octets: &[u8]) -> Result<Self, MessageError> {
        if octets.len() > MAX_MESSAGE_BYTES {
            return Err(MessageError("too long"));
        }
        let (kind, rest) = octets.split_first().ok_or(MessageError("empty"))?;
        match *kind {
            START => Ok(Self::Start(exactly(versioned(rest)?)?)),
            PROOF => Ok(Self::Proof(exactly(rest)?)),
            INTRODUCTION => introduction(rest),
            AGREED => nothing(rest, Self::Agreed),
            STORED => nothing(rest, Self::Stored),
            STOP => {
                let [number] = exactly(rest)?;
                let reason = REASONS.get(usize::from(number));
                let unknown = MessageError("unknown reason code");
                reason.copied().map(Self::Stop).ok_or(unknown)
            }
            ENROL => {
                let (secret, rest) = versioned(rest)?
                    .split_first_chunk()
                    .ok_or(MessageError("truncated"))?;
                Ok(Self::Enrol {
                    secret: EnrolmentSecret::from_bytes(*secret),
                    name: name(rest)?,
                })
            }
            ENROLLED => nothing(rest, Self::Enrolled),
            _ => Err(MessageError("unknown type")),
        }
    }
}

fn exactly<const N: usize>(octets: &[u8]) -> Result<[u8; N], MessageError> {
    octets.try_into().map_err(|_| MessageError("wrong length"))
}

fn nothing(octets: &[u8], message: Message) -> Result<Message, MessageError> {
    let [] = exactly(octets)?;
    Ok(message)
}

fn versioned(octets: &[u8]) -> Result<&[u8], MessageError> {
    match octets.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        Some(_) => Err(MessageError("unsupported protocol version")),
        None => Err(MessageError("truncated")),
    }
}

fn introduction(octets: &[u8]) -> Result<Message, MessageError> {
    const SHORT: MessageError = MessageError("truncated");
    let ([role, family], rest) = octets.split_first_chunk().ok_or(SHORT)?;
    let role = Role::of_number(*role)?;
    let (ip, rest) = match family {
        0 => (None, rest),
        4 => {
            let (ip, rest) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
            (Some(IpAddr::from(*ip)), rest)
        }
        6 => {
            let (ip, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            (Some(IpAddr::from(*ip)), rest)
        }
        _ => return Err(MessageError("unknown address family")),
    };
    let (service, rest) = match ip {
        None => (None, rest),
        Some(ip) => {
            let (port, rest) = rest.split_first_chunk().ok_or(SHORT)?;
            match u16::from_be_bytes(*port) {
                0 => return Err(MessageError("port 0")),
                port => (Some(SocketAddr::new(ip, port)), rest),
            }
        }
    };
    if service.is_some() == (role == Role::Primary) {
        return Err(MessageError("service address does not match the role"));
    }
    Ok(Message::Introduction(Introduction {
        role,
        name: name(rest)?,
        service,
    }))
}

/// A name is shown to the user who decides by it, so it must not contain invisible or cursor-moving
/// characters.
fn name(octets: &[u8]) -> Result<String, MessageError> {
    if octets.len() > MAX_NAME_BYTES {
        return Err(MessageError("name too long"));
    }
    let name = std::str::from_utf8(octets).map_err(|_| MessageError("name is not UTF-8"))?;
    if !is_name(name) {
        return Err(MessageError("name is not displayable"));
    }
    Ok(name.to_owned())
}

/// Whether text is a valid device name: visible, on one line, in reading order.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.trim() == name
        && name.chars().all(mpbond_units::is_printable)
}
