//! Experiments as data: one TOML file says which hosts there are, how they are
//! linked, what is compared, and what has to come out.
//!
//! ```toml
//! name = "demo"
//! repetitions = 1
//!
//! [[host]]
//! name = "primary"
//! role = "primary"                # primary, helper, proxy, origin
//! # ... one proxy and one origin, each with an `address`; any helpers
//!
//! [[link]]                        # "down" flows from `to` to `from`
//! name = "lte"
//! from = "primary"                # primary-proxy, primary-helper, helper-proxy
//! to = "proxy"
//! down = "8 Mbit/s"               # a rate, a schedule or a recording
//! up = "8 Mbit/s"
//! delay = "25ms"                  # one way
//! queue = "100ms"                 # more a link may have: `Link`
//!
//! [[link]]                        # no rates: a plain wire
//! name = "core"
//! from = "proxy"
//! to = "origin"
//!
//! [[scheme]]
//! name = "two devices"
//! scheme = "mpbond"               # or a baseline: single, kibbutz, combine
//! devices = 2
//! interception = "socks5"         # socks5, http, transparent
//!
//! [[workload]]
//! name = "10 MiB"
//! direction = "down"
//! bytes = "10 MiB"
//! ```

mod application;
mod check;
mod link;
mod page;
mod paper;
mod setting;
mod size;

use std::path::{Path, PathBuf};
use std::time::Duration;

use mpbond_sim::duration_text;
use serde::{Deserialize, Serialize};
use toml::Spanned;

pub use application::{Application, Chunks, Messages, Page, Stream, Video};
pub use link::{Change, Duplex, Link, MediumSpec};
pub use page::page_objects;
pub use paper::{PaperFigure, Published};
pub use setting::{LinkSetting, Setting};
pub use size::Size;

use crate::error::{Doing, Error, Result};
use crate::quantity::Quantity;

/// A whole experiment, checked: every name it refers to exists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name; results are kept under it.
    pub name: String,
    /// One line for the reader of the result.
    #[serde(default)]
    pub title: String,
    /// Fixes losses, jitter and file contents.
    #[serde(default)]
    pub seed: u64,
    /// How often each scheme does each workload; schemes are interleaved.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// A run whose packets left the links later than this (99th percentile of
    /// release after due time) is marked unfit.
    #[serde(default = "default_lateness", with = "duration_text")]
    pub max_lateness: Duration,
    /// What it measures is of the machine itself, or fills it: `make experiments`
    /// runs nothing beside it.
    #[serde(default)]
    pub alone: bool,
    /// What fetches.
    #[serde(default)]
    pub client: Client,
    /// The machines.
    #[serde(rename = "host")]
    pub hosts: Vec<HostSpec>,
    /// What connects them.
    #[serde(rename = "link")]
    pub links: Vec<Link>,
    /// What links share: WiFi channels, cells.
    #[serde(rename = "medium", default)]
    pub media: Vec<MediumSpec>,
    /// What is compared.
    #[serde(rename = "scheme")]
    pub schemes: Vec<Scheme>,
    /// What each scheme has to carry: in every setting, where there are any.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// What differs between otherwise equal runs.
    #[serde(rename = "setting", default)]
    pub settings: Vec<Setting>,
    /// By which models the energy of a transfer is accounted.
    #[serde(rename = "energy", default)]
    pub energy: Vec<EnergyModel>,
    /// What has to come out.
    #[serde(rename = "assert", default)]
    pub asserts: Vec<Assert>,
    /// What the `parameter` of settings or schemes is, with its unit: results
    /// are drawn against it.
    pub parameter: Option<String>,
    /// What the paper found.
    #[serde(rename = "paper", default)]
    pub papers: Vec<PaperFigure>,
    /// Where it was read from.
    #[serde(skip)]
    pub path: PathBuf,
    /// The file's text, for naming lines of it and for the record.
    #[serde(skip)]
    pub(crate) text: String,
}

/// A machine of the experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Its name, also in results.
    pub name: Spanned<String>,
    /// What it does.
    pub role: Role,
    /// The address it is known by; proxy and origin need one.
    pub address: Option<std::net::Ipv4Addr>,
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Where the client runs.
    Primary,
    /// Lends its Internet link.
    Helper,
    /// The multipath end point in the network, and the router towards the origin.
    Proxy,
    /// The unmodified HTTP server.
    Origin,
}

/// Which of a link's directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Towards the primary.
    Down,
    /// Away from the primary.
    Up,
}

/// One way of carrying the workloads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// Its name in results and asserts.
    pub name: Spanned<String>,
    /// What carries the bytes.
    pub scheme: Carrier,
    /// Scheduler of both ends.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Under `fixed-ratio`, the direct path's share of the bytes, 0 to 1.
    pub direct_share: Option<f64>,
    /// Which subflows feedback may travel on.
    #[serde(default)]
    pub feedback: Feedback,
    /// How the time that bytes wait at a helper is known.
    #[serde(default)]
    pub buffer_delay: BufferDelay,
    /// The primary and this many less one helpers, in the order of the file.
    #[serde(default = "one_device")]
    pub devices: usize,
    /// Names of the direct links to use; all of them when not given, but of a
    /// baseline no more than it can use: the first, or the first two of
    /// `kibbutz` on one device.
    pub paths: Option<Vec<Spanned<String>>>,
    /// Names of the workloads that it carries; all of them when not given.
    pub workloads: Option<Vec<Spanned<String>>>,
    /// How the client's connection gets into mpbond.
    #[serde(default)]
    pub interception: Interception,
    /// TCP congestion control everywhere in the experiment.
    #[serde(default = "cubic")]
    pub congestion: String,
    /// Whether everything is joined before the transfer starts.
    #[serde(default)]
    pub start: Start,
    /// How long a warm session idles before each transfer.
    #[serde(default = "default_idle", with = "duration_text")]
    pub idle: Duration,
    /// Whether helpers end the primary's connections and make others of their
    /// own, as MPBond has it. If not, they forward packets and translate
    /// addresses: the subflow is one TCP connection from the primary's address
    /// on the pipe to the proxy.
    #[serde(default = "yes")]
    pub split: bool,
    /// Dual mode: the first helper's user does the same at the same time, with
    /// pauses of its own. Of `mpbond` each device is the other one's helper, of
    /// `single` each user has the own link only. Results are of the primary's
    /// user, but for quantities that say so.
    #[serde(default)]
    pub dual: bool,
    /// Whether bytes may be sent again on another subflow.
    #[serde(default = "yes")]
    pub reinjection: bool,
    /// Whether the client connects anew for each transfer.
    #[serde(default)]
    pub connection: Connection,
    /// Bytes that a device of `combine` fetches at a time; 256 KiB when not
    /// given, as published.
    pub chunk: Option<Size>,
    /// Where it stands on the axis of the experiment's `parameter`.
    pub parameter: Option<f64>,
    /// Schemes of one series differ only in the parameter: one line in the
    /// picture. Its own name when not given.
    pub series: Option<String>,
}

/// What fetches and sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// The program that people have. It keeps no connection and has no
    /// Multipath TCP.
    #[default]
    Curl,
    /// The lab's own, which every scheme can use.
    Fetch,
}

/// What the client's connection has done before a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// It is made when the transfer starts, within the time that counts.
    #[default]
    New,
    /// It has carried 64 KiB and then been idle.
    Kept,
}

/// What carries the bytes of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// The daemons.
    Mpbond,
    /// Plain TCP from the primary to the origin over its first direct link.
    Single,
    /// The kernel's Multipath TCP over the first direct link and a tethered
    /// helper or, of one device, over its first two direct links.
    Kibbutz,
    /// HTTP byte ranges from a work queue, over the first direct link and by
    /// helpers that hand them on.
    Combine,
}

/// Schedulers that the daemons know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the session documents each
pub enum Scheduler {
    #[default]
    Pams,
    MinPad,
    MinRtt,
    RoundRobin,
    Redundant,
    FixedRatio,
    Single,
}

/// Which subflows feedback may travel on (MPBond, section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// Those whose radio was last busy with data.
    #[default]
    Flexible,
    /// The helper's, whether its radio is awake or not.
    FixedAlways,
    /// The helper's, while it carries data.
    FixedOnDemand,
}

/// How the time that bytes wait at a helper is known (MPBond, section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferDelay {
    /// From the bytes there and the throughput behind them.
    #[default]
    Estimated,
    /// As the helper measures it.
    Measured,
}

/// How the client's connection gets into mpbond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interception {
    /// Not at all: the client speaks to the origin.
    #[default]
    None,
    /// The client is told of a SOCKS5 server.
    Socks5,
    /// The client is told of an HTTP proxy.
    Http,
    /// The client is told nothing.
    Transparent,
}

/// What is open when a transfer starts (the terms of the project's list of
/// experiments).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// All subflows joined, then idle.
    #[default]
    Warm,
    /// The daemons have only just started; no subflow is waited for.
    Cold,
}

/// One transfer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in results and asserts.
    pub name: Spanned<String>,
    /// `down`: a GET; `up`: a PUT.
    pub direction: Direction,
    /// Bytes of the body.
    #[serde(default)]
    pub bytes: Size,
    /// Instead of one body: a video.
    pub video: Option<Video>,
    /// Instead of one body: a page.
    pub page: Option<Page>,
    /// Instead of one body: a stream of constant rate.
    pub stream: Option<Stream>,
    /// Instead of one body: chunks with pauses.
    pub chunks: Option<Chunks>,
    /// Instead of one body: messages beside a download.
    pub messages: Option<Messages>,
    /// Instead of a body of so many bytes: as much as comes in this time, from
    /// before the client connects.
    #[serde(rename = "for", default, with = "duration_text::option")]
    pub length: Option<Duration>,
    /// What goes wrong meanwhile.
    #[serde(rename = "fault", default)]
    pub faults: Vec<Fault>,
    /// The setting that it runs in, and its name in the file.
    #[serde(skip)]
    pub(crate) setting: Option<(Setting, String)>,
    /// Changes of links that only this transfer meets.
    #[serde(rename = "change", default)]
    pub changes: Vec<Change>,
}

/// Something that goes wrong, so long after the transfer's start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When.
    #[serde(with = "duration_text")]
    pub at: Duration,
    /// SIGKILL for the daemon of this host.
    pub kill: Option<Spanned<String>>,
    /// This link drops everything, both ways, and tells nobody.
    pub blackhole: Option<Spanned<String>>,
    /// This link goes down and says so: see [`Change::carrier`].
    pub down_with_error: Option<Spanned<String>>,
}

impl Fault {
    /// The link that it takes away, silently or not.
    pub(crate) fn link(&self) -> Option<&Spanned<String>> {
        self.blackhole.as_ref().or(self.down_with_error.as_ref())
    }
}

/// Which radios the devices have, for an account of what a transfer costs.
/// Names are those of shipped profiles, or of files listed in `profiles`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyModel {
    /// Its name in results.
    pub name: Spanned<String>,
    /// The radio of links to the proxy, primary's and helpers'.
    pub wwan: Spanned<String>,
    /// The radio at both ends of a link between primary and helper.
    pub pipe: Spanned<String>,
    /// The device whose figures say what the primary draws as an access point,
    /// while pipes are used; not accounted when not given.
    pub access_point: Option<Spanned<String>>,
    /// Profiles of one's own, beside the experiment's file.
    #[serde(default)]
    pub profiles: Vec<Spanned<PathBuf>>,
}

/// What has to come out; medians over the repetitions are compared. Without
/// `scheme` or `workload` it concerns all of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assert {
    /// The scheme it concerns.
    pub scheme: Option<Spanned<String>>,
    /// The workload it concerns.
    pub workload: Option<Spanned<String>>,
    /// The setting it concerns.
    pub setting: Option<Spanned<String>>,
    /// Seconds over ideal seconds, at most.
    pub max_ratio: Option<f64>,
    /// Seconds, at most.
    pub max_seconds: Option<f64>,
    /// Redundant bytes over the bytes of the file, at most.
    pub max_redundant_share: Option<f64>,
    /// Seconds between the first and the last subflow's end, at most.
    pub max_finish_spread_s: Option<f64>,
    /// The same as a share of the transfer's seconds, at most.
    pub max_finish_spread_share: Option<f64>,
    /// Seconds between the first and the last subflow's end, at least: for a
    /// published effect that must show.
    pub min_finish_spread_s: Option<f64>,
    /// Longest time without a byte at the client, at most.
    pub max_stall_s: Option<f64>,
    /// Not slower than this scheme (name), by the same workload: seconds of
    /// the same repetition over each other; misses where the interval of the
    /// median lies above 1.
    pub not_slower_than: Option<Spanned<String>>,
    /// The scheme (name) that `quantity` is compared with.
    pub versus: Option<Spanned<String>>,
    /// What `at_most` and `at_least` bound: its median or, with `versus`, the
    /// median of its ratio to that scheme's in the same repetition.
    pub quantity: Option<Spanned<Quantity>>,
    /// Of energy: by which model; the first when not given.
    pub model: Option<Spanned<String>>,
    /// Upper bound of `quantity`.
    pub at_most: Option<f64>,
    /// Lower bound of `quantity`.
    pub at_least: Option<f64>,
    /// `quantity` is bounded on average over the workloads that it concerns
    /// (the geometric mean), not in each of them.
    #[serde(default)]
    pub on_average: bool,
}

fn once() -> u32 {
    1
}
fn one_device() -> usize {
    1
}
fn yes() -> bool {
    true
}
fn cubic() -> String {
    "cubic".to_owned()
}
fn default_idle() -> Duration {
    Duration::from_secs(5)
}
/// A twentieth of the shortest round trip that the experiments use (50 ms over
/// a WWAN path) stays below the noise of TCP itself.
fn default_lateness() -> Duration {
    Duration::from_micros(2500)
}

impl Experiment {
    /// Reads and checks an experiment file.
    ///
    /// # Errors
    /// [`Error::Experiment`] naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        const LIMIT: u64 = 1 << 20;
        let length = std::fs::metadata(path).at("read", path)?.len();
        if length > LIMIT {
            return Err(Error::Experiment(format!(
                "{}: {length} bytes are no experiment file (at most {LIMIT})",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).at("read", path)?;
        let mut experiment = Self::parse(&path.display().to_string(), &text)?;
        experiment.path = path.to_owned();
        experiment.read_pages()?;
        Ok(experiment)
    }

    /// Reads the lists of objects that pages name.
    fn read_pages(&mut self) -> Result<()> {
        let mut workloads = std::mem::take(&mut self.workloads);
        for workload in &mut workloads {
            if let Some(page) = &mut workload.page {
                page::read(self, page)?;
            }
        }
        self.workloads = workloads;
        Ok(())
    }

    /// Reads and checks an experiment from `text`; `file` names it in errors.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let place = check::Place { file, text };
        let mut experiment: Self =
            toml::from_str(text).map_err(|e| place.error(e.span(), e.message()))?;
        check::check(&experiment, &place)?;
        experiment.workloads = setting::in_every_setting(&experiment);
        text.clone_into(&mut experiment.text);
        Ok(experiment)
    }

    /// What is wrong with `what`, and where that stands in the file.
    pub(crate) fn error_at<T>(&self, what: &Spanned<T>, message: &str) -> Error {
        let place = check::Place {
            file: &self.path.display().to_string(),
            text: &self.text,
        };
        place.error(Some(what.span()), message)
    }

    /// The path of a file that is named relative to the experiment's.
    pub(crate) fn beside(&self, file: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(file)
    }

    /// The host in a role that exactly one host has.
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

    /// The role of a host by name.
    pub(crate) fn role_of(&self, name: &str) -> Option<Role> {
        let host = self.hosts.iter().find(|h| h.name.get_ref() == name)?;
        Some(host.role)
    }

    /// The workloads that `scheme` carries.
    pub(crate) fn workloads_of(&self, scheme: &Scheme) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().filter(|w| scheme.carries(w))
    }

    /// The direct links from primary to proxy, in the order of the file.
    pub(crate) fn direct_links(&self) -> impl Iterator<Item = &Link> {
        self.links_between(Role::Primary, Role::Proxy)
    }

    /// The link between the primary and `helper`.
    pub(crate) fn pipe_of(&self, helper: &str) -> Option<&Link> {
        self.links_between(Role::Primary, Role::Helper)
            .find(|l| l.to.get_ref() == helper)
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

impl Scheme {
    /// The scheduler as the daemons' configuration has it.
    pub(crate) fn scheduler_text(&self) -> String {
        let name = name_of(self.scheduler);
        match self.direct_share {
            Some(share) => format!("{name}={share}"),
            None => name,
        }
    }

    /// The direct links that it uses, in the order of the file.
    pub(crate) fn direct_links<'e>(&self, e: &'e Experiment) -> impl Iterator<Item = &'e Link> {
        let most = match self.scheme {
            Carrier::Mpbond => usize::MAX,
            Carrier::Kibbutz if self.devices == 1 => 2,
            Carrier::Single | Carrier::Kibbutz | Carrier::Combine => 1,
        };
        e.direct_links()
            .filter(|link| names(self.paths.as_ref(), &link.name))
            .take(most)
    }

    /// The names of the helpers that it uses, in the order of the file.
    pub(crate) fn helpers<'e>(&self, e: &'e Experiment) -> impl Iterator<Item = &'e String> {
        let names = e.helpers().map(|h| h.name.get_ref());
        names.take(self.devices.saturating_sub(1))
    }

    /// Whether its helpers forward packets.
    pub(crate) fn is_tethered(&self) -> bool {
        let forwards = self.scheme == Carrier::Kibbutz || !self.split;
        forwards && self.devices > 1
    }

    /// The helpers whose radios it uses: its own, and a second user's device.
    pub(crate) fn devices_beside<'e>(&self, e: &'e Experiment) -> impl Iterator<Item = &'e String> {
        let names = e.helpers().map(|h| h.name.get_ref());
        let used = self.devices.saturating_sub(1);
        names.take(used.max(usize::from(self.dual)))
    }

    /// Bytes of a chunk of `combine`.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunk.map_or(256 << 10, |chunk| chunk.0)
    }

    /// Whether it carries `workload`.
    pub(crate) fn carries(&self, workload: &Workload) -> bool {
        let list = self.workloads.as_ref();
        list.is_none_or(|list| list.iter().any(|name| workload.is_called(name.get_ref())))
    }
}

impl Workload {
    /// What it runs instead of one transfer.
    pub fn application(&self) -> Option<Application<'_>> {
        let video = self.video.as_ref().map(Application::Video);
        let page = self.page.as_ref().map(Application::Page);
        let stream = self.stream.as_ref().map(Application::Stream);
        let chunks = self.chunks.as_ref().map(Application::Chunks);
        let timed = self.length.map(Application::Timed);
        let messages = self.messages.as_ref().map(Application::Messages);
        video.or(page).or(stream).or(chunks).or(messages).or(timed)
    }

    /// Bytes that it fetches, at the most; 0 where only the links limit them.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.application()
            .map_or(self.bytes.0, |app| app.most_bytes())
    }

    /// Whether it is this one, in any setting or in the one that is named, too.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let in_file = self.setting.as_ref().map(|(_, in_file)| in_file);
        self.name.get_ref() == name || in_file.is_some_and(|in_file| in_file == name)
    }
}

/// Whether a list that may be left out names `name`.
fn names(list: Option<&Vec<Spanned<String>>>, name: &Spanned<String>) -> bool {
    list.is_none_or(|list| list.contains(name))
}

/// The name that a unit variant has in files.
pub(crate) fn name_of(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
