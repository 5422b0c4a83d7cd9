//! The device where the applications run: splits what they send over all paths, joins what
//! arrives, and asks helpers for theirs.

mod dns;
mod express;
mod fronts;
mod link;
mod outage;
mod pipe;
mod repeatable;
mod rescue;
mod transparent;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use mpbond_net::identity::Identity;
use mpbond_net::tcp::Tuning;
use mpbond_session::{HelperId, ReinjectionConfig, Session, SessionConfig};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{OnProxyLoss, PrimaryConfig};
use crate::driver::{Clock, Driver, Notice, Seat, TransferLog, Turns};
use crate::memory::Memory;
use crate::sandbox::{self, Need};
use crate::status::{LinkStatus, SandboxStatus, Status};
use crate::status_socket::StatusSocket;
use crate::{addresses, descriptors, metrics, random, sleep, stop};

use outage::Outage;

/// How long a new connection waits for a first path, when there is none yet or none at the moment:
/// with the direct connection that may follow it stays within two seconds.
const WAIT_FOR_PATH: Duration = Duration::from_millis(1500);

/// Pause before a session is opened anew after one was lost.
const REOPEN_AFTER: Duration = Duration::from_millis(200);

/// What all parts of a primary share; on one thread.
struct Primary {
    config: PrimaryConfig,
    identity: Identity,
    clock: Clock,
    log: TransferLog,
    /// The session in use; replaced when one is lost.
    driver: watch::Sender<Option<Driver>>,
    /// Raised when a subflow may have made the session usable, or no longer so.
    usable: watch::Sender<()>,
    outage: Outage,
    /// The proxy has said that it does not trust this device, and nothing else since.
    distrusted: Cell<bool>,
    /// Raised when another attempt to join may end otherwise than the last.
    network: watch::Sender<()>,
    links: RefCell<Vec<LinkStatus>>,
    notes: RefCell<Vec<String>>,
    /// What was given up.
    sandboxed: RefCell<Option<SandboxStatus>>,
}

/// Runs a primary until SIGINT or SIGTERM.
///
/// # Errors
/// What keeps it from starting: the identity, an address, interception rules.
pub fn run(config: PrimaryConfig) -> anyhow::Result<()> {
    descriptors::take_all();
    let identity = Identity::load_or_create(&config.identity)?;
    info!(id = %identity.id(), "this primary");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let primary = Rc::new(Primary::new(config, identity));
    local.block_on(&runtime, serve(primary))
}

async fn serve(primary: Rc<Primary>) -> anyhow::Result<()> {
    let path = primary.config.status_socket.clone();
    let socket =
        StatusSocket::bind(&path).with_context(|| format!("status socket {}", path.display()))?;
    let status = {
        let primary = Rc::clone(&primary);
        move || {
            let status = primary.status();
            async move { status }
        }
    };
    metrics::start(primary.config.metrics, status.clone()).await;
    fronts::start(&primary)?;
    // Held until the end: dropping it takes the rules away. They have a process of their own that
    // does it, with the privileges that this one gives up now.
    let rules = transparent::start(&primary).await?;
    if primary.config.sandbox {
        let entered = primary.sandbox().enter();
        primary.sandboxed.replace(Some(entered));
    }
    tokio::task::spawn_local(sessions(Rc::clone(&primary)));
    tokio::task::spawn_local(outage::tell(Rc::clone(&primary)));
    let moved = Rc::clone(&primary);
    tokio::task::spawn_local(addresses::watch(move |own| moved.moved(own)));
    let slept = Rc::clone(&primary);
    tokio::task::spawn_local(sleep::watch(move |_| slept.slept()));
    for path in primary.config.paths.clone() {
        let slot = primary.add_link(&path.name, "path");
        tokio::task::spawn_local(link::keep_path(Rc::clone(&primary), slot, path));
    }
    for (i, helper) in primary.config.helpers.clone().into_iter().enumerate() {
        let slot = primary.add_link(&helper.name, "helper");
        let id = HelperId(i as u32);
        tokio::task::spawn_local(pipe::keep_helper(Rc::clone(&primary), slot, id, helper));
    }
    tokio::select! {
        () = socket.serve(status) => {}
        reason = stop::signal() => info!(reason, "stopping"),
    }
    if let Some(rules) = rules {
        rules.remove();
    }
    let driver = primary.driver.borrow().clone();
    if let Some(driver) = driver {
        driver.shut_down();
    }
    Ok(())
}

/// Opens a session, and a new one whenever one is lost.
async fn sessions(primary: Rc<Primary>) {
    let turns = Turns::start();
    loop {
        // The session's own windows bound what a primary holds.
        let seat = Seat::take(&turns, &Memory::unbounded());
        let (Ok(random), Ok(seat)) = (random::bytes(), seat) else {
            warn!("no randomness to be had");
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let session = Session::client(primary.session_config(), random);
        let (driver, mut notices) = Driver::start(
            session,
            primary.config.proxy.id,
            primary.clock.clone(),
            primary.log.clone(),
            seat,
        );
        primary.driver.send_replace(Some(driver.clone()));
        // Paths that were lost with the session before wait no longer.
        primary.network.send_replace(());
        while let Some(notice) = notices.recv().await {
            match notice {
                Notice::Established(_) => {
                    primary.distrusted.set(false);
                    primary.usable.send_replace(());
                }
                Notice::SubflowUp(_) | Notice::SubflowGone(_) | Notice::Silent(_) => {
                    primary.usable.send_replace(());
                }
                Notice::Distrusted => primary.distrusted(),
                Notice::Lost(reason) => {
                    warn!(reason, "opening a new session");
                    break;
                }
                // A proxy that stops opens no streams; whoever takes its place gets a new session.
                Notice::GoAway => break,
                Notice::Opened { .. } => {}
            }
        }
        primary.driver.send_replace(None);
        primary.usable.send_replace(());
        driver.shut_down();
        tokio::time::sleep(REOPEN_AFTER).await;
    }
}

impl Primary {
    /// One that has done nothing yet.
    fn new(config: PrimaryConfig, identity: Identity) -> Self {
        Self {
            identity,
            clock: Clock::start(),
            log: TransferLog::default(),
            driver: watch::Sender::new(None),
            usable: watch::Sender::new(()),
            outage: Outage::new(),
            distrusted: Cell::new(false),
            network: watch::Sender::new(()),
            links: RefCell::default(),
            notes: RefCell::default(),
            sandboxed: RefCell::default(),
            config,
        }
    }

    fn session_config(&self) -> SessionConfig {
        SessionConfig {
            scheduler: self.config.scheduler,
            feedback: self.config.feedback,
            buffer_delay: self.config.buffer_delay,
            reinjection: ReinjectionConfig {
                rebalance: self.config.reinjection,
                ..ReinjectionConfig::default()
            },
            resume_for: self.config.resume_for,
            ..SessionConfig::default()
        }
    }

    /// This host's addresses are others than before.
    fn moved(&self, own: &HashSet<IpAddr>) {
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            driver.drop_subflows("its address is gone", |local| {
                !addresses::is_left(own, local)
            });
        }
        self.network.send_replace(());
    }

    /// This host has slept for long: what its connections are worth is quicker found out by new
    /// ones than by waiting.
    fn slept(&self) {
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            driver.drop_subflows("this device has slept", |_| true);
        }
        self.network.send_replace(());
    }

    /// The proxy does not trust this device: people are told once what would help.
    fn distrusted(&self) {
        if !self.distrusted.replace(true) {
            warn!("{}", self.distrust_note());
        }
    }

    fn distrust_note(&self) -> String {
        let id = self.identity.id();
        format!(
            "the proxy does not trust this device, and ends what it had open: `mpbond trust {id}` on \
             the proxy, or an enrolment token of its, would let it in again"
        )
    }

    /// What it goes on needing.
    fn sandbox(&self) -> sandbox::Plan {
        let config = &self.config;
        let mut plan = sandbox::Plan::default();
        plan.status_socket(&config.status_socket);
        plan.congestion(config.congestion.as_deref());
        let of_paths = config.paths.iter().map(|p| &p.interface);
        let of_helpers = config.helpers.iter().map(|h| &h.interface);
        if of_paths.chain(of_helpers).any(Option::is_some) {
            plan.needs.push(Need::Interface);
        }
        if config.transparent.is_some() {
            plan.needs.push(Need::Mark);
        }
        // Elsewhere the proxy looks names up.
        if config.on_proxy_loss == OnProxyLoss::Direct {
            plan.places.extend(sandbox::for_names());
        }
        plan
    }

    /// Options of every connection that a subflow runs over.
    fn tuning(&self) -> Tuning {
        Tuning {
            congestion: self.config.congestion.clone(),
            user_timeout: Some(Duration::from_secs(30)),
            keepalive: Some(Duration::from_secs(240)),
            ..Tuning::default()
        }
    }

    /// The session, once there is one.
    async fn session(&self) -> Driver {
        let mut watch = self.driver.subscribe();
        loop {
            if let Some(driver) = watch.borrow_and_update().clone() {
                return driver;
            }
            if watch.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The session, if new streams can go over it now or in a moment.
    async fn usable_session(&self) -> Option<Driver> {
        let mut usable = self.usable.subscribe();
        let wait = async {
            loop {
                if let Some(driver) = self.usable_now() {
                    return driver;
                }
                // Subflows come without a notice of their own: look again soon.
                let _ = tokio::time::timeout(Duration::from_millis(50), usable.changed()).await;
            }
        };
        // It is looked at once in any case.
        tokio::time::timeout(self.patience(), wait).await.ok()
    }

    fn add_link(&self, name: &str, kind: &str) -> usize {
        let mut links = self.links.borrow_mut();
        links.push(LinkStatus {
            name: name.to_owned(),
            kind: kind.to_owned(),
            state: "connecting".to_owned(),
            error: None,
        });
        links.len() - 1
    }

    fn set_link(&self, slot: usize, state: &str, error: Option<String>) {
        if let Some(l) = self.links.borrow_mut().get_mut(slot) {
            state.clone_into(&mut l.state);
            if error.is_some() || state == "up" {
                l.error = error;
            }
        }
    }

    fn status(&self) -> Status {
        let driver = self.driver.borrow().clone();
        let notes = self.notes.borrow().clone();
        let mut transfers = self.log.closed();
        transfers.extend(driver.iter().flat_map(Driver::open_transfers));
        Status {
            role: "primary".to_owned(),
            device: self.identity.id().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.clock.now().as_secs_f64(),
            sessions: driver.iter().map(Driver::status).collect(),
            transfers,
            links: self.links.borrow().clone(),
            sandbox: self.sandboxed.borrow().clone(),
            notes: self
                .distrusted
                .get()
                .then(|| self.distrust_note())
                .into_iter()
                .chain(self.outage_note())
                .chain(notes)
                .collect(),
            ..Status::default()
        }
    }
}

/// Pauses between attempts: at once, then longer and longer up to ten seconds.
struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LAST: Duration = Duration::from_secs(10);

    fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// Waits; no longer than until the network is another one.
    async fn pause(&mut self, network: &watch::Sender<()>) {
        let mut network = network.subscribe();
        tokio::select! {
            () = tokio::time::sleep(self.next) => {
                self.next = (self.next * 2).min(Self::LAST);
            }
            // The sender lives as long as the daemon.
            Ok(()) = network.changed() => self.reset(),
        }
    }

    fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}
