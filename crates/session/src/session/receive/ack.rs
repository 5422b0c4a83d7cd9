//! Acknowledgements and reports of the peer.

use mpbond_units::Timestamp;

use crate::estimator::FarReport;
use crate::mechanism::Mechanism;
use crate::session::Session;
use crate::session::error::SubflowError;
use crate::session::event::Event;
use crate::session::timer::Timer;
use crate::signal::{Signal, SignalState};
use crate::subflow::SentFrame;
use crate::wire::{AckCount, PathReport};
use crate::{CloseCode, SubflowId};

impl Session {
    pub(super) fn take_ack(
        &mut self,
        now: Timestamp,
        on: SubflowId,
        time_us: u64,
        counts: &[AckCount],
    ) -> Result<(), SubflowError> {
        let delay = self.subflows.by_id(on).map(|s| s.estimator.one_way_delay());
        let delay = delay.unwrap_or_default();
        let transit = self.feedback.ack_arrived(now, on, delay, time_us);
        for c in counts {
            let Some(s) = self.subflows.by_id_mut(c.subflow) else {
                for frame in self.resume.resolve(c.subflow, c.count) {
                    self.frame_acked(now, frame);
                }
                continue;
            };
            if c.count > s.tx.octets {
                return Err(SubflowError::ours(
                    CloseCode::BadAck,
                    format!("{} octets of subflow {}", c.count, c.subflow),
                ));
            }
            let remote = Timestamp::from_micros(time_us).before(c.age);
            if self.config.uses(Mechanism::ArrivalRate) {
                s.estimator.on_pace(now, c.pace);
            }
            s.estimator
                .on_count(c.count, now.before(transit).before(c.age), remote);
            if c.count <= s.tx.acked {
                continue;
            }
            s.tx.acked = c.count;
            let silent = s.health.advanced(now);
            let mut done = Vec::new();
            s.sent.pop_acked(c.count, |f| done.push(f));
            // Feedback is under way all the time while bytes come: it is no load.
            let sent = match s.sent.data_bytes {
                0 => c.count,
                _ => s.tx.octets,
            };
            s.estimator.on_arrived(now, c.count, sent, remote);
            if !done.is_empty() && s.sent.is_empty() {
                s.estimator.owes_nothing(now);
            }
            for frame in done {
                self.frame_acked(now, frame);
            }
            if let Some(silent) = silent {
                self.events.push_back(Event::SubflowRecovered {
                    subflow: c.subflow,
                    silent,
                });
                if self.config.uses(Mechanism::DroppedCopies) {
                    let (reinjection, mut work, _) = self.reinjection();
                    reinjection.undo(c.subflow, &mut work);
                }
                self.paths_changed();
            }
        }
        self.subflows.share(now, self.identity.client);
        // A peer that has come back has said how far lost subflows got: the rest is sent again.
        let lost = self.resume.take_lost();
        self.requeue(lost);
        self.wake_writers();
        self.timers.stop(Timer::Schedule);
        self.rebalance(now);
        Ok(())
    }

    /// A frame's record was acknowledged.
    fn frame_acked(&mut self, now: Timestamp, frame: SentFrame) {
        match frame {
            SentFrame::Data {
                stream, range, fin, ..
            } => {
                self.streams.acked(stream, range, fin);
                self.close_if_done(now, stream);
            }
            SentFrame::Reset(id) => {
                if let Some(s) = self.streams.get_mut(id) {
                    signal_acked(&mut s.send.reset);
                }
                self.close_if_done(now, id);
            }
            SentFrame::Stop(id) => {
                if let Some(s) = self.streams.get_mut(id) {
                    signal_acked(&mut s.recv.stop);
                }
            }
            SentFrame::Open(id) => {
                if let Some(s) = self.streams.get_mut(id) {
                    s.opening.unacked = false;
                }
                self.close_if_done(now, id);
            }
            SentFrame::Connected(_)
            | SentFrame::Class(_)
            | SentFrame::Chunk { .. }
            | SentFrame::MaxData
            | SentFrame::MaxStreamData(_)
            | SentFrame::MaxStreams
            | SentFrame::Priority(_)
            | SentFrame::Admit(_)
            | SentFrame::Cut(_)
            | SentFrame::GoAway
            | SentFrame::Ping => {}
        }
    }

    pub(super) fn take_report(&mut self, now: Timestamp, r: PathReport) {
        if self.feedback.is_news(&r) {
            let report = FarReport {
                throughput: r.throughput,
                rtt: r.rtt,
                level_bytes: r.level_bytes,
                age: r.age,
                sojourn: r.sojourn,
                held_back: r.held_back,
            };
            self.handle_far_report(now, r.subflow, report);
        }
    }
}

fn signal_acked(slot: &mut Option<Signal>) {
    if let Some(s) = slot {
        s.state = SignalState::Acked;
    }
}
