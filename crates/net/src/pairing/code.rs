use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};

/// Digits of a code.
const DIGITS: usize = 8;
const CODES: u32 = 100_000_000;
/// The largest multiple of [`CODES`] that 32 bits hold: what lies above would favour some codes.
const FAIR: u32 = u32::MAX / CODES * CODES;

/// The secret that a person carries from one device to the other: eight digits, shown as
/// "1234-5678".
///
/// That is 26 bits: far too few to be searched through, and enough when every guess needs a
/// conversation with the device and three of them end it.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingCode([u8; DIGITS]);

/// Text that is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// A character that is no digit.
    #[error("'{}' does not occur in a code: it has {DIGITS} digits, such as 1234-5678", .0.escape_default())]
    Character(char),
    /// Too few digits, or too many.
    #[error("a code has {DIGITS} digits, this one has {0}")]
    Length(usize),
}

impl PairingCode {
    /// A fresh one, each as likely as any other.
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

    /// Spaces and dashes are for the eye and may stand anywhere.
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
