//! The pipe to a helper: its control connection, a relay, and connections that measure it.

use std::cell::Cell;
use std::net::SocketAddr;

use anyhow::{Context as _, anyhow, bail};
use mpbond_manager::LinkId;
use mpbond_net::control::{
    ControlChannel, Direction, Message, RequestId, Ticket, VERSION, relay_preamble,
};
use mpbond_net::pipe::PipeAddress;
use mpbond_net::tcp::TcpInfo;
use mpbond_net::tls::TlsStream;
use mpbond_units::BitRate;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::caps::Allowance;
use super::links::Links;
use super::rate::{Span, moves, rate};
use super::service::{fill_or_drain, reset_on_close};
use super::session::{STEP_WITHIN, Single};
use crate::config::{HelperAddress, HelperRef};
use crate::discovery;

/// A control connection whose greeting was answered.
pub(crate) struct Pipe<'a> {
    links: &'a Links<'a>,
    control: ControlChannel,
    address: SocketAddr,
    requests: u64,
}

impl<'a> Pipe<'a> {
    pub(crate) async fn open(links: &'a Links<'a>, helper: &HelperRef) -> anyhow::Result<Self> {
        let identity = links.identity;
        let address = match &helper.address {
            HelperAddress::At(PipeAddress::Tcp(address)) => *address,
            HelperAddress::At(address) => bail!("{address}: only pipes over TCP are measured"),
            HelperAddress::Discover => discovery::find(&identity.id(), &helper.id).await?,
        };
        let tcp = Self::dial(links, helper, address).await?;
        let deadline = Instant::now() + STEP_WITHIN;
        let tls = TlsStream::connect(tcp, identity, helper.id, deadline).await;
        let mut control = ControlChannel::new(tls.context("the helper")?);
        let hello = Message::Hello {
            version: VERSION,
            name: identity.id().short(),
        };
        control.send(&hello).await?;
        let answer = timeout(STEP_WITHIN, control.receive()).await;
        match answer.context("the helper does not answer")?? {
            Some(Message::Hello { .. }) => Ok(Self {
                links,
                control,
                address,
                requests: 0,
            }),
            Some(Message::Bye { reason }) => bail!("the helper closes the connection: {reason}"),
            _ => bail!("the helper closes the connection"),
        }
    }

    async fn dial(
        links: &Links<'_>,
        helper: &HelperRef,
        address: SocketAddr,
    ) -> anyhow::Result<TcpStream> {
        links
            .connect(helper.source, helper.interface.as_ref(), &[address])
            .await
            .context("the helper")
    }

    /// A session through the helper.
    pub(crate) async fn session(
        &mut self,
        link: LinkId,
        helper: &HelperRef,
    ) -> anyhow::Result<Single> {
        let remotes = self.links.proxy(link).await?;
        let (proxy, others) = remotes.split_first().context("no address of the proxy")?;
        let (request, limit) = (self.request(), self.links.max_segment_bytes);
        let message = Message::InitMp {
            request,
            proxy: *proxy,
            others: others.to_vec(),
            max_segment_bytes: limit.and_then(|bytes| u16::try_from(bytes).ok()),
        };
        let tcp = self.redeem(helper, request, &message).await?;
        self.links.session(tcp, &helper.name, true).await
    }

    /// Measures one direction of the pipe.
    pub(super) async fn rate(
        &mut self,
        span: Span,
        helper: &HelperRef,
        direction: Direction,
    ) -> anyhow::Result<BitRate> {
        let tcp = self.measured(helper, direction).await?;
        let received = Cell::new(0);
        let total = || match direction {
            Direction::Down => received.get(),
            // Those that are in the kernel's queue have not arrived.
            Direction::Up => TcpInfo::read(&tcp)
                .ok()
                .and_then(|i| i.bytes_acked)
                .unwrap_or(0),
        };
        let count = |n: usize| received.set(received.get() + n as u64);
        let unlimited = Allowance::unlimited();
        let measured = tokio::select! {
            rate = rate(span, &unlimited, total) => {
                rate.and_then(|rate| moves(rate, direction))
            }
            e = fill_or_drain(&tcp, direction == Direction::Up, count) => {
                Err(anyhow!("the helper ends the test: {e}"))
            }
            end = self.attend() => Err(end),
        };
        reset_on_close(&tcp);
        measured
    }

    /// A connection whose other end, in the helper, sends octets or discards them.
    pub(crate) async fn measured(
        &mut self,
        helper: &HelperRef,
        direction: Direction,
    ) -> anyhow::Result<TcpStream> {
        let request = self.request();
        let message = Message::MeasurePipe { request, direction };
        self.redeem(helper, request, &message).await
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Asks for a ticket, and connects with it.
    async fn redeem(
        &mut self,
        helper: &HelperRef,
        request: RequestId,
        message: &Message,
    ) -> anyhow::Result<TcpStream> {
        self.control.send(message).await?;
        let ticket = timeout(STEP_WITHIN, self.ticket(request)).await;
        let ticket =
            ticket.context("the helper does not answer: is its version of mpbond older?")??;
        let mut tcp = Self::dial(self.links, helper, self.address).await?;
        tcp.write_all(&relay_preamble(&ticket)).await?;
        Ok(tcp)
    }

    async fn ticket(&mut self, asked: RequestId) -> anyhow::Result<Ticket> {
        loop {
            match self.control.receive().await? {
                Some(Message::Relay { request, ticket }) if request == asked => return Ok(ticket),
                message => self.ends(message)?,
            }
        }
    }

    /// Reads the helper's messages until one ends the test.
    pub(crate) async fn attend(&mut self) -> anyhow::Error {
        loop {
            let message = self.control.receive().await;
            if let Err(e) = message.map_err(Into::into).and_then(|m| self.ends(m)) {
                return e;
            }
        }
    }

    fn ends(&mut self, message: Option<Message>) -> anyhow::Result<()> {
        match message {
            Some(Message::Refused { reason, .. }) => bail!("the helper refuses: {reason}"),
            Some(Message::Bye { reason }) => bail!("the helper leaves: {reason}"),
            Some(Message::Ping { token }) => Ok(self.control.queue(&Message::Pong { token })?),
            Some(_) => Ok(()),
            None => bail!("the helper closes the connection"),
        }
    }
}
