//! Control connection of one primary: requests for relays, their answers, reports.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mpbond_manager::{MAX_ADDRESSES, REPORT_EVERY};
use mpbond_net::DeviceId;
use mpbond_net::control::{
    ControlChannel, HelperState, Message, RefusalCode, RequestId, RoundTrips, VERSION,
};
use mpbond_net::pipe::PipeStream;
use mpbond_net::relay::Arrivals;
use mpbond_net::tcp::{self, TcpInfo, TcpOptions, Tuning};
use mpbond_net::tls::TlsStream;
use mpbond_policy::Supply;
use mpbond_units::BitRate;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tracing::{debug, info};

use super::budget::MonthlyBudget;
use super::lending::LentLink;
use super::offers::Offer;
use super::promise::{Event, Kind, OpenRelay, Promise, Promised};
use super::proxies::{Names, Turn};
use super::several::Ends;
use super::state::{Helper, Leave, MAX_RELAYS, MAX_RELAYS_EACH};
use crate::admission::Visitor;
use crate::config::ProxyAddress;
use crate::near;
use crate::quota::Full;

/// Idle time after which a relay is no longer reported on, so that an idle device can sleep.
const QUIET: Duration = Duration::from_millis(500);

/// Shortest interval at which a primary is told the state of this device, while that changes.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Bounds of a primary's limit on segments: the default of RFC 9293, section 3.7.1, and the largest
/// that the kernel takes.
const MAX_SEGMENT_BYTES: [u16; 2] = [536, 32_767];

/// A request for a relay.
struct Asked {
    request: RequestId,
    kind: Kind,
    /// Addresses of the proxy, in order of preference.
    proxies: Vec<SocketAddr>,
    max_segment_bytes: Option<u16>,
}

/// Look-ups of names, with the requests that wait for them.
type LookUps = JoinSet<Option<Asked>>;

struct Reported {
    relay: OpenRelay,
    number: u64,
    bytes: u64,
    moved: Instant,
    opened: Instant,
    /// When the last report was made.
    at: Instant,
    arrivals: Arrivals,
    /// Time for which it has waited for the limits, down and up, until the last report.
    waited: [Duration; 2],
}

/// Serves one control connection until it ends. `visitor` is held while the peer is unknown.
pub(super) async fn serve(
    helper: &Rc<Helper>,
    (pipe, from): (PipeStream, SocketAddr),
    deadline: Instant,
    visitor: Visitor,
) -> anyhow::Result<()> {
    let mut permissions = helper.permissions.subscribe();
    let mut leaving = helper.leaving.subscribe();
    let tls = TlsStream::accept(pipe, &helper.identity, helper.trust.clone(), deadline).await?;
    let primary = tls.peer_id();
    // Not for a stranger: it takes some system calls.
    tls.tcp().inspect(|tcp| near::keep(tcp, from));
    let mut control = ControlChannel::new(tls);
    let hello = tokio::time::timeout_at(deadline, control.receive())
        .await
        .context("no hello in time")??;
    match hello {
        Some(Message::Hello { name, .. }) => {
            if let Some(line) = helper.line(primary) {
                let left_out = line.left_out;
                info!(
                    primary = primary.short(),
                    calls_itself = name,
                    left_out,
                    "primary"
                );
            }
        }
        Some(other) => bail!("it began with {other:?}"),
        None => bail!("it closed without a hello"),
    }
    visitor.authenticated();
    let Ok(_share) = helper.control_quota.take(primary) else {
        let reason = "too many control connections".to_owned();
        control.send(&Message::Bye { reason }).await?;
        bail!("too many control connections");
    };
    control
        .send(&Message::Hello {
            version: VERSION,
            name: helper.config().name.clone(),
        })
        .await?;
    helper.read_battery().await;
    let mut battery = helper.battery.supply.subscribe();
    let mut told = helper.state();
    let mut told_at = Instant::now();
    control.send(&Message::HelperState(told.clone())).await?;
    let (events, mut happened) = mpsc::unbounded_channel();
    let mut relays: HashMap<RequestId, Reported> = HashMap::new();
    let mut look_ups = LookUps::new();
    let mut round_trips = RoundTrips::default();
    // A pipe over TCP has TCP_INFO.
    let has_tcp = control.tls().tcp().is_some();
    if !has_tcp && let Some(ping) = round_trips.ask(Instant::now()) {
        control.queue(&ping)?;
    }
    let mut tick = interval(REPORT_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // What is queued goes out while the next message is waited for: a primary that does not
        // read holds up nothing here, and is given up when too much waits for it.
        let busy = relays.values().any(|r| r.moved.elapsed() < QUIET);
        let has_changed = helper.state() != told;
        tokio::select! {
            message = control.receive() => match message? {
                Some(Message::Pong { token }) => {
                    round_trips.answered(Instant::now(), token);
                    if !has_tcp && let Some(ping) = round_trips.ask(Instant::now()) {
                        control.queue(&ping)?;
                    }
                }
                Some(message) => {
                    helper.look_at_battery();
                    if let Some(asked) = helper.answer(&mut control, message, &events)? {
                        helper.take(&mut control, asked, &events, &mut look_ups)?;
                    }
                }
                None => return Ok(()),
            },
            // It is part of the state.
            Ok(()) = battery.changed() => {}
            () = sleep_until(told_at + TELL_EVERY), if has_changed => {
                (told, told_at) = (helper.state(), Instant::now());
                control.queue(&Message::HelperState(told.clone()))?;
            }
            Some(looked_up) = look_ups.join_next() => {
                if let Ok(Some(asked)) = looked_up {
                    helper.grant(&mut control, asked, &events)?;
                }
            }
            Ok(()) = permissions.changed() => {
                if !helper.trust.trusts(&primary) {
                    let reason = "no longer trusted".to_owned();
                    control.queue(&Message::Bye { reason })?;
                    // The message is sent if the socket takes it at once.
                    poll_fn(|cx| {
                        let _ = std::pin::pin!(control.flush()).poll(cx);
                        Poll::Ready(())
                    })
                    .await;
                    bail!("{} is no longer trusted", primary.short());
                }
            }
            Some(leave) = leaves(&mut leaving) => {
                if leave == Leave::Stop {
                    let reason = "the helper stops".to_owned();
                    control.queue(&Message::Bye { reason })?;
                }
                control.close().await?;
                return Ok(());
            }
            Some(event) = happened.recv() => match event {
                Event::Opened(request, relay) => {
                    relays.insert(request, Reported::new(relay));
                }
                Event::Closed(request) => {
                    relays.remove(&request);
                }
                Event::ChannelFailed(channel, reason) => {
                    control.queue(&Message::L2Closed { channel, reason })?;
                }
                Event::Unreachable(request, reason) => {
                    let code = RefusalCode::Unreachable;
                    control.queue(&Message::Refused { request, code, reason })?;
                }
            },
            // No timer runs while no bytes move.
            _ = tick.tick(), if busy => {
                helper.look_at_battery();
                // Of pipes over Ethernet frames, which have the way of the control connection.
                let tcp = control.tls().tcp().and_then(|tcp| TcpInfo::read(tcp).ok());
                let round_trip = tcp.and_then(|tcp| tcp.min_rtt).or(round_trips.least());
                let link = helper.link.as_ref();
                let limits = link.map(LentLink::limits).unwrap_or_default();
                for (request, r) in &mut relays {
                    r.report(*request, (round_trip, limits), &mut control)?;
                }
            }
            () = woken(&relays), if !busy && !relays.is_empty() => {
                for r in relays.values_mut() {
                    r.look();
                }
            }
        }
    }
}

fn too_many(request: RequestId, reason: String) -> Message {
    Message::Refused {
        request,
        code: RefusalCode::TooMany,
        reason,
    }
}

/// What tells the pipe of a control connection from others of the same primary.
fn ends(control: &ControlChannel) -> Ends {
    let tcp = control.tls().tcp()?;
    let ends = [tcp.local_addr().ok()?, tcp.peer_addr().ok()?];
    Some(ends.map(|address| address.ip().to_canonical()))
}

/// Waits until the process ends.
async fn leaves(leaving: &mut watch::Receiver<Option<Leave>>) -> Option<Leave> {
    let leave = leaving.wait_for(Option::is_some).await.ok()?;
    *leave
}

/// Waits for the first byte that passes any of these relays.
async fn woken(relays: &HashMap<RequestId, Reported>) {
    let mut waits: Vec<_> = relays
        .values()
        .map(|r| Box::pin(r.relay.handle.woken()))
        .collect();
    poll_fn(|cx| {
        let woken = waits.iter_mut().any(|w| w.as_mut().poll(cx).is_ready());
        if woken {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Whether a limit has held a relay back in the time between two reports, of which it has waited
/// for the limit for so long: a tenth or more. Shorter waits are those of bursts, and change no
/// rate by more than that. A report can be late, on a busy device; a relay that has rested since
/// the last one has begun within the interval of reports.
fn is_held_back(waited: Duration, between: Duration) -> bool {
    let between = if between < QUIET {
        between
    } else {
        REPORT_EVERY
    };
    waited >= between.max(REPORT_EVERY) / 10
}

impl Reported {
    fn new(relay: OpenRelay) -> Self {
        let now = Instant::now();
        Self {
            relay,
            number: 0,
            bytes: 0,
            moved: now,
            opened: now,
            at: now,
            arrivals: Arrivals::default(),
            waited: [Duration::ZERO; 2],
        }
    }

    fn look(&mut self) {
        let stats = self.relay.handle.stats();
        let total = stats.map_or(self.bytes, |s| s.bytes_down + s.bytes_up);
        if total != self.bytes {
            self.bytes = total;
            self.moved = Instant::now();
        }
    }

    /// Tells the primary about the relay. The round-trip time is that of a pipe without TCP_INFO;
    /// the limits are those of all relays of the link, down and up.
    fn report(
        &mut self,
        request: RequestId,
        (round_trip, limits): (Option<Duration>, [Option<BitRate>; 2]),
        control: &mut ControlChannel,
    ) -> anyhow::Result<()> {
        self.look();
        if self.moved.elapsed() < QUIET
            && let Some(stats) = self.relay.handle.stats()
        {
            self.number += 1;
            let total = stats.hs.bytes_received.unwrap_or_default();
            let waited = [stats.waited_down, stats.waited_up];
            let before = std::mem::replace(&mut self.waited, waited);
            let now = Instant::now();
            let between = now - std::mem::replace(&mut self.at, now);
            let held_back = [0, 1].map(|way| {
                let waited = waited[way].saturating_sub(before[way]);
                is_held_back(waited, between)
            });
            // Bytes that a limit holds back come at its rate, and not at that of the link.
            let held_up = stats.is_held_up() || held_back[0];
            let rate = self.arrivals.read(self.opened.elapsed(), total, held_up);
            let mut report = stats.report(self.number, request, rate, (limits, held_back));
            report.pipe_rtt = report.pipe_rtt.or(round_trip);
            control.queue(&Message::Report(report))?;
        }
        Ok(())
    }
}

impl Helper {
    fn state(&self) -> HelperState {
        let Supply {
            percent,
            is_charging,
        } = *self.battery.supply.borrow();
        HelperState {
            battery_percent: percent,
            charging: is_charging,
            metered: self.config().uplink.metered,
            bytes_left: self.budget.as_ref().map(|b| b.bytes().left_bytes()),
            ..HelperState::default()
        }
    }

    /// Answers a message, unless it is a request for a relay.
    fn answer(
        self: &Rc<Self>,
        control: &mut ControlChannel,
        message: Message,
        events: &mpsc::UnboundedSender<Event>,
    ) -> anyhow::Result<Option<Asked>> {
        let (request, proxy, others, kind, max_segment_bytes) = match message {
            Message::InitMp {
                request,
                proxy,
                others,
                max_segment_bytes,
            } => (request, proxy, others, Kind::Regular, max_segment_bytes),
            Message::InitMpJoin {
                request,
                proxy,
                others,
                express,
                max_segment_bytes,
            } => {
                let kind = match express {
                    true => Kind::Express,
                    false => Kind::Regular,
                };
                (request, proxy, others, kind, max_segment_bytes)
            }
            Message::MeasurePipe { request, direction } => {
                let primary = control.tls().peer_id();
                let answer = self.promise_measurement(primary, request, direction);
                control.queue(&answer)?;
                return Ok(None);
            }
            Message::L2Offer {
                request,
                mac,
                channel,
                key,
            } => {
                let offer = Offer {
                    request,
                    mac,
                    channel,
                    key,
                };
                let answer = self.take_offer(control, &offer, events);
                control.queue(&answer)?;
                return Ok(None);
            }
            Message::L2Closed { channel, .. } => {
                self.channel_closed(control.tls().peer_id(), channel);
                return Ok(None);
            }
            Message::Ping { token } => {
                control.queue(&Message::Pong { token })?;
                return Ok(None);
            }
            Message::Bye { reason } => bail!("the primary leaves: {reason}"),
            other => {
                debug!(?other, "message ignored");
                return Ok(None);
            }
        };
        Ok(Some(Asked {
            request,
            kind,
            proxies: std::iter::once(proxy).chain(others).collect(),
            max_segment_bytes,
        }))
    }

    /// Answers a request for a relay, at once or after a look-up of the names of proxies.
    fn take(
        &self,
        control: &mut ControlChannel,
        asked: Asked,
        events: &mpsc::UnboundedSender<Event>,
        look_ups: &mut LookUps,
    ) -> anyhow::Result<()> {
        let (config, proxies) = (self.config(), asked.proxies.clone());
        let turn = Names::turn(&config, &proxies);
        let has_room = look_ups.len() < MAX_RELAYS_EACH;
        let waits = match turn {
            Turn::Before if has_room => Some(asked),
            Turn::Before => {
                let reason = format!("{MAX_RELAYS_EACH} relays of one primary are the limit");
                return Ok(control.queue(&too_many(asked.request, reason))?);
            }
            Turn::Never | Turn::Beside => {
                self.grant(control, asked, events)?;
                None
            }
        };
        if turn != Turn::Never && has_room {
            let look_up = Rc::clone(&self.names).look_up(config, proxies);
            look_ups.spawn_local(async move {
                look_up.await;
                waits
            });
        }
        Ok(())
    }

    /// Answers a request for a relay.
    fn grant(
        &self,
        control: &mut ControlChannel,
        asked: Asked,
        events: &mpsc::UnboundedSender<Event>,
    ) -> anyhow::Result<()> {
        let (request, kind) = (asked.request, asked.kind);
        let answer = match self.allowed(&asked.proxies) {
            Err((code, reason)) => Message::Refused {
                request,
                code,
                reason,
            },
            Ok(proxies) => {
                let tuning = self.hs_tuning(kind, asked.max_segment_bytes);
                let pipe = (control.tls().peer_id(), ends(control));
                self.promise(pipe, (request, kind), proxies, tuning, events)
            }
        };
        Ok(control.queue(&answer)?)
    }

    /// Options of an HS-Path.
    fn hs_tuning(&self, kind: Kind, max_segment_bytes: Option<u16>) -> Tuning {
        let mut tuning = self.tuning();
        if kind == Kind::Express {
            tuning.keepalive = None;
        }
        let [least, most] = MAX_SEGMENT_BYTES;
        tuning.max_segment_bytes = max_segment_bytes.map(|n| n.clamp(least, most).into());
        tuning
    }

    /// The addresses of the proxy to which the owner's configuration allows a relay, with the
    /// entries that allow it, or else the refusal.
    fn allowed(
        &self,
        asked: &[SocketAddr],
    ) -> Result<Vec<(SocketAddr, ProxyAddress)>, (RefusalCode, String)> {
        let config = self.config();
        if !config.enabled {
            return Err((
                RefusalCode::SwitchedOff,
                "lending is switched off".to_owned(),
            ));
        }
        let allowed = |a: &SocketAddr| Some((*a, self.names.entry(&config, *a)?));
        let proxies = asked.iter().filter_map(allowed).take(MAX_ADDRESSES);
        let proxies: Vec<_> = proxies.collect();
        if proxies.is_empty() {
            if let Some((name, why)) = self.names.unknown(&config, asked) {
                return Err((
                    RefusalCode::Unreachable,
                    format!("the address of {name} is not found here: {why}"),
                ));
            }
            let first = asked.first().map(SocketAddr::to_string);
            let first = first.unwrap_or_default();
            return Err((
                RefusalCode::ProxyNotAllowed,
                format!("{first} is not among this helper's proxies"),
            ));
        }
        if self.budget.as_ref().is_some_and(MonthlyBudget::is_spent) {
            return Err((
                RefusalCode::BudgetSpent,
                "this month's budget is used up".to_owned(),
            ));
        }
        if let Some(reason) = self.battery.refusal() {
            return Err((RefusalCode::BatteryLow, reason));
        }
        Ok(proxies)
    }

    /// Issues a ticket, and opens the HS-Path while the primary connects with it.
    fn promise(
        &self,
        (primary, ends): (DeviceId, Ends),
        (request, kind): (RequestId, Kind),
        proxies: Vec<(SocketAddr, ProxyAddress)>,
        tuning: Tuning,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Message {
        let refused = |reason: String| too_many(request, reason);
        let now = std::time::Instant::now().into();
        // Relays whose ticket was not used in time no longer count.
        self.tickets.borrow_mut().expire(now);
        let share = match self.relay_quota.take(primary) {
            Ok(share) => share,
            Err(Full::All) => return refused(format!("{MAX_RELAYS} relays are the limit")),
            Err(Full::Own) => {
                return refused(format!(
                    "{MAX_RELAYS_EACH} relays of one primary are the limit"
                ));
            }
        };
        let addresses: Vec<SocketAddr> = proxies.iter().map(|(address, _)| *address).collect();
        let Some(&first) = addresses.first() else {
            return refused("no address of a proxy".to_owned());
        };
        let uplink = &self.config().uplink;
        let options = TcpOptions {
            source: uplink.source,
            interface: uplink.interface.clone(),
            tuning,
            ..TcpOptions::to(first)
        };
        let addresses = self
            .reached
            .borrow()
            .order(&addresses, None, options.source);
        let hs = tokio::spawn(async move { tcp::connect_any(&options, &addresses).await });
        let connecting = hs.abort_handle();
        let promised = Promised {
            primary,
            proxies,
            request,
            kind,
            hs,
            control: events.clone(),
            ends,
            share,
        };
        let ticket = self
            .tickets
            .borrow_mut()
            .issue(Promise::Relay(promised), now);
        match ticket {
            Some(ticket) => Message::Relay { request, ticket },
            None => {
                // No ticket, no relay.
                connecting.abort();
                refused("too many tickets are waiting to be used".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_held_back_if_it_waits_for_a_tenth_of_the_time_between_two_reports() {
        let ms = Duration::from_millis;
        for (waited, between, held_back) in [
            (9, 100, false),
            (10, 100, true),
            // A late report: a burst in it is no more than one in time.
            (29, 300, false),
            (30, 300, true),
            // Two reports in quick succession.
            (2, 20, false),
            // It has rested.
            (10, 60_000, true),
            (9, 60_000, false),
        ] {
            let is = is_held_back(ms(waited), ms(between));
            assert_eq!(is, held_back, "{waited} of {between} ms");
        }
    }
}
