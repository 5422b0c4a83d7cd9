use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::TlsError;
use super::config::{Purpose, Trust};
use super::exporter::Exporter;
use super::handshake::{self, Established, Rekey};
use super::record::{
    ALERT, APPLICATION_DATA, HANDSHAKE, MAX_RECORD_PLAINTEXT_BYTES, Opener, RECORD_OVERHEAD_BYTES,
    Sealer, frame,
};
use crate::identity::{DeviceId, Identity};

/// A receive buffer starts at two records and doubles while reads fill it.
const FIRST_BLOCK_BYTES: usize = 32 * 1024;
/// Most octets one read(2) may take.
const MAX_BLOCK_BYTES: usize = 256 * 1024;
/// Payloads shorter than this part of a block are copied out: one of them, kept
/// in a reassembly queue, would pin the whole block it arrived in. Full records
/// never are.
const COPY_BELOW: usize = 16;
/// Room for four full records, what a driver writes at once.
const SEND_BLOCK_BYTES: usize = 4 * (MAX_RECORD_PLAINTEXT_BYTES + RECORD_OVERHEAD_BYTES);
/// AES-GCM stays safe for 2^24.5 records under one key (RFC 8446 section
/// 5.5); keys change well before.
const RECORDS_PER_KEY: u64 = 1 << 23;

/// One decrypted record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What the peer gave to one call of [`TlsStream::queue_record`].
    pub payload: Bytes,
    /// Ciphertext octets from the start of the TLS stream to the end of this
    /// record; the sender's `queue_record` returned the same number.
    pub ciphertext_end: u64,
}

/// A byte stream to one known device, in TLS 1.3 records.
///
/// Nothing here waits: reading and writing poll the socket, and the caller
/// decides when. Received records come out of [`TlsStream::next_record`] until
/// it has none, then [`TlsStream::poll_fill`] asks the socket for more. Buffers
/// are given back while nothing is in them.
pub struct TlsStream<S = TcpStream> {
    io: S,
    peer_id: DeviceId,
    purpose: Purpose,
    exporter: Exporter,
    rekey: Rekey,

    opener: Opener,
    received: BytesMut,
    block_bytes: usize,
    ciphertext_in: u64,
    ciphertext_opened: u64,
    eof: bool,
    peer_closed: bool,
    failed: bool,

    sealer: Sealer,
    to_send: BytesMut,
    ciphertext_out: u64,
    records_per_key: u64,
    owes_key_update: bool,
    closed: bool,
}

impl<S> std::fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream")
            .field("peer_id", &self.peer_id)
            .field("ciphertext_in", &self.ciphertext_in)
            .field("ciphertext_out", &self.ciphertext_out)
            .finish_non_exhaustive()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Shakes hands as the calling side; only the device `expect` may answer.
    ///
    /// A server learns who calls in the last flight, so its refusal arrives
    /// after this returned: as [`TlsError::NotTrusted`] from the first
    /// [`TlsStream::next_record`].
    ///
    /// # Errors
    /// [`TlsError::WrongPeer`] when another device answers,
    /// [`TlsError::Deadline`] when nothing came of it in time, else what went
    /// wrong.
    pub async fn connect(
        mut io: S,
        identity: &Identity,
        expect: DeviceId,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let (expect, purpose) = (Some(expect), Purpose::Daemon);
        let done = handshake::connect(&mut io, identity, expect, purpose, deadline).await?;
        Ok(Self::new(io, done))
    }

    /// Shakes hands as the calling side, to pair: with the device `expect`, or with whoever
    /// answers. Then who answered is only what [`TlsStream::peer_id`] says, and trusted by
    /// nothing yet.
    ///
    /// # Errors
    /// As [`TlsStream::connect`]; [`TlsError::WrongProtocol`] when the other end pairs with
    /// nobody.
    pub async fn connect_to_pair(
        mut io: S,
        identity: &Identity,
        expect: Option<DeviceId>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let purpose = Purpose::Pairing;
        let done = handshake::connect(&mut io, identity, expect, purpose, deadline).await?;
        Ok(Self::new(io, done))
    }

    /// Shakes hands as the called side; `trust` is asked about the caller.
    ///
    /// # Errors
    /// [`TlsError::UntrustedPeer`] when `trust` says no,
    /// [`TlsError::Deadline`] when nothing came of it in time, else what went
    /// wrong. The caller has been told by an alert.
    pub async fn accept(
        mut io: S,
        identity: &Identity,
        trust: Arc<dyn Trust>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let purposes = &[Purpose::Daemon];
        let done = handshake::accept(&mut io, identity, trust, purposes, deadline).await?;
        Ok(Self::new(io, done))
    }

    /// Shakes hands as the called side with whoever wants to pair, and with nobody else.
    ///
    /// # Errors
    /// As [`TlsStream::accept`], except that nobody is untrusted.
    pub async fn accept_to_pair(
        mut io: S,
        identity: &Identity,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let nobody: Arc<dyn Trust> = Arc::new(|_: &DeviceId| false);
        let purposes = &[Purpose::Pairing];
        let done = handshake::accept(&mut io, identity, nobody, purposes, deadline).await?;
        Ok(Self::new(io, done))
    }

    /// As [`TlsStream::accept`], and also with whoever wants to pair and nothing else:
    /// [`TlsStream::purpose`] tells which it is, and must be asked.
    ///
    /// # Errors
    /// As [`TlsStream::accept`].
    pub async fn accept_either(
        mut io: S,
        identity: &Identity,
        trust: Arc<dyn Trust>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let purposes = &[Purpose::Daemon, Purpose::Pairing];
        let done = handshake::accept(&mut io, identity, trust, purposes, deadline).await?;
        Ok(Self::new(io, done))
    }

    fn new(io: S, done: Established) -> Self {
        Self {
            io,
            peer_id: done.peer_id,
            purpose: done.purpose,
            exporter: done.exporter,
            rekey: done.rekey,
            opener: done.opener,
            ciphertext_in: done.ciphertext_in + done.received.len() as u64,
            ciphertext_opened: done.ciphertext_in,
            received: if done.received.is_empty() {
                BytesMut::new()
            } else {
                done.received
            },
            block_bytes: FIRST_BLOCK_BYTES,
            eof: false,
            peer_closed: false,
            failed: false,
            sealer: done.sealer,
            to_send: BytesMut::new(),
            ciphertext_out: done.ciphertext_out,
            records_per_key: RECORDS_PER_KEY,
            owes_key_update: false,
            closed: false,
        }
    }

    /// Reads once from the socket. `Ok(0)` is the end of the TCP stream; call
    /// [`TlsStream::next_record`] then to learn whether it was a clean one.
    /// When the buffer is full of records not yet taken, nothing is read and
    /// the number of octets waiting is returned.
    ///
    /// # Errors
    /// What read(2) says.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.eof {
            return Poll::Ready(Ok(0));
        }
        if self.received.len() >= MAX_BLOCK_BYTES {
            return Poll::Ready(Ok(self.received.len()));
        }
        self.make_room();
        let room = self.received.capacity() - self.received.len();
        let result = pin!(self.io.read_buf(&mut self.received)).poll(cx);
        match &result {
            Poll::Pending => {
                if self.received.is_empty() {
                    self.received = BytesMut::new();
                    self.block_bytes = FIRST_BLOCK_BYTES;
                }
            }
            Poll::Ready(Ok(0)) => self.eof = true,
            Poll::Ready(Ok(n)) => {
                self.ciphertext_in += *n as u64;
                if *n == room {
                    self.block_bytes = (self.block_bytes * 2).min(MAX_BLOCK_BYTES);
                }
            }
            Poll::Ready(Err(_)) => {}
        }
        result
    }

    /// Makes room for a useful read: first in the block at hand, as soon as
    /// its records were dropped, else in a new one.
    fn make_room(&mut self) {
        let used = self.received.len();
        if self.received.capacity() - used >= self.block_bytes / 4 {
            return;
        }
        let wanted = self.block_bytes.max(used + self.block_bytes / 4);
        if !self.received.try_reclaim(wanted - used) {
            let mut block = BytesMut::with_capacity(wanted);
            block.extend_from_slice(&self.received);
            self.received = block;
        }
    }

    /// The next whole record, if one has arrived.
    ///
    /// The payload is decrypted where it was received and shares that memory
    /// (short ones are copied). After the end of the TCP stream: `Ok(None)`
    /// when the peer closed the TLS stream properly.
    ///
    /// # Errors
    /// [`TlsError::Truncated`] when the TCP stream ended without a closing
    /// message, an alert of the peer, or a record that is no good; the stream
    /// is then finished, and an alert is queued for the peer.
    pub fn next_record(&mut self) -> Result<Option<Record>, TlsError> {
        if self.failed {
            return Err(TlsError::Closed);
        }
        let result = self.take_record();
        if let Err(e) = &result {
            self.failed = true;
            self.received = BytesMut::new();
            if let TlsError::BadRecord(_) = e {
                // 20 is bad_record_mac, the general "this is no good".
                self.queue_alert(2, 20);
            }
        }
        result
    }

    fn take_record(&mut self) -> Result<Option<Record>, TlsError> {
        loop {
            if self.peer_closed {
                return Ok(None);
            }
            let Some((kind, len)) = frame(&self.received)? else {
                return self.nothing_whole();
            };
            if kind != APPLICATION_DATA {
                return Err(TlsError::BadRecord("it is not encrypted"));
            }
            if self.received.len() < len {
                return self.nothing_whole();
            }
            let mut record = self.received.split_to(len);
            let content_type = self.opener.open(&mut record)?;
            self.ciphertext_opened += len as u64;
            match content_type {
                APPLICATION_DATA if record.is_empty() => {}
                APPLICATION_DATA => {
                    let block = self
                        .block_bytes
                        .min(MAX_RECORD_PLAINTEXT_BYTES * COPY_BELOW);
                    let payload = if record.len() < block / COPY_BELOW {
                        Bytes::copy_from_slice(&record)
                    } else {
                        record.freeze()
                    };
                    return Ok(Some(Record {
                        payload,
                        ciphertext_end: self.ciphertext_opened,
                    }));
                }
                ALERT => self.on_alert(&record)?,
                HANDSHAKE => self.on_handshake_message(&record)?,
                _ => return Err(TlsError::BadRecord("of an unknown kind")),
            }
        }
    }

    fn nothing_whole(&self) -> Result<Option<Record>, TlsError> {
        if self.eof {
            return Err(TlsError::Truncated);
        }
        Ok(None)
    }

    fn on_alert(&mut self, alert: &[u8]) -> Result<(), TlsError> {
        match alert {
            [_, 0] => {
                self.peer_closed = true;
                self.received = BytesMut::new();
                Ok(())
            }
            [_, description] => Err(TlsError::from_alert(*description)),
            _ => Err(TlsError::BadRecord("an alert of the wrong length")),
        }
    }

    /// Only KeyUpdate may follow a handshake here (RFC 8446 section 4.6.3);
    /// no tickets are made, and no peer of ours authenticates later.
    fn on_handshake_message(&mut self, message: &[u8]) -> Result<(), TlsError> {
        let [24, 0, 0, 1, wants_update @ (0 | 1)] = message else {
            return Err(TlsError::BadRecord(
                "a handshake message other than KeyUpdate",
            ));
        };
        self.opener = Opener::new(self.rekey.next_rx()?)?;
        // However often the peer asks, it is owed one answer.
        self.owes_key_update |= *wants_update == 1;
        Ok(())
    }

    /// Whether the peer has ended its direction properly.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Encrypts one record behind what is queued. Gives the ciphertext octets
    /// from the start of the TLS stream to its end.
    ///
    /// # Errors
    /// [`TlsError::RecordSize`] for more than [`MAX_RECORD_PLAINTEXT_BYTES`] or
    /// nothing, [`TlsError::Closed`] after [`TlsStream::close`].
    pub fn queue_record(&mut self, plaintext: &[u8]) -> Result<u64, TlsError> {
        self.queue_record_parts(&[plaintext])
    }

    /// As [`TlsStream::queue_record`], for a record that lies in several
    /// places, such as frame headers and payloads.
    ///
    /// # Errors
    /// As [`TlsStream::queue_record`].
    pub fn queue_record_parts(&mut self, parts: &[&[u8]]) -> Result<u64, TlsError> {
        if self.closed {
            return Err(TlsError::Closed);
        }
        let bytes = parts.iter().map(|p| p.len()).sum();
        if !(1..=MAX_RECORD_PLAINTEXT_BYTES).contains(&bytes) {
            return Err(TlsError::RecordSize(bytes));
        }
        if self.owes_key_update || self.sealer.records() >= self.records_per_key {
            self.queue_key_update()?;
        }
        self.seal(APPLICATION_DATA, parts, bytes)
    }

    fn seal(&mut self, kind: u8, parts: &[&[u8]], bytes: usize) -> Result<u64, TlsError> {
        let size = bytes + RECORD_OVERHEAD_BYTES;
        if self.to_send.is_empty() && bytes >= MAX_RECORD_PLAINTEXT_BYTES / 4 {
            self.to_send.reserve(SEND_BLOCK_BYTES);
        } else {
            self.to_send.reserve(size);
        }
        self.sealer
            .seal(kind, parts.iter().copied(), bytes, &mut self.to_send)?;
        self.ciphertext_out += size as u64;
        Ok(self.ciphertext_out)
    }

    fn queue_key_update(&mut self) -> Result<(), TlsError> {
        let update_not_requested: &[u8] = &[24, 0, 0, 1, 0];
        self.seal(HANDSHAKE, &[update_not_requested], 5)?;
        self.sealer = Sealer::new(self.rekey.next_tx()?)?;
        self.owes_key_update = false;
        Ok(())
    }

    /// Ciphertext octets queued that the socket has not taken.
    pub fn queued_bytes(&self) -> usize {
        self.to_send.len()
    }

    /// Writes to the socket until nothing is queued or it takes no more.
    ///
    /// # Errors
    /// What write(2) says.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.to_send.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, &self.to_send) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.to_send.advance(n),
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            }
        }
        self.to_send = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// Ends this direction: queues close_notify behind what is queued.
    /// [`TlsStream::poll_flush`] still has to be called.
    pub fn close(&mut self) {
        if !self.closed {
            self.queue_alert(1, 0);
        }
    }

    fn queue_alert(&mut self, level: u8, description: u8) {
        if !self.closed {
            // Best effort: the stream is over whether or not the peer hears it.
            let _ = self.seal(ALERT, &[&[level, description]], 2);
            self.closed = true;
        }
    }
}

impl<S> TlsStream<S> {
    /// The device at the other end.
    pub fn peer_id(&self) -> DeviceId {
        self.peer_id
    }

    /// What the connection is for. A device that pairs has shown a key, not that it is trusted.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// A secret that only the two ends of this very TLS session know
    /// (RFC 8446 section 7.5), for proofs bound to it. `label` separates uses.
    pub fn exporter(&self, label: &[u8]) -> [u8; 32] {
        self.exporter.export(label)
    }

    /// Ciphertext octets read from the socket, handshake included.
    pub fn ciphertext_in(&self) -> u64 {
        self.ciphertext_in
    }

    /// Ciphertext octets made so far, handshake and those still queued
    /// included.
    pub fn ciphertext_out(&self) -> u64 {
        self.ciphertext_out
    }

    /// What carries the stream.
    pub fn get_ref(&self) -> &S {
        &self.io
    }
}

impl TlsStream<TcpStream> {
    /// The TCP connection underneath, for [`crate::tcp`]'s readings.
    pub fn tcp(&self) -> &TcpStream {
        &self.io
    }

    /// Moves the connection to the tokio runtime that this is called in, so
    /// that the thread which goes on with it is also the one that the kernel
    /// wakes.
    ///
    /// # Errors
    /// When the socket can't be registered there.
    pub fn rehome(self) -> io::Result<Self> {
        let io = TcpStream::from_std(self.io.into_std()?)?;
        Ok(Self { io, ..self })
    }
}

#[cfg(test)]
impl<S> TlsStream<S> {
    pub(super) fn change_key_after(&mut self, records: u64) {
        self.records_per_key = records;
    }

    pub(super) fn to_send_for_tests(&self) -> Vec<u8> {
        self.to_send.to_vec()
    }

    pub(super) fn into_io_for_tests(self) -> S {
        self.io
    }

    pub(super) fn buffer_bytes_for_tests(&self) -> usize {
        self.received.capacity() + self.to_send.capacity()
    }
}
