//! Applications: a client and an origin for each exchange, which check every byte.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use mpbond_session::{Read, ResetCode, Session, StreamId, StreamStats};
use mpbond_units::Timestamp;

use super::rounds::{Part, Round};
use super::scenario::{Ending, Manner};

/// Maximum number of bytes that an application writes in one go.
pub(super) const WRITE: u64 = 64 << 10;

/// Length of the pattern's period: a prime, so that no power of two hides a shift.
const PERIOD: usize = 65_521;

/// Two periods of the pattern and one write, so that any slice of a write's length is contiguous.
fn pattern() -> &'static Bytes {
    static PATTERN: OnceLock<Bytes> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut state = 0x9e37_79b9_u32;
        let once: Vec<u8> = (0..PERIOD)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                (state >> 24) as u8
            })
            .collect();
        let len = 2 * PERIOD + WRITE as usize;
        once.iter().copied().cycle().take(len).collect()
    })
}

/// Bytes of a stream from `offset` on; `salt` differs between streams and directions.
pub(super) fn slice(salt: u64, offset: u64, len: usize) -> Bytes {
    let start = ((offset + salt * 7_919) % PERIOD as u64) as usize;
    pattern().slice(start..start + len.min(WRITE as usize))
}

/// End of a direction, seen by its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All bytes arrived, then FIN.
    Finished,
    /// The other end reset the stream.
    Reset(ResetCode),
    /// The reader stopped the stream.
    Stopped,
}

/// One application.
#[derive(Debug)]
pub(super) struct App {
    manner: Manner,
    salt_out: u64,
    salt_in: u64,
    /// Bytes in all, or of each round.
    to_write: u64,
    written: u64,
    /// Its side of requests and answers that are repeated.
    rounds: Option<Part>,
    /// Whether it writes only after it has read everything.
    answers: bool,
    /// Length of what it reads, if messages are delimited by their length.
    expects: Option<u64>,
    is_client: bool,
    /// The other end's stream is over.
    other_over: bool,
    finished: bool,
    pub(super) read: u64,
    pub(super) ended: Option<(Timestamp, End)>,
    paused_until: Option<Timestamp>,
    has_paused: bool,
    last_read: Timestamp,
    pub(super) longest_gap: Duration,
    pub(super) first_read: Option<Timestamp>,
    /// Longest gap after its first byte, and when it ended.
    pub(super) later_gap: (Duration, Timestamp),
    /// Instants and bytes read by then, if they are kept.
    pub(super) arrivals: Option<Vec<(Timestamp, u64)>>,
    /// Instants and bytes written by then, if they are kept and it writes at a constant rate.
    writes: Option<Vec<(Timestamp, u64)>>,
    started: Timestamp,
    pub(super) closed: Option<Box<StreamStats>>,
    /// When it may write: at once, or when it has been asked.
    pub(super) asked: Option<Timestamp>,
}

impl App {
    pub(super) fn new(
        now: Timestamp,
        exchange: usize,
        client: bool,
        manner: Manner,
        to_write: u64,
        answers: bool,
    ) -> Self {
        let salt = exchange as u64 * 2;
        Self {
            manner,
            salt_out: salt + u64::from(client),
            salt_in: salt + u64::from(!client),
            to_write,
            written: 0,
            rounds: None,
            answers,
            expects: None,
            is_client: client,
            other_over: false,
            finished: false,
            read: 0,
            ended: None,
            paused_until: None,
            has_paused: false,
            last_read: now,
            longest_gap: Duration::ZERO,
            first_read: None,
            later_gap: (Duration::ZERO, now),
            arrivals: None,
            writes: None,
            started: now,
            closed: None,
            asked: None,
        }
    }

    /// When it has something to write, once that is known.
    pub(super) fn ready(&self) -> Option<Timestamp> {
        self.asked.map(|at| at + self.manner.thinks)
    }

    /// Whether it has been asked, and has nothing to say yet.
    pub(super) fn thinks(&self, now: Timestamp) -> bool {
        self.ready().is_some_and(|at| at > now)
    }

    /// When it last read anything, or its start.
    pub(super) fn last_read(&self) -> Timestamp {
        self.last_read
    }

    /// Number of bytes that it may have written by now.
    fn due_bytes(&mut self, now: Timestamp, ready: Timestamp) -> u64 {
        match &mut self.rounds {
            Some(Part::Asks(asking)) => return asking.ask(now) * self.to_write,
            Some(Part::Answers(asked)) => return self.read / (*asked).max(1) * self.to_write,
            None => {}
        }
        let Some(pace) = self.manner.pace else {
            return self.to_write;
        };
        pace.due_bytes(now.since(ready)).min(self.to_write)
    }

    /// When it has more to write.
    fn next_piece(&self) -> Option<Timestamp> {
        match &self.rounds {
            Some(Part::Asks(asking)) => return asking.due(),
            Some(Part::Answers(_)) => return None,
            None => {}
        }
        let ready = self.ready()?;
        match self.manner.pace {
            _ if self.finished || self.written >= self.to_write => None,
            Some(pace) => Some(ready + pace.due_after(self.written)),
            None => Some(ready).filter(|_| !self.manner.thinks.is_zero()),
        }
    }

    /// Whether it pauses in its reading.
    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.paused_until.is_some_and(|t| t > now)
    }

    /// Keeps the times of what it reads, and writes at a constant rate, if `keeps` is set.
    pub(super) fn keeping_arrivals(mut self, keeps: bool) -> Self {
        self.arrivals = keeps.then(Vec::new);
        self.writes = (keeps && self.manner.pace.is_some()).then(Vec::new);
        self
    }

    /// Sets the length of what it reads, if messages are delimited by their length.
    pub(super) fn expecting(mut self, bytes: Option<u64>) -> Self {
        self.expects = bytes;
        self
    }

    /// Repeats requests and answers, of which this is its side.
    pub(super) fn repeating(mut self, part: Option<Part>) -> Self {
        self.rounds = part;
        self
    }

    /// Changes the end of its half.
    pub(super) fn end_by(&mut self, ending: Ending) {
        self.manner.ending = ending;
    }

    /// Requests that were answered.
    pub(super) fn answered(&self) -> &[Round] {
        match &self.rounds {
            Some(Part::Asks(asking)) => asking.answered(),
            _ => &[],
        }
    }

    /// Client: whether it has everything that it asks for.
    fn has_all_answers(&mut self, now: Timestamp) -> bool {
        match &mut self.rounds {
            Some(Part::Asks(asking)) => {
                asking.read(now, self.read);
                asking.is_over()
            }
            _ => self.expects == Some(self.read),
        }
    }

    /// Whether it has written everything, of which so much is due.
    fn has_written_all(&self, due: u64) -> bool {
        match &self.rounds {
            Some(Part::Asks(asking)) => asking.is_over(),
            Some(Part::Answers(_)) => self.other_over && self.written == due,
            None => self.written == self.to_write,
        }
    }

    /// Whether it has read the whole request.
    fn has_been_asked(&self) -> bool {
        let whole = self.expects.is_some_and(|bytes| self.read >= bytes);
        self.ended.is_some() || whole
    }

    /// Whether its own half may end.
    fn may_finish(&self) -> bool {
        self.expects.is_none() || (self.is_client && self.ended.is_some()) || self.other_over
    }

    /// When it continues after a pause, or stops.
    pub(super) fn resumes(&self) -> impl Iterator<Item = Timestamp> {
        let stops = match self.manner.ending {
            Ending::StopAt(after) if self.ended.is_none() => Some(self.started + after),
            _ => None,
        };
        let paused = self.paused_until.filter(|t| *t < Timestamp::FAR_FUTURE);
        paused.into_iter().chain(stops).chain(self.next_piece())
    }

    /// Times since `start` and bytes read by then.
    pub(super) fn arrivals_since(&self, start: Timestamp) -> Vec<(Duration, u64)> {
        let all = self.arrivals.iter().flatten();
        all.map(|(at, bytes)| (at.since(start), *bytes)).collect()
    }

    /// Times since `start` and bytes written by then.
    pub(super) fn writes_since(&self, start: Timestamp) -> Vec<(Duration, u64)> {
        let all = self.writes.iter().flatten();
        all.map(|(at, bytes)| (at.since(start), *bytes)).collect()
    }

    /// The peer has stopped its stream.
    pub(super) fn stop_writing(&mut self) {
        self.finished = true;
    }

    /// Reads and writes as much as possible. `clock` is the present instant by the session's clock.
    ///
    /// # Errors
    /// Wrong bytes, with their offset.
    pub(super) fn pump(
        &mut self,
        now: Timestamp,
        clock: Timestamp,
        session: &mut Session,
        id: StreamId,
    ) -> Result<(), String> {
        if self.closed.is_some() {
            return Ok(());
        }
        if self.manner.ending == Ending::Refuse {
            if self.ended.is_none() {
                session.reset(clock, id, ResetCode::ConnectionRefused);
                session.stop(clock, id, ResetCode::ConnectionRefused);
                self.finished = true;
                self.ended = Some((now, End::Stopped));
            }
            return Ok(());
        }
        self.write(now, clock, session, id);
        self.pump_in(now, clock, session, id)?;
        self.write(now, clock, session, id);
        Ok(())
    }

    fn pump_in(
        &mut self,
        now: Timestamp,
        clock: Timestamp,
        session: &mut Session,
        id: StreamId,
    ) -> Result<(), String> {
        if let Ending::StopAt(after) = self.manner.ending
            && self.ended.is_none()
            && now >= self.started + after
        {
            session.stop(clock, id, ResetCode::ConnectionReset);
            self.ended = Some((now, End::Stopped));
        }
        let by_length = self.expects.is_some();
        while (self.ended.is_none() || by_length && !self.other_over) && !self.is_paused(now) {
            match session.read(clock, id) {
                Read::Pending => return Ok(()),
                Read::Data(bytes) => self.take(now, &bytes)?,
                Read::Fin => self.over(now, End::Finished),
                Read::Reset(code) => self.over(now, End::Reset(code)),
            }
            if self.is_client && self.has_all_answers(now) {
                self.ended = self.ended.or(Some((now, End::Finished)));
            }
            if let Some(pause) = self.manner.pause
                && !self.has_paused
                && self.read >= pause.after_bytes
            {
                self.has_paused = true;
                self.paused_until = Some(pause.length.map_or(Timestamp::FAR_FUTURE, |d| now + d));
            }
            let enough = match self.manner.ending {
                Ending::StopAfter(n) => self.read >= n,
                _ => false,
            };
            if enough && self.ended.is_none() {
                session.stop(clock, id, ResetCode::ConnectionReset);
                self.ended = Some((now, End::Stopped));
            }
        }
        Ok(())
    }

    fn over(&mut self, now: Timestamp, end: End) {
        self.other_over = true;
        self.ended = self.ended.or(Some((now, end)));
    }

    pub(super) fn take(&mut self, now: Timestamp, bytes: &[u8]) -> Result<(), String> {
        for part in bytes.chunks(WRITE as usize) {
            if slice(self.salt_in, self.read, part.len()) != part {
                return Err(format!("wrong bytes at offset {}", self.read));
            }
            self.read += part.len() as u64;
        }
        let gap = now.since(self.last_read);
        self.longest_gap = self.longest_gap.max(gap);
        if self.first_read.is_some() {
            self.later_gap = self.later_gap.max((gap, now));
        }
        self.last_read = now;
        self.first_read = self.first_read.or(Some(now));
        let read = self.read;
        if let Some(arrivals) = &mut self.arrivals {
            match arrivals.last_mut() {
                Some((at, so_far)) if *at == now => *so_far = read,
                _ => arrivals.push((now, read)),
            }
        }
        Ok(())
    }

    fn write(&mut self, now: Timestamp, clock: Timestamp, session: &mut Session, id: StreamId) {
        if self.finished || (self.answers && !self.has_been_asked()) {
            return;
        }
        let ready = *self.asked.get_or_insert(now) + self.manner.thinks;
        if ready > now {
            return;
        }
        let due = self.due_bytes(now, ready);
        while self.written < due {
            if let Ending::ResetAfter(n) = self.manner.ending
                && self.written >= n
            {
                session.reset(clock, id, ResetCode::ConnectionReset);
                self.finished = true;
                return;
            }
            let budget = session.send_budget(id);
            let len = budget.min(WRITE).min(due - self.written);
            if len == 0 {
                return;
            }
            session.write(id, slice(self.salt_out, self.written, len as usize));
            self.written += len;
            if let Some(writes) = &mut self.writes {
                writes.push((now, self.written));
            }
        }
        if self.has_written_all(due) && self.may_finish() {
            session.finish(id);
            self.finished = true;
        }
    }
}

impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.to_write;
        write!(f, "wrote {} of {of}, read {}", self.written, self.read)?;
        if let Some((at, end)) = self.ended {
            write!(f, ", {end:?} at {at}")?;
        }
        if self.finished {
            write!(f, ", wrote its end")?;
        }
        if self.closed.is_some() {
            write!(f, ", closed")?;
        }
        if self.manner != Manner::default() {
            write!(f, ", {:?}", self.manner)?;
        }
        Ok(())
    }
}

/// A running exchange.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) started: Timestamp,
    /// The primary's session, by number.
    pub(super) session: u64,
    pub(super) stream: StreamId,
    pub(super) client: App,
    /// Once its OPEN has arrived.
    pub(super) origin: Option<App>,
    /// The primary's session is over, and both applications get the rest.
    pub(super) is_whole: bool,
}

impl Running {
    /// Whether both ends are closed. A client that reset its stream before the OPEN arrived has no
    /// origin. A proxy that was not told that a session is over keeps its stream for a while.
    pub(super) fn is_over(&self) -> bool {
        let is_over = |app: &App| match self.is_whole {
            true => app.ended.is_some(),
            false => app.closed.is_some(),
        };
        is_over(&self.client) && self.origin.as_ref().is_some_and(is_over)
    }

    /// Whether an end still reads. A client that has ended waits for nothing, and bytes for it may
    /// stay at the proxy until its paths are given up.
    pub(super) fn waits_for_bytes(&self) -> bool {
        let reads = |app: &App| app.ended.is_none() && app.closed.is_none();
        !self.is_over() && (reads(&self.client) || self.origin.as_ref().is_none_or(reads))
    }
}
