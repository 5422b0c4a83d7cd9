//! Speed test: the throughput of each path to the proxy, and of each pipe, one after the other
//! (ADR 0018).
//!
//! A path is measured by a session of its own with a single subflow: its stream ends in the proxy
//! ([`service`]), which sends or discards octets. A pipe is measured by a connection that ends in
//! the helper. The primary that may run beside it is not involved.

mod caps;
mod endless;
mod links;
mod pipe;
mod rate;
mod segments;
mod service;
mod session;

use mpbond_manager::LinkId;
use mpbond_net::Identity;
use mpbond_net::control::Direction;
use mpbond_units::BitRate;

use crate::config::{HelperRef, PathConfig, PrimaryConfig};

use caps::Allowance;
pub use caps::{Left, TooLittle, left};
pub use links::Links;
pub(crate) use pipe::Pipe;
pub use rate::{Rates, Span};
pub(crate) use service::{SpeedTests, asked, destination, measured_pipe, reset_on_close};
pub(crate) use session::Single;

/// Measures the links of a primary. Runs on this thread's `LocalSet`.
#[derive(Debug)]
pub struct SpeedTest<'a> {
    links: Links<'a>,
    span: Span,
}

impl<'a> SpeedTest<'a> {
    /// A test that measures for this time in each direction.
    pub fn new(config: &'a PrimaryConfig, identity: &'a Identity, span: Span) -> Self {
        Self {
            links: Links::new(config, identity),
            span,
        }
    }

    /// Measures an own path, within what its cap leaves.
    ///
    /// # Errors
    /// The proxy cannot be reached over it, or refuses; or nothing passes; or its cap is used up.
    pub async fn path(
        &self,
        link: LinkId,
        path: &PathConfig,
        left: Option<&Left>,
    ) -> anyhow::Result<Rates> {
        let allowance = Allowance::of(left)?;
        segments::that_pass(&self.links, async |links| {
            self.session(links.over(link, path).await?, &allowance)
                .await
        })
        .await
    }

    /// Measures the way to the proxy through a helper, from end to end, within what its cap leaves.
    ///
    /// # Errors
    /// The helper or the proxy cannot be reached, or refuses; or nothing passes; or its cap is used
    /// up.
    pub async fn through(
        &self,
        link: LinkId,
        helper: &HelperRef,
        left: Option<&Left>,
    ) -> anyhow::Result<Rates> {
        let allowance = Allowance::of(left)?;
        segments::that_pass(&self.links, async |links| {
            let mut pipe = Pipe::open(links, helper).await?;
            let session = pipe.session(link, helper).await?;
            tokio::select! {
                rates = self.session(session, &allowance) => rates,
                end = pipe.attend() => Err(end),
            }
        })
        .await
    }

    /// Measures the pipe to a helper.
    ///
    /// # Errors
    /// The helper cannot be reached, or refuses; or nothing passes.
    pub async fn pipe(&self, helper: &HelperRef) -> anyhow::Result<Rates> {
        segments::that_pass(&self.links, async |links| {
            let mut pipe = Pipe::open(links, helper).await?;
            self.both(async |direction| pipe.rate(self.span, helper, direction).await)
                .await
        })
        .await
    }

    /// Measures a session's only subflow.
    async fn session(&self, mut session: Single, allowance: &Allowance) -> anyhow::Result<Rates> {
        self.both(async |direction| {
            let directions = match direction {
                Direction::Down => 2,
                Direction::Up => 1,
            };
            session
                .rate(direction, self.span, (allowance, directions))
                .await
        })
        .await
    }

    /// Measures one direction after the other.
    async fn both(
        &self,
        mut measure: impl AsyncFnMut(Direction) -> anyhow::Result<BitRate>,
    ) -> anyhow::Result<Rates> {
        let down = measure(Direction::Down).await?;
        let up = match measure(Direction::Up).await {
            Err(e) if e.is::<TooLittle>() => None,
            up => Some(up?),
        };
        Ok(Rates {
            down,
            up,
            max_segment_bytes: None,
        })
    }
}
