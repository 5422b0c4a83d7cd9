//! Scenarios: links, routes, applications and faults of a world.

use std::ops::Range;
use std::time::Duration;

use mpbond_manager::{WORTH_OPENING, WithoutProxy};
use mpbond_price::PipeRadios;
use mpbond_session::{
    FarReport, HelperId, LeastBurst, Mechanism, SchedulerKind, SessionConfig, StreamClass,
};
use mpbond_units::BitRate;

use super::bluetooth::Bluetooth;
use super::nat::{Nat, Portal};
use super::rounds::Rounds;
use super::visit::Visit;
use super::when::When;
use crate::ideal::Direction;
use crate::link::{LinkChange, LinkConfig, Rate, Shared};
use crate::wear::Walk;

/// Hosts, links, applications and faults of a world.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Configuration of the primary's session.
    pub client: SessionConfig,
    /// Configuration of the proxy's session.
    pub server: SessionConfig,
    /// Links. Routes refer to them by index.
    pub links: Vec<TwoWay>,
    /// Routes between primary and proxy. The primary keeps a subflow on each.
    pub routes: Vec<Route>,
    /// Maximum number of bytes that a helper holds for a subflow in each direction.
    pub relay_bound_bytes: u64,
    /// Queueing delay at a helper from which an express is opened; `None` opens none.
    pub express_at: Option<Duration>,
    /// Handling of new connections while no path to the proxy works. The way past the proxy is not
    /// simulated: an exchange that goes direct is over, and [`super::Outcome::went_direct`] holds
    /// when it did. Where connections are refused, exchanges wait in the session instead.
    pub without_proxy: WithoutProxy,
    /// User connections, one stream each.
    pub exchanges: Vec<Exchange>,
    /// Pages and videos, whose exchanges follow those above. Worlds that last have none.
    pub visits: Vec<Visit>,
    /// Faults and changes.
    pub faults: Vec<Fault>,
    /// Time after which a world that is not done has failed.
    pub limit: Duration,
    /// Time without a new byte, while a route works, after which the world has failed.
    pub stall_limit: Duration,
    /// Seed of the losses and the jitter of links.
    pub seed: u64,
    /// Simulated time after the end of all exchanges.
    pub linger: Duration,
    /// Whether packets on links and arrivals at readers are kept for the results.
    pub keeps_log: bool,
    /// Additions of a world that lasts for hours.
    pub lasting: Option<Lasting>,
    /// Whether the lower bound of each exchange is computed. Over recorded links that takes longer
    /// than the simulation.
    pub has_bounds: bool,
}

/// Additions of a world that lasts for hours, with any number of sessions: a lost one is followed
/// by a new one, in which the exchanges that were open are repeated from the beginning.
#[derive(Debug, Clone, Default)]
pub struct Lasting {
    /// Keep-alive of the kernel for the daemons' connections, expresses excepted.
    pub keepalive: Option<Duration>,
    /// NAT of each link, by index.
    pub nats: Vec<Option<Nat>>,
    /// Pause of an application before it repeats an exchange.
    pub repeat_after: Duration,
}

/// Both directions of a link.
#[derive(Debug, Clone)]
pub struct TwoWay {
    /// Name, for people.
    pub name: String,
    /// Away from the primary.
    pub up: LinkConfig,
    /// Towards the primary.
    pub down: LinkConfig,
    /// Medium and radios shared with other links or between its directions.
    pub shared: Shared,
    /// It is one of Bluetooth, from the primary to a helper: connections over it alone are byte
    /// streams. Of `up` and `down` it only counts whether they carry anything then; a change of
    /// `down` is one of both directions.
    pub bluetooth: Option<Bluetooth>,
}

impl TwoWay {
    /// A link with two equal directions.
    pub fn symmetric(name: &str, link: LinkConfig) -> Self {
        Self {
            name: name.to_owned(),
            up: link.clone(),
            down: link,
            shared: Shared::default(),
            bluetooth: None,
        }
    }
}

/// A route between primary and proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Name, for people.
    pub name: String,
    /// The helper, if it runs through one.
    pub helper: Option<HelperId>,
    /// Indices in [`Scenario::links`]: the PS-Path alone, or pipe and HS-Path. With two links and
    /// no helper, the device between them forwards packets.
    pub links: Vec<usize>,
    /// When the primary's interface comes up, and the primary first connects.
    pub joins_at: Duration,
    /// Its subflow is used only when no regular one is left.
    pub backup: bool,
    /// Step of its subflow's cost: of those that have room, the cheapest carry data.
    pub cost: u8,
    /// Its place, the cheapest one first, among pipes to one helper of which the best one is used;
    /// `None`: it is used whatever the others do.
    pub place: Option<usize>,
    /// Radios of such a pipe, by whose energy it is chosen.
    pub radios: Option<PipeRadios>,
    /// Longest time for which its pipe says nothing though it works.
    pub pause: Duration,
    /// A walk away from the helper, by which the primary sees the signal of a Bluetooth pipe while
    /// something moves there. What the link carries is that of its configuration and its faults.
    pub walk: Option<Walk>,
    /// Threshold of the signal of its first link, in dBm: while the signals of all routes that have
    /// one are weaker, routes that are backups carry data beside them.
    pub weak_below_dbm: Option<i16>,
    /// Bursts of the primary, and of the proxy, for which the helper's radio is woken; without it,
    /// all.
    pub least_bursts: Option<[LeastBurst; 2]>,
    /// Reports of the helper on both hops, instead of the truth.
    pub false_reports: Option<FarReport>,
}

/// A user connection between a client at the primary and an origin behind the proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// When the client opens it.
    pub start: When,
    /// Bytes that the client sends.
    pub up_bytes: u64,
    /// Bytes that the origin sends.
    pub down_bytes: u64,
    /// Whether the origin begins to send before it has received everything from the client.
    pub at_once: bool,
    /// Whether messages are delimited by their length, as in HTTP/1.1, and not by the end of the
    /// stream. The client then ends its half when it has received everything, the origin after it.
    pub by_length: bool,
    /// Requests and answers of these sizes over one stream, delimited by their length. Not for
    /// plain TCP, nor for worlds that last.
    pub rounds: Option<Rounds>,
    /// Plain TCP only: number of its connection. Exchanges with equal numbers use the same one, one
    /// after the other; `None`: one of its own. A session opens a new stream for each exchange.
    pub connection: Option<u32>,
    /// Exchanges beside which it does not run: if one of them runs when it is due, it is left out.
    pub never_beside: Range<usize>,
    /// Class of its stream.
    pub class: StreamClass,
    /// Offsets at which chunks of the origin's bytes end, of which the client tells the proxy. Not
    /// for plain TCP.
    pub chunk_ends: Vec<u64>,
    /// Behaviour of the client.
    pub client: Manner,
    /// Behaviour of the origin.
    pub origin: Manner,
}

/// Behaviour of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manner {
    /// A pause in its reading.
    pub pause: Option<Pause>,
    /// Time from the moment at which it may write until it has something to write.
    pub thinks: Duration,
    /// Rate of its writing; `None`: as fast as the session takes it.
    pub pace: Option<Pace>,
    /// End of its half of the exchange.
    pub ending: Ending,
}

/// A pause of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Bytes read before the pause.
    pub after_bytes: u64,
    /// Length; `None`: it never reads again.
    pub length: Option<Duration>,
}

/// Constant rate of an application's writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes of each piece.
    pub bytes: u64,
    /// Interval of the pieces.
    pub every: Duration,
}

impl Pace {
    /// Bytes that are due this long after the first piece.
    pub(super) fn due_bytes(self, elapsed: Duration) -> u64 {
        let pieces = elapsed.as_nanos() / self.every.as_nanos().max(1) + 1;
        let pieces = u64::try_from(pieces).unwrap_or(u64::MAX);
        pieces.saturating_mul(self.bytes)
    }

    /// Time from the first piece to the one that follows so many bytes.
    pub(super) fn due_after(self, bytes: u64) -> Duration {
        let pieces = bytes / self.bytes.max(1);
        self.every * u32::try_from(pieces).unwrap_or(u32::MAX)
    }
}

/// End of an application's half of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It writes everything, and reads everything.
    #[default]
    Finish,
    /// It resets its stream after this many written bytes.
    ResetAfter(u64),
    /// It stops reading for good after this many bytes.
    StopAfter(u64),
    /// It stops reading for good this long after the start.
    StopAt(Duration),
    /// It refuses the stream: resets and stops at once.
    Refuse,
}

/// A fault or change of links or hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Time of the fault.
    pub when: When,
    /// Kind of fault.
    pub what: Happening,
}

/// Kind of fault or change.
#[allow(clippy::large_enum_variant)] // a handful of them a world
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A link changes, goes down silently, or comes back.
    Link {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Away from the primary.
        up: Option<LinkChange>,
        /// Towards the primary.
        down: Option<LinkChange>,
    },
    /// The signal of a link changes: of one of Bluetooth, which carries less then, or of another
    /// one, as the primary sees it.
    Signal {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Its strength in dBm.
        dbm: f64,
    },
    /// The devices of a link of Bluetooth lose each other: all connections over it end at once, at
    /// both ends. That it is down is another change.
    Disconnect {
        /// Index in [`Scenario::links`].
        link: usize,
    },
    /// All radios of the links return to idle.
    RestRadios,
    /// All connections on a route are reset, as by the crash of a helper's process.
    Kill {
        /// Index in [`Scenario::routes`].
        route: usize,
    },
    /// As [`Happening::Kill`], and the primary's interface of that route is down for a time. The
    /// primary's system reports both changes of the interface.
    Leave {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// Time for which the interface is down.
        length: Duration,
    },
    /// The interface of a pipe has no carrier for a time, and the primary's system says so. That
    /// the link carries nothing meanwhile is another fault.
    Unplug {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// Time without carrier.
        length: Duration,
    },
    /// The connections of a route carry no packets any more, and the network sends no error: a NAT
    /// has forgotten them, or an address has changed. New connections work.
    Sever {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// Whether it is the connection nearer to the primary (pipe, PS-Path) or the farther one
        /// (HS-Path). A direct route has only one.
        nearer: bool,
        /// Whether the primary's and the proxy's own systems report it. An end without a report has
        /// a half-open connection. A report to the primary on the nearer connection is a change of
        /// its address on this route, one on the farther connection a broken connection.
        told: [bool; 2],
    },
    /// The primary's network of a route is gone for a time. Its system reports that; the proxy's
    /// learns nothing.
    Depart {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// Time for which the network is away.
        length: Duration,
    },
    /// The primary's host sleeps: its daemon, its kernel and its radios stand still.
    Sleep {
        /// Length of the sleep.
        length: Duration,
    },
    /// The network behind a link is another one, or changes its mind about newcomers.
    Network {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Its NAT.
        nat: Option<Nat>,
        /// Its captive portal.
        portal: Option<Portal>,
    },
    /// A helper resets its relays of a route and refuses others for a time, as one whose budget is
    /// used up.
    Refuse {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// Time for which relays are refused.
        length: Duration,
    },
    /// The proxy's process is replaced: all its connections are reset, and it knows no session. In
    /// lasting worlds only.
    Restart,
    /// A new process of the proxy takes over from the one that runs, which serves what is open
    /// (docs/upgrade.md). In lasting worlds only.
    Upgrade,
    /// A daemon is suspended, as by SIGSTOP; its kernel continues.
    Freeze {
        /// The daemon.
        who: Daemon,
        /// Length of the suspension.
        length: Duration,
    },
    /// A daemon's clock jumps forward.
    ClockJump {
        /// The daemon.
        who: Daemon,
        /// Size of the jump.
        by: Duration,
    },
}

/// An end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// The primary.
    Primary,
    /// The proxy.
    Proxy,
}

/// State of a session before a measured transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// No connection is open.
    Cold,
    /// Joined for 2 s, then idle for 5 s, without any transfer.
    Joined,
    /// Joined for 2 s, 1 MiB transferred, then idle for 5 s.
    Used,
    /// The same, and all connections were reset after a second, and made anew.
    Remade,
}

impl Exchange {
    /// A download: a small request, and `bytes` as the response.
    pub fn download(start: When, bytes: u64) -> Self {
        Self {
            start,
            up_bytes: 120,
            down_bytes: bytes,
            at_once: false,
            by_length: false,
            rounds: None,
            connection: None,
            never_beside: 0..0,
            class: StreamClass::Bulk,
            chunk_ends: Vec::new(),
            client: Manner::default(),
            origin: Manner::default(),
        }
    }

    /// An upload: `bytes`, and a small response once all of them have arrived.
    pub fn upload(start: When, bytes: u64) -> Self {
        Self {
            up_bytes: bytes,
            down_bytes: 120,
            ..Self::download(start, 0)
        }
    }

    /// Whether messages are delimited by their length.
    pub(super) fn is_by_length(&self) -> bool {
        self.by_length || self.rounds.is_some()
    }

    /// Direction of most bytes.
    pub fn direction(&self) -> Direction {
        if self.up_bytes > self.down_bytes {
            Direction::Up
        } else {
            Direction::Down
        }
    }

    /// Whether it never ends, since a reader stops for ever.
    pub(super) fn is_endless(&self) -> bool {
        let forever = |m: &Manner| m.pause.is_some_and(|p| p.length.is_none());
        forever(&self.client) || forever(&self.origin)
    }

    /// Whether all bytes are to arrive and both ends to finish.
    pub(super) fn ends_well(&self) -> bool {
        self.client.ending == Ending::Finish && self.origin.ending == Ending::Finish
    }
}

impl Scenario {
    /// A scenario of links and routes without exchanges and faults.
    pub fn new(links: Vec<TwoWay>, routes: Vec<Route>) -> Self {
        Self {
            client: SessionConfig::default(),
            server: SessionConfig::default(),
            links,
            routes,
            relay_bound_bytes: 4 << 20,
            express_at: Some(WORTH_OPENING),
            without_proxy: WithoutProxy::Refuse,
            exchanges: Vec::new(),
            visits: Vec::new(),
            faults: Vec::new(),
            limit: Duration::from_secs(600),
            stall_limit: Duration::from_secs(30),
            seed: 1,
            linger: Duration::ZERO,
            keeps_log: false,
            lasting: None,
            has_bounds: true,
        }
    }

    /// The setting of the MPBond paper: a PS-Path of `ps_mbps`, and a helper for each
    /// pair of HS-Path and pipe rates in Mbit/s. Links are symmetric with queues of 100 ms; delays
    /// are one way.
    pub fn bonded(
        ps_mbps: f64,
        helpers: &[(f64, f64)],
        wwan_delay: Duration,
        pipe_delay: Duration,
    ) -> Self {
        let link = |name: &str, mbps: f64, delay| {
            let rate = Rate::Constant(BitRate::from_mbps(mbps));
            TwoWay::symmetric(name, LinkConfig::new(rate).with_delay(delay))
        };
        let mut links = vec![link("ps", ps_mbps, wwan_delay)];
        let mut routes = vec![Route::direct("ps", 0)];
        for (i, (hs, pipe)) in helpers.iter().enumerate() {
            let at = links.len();
            links.push(link(&format!("pipe{}", i + 1), *pipe, pipe_delay));
            links.push(link(&format!("hs{}", i + 1), *hs, wwan_delay));
            let name = format!("helper{}", i + 1);
            routes.push(Route::through(&name, HelperId(i as u32), at, at + 1));
        }
        Self::new(links, routes)
    }

    /// Direct paths only, each with its rate in Mbit/s and its one-way delay.
    pub fn multihomed(paths: &[(f64, Duration)]) -> Self {
        let mut links = Vec::new();
        let mut routes = Vec::new();
        for (i, (mbps, delay)) in paths.iter().enumerate() {
            let name = format!("ps{}", i + 1);
            let rate = Rate::Constant(BitRate::from_mbps(*mbps));
            let link = LinkConfig::new(rate).with_delay(*delay);
            links.push(TwoWay::symmetric(&name, link));
            routes.push(Route::direct(&name, i));
        }
        Self::new(links, routes)
    }

    /// Uses this scheduler at both ends.
    #[must_use]
    pub fn with_scheduler(mut self, kind: SchedulerKind) -> Self {
        self.client.scheduler = kind;
        self.server.scheduler = kind;
        self
    }

    /// Leaves mechanisms of the sender out at both ends.
    #[must_use]
    pub fn without(mut self, mechanisms: impl IntoIterator<Item = Mechanism>) -> Self {
        for mechanism in mechanisms {
            self.client.leave_out(mechanism);
            self.server.leave_out(mechanism);
            if mechanism == Mechanism::Express {
                self.express_at = None;
            }
        }
        self
    }

    /// Adds an exchange.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Exchange) -> Self {
        self.exchanges.push(exchange);
        self
    }

    /// Adds the measured transfer as the last exchange, after the preparation `before`.
    #[must_use]
    pub fn measuring(mut self, before: Before, direction: Direction, bytes: u64) -> Self {
        let joined = Duration::from_secs(2);
        let idle = Duration::from_secs(5);
        let transfer = |start, bytes| match direction {
            Direction::Down => Exchange::download(start, bytes),
            Direction::Up => Exchange::upload(start, bytes),
        };
        let start = match before {
            Before::Cold => When::At(Duration::ZERO),
            Before::Joined => When::At(joined + idle),
            Before::Used | Before::Remade => {
                self.exchanges.push(transfer(When::At(joined), 1 << 20));
                let first = self.exchanges.len() - 1;
                if before == Before::Remade {
                    let when = When::AfterEnd(first, Duration::from_secs(1));
                    let resets = (0..self.routes.len()).map(|route| Fault {
                        when,
                        what: Happening::Kill { route },
                    });
                    self.faults.extend(resets);
                }
                When::AfterEnd(first, idle)
            }
        };
        self.exchanges.push(transfer(start, bytes));
        self
    }

    /// Lengthens delays by up to a millisecond, differently for each link and variant. Results of
    /// single runs vary, since a packet more or less changes the next estimate.
    #[must_use]
    pub fn varied(mut self, variant: u32) -> Self {
        for (i, link) in self.links.iter_mut().enumerate() {
            let steps = (variant * 37 + i as u32 * 11 * variant) % 50;
            let extra = Duration::from_micros(20) * steps;
            link.up.delay += extra;
            link.down.delay += extra;
        }
        self
    }

    /// Changes the rate of the named link, `after` the start of the last exchange.
    #[must_use]
    pub fn changing(self, link: &str, mbps: f64, after: Duration) -> Self {
        let rate = Rate::Constant(BitRate::from_mbps(mbps));
        self.with_change(link, LinkChange::rate(rate), after)
    }

    /// Takes the named link down silently, `after` the start of the last exchange.
    #[must_use]
    pub fn silencing(self, link: &str, after: Duration) -> Self {
        self.with_change(link, LinkChange::down(), after)
    }

    /// Takes the named link up again, `after` the start of the last exchange.
    #[must_use]
    pub fn restoring(self, link: &str, after: Duration) -> Self {
        self.with_change(link, LinkChange::up(), after)
    }

    fn with_change(mut self, link: &str, change: LinkChange, after: Duration) -> Self {
        let last = self.exchanges.len().saturating_sub(1);
        if let Some(link) = self.links.iter().position(|l| l.name == link) {
            self.faults.push(Fault {
                when: When::AfterStart(last, after),
                what: Happening::Link {
                    link,
                    up: Some(change.clone()),
                    down: Some(change),
                },
            });
        }
        self
    }
}

impl Route {
    /// A PS-Path over the link with this index.
    pub fn direct(name: &str, link: usize) -> Self {
        Self {
            name: name.to_owned(),
            helper: None,
            links: vec![link],
            joins_at: Duration::ZERO,
            backup: false,
            cost: 0,
            place: None,
            radios: None,
            pause: Duration::ZERO,
            walk: None,
            weak_below_dbm: None,
            least_bursts: None,
            false_reports: None,
        }
    }

    /// One of several pipes to a helper of which the best one is used.
    #[must_use]
    pub fn at_place(self, place: usize) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// A route through a helper, over a pipe and an HS-Path.
    pub fn through(name: &str, helper: HelperId, pipe: usize, hs: usize) -> Self {
        Self {
            helper: Some(helper),
            links: vec![pipe, hs],
            ..Self::direct(name, pipe)
        }
    }
}
