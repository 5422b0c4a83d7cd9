//! Addresses of Bluetooth devices.

use std::fmt;
use std::str::FromStr;

/// Address of a device (BD_ADDR), as in `bdaddr_t`: the last octet of its text comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceAddress(pub [u8; 6]);

impl DeviceAddress {
    /// Any adapter (BDADDR_ANY).
    pub const ANY: Self = Self([0; 6]);
}

/// A text is no address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParseDeviceAddressError;

impl fmt::Display for ParseDeviceAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address of a Bluetooth device has six octets, such as 00:1A:7D:DA:71:13")
    }
}

impl std::error::Error for ParseDeviceAddressError {}

impl FromStr for DeviceAddress {
    type Err = ParseDeviceAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in octets.iter_mut().rev() {
            let part = parts.next().ok_or(ParseDeviceAddressError)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ParseDeviceAddressError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseDeviceAddressError)?;
        }
        if parts.next().is_some() || octets == [0; 6] {
            return Err(ParseDeviceAddressError);
        }
        Ok(Self(octets))
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{g:02X}:{e:02X}:{d:02X}:{c:02X}:{b:02X}:{a:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written_with_the_last_octet_first() {
        let address: DeviceAddress = "00:1a:7D:DA:71:13".parse().unwrap();
        assert_eq!(address.0, [0x13, 0x71, 0xda, 0x7d, 0x1a, 0]);
        assert_eq!(address.to_string(), "00:1A:7D:DA:71:13");
        for text in [
            "",
            "00:1A:7D:DA:71",
            "00:1A:7D:DA:71:13:00",
            "00:1A:7D:DA:71:1",
            "00:1A:7D:DA:71:+1",
            "00-1A-7D-DA-71-13",
            "00:00:00:00:00:00",
        ] {
            assert_eq!(
                text.parse::<DeviceAddress>(),
                Err(ParseDeviceAddressError),
                "{text}"
            );
        }
    }
}
