//! Receive path: records, frame by frame; [`ack`] for acknowledgements and reports.

mod ack;

use bytes::Bytes;
use mpbond_units::Timestamp;

use super::Session;
use super::error::SubflowError;
use super::event::Event;
use crate::handshake::SessionKey;
use crate::stream::{RecvError, Stream};
use crate::subflow::{Phase, Subflow};
use crate::treatment::Treatment;
use crate::wire::{Destination, Frame};
use crate::{CloseCode, ResetCode, Role, StreamClass, StreamId, SubflowId};

/// Most PONGs that wait on one subflow; further PINGs of the peer are not answered.
const MAX_PONGS: usize = 8;

impl Session {
    /// A record arrived whole on a subflow. `octets_end` are the ciphertext octets of its TLS
    /// stream up to the record's end.
    ///
    /// # Errors
    /// The subflow misbehaved, or the peer closed it. The session has let it go already, and its
    /// debts are taken over: tell the peer by [`super::error::close_record`] and close the
    /// connection.
    pub fn handle_record(
        &mut self,
        now: Timestamp,
        id: SubflowId,
        record: Bytes,
        octets_end: u64,
    ) -> Result<(), SubflowError> {
        if self.subflows.by_id(id).is_none() {
            // It was given up while this was under way.
            return Ok(());
        }
        let result = self.take_record(now, id, record, octets_end);
        if let Err(e) = &result {
            self.drop_subflow(now, id);
            if e.code == CloseCode::UnknownSession && self.identity.client {
                self.lose(
                    now,
                    "the proxy no longer knows the session (was it restarted?)",
                );
            }
            if e.code == CloseCode::GoingAway && e.by_peer && self.identity.established {
                self.lose(now, "ended by the other end");
            }
            if e.code == CloseCode::NotTrusted && e.by_peer {
                self.handle_distrust(now);
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
                .map_err(|e| SubflowError::ours(e.close_code(), e.to_string()))?;
            if let Frame::Data { bytes, .. } = &mut frame
                && bytes.len() < record_bytes / 2
            {
                // A few bytes that wait must not pin a whole record's memory.
                *bytes = Bytes::copy_from_slice(bytes);
            }
            elicits |= frame.elicits_ack() && !self.answers(id, &frame);
            self.take_frame(now, id, frame)?;
        }
        if let Some(s) = self.subflows.by_id_mut(id) {
            let octets = octets_end.saturating_sub(s.rx.octets);
            s.rx.octets = octets_end;
            s.rx.at = now;
            if elicits {
                self.feedback.note_octets(now, octets);
            }
        }
        Ok(())
    }

    /// Whether a frame is a PING that is answered: the record of its PONG contains the ACK.
    fn answers(&self, id: SubflowId, frame: &Frame) -> bool {
        let takes = |s: &Subflow| s.pings.pongs.len() < MAX_PONGS;
        matches!(frame, Frame::Ping(_)) && self.subflows.by_id(id).is_some_and(takes)
    }

    fn take_frame(
        &mut self,
        now: Timestamp,
        id: SubflowId,
        frame: Frame,
    ) -> Result<(), SubflowError> {
        let Some(s) = self.subflows.by_id_mut(id) else {
            return Ok(());
        };
        let awaits = match s.phase {
            Phase::AwaitOk | Phase::AwaitJoinOk => true,
            Phase::AwaitSession if matches!(frame, Frame::Close { .. }) => true,
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
                treatment,
                max_stream_data,
                destination,
                confirm,
            } => self.take_open(
                now,
                stream,
                treatment,
                max_stream_data,
                destination,
                confirm,
            ),
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
                let peer = &mut self.flow.peer;
                peer.max_data = peer.max_data.max(max);
                Ok(())
            }
            Frame::MaxStreamData { stream, max } => {
                if let Some(s) = self.known(now, stream)? {
                    s.send.max_offset = s.send.max_offset.max(max);
                    self.streams.update(stream);
                    self.wake_writers();
                }
                Ok(())
            }
            Frame::MaxStreams(max) => {
                let before = self.streams_left();
                let peer = &mut self.flow.peer;
                peer.max_streams = peer.max_streams.max(max);
                if self.identity.client && self.streams_left() > before {
                    self.events.push_back(Event::StreamsAllowed);
                }
                Ok(())
            }
            Frame::PathReport(report) => {
                self.take_report(now, report);
                Ok(())
            }
            Frame::Ping(token) => {
                if s.pings.pongs.len() < MAX_PONGS {
                    s.pings.pongs.push_back(token);
                }
                Ok(())
            }
            Frame::Pong(_) => Ok(()),
            Frame::SubflowRole {
                subflow,
                role,
                cost,
            } => {
                if role != Role::Express {
                    self.take_role(subflow, role == Role::Backup, cost);
                }
                Ok(())
            }
            Frame::Connected { stream } => self.take_connected(now, stream),
            Frame::Chunk { stream, end } => self.take_chunk(now, stream, end),
            Frame::Class {
                stream,
                change,
                treatment,
            } => self.take_class(now, stream, change, treatment),
            Frame::Admit {
                subflow,
                change,
                least,
            } => self.take_admit(subflow, change, least),
            // Of a later version: its record counts, if it elicits an ACK.
            Frame::Extension { .. } => Ok(()),
            Frame::Cut { subflow } => {
                if let Some(s) = self.subflows.by_id(subflow) {
                    let octets = s.arrived();
                    self.drop_subflow(now, subflow);
                    self.events.push_back(Event::SubflowClosed {
                        subflow,
                        octets,
                        code: CloseCode::Cut,
                        reason: "cut by the other end".to_owned(),
                    });
                }
                Ok(())
            }
            Frame::GoAway { reason } => {
                self.identity.going_away = true;
                if !std::mem::replace(&mut self.identity.peer_goes_away, true) {
                    self.events.push_back(Event::GoAway { reason });
                }
                Ok(())
            }
        }
    }

    /// The proxy's answer to our hello.
    fn take_answer(&mut self, id: SubflowId, frame: Frame) -> Result<(), SubflowError> {
        let unexpected = |what: &str| Err(SubflowError::ours(CloseCode::UnexpectedFrame, what));
        let Some(i) = self.subflows.index(id) else {
            return Ok(());
        };
        match (&self.subflows[i].phase, frame) {
            (
                Phase::AwaitOk,
                Frame::MpOk {
                    random,
                    session,
                    limits,
                    capabilities,
                },
            ) => {
                let identity = &mut self.identity;
                identity.id = Some(session);
                let key = SessionKey::derive(&identity.random, &random.0, session);
                identity.key = Some(key);
                identity.established = true;
                identity.peer = Some(capabilities);
                self.flow.peer = limits;
                for id in self.streams.ids() {
                    if let Some(s) = self.streams.get_mut(id) {
                        s.send.max_offset = s.send.max_offset.max(limits.max_stream_data);
                    }
                    self.streams.update(id);
                }
                for i in 0..self.subflows.len() {
                    if self.subflows[i].phase == Phase::AwaitSession {
                        self.prepare_hello(i);
                    }
                }
                self.wake_writers();
                self.events.push_back(Event::Established { session });
            }
            (Phase::AwaitJoinOk, Frame::MpJoinOk { proof }) => {
                let s = &self.subflows[i];
                let ok = match (&self.identity.key, self.identity.id) {
                    (Some(key), Some(session)) => {
                        key.verify(false, session, id, &s.exporter, &proof.0)
                    }
                    _ => false,
                };
                if !ok {
                    return Err(SubflowError::ours(CloseCode::BadProof, "of MP_JOIN_OK"));
                }
            }
            _ => return unexpected("answer to another hello"),
        }
        let s = &mut self.subflows[i];
        s.phase = Phase::Up;
        if s.radio.for_peer.is_some() {
            self.control.admit(id);
        }
        self.paths_changed();
        self.events.push_back(Event::SubflowUp(id));
        Ok(())
    }

    /// The stream a frame speaks of: `None` for one that is over, an error for one beyond the
    /// limit. A server makes it when it is new, since frames of a stream may overtake its OPEN.
    pub(super) fn known(
        &mut self,
        now: Timestamp,
        id: StreamId,
    ) -> Result<Option<&mut Stream>, SubflowError> {
        let known = self.streams.contains(id);
        if !known && self.streams.is_closed(id) {
            return Ok(None);
        }
        if !known {
            let allowed = if self.identity.client {
                self.streams.next()
            } else {
                self.flow.granted_streams()
            };
            if id.0 >= allowed {
                return Err(SubflowError::ours(
                    CloseCode::StreamLimit,
                    format!("stream {id}, where {allowed} are allowed"),
                ));
            }
            if self.identity.lost {
                return Ok(None);
            }
            let window = self.flow.new_stream_window(&self.streams);
            // The peer sends within the window of the hello; the stream's own takes over when it
            // first grows.
            let mut s = Stream::new(StreamClass::Bulk, None, now, window);
            s.recv.granted = self.flow.hello_stream_window();
            self.streams.accept(id, s);
            self.stats.streams_total += 1;
        }
        Ok(self.streams.get_mut(id))
    }

    fn take_open(
        &mut self,
        now: Timestamp,
        id: StreamId,
        treatment: Treatment,
        max_stream_data: u64,
        destination: Destination,
        confirm: bool,
    ) -> Result<(), SubflowError> {
        if self.identity.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a primary opens streams",
            ));
        }
        let Some(s) = self.known(now, id)? else {
            return Ok(());
        };
        s.send.max_offset = s.send.max_offset.max(max_stream_data);
        // A reinjected OPEN never dials twice; but the window it grants may be news.
        if s.opening.announced {
            self.streams.update(id);
            self.wake_writers();
            return Ok(());
        }
        // A change of the treatment may have overtaken OPEN.
        if s.treatment_change.number == 0 {
            self.take_treatment(id, treatment)?;
        }
        let Some(s) = self.streams.get_mut(id) else {
            return Ok(());
        };
        s.opening.announced = true;
        s.opening.unconfirmed = confirm;
        s.destination = Some(destination.clone());
        let (class, readable) = (s.treatment.class, s.recv.is_readable());
        self.events.push_back(Event::StreamOpened {
            stream: id,
            destination,
            class,
        });
        if readable {
            self.note_readable(now, id);
        }
        self.streams.update(id);
        Ok(())
    }

    fn take_connected(&mut self, now: Timestamp, id: StreamId) -> Result<(), SubflowError> {
        if !self.identity.client {
            return Err(SubflowError::ours(
                CloseCode::UnexpectedFrame,
                "only a proxy confirms streams",
            ));
        }
        if let Some(s) = self.known(now, id)?
            && std::mem::take(&mut s.opening.unconfirmed)
        {
            self.events.push_back(Event::StreamConnected(id));
            self.streams.update(id);
        }
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
        self.liveness.reset();
        self.events.extend(self.movement.moved(now));
        if let Some(s) = self.subflows.by_id_mut(on) {
            s.counters.bytes_in += len;
            s.counters.last_in = Some(now);
        }
        let room = self.flow.room();
        let Some(s) = self.known(now, id)? else {
            self.stats.redundant_bytes_in += len;
            return Ok(());
        };
        let recv = &mut s.recv;
        let end = offset + len;
        if end > recv.granted {
            return Err(SubflowError::ours(
                CloseCode::FlowControl,
                format!(
                    "stream {id}: offset {end}, where {} are granted",
                    recv.granted
                ),
            ));
        }
        let highest = recv.buffer.highest();
        room.check(end.saturating_sub(highest))?;
        let before = (recv.buffer.readable(), recv.buffer.finished());
        let (pieces, waiting) = (recv.buffer.pieces(), recv.buffer.waiting_bytes());
        // After a RESET the bytes only count.
        let inserted = match recv.reset {
            Some(_) => Ok(0),
            None => recv.buffer.insert(offset, bytes, fin),
        };
        let buffer = &recv.buffer;
        let (raised, gained) = (buffer.highest() - highest, buffer.pieces() - pieces);
        let redundant = len - (buffer.waiting_bytes() - waiting);
        let after = (buffer.readable(), buffer.finished());
        let (ended, stalled) = (recv.end_read, recv.stalled);
        s.counters.received(now, on, len, redundant);
        if redundant < len {
            s.wrote_last = false;
        }
        let (announced, awaited) = (s.opening.announced, s.listed.awaits);
        let has_share = s.counters.shares() == s.listed.shares;
        // What an error has left in the buffer counts, too: the session outlives the subflow.
        self.flow.received(raised);
        self.flow.add_pieces(gained);
        if !has_share {
            self.streams.update_shares(id);
        }
        let taken = match inserted {
            Ok(_) => self.flow.check_pieces(),
            Err(RecvError::TooFragmented) => Err(SubflowError::ours(
                CloseCode::TooMuch,
                format!("stream {id} comes in too many pieces"),
            )),
            Err(RecvError::FinalSize) => Err(SubflowError::ours(
                CloseCode::FlowControl,
                format!("stream {id} has two ends"),
            )),
        };
        self.stats.redundant_bytes_in += redundant;
        if redundant < len && !self.identity.client {
            self.streams.asked(id);
        }
        if awaited {
            self.streams.update(id);
        }
        if stalled {
            self.streams.update_receiving(id);
            // These are not read, so that nothing else would make up for the window they use.
            self.flow.grant_session(&self.streams, &mut self.control);
        }
        if ended {
            self.flow.discard(id, &mut self.streams, &mut self.control);
            self.close_if_done(now, id);
        } else if announced && after != before {
            self.note_readable(now, id);
        }
        taken
    }

    fn take_reset(
        &mut self,
        now: Timestamp,
        id: StreamId,
        code: ResetCode,
        final_offset: u64,
    ) -> Result<(), SubflowError> {
        let room = self.flow.room();
        let Some(s) = self.known(now, id)? else {
            return Ok(());
        };
        let recv = &mut s.recv;
        let arrived = recv.buffer.read_offset() + recv.buffer.waiting_bytes();
        if recv.reset.is_some() || recv.buffer.fin() == Some(arrived) {
            return Ok(());
        }
        let raised = final_offset.saturating_sub(recv.buffer.highest());
        if final_offset > recv.granted || !room.covers(raised) {
            return Err(SubflowError::ours(
                CloseCode::FlowControl,
                format!("stream {id} was reset beyond its window"),
            ));
        }
        let unread = recv.buffer.highest() + raised - recv.buffer.read_offset();
        let pieces = recv.buffer.pieces();
        recv.buffer.abandon(final_offset).map_err(|_| {
            SubflowError::ours(CloseCode::FlowControl, format!("stream {id} has two ends"))
        })?;
        recv.reset = Some(code);
        let was_stalled = std::mem::take(&mut recv.stalled);
        let (ended, announced) = (recv.end_read, s.opening.announced);
        if was_stalled {
            self.flow.unstalled();
        }
        self.flow.received(raised);
        self.flow.abandoned(unread, pieces);
        self.streams.update(id);
        self.streams.update_receiving(id);
        self.flow.grant_session(&self.streams, &mut self.control);
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
        if !s.send.is_over() {
            self.reset(now, id, code);
            self.events
                .push_back(Event::StreamStopped { stream: id, code });
        }
        Ok(())
    }
}
