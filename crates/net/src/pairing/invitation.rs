//! Text forms of invitations (QR codes) and enrolment tokens.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::{CodeError, PairingCode};
use crate::endpoint::Endpoint;
use crate::identity::{DeviceId, ParseDeviceIdError};

/// Length of a token's secret in octets: 128 bits cannot be searched.
pub const ENROLMENT_SECRET_BYTES: usize = 16;
/// Maximum number of addresses; more would make the QR code too dense for cameras.
const MAX_ADDRESSES: usize = 4;
const PAIR: &str = "MPBOND:PAIR/";
const ENROL: &str = "MPBOND:ENROL/";

/// Error of parsing an [`Invitation`] or an [`EnrolmentToken`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The prefix is wrong.
    #[error("does not begin with \"{0}\"")]
    Kind(&'static str),
    /// The number of parts is not 3.
    #[error("{0} parts between slashes instead of 3: was all of it copied?")]
    Parts(usize),
    /// An invalid address.
    #[error("\"{}\" is not an address with a port", .0.escape_debug())]
    Address(String),
    /// Too many addresses.
    #[error("{0} addresses, more than {MAX_ADDRESSES}")]
    Addresses(usize),
    /// An invalid device id.
    #[error(transparent)]
    Device(#[from] ParseDeviceIdError),
    /// An invalid code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// An invalid secret.
    #[error("the secret is not {} hexadecimal digits", 2 * ENROLMENT_SECRET_BYTES)]
    Secret,
}

/// Content of a listener's QR code: `MPBOND:PAIR/ADDRESS:PORT/CODE/ID`, with commas between several
/// addresses.
///
/// It contains the listener's fingerprint, so that the TLS handshake detects a man in the middle
/// before an attempt is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Addresses of the listener, in order of preference. None for a listener at a Unix socket: the
    /// other device has a socket of its own, so that there is no text either.
    pub addresses: Vec<SocketAddr>,
    /// The short code.
    pub code: PairingCode,
    /// Expected id of the listener.
    pub id: DeviceId,
}

/// The three parts after a prefix, which is compared without case.
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
    /// Whether text has the prefix of an invitation, valid or not.
    pub fn is_meant(text: &str) -> bool {
        !matches!(parts(text, PAIR), Err(TextError::Kind(_)))
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Upper case only: QR codes encode it more densely (alphanumeric mode).
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

/// Secret of an enrolment token. Never logged.
#[derive(Clone)]
pub struct EnrolmentSecret([u8; ENROLMENT_SECRET_BYTES]);

impl EnrolmentSecret {
    /// The secret with these octets.
    pub const fn from_bytes(octets: [u8; ENROLMENT_SECRET_BYTES]) -> Self {
        Self(octets)
    }

    /// Generates a secret.
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

    /// The SHA-256 hash that a proxy stores. One round suffices for a secret of 128 random bits.
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
    /// Compares in constant time.
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

/// Token with which a primary enrols at a proxy: `MPBOND:ENROL/ADDRESS:PORT/ID/SECRET`. In place of
/// the address may be a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentToken {
    /// Address of the proxy.
    pub address: Endpoint,
    /// Expected id of the proxy; the secret is sent to no other device.
    pub id: DeviceId,
    /// Secret that authorizes the bearer.
    pub secret: EnrolmentSecret,
}

impl EnrolmentToken {
    /// Whether text has the prefix of a token, valid or not.
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
        let wrong = |_| TextError::Address(at.chars().take(64).collect());
        let (address, id) = (at.parse().map_err(wrong)?, id.parse()?);
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
