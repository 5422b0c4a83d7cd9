//! Questions to the peer, whether it is still there and has credit; and answers to its own.
//!
//! A PING has a number, which the next ACK repeats. Only that is an answer: any other frame may be
//! an old one that a stranger has sent again.

use std::time::Duration;

use mpbond_units::Timestamp;

/// Time until the first question to a peer that gives no credit: it may be gone, or its credit was
/// lost. Doubled after each answer.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
const MAX_INTERVAL: Duration = Duration::from_millis(3200);
/// Time without a sign of the peer after which an end asks: it would not notice otherwise that the
/// peer has gone, or given up with a RESET that was lost.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Transmissions of a question without its answer, after which the peer counts as gone, although
/// frames arrive.
const MAX_UNANSWERED: u32 = 8;

/// The question to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    None,
    /// To be sent at this instant.
    Due(Timestamp),
    Sent(Timestamp),
    /// The channel has ended: there are no more.
    Over,
}

/// Questions and answers of one end.
pub(crate) struct Pings {
    state: State,
    /// Number of the last question.
    number: u64,
    /// Transmissions of it without an answer.
    unanswered: u32,
    /// Time until the next question for credit.
    interval: Duration,
    /// Highest number of a question of the peer, which an answer repeats.
    asked: u64,
    is_answer_due: bool,
    /// Instant of the last answer, or of the last new question of the peer.
    alive_at: Timestamp,
}

impl Pings {
    /// The questions of an end that asks at once if it `opens` the channel.
    pub(crate) fn new(now: Timestamp, opens: bool) -> Self {
        Self {
            state: if opens { State::Due(now) } else { State::None },
            number: 0,
            unanswered: 0,
            interval: MIN_INTERVAL,
            asked: 0,
            is_answer_due: false,
            alive_at: now,
        }
    }

    /// Takes a question of the peer.
    pub(crate) fn handle_ping(&mut self, now: Timestamp, number: u64) {
        if number > self.asked {
            self.asked = number;
            self.alive_at = now;
        }
        self.is_answer_due = true;
    }

    /// Takes what may be an answer.
    pub(crate) fn handle_ack(&mut self, now: Timestamp, number: u64) {
        let is_asked = matches!(self.state, State::Sent(_)) || self.unanswered > 0;
        if is_asked && number == self.number {
            self.state = State::None;
            self.unanswered = 0;
            self.alive_at = now;
        }
    }

    /// Whether an ACK has to be sent for a question of the peer.
    pub(crate) fn is_answer_due(&self) -> bool {
        self.is_answer_due
    }

    /// The number for an ACK.
    pub(crate) fn answer(&mut self) -> u64 {
        self.is_answer_due = false;
        self.asked
    }

    /// The number of a question that is to be sent now.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Option<u64> {
        if !matches!(self.state, State::Due(at) if at <= now) {
            return None;
        }
        self.number += u64::from(self.unanswered == 0);
        self.state = State::Sent(now);
        Some(self.number)
    }

    /// Asks later if `is_blocked`: octets wait for credit.
    pub(crate) fn set_blocked(&mut self, now: Timestamp, is_blocked: bool) {
        match self.state {
            State::None if is_blocked => {
                self.state = State::Due(now + self.interval);
                self.interval = (self.interval * 2).min(MAX_INTERVAL);
            }
            State::Due(at) if !is_blocked && at > now => self.state = State::None,
            _ => {}
        }
        if !is_blocked {
            self.interval = MIN_INTERVAL;
        }
    }

    /// Asks no more.
    pub(crate) fn end(&mut self) {
        self.state = State::Over;
        self.unanswered = 0;
    }

    /// Applies the passing of time; returns whether the answer to a question is late.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp, timeout: Duration) -> bool {
        if self.deadline(timeout).is_none_or(|at| now < at) {
            return false;
        }
        let is_late = matches!(self.state, State::Sent(_));
        self.unanswered += u32::from(is_late);
        if !matches!(self.state, State::Due(_)) {
            self.state = State::Due(now);
        }
        is_late
    }

    /// Instant at which [`handle_timeout`](Self::handle_timeout) or [`poll`](Self::poll) is due.
    pub(crate) fn deadline(&self, timeout: Duration) -> Option<Timestamp> {
        match self.state {
            State::None => Some(self.alive_at + KEEP_ALIVE),
            State::Due(at) => Some(at),
            State::Sent(at) => Some(at + timeout),
            State::Over => None,
        }
    }

    /// Whether the peer does not answer, although frames may arrive.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered >= MAX_UNANSWERED
    }
}
