//! The pcapng format (draft-ietf-opsawg-pcapng).

use std::io::Read;

use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::record::{Found, LinkType, MAX_PACKET};
use crate::source::{Source, u16_at, u32_at};

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_NAME: u16 = 2;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

/// Maximum block length: headers, options and the longest packet. Longer ones mean a damaged file.
const MAX_BLOCK: usize = MAX_PACKET + (1 << 16);
/// Maximum number of interfaces of a file; real files have a few.
const MAX_INTERFACES: usize = 1024;
/// Maximum length of an interface name, which is printed.
const MAX_NAME: usize = 64;

/// Whether a file begins like pcapng.
pub(crate) fn is(head: &[u8]) -> bool {
    u32_at(head, 0, true) == SECTION
}

/// Clock of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock {
    /// Time units in a second.
    per_second: u128,
    /// Seconds to add to all times.
    offset_s: i64,
}

impl Clock {
    const MICROS: Self = Self {
        per_second: 1_000_000,
        offset_s: 0,
    };

    /// Resolution of option 9: a power of ten, or of two with the top bit set.
    fn with_resolution(self, code: u8) -> Option<Self> {
        let power = u32::from(code & 0x7f);
        let per_second = match code & 0x80 {
            0 if power <= 18 => 10_u128.pow(power),
            0x80 if power <= 60 => 1_u128 << power,
            _ => return None,
        };
        Some(Self { per_second, ..self })
    }

    fn at(self, high: u32, low: u32) -> Option<Timestamp> {
        let units = u128::from(high) << 32 | u128::from(low);
        let ns = i128::try_from(units * 1_000_000_000 / self.per_second).ok()?;
        let ns = ns.checked_add(i128::from(self.offset_s).checked_mul(1_000_000_000)?)?;
        u64::try_from(ns).ok().map(Timestamp::from_nanos)
    }
}

/// Interface of a section.
struct Interface {
    link_type: LinkType,
    clock: Clock,
    /// Index in [`Pcapng::known`].
    number: usize,
}

#[derive(Default)]
pub(crate) struct Pcapng {
    big: bool,
    /// Interfaces of the present section: their numbers begin anew in each
    /// (draft-ietf-opsawg-pcapng, section 4.2).
    interfaces: Vec<Interface>,
    /// Interfaces of the file. Those with the same link type and name in different sections, as
    /// of joined files, are one.
    known: Vec<(LinkType, Option<String>)>,
    without_time: u64,
}

impl Pcapng {
    pub(crate) fn interface_name(&self, interface: u32) -> Option<&str> {
        let (_, name) = self.known.get(usize::try_from(interface).ok()?)?;
        name.as_deref()
    }

    pub(crate) fn without_time(&self) -> u64 {
        self.without_time
    }

    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Found>, CaptureError> {
        loop {
            let offset = source.offset();
            let Some((kind, length)) = self.block(source, offset)? else {
                return Ok(None);
            };
            let found = match kind {
                SECTION => {
                    self.section(source, length)?;
                    None
                }
                INTERFACE => {
                    self.interface(source, offset, length)?;
                    None
                }
                ENHANCED_PACKET | OLD_PACKET => Some(self.packet(source, offset, kind, length)?),
                SIMPLE_PACKET => {
                    self.without_time += 1;
                    None
                }
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
            source.take(length);
        }
    }

    /// Type and length of the next block, which is then complete in the window.
    fn block<R: Read>(
        &mut self,
        source: &mut Source<R>,
        offset: u64,
    ) -> Result<Option<(u32, usize)>, CaptureError> {
        let Some(head) = source.header::<12>("a block header")? else {
            return Ok(None);
        };
        let section = u32_at(&head, 0, true) == SECTION;
        if section {
            // Every section has its own byte order.
            self.big = match (u32_at(&head, 8, true), u32_at(&head, 8, false)) {
                (BYTE_ORDER, _) => true,
                (_, BYTE_ORDER) => false,
                _ => {
                    return Err(
                        source.error(offset, "section without a byte-order mark: file is damaged")
                    );
                }
            };
        }
        let kind = u32_at(&head, 0, self.big);
        let length = u32_at(&head, 4, self.big) as usize;
        if length < 12 || !length.is_multiple_of(4) || length > MAX_BLOCK {
            let reason = format!("invalid block length of {length} bytes: file is damaged");
            return Err(source.error(offset, reason));
        }
        let block = source.peek(length)?;
        if block.len() < length {
            let reason = format!(
                "file ends inside a block ({} of {length} bytes)",
                block.len()
            );
            return Err(source.error(offset, reason));
        }
        let repeated = u32_at(block, length - 4, self.big) as usize;
        if repeated != length {
            let reason = format!(
                "block lengths disagree: {length} bytes at its start, {repeated} at its end"
            );
            return Err(source.error(offset, reason));
        }
        Ok(Some((kind, length)))
    }

    fn section<R: Read>(
        &mut self,
        source: &mut Source<R>,
        length: usize,
    ) -> Result<(), CaptureError> {
        let offset = source.offset();
        let big = self.big;
        let major = u16_at(source.peek(length)?, 12, big);
        if length < 28 || major != 1 {
            return Err(source.error(
                offset,
                format!("unsupported pcapng version {major}; only version 1 is supported"),
            ));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface<R: Read>(
        &mut self,
        source: &mut Source<R>,
        offset: u64,
        length: usize,
    ) -> Result<(), CaptureError> {
        let big = self.big;
        let block = source.peek(length)?;
        let link_type = LinkType(u32::from(u16_at(block, 8, big)));
        let options = block.get(16..length - 4).unwrap_or_default();
        let (mut clock, mut name) = (Some(Clock::MICROS), None);
        let options = Options { rest: options, big };
        for (code, value) in options {
            match (code, value) {
                (OPTION_NAME, text) => {
                    let text = String::from_utf8_lossy(text);
                    name = Some(
                        text.chars()
                            .filter(|c| !c.is_control())
                            .take(MAX_NAME)
                            .collect(),
                    );
                }
                (OPTION_RESOLUTION, [resolution, ..]) => {
                    clock = clock.and_then(|clock| clock.with_resolution(*resolution));
                }
                (OPTION_OFFSET, value) if value.len() == 8 => {
                    let (a, b) = (u32_at(value, 0, big), u32_at(value, 4, big));
                    let (high, low) = if big { (a, b) } else { (b, a) };
                    let seconds = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                    clock = clock.map(|clock| Clock {
                        offset_s: seconds,
                        ..clock
                    });
                }
                _ => {}
            }
        }
        let Some(clock) = clock else {
            return Err(source.error(offset, "interface with an invalid clock resolution"));
        };
        let Some(number) = self.number(link_type, name) else {
            return Err(source.error(offset, format!("more than {MAX_INTERFACES} interfaces")));
        };
        self.interfaces.push(Interface {
            link_type,
            clock,
            number,
        });
        Ok(())
    }

    /// Number in the file of the present section's next interface: that of the first one with this
    /// link type and name that the section does not have yet. `None` when there are too many.
    fn number(&mut self, link_type: LinkType, name: Option<String>) -> Option<usize> {
        let this = (link_type, name);
        let known = self.known.iter().enumerate();
        let mut same = known.filter(|(_, known)| **known == this).map(|(i, _)| i);
        let free = same.find(|i| self.interfaces.iter().all(|used| used.number != *i));
        if free.is_some() || self.known.len() >= MAX_INTERFACES {
            return free;
        }
        self.known.push(this);
        Some(self.known.len() - 1)
    }

    fn packet<R: Read>(
        &mut self,
        source: &mut Source<R>,
        offset: u64,
        kind: u32,
        length: usize,
    ) -> Result<Found, CaptureError> {
        let big = self.big;
        const BEFORE: usize = 28;
        let block = source.peek(length)?;
        let number = if kind == ENHANCED_PACKET {
            u32_at(block, 8, big)
        } else {
            u32::from(u16_at(block, 8, big))
        };
        let field = |i: usize| u32_at(block, 8 + i * 4, big);
        let (high, low, captured, original) = (field(1), field(2), field(3), field(4));
        let captured = captured as usize;
        if length < BEFORE + 4 || captured > length - BEFORE - 4 {
            let reason =
                format!("packet of {captured} bytes in a block of {length}: file is damaged");
            return Err(source.error(offset, reason));
        }
        let interface = usize::try_from(number)
            .ok()
            .and_then(|number| self.interfaces.get(number));
        let Some(interface) = interface else {
            let reason = format!("packet of undefined interface {number}");
            return Err(source.error(offset, reason));
        };
        let Some(at) = interface.clock.at(high, low) else {
            return Err(source.error(offset, "packet timestamp out of range"));
        };
        Ok(Found {
            at,
            link_type: interface.link_type,
            interface: interface.number as u32,
            flags: 0,
            original_bytes: original,
            offset,
            before: BEFORE,
            captured,
            after: length - BEFORE - captured,
        })
    }
}

/// Options of a block, up to the first that is truncated.
struct Options<'a> {
    rest: &'a [u8],
    big: bool,
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < 4 {
            return None;
        }
        let code = u16_at(self.rest, 0, self.big);
        let length = usize::from(u16_at(self.rest, 2, self.big));
        if code == OPTION_END {
            return None;
        }
        let value = self.rest.get(4..4 + length)?;
        self.rest = self
            .rest
            .get(4 + length.next_multiple_of(4)..)
            .unwrap_or_default();
        Some((code, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        let at = |clock: Clock, units: u64| clock.at((units >> 32) as u32, units as u32).unwrap();
        assert_eq!(
            at(Clock::MICROS, 1_700_000_000_000_001).as_nanos(),
            1_700_000_000_000_001_000
        );
        let nanos = Clock::MICROS.with_resolution(9).unwrap();
        assert_eq!(
            at(nanos, 1_700_000_000_000_000_001).as_nanos(),
            1_700_000_000_000_000_001
        );
        let binary = Clock::MICROS.with_resolution(0x80 | 10).unwrap();
        assert_eq!(at(binary, 1024 * 5 + 512).as_nanos(), 5_500_000_000);
        let shifted = Clock {
            offset_s: -2,
            ..Clock::MICROS
        };
        assert_eq!(at(shifted, 3_000_000).as_nanos(), 1_000_000_000);
        assert_eq!(shifted.at(0, 1), None);
        assert_eq!(Clock::MICROS.with_resolution(19), None);
        assert_eq!(
            Clock {
                per_second: 1,
                offset_s: 0
            }
            .at(u32::MAX, 0),
            None
        );
    }
}
