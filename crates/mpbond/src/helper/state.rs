//! State that all tasks of a helper share, on one thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mpbond_manager::{Addresses, is_own};
use mpbond_net::DeviceId;
use mpbond_net::control::TicketBook;
use mpbond_net::identity::Identity;
use mpbond_net::relay::RelayHandle;
use mpbond_net::tcp::Tuning;
use mpbond_net::tls::{Label, Trust};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::info;

use super::battery::OwnBattery;
use super::budget::MonthlyBudget;
use super::frames::Frames;
use super::lending::{LentLink, OverLink};
use super::promise::Promise;
use super::proxies::Names;
use super::several::{Ends, Pipe};
use crate::config::{HOST_NAME, HelperConfig, ProxyAddress, TrustFile};
use crate::driver::Clock;
use crate::own_mark::OWN_MARK;
use crate::quota::Quota;
use crate::random;
use crate::rate_limited_log::{Line, PeerLog};
use crate::sandbox::{self, Access, Need, Place};
use crate::status::SandboxStatus;

/// Limits of control connections, in total and per primary: one in use for each pipe, and dead ones
/// that the helper has not detected yet. Four pipes can be lost and come back at once.
const MAX_CONTROLS: usize = 64;
const MAX_CONTROLS_EACH: usize = 8;

/// Limits of relays, promised ones included, in total and per primary: a session has no more
/// subflows.
pub(super) const MAX_RELAYS: usize = 64;
pub(super) const MAX_RELAYS_EACH: usize = 16;

/// Limits of measurements, in total and per primary, which makes one at a time.
const MAX_MEASUREMENTS: usize = 8;
const MAX_MEASUREMENTS_EACH: usize = 2;

/// End of a helper's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Primaries are told, and recall what is on the way.
    Stop,
    /// Another process has taken over: primaries lose the control connection, and their relays go
    /// on until they are idle.
    HandOver,
}

/// A relay in operation.
pub(super) struct Active {
    pub(super) primary: DeviceId,
    pub(super) proxy: SocketAddr,
    /// The entry of the configuration that allows it.
    pub(super) entry: ProxyAddress,
    pub(super) handle: RelayHandle,
    /// The own address that the HS-Path runs from.
    pub(super) hs_local: Option<IpAddr>,
    pub(super) pipe: Pipe,
    /// Where the capacity of the link is stated.
    pub(super) over: Option<OverLink>,
}

/// State that all tasks of a helper share, on one thread.
pub(super) struct Helper {
    /// The configuration in force.
    config: RefCell<Rc<HelperConfig>>,
    pub(super) identity: Identity,
    pub(super) trust: Arc<dyn Trust>,
    /// Raised when the list of trusted devices or the configuration may have changed.
    pub(super) permissions: watch::Sender<()>,
    /// How this process ends, once it does.
    pub(super) leaving: watch::Sender<Option<Leave>>,
    /// The first octets of this process's tickets.
    pub(super) label: Label,
    pub(super) tickets: RefCell<TicketBook<Promise>>,
    pub(super) relays: RefCell<HashMap<u64, Active>>,
    /// Bytes of relays that have ended, by primary: as many as are or were trusted.
    pub(super) relayed: RefCell<BTreeMap<DeviceId, (u64, u64)>>,
    pub(super) names: Rc<Names>,
    /// The address at which a proxy has answered last.
    pub(super) reached: RefCell<Addresses>,
    /// Relays and control connections by primary.
    pub(super) relay_quota: Quota<DeviceId>,
    pub(super) control_quota: Quota<DeviceId>,
    pub(super) measurement_quota: Quota<DeviceId>,
    /// Channels over Ethernet frames.
    pub(super) frames: Frames,
    pub(super) next_relay: Cell<u64>,
    pub(super) budget: Option<MonthlyBudget>,
    pub(super) battery: OwnBattery,
    /// The link that is lent, where its capacity is stated.
    pub(super) link: Option<LentLink>,
    pub(super) clock: Clock,
    /// Whether own connections bear the mark that interception on this device lets through.
    marks: bool,
    /// Lines about connections that end badly.
    pub(super) refused: PeerLog<IpAddr>,
    /// Lines about connections of primaries that come and go.
    lines: PeerLog<DeviceId>,
    /// Privileges given up, for status.
    pub(super) sandboxed: RefCell<Option<SandboxStatus>>,
}

impl Helper {
    /// State of a helper that starts.
    ///
    /// # Errors
    /// The monthly budget cannot be read, or the system has no random octets.
    pub(super) fn new(
        config: HelperConfig,
        identity: Identity,
        trust: Arc<dyn Trust>,
        marks: bool,
    ) -> anyhow::Result<Self> {
        let budget = config
            .max_bytes_per_month
            .map(|max| MonthlyBudget::load(&config.identity, max))
            .transpose()
            .context("monthly budget")?;
        let label = Label(random::bytes().context("random octets")?);
        Ok(Self {
            identity,
            trust,
            permissions: watch::Sender::new(()),
            leaving: watch::Sender::new(None),
            label,
            tickets: RefCell::new(TicketBook::new(label)),
            relays: RefCell::default(),
            relayed: RefCell::default(),
            names: Names::new(&config, marks.then_some(OWN_MARK)),
            reached: RefCell::default(),
            relay_quota: Quota::new(MAX_RELAYS, MAX_RELAYS_EACH),
            control_quota: Quota::new(MAX_CONTROLS, MAX_CONTROLS_EACH),
            measurement_quota: Quota::new(MAX_MEASUREMENTS, MAX_MEASUREMENTS_EACH),
            frames: Frames::new(&config),
            next_relay: Cell::new(0),
            budget,
            battery: OwnBattery::new(config.battery_floor),
            link: LentLink::of(&config.uplink),
            clock: Clock::start(),
            marks,
            refused: PeerLog::default(),
            lines: PeerLog::of_connections(),
            sandboxed: RefCell::default(),
            config: RefCell::new(Rc::new(config)),
        })
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Rc<HelperConfig> {
        Rc::clone(&self.config.borrow())
    }

    /// Puts another configuration in force. Relays and measurements that it does not allow end, so
    /// that primaries turn to other paths.
    pub(super) fn configure(&self, config: &HelperConfig) {
        self.config.replace(Rc::new(config.clone()));
        self.names.configure(config);
        if let (Some(budget), Some(max)) = (&self.budget, config.max_bytes_per_month) {
            budget.set_max_bytes(max);
        }
        self.battery.set_floor(config.battery_floor);
        for relay in self.relays.borrow().values() {
            if !config.lends_to(&relay.entry, relay.proxy) {
                info!(
                    primary = relay.primary.short(),
                    proxy = %relay.proxy,
                    "the configuration no longer allows this relay"
                );
                relay.handle.stop();
            }
        }
        self.permissions.send_replace(());
    }

    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            congestion: self.config().congestion.clone(),
            user_timeout: Some(Duration::from_secs(30)),
            keepalive: Some(Duration::from_secs(240)),
            mark: self.marks.then_some(OWN_MARK),
            ..Tuning::default()
        }
    }

    /// Privileges that it goes on needing.
    pub(super) fn sandbox(&self) -> sandbox::Plan {
        let config = self.config();
        let mut plan = sandbox::Plan::default();
        plan.status_socket(&config.status_socket);
        plan.congestion(config.congestion.as_deref());
        if config.uplink.interface.is_some() {
            plan.needs.push(Need::Interface);
        }
        let trusted = TrustFile::beside(&config.identity);
        plan.places
            .extend(Place::around(trusted.path(), Access::Read));
        if self.budget.is_some() {
            plan.places
                .extend(Place::around(&config.identity, Access::Change));
        }
        // A reload may bring names of proxies.
        plan.places.extend(sandbox::for_names());
        for file in [mpbond_net::relay::RECEIVE_BUFFER_LIMIT, HOST_NAME] {
            let place = Place::new(Path::new(file), Access::Read);
            plan.places.push(place);
        }
        plan
    }

    /// Ends relays and control connections of devices that are no longer trusted.
    pub(super) fn revoke(&self) {
        for relay in self.relays.borrow().values() {
            if !self.trust.trusts(&relay.primary) {
                info!(primary = relay.primary.short(), "no longer trusted");
                relay.handle.stop();
            }
        }
        self.permissions.send_replace(());
    }

    /// The host's addresses have changed: ends relays whose HS-Path ran from a removed address, so
    /// that primaries ask for new ones.
    pub(super) fn moved(&self, own: &HashSet<IpAddr>) {
        for relay in self.relays.borrow().values() {
            if relay.hs_local.is_some_and(|a| !is_own(own, a)) {
                info!(
                    primary = relay.primary.short(),
                    "its HS-Path's address is gone"
                );
                relay.handle.stop();
            }
        }
    }

    /// Whether there are relays or measurements, or valid tickets for any.
    pub(super) fn is_in_use(&self) -> bool {
        self.tickets.borrow_mut().expire(Instant::now());
        self.relay_quota.is_in_use() || self.measurement_quota.is_in_use()
    }

    /// The pipe of a new relay of a primary.
    pub(super) fn pipe(&self, primary: DeviceId, ends: Ends) -> Pipe {
        let relays = self.relays.borrow();
        let own = relays.values().filter(|relay| relay.primary == primary);
        Pipe::new(ends, own.map(|relay| &relay.pipe))
    }

    /// The line about a primary's connections that may be written now, if any.
    pub(super) fn line(&self, primary: DeviceId) -> Option<Line> {
        self.lines.line(primary, self.clock.now())
    }
}

/// Adds the bytes of a relay to those of its primary.
pub(super) fn add_relayed(relayed: &mut BTreeMap<DeviceId, (u64, u64)>, relay: &Active) {
    let (down, up) = relay.handle.moved();
    let sum = relayed.entry(relay.primary).or_default();
    *sum = (sum.0 + down, sum.1 + up);
}
