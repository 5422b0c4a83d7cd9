//! Configuration of a path manager.

use std::time::Duration;

use mpbond_price::PipeRadios;
use mpbond_session::{DeviceLabel, HelperId, PathNumber};

use crate::express::WORTH_OPENING;

/// Links of a primary, and the policy for times without a working path.
#[derive(Clone, Debug)]
pub struct Config {
    /// Own paths and pipes at the start; their [`LinkId`](crate::LinkId)s count from zero.
    pub links: Vec<Link>,
    /// Handling of new connections while no path to the proxy works.
    pub without_proxy: WithoutProxy,
    /// Queueing delay at a helper from which an express is opened; `None` opens none.
    pub express_at: Option<Duration>,
}

impl Config {
    /// Links with the default policy: connections go direct, expresses are opened.
    pub fn new(links: Vec<Link>) -> Self {
        Self {
            links,
            without_proxy: WithoutProxy::Direct,
            express_at: Some(WORTH_OPENING),
        }
    }
}

/// An own path or a pipe.
#[derive(Clone, Debug)]
pub struct Link {
    /// Name of its subflows, for people.
    pub name: String,
    /// The helper at the far end of a pipe; `None` for an own path.
    pub helper: Option<HelperId>,
    /// Label of that helper, if the proxy is to know it.
    pub lender: Option<DeviceLabel>,
    /// Whether its subflow carries data only when no regular one is left.
    pub backup: bool,
    /// Number by which sets of paths name it, if it has one.
    pub number: Option<PathNumber>,
    /// Of a pipe: its place, the cheapest one first, among those to the same helper of which the
    /// best one is used (ADR 0040). `None`: it is used whatever the others do.
    pub place: Option<usize>,
    /// Of a pipe with a place: its radios, where they are named. Of those to one helper, the ones
    /// with radios come first in the order by cost, by their energy (ADR 0066).
    pub radios: Option<PipeRadios>,
    /// Applications choose among the pipes with a place, by rules: none is tried because the used
    /// one is too slow.
    pub by_app: bool,
    /// Of a pipe: longest time for which its link says nothing though it works, such as that of
    /// Bluetooth which leaves Sniff mode ([`SNIFF_PAUSE`](crate::SNIFF_PAUSE)).
    pub pause: Duration,
}

impl Link {
    /// A PS-Path over one of the primary's own interfaces.
    pub fn path(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            helper: None,
            lender: None,
            backup: false,
            number: None,
            place: None,
            radios: None,
            by_app: false,
            pause: Duration::ZERO,
        }
    }

    /// A pipe to a helper. Several pipes may lead to the same helper.
    pub fn pipe(name: &str, helper: HelperId) -> Self {
        Self {
            helper: Some(helper),
            ..Self::path(name)
        }
    }
}

/// Handling of new connections while no path to the proxy works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WithoutProxy {
    /// They go direct. A silent path does not count as working.
    Direct,
    /// They are refused. A silent path counts as working, since waiting on it is better than a
    /// refusal.
    Refuse,
}
