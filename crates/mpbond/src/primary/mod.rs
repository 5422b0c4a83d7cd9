//! The primary daemon: splits applications' connections over all paths and joins what arrives.
//!
//! The [`Manager`](mpbond_manager::Manager) decides about paths and pipes; this module carries its
//! decisions out with real connections to helpers and the proxy ([`actions`]), and feeds it what
//! happens to them and to the [`links`]. Applications' connections are accepted by [`fronts`],
//! decided about by the policy's [`rules`], and led into the [`session`] or past it by
//! [`connections`]. [`resources`] are what the API offers.

mod actions;
mod connections;
mod fronts;
mod links;
mod reload;
pub(crate) mod resolvers;
mod resources;
mod retiring;
mod rules;
mod session;
mod state;
mod status;

use std::rc::Rc;
use std::time::Duration;

use mpbond_manager::Admission;
use mpbond_net::identity::Identity;
use tracing::{info, warn};

use crate::config::PrimaryConfig;
use crate::driver::Driver;
use crate::process::{FAILURE, Process, Stopped};
use crate::reload::{Configured, Reloader};
use crate::socket_file::SocketFile;
use crate::status::Status;
use crate::stop::DaemonStop;
use crate::upgrade::{self, Listeners, Notify, Predecessor, Successor};
use crate::{addresses, api, descriptors, metrics, sleep};

pub use fronts::dns::PUBLIC as PUBLIC_RESOLVERS;
pub use fronts::local_names::LocalResolvers;
use fronts::transparent::Interception;
pub use fronts::transparent::install_kill_switch;
use links::limits::Limits;
pub use resolvers::{FreshAddresses, Resolvers};
use resources::Resources;
use state::Primary;

/// Interval at which a primary that was upgraded looks whether connections are left.
const DRAINED_EVERY: Duration = Duration::from_millis(250);

/// Time for which a process that takes over waits for a path to the proxy.
const JOINED_WITHIN: Duration = Duration::from_secs(5);

/// Time at a stop for applications to read what has arrived completely: that of a proxy by default
/// (`stop_within`).
const DELIVERED_WITHIN: Duration = Duration::from_secs(2);

/// Interval at which a primary that stops looks whether they have.
const DELIVERED_EVERY: Duration = Duration::from_millis(20);

/// Time in which the process before, which is told to end, does: applications have the same time to
/// read there.
const STOPS_WITHIN: Duration = DELIVERED_WITHIN.saturating_add(Duration::from_secs(2));

/// Runs a primary until SIGINT or SIGTERM.
///
/// # Errors
/// The identity cannot be loaded, an address cannot be bound, or interception rules cannot be
/// installed.
pub fn run(configured: impl Into<Configured<PrimaryConfig>>) -> anyhow::Result<()> {
    descriptors::take_all();
    let configured = configured.into();
    let (config, process) = (configured.config.clone(), configured.process.clone());
    let identity = Identity::load_or_create(&config.identity)?;
    info!(id = %identity.id(), "this primary");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let limits = Limits::load(&config.identity)?;
    let primary = Rc::new(Primary::new(config, identity, limits));
    let reloaded = Rc::clone(&primary);
    let reloader = Reloader::new(configured, move |config| reloaded.configure(config));
    let serving = serve(primary, Rc::new(reloader), process);
    let Ended {
        interception,
        successor,
        is_ordered,
    } = local.block_on(&runtime, serving)?;
    // Applications' connections end while the interface that has their addresses exists, be it the
    // successor's.
    drop(local);
    drop(runtime);
    // After the failure of another role a kill switch stays, as after a crash.
    if let Some(interception) = interception.filter(|_| is_ordered) {
        interception.stop();
    }
    drop(successor);
    Ok(())
}

/// What is left when a primary has ended.
struct Ended {
    /// Still in force.
    interception: Option<Interception>,
    /// The process that has taken over.
    successor: Option<Successor>,
    /// It has not ended for the failure of another role.
    is_ordered: bool,
}

/// Serves until the end.
async fn serve(
    primary: Rc<Primary>,
    reloader: Rc<Reloader<PrimaryConfig>>,
    process: Process,
) -> anyhow::Result<Ended> {
    let (config, notify) = (&primary.config, Notify::connect());
    let path = &config.status_socket;
    let mut own = Listeners::open("primary", path, config.metrics, config.take_over).await?;
    if own.predecessor.is_some() {
        // That process has just written it.
        primary.limits.reload(&config.identity)?;
    }
    let api_socket = api::path_beside(path);
    let api_listener = api::listen(&mut own, &api_socket);
    let has_api = api_listener.is_some();
    // Until it is ready, the file is that of the process before, if there is one.
    let is_first = own.predecessor.is_none();
    let mut api_file = SocketFile((has_api && is_first).then(|| api_socket.clone()));
    let snapshot: Rc<dyn Fn() -> Status> = {
        let (primary, before) = (Rc::clone(&primary), own.predecessor.clone());
        let reloader = Rc::clone(&reloader);
        Rc::new(move || {
            let mut status = primary.status();
            reloader.describe(&mut status);
            let note = before.as_ref().and_then(|before| before.note());
            status.notes.extend(note);
            status
        })
    };
    let status = {
        let (primary, snapshot) = (Rc::clone(&primary), Rc::clone(&snapshot));
        move |is_trusted: bool| {
            let (primary, snapshot) = (Rc::clone(&primary), Rc::clone(&snapshot));
            async move {
                match is_trusted {
                    true => primary.described(&*snapshot).await,
                    false => snapshot().into(),
                }
            }
        }
    };
    let counters = {
        let snapshot = Rc::clone(&snapshot);
        move || {
            let status = snapshot();
            async move { status }
        }
    };
    let fronts = fronts::open_all(&primary, &mut own)?;
    // Whose connections need the rules and the interface that this process has.
    let before = own.predecessor.clone();
    let before = before.filter(|_| fronts::transparent::is_handed_over(&own));
    // Dropping it removes the rules. A process of their own does it, with the privileges that this
    // one gives up now.
    let mut interception = fronts::transparent::start(&primary, &mut own).await?;
    // Before another process hears that this one is ready, and before it waits for other daemons.
    let mut stop = {
        let reloader = Rc::clone(&reloader);
        DaemonStop::listen(&process, move || drop(reloader.reload()))
    };
    let plan = primary.config.sandbox.then(|| {
        let mut plan = primary.sandbox();
        plan.further.extend(reloader.places());
        plan
    });
    primary.sandboxed.replace(process.confine(plan).await?);
    let sessions = crate::task::spawn_local(session::run(Rc::clone(&primary)));
    crate::task::spawn_local(actions::keep_time(Rc::clone(&primary)));
    if primary.config.transparent.is_some() {
        crate::task::spawn_local(fronts::families::watch_own(Rc::clone(&primary)));
    }
    let moved = Rc::clone(&primary);
    crate::task::spawn_local(addresses::watch(move |own| {
        moved.manage(|m, now| m.handle_addresses(now, own));
    }));
    let slept = Rc::clone(&primary);
    crate::task::spawn_local(sleep::watch(move |span| {
        slept.manage(|m, now| m.handle_slept(now, span));
    }));
    primary.carry_out();
    primary.limits_changed();
    if own.predecessor.is_some() {
        tokio::select! {
            () = joined(&primary) => {}
            reason = stop.wait() => match reason {
                FAILURE => return Err(Stopped.into()),
                signal => anyhow::bail!("{signal} before it has taken over"),
            },
        }
    }
    process.prepared().await?;
    own.ready().await?;
    api_file.0 = has_api.then_some(api_socket);
    if process.ready() {
        notify.ready();
    }
    fronts
        .into_iter()
        .for_each(|front| fronts::run(&primary, front, None));
    if let Some(interception) = &mut interception {
        interception.serve(&primary);
    }
    let metrics = own.metrics.map(|listener| {
        crate::task::spawn_local(metrics::serve(listener, counters)).abort_handle()
    });
    let api = api_listener.map(|listener| {
        let api = Resources::new(&primary, &reloader, snapshot);
        let answers = move |caller, request| Rc::clone(&api).answer(caller, request);
        crate::task::spawn_local(api::serve(listener, answers)).abort_handle()
    });
    let mut is_ordered = true;
    let successor = tokio::select! {
        () = own.status.serve(status, || reloader.reload()) => None,
        successor = own.handover.wait(|| primary.save_usage()) => Some(successor),
        () = lost(&mut interception) => {
            // Another start installs the rules again; without them all goes direct.
            anyhow::bail!("the process that holds the rules of interception was killed");
        }
        reason = stop.wait() => {
            info!(reason, "stopping");
            is_ordered = reason != FAILURE;
            None
        }
    };
    // With it go copies of all listeners.
    drop(own.handover);
    if let Some(successor) = &successor {
        // At once: nothing else runs on this thread after the new process was told.
        primary.families.stop_following();
        own.status.hand_over();
        api_file.0 = None;
        if let Some(metrics) = metrics {
            metrics.abort();
        }
        if let Some(api) = api {
            api.abort();
        }
        if let Some(interception) = &mut interception {
            interception.hand_over().await;
        }
        primary.handed_over.send_replace(true);
        let intercepts = interception.is_some();
        tokio::select! {
            () = drain(&primary, before.as_deref()) => {}
            () = end(successor), if intercepts => info!("stopping with the process that took over"),
            reason = stop.wait() => info!(reason, "stopping"),
        }
    }
    // No session follows: fronts and stub take nothing more. A successor serves these already.
    primary.handed_over.send_replace(true);
    sessions.abort();
    let mut drivers = primary.retiring.borrow().clone();
    drivers.extend(primary.driver.borrow().clone());
    for driver in &drivers {
        driver.stop("the primary stops");
    }
    let end_here = async {
        tokio::select! {
            () = delivered(&drivers) => {}
            reason = stop.wait() => info!(reason, "stopping at once"),
        }
        drivers.iter().for_each(Driver::shut_down);
    };
    if !end_both(before.as_deref(), end_here).await {
        warn!("the process before this one has not ended: its connections lose their address");
    }
    if successor.is_none() {
        primary.save_usage();
    }
    Ok(Ended {
        interception,
        successor,
        is_ordered,
    })
}

/// Waits until interception has ended by itself; without end where there is none.
async fn lost(interception: &mut Option<Interception>) {
    match interception {
        Some(interception) => interception.lost().await,
        None => std::future::pending().await,
    }
}

/// Ends the sessions of this process, and at the same time those of the process before, if there is
/// one. Returns whether that one has ended in time.
async fn end_both(before: Option<&Predecessor>, end_here: impl Future<Output = ()>) -> bool {
    let Some(before) = before else {
        end_here.await;
        return true;
    };
    before.leave();
    let end_there = tokio::time::timeout(STOPS_WITHIN, before.end());
    let ((), ended) = tokio::join!(end_here, end_there);
    ended.is_ok()
}

/// Waits for a path to the proxy, since the process before serves new connections meanwhile.
async fn joined(primary: &Primary) {
    let mut changed = primary.changed.subscribe();
    let joined = async {
        while primary.manager.borrow().admission(primary.clock.now()) != Admission::Session {
            // The sender is there as long as the primary.
            let _ = changed.changed().await;
        }
    };
    if tokio::time::timeout(JOINED_WITHIN, joined).await.is_err() {
        warn!("taking over without a path to the proxy");
    }
}

/// Waits until no application's connection is open, neither here nor at the process before, and for
/// the acknowledgements of the last bytes.
async fn drain(primary: &Primary, before: Option<&Predecessor>) {
    let over = async {
        while primary.is_busy() {
            tokio::time::sleep(DRAINED_EVERY).await;
        }
        tokio::time::sleep(retiring::LINGER).await;
        if let Some(before) = before {
            before.end().await;
        }
    };
    if tokio::time::timeout(upgrade::DRAIN, over).await.is_err() {
        info!("connections are still open, and are reset");
    }
}

/// Waits until applications have read what had arrived completely, for a moment at most.
async fn delivered(drivers: &[Driver]) {
    let over = async {
        while !drivers.iter().all(Driver::is_drained) {
            tokio::time::sleep(DELIVERED_EVERY).await;
        }
    };
    if tokio::time::timeout(DELIVERED_WITHIN, over).await.is_err() {
        info!("applications have not read everything: their connections are reset");
    }
}

/// Waits for the end of the process that has taken over.
async fn end(successor: &Successor) {
    while successor.connection().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// Both wait for applications that do not read, as when a service manager stops both.
    #[tokio::test(start_paused = true)]
    async fn a_primary_waits_while_the_one_before_it_delivers() {
        let both = async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let before = Predecessor::at(ours);
            tokio::task::spawn_local(async move {
                let answer = b"\"TakenOver\"";
                let length = (answer.len() as u32).to_be_bytes();
                theirs.write_all(&[&length[..], answer].concat()).await?;
                theirs.read_to_end(&mut Vec::new()).await?;
                sleep(DELIVERED_WITHIN + Duration::from_millis(100)).await;
                drop(theirs);
                std::io::Result::Ok(())
            });
            before.ready().await.unwrap();
            let began = Instant::now();
            assert!(end_both(Some(&before), sleep(DELIVERED_WITHIN)).await);
            assert!(before.has_ended());
            assert!(began.elapsed() < DELIVERED_WITHIN + Duration::from_secs(1));
        };
        tokio::task::LocalSet::new().run_until(both).await;
    }
}
