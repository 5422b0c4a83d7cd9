//! Capabilities that each end announces in its hello.

use super::frame_type::FrameType;

/// Address families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Families {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Families {
    const IPV4: u8 = 1;
    const IPV6: u8 = 2;

    pub(super) const fn to_wire(self) -> u8 {
        let ipv4 = if self.ipv4 { Self::IPV4 } else { 0 };
        let ipv6 = if self.ipv6 { Self::IPV6 } else { 0 };
        ipv4 | ipv6
    }

    /// Bits of families that this version does not know are ignored.
    pub(super) const fn from_wire(bits: u8) -> Self {
        Self {
            ipv4: bits & Self::IPV4 != 0,
            ipv6: bits & Self::IPV6 != 0,
        }
    }
}

/// A set of frame types, on the wire a bit map: type n is bit n mod 8, counted from the lowest, of
/// octet n / 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameTypes([u8; Self::OCTETS]);

impl FrameTypes {
    /// Length of a bit map of all type numbers.
    const OCTETS: usize = 32;

    /// The types that every peer of this protocol version reads: those of a peer that announces
    /// none.
    pub const BASE: Self = Self::known().without(FrameType::CONNECTED);

    /// The types that this crate reads, extensions left out: those may be sent to any peer.
    pub const READ: Self = Self::known();

    const fn known() -> Self {
        let mut all = Self([0; Self::OCTETS]);
        let mut at = 0;
        while at < FrameType::KNOWN.len() {
            let kind = FrameType::KNOWN[at].0;
            if !kind.is_extension() {
                all.0[(kind.0 / 8) as usize] |= 1 << (kind.0 % 8);
            }
            at += 1;
        }
        all
    }

    const fn without(mut self, kind: FrameType) -> Self {
        self.0[(kind.0 / 8) as usize] &= !(1 << (kind.0 % 8));
        self
    }

    /// Whether the set holds a type.
    pub const fn contains(&self, kind: FrameType) -> bool {
        self.0[(kind.0 / 8) as usize] & (1 << (kind.0 % 8)) != 0
    }

    /// The bit map without the zero octets at its end.
    pub(super) fn octets(&self) -> &[u8] {
        let used = self.0.iter().rposition(|octet| *octet != 0);
        &self.0[..used.map_or(0, |last| last + 1)]
    }

    /// `None` for a bit map that is too long.
    pub(super) fn from_wire(octets: &[u8]) -> Option<Self> {
        let mut all = [0; Self::OCTETS];
        all.get_mut(..octets.len())?.copy_from_slice(octets);
        Some(Self(all))
    }
}

/// What one end of a session can do, as its hello announces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Address families that a proxy reaches; `None` where it does not say.
    pub families: Option<Families>,
    /// Whether a proxy answers look-ups on streams to [`Capabilities::NAMES`].
    pub answers_look_ups: bool,
    /// Whether a proxy sends nothing of a stream outside of its set of paths.
    pub obeys_paths: bool,
    /// Frame types that the end reads.
    pub frame_types: FrameTypes,
}

impl Capabilities {
    /// Host and port of the destination of look-ups, answered by the proxy itself. Without the
    /// capability it is a name that does not exist (RFC 6761, section 6.4).
    pub const NAMES: (&str, u16) = ("names.mpbond.invalid", 53);

    const LOOK_UPS: u8 = 1;
    const PATHS: u8 = 2;

    /// Bits of services that this version does not know are ignored.
    pub(super) const fn set_services(&mut self, bits: u8) {
        self.answers_look_ups = bits & Self::LOOK_UPS != 0;
        self.obeys_paths = bits & Self::PATHS != 0;
    }

    pub(super) const fn services(&self) -> u8 {
        let look_ups = if self.answers_look_ups {
            Self::LOOK_UPS
        } else {
            0
        };
        let paths = if self.obeys_paths { Self::PATHS } else { 0 };
        look_ups | paths
    }

    /// The capabilities of this crate, at an end that reaches `families`.
    pub const fn of_this_version(families: Option<Families>) -> Self {
        Self {
            families,
            answers_look_ups: false,
            obeys_paths: false,
            frame_types: FrameTypes::READ,
        }
    }

    /// The capabilities of a peer that announces none.
    pub(super) const fn unannounced() -> Self {
        Self {
            families: None,
            answers_look_ups: false,
            obeys_paths: false,
            frame_types: FrameTypes::BASE,
        }
    }
}
