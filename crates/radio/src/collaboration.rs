//! Energy accounting across several devices.

use mpbond_units::Timestamp;

use crate::account::{Account, per_mb};
use crate::event::{Packet, Placement};
use crate::machine::{CoreSample, Cpu, CpuParameters};
use crate::power_trace::PowerTrace;
use crate::profile::{AccessPoint, DeviceProfile, ProfileError, Profiles, RadioProfile};
use crate::radio::Radio;
use crate::report::{AccessPointReport, CpuShare, DeviceReport, EnergyReport, InterfaceReport};
use crate::timeline::{Span, Timeline, Transfer};

/// Interface of a device in a [`Collaboration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceId {
    device: usize,
    interface: usize,
}

/// Device in a [`Collaboration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

#[derive(Debug, Clone)]
struct Interface {
    name: String,
    profile: String,
    /// The radio before its first packet.
    at_rest: Radio,
    radio: Radio,
    account: Account,
    trace: PowerTrace,
}

#[derive(Debug, Clone)]
struct Processor {
    profile: String,
    cpu: Cpu,
    account: Account,
    trace: PowerTrace,
    sampled: Option<(Timestamp, Timestamp)>,
}

#[derive(Debug, Clone)]
struct Device {
    name: String,
    profile: Option<String>,
    interfaces: Vec<Interface>,
    processor: Option<Processor>,
    base_mw: f64,
    access_point: Option<AccessPoint>,
}

/// Several devices with their interfaces: packets and processor samples in, one report out. Memory
/// does not grow with the length of the trace.
#[derive(Debug, Clone)]
pub struct Collaboration {
    placement: Placement,
    devices: Vec<Device>,
    first: Option<Timestamp>,
    last: Timestamp,
}

impl Collaboration {
    /// A collaboration without devices.
    pub fn new(placement: Placement) -> Self {
        Self {
            placement,
            devices: Vec::new(),
            first: None,
            last: Timestamp::ZERO,
        }
    }

    /// Adds a device without a profile: only the energy of its interfaces counts.
    pub fn add_bare_device(&mut self, name: &str) -> DeviceId {
        self.devices.push(Device {
            name: name.to_owned(),
            profile: None,
            interfaces: Vec::new(),
            processor: None,
            base_mw: 0.0,
            access_point: None,
        });
        DeviceId(self.devices.len() - 1)
    }

    /// Adds a device with its base power, and its processor if the profile names one.
    ///
    /// # Errors
    /// [`ProfileError`] when the processor's profile is not among `profiles`.
    pub fn add_device(
        &mut self,
        name: &str,
        profile: &DeviceProfile,
        profiles: &Profiles,
    ) -> Result<DeviceId, ProfileError> {
        let processor = match &profile.parameters.cpu {
            Some(cpu) => Some(Processor {
                profile: cpu.clone(),
                cpu: Cpu::new(profiles.cpu(cpu)?),
                account: Account::default(),
                trace: PowerTrace::default(),
                sampled: None,
            }),
            None => None,
        };
        let id = self.add_bare_device(name);
        if let Some(device) = self.devices.last_mut() {
            device.profile = Some(profile.name.clone());
            device.base_mw = profile.parameters.base.get();
            device.processor = processor;
        }
        Ok(id)
    }

    /// Adds an interface to a device.
    pub fn add_interface(
        &mut self,
        device: DeviceId,
        name: &str,
        profile: &RadioProfile,
    ) -> InterfaceId {
        let radio = Radio::new(profile, self.placement);
        let mut interface = 0;
        if let Some(device) = self.devices.get_mut(device.0) {
            interface = device.interfaces.len();
            device.interfaces.push(Interface {
                name: name.to_owned(),
                profile: profile.name.clone(),
                at_rest: radio.clone(),
                radio,
                account: Account::default(),
                trace: PowerTrace::default(),
            });
        }
        InterfaceId {
            device: device.0,
            interface,
        }
    }

    /// Accounts the device as an access point for the whole time.
    ///
    /// # Errors
    /// [`ProfileError::Missing`] when its profile has no power for an access point.
    pub fn make_access_point(
        &mut self,
        device: DeviceId,
        profile: &DeviceProfile,
    ) -> Result<(), ProfileError> {
        let figures = profile.access_point()?;
        if let Some(device) = self.devices.get_mut(device.0) {
            device.access_point = Some(figures.clone());
        }
        Ok(())
    }

    /// Records a packet at an interface; returns the time at which it may pass.
    pub fn packet(&mut self, at: Timestamp, id: InterfaceId, packet: Packet) -> Timestamp {
        let interface = self
            .devices
            .get_mut(id.device)
            .and_then(|device| device.interfaces.get_mut(id.interface));
        let Some(interface) = interface else {
            return at;
        };
        let mut out = (&mut interface.account, &mut interface.trace);
        let pass = interface.radio.packet(at, packet, &mut out);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(pass);
        pass
    }

    /// Records one sampling of a device's cores.
    pub fn cpu_sample(&mut self, at: Timestamp, device: DeviceId, cores: &[CoreSample]) {
        let processor = self
            .devices
            .get_mut(device.0)
            .and_then(|device| device.processor.as_mut());
        if let Some(p) = processor {
            let mut out = (&mut p.account, &mut NotNegative(&mut p.trace));
            p.cpu.sample(at, cores, &mut out);
            p.sampled = Some((p.sampled.map_or(at, |(first, _)| first), at));
        }
    }

    /// Parameters of a device's processor, if it has one.
    pub fn processor(&self, device: DeviceId) -> Option<&CpuParameters> {
        let processor = self.devices.get(device.0)?.processor.as_ref()?;
        Some(processor.cpu.parameters())
    }

    /// Replaces the power of the idle device that its profile gives, in mW; before the first
    /// sample.
    pub fn set_background_mw(&mut self, device: DeviceId, background_mw: f64) {
        let processor = self
            .devices
            .get_mut(device.0)
            .and_then(|device| device.processor.as_mut());
        if let Some(p) = processor {
            p.cpu.set_background_mw(background_mw);
        }
    }

    /// Ends the accounting. Base, access point power and the rest of all radios count from the
    /// first packet to the last, or to `end` if that is later; without packets, over the time for
    /// which a processor was sampled.
    pub fn finish(mut self, end: Timestamp) -> EnergyReport {
        if self.first.is_none() {
            let sampled = self.devices.iter().filter_map(|device| {
                let processor = device.processor.as_ref()?;
                processor.sampled
            });
            for (first, last) in sampled {
                self.first = Some(self.first.map_or(first, |f| f.min(first)));
                self.last = self.last.max(last);
            }
        }
        let end = end.max(self.last);
        let seconds = self
            .first
            .map_or(0.0, |first| end.since(first).as_secs_f64());
        for interface in self.devices.iter_mut().flat_map(|d| &mut d.interfaces) {
            interface.finish(self.first, end);
        }
        let devices: Vec<DeviceReport> = self
            .devices
            .into_iter()
            .map(|device| device.report(seconds))
            .collect();
        let sum = |f: fn(&DeviceReport) -> f64| devices.iter().map(f).sum();
        let bytes = devices
            .iter()
            .flat_map(|d| &d.interfaces)
            .map(|i| i.energy.up_bytes + i.energy.down_bytes)
            .sum();
        let joules = sum(|d| d.joules);
        EnergyReport {
            seconds,
            joules,
            joules_without_last_tail: sum(|d| d.joules_without_last_tail),
            joules_low: sum(|d| d.joules_low),
            joules_high: sum(|d| d.joules_high),
            joules_per_mb: per_mb(joules, bytes),
            bytes,
            start: self.first,
            devices,
            incomplete: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Interface {
    /// Ends the timeline at `end`, and adds the rest from the first packet of all interfaces,
    /// `first`, to the interface's own first span. That is known only now: packets of one interface
    /// may be recorded after later ones of another.
    fn finish(&mut self, first: Option<Timestamp>, end: Timestamp) {
        let mut out = (&mut self.account, &mut self.trace);
        if out.0.first_packet().is_some() {
            self.radio.finish(end, &mut out);
        }
        let begun = out.0.begun().unwrap_or(end);
        if let Some(first) = first.filter(|first| *first < begun) {
            self.at_rest.advance(first, &mut out);
            self.at_rest.finish(begun, &mut out);
        }
    }
}

/// Power over time without what is below zero, for charts.
struct NotNegative<'a>(&'a mut PowerTrace);

impl Timeline for NotNegative<'_> {
    fn span(&mut self, span: Span) {
        let power_mw = span.power_mw.max(0.0);
        self.0.span(Span { power_mw, ..span });
    }

    fn transfer(&mut self, transfer: Transfer) {
        self.0.transfer(transfer);
    }
}

impl Device {
    fn report(self, seconds: f64) -> DeviceReport {
        let interfaces: Vec<InterfaceReport> = self
            .interfaces
            .into_iter()
            .map(|i| InterfaceReport {
                name: i.name,
                profile: i.profile,
                energy: i.account.summary(),
                trace: i.trace,
            })
            .collect();
        let mut background_joules = 0.0;
        let cpu = self.processor.and_then(|p| {
            let (first, last) = p.sampled?;
            background_joules = p.cpu.background_mw() / 1e3 * last.since(first).as_secs_f64();
            Some(InterfaceReport {
                name: "cpu".to_owned(),
                profile: p.profile,
                energy: p.account.summary().not_negative(),
                trace: p.trace,
            })
        });
        let base_joules = self.base_mw * seconds / 1e3;
        let access_point = self.access_point.map(|ap| AccessPointReport {
            joules: ap.power.get() * seconds / 1e3,
            joules_low: ap.low.get() * seconds / 1e3,
            joules_high: ap.high.get() * seconds / 1e3,
        });
        let radios: f64 = interfaces.iter().map(|i| i.energy.joules).sum();
        let tails: f64 = interfaces
            .iter()
            .map(|i| i.energy.joules - i.energy.joules_without_last_tail)
            .sum();
        let cpu_share = cpu
            .as_ref()
            .map(|cpu| CpuShare::new(cpu.energy.joules, radios, background_joules));
        let others = cpu.as_ref().map_or(0.0, |cpu| cpu.energy.joules) + base_joules;
        let ap = |f: fn(&AccessPointReport) -> f64| access_point.as_ref().map_or(0.0, f);
        let joules = radios + others + ap(|ap| ap.joules);
        DeviceReport {
            name: self.name,
            profile: self.profile,
            joules,
            joules_without_last_tail: joules - tails,
            joules_low: radios + others + ap(|ap| ap.joules_low),
            joules_high: radios + others + ap(|ap| ap.joules_high),
            interfaces,
            cpu,
            cpu_share,
            base_joules,
            access_point,
        }
    }
}

/// Accounts packets of one radio; for tests and fits.
pub fn account<I>(radio: &mut Radio, packets: I, end: Timestamp) -> Account
where
    I: IntoIterator<Item = (Timestamp, Packet)>,
{
    let mut sums = Account::default();
    account_into(radio, packets, end, &mut sums);
    sums
}

/// Accounts packets of one radio into any timeline.
pub fn account_into<I, T>(radio: &mut Radio, packets: I, end: Timestamp, out: &mut T)
where
    I: IntoIterator<Item = (Timestamp, Packet)>,
    T: Timeline,
{
    for (at, packet) in packets {
        radio.packet(at, packet, out);
    }
    radio.finish(end, out);
}
