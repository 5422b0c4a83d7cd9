//! The own paths and helpers of a primary, which a reload may change: their signals, prices, limits
//! and events.

mod events;
pub(super) mod facts;
mod limit_watch;
pub(super) mod limits;
pub(super) mod modes;
mod pipe_watch;
mod price_watch;
pub(super) mod prices;
mod signal_watch;
pub(super) mod signals;
mod spaced;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::{Link, LinkId, SNIFF_PAUSE};
use mpbond_net::DeviceId;
use mpbond_net::pipe::PipeAddress;
use mpbond_price::PipeRadios;
use mpbond_session::{DeviceLabel, HelperId, PathNumber, PathSet};

use crate::api::EventKind;
use crate::config::{HelperAddress, HelperRef, PathConfig, PrimaryConfig};
use crate::link_problem::link_problem;

/// Configuration of a link.
#[derive(PartialEq)]
pub(super) enum LinkConfig {
    Path(PathConfig),
    Pipe(HelperRef),
}

impl LinkConfig {
    /// All of a configuration: own paths come first, pipes after them.
    pub(super) fn all(config: &PrimaryConfig) -> Vec<Self> {
        let paths = config.paths.iter().cloned().map(Self::Path);
        let pipes = config.helpers.iter().cloned().map(Self::Pipe);
        paths.chain(pipes).collect()
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Path(path) => &path.name,
            Self::Pipe(helper) => &helper.name,
        }
    }

    /// Why its interface cannot carry anything.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Path(path) => link_problem(path.interface.as_deref(), path.source),
            Self::Pipe(helper) => link_problem(helper.interface.as_deref(), helper.source),
        }
    }

    /// Whether it is used only when no other subflow is left.
    pub(super) fn is_backup(&self) -> bool {
        match self {
            Self::Path(path) => path.backup,
            Self::Pipe(helper) => helper.backup,
        }
    }

    /// The same link with another value of this.
    pub(super) fn with_backup(mut self, is_backup: bool) -> Self {
        match &mut self {
            Self::Path(path) => path.backup = is_backup,
            Self::Pipe(helper) => helper.backup = is_backup,
        }
        self
    }

    /// Whether all but the radios, which are models for a choice and a price, is as in another
    /// configuration: connections over it stay.
    pub(super) fn has_connections_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pipe(pipe), Self::Pipe(other)) => {
                let radios = pipe.radios;
                let other = HelperRef {
                    radios,
                    ..other.clone()
                };
                *pipe == other
            }
            _ => self == other,
        }
    }

    /// Radios of a pipe, where they are named.
    pub(super) fn radios(&self) -> Option<PipeRadios> {
        match self {
            Self::Path(_) => None,
            Self::Pipe(pipe) => pipe.radios,
        }
    }

    /// Whether it is a pipe that may run over Ethernet frames.
    pub(super) fn may_use_frames(&self) -> bool {
        matches!(self, Self::Pipe(helper) if helper.ethernet_frames)
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Path(_) => "path",
            Self::Pipe(_) => "helper",
        }
    }
}

/// The links that were up at the last look, with the types of the events of their ends and their
/// names.
#[derive(Default)]
pub(super) struct LinksUp(pub(super) RefCell<BTreeMap<LinkId, (EventKind, String)>>);

/// The links in use, by the manager's numbers.
#[derive(Default)]
pub(super) struct Links {
    by_id: BTreeMap<LinkId, Rc<LinkConfig>>,
    /// The proxy, which is told the devices behind pipes.
    proxy: Option<DeviceId>,
    /// Numbers of the helpers that have been configured since the start. Pipes to one device have
    /// one number, and a reload keeps it.
    helpers: HashMap<DeviceId, HelperId>,
    /// Numbers of paths by the names of links. Rules name links, so that one which a reload changes
    /// keeps its number.
    numbers: HashMap<String, PathNumber>,
}

/// The number that no link has: streams whose rules exclude every link wait for its path.
const NO_LINK: u8 = PathNumber::MAX;

impl Links {
    /// Those of the start, and what the manager has to know of them, which numbers them in this
    /// order.
    pub(super) fn new(config: &PrimaryConfig) -> (Self, Vec<Link>) {
        let mut links = Self {
            proxy: Some(config.proxy.id),
            ..Self::default()
        };
        let mut setups = Vec::new();
        for (id, link) in (0..).map(LinkId).zip(LinkConfig::all(config)) {
            setups.push(links.setup(&link));
            links.insert(id, link);
        }
        (links, setups)
    }

    /// Own paths come first, pipes after them.
    pub(super) fn all(&self) -> Vec<(LinkId, Rc<LinkConfig>)> {
        let all = self.by_id.iter().map(|(id, link)| (*id, Rc::clone(link)));
        let (mut all, pipes): (Vec<_>, Vec<_>) =
            all.partition(|(_, link)| matches!(**link, LinkConfig::Path(_)));
        all.extend(pipes);
        all
    }

    /// Calls `f` for each.
    /// Whether the radios of a pipe are named.
    pub(super) fn has_radios(&self) -> bool {
        self.by_id.values().any(|link| link.radios().is_some())
    }

    pub(super) fn each(&self, mut f: impl FnMut(LinkId, &LinkConfig)) {
        for (id, link) in &self.by_id {
            f(*id, link);
        }
    }

    pub(super) fn get(&self, id: LinkId) -> Option<Rc<LinkConfig>> {
        self.by_id.get(&id).cloned()
    }

    pub(super) fn insert(&mut self, id: LinkId, link: LinkConfig) {
        self.by_id.insert(id, Rc::new(link));
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        self.by_id.remove(&id);
    }

    /// The paths of links with these names.
    pub(super) fn paths<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> PathSet {
        let numbers = names.into_iter().filter_map(|name| self.numbers.get(name));
        let none = || PathSet::of(PathNumber::new(NO_LINK.into()));
        let paths = PathSet::of(numbers.copied()).or_else(none);
        paths.unwrap_or(PathSet::ALL)
    }

    /// The number of the path of a link. The names of a primary's whole life may be more than there
    /// are numbers: such a link carries only what may use all paths.
    fn number(&mut self, name: &str) -> Option<PathNumber> {
        let next = u64::try_from(self.numbers.len()).unwrap_or(u64::MAX);
        let next = PathNumber::new(next).filter(|next| next.get() != NO_LINK);
        match (self.numbers.get(name), next) {
            (Some(known), _) => Some(*known),
            (None, Some(next)) => {
                self.numbers.insert(name.to_owned(), next);
                Some(next)
            }
            (None, None) => None,
        }
    }

    /// What the manager has to know of a link.
    pub(super) fn setup(&mut self, link: &LinkConfig) -> Link {
        let number = self.number(link.name());
        match link {
            LinkConfig::Path(path) => Link {
                backup: path.backup,
                number,
                ..Link::path(&path.name)
            },
            LinkConfig::Pipe(pipe) => {
                let next = u32::try_from(self.helpers.len()).unwrap_or(u32::MAX);
                let helper = *self.helpers.entry(pipe.id).or_insert(HelperId(next));
                Link {
                    backup: pipe.backup,
                    number,
                    lender: self
                        .proxy
                        .map(|proxy| DeviceLabel::new(proxy.as_bytes(), pipe.id.as_bytes())),
                    place: pipe.place,
                    radios: pipe.radios,
                    by_app: pipe.by_app,
                    // A Unix socket leads to Bluetooth.
                    pause: match &pipe.address {
                        HelperAddress::At(PipeAddress::Unix(_)) => SNIFF_PAUSE,
                        _ => Duration::ZERO,
                    },
                    ..Link::pipe(&pipe.name, helper)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(name: &str, device: u8) -> HelperRef {
        HelperRef {
            name: name.to_owned(),
            address: HelperAddress::Discover,
            id: DeviceId::from_bytes([device; 32]),
            interface: None,
            source: None,
            backup: false,
            place: None,
            ethernet_frames: false,
            by_app: false,
            radios: None,
        }
    }

    #[test]
    fn pipes_to_one_device_have_one_helper_number_also_after_a_reload() {
        let mut links = Links::default();
        let mut helper = |pipe: HelperRef| links.setup(&LinkConfig::Pipe(pipe)).helper;
        assert_eq!(helper(pipe("phone wifi", 1)), Some(HelperId(0)));
        assert_eq!(helper(pipe("tablet", 2)), Some(HelperId(1)));
        assert_eq!(helper(pipe("phone usb", 1)), Some(HelperId(0)));
        // A link that a reload has changed is set up anew.
        let changed = HelperRef {
            backup: true,
            ..pipe("phone wifi", 1)
        };
        assert_eq!(helper(changed), Some(HelperId(0)));
        assert_eq!(helper(pipe("watch", 3)), Some(HelperId(2)));
    }

    #[test]
    fn connections_stay_if_only_radios_are_others() {
        let of = |change: fn(&mut HelperRef)| {
            let mut pipe = pipe("phone", 1);
            change(&mut pipe);
            LinkConfig::Pipe(pipe)
        };
        let bluetooth = of(|pipe| {
            let near = mpbond_price::radio("watch-bt").unwrap();
            pipe.radios = Some(PipeRadios { near, far: None });
        });
        let none = of(|_| ());
        assert!(bluetooth.has_connections_of(&none) && none.has_connections_of(&bluetooth));
        for other in [
            of(|pipe| pipe.backup = true),
            of(|pipe| pipe.place = Some(1)),
            of(|pipe| pipe.interface = Some("wlan0".to_owned())),
        ] {
            assert!(!bluetooth.has_connections_of(&other));
        }
    }

    #[test]
    fn the_proxy_is_told_the_device_behind_a_pipe() {
        let mut links = Links {
            proxy: Some(DeviceId::from_bytes([9; 32])),
            ..Links::default()
        };
        let lender = links.setup(&LinkConfig::Pipe(pipe("phone", 1))).lender;
        assert_eq!(lender, Some(DeviceLabel::new(&[9; 32], &[1; 32])));
        assert_ne!(lender, Some(DeviceLabel::new(&[8; 32], &[1; 32])));
    }

    #[test]
    fn links_have_numbers_by_their_names_as_long_as_there_are_some() {
        let mut links = Links::default();
        let mut number = |n: usize| {
            let link = LinkConfig::Pipe(pipe(&format!("link {n}"), 1));
            links.setup(&link).number.map(PathNumber::get)
        };
        let numbers: Vec<_> = (0..64).map(&mut number).collect();
        assert_eq!((numbers[0], numbers[60]), (Some(0), Some(60)));
        assert_eq!(numbers[61..], [None; 3]);
        assert_eq!(number(7), Some(7));
        let number = |n| PathNumber::new(n).unwrap();
        let some = links.paths(["link 3", "link 60", "link 61", "another"]);
        assert_eq!(some, PathSet::of([3, 60].map(number)).unwrap());
        assert_eq!(links.paths(["link 61"]), PathSet::of([number(61)]).unwrap());
        assert_eq!(links.paths([]), PathSet::of([number(61)]).unwrap());
    }
}
