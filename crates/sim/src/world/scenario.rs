//! What a world is made of, and what happens in it.

use std::time::Duration;

use mpbond_session::{HelperId, SchedulerKind, SessionConfig, StreamClass};
use mpbond_units::BitRate;

use crate::ideal::Direction;
use crate::link::{LinkChange, LinkConfig, Rate, Shared};

/// Hosts, links, work and misfortune.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The primary's session.
    pub client: SessionConfig,
    /// The proxy's session.
    pub server: SessionConfig,
    /// All links, which routes name by index.
    pub links: Vec<TwoWay>,
    /// The ways between primary and proxy; the primary keeps a subflow on each.
    pub routes: Vec<Route>,
    /// Most bytes that a helper holds for a subflow in each direction.
    pub relay_bound_bytes: u64,
    /// An express is opened through a helper that holds what it passes on in so long; none, where
    /// this is none.
    pub express_at: Option<Duration>,
    /// How often a helper reports while data flows.
    pub report_every: Duration,
    /// How long after a subflow is lost the primary tries to join anew.
    pub rejoin_after: Duration,
    /// User connections, one stream each.
    pub exchanges: Vec<Exchange>,
    /// What goes wrong, or changes.
    pub faults: Vec<Fault>,
    /// The world has failed when it is not done by then.
    pub limit: Duration,
    /// The world has failed when no new byte arrives for so long while a route works.
    pub stall_limit: Duration,
    /// Fixes all chance: losses and jitter of links.
    pub seed: u64,
    /// How long the world goes on when all exchanges are over.
    pub linger: Duration,
    /// Whether packets on links and arrivals at readers are kept, for accounts of them.
    pub keeps_log: bool,
    /// Whether the bound is worked out for each exchange. Over recordings that takes longer than
    /// to live through them.
    pub has_bounds: bool,
}

/// A link, both directions.
#[derive(Debug, Clone)]
pub struct TwoWay {
    /// For people.
    pub name: String,
    /// Away from the primary.
    pub up: LinkConfig,
    /// Towards the primary.
    pub down: LinkConfig,
    /// What it shares with other links, or its directions with each other.
    pub shared: Shared,
}

impl TwoWay {
    /// The same both ways.
    pub fn symmetric(name: &str, link: LinkConfig) -> Self {
        Self {
            name: name.to_owned(),
            up: link.clone(),
            down: link,
            shared: Shared::default(),
        }
    }
}

/// A way between primary and proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// For people.
    pub name: String,
    /// The helper it runs through.
    pub helper: Option<HelperId>,
    /// Indices in [`Scenario::links`]: the PS-Path alone, or pipe and HS-Path. Where both are
    /// given without a helper, the device between only forwards packets.
    pub links: Vec<usize>,
    /// When the primary first connects.
    pub joins_at: Duration,
    /// Used only when no regular one is left.
    pub backup: bool,
}

/// An instant, known beforehand or as things go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// So long after the world began.
    At(Duration),
    /// So long after both ends had a subflow on every route for the first time.
    AfterJoined(Duration),
    /// So long after this exchange started.
    AfterStart(usize, Duration),
    /// So long after this exchange was over at the client.
    AfterEnd(usize, Duration),
}

/// A user connection: a client at the primary asks, an origin behind the proxy answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// When the client opens it.
    pub start: When,
    /// Bytes the client sends.
    pub up_bytes: u64,
    /// Bytes the origin sends.
    pub down_bytes: u64,
    /// The origin begins before it has heard all of the client.
    pub at_once: bool,
    /// The length of what is sent tells its end, as in HTTP/1.1, and not the end of the stream:
    /// the client ends its part only when it has got everything, the origin after it.
    pub by_length: bool,
    /// Without a session: it goes on with the connection of the exchange before. A session's
    /// streams are always new.
    pub continues: bool,
    /// What kind of traffic.
    pub class: StreamClass,
    /// How the client behaves.
    pub client: Manner,
    /// How the origin behaves.
    pub origin: Manner,
}

/// How an application behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manner {
    /// It stops reading for a while.
    pub pause: Option<Pause>,
    /// How its part ends.
    pub ending: Ending,
}

/// A reader that rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// After so many bytes.
    pub after_bytes: u64,
    /// For so long; `None`: it never reads again.
    pub length: Option<Duration>,
}

/// How an application's part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It writes everything, and reads everything.
    #[default]
    Finish,
    /// It gives its own bytes up after so many.
    ResetAfter(u64),
    /// It wants no more than so many of the other's bytes.
    StopAfter(u64),
    /// It wants no more when so long has passed since it began.
    StopAt(Duration),
    /// It refuses: resets and stops at once.
    Refuse,
}

/// Something happens to the links or hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// When.
    pub when: When,
    /// What.
    pub what: Happening,
}

/// What may happen.
#[allow(clippy::large_enum_variant)] // a handful of them a world
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A link changes; goes silently down, or comes back.
    Link {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Away from the primary.
        up: Option<LinkChange>,
        /// Towards the primary.
        down: Option<LinkChange>,
    },
    /// Every radio on the links is at rest again.
    RestRadios,
    /// All connections on a route are reset: a helper process dies. The primary joins anew.
    Kill {
        /// Index in [`Scenario::routes`].
        route: usize,
    },
    /// The same, and the primary does not try to join before so long has passed.
    Leave {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// How long the route is away.
        length: Duration,
    },
    /// The connections of a route carry nothing any more, and nobody is told by the network: a NAT
    /// has forgotten them, or an address is another one. New connections work.
    Sever {
        /// Index in [`Scenario::routes`].
        route: usize,
        /// The connection nearer to the primary (a pipe, a PS-Path), or the one farther away (an
        /// HS-Path; on a direct route there is one only).
        nearer: bool,
        /// Whether the primary's own system tells it, and the proxy's the proxy. An end that is
        /// not told has a half-open connection.
        told: [bool; 2],
    },
    /// A daemon stands still, as when it is stopped; its kernel goes on.
    Freeze {
        /// Which.
        who: Daemon,
        /// For how long.
        length: Duration,
    },
    /// A daemon's clock is ahead by so much more, at once: time has passed of which it knows
    /// nothing.
    ClockJump {
        /// Which.
        who: Daemon,
        /// How far.
        by: Duration,
    },
}

/// An end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// Where the applications are.
    Primary,
    /// The far end.
    Proxy,
}

/// What has happened in a session before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nothing is open.
    Cold,
    /// Joined for 2 s, then idle for 5 s: nothing was ever transferred.
    Joined,
    /// Joined for 2 s, 1 MiB transferred, then idle for 5 s.
    Used,
}

impl Exchange {
    /// A small request, and `bytes` as the answer.
    pub fn download(start: When, bytes: u64) -> Self {
        Self {
            start,
            up_bytes: 120,
            down_bytes: bytes,
            at_once: false,
            by_length: false,
            continues: false,
            class: StreamClass::Bulk,
            client: Manner::default(),
            origin: Manner::default(),
        }
    }

    /// `bytes`, and a small answer once all of them have arrived.
    pub fn upload(start: When, bytes: u64) -> Self {
        Self {
            up_bytes: bytes,
            down_bytes: 120,
            ..Self::download(start, 0)
        }
    }

    /// The direction that most bytes take.
    pub fn direction(&self) -> Direction {
        if self.up_bytes > self.down_bytes {
            Direction::Up
        } else {
            Direction::Down
        }
    }

    /// Someone will never read all, so that it never ends.
    pub(super) fn is_endless(&self) -> bool {
        let forever = |m: &Manner| m.pause.is_some_and(|p| p.length.is_none());
        forever(&self.client) || forever(&self.origin)
    }

    /// All bytes arrive and both ends finish.
    pub(super) fn ends_well(&self) -> bool {
        self.client.ending == Ending::Finish && self.origin.ending == Ending::Finish
    }
}

impl Scenario {
    /// A world of links and routes in which nothing happens yet.
    pub fn new(links: Vec<TwoWay>, routes: Vec<Route>) -> Self {
        Self {
            client: SessionConfig::default(),
            server: SessionConfig::default(),
            links,
            routes,
            relay_bound_bytes: 4 << 20,
            express_at: Some(Duration::from_millis(250)),
            report_every: Duration::from_millis(100),
            rejoin_after: Duration::from_millis(500),
            exchanges: Vec::new(),
            faults: Vec::new(),
            limit: Duration::from_secs(600),
            stall_limit: Duration::from_secs(30),
            seed: 1,
            linger: Duration::ZERO,
            keeps_log: false,
            has_bounds: true,
        }
    }

    /// The papers' setting: a PS-Path of `ps_mbps`, and a helper for each pair of HS-Path and
    /// pipe. All links are symmetric with queues of 100 ms; delays are one way.
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

    /// Direct paths only: (Mbit/s, one-way delay) of each.
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

    /// Both ends use this scheduler.
    #[must_use]
    pub fn with_scheduler(mut self, kind: SchedulerKind) -> Self {
        self.client.scheduler = kind;
        self.server.scheduler = kind;
        self
    }

    /// Adds an exchange.
    #[must_use]
    pub fn with_exchange(mut self, exchange: Exchange) -> Self {
        self.exchanges.push(exchange);
        self
    }

    /// Adds the transfer to be measured, as the last exchange, after what is to happen before.
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
            Before::Used => {
                self.exchanges.push(transfer(When::At(joined), 1 << 20));
                When::AfterEnd(self.exchanges.len() - 1, idle)
            }
        };
        self.exchanges.push(transfer(start, bytes));
        self
    }

    /// The same with delays that are up to a millisecond longer, differently for each link and
    /// variant: one run alone says little, since a packet more or less decides what the next
    /// estimate is.
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

    /// The named link has another rate from `after` the start of the last exchange on.
    #[must_use]
    pub fn changing(self, link: &str, mbps: f64, after: Duration) -> Self {
        let rate = Rate::Constant(BitRate::from_mbps(mbps));
        self.with_change(link, LinkChange::rate(rate), after)
    }

    /// The named link swallows everything, without a word, from `after` the start of the last
    /// exchange on.
    #[must_use]
    pub fn silencing(self, link: &str, after: Duration) -> Self {
        self.with_change(link, LinkChange::down(), after)
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
        }
    }

    /// Through a helper, over a pipe and an HS-Path.
    pub fn through(name: &str, helper: HelperId, pipe: usize, hs: usize) -> Self {
        Self {
            helper: Some(helper),
            links: vec![pipe, hs],
            ..Self::direct(name, pipe)
        }
    }
}
