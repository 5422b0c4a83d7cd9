use std::net::{IpAddr, SocketAddr};

use super::EnrolmentSecret;

/// Of these messages; told first, so that later versions can be refused by name.
pub(super) const VERSION: u8 = 1;
/// A side letter and a point of the curve.
pub(super) const SPAKE_BYTES: usize = 33;
/// HMAC-SHA256.
pub(super) const PROOF_BYTES: usize = 32;
/// What a device may call itself, in octets.
pub const MAX_NAME_BYTES: usize = 64;
/// Longest message. A record that holds more is no message.
pub const MAX_MESSAGE_BYTES: usize = 128;

/// What a device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Where the applications are.
    Primary,
    /// Lends its link.
    Helper,
    /// The far end of all paths.
    Proxy,
}

impl Role {
    /// As in commands and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Helper => "helper",
            Self::Proxy => "proxy",
        }
    }

    /// Whether devices in these roles have a use for each other: a primary, and one of the others.
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
            .ok_or(MessageError("a role that does not exist"))
    }
}

/// What a device tells of itself once the other one has proven to have the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// What it is to the other one.
    pub role: Role,
    /// For people: 1 to [`MAX_NAME_BYTES`] octets, no control characters.
    pub name: String,
    /// Where its daemon listens; none for a primary. An unspecified address stands for the one
    /// that the pairing itself went over.
    pub service: Option<SocketAddr>,
}

/// Why a device ends a pairing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The proof does not fit: another code, or somebody in between.
    WrongCode,
    /// The code was tried too often, or is used up.
    Void,
    /// Another attempt has just failed.
    TooSoon,
    /// The person there said no.
    Declined,
    /// The two roles have no use for each other.
    Roles,
    /// It could not write down whom it trusts.
    NotStored,
    /// Its time was up.
    Late,
    /// A message that it did not expect, or of another version.
    Protocol,
    /// The person there gave it up.
    GivenUp,
    /// A token that it does not know.
    TokenUnknown,
    /// A token whose time is over.
    TokenExpired,
    /// A token that was used as often as it may be.
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

/// What the two devices say; one record holds one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The first message of SPAKE2, either way.
    Start([u8; SPAKE_BYTES]),
    /// The proof of having the code.
    Proof([u8; PROOF_BYTES]),
    /// Who this is.
    Introduction(Introduction),
    /// The person here has agreed.
    Agreed,
    /// This device has written down whom it trusts.
    Stored,
    /// It is over.
    Stop(StopReason),
    /// A primary presents a token's secret to the proxy that the token names.
    Enrol {
        /// The token's secret.
        secret: EnrolmentSecret,
        /// What the primary calls itself.
        name: String,
    },
    /// The proxy trusts the primary now.
    Enrolled,
}

/// Octets that are no message, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a bad pairing message: {0}")]
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
    /// The message's octets: its kind, then its fields, the name last.
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

    /// The message in one record.
    ///
    /// # Errors
    /// When it is none, the whole of it and nothing more.
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
                let unknown = MessageError("a reason that does not exist");
                reason.copied().map(Self::Stop).ok_or(unknown)
            }
            ENROL => {
                let (secret, rest) = versioned(rest)?
                    .split_first_chunk()
                    .ok_or(MessageError("it breaks off"))?;
                Ok(Self::Enrol {
                    secret: EnrolmentSecret::from_bytes(*secret),
                    name: name(rest)?,
                })
            }
            ENROLLED => nothing(rest, Self::Enrolled),
            _ => Err(MessageError("of an unknown kind")),
        }
    }
}

fn exactly<const N: usize>(octets: &[u8]) -> Result<[u8; N], MessageError> {
    octets
        .try_into()
        .map_err(|_| MessageError("of the wrong length"))
}

fn nothing(octets: &[u8], message: Message) -> Result<Message, MessageError> {
    let [] = exactly(octets)?;
    Ok(message)
}

fn versioned(octets: &[u8]) -> Result<&[u8], MessageError> {
    match octets.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        Some(_) => Err(MessageError("of another version of mpbond")),
        None => Err(MessageError("it breaks off")),
    }
}

fn introduction(octets: &[u8]) -> Result<Message, MessageError> {
    const SHORT: MessageError = MessageError("it breaks off");
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
        _ => return Err(MessageError("an address of an unknown kind")),
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
        return Err(MessageError("an address that does not fit its role"));
    }
    Ok(Message::Introduction(Introduction {
        role,
        name: name(rest)?,
        service,
    }))
}

/// A name is shown to a person who decides by it: nothing in it may move a cursor or hide.
fn name(octets: &[u8]) -> Result<String, MessageError> {
    if octets.len() > MAX_NAME_BYTES {
        return Err(MessageError("a name that is too long"));
    }
    let name = std::str::from_utf8(octets).map_err(|_| MessageError("a name that is no text"))?;
    if !is_name(name) {
        return Err(MessageError("a name that cannot be shown"));
    }
    Ok(name.to_owned())
}

/// Whether a device may call itself this: something visible on one line, in reading order.
pub fn is_name(name: &str) -> bool {
    // Marks that turn the direction of writing, and spaces without width.
    let hides = |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.trim() == name
        && !name.chars().any(|c| c.is_control() || hides(c))
}
