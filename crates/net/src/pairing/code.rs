//! The pairing code: eight random decimal digits.

use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};

/// Number of digits of a code.
const DIGITS: usize = 8;
const CODES: u32 = 100_000_000;
/// Largest multiple of [`CODES`] that fits 32 bits; random numbers from here on are rejected,
/// because they would bias the distribution.
const FAIR: u32 = u32::MAX / CODES * CODES;

/// A pairing code: eight digits, shown as "1234-5678".
///
/// Its 26 bits would not withstand an offline search; they suffice because every guess takes an
/// exchange with the device, which stops after three wrong ones.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingCode([u8; DIGITS]);

/// Error of parsing a [`PairingCode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// A character other than a digit.
    #[error(
        "'{}' is not allowed in a code, which has {DIGITS} digits, such as 1234-5678",
        .0.escape_default()
    )]
    Character(char),
    /// Too few digits, or too many.
    #[error("a code has {DIGITS} digits, not {0}")]
    Length(usize),
}

impl PairingCode {
    /// Generates a code, uniformly distributed.
    ///
    /// # Errors
    /// When the system's random source fails.
    pub fn generate() -> Result<Self, ring::error::Unspecified> {
        let random = SystemRandom::new();
        loop {
            let mut octets = [0; 4];
            random.fill(&mut octets)?;
            let number = u32::from_be_bytes(octets);
            if number < FAIR {
                return Ok(Self::from_number(number % CODES));
            }
        }
    }

    fn from_number(mut number: u32) -> Self {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        Self(digits)
    }

    /// The digits, for SPAKE2.
    pub(super) fn secret(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, digit) in self.0.iter().enumerate() {
            if i == DIGITS / 2 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*digit))?;
        }
        Ok(())
    }
}

impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingCode(..)")
    }
}

impl FromStr for PairingCode {
    type Err = CodeError;

    /// Ignores spaces and dashes.
    fn from_str(s: &str) -> Result<Self, CodeError> {
        let mut digits = Vec::new();
        for c in s.chars().filter(|c| !c.is_whitespace() && *c != '-') {
            let digit = c.to_digit(10).ok_or(CodeError::Character(c))?;
            digits.push(b'0' + digit as u8);
        }
        let length = digits.len();
        let digits = digits.try_into().map_err(|_| CodeError::Length(length))?;
        Ok(Self(digits))
    }
}
