//! Energy report from captures and logs (`mpbond energy`).

mod capture;
mod local;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use mpbond_radio::{
    Collaboration, DeviceId, Direction, EnergyReport, InterfaceId, Packet, Placement, ProfileError,
    Profiles,
};
use mpbond_units::Timestamp;

pub use options::{EnergyOptions, LinkUse, ParseLinkUseError};

use crate::cpu_log::CpuLog;
use crate::cpu_summary::{cpu_mean_mw, fits};
use crate::error::CaptureError;
use crate::packet_log::PacketLog;
use crate::reader::{Format, Reader, Unpacked, open};
use crate::source::Source;

/// Added to all times, so that the promotion of a first packet at time zero has room before it;
/// longer than any promotion or association.
const LEAD: Duration = Duration::from_secs(60);

/// Maximum step back in time: captures of several queues or cores interleave a little; a larger
/// step means a damaged file or two files in one.
const DISORDER: Duration = Duration::from_millis(100);

/// Input file.
pub struct Input<R> {
    /// Name used in reports and errors.
    pub name: String,
    /// Contents.
    pub from: R,
}

/// Reason why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnergyError {
    /// A file cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A profile is missing or invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The options are insufficient or contradictory.
    #[error("{0}")]
    Options(String),
}

/// Reads all files and accounts their energy.
///
/// A capture belongs to one interface, or to one for each interface that the file names; packet
/// logs are accounted by link, processor logs by core. A damaged file counts up to the damage, and
/// the report lists it in `incomplete`.
///
/// # Errors
/// [`EnergyError`] when a profile or option is invalid, or a file has nothing to account.
pub fn run<R: Read>(
    inputs: Vec<Input<R>>,
    options: &EnergyOptions,
    profiles: &Profiles,
) -> Result<EnergyReport, EnergyError> {
    let mut accounts = Accounts::new(options, profiles)?;
    for input in inputs {
        let (source, format) = open(&input.name, input.from)?;
        let before = accounts.counted;
        let ended = match format {
            Format::Pcap | Format::Pcapng => {
                let mut reader = Reader::of(source, format)?;
                capture::account(&input.name, &mut reader, &mut accounts)
            }
            Format::Btsnoop | Format::PacketLogger => {
                let reason = "a Bluetooth log, which `mpbond energy` does not support: use `mpbond \
                              capture bt`";
                return Err(source.error(0, reason).into());
            }
            Format::PacketLog => packet_log(source, &mut accounts),
            Format::CpuLog => cpu_log(&input.name, source, &mut accounts),
        };
        match ended {
            Ok(()) => {}
            Err(EnergyError::Capture(e)) if accounts.counted > before => {
                accounts.incomplete.push(e.to_string());
            }
            Err(e) => return Err(e),
        }
        if accounts.counted == before {
            accounts
                .notes
                .push(format!("{}: nothing to account", input.name));
        }
    }
    accounts.check_backgrounds()?;
    Ok(accounts.finish())
}

/// Collaboration assembled from the files.
struct Accounts<'a> {
    options: &'a EnergyOptions,
    profiles: &'a Profiles,
    all: Collaboration,
    devices: BTreeMap<String, DeviceId>,
    interfaces: BTreeMap<(String, String), InterfaceId>,
    /// Devices with a processor log.
    logged: BTreeSet<String>,
    counted: u64,
    incomplete: Vec<String>,
    notes: Vec<String>,
}

/// Device of captures without a device name.
const DEVICE: &str = "device";

impl<'a> Accounts<'a> {
    fn new(options: &'a EnergyOptions, profiles: &'a Profiles) -> Result<Self, EnergyError> {
        let mut accounts = Self {
            options,
            profiles,
            all: Collaboration::new(Placement::Recorded),
            devices: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            logged: BTreeSet::new(),
            counted: 0,
            incomplete: Vec::new(),
            notes: Vec::new(),
        };
        if accounts.profile_is_device(options.profile_of(DEVICE)) {
            // A processor log alone needs the device as well.
            if options.uses.is_empty() {
                accounts.device(DEVICE)?;
            }
        } else if profiles.radio(options.profile_of(DEVICE)).is_err() {
            return Err(EnergyError::Options(format!(
                "no profile is called \"{}\"; known ones are the radios {} and the devices {}",
                options.profile_of(DEVICE),
                profiles.names("radio").join(", "),
                profiles.names("device").join(", ")
            )));
        }
        for name in &options.access_points {
            let id = accounts.device(name)?;
            let profile = profiles.device(options.profile_of(name))?;
            accounts.all.make_access_point(id, profile)?;
        }
        Ok(accounts)
    }

    fn profile_is_device(&self, profile: &str) -> bool {
        self.profiles.device(profile).is_ok()
    }

    fn device(&mut self, name: &str) -> Result<DeviceId, EnergyError> {
        if let Some(id) = self.devices.get(name) {
            return Ok(*id);
        }
        let profile = self.options.profile_of(name);
        let id = if self.profile_is_device(profile) {
            let profile = self.profiles.device(profile)?;
            self.all.add_device(name, profile, self.profiles)?
        } else {
            self.all.add_bare_device(name)
        };
        if let Some(mw) = self.options.background_of(name) {
            self.all.set_background_mw(id, mw);
        }
        self.devices.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Interface `name` of a device, of the kind that its profile lists as `kind`.
    fn interface(
        &mut self,
        device: &str,
        name: &str,
        kind: &str,
    ) -> Result<InterfaceId, EnergyError> {
        let key = (device.to_owned(), name.to_owned());
        if let Some(id) = self.interfaces.get(&key) {
            return Ok(*id);
        }
        let of = self.device(device)?;
        let profile = self.options.profile_of(device);
        let radio = match self.profiles.device(profile) {
            Ok(whole) => {
                let listed = &whole.parameters.interfaces;
                let Some(radio) = listed.get(kind) else {
                    let known: Vec<&str> = listed.keys().map(String::as_str).collect();
                    return Err(EnergyError::Options(format!(
                        "profile \"{profile}\" has no interface \"{kind}\", only {}: say which \
                         is meant with --interface",
                        known.join(", ")
                    )));
                };
                radio.as_str()
            }
            Err(_) => profile,
        };
        let id = self
            .all
            .add_interface(of, name, self.profiles.radio(radio)?);
        self.interfaces.insert(key, id);
        Ok(id)
    }

    /// Interfaces at the ends of a link, each with whether it sends in the link's down direction.
    fn ends_of(&mut self, link: &str) -> Result<Vec<(InterfaceId, bool)>, EnergyError> {
        let options = self.options;
        if options.uses.is_empty() {
            if self.profile_is_device(options.profile_of(DEVICE)) {
                return Err(EnergyError::Options(format!(
                    "the device of link \"{link}\" is unknown: add --use {link}=DEVICE.INTERFACE"
                )));
            }
            return Ok(vec![(self.interface(DEVICE, link, link)?, false)]);
        }
        let mut found = Vec::new();
        for ends in options.uses.iter().filter(|ends| ends.link == link) {
            // Two links may share an interface: a hotspot with several pipes.
            let id = self.interface(&ends.device, &ends.interface, &ends.interface)?;
            found.push((id, ends.reversed));
        }
        if found.is_empty() {
            self.notes
                .push(format!("link \"{link}\" has no --use and was left out"));
        }
        Ok(found)
    }

    fn packet(&mut self, at: Timestamp, id: InterfaceId, direction: Direction, bytes: u32) {
        self.counted += 1;
        self.all.packet(at + LEAD, id, Packet { direction, bytes });
    }

    /// Checks that every background is used.
    fn check_backgrounds(&self) -> Result<(), EnergyError> {
        let mut known = BTreeSet::new();
        for (device, _) in &self.options.backgrounds_mw {
            let (whose, remedy) = match device {
                Some(name) => (format!("device \"{name}\""), "give one with --cpu-of"),
                None => (
                    "the device without a name".to_owned(),
                    "give one, or name the device: --background FILE=DEVICE",
                ),
            };
            let device = device.as_deref().unwrap_or(DEVICE);
            let why = if !known.insert(device) {
                format!("--background: two logs of {whose}; give one")
            } else if !self.logged.contains(device) {
                format!("--background: no processor log of {whose}; {remedy}")
            } else {
                continue;
            };
            return Err(EnergyError::Options(why));
        }
        Ok(())
    }

    fn finish(self) -> EnergyReport {
        let mut report = self.all.finish(Timestamp::ZERO);
        report.incomplete = self.incomplete;
        report.notes = self.notes;
        report
    }
}

/// Maximum number of links.
const MAX_LINKS: usize = 1024;

/// Interfaces of a link, and the time up to which they are accounted.
struct LinkEnds {
    at: Vec<(InterfaceId, bool)>,
    /// Latest times: up, down.
    latest: [Timestamp; 2],
}

fn packet_log<R: Read>(
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

fn cpu_log<R: Read>(
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
        accounts.counted += 1;
        accounts.all.cpu_sample(at + LEAD, id, &cores);
    }
    Ok(())
}

/// Mean power of a device's processor over the log of the idle device, in mW, for
/// [`EnergyOptions::backgrounds_mw`]. Without a device, that of a log without one.
///
/// # Errors
/// When the log is cut, out of order or of another phone, or the device's profile has no processor.
pub fn background_mw<R: Read>(
    input: Input<R>,
    device: Option<&str>,
    options: &EnergyOptions,
    profiles: &Profiles,
) -> Result<f64, EnergyError> {
    let profile = options.profile_of(device.unwrap_or(DEVICE));
    let device = profiles.device(profile)?;
    let Some(cpu) = &device.parameters.cpu else {
        let why = format!("{}: profile \"{profile}\" has no processor", input.name);
        return Err(EnergyError::Options(why));
    };
    Ok(cpu_mean_mw(&input.name, input.from, profiles.cpu(cpu)?)?)
}
