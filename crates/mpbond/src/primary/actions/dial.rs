//! Connection attempts: over an own path, to a helper, and through a helper's relay.

use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use mpbond_manager::{DialId, HANDSHAKE_WITHIN, LinkId, SEGMENT_BYTES, Target};
use mpbond_net::control::{Ticket, relay_preamble};
use mpbond_net::pipe::{PipeAddress, PipeStream};
use mpbond_net::tcp::Tuning;
use mpbond_net::tls::{Label, TlsError, TlsStream};
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use tracing::info;

use super::control;
use super::least_segments::{self, Passed};
use crate::config::{HelperRef, PathConfig};
use crate::driver::Driver;
use crate::primary::links::LinkConfig;
use crate::primary::state::Primary;

/// Begins an attempt; its result goes to the manager.
pub(super) fn start(primary: &Rc<Primary>, dial: DialId, target: Target) {
    let ticket = match target {
        Target::Relay { link, request, .. } => {
            let mut controls = primary.controls.borrow_mut();
            controls.get_mut(&link).and_then(|c| c.redeem(request))
        }
        Target::Proxy { .. } | Target::Control { .. } => None,
    };
    let run = run(Rc::clone(primary), dial, target, ticket);
    let task = crate::task::spawn_local(run).abort_handle();
    primary.dials.borrow_mut().insert(dial, task);
}

async fn run(
    primary: Rc<Primary>,
    dial: DialId,
    target: Target,
    ticket: Option<(PipeAddress, Ticket)>,
) {
    let result = connect(&primary, &target, ticket).await;
    primary.dials.borrow_mut().remove(&dial);
    match result {
        Ok(Dialled::Subflow(tls)) => add_subflow(&primary, dial, &target, tls),
        Ok(Dialled::Control(connection)) => {
            let local = connection.local();
            control::start(&primary, target.link(), connection);
            primary.manage(|m, now| m.handle_control_up(now, dial, local));
        }
        Err(e) => {
            let is_stalled = matches!(e.downcast_ref(), Some(TlsError::Deadline));
            let reason = format!("{e:#}");
            primary.manage(|m, now| {
                match target {
                    Target::Relay { link, express, .. } if is_stalled && !express => {
                        m.handle_stalled_handshake(now, link);
                    }
                    _ => {}
                }
                m.handle_dial_failed(now, dial, &reason);
            });
        }
    }
}

async fn connect(
    primary: &Rc<Primary>,
    target: &Target,
    ticket: Option<(PipeAddress, Ticket)>,
) -> anyhow::Result<Dialled> {
    let link = primary.link(target.link()).context("no such link")?;
    match (target, &*link) {
        (Target::Proxy { .. }, LinkConfig::Path(path)) => {
            let tls = to_proxy(primary, target.link(), path, || label(primary)).await;
            tls.map(Dialled::Subflow)
        }
        (Target::Control { .. }, LinkConfig::Pipe(helper)) => {
            let connection = control::connect(primary, helper).await?;
            Ok(Dialled::Control(connection))
        }
        (Target::Relay { express, .. }, LinkConfig::Pipe(helper)) => {
            let (address, ticket) = ticket.context("no ticket for the relay")?;
            let mut tuning = Tuning {
                max_segment_bytes: primary.manager.borrow().max_segment_bytes(target.link()),
                ..primary.tuning()
            };
            if *express {
                // It is idle most of the time.
                tuning.keepalive = None;
            }
            // It asks for the other end each 30 s, which an express is not to do.
            let frames = match express {
                true => None,
                false => primary.frames_to(target.link(), helper).await,
            };
            let tls = match frames {
                Some(frames) => {
                    let pipe = PipeStream::L2(frames);
                    through_pipe(primary, pipe, &ticket, label(primary)).await
                }
                None => {
                    let opening = (&address, &ticket);
                    through_helper(primary, helper, opening, tuning, label(primary)).await
                }
            };
            tls.map(Dialled::Subflow)
        }
        _ => bail!("no such link"),
    }
}

/// Result of an attempt.
enum Dialled {
    /// A connection to the proxy.
    Subflow(TlsStream),
    /// A control connection whose greeting was answered.
    Control(control::Connection),
}

fn add_subflow(primary: &Rc<Primary>, dial: DialId, target: &Target, tls: TlsStream) {
    let driver = primary.driver.borrow().clone();
    let Some(driver) = driver else {
        let reason = "the session is lost";
        return primary.manage(|m, now| m.handle_dial_failed(now, dial, reason));
    };
    let setup = primary.manager.borrow().setup(target);
    let local = tls.tcp().and_then(|tcp| tcp.local_addr().ok());
    let local = local.map(|a| a.ip());
    let subflow = driver.add_subflow(tls, setup);
    primary.manage(|m, now| m.handle_dialled(now, dial, subflow, local));
}

/// Label of the process that holds the session in use, once the proxy has answered.
fn label(primary: &Primary) -> Option<Label> {
    primary.driver.borrow().as_ref().and_then(Driver::label)
}

/// A connection to the proxy over one of the primary's own links. The label is asked for when TLS
/// begins.
pub(super) async fn to_proxy(
    primary: &Rc<Primary>,
    link: LinkId,
    path: &PathConfig,
    label: impl FnOnce() -> Option<Label>,
) -> anyhow::Result<TlsStream> {
    let bind = (path.source, path.interface.as_ref());
    let addresses = primary.proxy_addresses(link).await;
    let connect = async |addresses: &[SocketAddr], max_segment_bytes| {
        let tuning = Tuning {
            max_segment_bytes,
            ..primary.tuning()
        };
        let tcp = primary.connect(bind, addresses, tuning).await;
        tcp.context("the proxy")
    };
    let limit = primary.manager.borrow().max_segment_bytes(link);
    let tcp = connect(&addresses, limit).await?;
    let (at, label) = (tcp.peer_addr()?, label());
    let deadline = Instant::now() + HANDSHAKE_WITHIN;
    let usual = handshake(primary, tcp, label, deadline);
    let least = async |bytes| {
        let tcp = connect(&[at], Some(bytes)).await.ok()?;
        handshake(primary, tcp, label, deadline).await.ok()
    };
    let passed = least_segments::pass(limit, usual, least).await;
    primary.address_tried(link, at, passed.is_ok());
    let Passed { connection, least } = passed?;
    if least {
        let [.., octets] = SEGMENT_BYTES;
        let path = primary.link_name(link);
        info!(
            path,
            octets, "the handshake passed with the smallest segments only"
        );
        primary.manage(|m, now| m.handle_least_segments(now, link));
    }
    Ok(connection)
}

/// A connection to the proxy through a relay for which the helper at this address has given a
/// ticket.
pub(super) async fn through_helper(
    primary: &Primary,
    helper: &HelperRef,
    (address, ticket): (&PipeAddress, &Ticket),
    tuning: Tuning,
    label: Option<Label>,
) -> anyhow::Result<TlsStream> {
    let pipe = primary.connect_pipe(helper, address, tuning).await?;
    through_pipe(primary, pipe, ticket, label).await
}

/// A connection to the proxy over a pipe on which nothing was sent yet.
async fn through_pipe(
    primary: &Primary,
    mut pipe: PipeStream,
    ticket: &Ticket,
    label: Option<Label>,
) -> anyhow::Result<TlsStream> {
    pipe.write_all(&relay_preamble(ticket)).await?;
    let deadline = Instant::now() + HANDSHAKE_WITHIN;
    let tls = handshake(primary, pipe, label, deadline).await;
    tls.context("through the helper")
}

async fn handshake(
    primary: &Primary,
    io: impl Into<PipeStream>,
    label: Option<Label>,
    deadline: Instant,
) -> Result<TlsStream, TlsError> {
    let (identity, proxy) = (&primary.identity, primary.config.proxy.id);
    match label {
        None => TlsStream::connect(io, identity, proxy, deadline).await,
        Some(label) => TlsStream::connect_to_process(io, identity, proxy, label, deadline).await,
    }
}
