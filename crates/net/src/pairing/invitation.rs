use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::{CodeError, PairingCode};
use crate::identity::{DeviceId, ParseDeviceIdError};

/// Of a token's secret: out of reach of any search.
pub const ENROLMENT_SECRET_BYTES: usize = 16;
/// A device is reached by few addresses; more make a picture that no camera reads.
const MAX_ADDRESSES: usize = 4;
const PAIR: &str = "MPBOND:PAIR/";
const ENROL: &str = "MPBOND:ENROL/";

/// Text that is neither invitation nor token, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It does not begin like one.
    #[error("it does not begin with \"{0}\"")]
    Kind(&'static str),
    /// Too few parts, or too many.
    #[error("it has {0} parts between slashes, not 3: was all of it copied?")]
    Parts(usize),
    /// A part that should be an address.
    #[error("\"{}\" is no address and port", .0.escape_debug())]
    Address(String),
    /// More addresses than a device shows.
    #[error("{0} addresses; at most {MAX_ADDRESSES} are looked at")]
    Addresses(usize),
    /// A part that should be a device id.
    #[error(transparent)]
    Device(#[from] ParseDeviceIdError),
    /// A part that should be a code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// A part that should be a secret.
    #[error("its secret is not {} letters A-F and digits", 2 * ENROLMENT_SECRET_BYTES)]
    Secret,
}

/// Everything that a caller needs, as a listener's QR code says it:
/// `MPBOND:PAIR/ADDRESS:PORT/CODE/ID`, with commas between several addresses.
///
/// Unlike the code alone it names the listener's fingerprint, so that a device in between is
/// noticed before anything is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Where the listener is reached; the likeliest first.
    pub addresses: Vec<SocketAddr>,
    /// The short code.
    pub code: PairingCode,
    /// Who has to answer.
    pub id: DeviceId,
}

/// Three parts behind a prefix, whatever their case.
fn parts<'a>(text: &'a str, prefix: &'static str) -> Result<[&'a str; 3], TextError> {
    let text = text.trim();
    let rest = match text.split_at_checked(prefix.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
        _ => return Err(TextError::Kind(prefix)),
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let found = parts.len();
    parts.try_into().map_err(|_| TextError::Parts(found))
}

fn address(text: &str) -> Result<SocketAddr, TextError> {
    text.parse()
        .map_err(|_| TextError::Address(text.chars().take(64).collect()))
}

impl Invitation {
    /// Whether text is meant as an invitation, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        !matches!(parts(text, PAIR), Err(TextError::Kind(_)))
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Upper case throughout: QR codes have a denser form for that.
        f.write_str(PAIR)?;
        for (i, address) in self.addresses.iter().take(MAX_ADDRESSES).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{address}")?;
        }
        write!(f, "/{}/{}", self.code, self.id)
    }
}

impl FromStr for Invitation {
    type Err = TextError;

    fn from_str(s: &str) -> Result<Self, TextError> {
        let [addresses, code, id] = parts(s, PAIR)?;
        let count = addresses.split(',').count();
        if count > MAX_ADDRESSES {
            return Err(TextError::Addresses(count));
        }
        Ok(Self {
            addresses: addresses
                .split(',')
                .map(address)
                .collect::<Result<_, _>>()?,
            code: code.parse()?,
            id: id.parse()?,
        })
    }
}

/// What lets its bearer be trusted by a proxy, once or a few times. Never shown in logs.
#[derive(Clone)]
pub struct EnrolmentSecret([u8; ENROLMENT_SECRET_BYTES]);

impl EnrolmentSecret {
    /// The secret with these octets.
    pub const fn from_bytes(octets: [u8; ENROLMENT_SECRET_BYTES]) -> Self {
        Self(octets)
    }

    /// A fresh one.
    ///
    /// # Errors
    /// When the system's random source fails.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        let mut octets = [0; ENROLMENT_SECRET_BYTES];
        SystemRandom::new().fill(&mut octets)?;
        Ok(Self(octets))
    }

    pub(super) fn as_bytes(&self) -> &[u8; ENROLMENT_SECRET_BYTES] {
        &self.0
    }

    /// What a proxy keeps of it: SHA-256. One round will do, since nobody searches through 2^128.
    pub fn hash(&self) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"mpbond enrolment token 1");
        context.update(&self.0);
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }
}

impl PartialEq for EnrolmentSecret {
    /// Takes the same time whatever the octets are.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for EnrolmentSecret {}

impl fmt::Debug for EnrolmentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnrolmentSecret(..)")
    }
}

/// What a proxy's owner gives to a primary's: `MPBOND:ENROL/ADDRESS:PORT/ID/SECRET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentToken {
    /// Where the proxy listens.
    pub address: SocketAddr,
    /// Who has to answer: the secret is told to nobody else.
    pub id: DeviceId,
    /// What makes the proxy trust its bearer.
    pub secret: EnrolmentSecret,
}

impl EnrolmentToken {
    /// Whether text is meant as a token, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        !matches!(parts(text, ENROL), Err(TextError::Kind(_)))
    }
}

impl fmt::Display for EnrolmentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ENROL}{}/{}/", self.address, self.id)?;
        for octet in self.secret.0 {
            write!(f, "{octet:02X}")?;
        }
        Ok(())
    }
}

impl FromStr for EnrolmentToken {
    type Err = TextError;

    fn from_str(s: &str) -> Result<Self, TextError> {
        let [at, id, secret] = parts(s, ENROL)?;
        let (address, id) = (address(at)?, id.parse()?);
        let digits: Option<Vec<u8>> = secret
            .chars()
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect();
        let digits: [u8; 2 * ENROLMENT_SECRET_BYTES] = digits
            .and_then(|d| d.try_into().ok())
            .ok_or(TextError::Secret)?;
        let mut octets = [0; ENROLMENT_SECRET_BYTES];
        for (octet, pair) in octets.iter_mut().zip(digits.chunks(2)) {
            *octet = pair.iter().fold(0, |all, digit| all << 4 | digit);
        }
        Ok(Self {
            address,
            id,
            secret: EnrolmentSecret(octets),
        })
    }
}
