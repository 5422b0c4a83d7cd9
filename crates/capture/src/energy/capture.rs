//! Assigns packets of a capture to interfaces.

use std::collections::BTreeMap;
use std::io::Read;

use mpbond_radio::{Direction, InterfaceId};
use mpbond_units::Timestamp;

use super::accounts::{Accounts, DISORDER};
use super::error::EnergyError;
use super::local::Local;
use super::options::DEVICE;
use crate::error::{CaptureError, Place};
use crate::network::{Flow, NotNetwork, network};
use crate::reader::Reader;

/// Number of packets examined to find the device's own address.
const LOOK_AHEAD: usize = 256;

/// Packet that waits until the device's address is known.
struct Waiting {
    at: Timestamp,
    interface: u32,
    bytes: u32,
    flow: Option<Flow>,
    outgoing: Option<bool>,
    loopback: bool,
}

impl Waiting {
    fn direction(&self, local: &Local) -> Option<Direction> {
        local.direction(&crate::network::Network {
            bytes: self.bytes,
            flow: self.flow,
            outgoing: self.outgoing,
            loopback: self.loopback,
            data: &[],
        })
    }
}

/// State kept for one file while it is read.
struct File<'n> {
    name: &'n str,
    local: Option<Local>,
    waiting: Vec<Waiting>,
    interfaces: BTreeMap<u32, InterfaceId>,
    strangers: u64,
    short: u64,
}

pub(super) fn account<R: Read>(
    name: &str,
    reader: &mut Reader<R>,
    accounts: &mut Accounts<'_>,
) -> Result<(), EnergyError> {
    let given = &accounts.options.local;
    let mut file = File {
        name,
        local: (!given.is_empty()).then(|| Local::given(given)),
        waiting: Vec::new(),
        interfaces: BTreeMap::new(),
        strangers: 0,
        short: 0,
    };
    let ended = file.read(reader, accounts);
    // Packets before an error count.
    if file.local.is_none() {
        file.decide(reader, accounts)?;
    }
    let skipped = reader.skipped();
    for (count, what) in [
        (
            file.strangers,
            "between other devices, within this one, or no IP, not counted",
        ),
        (file.short, "shorter than their link header, not counted"),
        (skipped, "without a time, not counted"),
    ] {
        if count > 0 {
            accounts
                .notes
                .push(format!("{name}: {count} packets {what}"));
        }
    }
    ended
}

impl File<'_> {
    fn read<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), EnergyError> {
        let mut latest = Timestamp::ZERO;
        while let Some(record) = reader.next()? {
            let fail = |reason: String| CaptureError {
                file: self.name.to_owned(),
                place: Place::Offset(record.offset),
                reason,
            };
            if record.at + DISORDER < latest {
                let back = latest.since(record.at).as_secs_f64();
                return Err(fail(format!("time goes backwards by {back:.3} s")).into());
            }
            latest = latest.max(record.at);
            let packet = match network(&record) {
                Ok(packet) => packet,
                Err(NotNetwork::Short) => {
                    self.short += 1;
                    continue;
                }
                Err(NotNetwork::LinkType(link_type)) => {
                    let reason = format!(
                        "unsupported link type {}; Ethernet, Linux cooked and raw IP are supported",
                        link_type.0
                    );
                    return Err(fail(reason).into());
                }
            };
            let waiting = Waiting {
                at: record.at,
                interface: record.interface,
                bytes: packet.bytes,
                flow: packet.flow,
                outgoing: packet.outgoing,
                loopback: packet.loopback,
            };
            if self.local.is_some() || waiting.outgoing.is_some() && self.waiting.is_empty() {
                self.count(&waiting, reader, accounts)?;
            } else {
                self.waiting.push(waiting);
                if self.waiting.len() >= LOOK_AHEAD {
                    self.decide(reader, accounts)?;
                }
            }
        }
        Ok(())
    }

    /// Selects the most frequent address as the device's and accounts the waiting packets.
    fn decide<R: Read>(
        &mut self,
        reader: &Reader<R>,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), EnergyError> {
        let flows = self.waiting.iter().filter_map(|w| w.flow.as_ref());
        let local = Local::guess(flows);
        if !self.waiting.is_empty() && !local.addresses().is_empty() {
            let shown: Vec<String> = local.addresses().iter().map(ToString::to_string).collect();
            accounts.notes.push(format!(
                "{}: assuming {} to be the device's own address (--local overrides)",
                self.name,
                shown.join(" and ")
            ));
        }
        self.local = Some(local);
        for waiting in std::mem::take(&mut self.waiting) {
            self.count(&waiting, reader, accounts)?;
        }
        Ok(())
    }

    fn count<R: Read>(
        &mut self,
        packet: &Waiting,
        reader: &Reader<R>,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), EnergyError> {
        let nobody = Local::default();
        let Some(direction) = packet.direction(self.local.as_ref().unwrap_or(&nobody)) else {
            self.strangers += 1;
            return Ok(());
        };
        let id = match self.interfaces.get(&packet.interface) {
            Some(id) => *id,
            None => {
                let named = reader.interface_name(packet.interface);
                let id = self.interface(named, packet.interface, accounts)?;
                self.interfaces.insert(packet.interface, id);
                id
            }
        };
        accounts.packet(packet.at, id, direction, packet.bytes);
        Ok(())
    }

    /// Interface of a capture: from the options, else from its name in the file or the file's name.
    fn interface(
        &self,
        named: Option<&str>,
        number: u32,
        accounts: &mut Accounts<'_>,
    ) -> Result<InterfaceId, EnergyError> {
        let stem = stem_of(self.name);
        let name = match (named, number) {
            (Some(named), _) => format!("{stem}:{named}"),
            (None, 0) => stem.to_owned(),
            (None, number) => format!("{stem}:{number}"),
        };
        let told = accounts.options.interface.as_deref();
        let kind = told
            .or_else(|| kind_of(named.unwrap_or_default()))
            .or_else(|| kind_of(stem));
        // The profile of a radio needs no interface kind.
        let profile = accounts.options.profile_of(DEVICE);
        if kind.is_none() && accounts.profile_is_device(profile) {
            return Err(EnergyError::Options(format!(
                "which interface of \"{profile}\" {name} is cannot be told from its name: say it \
                 with --interface"
            )));
        }
        let kind = kind.unwrap_or_default().to_owned();
        accounts.interface(DEVICE, &name, &kind)
    }
}

/// File name without directories and extensions.
fn stem_of(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    match name.split_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Interface kind suggested by a name as given by Linux or Android.
fn kind_of(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["wlan", "wifi", "wlp", "ap0"]) {
        Some("wifi")
    } else if has(&["rmnet", "wwan", "cellular", "lte", "ccmni", "pdp"]) {
        Some("cellular")
    } else if has(&["bnep", "bt-pan", "bluetooth", "rfcomm"]) {
        Some("bluetooth")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use mpbond_radio::Profiles;

    use super::super::{EnergyOptions, Input, run};
    use super::*;

    #[test]
    fn names_suggest_kinds() {
        for (name, kind) in [
            ("wlan0", Some("wifi")),
            ("rmnet_data0", Some("cellular")),
            ("bnep0", Some("bluetooth")),
            ("eth0", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
        assert_eq!(stem_of("a/b/wlan0.pcap.gz"), "wlan0");
        assert_eq!(stem_of(".pcap"), ".pcap");
    }

    /// An IPv4 packet of 100 octets.
    fn ipv4(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let head = [
            [0x45, 0, 0, 100],
            [0; 4],
            [64, 17, 0, 0],
            source,
            destination,
        ];
        let mut packet = head.concat();
        packet.resize(100, 0);
        packet
    }

    fn pcap(link_type: u32, frames: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, link_type] {
            file.extend(field.to_le_bytes());
        }
        for frame in frames {
            let length = frame.len() as u32;
            for field in [1, 0, length, length] {
                file.extend(field.to_le_bytes());
            }
            file.extend(frame);
        }
        file
    }

    /// `tcpdump -i any` captures the loopback interface as well: nothing of it passes a radio.
    #[test]
    fn packets_within_the_device_are_not_counted() {
        const ME: [u8; 4] = [10, 0, 0, 2];
        const YOU: [u8; 4] = [198, 51, 100, 1];
        const OTHER: [u8; 4] = [10, 0, 0, 3];
        const LO: [u8; 4] = [127, 0, 0, 1];
        // Ends, hardware type (1 Ethernet, 772 loopback), packet type (4 sent, 0 received).
        let packets = [
            (ME, YOU, 1, 4),
            (YOU, ME, 1, 0),
            (LO, LO, 772, 4),
            (LO, LO, 772, 0),
            (ME, ME, 772, 4),
            (ME, OTHER, 772, 4),
            (ME, ME, 1, 4),
        ];
        let cooked = |version, (from, to, hardware, kind): (_, _, u16, u8)| {
            let [high, low] = hardware.to_be_bytes();
            let header = match version {
                1 => vec![0, kind, high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0],
                _ => vec![
                    8, 0, 0, 0, 0, 0, 0, 1, high, low, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                ],
            };
            [header, ipv4(from, to)].concat()
        };
        // Without link headers, most packets are of the loopback address, not of the device's.
        let raw = [(LO, LO), (ME, YOU), (LO, LO), (YOU, ME), (LO, LO), (ME, ME)];
        let raw = raw.map(|(from, to)| ipv4(from, to)).to_vec();
        for (link, frames, within) in [
            (113, packets.map(|p| cooked(1, p)).to_vec(), 5),
            (276, packets.map(|p| cooked(2, p)).to_vec(), 5),
            (101, raw, 4),
        ] {
            let input = Input {
                name: "a.pcap".to_owned(),
                from: &pcap(link, &frames)[..],
            };
            let options = EnergyOptions::with_profile("wifi-2012");
            let report = run(vec![input], &options, &Profiles::shipped().unwrap()).unwrap();
            let sums = &report.devices[0].interfaces[0].energy;
            let bytes = (sums.up_bytes, sums.down_bytes);
            assert_eq!(bytes, (100, 100), "link type {link}");
            let note = format!("a.pcap: {within} packets between other devices, within this one");
            let notes = &report.notes;
            assert!(notes.iter().any(|n| n.starts_with(&note)), "{notes:?}");
        }
    }
}
