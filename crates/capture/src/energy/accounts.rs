//! Devices, interfaces and traffic of all files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpbond_radio::machine::CoreSample;
use mpbond_radio::{
    Collaboration, DeviceId, Direction, EnergyReport, InterfaceId, Packet, Placement, Profiles,
};
use mpbond_units::Timestamp;

use super::error::EnergyError;
use super::options::{DEVICE, EnergyOptions};

/// Added to all times, so that the promotion of a first packet at time zero has room before it;
/// longer than any promotion or association.
const LEAD: Duration = Duration::from_secs(60);

/// Maximum step back in time: captures of several queues or cores interleave a little; a larger
/// step means a damaged file or two files in one.
pub(super) const DISORDER: Duration = Duration::from_millis(100);

/// Collaboration assembled from the files.
pub(super) struct Accounts<'a> {
    pub(super) options: &'a EnergyOptions,
    profiles: &'a Profiles,
    pub(super) all: Collaboration,
    devices: BTreeMap<String, DeviceId>,
    interfaces: BTreeMap<(String, String), InterfaceId>,
    /// Devices with a processor log.
    pub(super) logged: BTreeSet<String>,
    pub(super) counted: u64,
    pub(super) incomplete: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl<'a> Accounts<'a> {
    pub(super) fn new(
        options: &'a EnergyOptions,
        profiles: &'a Profiles,
    ) -> Result<Self, EnergyError> {
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

    pub(super) fn profile_is_device(&self, profile: &str) -> bool {
        self.profiles.device(profile).is_ok()
    }

    pub(super) fn device(&mut self, name: &str) -> Result<DeviceId, EnergyError> {
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
    pub(super) fn interface(
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
    pub(super) fn ends_of(&mut self, link: &str) -> Result<Vec<(InterfaceId, bool)>, EnergyError> {
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

    pub(super) fn packet(
        &mut self,
        at: Timestamp,
        id: InterfaceId,
        direction: Direction,
        bytes: u32,
    ) {
        self.counted += 1;
        self.all.packet(at + LEAD, id, Packet { direction, bytes });
    }

    pub(super) fn cpu_sample(&mut self, at: Timestamp, id: DeviceId, cores: &[CoreSample]) {
        self.counted += 1;
        self.all.cpu_sample(at + LEAD, id, cores);
    }

    /// Checks that every background is used.
    pub(super) fn check_backgrounds(&self) -> Result<(), EnergyError> {
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

    pub(super) fn finish(self) -> EnergyReport {
        let mut report = self.all.finish(Timestamp::ZERO);
        report.incomplete = self.incomplete;
        report.notes = self.notes;
        report
    }
}
