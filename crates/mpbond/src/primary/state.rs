//! State that all tasks of a primary share, on one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mpbond_intercept::dns::KnownNames;
use mpbond_manager::{
    CONNECT_WITHIN, Config, DialId, Link, LinkId, Manager, SubflowFacts, WithoutProxy,
};
use mpbond_net::identity::Identity;
use mpbond_net::pipe::{PipeAddress, PipeStream, UnixPipe};
use mpbond_net::resolve::Resolver;
use mpbond_net::tcp::{self, TcpOptions, Tuning};
use mpbond_session::{SessionConfig, StreamId, SubflowStats};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::links::{LinkConfig, Links, LinksUp};
use super::resolvers::{ProxyAddresses, Resolvers};
use crate::api::Events;
use crate::config::{HelperRef, OnProxyLoss, PolicySource, PrimaryConfig, ZONES};
use crate::driver::{Clock, Driver, Handle, TransferLog};
use crate::own_mark::OWN_MARK;
use crate::policy::{Cgroups, InForce};
use crate::power::Power;
use crate::primary::actions::{
    frames::Frames,
    handles::{Control, Rescuable},
};
use crate::primary::connections::{
    clients::{Clients, MAX_CLIENTS, MAX_REFUSALS},
    direct,
    flows::Flows,
    identity::Owners,
    reached::Reached,
    waiting::WaitingList,
};
use crate::primary::fronts::carried_families::CarriedFamilies;
use crate::primary::links::{
    facts::AllFacts,
    limits::Limits,
    modes::Modes,
    prices::Prices,
    signals::{Signals, WeakLinks},
};
use crate::quota::Quota;
use crate::rate_limited_log::{PeerLog, RateLimitedLog};
use crate::sandbox::{self, Access, Need, Place};
use crate::status::SandboxStatus;
use crate::usage::Usage;

/// State of a primary.
pub(super) struct Primary {
    /// The configuration of the start. What a reload applies may have changed since.
    pub(super) config: PrimaryConfig,
    /// The paths and helpers in use.
    pub(super) links: RefCell<Links>,
    /// Handling of new connections while no path to the proxy works.
    pub(super) on_proxy_loss: Cell<OnProxyLoss>,
    pub(super) identity: Identity,
    pub(super) clock: Clock,
    pub(super) log: TransferLog,
    /// The session in use, if there is one.
    pub(super) driver: RefCell<Option<Driver>>,
    /// Sessions that take no new streams, oldest first.
    pub(super) retiring: RefCell<Vec<Driver>>,
    pub(super) manager: RefCell<Manager>,
    /// Raised after each input of the manager.
    pub(super) changed: watch::Sender<()>,
    /// The manager wants a session.
    pub(super) open_session: Notify,
    /// Connection attempts under way.
    pub(super) dials: RefCell<HashMap<DialId, AbortHandle>>,
    /// Control connections, by pipe.
    pub(super) controls: RefCell<HashMap<LinkId, Control>>,
    /// Channels to helpers over Ethernet frames.
    pub(super) frames: Frames,
    /// Addresses of the proxy.
    pub(super) addresses: RefCell<ProxyAddresses>,
    /// Resolvers of the proxy's names.
    pub(super) resolvers: Resolvers,
    /// Connections of which the proxy may not have heard.
    pub(super) rescuable: RefCell<HashMap<StreamId, Rescuable>>,
    /// Resolver of direct connections.
    pub(super) resolver: Rc<Resolver<()>>,
    /// Number of connections that went direct since no path to the proxy worked.
    pub(super) direct: Cell<u64>,
    /// Clients of fronts.
    pub(super) clients: Clients,
    /// Look-ups of the programs that own their sockets.
    pub(super) owners: Owners,
    /// Applications' connections that sessions carry.
    pub(super) flows: Flows,
    /// New connections that wait.
    pub(super) waiting: WaitingList,
    /// The recent events, for the API.
    pub(super) events: Rc<Events>,
    /// The links of which it was told last that they are up.
    pub(super) links_up: LinksUp,
    /// What programs have told of links through the API.
    pub(super) link_facts: AllFacts,
    /// Modes of links that were set through the API.
    pub(super) modes: Modes,
    /// The links that are off by such a mode.
    pub(super) off: RefCell<Vec<LinkConfig>>,
    /// Where the rules in force are from.
    pub(super) policy_source: RefCell<Option<PolicySource>>,
    /// Rules for new connections, if there is a policy.
    pub(super) policy: RefCell<Option<Rc<InForce>>>,
    /// Prices of helpers.
    pub(super) prices: Prices,
    /// The session whose pipes are looked at.
    pub(super) pipes_watched: RefCell<Option<Handle>>,
    /// Signals of this device's radios.
    pub(super) signals: Signals,
    /// Links whose signals are compared with thresholds of the policy.
    pub(super) weak_links: WeakLinks,
    /// Limits of links.
    pub(super) limits: Limits,
    /// Batteries of this device.
    pub(super) power: Power,
    /// Control groups of programs.
    pub(super) cgroups: Cgroups,
    /// Names for which the DNS stub has answered with an address.
    pub(super) known_names: Arc<KnownNames>,
    /// Clients that are being told that there is no room for them.
    pub(super) refusals: Quota<()>,
    /// The session takes more streams: for clients that wait.
    pub(super) room: Notify,
    /// Line about refused clients.
    pub(super) crowded: RateLimitedLog,
    /// Line about clients that the policy refuses.
    pub(super) refused_by_rules: RateLimitedLog,
    /// Lines about destinations that were not reached.
    pub(super) unreached: PeerLog<mpbond_session::Destination>,
    /// Destinations that were reached lately.
    pub(super) reached: RefCell<Reached>,
    /// Another process has taken over, or this one stops: no further clients and look-ups.
    pub(super) handed_over: watch::Sender<bool>,
    /// Held by fronts and by connections that are not streams of a session, or not yet.
    pub(super) busy: Rc<()>,
    /// Address families in which new connections are carried.
    pub(super) families: CarriedFamilies,
    /// Notes of interception, for status.
    pub(super) notes: RefCell<Vec<String>>,
    /// Privileges given up, for status.
    pub(super) sandboxed: RefCell<Option<SandboxStatus>>,
}

impl Primary {
    /// A primary that has done nothing yet.
    pub(super) fn new(config: PrimaryConfig, identity: Identity, limits: Limits) -> Self {
        let clock = Clock::start();
        let (links, setups) = Links::new(&config);
        let manager = Manager::new(manager_config(&config, setups), clock.now());
        let owners = Owners::default();
        Self {
            identity,
            clock,
            log: TransferLog::default(),
            driver: RefCell::default(),
            retiring: RefCell::default(),
            manager: RefCell::new(manager),
            changed: watch::Sender::new(()),
            open_session: Notify::new(),
            dials: RefCell::default(),
            controls: RefCell::default(),
            frames: Frames::new(&config),
            addresses: RefCell::default(),
            resolvers: Resolvers::new(&config),
            rescuable: RefCell::default(),
            resolver: direct::resolver(),
            direct: Cell::default(),
            clients: Clients::new(owners.clone()),
            owners,
            flows: Flows::default(),
            waiting: WaitingList::default(),
            events: Rc::default(),
            links_up: LinksUp::default(),
            link_facts: AllFacts::default(),
            modes: Modes::default(),
            off: RefCell::default(),
            policy_source: RefCell::new(config.policy.clone()),
            policy: RefCell::new(in_force(&config, None)),
            prices: Prices::default(),
            pipes_watched: RefCell::default(),
            signals: Signals::of_this_device(),
            weak_links: WeakLinks::default(),
            limits,
            power: Power::of_this_device(),
            cgroups: Cgroups::mounted(),
            known_names: Arc::default(),
            refusals: Quota::new(MAX_REFUSALS, MAX_REFUSALS),
            room: Notify::new(),
            crowded: RateLimitedLog::default(),
            refused_by_rules: RateLimitedLog::default(),
            unreached: PeerLog::default(),
            reached: RefCell::default(),
            handed_over: watch::Sender::new(false),
            busy: Rc::default(),
            families: CarriedFamilies::default(),
            notes: RefCell::default(),
            sandboxed: RefCell::default(),
            links: RefCell::new(links),
            on_proxy_loss: Cell::new(config.on_proxy_loss),
            config,
        }
    }

    /// Whether any application's connection is open here.
    pub(super) fn is_busy(&self) -> bool {
        let driver = self.driver.borrow();
        let retiring = self.retiring.borrow();
        let mut drivers = driver.iter().chain(&*retiring);
        Rc::strong_count(&self.busy) > 1 || !drivers.all(Driver::is_drained)
    }

    pub(super) fn link(&self, link: LinkId) -> Option<Rc<LinkConfig>> {
        self.links.borrow().get(link)
    }

    /// Name of a link, for log lines.
    pub(super) fn link_name(&self, link: LinkId) -> String {
        let link = self.link(link);
        link.map(|l| l.name().to_owned()).unwrap_or_default()
    }

    pub(super) fn session_config(&self) -> SessionConfig {
        SessionConfig {
            scheduler: self.config.scheduler,
            feedback: self.config.feedback,
            buffer_delay: self.config.buffer_delay,
            reinjection: self.config.reinjection.into(),
            resume_for: self.config.resume_for,
            ..SessionConfig::default()
        }
    }

    /// Options of every connection that a subflow or control connection runs over.
    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            congestion: self.config.congestion.clone(),
            user_timeout: Some(Duration::from_secs(30)),
            keepalive: Some(Duration::from_secs(240)),
            // Without interception nothing needs the mark, nor has the right to set it.
            mark: self.config.transparent.is_some().then_some(OWN_MARK),
            ..Tuning::default()
        }
    }

    /// A TCP connection to the first of these addresses that answers, bound to an address or
    /// interface where one is configured.
    pub(super) async fn connect(
        &self,
        (source, interface): (Option<IpAddr>, Option<&String>),
        addresses: &[SocketAddr],
        tuning: Tuning,
    ) -> anyhow::Result<TcpStream> {
        let first = addresses.first().context("no address is known")?;
        let options = TcpOptions {
            source,
            interface: interface.cloned(),
            connect_timeout: CONNECT_WITHIN,
            tuning,
            ..TcpOptions::to(*first)
        };
        Ok(tcp::connect_any(&options, addresses).await?)
    }

    /// A connection to a helper. The tuning is of TCP.
    pub(super) async fn connect_pipe(
        &self,
        helper: &HelperRef,
        address: &PipeAddress,
        tuning: Tuning,
    ) -> anyhow::Result<PipeStream> {
        match address {
            PipeAddress::Tcp(tcp) => {
                let bind = (helper.source, helper.interface.as_ref());
                Ok(self.connect(bind, &[*tcp], tuning).await?.into())
            }
            PipeAddress::Unix(path) => {
                let unix = UnixPipe::connect(path).await;
                let unix = unix.with_context(|| format!("connecting to {address}"))?;
                Ok(PipeStream::Unix(unix))
            }
        }
    }

    /// Wakes as many waiting clients as the session takes streams.
    pub(super) fn tell_waiting(&self, driver: &Driver) {
        for _ in 0..driver.streams_left().min(MAX_CLIENTS as u64) {
            self.room.notify_one();
        }
    }

    /// State of the session's subflows now.
    pub(super) fn subflows(&self) -> Vec<SubflowStats> {
        let driver = self.driver.borrow();
        let stats = |driver: &Driver| driver.inspect(|s, clock, _| s.subflows(clock.now()));
        driver.as_ref().map(stats).unwrap_or_default()
    }

    /// The same for the manager.
    pub(super) fn subflow_facts(&self) -> Vec<SubflowFacts> {
        self.subflows().iter().map(SubflowFacts::from).collect()
    }

    /// Privileges that it goes on needing.
    pub(super) fn sandbox(&self) -> sandbox::Plan {
        let config = &self.config;
        let mut plan = sandbox::Plan::default();
        plan.status_socket(&config.status_socket);
        plan.congestion(config.congestion.as_deref());
        // Paths and helpers that a reload adds may be bound to interfaces.
        plan.needs.push(Need::Interface);
        if config.transparent.is_some() {
            plan.needs.push(Need::Mark);
        }
        // With `on_proxy_loss = "fail"` only the proxy looks names up, except its own, which a
        // reload may add, and local ones.
        plan.places.extend(sandbox::for_names());
        // A reload may bring a policy, in another zone, or the first one.
        plan.further
            .push(Place::new(Path::new(ZONES), Access::Read));
        if let Some(policy) = &config.policy {
            // What caps have used. Where the first policy comes later, it is not kept.
            let usage = Usage::file_of(&config.identity);
            plan.further.extend(Place::around(&usage, Access::Change));
            plan.further
                .extend(Place::around(policy.file(), Access::Read));
        }
        let groups = self.cgroups.root();
        plan.further
            .extend(groups.map(|root| Place::new(root, Access::Read)));
        plan
    }
}

/// The policy of a configuration, put in force in place of another one.
pub(super) fn in_force(config: &PrimaryConfig, before: Option<&InForce>) -> Option<Rc<InForce>> {
    let source = config.policy.as_ref()?;
    Some(Rc::new(InForce::new(Arc::clone(source.policy()), before)))
}

/// The manager's form of `on_proxy_loss`.
pub(super) fn without_proxy(on_proxy_loss: OnProxyLoss) -> WithoutProxy {
    match on_proxy_loss {
        OnProxyLoss::Direct => WithoutProxy::Direct,
        OnProxyLoss::Fail => WithoutProxy::Refuse,
    }
}

fn manager_config(config: &PrimaryConfig, links: Vec<Link>) -> Config {
    Config {
        without_proxy: without_proxy(config.on_proxy_loss),
        ..Config::new(links)
    }
}
