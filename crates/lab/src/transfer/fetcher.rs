//! The client of a transfer, prepared before the clock starts.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use mpbond_sim::world::StreamClass;

use crate::baselines::combine::Crew;
use crate::baselines::kibbutz::{Counts, Kibbutz, one_path_only};
use crate::error::{Doing, Error, Result};
use crate::experiment::{
    Application, Carrier, Client, Connection, Direction, Experiment, Role, Scheme, Workload,
};
use crate::figures::quantity::Quantity;
use crate::network::wiring::Network;
use crate::transfer::app;
use crate::transfer::client::{self, Dial, Outcome, Progress, Way, curl, path_of};
use crate::transfer::content::Content;
use crate::transfer::ideal::ideal_time;
use crate::transfer::origin::Received;

/// Time limit of connecting and warming up, on the slowest links.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Description of a transfer.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub experiment: &'a Experiment,
    pub scheme: &'a Scheme,
    pub workload: &'a Workload,
    /// Seed of the repetition, for what applications draw.
    pub seed: u64,
    pub network: &'a Network,
    pub content: &'a Content,
    pub received: &'a Received,
    /// Path for the file that curl uploads.
    pub upload: &'a Path,
    /// Address of the origin.
    pub destination: SocketAddr,
}

/// A client, already connected where the scheme keeps connections.
pub(crate) enum Fetcher {
    Curl(Way),
    Own(client::Client),
    Kibbutz {
        client: client::Client,
        kibbutz: Kibbutz,
        /// Counters before the client connected.
        before: Counts,
    },
    Crew(Crew),
    /// An application, which opens its own connections.
    Application {
        dial: Dial,
        kibbutz: Option<(Kibbutz, Counts)>,
        /// Connections of the second user, in dual mode.
        second: Option<Dial>,
    },
}

impl Fetcher {
    /// Prepares the client of `job`; `way` leads into the daemons, where there are any.
    ///
    /// # Errors
    /// When a connection to be kept cannot be opened.
    pub fn ready(job: Job, way: Option<&Way>) -> Result<Self> {
        let Job {
            experiment: e,
            scheme,
            workload,
            network,
            ..
        } = job;
        let path = scheme.direct_links(e).next();
        let plain = || Way::Plain(path.map(|link| link.name.get_ref().clone()));
        let way = way.cloned().unwrap_or_else(plain);
        if e.client == Client::Curl {
            if workload.direction == Direction::Up {
                write_content(job)?;
            }
            return Ok(Self::Curl(way));
        }
        let destination = v4(job.destination)?;
        let kept = scheme.connection == Connection::Kept;
        if scheme.scheme == Carrier::Combine {
            let mut crew = Crew::form(e, network, scheme, destination, READY_LIMIT)?;
            if kept {
                crew.warm_up(READY_LIMIT)?;
            }
            return Ok(Self::Crew(crew));
        }
        let host = network.host_in(Role::Primary)?.clone();
        let class = class(job);
        if workload.application().is_some() {
            let kibbutz = match scheme.scheme {
                Carrier::Kibbutz => Some(Kibbutz::set_up(e, network, scheme)?),
                _ => None,
            };
            let second = scheme.dual.then(|| second_user(job, &way)).transpose()?;
            let way = kibbutz.as_ref().map_or(way, Kibbutz::way);
            let before = kibbutz.as_ref().map(Kibbutz::counts).transpose()?;
            return Ok(Self::Application {
                dial: Dial {
                    host,
                    way,
                    destination,
                    class,
                },
                kibbutz: kibbutz.zip(before),
                second,
            });
        }
        let client = |way| -> Result<client::Client> {
            let mut client = client::Client::new(Dial {
                host,
                way,
                destination,
                class,
            });
            if kept {
                client.warm_up(workload.direction, job.content, READY_LIMIT)?;
            }
            Ok(client)
        };
        if scheme.scheme == Carrier::Kibbutz {
            let kibbutz = Kibbutz::set_up(e, network, scheme)?;
            let before = kibbutz.counts()?;
            let client = client(kibbutz.way())?;
            return Ok(Self::Kibbutz {
                client,
                kibbutz,
                before,
            });
        }
        Ok(Self::Own(client(way)?))
    }

    /// Carries the transfer of `job` within `limit`.
    ///
    /// # Errors
    /// When it fails or takes longer.
    pub fn carry(self, job: Job, limit: Duration, progress: Progress) -> Result<Outcome> {
        let (direction, bytes) = (job.workload.direction, job.workload.bytes.0);
        match self {
            Self::Curl(way) => by_curl(job, &way, limit, progress),
            Self::Own(client) => by_client(client, job, limit, progress),
            Self::Kibbutz {
                client,
                kibbutz,
                before,
            } => {
                let start = kibbutz.counts()?;
                let mut outcome = by_client(client, job, limit, progress)?;
                let end = kibbutz.counts()?;
                if !job.scheme.one_path_counts {
                    let why = one_path_only(direction, bytes, true, before, start, end);
                    outcome.unfit_because = why;
                }
                outcome.shares = kibbutz.shares(direction, &outcome.used);
                Ok(outcome)
            }
            Self::Crew(crew) => crew.download(bytes, limit, progress),
            Self::Application {
                dial,
                kibbutz,
                second,
            } => {
                let app = job.workload.application();
                let app = app.ok_or_else(|| Error::run("the workload is not an application"))?;
                let setting = app::Setting {
                    dial: &dial,
                    content: job.content,
                    seed: job.seed,
                    user: 0,
                    limit,
                };
                let mut outcome = match &second {
                    None => app::run(app, &setting, progress)?,
                    Some(dial) => two_users(app, &setting, dial, progress)?,
                };
                if let Some((kibbutz, before)) = kibbutz {
                    let end = kibbutz.counts()?;
                    let needed = needs_both(job, &outcome)?;
                    outcome.unfit_because =
                        one_path_only(direction, outcome.bytes, needed, before, before, end);
                    outcome.shares = kibbutz.shares(direction, &outcome.used);
                }
                Ok(outcome)
            }
        }
    }
}

/// Opens and closes a connection to the destination of `job`, for each user of the daemons. The
/// proxy has then reached it, and the transfer that follows does not wait for the confirmation of
/// the first connection to a destination (ADR 0017).
///
/// # Errors
/// When the destination cannot be reached.
pub(crate) fn reach(job: Job, way: &Way) -> Result<()> {
    if !matches!(way, Way::Socks5(_) | Way::Http(_)) {
        return Ok(());
    }
    let first = Dial {
        host: job.network.host_in(Role::Primary)?.clone(),
        way: way.clone(),
        destination: v4(job.destination)?,
        class: None,
    };
    let second = job.scheme.dual.then(|| second_user(job, way)).transpose()?;
    for user in [Some(first), second].into_iter().flatten() {
        user.connect(READY_LIMIT)?;
    }
    Ok(())
}

/// Class of the connections; `None` where the scheme has no classes.
fn class(job: Job) -> Option<StreamClass> {
    (job.scheme.scheme == Carrier::Mpbond).then_some(job.workload.class)
}

/// Connections of the user of the first helper's device, whose daemon has the same addresses as the
/// primary's, on another host.
fn second_user(job: Job, way: &Way) -> Result<Dial> {
    let Job { experiment: e, .. } = job;
    let missing = || Error::run("dual mode needs a helper with a link of its own");
    let helper = job.scheme.devices_beside(e).next().ok_or_else(missing)?;
    let way = match way {
        Way::Plain(Some(_)) => {
            let link = e.uplink_of(helper).ok_or_else(missing)?;
            Way::Plain(Some(link.name.get_ref().clone()))
        }
        way => way.clone(),
    };
    Ok(Dial {
        host: job.network.host(helper)?.clone(),
        way,
        destination: v4(job.destination)?,
        class: class(job),
    })
}

/// Runs an application for both users at the same time, with pauses of their own. The outcome is
/// the first user's, with the quantities of the second.
fn two_users(
    app: Application,
    first: &app::Setting,
    second: &Dial,
    progress: Progress,
) -> Result<Outcome> {
    let second = app::Setting {
        dial: second,
        user: 1,
        ..*first
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| app::run(app, &second, &mut |_| {}));
        let outcome = app::run(app, first, progress);
        let other = other.join();
        let other = other.map_err(|_| Error::run("the second user's client panicked"))??;
        let mut outcome = outcome?;
        outcome.intact = Some(outcome.intact == Some(true) && other.intact == Some(true));
        for (quantity, of_second) in [
            (Quantity::ChunkS, Quantity::SecondChunkS),
            (Quantity::ChunkP95S, Quantity::SecondChunkP95S),
        ] {
            let noticed = other.noticed.get(&quantity);
            outcome.noticed.extend(noticed.map(|x| (of_second, *x)));
        }
        Ok(outcome)
    })
}

/// Whether the first path alone would have been busy for more than half of the time. An application
/// with fewer bytes may not need the second path.
fn needs_both(job: Job, outcome: &Outcome) -> Result<bool> {
    let alone = Scheme {
        scheme: Carrier::Single,
        devices: 1,
        ..job.scheme.clone()
    };
    let busy = ideal_time(job.experiment, &alone, job.workload, outcome.bytes)?;
    Ok(busy.as_secs_f64() * 2.0 > outcome.seconds)
}

fn by_client(
    client: client::Client,
    job: Job,
    limit: Duration,
    progress: Progress,
) -> Result<Outcome> {
    let bytes = job.workload.bytes.0;
    match job.workload.direction {
        Direction::Down => client.download(bytes, limit, progress),
        Direction::Up => client.upload(bytes, job.content, limit, job.received, progress),
    }
}

fn by_curl(job: Job, way: &Way, limit: Duration, progress: Progress) -> Result<Outcome> {
    let primary = job.network.host_in(Role::Primary)?;
    let at_origin = |path: &str| format!("http://{}{path}", job.destination);
    match job.workload.direction {
        Direction::Down => {
            let url = at_origin(&path_of(job.workload.bytes.0));
            curl::download(primary, &url, way, limit, progress)
        }
        Direction::Up => {
            let url = at_origin("/upload");
            curl::upload(
                primary,
                &url,
                way,
                job.upload,
                limit,
                job.received,
                progress,
            )
        }
    }
}

/// Writes the file that curl uploads.
fn write_content(job: Job) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut out = File::create(job.upload)?;
        for piece in job.content.pieces(job.workload.bytes.0) {
            out.write_all(&piece)?;
        }
        Ok(())
    };
    write().at("write", job.upload)
}

fn v4(address: SocketAddr) -> Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => Err(Error::run("the lab's hosts have no IPv6 addresses")),
    }
}
