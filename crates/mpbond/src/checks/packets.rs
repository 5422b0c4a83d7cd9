//! Whether large packets pass: some kilobytes over TCP, in each direction of a path or pipe.
//!
//! Where they are dropped without a message, small packets still pass: a connection is set up, and
//! then hangs (RFC 2923, section 2.1).

use std::time::Duration;

use anyhow::Context as _;
use mpbond_manager::LinkId;
use mpbond_net::control::{Direction, RELAY_PREAMBLE_BYTES};
use mpbond_net::tcp::TcpInfo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::config::{HelperRef, PathConfig};
use crate::speed::{Links, Pipe, Single, destination, reset_on_close};

/// Octets in one direction: more than two packets of the largest usual size.
const OCTETS: usize = 4_000;

/// Time limit of one direction: TCP has sent everything again three times by then (RFC 6298,
/// section 2).
const PASS_WITHIN: Duration = Duration::from_secs(6);

/// Interval at which acknowledgements of TCP are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Result of one direction.
#[derive(Debug)]
pub enum Passed {
    /// They have arrived within this time.
    In(Duration),
    /// They have not arrived, though a connection was there: large packets are dropped.
    Not,
    /// There was no connection, for this reason.
    NotChecked(anyhow::Error),
}

/// Result of both directions.
#[derive(Debug)]
pub struct Passes {
    /// Away from the primary.
    pub up: Passed,
    /// Towards it.
    pub down: Passed,
}

/// Checks an own path.
pub async fn path(links: &Links<'_>, link: LinkId, path: &PathConfig) -> Passes {
    both(async |direction| {
        let mut session = links.over(link, path).await?;
        over_session(&mut session, direction).await
    })
    .await
}

/// Checks the way through a helper, from end to end.
pub async fn through(links: &Links<'_>, link: LinkId, helper: &HelperRef) -> Passes {
    both(async |direction| {
        let mut pipe = Pipe::open(links, helper).await?;
        let mut session = pipe.session(link, helper).await?;
        tokio::select! {
            passed = over_session(&mut session, direction) => passed,
            end = pipe.attend() => Err(end),
        }
    })
    .await
}

/// Checks the pipe to a helper.
pub async fn pipe(links: &Links<'_>, helper: &HelperRef) -> Passes {
    both(async |direction| {
        let mut pipe = Pipe::open(links, helper).await?;
        let tcp = pipe.measured(helper, direction).await?;
        tokio::select! {
            passed = over_pipe(tcp, direction) => passed,
            end = pipe.attend() => Err(end),
        }
    })
    .await
}

/// Checks both directions, each with a connection of its own: one in which large packets are lost
/// carries nothing more.
async fn both(check: impl AsyncFn(Direction) -> anyhow::Result<Passed>) -> Passes {
    let checked = async |direction| {
        let passed = check(direction).await;
        passed.unwrap_or_else(Passed::NotChecked)
    };
    Passes {
        up: checked(Direction::Up).await,
        down: checked(Direction::Down).await,
    }
}

async fn over_session(session: &mut Single, direction: Direction) -> anyhow::Result<Passed> {
    let mut stream = session.stream(destination(direction), OCTETS)?;
    let mut octets = [0; OCTETS];
    let moved = async {
        match direction {
            Direction::Up => {
                stream.write_all(&octets).await?;
                stream.shutdown().await?;
                // The other end closes when it has read the end.
                stream.read(&mut [0]).await.map(drop)
            }
            Direction::Down => stream.read_exact(&mut octets).await.map(drop),
        }
    };
    tokio::select! {
        // The reason of a stream that is refused.
        biased;
        e = session.lost() => Err(e),
        passed = limited(moved) => passed.context("the stream ends"),
    }
}

async fn over_pipe(mut tcp: TcpStream, direction: Direction) -> anyhow::Result<Passed> {
    let mut octets = [0; OCTETS];
    let moved = async {
        match direction {
            Direction::Up => {
                tcp.write_all(&octets).await?;
                let all = (OCTETS + RELAY_PREAMBLE_BYTES) as u64;
                while TcpInfo::read(&tcp)?.bytes_acked.is_none_or(|n| n < all) {
                    sleep(LOOK_EVERY).await;
                }
                Ok(())
            }
            Direction::Down => tcp.read_exact(&mut octets).await.map(drop),
        }
    };
    let passed = limited(moved).await;
    reset_on_close(&tcp);
    passed.context("the connection to the helper ends")
}

async fn limited(moved: impl Future<Output = std::io::Result<()>>) -> std::io::Result<Passed> {
    let begun = Instant::now();
    match timeout(PASS_WITHIN, moved).await {
        Ok(Ok(())) => Ok(Passed::In(begun.elapsed())),
        Ok(Err(e)) => Err(e),
        Err(_) => Ok(Passed::Not),
    }
}
