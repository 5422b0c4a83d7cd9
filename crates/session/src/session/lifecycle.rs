//! Timeouts, and the end of subflows and of the session.

use mpbond_units::Timestamp;

use super::Session;
use super::event::Event;
use super::health::keep_alive;
use super::health::{self, Verdict};
use super::reinject::Rebalanced;
use super::resume::Dead;
use super::timer::{Deadlines, Timer};
use crate::CloseCode;
use crate::SubflowId;
use crate::subflow::{Phase, SentFrame, Subflow};

impl Session {
    /// Time has passed. To be called at [`poll_timeout`](Self::poll_timeout); earlier calls do no
    /// harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.timers.is_due(Timer::Schedule, now) {
            self.timers.stop(Timer::Schedule);
        }
        if self.timers.is_due(Timer::Stall, now) {
            let (streams, control) = (&mut self.streams, &mut self.control);
            let next = self.flow.check_stalls(now, streams, control);
            self.timers.set(Timer::Stall, next);
        }
        let due = self.deadlines();
        if due.is_due(Timer::Liveness, now) {
            self.liveness.ask(now, &mut self.subflows);
        }
        if due.is_due(Timer::KeepAlive, now)
            && let Some((id, _)) = keep_alive::due(&self.streams, &self.subflows)
            && let Some(s) = self.subflows.by_id_mut(id)
        {
            s.pings.wanted = true;
        }
        if due.is_due(Timer::Health, now) {
            self.check_health(now);
        }
        self.recall_from_failed();
        self.rebalance(now);
        if due.is_due(Timer::Resume, now) {
            self.lose(now, "no path to the other end for too long");
        }
    }

    /// Some subflow has made no progress for long.
    fn check_health(&mut self, now: Timestamp) {
        let silent = self.watch().to_probe(now);
        if !silent.is_empty() {
            let (reinjection, mut work, _) = self.reinjection();
            reinjection.probe(&silent, &mut work);
            self.timers.stop(Timer::Schedule);
        }
        for (id, verdict) in self.watch().verdicts(now) {
            match verdict {
                Verdict::GivenUp(reason) => self.cut(now, id, reason),
                Verdict::PotentiallyFailed => {
                    if let Some(s) = self.subflows.by_id_mut(id) {
                        s.health.failed_since = Some(now);
                        s.pings.wanted = true;
                        self.events.push_back(Event::SubflowPotentiallyFailed(id));
                        self.timers.stop(Timer::Schedule);
                        self.paths_changed();
                        self.ask_idle(now);
                    }
                }
            }
        }
        for id in self.watch().to_copy(now) {
            if let Some(s) = self.subflows.by_id_mut(id) {
                s.health.copied = true;
            }
        }
    }

    /// A subflow has turned out not to work: a primary with open streams asks over the others.
    fn ask_idle(&mut self, now: Timestamp) {
        if self.identity.client && !self.streams.is_empty() {
            health::ask_idle(now, &mut self.subflows);
        }
    }

    /// Asks by a PING whether a subflow works, unless something is owed on it, which asks by
    /// itself. An end that only receives notices nothing of a path that has fallen silent.
    pub fn ask(&mut self, id: SubflowId) {
        let may = |s: &&mut Subflow| s.carries() && !s.is_express() && s.sent.is_empty();
        if let Some(s) = self.subflows.by_id_mut(id).filter(may) {
            s.pings.wanted = true;
        }
    }

    pub(super) fn recall_from_failed(&mut self) {
        let (reinjection, mut work, control) = self.reinjection();
        reinjection.recall_from_failed(&mut work, control);
    }

    pub(super) fn rebalance(&mut self, now: Timestamp) {
        let credit = self.flow.credit();
        let (reinjection, mut work, _) = self.reinjection();
        match reinjection.rebalance(now, credit, &mut work) {
            Rebalanced::Nothing => {}
            Rebalanced::Recalled {
                subflow,
                bytes,
                gain,
            } => self.events.push_back(Event::Recalled {
                subflow,
                bytes,
                gain,
            }),
            Rebalanced::Cut(id) => {
                self.stats.cuts += 1;
                self.cut(now, id, "it carried only copies".to_owned());
            }
        }
    }

    /// Gives a subflow up, with CUT to the peer and an event for the driver.
    fn cut(&mut self, now: Timestamp, subflow: SubflowId, reason: String) {
        let octets = self.subflows.by_id(subflow).map_or(0, Subflow::arrived);
        self.drop_subflow(now, subflow);
        self.control.cut(subflow);
        self.events.push_back(Event::SubflowClosed {
            subflow,
            octets,
            code: CloseCode::Cut,
            reason,
        });
    }

    /// The connection of a subflow is gone. What it owed goes to the others; when it was the last,
    /// the session waits for a new one.
    ///
    /// A primary sends CUT to the proxy: where an address is gone, or a NAT has forgotten, the
    /// proxy notices nothing by itself, and the subflow counts towards its limit.
    pub fn handle_subflow_closed(&mut self, now: Timestamp, id: SubflowId) {
        if self.identity.client && self.subflows.by_id(id).is_some_and(Subflow::carries) {
            self.control.cut(id);
        }
        self.drop_subflow(now, id);
    }

    /// Forgets a subflow; others take over what it owed.
    pub(super) fn drop_subflow(&mut self, now: Timestamp, id: SubflowId) {
        let Some(mut gone) = self.subflows.remove(id) else {
            return;
        };
        let counted = &gone.counters;
        self.gone
            .add(&gone.name, counted.bytes_in, counted.bytes_out);
        self.known.note(&gone);
        self.paths_changed();
        self.resume.note_dead(Dead {
            subflow: id,
            octets: gone.rx.octets,
            at: gone.rx.at,
        });
        self.feedback.forget(id);
        // Also before its hello was written: until there is a session, the others wait for it.
        if !self.identity.established && matches!(gone.phase, Phase::SendHello(_) | Phase::AwaitOk)
        {
            self.let_another_open();
        }
        if !gone.sent.is_empty() {
            self.ask_idle(now);
        }
        for s in self.streams.values_mut() {
            s.send.forget_subflow(id);
        }
        if self.identity.lost {
            // Nothing is sent again.
        } else if self.subflows.iter().any(Subflow::works) {
            let lost = gone.sent.drain().collect();
            self.requeue(lost);
        } else {
            // The peer's counts come with the next one that joins, or that works again, or have
            // come with one whose join is to be answered; until one of them works it is unknown
            // which frames have arrived.
            self.resume.keep_unresolved(id, gone.sent);
        }
        // An express is no path of its own: its proxy does not wait for it longer than for none.
        if self.subflows.iter().all(Subflow::is_express) && !self.identity.lost {
            self.resume.lost_paths(now);
        }
        self.timers.stop(Timer::Schedule);
    }

    /// Frames that have not arrived are to be sent again.
    pub(super) fn requeue(&mut self, frames: Vec<SentFrame>) {
        let (_, mut work, control) = self.reinjection();
        work.requeue(frames, control);
    }

    /// The subflow that was to open the session is gone: another one does it, the one that
    /// connected last, of which most can be hoped.
    fn let_another_open(&mut self) {
        let waiting = |s: &Subflow| s.phase == Phase::AwaitSession;
        if let Some(i) = self.subflows.iter().rposition(waiting) {
            self.prepare_hello(i);
        }
    }

    /// Client: the proxy no longer trusts this device. An established session is over, since no
    /// subflow could join it again.
    pub fn handle_distrust(&mut self, now: Timestamp) {
        if self.identity.client && self.identity.established {
            self.lose(now, "the proxy no longer trusts this device");
        }
    }

    /// The session is over: see [`end`](Self::end).
    pub(super) fn lose(&mut self, now: Timestamp, reason: &str) {
        if !self.identity.lost {
            let reason = reason.to_owned();
            self.events.push_back(Event::Lost { reason });
            self.end(now);
        }
    }

    /// Ends the session. A half of a stream that has arrived completely, bytes and FIN, remains
    /// readable; everything else is reset.
    pub fn end(&mut self, now: Timestamp) {
        if std::mem::replace(&mut self.identity.lost, true) {
            return;
        }
        self.resume.clear();
        self.timers = Deadlines::default();
        for id in self.streams.lose() {
            self.flow.drop_reset(id, &mut self.streams);
            self.close_if_done(now, id);
            if self.streams.contains(id) {
                self.events.push_back(Event::StreamReadable(id));
            }
        }
    }
}
