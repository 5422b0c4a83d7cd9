//! The helper daemon: lends its link by relaying between primaries and the proxies that its owner
//! allows. It relays ciphertext and cannot read it.

mod battery;
mod battery_watch;
mod budget;
mod control;
mod frames;
mod lending;
mod lending_watch;
mod measurement;
mod offers;
mod promise;
mod proxies;
mod relay;
mod several;
mod state;
mod status;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mpbond_net::control::{LABELLED_BYTES, Opening, label_of_opening, read_opening};
use mpbond_net::identity::Identity;
use mpbond_net::pipe::{PipeStream, UnixPipe};
use mpbond_net::tcp;
use mpbond_net::tls::Trust;
use tokio::net::{TcpStream, UnixListener};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::admission::{Door, Limits, Visitor};
use crate::config::{HelperConfig, TrustFile};
use crate::discovery::{Announcement, NONCE_LIFE};
use crate::process::Process;
use crate::quota::source;
use crate::reload::{Configured, Reloader};
use crate::stop::DaemonStop;
use crate::upgrade::{self, Listeners, Notify, Predecessor, passing};
use crate::{addresses, metrics, near, revocation, socket_file};

pub use budget::budget_of;
use promise::Promise;
pub use proxies::proxy_addresses;
use state::{Helper, Leave};

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
    let (config, process) = (configured.config.clone(), configured.process.clone());
    let identity = Identity::load_or_create(&config.identity)?;
    info!(id = %identity.id(), name = config.name, "this helper");
    let helper = Rc::new(Helper::new(config, identity, trust, process.marks())?);
    let reloaded = Rc::clone(&helper);
    let reloader = Reloader::new(configured, move |config| reloaded.configure(config));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(helper, Rc::new(reloader), process))
}

async fn serve(
    helper: Rc<Helper>,
    reloader: Rc<Reloader<HelperConfig>>,
    process: Process,
) -> anyhow::Result<()> {
    let (config, notify) = (helper.config(), Notify::connect());
    let path = &config.status_socket;
    let mut own = Listeners::open("helper", path, config.metrics, config.take_over).await?;
    let listener = own.tcp(config.listen, || {
        tcp::listen(config.listen, None, &helper.tuning())
    })?;
    let before = own.predecessor.clone();
    let pipes = config.listen_unix.iter();
    let pipes: Vec<_> = pipes
        .filter_map(|path| listen_unix(&mut own, path))
        .collect();
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
    // Before another process hears that this one is ready, and before it waits for other daemons.
    let mut stop = {
        let reloader = Rc::clone(&reloader);
        DaemonStop::listen(&process, move || drop(reloader.reload()))
    };
    let plan = config.sandbox.then(|| {
        let mut plan = helper.sandbox();
        plan.further.extend(reloader.places());
        plan
    });
    helper.sandboxed.replace(process.confine(plan).await?);
    let trusted = TrustFile::beside(&config.identity).path().to_owned();
    let announcement = helper.announcement().map(Rc::new);
    if let Some(announcement) = announcement.clone() {
        let helper = Rc::clone(&helper);
        crate::task::spawn_local(async move {
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
    crate::task::spawn_local(revocation::watch(trusted, revoked));
    let moved = Rc::clone(&helper);
    crate::task::spawn_local(addresses::watch(move |own| moved.moved(own)));
    helper.read_battery().await;
    crate::task::spawn_local(Rc::clone(&helper).lend());
    process.prepared().await?;
    own.ready().await?;
    if process.ready() {
        notify.ready();
    }
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
        crate::task::spawn_local(budget.keep());
    }
    let door = Door::new(OPENINGS, helper.clock.clone());
    let serve = {
        let (helper, before) = (Rc::clone(&helper), before.clone());
        move |tcp: TcpStream, from, visitor| {
            Rc::clone(&helper).receive(tcp.into(), from, visitor, before.clone())
        }
    };
    let mut accepting = tokio::task::JoinSet::new();
    accepting.spawn_local(Rc::clone(&door).accept(listener, serve.clone()));
    for listener in pipes {
        let (door, helper, before) = (Rc::clone(&door), Rc::clone(&helper), before.clone());
        let serve = move |unix, from, visitor| {
            let (helper, before) = (Rc::clone(&helper), before.clone());
            async move {
                match UnixPipe::with_short_queue(unix) {
                    Ok(unix) => {
                        helper
                            .receive(PipeStream::Unix(unix), from, visitor, before)
                            .await
                    }
                    Err(error) => debug!(%error, "connection refused"),
                }
            }
        };
        accepting.spawn_local(door.accept(listener, serve));
    }
    if let Some(metrics) = own.metrics {
        accepting.spawn_local(metrics::serve(metrics, status.clone()));
    }
    let successor = tokio::select! {
        () = own.status.serve(|_| status(), || reloader.reload()) => None,
        successor = own.handover.wait(|| ()) => Some(successor),
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
        crate::task::spawn_local(passing::receive(successor, door, serve));
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

/// Listens for pipes on a Unix socket; without it the others go on.
fn listen_unix(own: &mut Listeners, path: &Path) -> Option<UnixListener> {
    let listener = own.unix(path, || socket_file::listen(path, socket_file::PIPE_MODE));
    let told = |error: &io::Error| warn!(%error, "no pipes at unix:{}", path.display());
    listener.inspect_err(told).ok()
}

impl Helper {
    /// Reads the opening of a new connection, and serves it.
    async fn receive(
        self: Rc<Self>,
        pipe: PipeStream,
        from: SocketAddr,
        visitor: Visitor,
        before: Option<Rc<Predecessor>>,
    ) {
        let deadline = Instant::now() + OPENING_WITHIN;
        let first = tokio::time::timeout_at(deadline, visitor.first_octet(pipe.readable()));
        if !matches!(first.await, Ok(Ok(()))) {
            return debug!(%from, "connection refused: it is silent");
        }
        let own = async {
            match pipe {
                PipeStream::Tcp(tcp) => {
                    let own = passing::pass_on(tcp, RELAY, self.label, before.as_deref()).await;
                    own.map(|own| own.map(PipeStream::from))
                }
                // A ticket of another process is refused, and the primary asks for a new one.
                other @ (PipeStream::Unix(_) | PipeStream::L2(_)) => Ok(Some(other)),
            }
        };
        let mut pipe = match tokio::time::timeout_at(deadline, own).await {
            Ok(Ok(Some(pipe))) => pipe,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return debug!(%from, %error, "connection refused"),
            Err(_) => return debug!(%from, "connection refused: no ticket in time"),
        };
        let said = || self.refused.line(source(from), self.clock.now());
        match read_opening(&mut pipe, deadline).await {
            Ok(Opening::Control) => {
                if let Err(e) = control::serve(&self, (pipe, from), deadline, visitor).await
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
                        pipe.tcp().inspect(|tcp| near::keep(tcp, from));
                        self.relay(pipe, promised).await;
                    }
                    Some(Promise::Measurement(measurement)) => {
                        visitor.authenticated();
                        match pipe {
                            PipeStream::Tcp(tcp) => {
                                near::keep(&tcp, from);
                                self.measure(tcp, measurement).await;
                            }
                            PipeStream::Unix(_) | PipeStream::L2(_) => {
                                debug!("only pipes over TCP are measured");
                            }
                        }
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
}
