//! What arrives: records, frame by frame.

use std::time::Duration;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::{Event, Session, SubflowError};
use crate::estimator::FarReport;
use crate::handshake::SessionKey;
use crate::stream::{RecvError, Stream};
use crate::subflow::{Owed, Phase, Signal, SignalState};
use crate::wire::{AckCount, Destination, Frame, PathReport, VERSION};
use crate::{CloseCode, ResetCode, StreamClass, StreamId, SubflowId};

/// PONGs that may wait on one subflow; a peer that sends more PINGs gets no answer to the rest.
const MAX_PONGS: usize = 8;

/// Pieces that may wait in all streams together: a hundred octets each beside their bytes. An honest
/// peer's full window comes in some thousand.
const MAX_PIECES: usize = 65_536;

/// How fast two good clocks may drift apart: 100 ppm.
const DRIFT: f64 = 100e-6;

impl Session {
    /// A record arrived whole on a subflow. `octets_end` are the ciphertext octets of its TLS
    /// stream up to the record's end.
    ///
    /// # Errors
    /// The subflow misbehaved, or the peer closed it. The session has let it go already, and its
    /// debts are taken over: tell the peer by [`super::close_record`] and close the connection.
    pub fn handle_record(
        &mut self,
        now: Timestamp,
        id: SubflowId,
        record: Bytes,
        octets_end: u64,
    ) -> Result<(), SubflowError> {
        if self.index(id).is_none() {
            // It was given up while this was under way.
            return Ok(());
        }
        let result = self.take_record(now, id, record, octets_end);
        if let Err(e) = &result {
            self.drop_subflow(now, id);
            if e.code == CloseCode::UnknownSession && self.client {
                self.lose("the proxy no longer knows the session (was it restarted?)");
            }
            if e.code == CloseCode::NotTrusted && e.by_peer {
                self.handle_distrust();
            }
        }
        result
    }

    fn take_record(
        &mut self,
        now: Timestamp,
        id: SubflowId,
        mut record: Bytes,
        octets_end: u64,
    ) -> Result<(), SubflowError> {
        let mut elicits = false;
        let record_bytes = record.len();
        while !record.is_empty() {
            let mut frame = Frame::parse(&mut record)
                .map_err(|e| SubflowError::ours(CloseCode::FrameEncoding, e.to_string()))?;
            if let Frame::Data { bytes, .. } = &mut frame
                && bytes.len() < record_bytes / 2
            {
                // A few bytes that wait must not pin a whole record's memory.
                *bytes = Bytes::copy_from_slice(bytes);
            }
            elicits |= frame.elicits_ack();
            self.take_frame(now, id, frame)?;
        }
        if let Some(i) = self.index(id) {
            let s = &mut self.subflows[i];
            let octets = octets_end.saturating_sub(s.rx_octets);
            s.rx_octets = octets_end;
            s.rx_at = now;
            if elicits {
                self.ack_octets += octets;
                self.ack_since.get_or_insert(now);
            }
        }
        Ok(())
    }

    fn take_frame(
        &mut self,
        now: Timestamp,
        id: SubflowId,
        frame: Frame,
    ) -> Result<(), SubflowError> {
        let Some(i) = self.index(id) else {
            return Ok(());
        };
        let awaits = match self.subflows[i].phase {
            Phase::AwaitOk | Phase::AwaitJoinOk => true,
            Phase::AwaitSession => {
                return Err(SubflowError::ours(
                    CloseCode::UnexpectedFrame,
                    "frame before any hello",
                ));
            }
            Phase::SendHello(_) | Phase::Up => false,
        };
        match frame {
            Frame::MpOk { .. } | Frame::MpJoinOk { .. } if awaits => self.take_answer(id, frame),
            Frame::Close { code, reason } => Err(SubflowError {
                code,
                reason,
                by_peer: true,
            }),
            _ if awaits => Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "frame before the answer to the hello",
            )),
            Frame::MpCapable { .. }
            | Frame::MpJoin { .. }
            | Frame::MpOk { .. }
            | Frame::MpJoinOk { .. } => Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "a second hello",
            )),
            Frame::Open {
                stream,
                class,
                max_stream_data,
                destination,
            } => self.take_open(now, stream, class, max_stream_data, destination),
            Frame::Data {
                stream,
                offset,
                fin,
                bytes,
                chunk_end: _,
            } => self.take_data(now, id, stream, offset, bytes, fin),
            Frame::Reset {
                stream,
                code,
                final_offset,
            } => self.take_reset(now, stream, code, final_offset),
            Frame::Stop { stream, code } => self.take_stop(now, stream, code),
            Frame::Ack { time_us, counts } => self.take_ack(now, id, time_us, &counts),
            Frame::MaxData(max) => {
                self.peer.max_data = self.peer.max_data.max(max);
                Ok(())
            }
            Frame::MaxStreamData { stream, max } => {
                if let Some(s) = self.known(now, stream)? {
                    s.max_send = s.max_send.max(max);
                    self.touch(stream);
                    self.wake_writers();
                }
                Ok(())
            }
            Frame::MaxStreams(max) => {
                self.peer.max_streams = self.peer.max_streams.max(max);
                Ok(())
            }
            Frame::PathReport(report) => {
                self.take_report(now, report);
                Ok(())
            }
            Frame::Ping(token) => {
                let pongs = &mut self.subflows[i].pongs;
                if pongs.len() < MAX_PONGS {
                    pongs.push_back(token);
                }
                Ok(())
            }
            Frame::Pong(_) => Ok(()),
            Frame::SubflowPriority { subflow, backup } => {
                if let Some(i) = self.index(subflow) {
                    self.subflows[i].backup = backup;
                }
                Ok(())
            }
            Frame::Cut { subflow } => {
                if self.index(subflow).is_some() {
                    self.drop_subflow(now, subflow);
                    self.events.push_back(Event::SubflowClosed {
                        subflow,
                        code: CloseCode::Cut,
                        reason: "cut by the other end".to_owned(),
                    });
                }
                Ok(())
            }
            Frame::GoAway { reason } => {
                self.going_away = true;
                self.events.push_back(Event::GoAway { reason });
                Ok(())
            }
        }
    }

    /// The proxy's answer to our hello.
    fn take_answer(&mut self, id: SubflowId, frame: Frame) -> Result<(), SubflowError> {
        let unexpected = |what: &str| Err(SubflowError::ours(CloseCode::UnexpectedFrame, what));
        let Some(i) = self.index(id) else {
            return Ok(());
        };
        match (&self.subflows[i].phase, frame) {
            (
                Phase::AwaitOk,
                Frame::MpOk {
                    version,
                    random,
                    session,
                    limits,
                },
            ) => {
                if version != VERSION {
                    return Err(SubflowError::ours(
                        CloseCode::Version,
                        format!("the proxy speaks version {version}"),
                    ));
                }
                self.id = Some(session);
                self.key = Some(SessionKey::derive(&self.random, &random, session));
                self.peer = limits;
                self.established = true;
                for s in self.streams.values_mut() {
                    s.max_send = s.max_send.max(limits.max_stream_data);
                }
                let ids: Vec<_> = self.streams.keys().copied().collect();
                for id in ids {
                    self.touch(id);
                }
                for i in 0..self.subflows.len() {
                    if self.subflows[i].phase == Phase::AwaitSession {
                        let hello = self.hello(&self.subflows[i]);
                        self.subflows[i].phase = Phase::SendHello(Box::new(hello));
                    }
                }
                self.wake_writers();
                self.events.push_back(Event::Established { session });
            }
            (Phase::AwaitJoinOk, Frame::MpJoinOk { proof }) => {
                let s = &self.subflows[i];
                let ok = match (&self.key, self.id) {
                    (Some(key), Some(session)) => {
                        key.verify(false, session, id, &s.exporter, &proof)
                    }
                    _ => false,
                };
                if !ok {
                    return Err(SubflowError::ours(CloseCode::BadProof, "of MP_JOIN_OK"));
                }
            }
            _ => return unexpected("answer to another hello"),
        }
        self.subflows[i].phase = Phase::Up;
        self.events.push_back(Event::SubflowUp(id));
        Ok(())
    }

    /// The stream a frame speaks of: `None` for one that is over, an error for one beyond the
    /// limit. A server makes it when it is new, since frames of a stream may overtake its OPEN.
    fn known(&mut self, now: Timestamp, id: StreamId) -> Result<Option<&mut Stream>, SubflowError> {
        let known = self.streams.contains_key(&id);
        if !known && self.closed.contains(id.0) {
            return Ok(None);
        }
        if !known {
            let allowed = if self.client {
                self.next_stream
            } else {
                self.granted_streams
            };
            if id.0 >= allowed {
                return Err(SubflowError::ours(
                    CloseCode::StreamLimit,
                    format!("stream {id}, where {allowed} are allowed"),
                ));
            }
            if self.lost {
                return Ok(None);
            }
            let window = self.new_stream_window();
            // The hello told the peer what it may send; the stream's own window takes over when it
            // first grows.
            let mut s = Stream::new(StreamClass::Bulk, None, now, window);
            s.granted = self.hello_stream_window();
            self.streams.insert(id, s);
            self.stats.streams_total += 1;
        }
        Ok(self.streams.get_mut(&id))
    }

    fn take_open(
        &mut self,
        now: Timestamp,
        id: StreamId,
        class: StreamClass,
        max_stream_data: u64,
        destination: Destination,
    ) -> Result<(), SubflowError> {
        if self.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a primary opens streams",
            ));
        }
        let Some(s) = self.known(now, id)? else {
            return Ok(());
        };
        s.max_send = s.max_send.max(max_stream_data);
        // A reinjected OPEN never dials twice; but the window it tells of may be news.
        if s.announced {
            self.touch(id);
            self.wake_writers();
            return Ok(());
        }
        s.announced = true;
        s.class = class;
        s.destination = Some(destination.clone());
        let readable = s.recv.readable() || s.recv.finished() || s.reset_in.is_some();
        self.events.push_back(Event::StreamOpened {
            stream: id,
            destination,
            class,
        });
        if readable {
            self.note_readable(now, id);
        }
        self.touch(id);
        Ok(())
    }

    fn take_data(
        &mut self,
        now: Timestamp,
        on: SubflowId,
        id: StreamId,
        offset: u64,
        bytes: Bytes,
        fin: bool,
    ) -> Result<(), SubflowError> {
        let len = bytes.len() as u64;
        self.stats.bytes_in += len;
        self.asks = 0;
        if let Some(i) = self.index(on) {
            let s = &mut self.subflows[i];
            s.bytes_in += len;
            s.last_in = Some(now);
            s.data_in_at = Some(now);
        }
        let (rx_data, granted_data) = (self.rx_data, self.granted_data);
        let Some(s) = self.known(now, id)? else {
            self.stats.redundant_bytes_in += len;
            return Ok(());
        };
        let end = offset + len;
        if end > s.granted {
            return Err(SubflowError::ours(
                CloseCode::FlowControl,
                format!("stream {id}: offset {end}, where {} are granted", s.granted),
            ));
        }
        let raised = end.saturating_sub(s.recv.highest());
        if rx_data + raised > granted_data {
            return Err(SubflowError::ours(
                CloseCode::FlowControl,
                format!(
                    "session: {} bytes, where {granted_data} are granted",
                    rx_data + raised
                ),
            ));
        }
        let before = (s.recv.readable(), s.recv.finished());
        let pieces_before = s.recv.pieces();
        // After a RESET, or when nobody will read, the bytes only count.
        let dropped = s.reset_in.is_some();
        let inserted = if dropped {
            Ok(len)
        } else {
            s.recv.insert(offset, bytes, fin)
        };
        let gained = s.recv.pieces() - pieces_before;
        let redundant = match inserted {
            Ok(redundant) => redundant,
            Err(e) => {
                self.pieces += gained;
                return Err(match e {
                    RecvError::TooFragmented => SubflowError::ours(
                        CloseCode::TooMuch,
                        format!("stream {id} comes in too many pieces"),
                    ),
                    RecvError::FinalSize => SubflowError::ours(
                        CloseCode::FlowControl,
                        format!("stream {id} has two ends"),
                    ),
                });
            }
        };
        s.first_in.get_or_insert(now);
        s.unique_in += len - redundant;
        s.redundant_in += redundant;
        let share = s.share(on);
        share.bytes_in += len;
        if redundant < len {
            share.last_in = Some(now);
            s.wrote_last = false;
        }
        let after = (s.recv.readable(), s.recv.finished());
        let (ended, announced, stalled) = (s.end_read, s.announced, s.stalled);
        let awaited = s.awaits;
        if !dropped {
            self.rx_data += raised;
        }
        self.pieces += gained;
        if self.pieces > MAX_PIECES {
            return Err(SubflowError::ours(
                CloseCode::TooMuch,
                format!("the session's bytes wait in more than {MAX_PIECES} pieces"),
            ));
        }
        self.stats.redundant_bytes_in += redundant;
        if awaited {
            self.touch(id);
        }
        if stalled {
            // Nobody reads these, so that nobody else would make up for what they take.
            self.grant_session();
        }
        if ended {
            self.discard_unread(id);
            self.close_if_done(now, id);
        } else if announced && after != before {
            self.note_readable(now, id);
        }
        Ok(())
    }

    fn take_reset(
        &mut self,
        now: Timestamp,
        id: StreamId,
        code: ResetCode,
        final_offset: u64,
    ) -> Result<(), SubflowError> {
        let (rx_data, granted_data) = (self.rx_data, self.granted_data);
        let Some(s) = self.known(now, id)? else {
            return Ok(());
        };
        let complete = s
            .recv
            .fin()
            .is_some_and(|f| s.recv.read_offset() + s.recv.waiting_bytes() == f);
        if s.reset_in.is_some() || complete {
            return Ok(());
        }
        let raised = final_offset.saturating_sub(s.recv.highest());
        if final_offset > s.granted || rx_data + raised > granted_data {
            return Err(SubflowError::ours(
                CloseCode::FlowControl,
                format!("stream {id} was reset beyond its window"),
            ));
        }
        let unread = s.recv.highest() + raised - s.recv.read_offset();
        let pieces = s.recv.pieces();
        s.recv.abandon(final_offset).map_err(|_| {
            SubflowError::ours(CloseCode::FlowControl, format!("stream {id} has two ends"))
        })?;
        s.reset_in = Some(code);
        let was_stalled = std::mem::take(&mut s.stalled);
        let (ended, announced) = (s.end_read, s.announced);
        self.stalled_streams -= usize::from(was_stalled);
        self.rx_data += raised;
        self.read_data += unread;
        self.pieces -= pieces;
        self.touch(id);
        self.grant_session();
        if ended {
            self.close_if_done(now, id);
        } else if announced {
            self.events.push_back(Event::StreamReadable(id));
        }
        Ok(())
    }

    fn take_stop(
        &mut self,
        now: Timestamp,
        id: StreamId,
        code: ResetCode,
    ) -> Result<(), SubflowError> {
        let Some(s) = self.known(now, id)? else {
            return Ok(());
        };
        let over = s.reset_out.is_some() || (s.fin_acked && s.send.all_acked());
        if !over {
            self.reset(now, id, code);
            self.events
                .push_back(Event::StreamStopped { stream: id, code });
        }
        Ok(())
    }

    fn take_report(&mut self, now: Timestamp, r: PathReport) {
        if r.number <= self.report_seen {
            return;
        }
        self.report_seen = r.number;
        self.handle_far_report(
            now,
            r.subflow,
            FarReport {
                throughput: r.throughput,
                rtt: r.rtt,
                level_bytes: r.level_bytes,
                age: r.age,
                sojourn: r.sojourn,
            },
        );
    }

    fn take_ack(
        &mut self,
        now: Timestamp,
        on: SubflowId,
        time_us: u64,
        counts: &[AckCount],
    ) -> Result<(), SubflowError> {
        let transit = self.ack_transit(now, on, time_us);
        self.last_ack = Some((on, now));
        for c in counts {
            let Some(i) = self.index(c.subflow) else {
                self.settle_one(now, c);
                continue;
            };
            let s = &mut self.subflows[i];
            if c.count > s.tx_octets {
                return Err(SubflowError::ours(
                    CloseCode::BadAck,
                    format!("{} octets of subflow {}", c.count, c.subflow),
                ));
            }
            let remote = Timestamp::from_micros(time_us).before(c.age);
            s.estimator.on_pace(now, c.pace);
            s.estimator
                .on_count(c.count, now.before(transit).before(c.age), remote);
            if c.count <= s.acked_octets {
                continue;
            }
            s.acked_octets = c.count;
            s.progress.rose(now.since(s.progress_at));
            s.progress_at = now;
            s.doubts = 0;
            let was_suspect = s.suspect.take().is_some();
            let mut done = Vec::new();
            s.sent.pop_acked(c.count, |f| done.push(f));
            for f in done {
                self.frame_acked(now, f);
            }
            if was_suspect {
                self.leave_to(c.subflow);
            }
        }
        self.settle_limbo(now);
        self.wake_writers();
        self.defer_until = None;
        self.rebalance(now);
        Ok(())
    }

    /// How long an ACK was under way: the least one-way delay its subflow can have, and what it
    /// took longer than the fastest of all ACKs, by the peer's clock.
    fn ack_transit(&mut self, now: Timestamp, on: SubflowId, time_us: u64) -> Duration {
        let now_us = (now.as_nanos() / 1_000) as i64;
        let offset = now_us.saturating_sub(i64::try_from(time_us).unwrap_or(i64::MAX));
        let least = match self.clock_offset {
            Some((least, at)) => {
                let drift = now.since(at).as_secs_f64() * 1e6 * DRIFT;
                least.saturating_add(drift as i64)
            }
            None => i64::MAX,
        };
        let extra = if offset < least {
            self.clock_offset = Some((offset, now));
            0
        } else {
            offset - least
        };
        let own = self
            .index(on)
            .map(|i| self.subflows[i].estimator.one_way_delay())
            .unwrap_or_default();
        // A second is more than any ACK takes; a peer's absurd clock shall not make us wait.
        let extra = Duration::from_micros(extra.clamp(0, 1_000_000) as u64);
        own + extra
    }

    /// A frame's record was acknowledged.
    fn frame_acked(&mut self, now: Timestamp, f: Owed) {
        match f {
            Owed::Data {
                stream, range, fin, ..
            } => {
                let Some(s) = self.streams.get_mut(&stream) else {
                    return;
                };
                if fin {
                    s.fin_acked = true;
                    s.fin_wanted = false;
                }
                let freed = s.send.ack(range);
                self.held -= freed;
                self.touch(stream);
                self.close_if_done(now, stream);
            }
            Owed::Reset(id) => {
                if let Some(s) = self.streams.get_mut(&id) {
                    ack_signal(&mut s.reset_out);
                }
                self.close_if_done(now, id);
            }
            Owed::Stop(id) => {
                if let Some(s) = self.streams.get_mut(&id) {
                    ack_signal(&mut s.stop_out);
                }
            }
            Owed::Open(id) => {
                if let Some(s) = self.streams.get_mut(&id) {
                    s.open_owed = false;
                }
                self.close_if_done(now, id);
            }
            Owed::MaxData
            | Owed::MaxStreamData(_)
            | Owed::MaxStreams
            | Owed::Priority(_)
            | Owed::Cut(_)
            | Owed::GoAway
            | Owed::Ping => {}
        }
    }

    /// The final count of a subflow that died while no other was left.
    fn settle_one(&mut self, now: Timestamp, c: &AckCount) {
        let Some(i) = self.limbo.iter().position(|(id, _)| *id == c.subflow) else {
            return;
        };
        let mut done = Vec::new();
        self.limbo[i].1.pop_acked(c.count, |f| done.push(f));
        for f in done {
            self.frame_acked(now, f);
        }
    }
}

fn ack_signal(slot: &mut Option<Signal>) {
    if let Some(s) = slot {
        s.state = SignalState::Acked;
    }
}
