//! The helper daemon: lends its link by relaying between primaries and the proxies that its owner
//! allows. It relays ciphertext and cannot read it.

mod budget;
mod control;
mod measurement;
mod near;
mod proxies;
mod relay;

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
use mpbond_net::control::{LABELLED_BYTES, Opening, TicketBook, label_of_opening, read_opening};
use mpbond_net::identity::Identity;
use mpbond_net::tcp::{self, Tuning};
use mpbond_net::tls::{Label, Trust};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::admission::{Door, Limits, Visitor};
use crate::config::{HOST_NAME, HelperConfig, TrustFile};
use crate::discovery::{Announcement, NONCE_LIFE};
use crate::driver::Clock;
use crate::quota::{Quota, source};
use crate::rate_limited_log::{Line, PeerLog};
use crate::reload::{Configured, Reloader};
use crate::sandbox::{self, Access, Need, Place};
use crate::status::{RelayStatus, RelayedStatus, SandboxStatus, Status};
use crate::stop::DaemonStop;
use crate::upgrade::{self, Listeners, Notify, Predecessor, passing};
use crate::{addresses, metrics, random, revocation};

use budget::MonthlyBudget;
pub use budget::budget_of;
use measurement::Measurement;
use proxies::Names;
pub use proxies::proxy_addresses;
use relay::{Active, Promised, add_relayed};

/// Time within which a new connection has to identify itself as control connection or relay.
const OPENING_WITHIN: Duration = Duration::from_secs(10);

/// Connections that have not identified themselves: primaries are few, and a stranger on the local
/// network must not lock them out.
const OPENINGS: Limits = Limits {
    all: 64,
    reserved: 16,
    each: 16,
    crowd: 32,
};

/// Time for which a stopping helper waits for its primaries, which answer within a round trip of
/// the pipe.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Interval at which a helper that was upgraded looks whether anything is left to serve.
const DROPPED_EVERY: Duration = Duration::from_millis(250);

/// The beginning of a relay or measurement.
const RELAY: passing::Form = passing::Form {
    most_bytes: LABELLED_BYTES,
    label: label_of_opening,
};

/// Limits of control connections, in total and per primary: one in use, and dead ones that the
/// helper has not detected yet.
const MAX_CONTROLS: usize = 64;
const MAX_CONTROLS_EACH: usize = 4;

/// Limits of relays, promised ones included, in total and per primary: a session has no more
/// subflows.
const MAX_RELAYS: usize = 64;
const MAX_RELAYS_EACH: usize = 16;

/// Limits of measurements, in total and per primary, which makes one at a time.
const MAX_MEASUREMENTS: usize = 8;
const MAX_MEASUREMENTS_EACH: usize = 2;

/// A connection for which a ticket was issued.
enum Promise {
    Relay(Promised),
    Measurement(Measurement),
}

/// End of a helper's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// Primaries are told, and recall what is on the way.
    Stop,
    /// Another process has taken over: primaries lose the control connection, and their relays go
    /// on until they are idle.
    HandOver,
}

/// State that all tasks of a helper share, on one thread.
struct Helper {
    /// The configuration in force.
    config: RefCell<Rc<HelperConfig>>,
    identity: Identity,
    trust: Arc<dyn Trust>,
    /// Raised when the list of trusted devices or the configuration may have changed.
    permissions: watch::Sender<()>,
    /// How this process ends, once it does.
    leaving: watch::Sender<Option<Leave>>,
    /// The first octets of this process's tickets.
    label: Label,
    tickets: RefCell<TicketBook<Promise>>,
    relays: RefCell<HashMap<u64, Active>>,
    /// Bytes of relays that have ended, by primary: as many as are or were trusted.
    relayed: RefCell<BTreeMap<DeviceId, (u64, u64)>>,
    names: Rc<Names>,
    /// The address at which a proxy has answered last.
    reached: RefCell<Addresses>,
    /// Relays and control connections by primary.
    relay_quota: Quota<DeviceId>,
    control_quota: Quota<DeviceId>,
    measurement_quota: Quota<DeviceId>,
    next_relay: Cell<u64>,
    budget: Option<MonthlyBudget>,
    clock: Clock,
    /// Lines about connections that end badly.
    refused: PeerLog<IpAddr>,
    /// Lines about connections of primaries that come and go.
    lines: PeerLog<DeviceId>,
    /// Privileges given up, for status.
    sandboxed: RefCell<Option<SandboxStatus>>,
}

/// Runs a helper until SIGINT or SIGTERM.
///
/// # Errors
/// The identity cannot be loaded, or an address or the status socket cannot be bound.
pub fn run(
    configured: impl Into<Configured<HelperConfig>>,
    trust: Arc<dyn Trust>,
) -> anyhow::Result<()> {
    crate::descriptors::take_all();
    let configured = configured.into();
    let config = configured.config.clone();
    let identity = Identity::load_or_create(&config.identity)?;
    info!(id = %identity.id(), name = config.name, "this helper");
    let budget = config
        .max_bytes_per_month
        .map(|max| MonthlyBudget::load(&config.identity, max))
        .transpose()
        .context("monthly budget")?;
    let label = Label(random::bytes().context("random octets")?);
    let helper = Rc::new(Helper {
        identity,
        trust,
        permissions: watch::Sender::new(()),
        leaving: watch::Sender::new(None),
        label,
        tickets: RefCell::new(TicketBook::new(label)),
        relays: RefCell::default(),
        relayed: RefCell::default(),
        names: Names::new(&config),
        reached: RefCell::default(),
        relay_quota: Quota::new(MAX_RELAYS, MAX_RELAYS_EACH),
        control_quota: Quota::new(MAX_CONTROLS, MAX_CONTROLS_EACH),
        measurement_quota: Quota::new(MAX_MEASUREMENTS, MAX_MEASUREMENTS_EACH),
        next_relay: Cell::new(0),
        budget,
        clock: Clock::start(),
        refused: PeerLog::default(),
        lines: PeerLog::of_connections(),
        sandboxed: RefCell::default(),
        config: RefCell::new(Rc::new(config)),
    });
    let reloaded = Rc::clone(&helper);
    let reloader = Reloader::new(configured, move |config| reloaded.configure(config));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(helper, Rc::new(reloader)))
}

async fn serve(helper: Rc<Helper>, reloader: Rc<Reloader<HelperConfig>>) -> anyhow::Result<()> {
    let (config, notify) = (helper.config(), Notify::connect());
    let path = &config.status_socket;
    let mut own = Listeners::open("helper", path, config.metrics, config.take_over).await?;
    let listener = own.tcp(config.listen, || {
        tcp::listen(config.listen, None, &helper.tuning())
    })?;
    let before = own.predecessor.clone();
    let status = {
        let (helper, before) = (Rc::clone(&helper), before.clone());
        let reloader = Rc::clone(&reloader);
        move || {
            let mut status = helper.status();
            reloader.describe(&mut status);
            let note = before.as_ref().and_then(|before| before.note());
            status.notes.extend(note);
            async move { status }
        }
    };
    if config.sandbox {
        let mut plan = helper.sandbox();
        plan.further.extend(reloader.places());
        let entered = plan.enter();
        helper.sandboxed.replace(Some(entered));
    }
    let trusted = TrustFile::beside(&config.identity).path().to_owned();
    let announcement = helper.announcement().map(Rc::new);
    if let Some(announcement) = announcement.clone() {
        let helper = Rc::clone(&helper);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(NONCE_LIFE).await;
                helper.announce(&announcement);
            }
        });
    }
    let revoked = {
        let helper = Rc::clone(&helper);
        move || {
            helper.revoke();
            if let Some(announcement) = &announcement {
                helper.announce(announcement);
            }
        }
    };
    tokio::task::spawn_local(revocation::watch(trusted, revoked));
    let moved = Rc::clone(&helper);
    tokio::task::spawn_local(addresses::watch(move |own| moved.moved(own)));
    // Before another process hears that this one is ready.
    let mut stop = {
        let reloader = Rc::clone(&reloader);
        DaemonStop::listen(move || drop(reloader.reload()))
    };
    own.ready().await?;
    notify.ready();
    if let Some(budget) = &helper.budget {
        if let Some(before) = &before {
            // Its account is whole only then; connections wait in the listener's queue.
            tokio::select! {
                () = before.end() => {}
                reason = stop.wait() => {
                    info!(reason, "stopping");
                    return Ok(());
                }
            }
            budget.load_again().context("monthly budget")?;
        }
        tokio::task::spawn_local(budget.keep());
    }
    let door = Door::new(OPENINGS, helper.clock.clone());
    let serve = {
        let (helper, before) = (Rc::clone(&helper), before.clone());
        move |tcp, from, visitor| Rc::clone(&helper).receive(tcp, from, visitor, before.clone())
    };
    let mut accepting = tokio::task::JoinSet::new();
    accepting.spawn_local(Rc::clone(&door).accept(listener, serve.clone()));
    if let Some(metrics) = own.metrics {
        accepting.spawn_local(metrics::serve(metrics, status.clone()));
    }
    let successor = tokio::select! {
        () = own.status.serve(status, || reloader.reload()) => None,
        successor = own.handover.wait() => Some(successor),
        reason = stop.wait() => {
            info!(reason, "stopping");
            None
        }
    };
    // With it go copies of all listeners.
    drop((accepting, own.handover));
    if let Some(successor) = successor {
        own.status.hand_over();
        // It receives until the end of this process, which is the end of the connection.
        tokio::task::spawn_local(passing::receive(successor, door, serve));
        // Two processes cannot keep one account.
        if helper.budget.is_none() {
            tokio::select! {
                () = helper.hand_over(before.as_deref()) => {}
                reason = stop.wait() => info!(reason, "stopping"),
            }
        }
    }
    helper.end().await;
    Ok(())
}

impl Helper {
    /// Reads the opening of a new connection, and serves it.
    async fn receive(
        self: Rc<Self>,
        tcp: TcpStream,
        from: SocketAddr,
        visitor: Visitor,
        before: Option<Rc<Predecessor>>,
    ) {
        let deadline = Instant::now() + OPENING_WITHIN;
        let first = tokio::time::timeout_at(deadline, visitor.first_octet(&tcp));
        if !matches!(first.await, Ok(Ok(()))) {
            return debug!(%from, "connection refused: it is silent");
        }
        let own = passing::pass_on(tcp, RELAY, self.label, before.as_deref());
        let mut tcp = match tokio::time::timeout_at(deadline, own).await {
            Ok(Ok(Some(tcp))) => tcp,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return debug!(%from, %error, "connection refused"),
            Err(_) => return debug!(%from, "connection refused: no ticket in time"),
        };
        let said = || self.refused.line(source(from), self.clock.now());
        match read_opening(&mut tcp, deadline).await {
            Ok(Opening::Control) => {
                if let Err(e) = control::serve(&self, (tcp, from), deadline, visitor).await
                    && let Some(line) = said()
                {
                    let (error, left_out) = (format!("{e:#}"), line.left_out);
                    info!(%from, error, left_out, "control connection ended");
                }
            }
            Ok(Opening::Relay(ticket)) => {
                let now = std::time::Instant::now().into();
                let promised = self.tickets.borrow_mut().redeem(&ticket, now);
                match promised {
                    Some(Promise::Relay(promised)) => {
                        visitor.authenticated();
                        near::keep(&tcp, from);
                        self.relay(tcp, promised).await;
                    }
                    Some(Promise::Measurement(measurement)) => {
                        visitor.authenticated();
                        near::keep(&tcp, from);
                        self.measure(tcp, measurement).await;
                    }
                    None => {
                        if let Some(line) = said() {
                            let left_out = line.left_out;
                            info!(%from, left_out, "relay refused: no such ticket");
                        }
                    }
                }
            }
            Err(e) => debug!(%from, error = %e, "connection refused"),
        }
    }

    /// The configuration in force.
    fn config(&self) -> Rc<HelperConfig> {
        Rc::clone(&self.config.borrow())
    }

    /// Puts another configuration in force. Relays and measurements that it does not allow end, so
    /// that primaries turn to other paths.
    fn configure(&self, config: &HelperConfig) {
        self.config.replace(Rc::new(config.clone()));
        self.names.configure(config);
        if let (Some(budget), Some(max)) = (&self.budget, config.max_bytes_per_month) {
            budget.set_max_bytes(max);
        }
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

    fn tuning(&self) -> Tuning {
        Tuning {
            congestion: self.config().congestion.clone(),
            user_timeout: Some(Duration::from_secs(30)),
            keepalive: Some(Duration::from_secs(240)),
            ..Tuning::default()
        }
    }

    /// Privileges that it goes on needing.
    fn sandbox(&self) -> sandbox::Plan {
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

    /// The announcement on the local network, if it is configured.
    fn announcement(&self) -> Option<Announcement> {
        let config = self.config();
        let except = config.uplink.interface.as_deref();
        config
            .announce
            .then(|| Announcement::start(self.identity.id(), config.listen, except))?
            .inspect_err(|e| warn!(error = format!("{e:#}"), "not announced"))
            .ok()
    }

    fn announce(&self, announcement: &Announcement) {
        let config = self.config();
        let file = TrustFile::beside(&config.identity).devices();
        let mut primaries = config.trust.clone();
        primaries.extend(file.into_iter().flatten().map(|d| d.id));
        if let Err(e) = announcement.to(&primaries) {
            warn!(error = format!("{e:#}"), "not announced");
        }
    }

    /// Ends relays and control connections of devices that are no longer trusted.
    fn revoke(&self) {
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
    fn moved(&self, own: &HashSet<IpAddr>) {
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

    /// Closes the control connections, and waits until tickets are used or expired and primaries
    /// have dropped their relays, which they do when these are idle. The process before this one is
    /// waited for: its connections come through this one.
    async fn hand_over(&self, before: Option<&Predecessor>) {
        self.leaving.send_replace(Some(Leave::HandOver));
        let dropped = async {
            while self.is_in_use() {
                tokio::time::sleep(DROPPED_EVERY).await;
            }
            if let Some(before) = before {
                before.end().await;
            }
        };
        if tokio::time::timeout(upgrade::DRAIN, dropped).await.is_err() {
            info!("relays are still in use, and end");
        }
    }

    /// Whether there are relays or measurements, or valid tickets for any.
    fn is_in_use(&self) -> bool {
        self.tickets.borrow_mut().expire(Instant::now());
        self.relay_quota.is_in_use() || self.measurement_quota.is_in_use()
    }

    /// The last acts of the process.
    async fn end(&self) {
        self.leave().await;
        if let Some(budget) = &self.budget {
            budget.save();
        }
    }

    /// Tells primaries that the helper stops, and gives them time to recall bytes in flight.
    async fn leave(&self) {
        self.leaving.send_replace(Some(Leave::Stop));
        let told = async {
            while self.leaving.receiver_count() > 0 || !self.relays.borrow().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(LEAVE_WITHIN, told).await.is_err() {
            debug!("some relays were still open");
        }
    }

    /// The line about a primary's connections that may be written now, if any.
    fn line(&self, primary: DeviceId) -> Option<Line> {
        self.lines.line(primary, self.clock.now())
    }

    fn status(&self) -> Status {
        let relays = self.relays.borrow();
        let mut relays: Vec<_> = relays.iter().collect();
        relays.sort_by_key(|(n, _)| **n);
        let relays = relays
            .into_iter()
            .filter_map(|(_, a)| {
                let s = a.handle.stats()?;
                Some(RelayStatus {
                    primary: a.primary.to_string(),
                    proxy: a.proxy.to_string(),
                    bytes_down: s.bytes_down,
                    bytes_up: s.bytes_up,
                    level_down_bytes: s.level_down_bytes,
                    level_up_bytes: s.level_up_bytes,
                })
            })
            .collect();
        let mut relayed = self.relayed.borrow().clone();
        for active in self.relays.borrow().values() {
            add_relayed(&mut relayed, active);
        }
        let relayed = relayed.into_iter().map(|(primary, moved)| RelayedStatus {
            primary: primary.to_string(),
            bytes_down: moved.0,
            bytes_up: moved.1,
        });
        let mut notes = Vec::new();
        if !self.config().enabled {
            notes.push("lending is switched off (enabled = false)".to_owned());
        }
        if self.budget.as_ref().is_some_and(MonthlyBudget::is_spent) {
            notes.push("this month's budget is used up".to_owned());
        }
        Status {
            role: "helper".to_owned(),
            device: self.identity.id().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            uptime_s: self.clock.now().as_secs_f64(),
            relays,
            relayed: relayed.collect(),
            budget: self.budget.as_ref().map(MonthlyBudget::status),
            sandbox: self.sandboxed.borrow().clone(),
            notes,
            ..Status::default()
        }
    }
}
