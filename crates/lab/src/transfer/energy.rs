//! The energy of a transfer: the links' packets go through models of the radios at their ends.
//!
//! A device pays for receiving when a packet arrives, and for sending when a packet leaves the
//! queue. A link to the proxy has one radio, that of the device. All pipes of a device share one
//! radio, except where a helper has several: each of these has those that its link names.

use std::time::Duration;

use mpbond_price::{PricedHelper, PricedLink};
use mpbond_radio::{
    Collaboration, DeviceReport, EnergyReport, InterfaceId, Packet, Placement, Profiles,
    RadioProfile, radio_cost,
};
use mpbond_units::{BitRate, Timestamp};
use toml::Spanned;

use crate::error::{Doing, Error, Result};
use crate::experiment::{Direction, EnergyModel, Experiment, Link, Role, Scheme};
use crate::player::Passed;
use crate::record::{DeviceEnergy, Energy};

const WWAN: &str = "wwan";
const PIPE: &str = "pipe";

const JOULES_PER_WH: f64 = 3_600.0;

/// Added to all times: the player's clock starts with the run, but the promotion of a radio
/// precedes its first packet. It is longer than any promotion.
const LEAD: Duration = Duration::from_secs(60);

/// One of the experiment's energy models, with the profiles that it names.
pub(crate) struct Accountant<'a> {
    experiment: &'a Experiment,
    model: &'a EnergyModel,
    profiles: Profiles,
}

/// The radios of a link: at the near end, and at the far end if it has one.
struct Ends {
    link: usize,
    near: InterfaceId,
    far: Option<InterfaceId>,
}

impl<'a> Accountant<'a> {
    /// The accountants of all energy models of the experiment.
    ///
    /// # Errors
    /// When a profile does not exist or is wrong.
    pub fn all(experiment: &'a Experiment) -> Result<Vec<Self>> {
        let models = experiment.energy.iter();
        models.map(|model| Self::new(experiment, model)).collect()
    }

    fn new(experiment: &'a Experiment, model: &'a EnergyModel) -> Result<Self> {
        let mut profiles = Profiles::shipped().map_err(Error::run)?;
        for file in &model.profiles {
            let path = experiment.beside(file.get_ref());
            let text = std::fs::read_to_string(&path).at("read", &path)?;
            let name = path.display().to_string();
            profiles
                .load(&name, &text)
                .map_err(|e| Error::Experiment(e.to_string()))?;
        }
        let accountant = Self {
            experiment,
            model,
            profiles,
        };
        // Missing profiles are reported before anything runs.
        for radio in [&model.wwan, &model.pipe] {
            accountant.radio(radio)?;
        }
        for (host, device) in &model.device {
            if !experiment.hosts.iter().any(|h| h.name.get_ref() == host) {
                return Err(accountant.wrong(device, &format!("there is no host \"{host}\"")));
            }
            accountant.radios(host)?;
        }
        for (host, wh) in &model.battery_wh {
            if !experiment.hosts.iter().any(|h| h.name.get_ref() == host) {
                return Err(accountant.wrong(wh, &format!("there is no host \"{host}\"")));
            }
            if !(wh.get_ref().is_finite() && *wh.get_ref() > 0.0) {
                return Err(accountant.wrong(wh, &"battery_wh: more than 0"));
            }
        }
        if let Some(device) = &model.access_point {
            let profile = accountant.profiles.device(device.get_ref());
            let figures = profile.and_then(|profile| profile.access_point());
            figures.map_err(|e| accountant.wrong(device, &e))?;
        }
        Ok(accountant)
    }

    /// Whether it is the accountant of this model.
    pub fn is_called(&self, model: &str) -> bool {
        self.model.name.get_ref() == model
    }

    /// The radios that carry a transfer through a helper, at these rates of the primary's own link,
    /// the helper's and the pipe, and with this store of the helper.
    pub fn priced_helper(
        &self,
        helper: &str,
        [own, hs, pipe]: [BitRate; 3],
        store_bytes: u64,
        direction: Direction,
    ) -> Result<PricedHelper> {
        let primary = self.experiment.host(Role::Primary).name.get_ref();
        let (own_wwan, own_pipe) = self.radios(primary)?;
        let (wwan, far_pipe) = self.radios(helper)?;
        let near = match direction {
            Direction::Down => mpbond_radio::Direction::Down,
            Direction::Up => mpbond_radio::Direction::Up,
        };
        let link = |profile, rate| PricedLink {
            radio: radio_cost(profile, near),
            rate,
        };
        Ok(PricedHelper {
            own: link(own_wwan, own),
            helper: link(wwan, hs),
            pipe: [
                radio_cost(own_pipe, near),
                radio_cost(far_pipe, near.flipped()),
            ],
            pipe_rate: pipe,
            // An upload reaches the helper's radio through the pipe.
            store_bytes: match direction {
                Direction::Down => store_bytes,
                Direction::Up => 0,
            },
        })
    }

    fn wrong<T>(&self, at: &Spanned<T>, why: &dyn std::fmt::Display) -> Error {
        let model = self.model.name.get_ref();
        self.experiment
            .error_at(at, &format!("energy \"{model}\": {why}"))
    }

    fn radio(&self, name: &Spanned<String>) -> Result<&RadioProfile> {
        let profile = self.profiles.radio(name.get_ref());
        profile.map_err(|e| self.wrong(name, &e))
    }

    /// Radios of a host: for links to the proxy, and for pipes.
    fn radios(&self, host: &str) -> Result<(&RadioProfile, &RadioProfile)> {
        let (wwan, pipe) = (self.radio(&self.model.wwan)?, self.radio(&self.model.pipe)?);
        let Some(device) = self.model.device.get(host) else {
            return Ok((wwan, pipe));
        };
        let profile = self.profiles.device(device.get_ref());
        let profile = profile.map_err(|e| self.wrong(device, &e))?;
        let own = |of_model: &RadioProfile| {
            let interface = of_model.radio.interface();
            let name = interface.and_then(|i| profile.parameters.interfaces.get(i));
            let why = format!(
                "\"{}\" has no radio of the kind of \"{}\"",
                profile.name, of_model.name
            );
            let name = name.ok_or_else(|| self.wrong(device, &why))?;
            self.profiles
                .radio(name)
                .map_err(|e| self.wrong(device, &e))
        };
        Ok((own(wwan)?, own(pipe)?))
    }

    /// The energy of a transfer by `scheme` from `start` to `end`; `links` are the names by the
    /// packets' link numbers.
    pub fn account(
        &self,
        scheme: &Scheme,
        links: &[String],
        passed: &[Passed],
        end: Timestamp,
    ) -> Result<Energy> {
        let mut all = Collaboration::new(Placement::Recorded);
        let ends = self.devices(scheme, links, &mut all)?;
        let mut events: Vec<(Timestamp, InterfaceId, Packet)> = Vec::new();
        for packet in passed {
            let Some(at) = ends.iter().find(|e| e.link == packet.link) else {
                continue;
            };
            let sends = Packet::up(packet.bytes);
            let receives = Packet::down(packet.bytes);
            let (near, far) = match packet.direction {
                Direction::Down => ((packet.arrived, receives), (packet.departed, sends)),
                Direction::Up => ((packet.departed, sends), (packet.arrived, receives)),
            };
            events.push((near.0, at.near, near.1));
            events.extend(at.far.map(|interface| (far.0, interface, far.1)));
        }
        events.sort_by_key(|(at, ..)| *at);
        for (at, interface, packet) in events {
            all.packet(at + LEAD, interface, packet);
        }
        Ok(self.energy(all.finish(end + LEAD)))
    }

    /// Adds the devices that take part in `scheme`, and returns the radios of each link.
    fn devices<'s>(
        &'s self,
        scheme: &Scheme,
        links: &[String],
        all: &mut Collaboration,
    ) -> Result<Vec<Ends>> {
        let e = self.experiment;
        let number = |link: &Link| links.iter().position(|name| name == link.name.get_ref());
        let mut ends = Vec::new();
        let mut wwan_link = |all: &mut Collaboration, device, wwan, link: &Link| {
            let near = all.add_interface(device, WWAN, wwan);
            ends.extend(number(link).map(|link| Ends {
                link,
                near,
                far: None,
            }));
        };
        let name = e.host(Role::Primary).name.get_ref();
        let primary = all.add_bare_device(name);
        let (wwan, own_pipe) = self.radios(name)?;
        for link in scheme.direct_links(e) {
            wwan_link(all, primary, wwan, link);
        }
        // Pipes with their radios: at the primary by its profile, at the helper by its interface.
        let mut pipes = Vec::new();
        for helper in scheme.devices_beside(e) {
            let device = all.add_bare_device(helper);
            let (wwan, pipe) = self.radios(helper)?;
            if let Some(link) = e.uplink_of(helper) {
                wwan_link(all, device, wwan, link);
            }
            let several = e.pipes_of(helper).count() > 1;
            for link in e.pipes_of(helper) {
                let named = |radio: &'s Option<Spanned<String>>, usual| {
                    let radio = radio.as_ref().filter(|_| several);
                    radio.map_or(Ok(usual), |radio| self.radio(radio))
                };
                let near = named(&link.radio, own_pipe)?;
                let far = all.add_interface(device, PIPE, named(&link.far_radio, pipe)?);
                pipes.extend(number(link).map(|link| (link, near, far)));
            }
        }
        if !pipes.is_empty() {
            let mut radios: Vec<(&str, InterfaceId)> = Vec::new();
            for (link, profile, far) in pipes {
                let known = radios.iter().find(|(name, _)| *name == profile.name);
                let near = known.map(|(_, near)| *near).unwrap_or_else(|| {
                    let near = all.add_interface(primary, PIPE, profile);
                    radios.push((&profile.name, near));
                    near
                });
                let far = Some(far);
                ends.push(Ends { link, near, far });
            }
            if let Some(device) = &self.model.access_point {
                let profile = self.profiles.device(device.get_ref());
                profile
                    .and_then(|profile| all.make_access_point(primary, profile))
                    .map_err(|e| self.wrong(device, &e))?;
            }
        }
        Ok(ends)
    }

    fn energy(&self, report: EnergyReport) -> Energy {
        let part = |device: &DeviceReport, name: &str| {
            let of_kind = device.interfaces.iter().filter(|i| i.name == name);
            of_kind.map(|i| i.energy.joules).sum()
        };
        Energy {
            model: self.model.name.get_ref().clone(),
            joules: report.joules,
            joules_without_last_tail: report.joules_without_last_tail,
            joules_band: (report.joules_low, report.joules_high),
            devices: report
                .devices
                .iter()
                .map(|device| DeviceEnergy {
                    host: device.name.clone(),
                    joules: device.joules,
                    joules_without_last_tail: device.joules_without_last_tail,
                    wwan_joules: part(device, WWAN),
                    pipe_joules: part(device, PIPE),
                    battery_percent: (self.model.battery_wh.get(&device.name))
                        .map(|wh| device.joules / (wh.get_ref() * JOULES_PER_WH) * 100.0),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &str = r#"
name = "t"
[[host]]
name = "primary"
role = "primary"
[[host]]
name = "phone"
role = "helper"
[[host]]
name = "watch"
role = "helper"
[[host]]
name = "proxy"
role = "proxy"
address = "203.0.113.1"
[[host]]
name = "origin"
role = "origin"
address = "198.51.100.1"
[[link]]
name = "core"
from = "proxy"
to = "origin"
[[workload]]
name = "w"
direction = "down"
bytes = 1
[[scheme]]
name = "one"
scheme = "mpbond"
interception = "socks5"
[[scheme]]
name = "two"
scheme = "mpbond"
devices = 2
interception = "socks5"
"#;
    const LINKS: [(&str, &str, &str); 5] = [
        ("ps", "primary", "proxy"),
        ("hs", "phone", "proxy"),
        ("pipe", "primary", "phone"),
        ("hs2", "watch", "proxy"),
        ("pipe2", "primary", "watch"),
    ];

    fn account(model: &str, scheme: usize, passed: &[(usize, Direction)]) -> Result<Energy> {
        account_at(Timestamp::from_millis(5000), model, scheme, passed)
    }

    fn account_at(
        at: Timestamp,
        model: &str,
        scheme: usize,
        passed: &[(usize, Direction)],
    ) -> Result<Energy> {
        let mut text = HOSTS.to_owned();
        for (name, from, to) in LINKS {
            text += &format!(
                "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\ndown = 1\nup = 1\n"
            );
        }
        text += &format!("[[energy]]\nname = \"m\"\n{model}");
        let e = Experiment::parse("t.toml", &text)?;
        let links = LINKS.map(|(name, ..)| name.to_owned());
        let passed: Vec<Passed> = passed
            .iter()
            .map(|(link, direction)| Passed {
                link: *link,
                direction: *direction,
                bytes: 1,
                departed: at,
                arrived: at,
            })
            .collect();
        Accountant::all(&e)?[0].account(&e.schemes[scheme], &links, &passed, at)
    }

    const MODEL: &str = "wwan = \"lte-2012\"\npipe = \"wifi-s4\"\n";

    /// Huang et al., MobiSys 2012, give 12.76 J for a lone packet.
    #[test]
    fn a_single_packet_costs_promotion_and_tail() {
        for direction in [Direction::Down, Direction::Up] {
            let energy = account(MODEL, 0, &[(0, direction)]).unwrap();
            assert!((energy.joules - 12.76).abs() < 0.13, "{energy:?}");
            assert!(energy.joules_without_last_tail < 0.5, "{energy:?}");
            assert_eq!(energy.joules_band, (energy.joules, energy.joules));
        }
    }

    /// A scheme without daemons begins to send at once; one with daemons has joined before.
    #[test]
    fn a_run_that_begins_at_once_pays_for_its_promotion() {
        let packets = [(0, Direction::Up)];
        let later = account(MODEL, 0, &packets).unwrap();
        let at_once = account_at(Timestamp::from_millis(20), MODEL, 0, &packets).unwrap();
        assert!(later.joules_without_last_tail > 0.3, "{later:?}");
        assert_eq!(at_once.joules, later.joules);
        assert_eq!(
            at_once.joules_without_last_tail,
            later.joules_without_last_tail
        );
    }

    #[test]
    fn a_pipe_costs_at_both_ends() {
        let idle = account(MODEL, 1, &[]).unwrap();
        let over_pipe = account(MODEL, 1, &[(2, Direction::Down)]).unwrap();
        let hosts: Vec<&str> = over_pipe.devices.iter().map(|d| d.host.as_str()).collect();
        assert_eq!(hosts, ["primary", "phone"], "who takes part");
        for device in 0..2 {
            let (before, after) = (&idle.devices[device], &over_pipe.devices[device]);
            assert!(after.pipe_joules > before.pipe_joules, "{after:?}");
            assert!(after.wwan_joules < 0.1, "{after:?}");
        }
        // A device that takes no part costs nothing, even with packets on its links.
        let elsewhere = [
            (2, Direction::Down),
            (3, Direction::Down),
            (4, Direction::Up),
        ];
        let with_others = account(MODEL, 1, &elsewhere).unwrap();
        assert_eq!(with_others.joules, over_pipe.joules);
    }

    #[test]
    fn an_access_point_brings_a_band() {
        let model = format!("{MODEL}access_point = \"pixel-2\"\n");
        let alone = account(&model, 0, &[(0, Direction::Down), (0, Direction::Up)]).unwrap();
        assert_eq!(alone.joules_band, (alone.joules, alone.joules), "no pipe");
        assert!(account(&model, 1, &[(2, Direction::Up)]).is_ok());
    }

    /// A watch as the primary pays for its own Bluetooth and WiFi, not for the phone's.
    #[test]
    fn a_host_with_a_device_profile_has_its_own_radios() {
        // Their tails differ: 2 s and 5 s.
        let model = "wwan = \"wifi-s4\"\npipe = \"watch-bt-2s\"\n";
        let watch = format!("{model}device.primary = \"lg-urbane\"\n");
        let own = "wwan = \"watch-wifi\"\npipe = \"watch-bt\"\n";
        let passed = [
            (0, Direction::Down),
            (1, Direction::Up),
            (2, Direction::Down),
        ];
        let all = |model: &str| account(model, 1, &passed).unwrap().devices;
        let (phones, mixed, watches) = (all(model), all(&watch), all(own));
        assert_ne!(phones[0].pipe_joules, watches[0].pipe_joules);
        assert_ne!(phones[0].wwan_joules, watches[0].wwan_joules);
        assert_eq!(mixed[0].pipe_joules, watches[0].pipe_joules);
        assert_eq!(mixed[0].wwan_joules, watches[0].wwan_joules);
        assert_eq!(mixed[1].pipe_joules, phones[1].pipe_joules);
        assert_eq!(mixed[1].wwan_joules, phones[1].wwan_joules);
        let wrong = |device: &str| {
            let e = account(&format!("{model}device.{device}\n"), 1, &[]);
            e.unwrap_err().to_string()
        };
        let text = wrong("tablet = \"lg-urbane\"");
        assert!(text.contains("no host \"tablet\""), "{text}");
        let text = wrong("primary = \"watch-bt\"");
        assert!(text.contains("watch-bt"), "{text}");
        let cellular = watch.replace("wifi-s4", "lte-2012");
        let text = account(&cellular, 1, &[]).unwrap_err().to_string();
        assert!(
            text.contains("no radio of the kind of \"lte-2012\""),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_profile_is_named_with_its_line() {
        let wrong = |model: &str| account(model, 0, &[]).unwrap_err().to_string();
        let text = wrong("wwan = \"lte-2012\"\npipe = \"string\"\n");
        assert!(
            text.contains("energy \"m\"") && text.contains("string"),
            "{text}"
        );
        let text = wrong(&format!("{MODEL}access_point = \"lg-urbane\"\n"));
        assert!(text.contains("access_point"), "{text}");
    }
}
