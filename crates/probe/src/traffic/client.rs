//! Client of a traffic run: connects, receives and sends records until the run ends, and reconnects
//! when it loses its connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use mpbond_statistics::clock::ClockFit;
use serde::Serialize;

use super::account::{Account, DirectionSummary, RawDelay};
use super::connection::{Connection, Heard, Patience, Target, Up, exchange, greet, name};
use super::hello::{Hello, MAX_DURATION};
use super::sender::OPEN;
use super::wire::{Frame, Kind};
use super::{Direction, Flow};
use crate::clock_offset::ClockOffset;
use crate::error::ProbeError;
use crate::sys;

/// Interval between refused attempts, as with an application that polls.
const AGAIN: Duration = Duration::from_millis(100);
/// Interval at which the main thread checks timeouts.
const LOOK: Duration = Duration::from_millis(50);

/// Options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// Server.
    pub target: Target,
    /// Traffic from the server.
    pub down: Option<Flow>,
    /// Traffic to the server.
    pub up: Option<Flow>,
    /// Duration.
    pub duration: Duration,
    /// Time without data after which a connection is given up.
    pub stall: Duration,
    /// Time after which an attempt to connect is given up and repeated.
    pub attempt: Duration,
    /// Minimum length of a gap between records; at least three intervals.
    pub gap: Duration,
    /// Time to wait for missing records after the end of the run.
    pub drain: Duration,
}

impl ClientOptions {
    /// Default options: ten seconds of bulk traffic from the server.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            down: Some(Flow::bulk()),
            up: None,
            duration: Duration::from_secs(10),
            stall: Duration::from_secs(5),
            attempt: Duration::from_secs(1),
            gap: Duration::from_millis(500),
            drain: Duration::from_secs(30),
        }
    }

    fn check(&self) -> Result<(), ProbeError> {
        let wrong = |what: &str| Err(ProbeError::Option(what.to_owned()));
        if self.down.is_none() && self.up.is_none() {
            return wrong("select traffic down, up or both");
        }
        if self.duration < Duration::from_millis(1) || self.duration > MAX_DURATION {
            return wrong("the duration of a run must be 1 ms to a day");
        }
        let short = Duration::from_millis(10);
        if self.stall < short || self.attempt < short || self.gap < short {
            return wrong("stall, attempt and gap must be at least 10 ms");
        }
        Ok(())
    }

    fn threshold_s(&self, flow: Flow) -> f64 {
        self.gap.max(flow.interval() * 3).as_secs_f64()
    }

    fn stall(&self) -> Duration {
        // Pings are answered each second.
        self.stall.max(Duration::from_millis(1200))
    }
}

/// Event of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A connection is established.
    Connected {
        /// Time since the run's start, in s.
        at_s: f64,
        /// Local address.
        local: SocketAddr,
    },
    /// A connection was lost.
    Lost {
        /// Time since the run's start, in s.
        at_s: f64,
        /// Reason.
        reason: String,
    },
    /// A record arrived for the first time.
    Record {
        /// Direction.
        direction: Direction,
        /// Number, from 0.
        number: u64,
        /// Length, header included.
        bytes: u32,
        /// Time of arrival, in s since the run's start by this host's clock.
        at_s: f64,
        /// Delay from due time to arrival, in ms, by the relation of the clocks known so far.
        delay_ms: Option<f64>,
    },
}

/// Loss of a connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// Time of detection, in s since the run's start.
    pub lost_s: f64,
    /// Time of the next connection; `None` when there was none.
    pub back_s: Option<f64>,
    /// Reason.
    pub reason: String,
}

/// Summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Start of the run, in s since the Unix epoch.
    pub start_unix_s: f64,
    /// Intended duration, in s.
    pub duration_s: f64,
    /// Number of connections made.
    pub connections: u64,
    /// Connections lost.
    pub losses: Vec<Loss>,
    /// Offset of the server's clock; delays have its error.
    pub clock: Option<ClockOffset>,
    /// Traffic from the server.
    pub down: Option<DirectionSummary>,
    /// Traffic to the server.
    pub up: Option<DirectionSummary>,
}

impl Summary {
    /// Whether all expected records arrived.
    pub fn complete(&self) -> bool {
        let both = [&self.down, &self.up];
        both.into_iter().flatten().all(|d| d.missing == Some(0))
    }
}

/// Sends and receives traffic according to `options` and calls `heard` for each event.
///
/// Blocks until all records arrived, the time for that is over, or `heard` returns `false`.
///
/// # Errors
/// When the first connection cannot be made, or options are invalid. The loss of a later connection
/// is not an error.
pub fn run(
    options: &ClientOptions,
    heard: impl FnMut(&Event) -> bool,
) -> Result<Summary, ProbeError> {
    options.check()?;
    let mut run = Run::new(options, heard);
    let mut clock = ClockFit::new(1);
    let failed = ProbeError::io("the traffic server");
    let mut greeted = greet(&options.target, run.patience(), &run.hello, None).map_err(&failed)?;
    greeted.compare_clocks(&mut clock).map_err(&failed)?;
    run.begin(clock);
    let mut connection = Some(greeted.start(Some(0), run.up_work()).map_err(&failed)?);
    while let Some(current) = connection {
        run.connections += 1;
        let told = run.tell(&Event::Connected {
            at_s: run.elapsed_s(),
            local: current.local,
        });
        let end = if told {
            run.listen(&current)
        } else {
            End::Done
        };
        drop(current);
        connection = match end {
            End::Done => None,
            End::Lost(reason) => run.reconnect(reason),
        };
    }
    Ok(run.finish())
}

enum End {
    Done,
    Lost(String),
}

/// State of a run.
pub(super) struct Run<'a, F> {
    options: &'a ClientOptions,
    heard: F,
    hello: Hello,
    clock: ClockFit,
    /// Start by the user's clock, in ns since the Unix epoch, and by the monotonic clock.
    start_ns: u64,
    start: Instant,
    down: Option<Account>,
    up: Option<Account>,
    down_total: Option<u64>,
    up_total: Arc<AtomicU64>,
    connections: u64,
    losses: Vec<Loss>,
}

impl<'a, F: FnMut(&Event) -> bool> Run<'a, F> {
    pub(super) fn new(options: &'a ClientOptions, heard: F) -> Self {
        let account = |flow: Flow| Account::new(flow, options.threshold_s(flow));
        let total = |flow: Option<Flow>| flow.and_then(|f| f.total(options.duration));
        Self {
            options,
            heard,
            hello: Hello {
                run: name(),
                duration: options.duration,
                down: options.down,
                up: options.up,
                down_next: 0,
                receipts_next: 0,
            },
            clock: ClockFit::new(1),
            start_ns: 0,
            start: Instant::now(),
            down: options.down.map(account),
            up: options.up.map(account),
            down_total: total(options.down),
            up_total: Arc::new(AtomicU64::new(total(options.up).unwrap_or(OPEN))),
            connections: 0,
            losses: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, clock: ClockFit) {
        self.clock = clock;
        self.start_ns = sys::now_ns();
        self.start = Instant::now();
    }

    fn patience(&self) -> Patience {
        Patience {
            connect: self.options.attempt,
            answer: self.options.stall(),
        }
    }

    fn up_work(&self) -> Up {
        let duration = u64::try_from(self.options.duration.as_nanos()).unwrap_or(u64::MAX);
        Up {
            flow: self.options.up,
            total: Arc::clone(&self.up_total),
            start_ns: self.start_ns,
            end_ns: self.start_ns.saturating_add(duration),
        }
    }

    fn tell(&mut self, event: &Event) -> bool {
        (self.heard)(event)
    }

    fn elapsed_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn over(&self) -> bool {
        self.start.elapsed() > self.options.duration.saturating_add(self.options.drain)
    }

    fn known_up_total(&self) -> Option<u64> {
        Some(self.up_total.load(Ordering::SeqCst)).filter(|t| *t != OPEN)
    }

    /// Whether all records arrived.
    fn done(&self) -> bool {
        let all = |account: &Option<Account>, total: Option<u64>| {
            account
                .as_ref()
                .is_none_or(|a| total.is_some_and(|t| a.next() >= t))
        };
        all(&self.down, self.down_total) && all(&self.up, self.known_up_total())
    }

    fn listen(&mut self, connection: &Connection) -> End {
        let mut last = Instant::now();
        loop {
            match connection.heard.recv_timeout(LOOK) {
                Ok(Heard::Frame(frame, now_ns, sent_ns)) => {
                    last = Instant::now();
                    match self.frame(frame, now_ns, sent_ns) {
                        Ok(true) => {}
                        Ok(false) => return End::Done,
                        Err(reason) => return End::Lost(reason),
                    }
                }
                Ok(Heard::Lost(reason)) => return End::Lost(reason),
                Err(RecvTimeoutError::Disconnected) => {
                    return End::Lost("the connection ended".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if last.elapsed() > self.options.stall() {
                        let stall = self.options.stall().as_secs_f64();
                        return End::Lost(format!("no data for {stall} s"));
                    }
                }
            }
            if self.done() || self.over() {
                return End::Done;
            }
        }
    }

    /// Processes a frame; `false` ends the run.
    pub(super) fn frame(
        &mut self,
        frame: Frame,
        now_ns: u64,
        sent_ns: u64,
    ) -> Result<bool, String> {
        let ms = |to: u64, from: u64| crate::record::difference_us(from, to) / 1e3;
        let nth = self.connections;
        let (direction, account, at_s, times) = match frame.kind {
            Kind::Data => {
                let Some(account) = self.down.as_mut() else {
                    return Err("unrequested records".to_owned());
                };
                if frame.length + super::wire::HEADER
                    != self.options.down.map_or(0, |f| f.record_bytes() as usize)
                {
                    return Err("record of unexpected size".to_owned());
                }
                let at_s = ms(now_ns, self.start_ns) / 1e3;
                (Direction::Down, account, at_s, (frame.stamp_ns, now_ns))
            }
            Kind::Receipt => {
                let Some(account) = self.up.as_mut() else {
                    return Err("unexpected receipts".to_owned());
                };
                // The server's clock in between is of use only once it is known.
                let ahead_us = self.clock.at(now_ns).map_or(0.0, |o| o.micros());
                let at_s = ms(frame.stamp_ns, self.start_ns) / 1e3 - ahead_us / 1e6;
                (Direction::Up, account, at_s, (sent_ns, frame.stamp_ns))
            }
            Kind::Pong => {
                self.clock.exchange(exchange(frame, now_ns).stamps());
                return Ok(true);
            }
            Kind::End => {
                self.down_total = Some(frame.number);
                return Ok(true);
            }
            _ => return Err("unexpected frame".to_owned()),
        };
        if direction == Direction::Down && frame.number != account.next() {
            return Err("record out of sequence".to_owned());
        }
        if direction == Direction::Up && frame.number >= self.up_total.load(Ordering::SeqCst) {
            return Err("receipt for an unsent record".to_owned());
        }
        let delay = RawDelay {
            sent_ns: times.0,
            came_ns: times.1,
        };
        if !account.take(frame.number, at_s, delay, nth) {
            return Ok(true);
        }
        match direction {
            Direction::Down => self.hello.down_next = frame.number + 1,
            Direction::Up => self.hello.receipts_next = frame.number + 1,
        }
        let bytes = match direction {
            Direction::Down => self.options.down,
            Direction::Up => self.options.up,
        };
        let delay_ms = delay.delay_ms(&self.clock, direction);
        Ok(self.tell(&Event::Record {
            direction,
            number: frame.number,
            bytes: bytes.map_or(0, |f| f.record_bytes()),
            at_s,
            delay_ms,
        }))
    }

    /// Tries to reconnect; `None` when that takes too long.
    fn reconnect(&mut self, reason: String) -> Option<Connection> {
        let lost_s = self.elapsed_s();
        let told = self.tell(&Event::Lost {
            at_s: lost_s,
            reason: reason.clone(),
        });
        self.losses.push(Loss {
            lost_s,
            back_s: None,
            reason,
        });
        while told && !self.over() {
            let begun = Instant::now();
            let elapsed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let greeted = greet(
                &self.options.target,
                self.patience(),
                &self.hello,
                Some(elapsed),
            );
            if let Ok(connection) = greeted.and_then(|g| g.start(None, self.up_work())) {
                let back_s = self.elapsed_s();
                if let Some(loss) = self.losses.last_mut() {
                    loss.back_s = Some(back_s);
                }
                return Some(connection);
            }
            std::thread::sleep(AGAIN.saturating_sub(begun.elapsed()));
        }
        None
    }

    pub(super) fn finish(self) -> Summary {
        let end_s = self.elapsed_s();
        let up_total = self.known_up_total();
        let nth = self.connections;
        let (clock, down_total) = (self.clock, self.down_total);
        let finish = |account: Account, direction: Direction, total| {
            account.finish(end_s, total, nth, |d| d.delay_ms(&clock, direction))
        };
        Summary {
            start_unix_s: self.start_ns as f64 / 1e9,
            duration_s: self.options.duration.as_secs_f64(),
            connections: self.connections,
            losses: self.losses,
            clock: ClockOffset::of_fit(&clock),
            down: self.down.map(|a| finish(a, Direction::Down, down_total)),
            up: self.up.map(|a| finish(a, Direction::Up, up_total)),
        }
    }
}
