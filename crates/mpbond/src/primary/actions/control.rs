//! Control connections to helpers.

use std::net::IpAddr;
use std::rc::Rc;

use anyhow::{Context as _, bail};
pub(super) use mpbond_manager::{HANDSHAKE_WITHIN, Held, LinkId, Report, RequestId};
use mpbond_net::control::{ControlChannel, Message, RelayReport, VERSION};
use mpbond_net::pipe::PipeAddress;
use mpbond_net::tls::TlsStream;
use mpbond_session::FarReport;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info};

use super::handles::Control;
use crate::config::{HelperAddress, HelperRef};
use crate::primary::state::Primary;
use crate::{discovery, near};

/// A control connection whose greeting was answered.
pub(super) struct Connection {
    channel: ControlChannel,
    /// The helper's address. Relays have to lead to the same one.
    address: PipeAddress,
}

impl Connection {
    /// The own address that it runs from, on an IP network.
    pub(super) fn local(&self) -> Option<IpAddr> {
        let local = self.channel.tls().tcp()?.local_addr();
        local.ok().map(|a| a.ip())
    }
}

/// Connects to a helper, found on the local network where its address is not configured.
pub(super) async fn connect(primary: &Primary, helper: &HelperRef) -> anyhow::Result<Connection> {
    let address = match &helper.address {
        HelperAddress::At(address) => address.clone(),
        HelperAddress::Discover => {
            let found = discovery::find(&primary.identity.id(), &helper.id).await?;
            info!(helper = helper.name, address = %found, "helper found");
            found.into()
        }
    };
    let pipe = primary
        .connect_pipe(helper, &address, primary.tuning())
        .await?;
    let deadline = Instant::now() + HANDSHAKE_WITHIN;
    let tls = TlsStream::connect(pipe, &primary.identity, helper.id, deadline).await?;
    let mut channel = ControlChannel::new(tls);
    let hello = Message::Hello {
        version: VERSION,
        name: primary.identity.id().short(),
    };
    channel.send(&hello).await?;
    let answer = tokio::time::timeout_at(deadline, channel.receive())
        .await
        .context("the helper does not answer the greeting")??;
    match answer {
        Some(Message::Hello { name, .. }) => {
            debug!(helper = helper.name, calls_itself = name, "helper");
            Ok(Connection { channel, address })
        }
        Some(other) => bail!("the helper began with {other:?}"),
        None => bail!("the helper closed the connection"),
    }
}

/// Attends to a control connection until it is lost or hung up.
pub(super) fn start(primary: &Rc<Primary>, link: LinkId, connection: Connection) {
    let Connection { channel, address } = connection;
    let (requests, received) = mpsc::unbounded_channel();
    let may_use_frames = primary.link(link).is_some_and(|l| l.may_use_frames());
    let tcp = channel.tls().tcp().filter(|_| may_use_frames);
    let wire = tcp.and_then(near::wire);
    let attend = attend(Rc::clone(primary), link, channel, received);
    let task = crate::task::spawn_local(attend).abort_handle();
    let control = Control::new(address, wire, requests, task);
    primary.controls.borrow_mut().insert(link, control);
}

async fn attend(
    primary: Rc<Primary>,
    link: LinkId,
    mut channel: ControlChannel,
    mut requests: mpsc::UnboundedReceiver<Message>,
) {
    let reason = loop {
        // Whatever is queued goes out while the next message is waited for.
        let queued = tokio::select! {
            request = requests.recv() => match request {
                Some(message) => channel.queue(&message),
                None => return,
            },
            message = channel.receive() => match message {
                Ok(Some(Message::Ping { token })) => channel.queue(&Message::Pong { token }),
                Ok(Some(message)) => {
                    handle(&primary, link, message);
                    Ok(())
                }
                Ok(None) => break "closed by the helper".to_owned(),
                Err(e) => break e.to_string(),
            },
        };
        if let Err(e) = queued {
            break e.to_string();
        }
    };
    primary.controls.borrow_mut().remove(&link);
    primary.manage(|m, now| m.handle_control_closed(now, link, &reason));
}

/// Hands a helper's message to the manager.
fn handle(primary: &Rc<Primary>, link: LinkId, message: Message) {
    match message {
        Message::Relay { request, ticket } => {
            let request = RequestId(request.0);
            if let Some(control) = primary.controls.borrow_mut().get_mut(&link) {
                if control.answered_aside(request, || Ok(ticket.clone())) {
                    return;
                }
                control.keep_ticket(request, ticket);
            }
            primary.manage(|m, now| m.handle_ticket(now, link, request));
            // Nobody redeems the ticket of a request that was given up meanwhile.
            if let Some(control) = primary.controls.borrow_mut().get_mut(&link) {
                control.discard_ticket(request);
            }
        }
        Message::Refused {
            request, reason, ..
        } => {
            let request = RequestId(request.0);
            if let Some(control) = primary.controls.borrow_mut().get_mut(&link)
                && (control.answered_aside(request, || Err(reason.clone()))
                    || control.answered_offer(request, || Err(reason.clone())))
            {
                return;
            }
            primary.manage(|m, now| m.handle_refusal(now, link, request, &reason));
        }
        Message::L2Accept { request, mac } => {
            if let Some(control) = primary.controls.borrow_mut().get_mut(&link) {
                control.answered_offer(RequestId(request.0), || Ok(mac));
            }
        }
        Message::L2Closed { channel, reason } => primary.channel_closed(link, channel, &reason),
        Message::HelperState(state) => primary.helper_state(link, &state),
        Message::Report(report) => take_report(primary, link, &report),
        Message::Bye { reason } => primary.manage(|m, now| m.handle_goodbye(now, link, &reason)),
        other => {
            let helper = primary.link_name(link);
            debug!(helper, message = ?other, "message not acted upon");
        }
    }
}

/// Hands a report to the manager, and to the session unless it is out of date.
fn take_report(primary: &Rc<Primary>, link: LinkId, r: &RelayReport) {
    let report = Report {
        request: RequestId(r.relay.0),
        number: r.number,
        down: Held {
            bytes: r.level_down_bytes,
            throughput: r.th_p.unwrap_or_default(),
            sojourn: r.sojourn_down,
        },
        up: Held {
            bytes: r.level_up_bytes,
            throughput: r.th_hs.unwrap_or_default(),
            sojourn: r.sojourn_up,
        },
    };
    let limits = [r.limit_down, r.limit_up];
    primary.limits.reported(primary.clock.now(), link, limits);
    primary.far_link_measured(link, r);
    let subflow = primary.manage_with_facts(|m, now| m.handle_report(now, link, &report));
    let driver = primary.driver.borrow().clone();
    let (Some(driver), Some(subflow)) = (driver, subflow) else {
        return;
    };
    let age = r.age.unwrap_or_default();
    let pipe = FarReport {
        throughput: report.down.throughput,
        rtt: r.pipe_rtt.unwrap_or_default(),
        level_bytes: r.level_down_bytes,
        age,
        sojourn: r.sojourn_down,
        held_back: r.held_back_down,
    };
    let hs = FarReport {
        throughput: report.up.throughput,
        rtt: r.hs_rtt.unwrap_or_default(),
        level_bytes: r.level_up_bytes,
        age,
        sojourn: r.sojourn_up,
        held_back: r.held_back_up,
    };
    let downlink = r.since_hs_down.map(|d| d + age);
    driver.helper_report(subflow, pipe, hs, downlink);
}
