//! A helper: one control connection to it, and relays that it opens for us.

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mpbond_net::control::{
    ControlChannel, Message, RelayReport, RequestId, Ticket, VERSION, relay_preamble,
};
use mpbond_net::tcp::{self, TcpOptions};
use mpbond_net::tls::TlsStream;
use mpbond_session::{FarReport, HelperId, SubflowId, SubflowSetup};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::express::Express;
use super::link::{HANDSHAKE_WITHIN, STEADY};
use super::{Backoff, Primary};
use crate::config::{HelperAddress, HelperRef};
use crate::discovery;
use crate::driver::Driver;

/// Keeps a control connection to a helper, and a relay over it, as long as the daemon runs.
pub(super) async fn keep_helper(
    primary: Rc<Primary>,
    slot: usize,
    id: HelperId,
    helper: HelperRef,
) {
    let mut backoff = Backoff::new();
    loop {
        primary.set_link(slot, "connecting", None);
        let since = Instant::now();
        let link = Helper {
            primary: &primary,
            slot,
            id,
            config: &helper,
            address: Cell::new(None),
            requests: Cell::new(0),
        };
        let error = match link.serve().await {
            Ok(()) => "the helper has left".to_owned(),
            Err(e) => format!("{e:#}"),
        };
        info!(helper = helper.name, error, "helper lost");
        primary.set_link(slot, "waiting", Some(error));
        if since.elapsed() > STEADY {
            backoff.reset();
        }
        backoff.pause(&primary.network).await;
    }
}

struct Helper<'a> {
    primary: &'a Primary,
    slot: usize,
    id: HelperId,
    config: &'a HelperRef,
    /// Where it is, once that is known.
    address: Cell<Option<SocketAddr>>,
    /// How many requests it was sent.
    requests: Cell<u64>,
}

/// The relay in use.
struct Relay {
    request: RequestId,
    subflow: SubflowId,
    driver: Driver,
    gone: oneshot::Receiver<()>,
    since: Instant,
    /// Highest report number seen.
    report: u64,
}

impl Helper<'_> {
    /// Until the control connection is lost.
    async fn serve(&self) -> anyhow::Result<()> {
        let mut control = self.control().await?;
        let mut backoff = Backoff::new();
        loop {
            let request = self.next_request();
            match self.relay(&mut control, request).await {
                Ok(relay) => {
                    self.primary.set_link(self.slot, "up", None);
                    self.primary.usable.send_replace(());
                    let steady = self.attend(&mut control, relay).await?;
                    let lost = Some("connection lost".to_owned());
                    self.primary.set_link(self.slot, "waiting", lost);
                    if steady {
                        backoff.reset();
                    }
                }
                Err(Failure::Relay(e)) => {
                    info!(
                        helper = self.config.name,
                        error = format!("{e:#}"),
                        "no relay"
                    );
                    let error = Some(format!("{e:#}"));
                    self.primary.set_link(self.slot, "waiting", error);
                }
                Err(Failure::Control(e)) => return Err(e),
            }
            // What the helper says meanwhile is heard, above all that it leaves.
            let mut pause = pin!(backoff.pause(&self.primary.network));
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    message = control.receive() => match message? {
                        None | Some(Message::Bye { .. }) => return Ok(()),
                        Some(message) => self.hear(&mut control, message, None).await?,
                    },
                }
            }
        }
    }

    /// Where the helper is: for as long as one control connection lasts, since relays have to
    /// lead to the same one.
    async fn address(&self) -> anyhow::Result<SocketAddr> {
        if let Some(address) = self.address.get() {
            return Ok(address);
        }
        let address = match self.config.address {
            HelperAddress::At(address) => address,
            HelperAddress::Discover => {
                let found = discovery::find(&self.primary.identity.id(), &self.config.id).await?;
                info!(helper = self.config.name, address = %found, "helper found");
                found
            }
        };
        self.address.set(Some(address));
        Ok(address)
    }

    fn next_request(&self) -> RequestId {
        self.requests.set(self.requests.get() + 1);
        RequestId(self.requests.get())
    }

    /// A connection to the helper; one that is idle nearly always gets no keepalive.
    async fn connect(&self, idle: bool) -> anyhow::Result<TcpStream> {
        let address = self.address().await?;
        let mut tuning = self.primary.tuning();
        if idle {
            tuning.keepalive = None;
        }
        let options = TcpOptions {
            source: self.config.source,
            interface: self.config.interface.clone(),
            connect_timeout: HANDSHAKE_WITHIN,
            tuning,
            ..TcpOptions::to(address)
        };
        Ok(tcp::connect(&options).await?)
    }

    async fn control(&self) -> anyhow::Result<ControlChannel> {
        let tcp = self.connect(false).await?;
        let deadline = Instant::now() + HANDSHAKE_WITHIN;
        let tls = TlsStream::connect(tcp, &self.primary.identity, self.config.id, deadline).await?;
        let mut control = ControlChannel::new(tls);
        let name = self.primary.identity.id().short();
        let hello = Message::Hello {
            version: VERSION,
            name,
        };
        control.send(&hello).await?;
        let answer = tokio::time::timeout_at(deadline, control.receive())
            .await
            .context("the helper says nothing")??;
        match answer {
            Some(Message::Hello { name, .. }) => {
                debug!(helper = self.config.name, calls_itself = name, "helper");
                Ok(control)
            }
            Some(other) => bail!("the helper began with {other:?}"),
            None => bail!("the helper closed the connection"),
        }
    }

    /// Asks for a relay and joins through it.
    async fn relay(
        &self,
        control: &mut ControlChannel,
        request: RequestId,
    ) -> Result<Relay, Failure> {
        let driver = self.primary.session().await;
        let proxy = self.primary.config.proxy.address;
        let ask = if driver.is_usable() {
            self.init_join(request, false)
        } else {
            Message::InitMp { request, proxy }
        };
        control.send(&ask).await.map_err(control_failed)?;
        let ticket = self.ticket(control, request).await?;
        let joined = self.join(ticket, false);
        let mut joined = pin!(joined);
        // Waiting for the proxy, the helper may say that it can't reach it.
        let tls = loop {
            tokio::select! {
                tls = &mut joined => break tls.map_err(Failure::Relay)?,
                message = control.receive() => match message.map_err(control_failed)? {
                    Some(Message::Refused { request: r, reason, .. }) if r == request => {
                        return Err(Failure::Relay(anyhow::anyhow!("the helper says: {reason}")));
                    }
                    None | Some(Message::Bye { .. }) => {
                        return Err(Failure::Control(anyhow::anyhow!("the helper leaves")));
                    }
                    Some(message) => self.hear(control, message, None).await.map_err(Failure::Control)?,
                },
            }
        };
        let (subflow, gone) = driver.add_subflow(tls, self.setup());
        Ok(Relay {
            request,
            subflow,
            driver,
            gone,
            since: Instant::now(),
            report: 0,
        })
    }

    fn init_join(&self, request: RequestId, express: bool) -> Message {
        Message::InitMpJoin {
            request,
            proxy: self.primary.config.proxy.address,
            express,
        }
    }

    fn setup(&self) -> SubflowSetup {
        SubflowSetup {
            name: self.config.name.clone(),
            helper: Some(self.id),
            backup: self.config.backup,
            ..SubflowSetup::default()
        }
    }

    /// Waits for the helper's answer to a request.
    async fn ticket(
        &self,
        control: &mut ControlChannel,
        request: RequestId,
    ) -> Result<Ticket, Failure> {
        let deadline = Instant::now() + HANDSHAKE_WITHIN;
        loop {
            let message = tokio::time::timeout_at(deadline, control.receive())
                .await
                .map_err(|_| Failure::Control(anyhow::anyhow!("the helper does not answer")))?
                .map_err(control_failed)?;
            match message {
                Some(Message::Relay { request: r, ticket }) if r == request => return Ok(ticket),
                Some(Message::Refused {
                    request: r, reason, ..
                }) if r == request => {
                    return Err(Failure::Relay(anyhow::anyhow!("the helper says: {reason}")));
                }
                None | Some(Message::Bye { .. }) => {
                    return Err(Failure::Control(anyhow::anyhow!("the helper leaves")));
                }
                Some(message) => self
                    .hear(control, message, None)
                    .await
                    .map_err(Failure::Control)?,
            }
        }
    }

    /// A connection to the proxy, through the helper.
    async fn join(&self, ticket: Ticket, express: bool) -> anyhow::Result<TlsStream> {
        let mut tcp = self.connect(express).await?;
        tcp.write_all(&relay_preamble(&ticket)).await?;
        let deadline = Instant::now() + HANDSHAKE_WITHIN;
        let primary = self.primary;
        TlsStream::connect(tcp, &primary.identity, primary.config.proxy.id, deadline)
            .await
            .context("through the helper")
    }

    /// Hears reports until the relay or the control connection is gone. Returns whether the relay
    /// lasted.
    async fn attend(&self, control: &mut ControlChannel, mut relay: Relay) -> anyhow::Result<bool> {
        let mut express = Express::none();
        let mut over = self.attend_both(control, &mut relay, &mut express).await;
        express.close(&relay.driver);
        // The relay may outlive its control connection; only reports are missing.
        if let Ok(Over::Control(why)) = over {
            over = self.without_control(relay, &why).await.map(Over::Relay);
        }
        match over? {
            Over::Relay(lasted) => Ok(lasted),
            Over::Control(why) => bail!("control connection lost: {why}"),
        }
    }

    /// Hears reports, and opens an express where they show that one is worth it, until the relay or
    /// the control connection is gone.
    async fn attend_both<'a>(
        &'a self,
        control: &mut ControlChannel,
        relay: &mut Relay,
        express: &mut Express<'a>,
    ) -> anyhow::Result<Over> {
        loop {
            tokio::select! {
                // Fails when the subflow is dropped: that is the message.
                _ = &mut relay.gone => return Ok(Over::Relay(relay.since.elapsed() > STEADY)),
                change = express.changed() => express.take(&relay.driver, change, self.setup()),
                message = control.receive() => match message {
                    Ok(Some(Message::Bye { reason })) => {
                        info!(helper = self.config.name, reason, "helper leaves");
                        relay.driver.drop_subflow(relay.subflow);
                        return Err(anyhow::anyhow!("the helper leaves: {reason}"));
                    }
                    Ok(Some(message)) => {
                        self.hear_of_express(control, &message, relay, express).await?;
                        self.hear(control, message, Some(relay)).await?;
                    }
                    Ok(None) => return Ok(Over::Control("closed by the helper".to_owned())),
                    Err(e) => return Ok(Over::Control(e.to_string())),
                },
            }
        }
    }

    /// Takes from a message what concerns an express beside this relay.
    async fn hear_of_express<'a>(
        &'a self,
        control: &mut ControlChannel,
        message: &Message,
        relay: &Relay,
        express: &mut Express<'a>,
    ) -> anyhow::Result<()> {
        express.hear(&relay.driver, message);
        if let Some(ticket) = express.ticket(message) {
            express.joining(Box::pin(self.join(ticket, true)));
        }
        if let Message::Report(report) = message
            && report.relay == relay.request
            && !self.config.backup
            && express.is_wanted(&relay.driver, report)
        {
            let request = self.next_request();
            control.send(&self.init_join(request, true)).await?;
            express.asked(request);
        }
        Ok(())
    }

    /// The control connection is gone and its relay works on.
    async fn without_control(&self, relay: Relay, why: &str) -> anyhow::Result<bool> {
        info!(
            helper = self.config.name,
            error = why,
            "control connection lost"
        );
        tokio::select! {
            _ = relay.gone => {}
            // A helper that restarts has lost its relays too, which shows at once; one whose
            // control connection alone broke gets a new one when this relay is idle.
            () = idle(&relay.driver, relay.subflow) => relay.driver.drop_subflow(relay.subflow),
        }
        bail!("control connection lost: {why}")
    }

    async fn hear(
        &self,
        control: &mut ControlChannel,
        message: Message,
        relay: Option<&mut Relay>,
    ) -> anyhow::Result<()> {
        match message {
            Message::Report(report) => {
                if let Some(relay) = relay {
                    relay.take(&report);
                }
            }
            Message::Ping { token } => control.queue(&Message::Pong { token })?,
            Message::HelperState(state) => {
                debug!(helper = self.config.name, ?state, "helper's state");
            }
            other => debug!(helper = self.config.name, ?other, "message passed over"),
        }
        control.flush().await?;
        Ok(())
    }
}

impl Relay {
    fn take(&mut self, r: &RelayReport) {
        if r.relay != self.request || r.number <= self.report {
            return;
        }
        self.report = r.number;
        take_report(&self.driver, self.subflow, r);
    }
}

/// What the helper says of a subflow's hops.
pub(super) fn take_report(driver: &Driver, subflow: SubflowId, r: &RelayReport) {
    let age = r.age.unwrap_or_default();
    let pipe = FarReport {
        throughput: r.th_p.unwrap_or_default(),
        rtt: r.pipe_rtt.unwrap_or_default(),
        level_bytes: r.level_down_bytes,
        age,
        sojourn: r.sojourn_down,
    };
    let hs = FarReport {
        throughput: r.th_hs.unwrap_or_default(),
        rtt: r.hs_rtt.unwrap_or_default(),
        level_bytes: r.level_up_bytes,
        age,
        sojourn: r.sojourn_up,
    };
    let downlink = r.since_hs_down.map(|d| d + age);
    driver.helper_report(subflow, pipe, hs, downlink);
}

/// What has ended that was attended to.
enum Over {
    /// The relay; whether it had lasted.
    Relay(bool),
    /// The control connection, and why.
    Control(String),
}

/// Returns once nothing has moved on a subflow for a while.
async fn idle(driver: &Driver, subflow: SubflowId) {
    const QUIET: Duration = Duration::from_secs(2);
    loop {
        sleep(QUIET).await;
        if driver.subflow_idle(subflow).is_none_or(|d| d > QUIET) {
            return;
        }
    }
}

/// What ended an attempt.
enum Failure {
    /// This relay; the helper is well.
    Relay(anyhow::Error),
    /// The control connection.
    Control(anyhow::Error),
}

fn control_failed(e: impl Into<anyhow::Error>) -> Failure {
    Failure::Control(e.into())
}
