//! The contents of an experiment file.

use std::path::PathBuf;
use std::time::Duration;

use mpbond_units::duration_text;
use serde::Deserialize;
use toml::Spanned;

use super::assert::Assert;
use super::energy_model::EnergyModel;
use super::link::{Link, MediumSpec};
use super::paper::PaperFigure;
use super::place::Place;
use super::scheme::Scheme;
use super::setting::Setting;
use super::terms::{Client, Role};
use super::workload::Workload;
use crate::error::Error;

/// An experiment. [`Experiment::load`] and [`Experiment::parse`] check every value and reference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name, also of result files.
    pub name: String,
    /// Title for readers of the results.
    #[serde(default)]
    pub title: String,
    /// Seed of losses, jitter and file contents.
    #[serde(default)]
    pub seed: u64,
    /// Number of times that each scheme carries each workload; schemes take turns.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Maximum lateness of a fit transfer: 99th percentile of the release of packets after their
    /// due time.
    #[serde(default = "default_lateness", with = "duration_text")]
    pub max_lateness: Duration,
    /// Whether `make experiments` runs nothing beside it, because it measures or fills the machine.
    #[serde(default)]
    pub alone: bool,
    /// Whether the processor time of the whole machine is measured, too.
    #[serde(default)]
    pub whole_machine: bool,
    /// Whether it runs in virtual time only, also by `lab run`.
    #[serde(default)]
    pub simulated: bool,
    /// Client of all transfers.
    #[serde(default)]
    pub client: Client,
    /// Hosts.
    #[serde(rename = "host")]
    pub hosts: Vec<HostSpec>,
    /// Links between hosts.
    #[serde(rename = "link")]
    pub links: Vec<Link>,
    /// Media shared by links: WiFi channels, cells.
    #[serde(rename = "medium", default)]
    pub media: Vec<MediumSpec>,
    /// Schemes that are compared.
    #[serde(rename = "scheme")]
    pub schemes: Vec<Scheme>,
    /// Workloads that each scheme carries, in every setting where there are settings.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// Settings: differences between otherwise equal runs.
    #[serde(rename = "setting", default)]
    pub settings: Vec<Setting>,
    /// Radio models for the energy of transfers.
    #[serde(rename = "energy", default)]
    pub energy: Vec<EnergyModel>,
    /// Bounds on results.
    #[serde(rename = "assert", default)]
    pub asserts: Vec<Assert>,
    /// Meaning and unit of the `parameter` of settings or schemes, the horizontal axis of pictures.
    pub parameter: Option<String>,
    /// Published figures.
    #[serde(rename = "paper", default)]
    pub papers: Vec<PaperFigure>,
    /// Path of the file.
    #[serde(skip)]
    pub path: PathBuf,
    /// Text of the file, for line numbers in errors and for the record.
    #[serde(skip)]
    pub(crate) text: String,
}

/// A host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Name, also in results.
    pub name: Spanned<String>,
    /// Role in the experiment.
    pub role: Role,
    /// Service address; proxy and origin need one.
    pub address: Option<std::net::Ipv4Addr>,
}

fn once() -> u32 {
    1
}

/// A twentieth of the shortest round trip in use (50 ms over a WWAN path), below the noise of TCP.
fn default_lateness() -> Duration {
    Duration::from_micros(2500)
}

impl Experiment {
    /// An error at the line of `what`.
    pub(crate) fn error_at<T>(&self, what: &Spanned<T>, message: &str) -> Error {
        let place = Place {
            file: &self.path.display().to_string(),
            text: &self.text,
        };
        place.error(Some(what.span()), message)
    }

    /// The host of a role that exactly one host has.
    pub(crate) fn host(&self, role: Role) -> &HostSpec {
        match self.hosts.iter().find(|h| h.role == role) {
            Some(host) => host,
            None => unreachable!("checked when the file was read"),
        }
    }

    /// The helpers, in the order of the file.
    pub(crate) fn helpers(&self) -> impl Iterator<Item = &HostSpec> {
        self.hosts.iter().filter(|h| h.role == Role::Helper)
    }

    /// The role of a host, by its name.
    pub(crate) fn role_of(&self, name: &str) -> Option<Role> {
        let host = self.hosts.iter().find(|h| h.name.get_ref() == name)?;
        Some(host.role)
    }

    /// The direct links from primary to proxy, in the order of the file.
    pub(crate) fn direct_links(&self) -> impl Iterator<Item = &Link> {
        self.links_between(Role::Primary, Role::Proxy)
    }

    /// The link between the primary and `helper`; of several ones, the first.
    pub(crate) fn pipe_of(&self, helper: &str) -> Option<&Link> {
        self.pipes_of(helper).next()
    }

    /// The links between the primary and `helper`, in the order of the file.
    pub(crate) fn pipes_of(&self, helper: &str) -> impl Iterator<Item = &Link> {
        self.links_between(Role::Primary, Role::Helper)
            .filter(move |l| l.to.get_ref() == helper)
    }

    /// The HS-Path: the link between `helper` and the proxy.
    pub(crate) fn uplink_of(&self, helper: &str) -> Option<&Link> {
        self.links_between(Role::Helper, Role::Proxy)
            .find(|l| l.from.get_ref() == helper)
    }

    /// The links between hosts of two roles, in the order of the file.
    pub(crate) fn links_between(&self, from: Role, to: Role) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |l| {
            self.role_of(l.from.get_ref()) == Some(from) && self.role_of(l.to.get_ref()) == Some(to)
        })
    }
}
