//! The primary daemon: splits applications' connections over all paths and joins what arrives.
//!
//! The [`Manager`] decides about paths and pipes; this module carries its decisions out with real
//! connections ([`actions`]), feeds it what happens to them, and leads applications' connections
//! ([`fronts`], [`transparent`], [`dns`]) into the session or past it.

mod actions;
mod control;
mod dial;
mod direct;
mod dns;
mod fronts;
mod handles;
mod proxy_addresses;
mod reach;
mod repeatable;
mod rescue;
mod retiring;
mod session;
mod state;
mod transparent;

use std::rc::Rc;

use anyhow::Context as _;
use mpbond_net::identity::Identity;
use tracing::info;

use crate::config::PrimaryConfig;
use crate::status_socket::StatusSocket;
use crate::stop::DaemonStop;
use crate::{addresses, descriptors, metrics, sleep};

use state::Primary;
pub use transparent::install_kill_switch;

/// Runs a primary until SIGINT or SIGTERM.
///
/// # Errors
/// The identity cannot be loaded, an address cannot be bound, or interception rules cannot be
/// installed.
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
    // Held until the end: dropping it removes the rules. A process of their own does it, with the
    // privileges that this one gives up now.
    let interception = transparent::start(&primary).await?;
    if primary.config.sandbox {
        let entered = primary.sandbox().enter();
        primary.sandboxed.replace(Some(entered));
    }
    tokio::task::spawn_local(session::run(Rc::clone(&primary)));
    tokio::task::spawn_local(actions::keep_time(Rc::clone(&primary)));
    let moved = Rc::clone(&primary);
    tokio::task::spawn_local(addresses::watch(move |own| {
        moved.manage(|m, now| m.handle_addresses(now, own));
    }));
    let slept = Rc::clone(&primary);
    tokio::task::spawn_local(sleep::watch(move |span| {
        slept.manage(|m, now| m.handle_slept(now, span));
    }));
    primary.carry_out();
    let mut stop = DaemonStop::listen();
    tokio::select! {
        () = socket.serve(status) => {}
        reason = stop.wait() => info!(reason, "stopping"),
    }
    if let Some(interception) = interception {
        interception.stop();
    }
    let driver = primary.driver.borrow().clone();
    let retiring = primary.retiring.take();
    for driver in driver.iter().chain(&retiring) {
        driver.shut_down();
    }
    Ok(())
}
