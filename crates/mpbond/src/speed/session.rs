//! A session with a single subflow, which is measured or checked.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use mpbond_net::DeviceId;
use mpbond_net::control::Direction;
use mpbond_net::tls::TlsStream;
use mpbond_session::{
    Destination, HelperId, ResetCode, Session, SessionConfig, StreamClass, SubflowSetup,
};
use mpbond_units::BitRate;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::caps::Allowance;
use super::endless::Endless;
use super::rate::{Span, moves, rate};
use super::service::destination;
use crate::driver::{Clock, Driver, FairQueue, Notice, Seat, TransferLog};
use crate::memory::Memory;
use crate::random;

/// Time limit of each step before a measurement.
pub(super) const STEP_WITHIN: Duration = Duration::from_secs(10);

/// Time within which what is on its way arrives once a test is over, and the interval at which that
/// is looked for. A longer queue delays the next test.
const DRAINED_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A session that is established. It is closed when dropped.
pub(crate) struct Single {
    driver: Driver,
    notices: mpsc::UnboundedReceiver<Notice>,
}

impl Single {
    pub(super) async fn open(
        tls: TlsStream,
        proxy: DeviceId,
        name: &str,
        helper: bool,
    ) -> anyhow::Result<Self> {
        let session = Session::client(SessionConfig::default(), random::bytes()?);
        let seat = Seat::take(&FairQueue::start(), &Memory::unbounded())
            .map_err(|_| anyhow!("no memory is left"))?;
        let (clock, log) = (Clock::start(), TransferLog::default());
        let (driver, notices) = Driver::start(session, proxy, clock, log, seat);
        let mut opened = Self { driver, notices };
        let setup = SubflowSetup {
            name: name.to_owned(),
            helper: helper.then_some(HelperId(0)),
            ..SubflowSetup::default()
        };
        opened.driver.add_subflow(tls, setup);
        let established = async {
            loop {
                match opened.notices.recv().await {
                    Some(Notice::Established(_)) => return Ok::<_, anyhow::Error>(()),
                    notice => ends(notice)?,
                }
            }
        };
        match timeout(STEP_WITHIN, established).await {
            Ok(Ok(())) => Ok(opened),
            Ok(Err(e)) => Err(e),
            Err(_) => bail!("the proxy does not answer"),
        }
    }

    /// Measures one direction, with its part of what may be moved in so many that are still to be
    /// measured.
    pub(super) async fn rate(
        &mut self,
        direction: Direction,
        span: Span,
        (allowance, directions): (&Allowance, u64),
    ) -> anyhow::Result<BitRate> {
        let stopped = Rc::new(Cell::new(false));
        let until = Instant::now() + span.warm_up + span.measured + STEP_WITHIN;
        let end = Endless::new(direction == Direction::Up, until, Rc::clone(&stopped));
        let to = destination(direction);
        self.driver.open(to, StreamClass::Bulk, Bytes::new(), end)?;
        let driver = self.driver.clone();
        // Ciphertext that has arrived at its end: what the link has carried.
        let arrived = || {
            driver.inspect(|session, clock, _| {
                let subflows = session.subflows(clock.now());
                subflows.iter().map(|s| s.octets).sum::<u64>()
            })
        };
        let before = arrived();
        let part = allowance.part(directions);
        let lost = lost(&mut self.notices);
        let measured = tokio::select! {
            rate = rate(span, &part, arrived) => rate.and_then(|rate| moves(rate, direction)),
            e = lost => Err(e),
        };
        stopped.set(true);
        let deadline = Instant::now() + DRAINED_WITHIN;
        while measured.is_ok() && !self.driver.is_drained() && Instant::now() < deadline {
            sleep(LOOK_EVERY).await;
        }
        allowance.spend(arrived().saturating_sub(before));
        measured
    }
}

impl Single {
    /// A stream over the session, and its end here, which fails with the session.
    pub(crate) fn stream(&self, to: Destination, room: usize) -> anyhow::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(room);
        self.driver
            .open(to, StreamClass::Interactive, Bytes::new(), theirs)?;
        Ok(ours)
    }

    /// Whether the proxy answers look-ups of names.
    pub(crate) fn answers_look_ups(&self) -> bool {
        self.driver.inspect(|session, _, _| {
            let capabilities = session.peer_capabilities();
            capabilities.is_some_and(|c| c.answers_look_ups)
        })
    }

    /// The reason for which the session or a stream ends.
    pub(crate) async fn lost(&mut self) -> anyhow::Error {
        lost(&mut self.notices).await
    }
}

async fn lost(notices: &mut mpsc::UnboundedReceiver<Notice>) -> anyhow::Error {
    loop {
        if let Err(e) = ends(notices.recv().await) {
            return e;
        }
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        // The proxy would keep the session for a return.
        self.driver.stop("the test is over");
        self.driver.shut_down();
    }
}

/// Whether a notice ends the test.
fn ends(notice: Option<Notice>) -> anyhow::Result<()> {
    match notice {
        Some(Notice::Distrusted) => bail!("the proxy does not trust this device"),
        Some(Notice::Refused {
            code: ResetCode::Overloaded,
            ..
        }) => bail!("too many speed tests at the proxy"),
        Some(Notice::Refused { .. }) => {
            bail!("the proxy offers no speed test: is its version of mpbond older?")
        }
        Some(Notice::Lost(reason)) => bail!("the session is lost: {reason}"),
        Some(Notice::SubflowGone(_)) | None => bail!("the connection to the proxy is lost"),
        Some(_) => Ok(()),
    }
}
