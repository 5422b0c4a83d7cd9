//! Assigns packet logs to interfaces and processor logs to devices.

use std::collections::BTreeMap;
use std::io::Read;

use mpbond_radio::{Direction, InterfaceId};
use mpbond_units::Timestamp;

use super::accounts::{Accounts, DISORDER};
use super::error::EnergyError;
use super::options::DEVICE;
use crate::cpu_log::CpuLog;
use crate::cpu_summary::fits;
use crate::packet_log::PacketLog;
use crate::source::Source;
use crate::unpack::Unpacked;

/// Maximum number of links.
const MAX_LINKS: usize = 1024;

/// Interfaces of a link, and the time up to which they are accounted.
struct LinkEnds {
    at: Vec<(InterfaceId, bool)>,
    /// Latest times: up, down.
    latest: [Timestamp; 2],
}

/// Accounts the packets of a packet log, by link.
pub(super) fn packet_log<R: Read>(
    source: Source<Unpacked<R>>,
    accounts: &mut Accounts<'_>,
) -> Result<(), EnergyError> {
    let mut log = PacketLog::of(source)?;
    // Meaning of each link name, looked up once.
    let mut ends: BTreeMap<String, LinkEnds> = BTreeMap::new();
    let mut dropped = 0_u64;
    while let Some(packet) = log.next()? {
        // A packet that left the queue was transmitted, whether it arrived or not.
        let Some(at) = packet.departed else {
            dropped += 1;
            continue;
        };
        let (direction, bytes) = (packet.direction, packet.bytes);
        let known = match ends.get_mut(packet.link) {
            Some(known) => known,
            None => {
                let link = packet.link.to_owned();
                if ends.len() >= MAX_LINKS {
                    return Err(log.error(format!("more than {MAX_LINKS} links")).into());
                }
                let found = match accounts.ends_of(&link) {
                    Err(EnergyError::Options(reason)) => return Err(log.error(reason).into()),
                    other => other?,
                };
                ends.entry(link).or_insert(LinkEnds {
                    at: found,
                    latest: [Timestamp::ZERO; 2],
                })
            }
        };
        // Lines are in the order of delivery, and delays differ by link.
        let latest = match direction {
            Direction::Up => &mut known.latest[0],
            Direction::Down => &mut known.latest[1],
        };
        if at + DISORDER < *latest {
            return Err(log.error("time goes backwards").into());
        }
        *latest = at.max(*latest);
        for (id, reversed) in &known.at {
            let direction = if *reversed {
                direction.flipped()
            } else {
                direction
            };
            accounts.packet(at, *id, direction, bytes);
        }
    }
    if dropped > 0 {
        accounts.notes.push(format!(
            "{dropped} packets were dropped before they were sent"
        ));
    }
    Ok(())
}

/// Accounts a processor log.
pub(super) fn cpu_log<R: Read>(
    name: &str,
    source: Source<Unpacked<R>>,
    accounts: &mut Accounts<'_>,
) -> Result<(), EnergyError> {
    let device = accounts.options.cpu_device_of(name).unwrap_or(DEVICE);
    let profile = accounts.options.profile_of(device);
    if !accounts.profile_is_device(profile) {
        return Err(EnergyError::Options(format!(
            "{name}: a processor log needs the profile of a device; \"{profile}\" is none"
        )));
    }
    let id = accounts.device(device)?;
    accounts.logged.insert(device.to_owned());
    let cpu = accounts.all.processor(id).cloned().ok_or_else(|| {
        EnergyError::Options(format!("{name}: profile \"{profile}\" has no processor"))
    })?;
    let mut log = CpuLog::of(source)?;
    while let Some((at, cores)) = log.next()? {
        let cores = cores.to_vec();
        // Not a damaged file: what has been counted is not of this phone.
        fits(&log, &cpu, &cores).map_err(|e| EnergyError::Options(e.to_string()))?;
        accounts.cpu_sample(at, id, &cores);
    }
    Ok(())
}
