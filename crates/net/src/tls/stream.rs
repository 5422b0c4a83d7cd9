//! A TLS stream in polled form, with the ciphertext offset of every record.

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
use super::label::Label;
use super::record::{ALERT, APPLICATION_DATA, HANDSHAKE, Opener, Sealer, frame};
use super::record_size::{MAX_RECORD_PLAINTEXT_BYTES, RECORD_OVERHEAD_BYTES};
use crate::blocks::{Block, KeptBlocks};
use crate::identity::{DeviceId, Identity};
use crate::pipe::PipeStream;

/// Initial receive block: two records; doubled while reads fill it.
const FIRST_BLOCK_BYTES: usize = 32 * 1024;
/// Maximum octets of one read(2).
const MAX_BLOCK_BYTES: usize = 256 * 1024;
/// Payloads shorter than a block divided by this number are copied: in a reassembly queue such a
/// payload would keep its whole block allocated. Full records are never copied.
const COPY_BELOW: usize = 16;
/// Initial send buffer: four full records, the amount that a driver writes at once.
const SEND_BLOCK_BYTES: usize = 4 * (MAX_RECORD_PLAINTEXT_BYTES + RECORD_OVERHEAD_BYTES);
/// Records after which a KeyUpdate is sent. AES-GCM is safe for 2^24.5 records under one key (RFC
/// 8446, section 5.5).
const RECORDS_PER_KEY: u64 = 1 << 23;

/// One decrypted record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Plaintext of one call of [`TlsStream::queue_record`] at the peer.
    pub payload: Bytes,
    /// Ciphertext octets from the start of the TLS stream to the end of this
    /// record; the sender's `queue_record` returned the same number.
    pub ciphertext_end: u64,
}

/// A TLS 1.3 stream to an authenticated device.
///
/// Reading and writing are polled by the caller. [`TlsStream::next_record`] returns received
/// records until none is left, then [`TlsStream::poll_fill`] reads from the socket. Empty buffers
/// are freed.
pub struct TlsStream<S = PipeStream> {
    io: S,
    peer_id: DeviceId,
    purpose: Purpose,
    exporter: Exporter,
    rekey: Rekey,

    opener: Opener,
    received: BytesMut,
    /// The block in which `received` is.
    block: Block,
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

impl TlsStream {
    /// Performs the handshake as client; accepts only the device `expect`.
    ///
    /// A server authenticates the client in the last flight, so its refusal arrives after this
    /// function has returned, as [`TlsError::NotTrusted`] from the first
    /// [`TlsStream::next_record`].
    ///
    /// # Errors
    /// [`TlsError::WrongPeer`] when another device answers, [`TlsError::Deadline`] after the
    /// deadline, and other errors of the handshake.
    pub async fn connect(
        io: impl Into<PipeStream>,
        identity: &Identity,
        expect: DeviceId,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let (expect, purpose) = (Some(expect), Purpose::Daemon);
        Self::connect_over(io.into(), identity, expect, purpose, None, deadline).await
    }

    /// The same with the label of the process that is to get the connection.
    ///
    /// # Errors
    /// As [`TlsStream::connect`].
    pub async fn connect_to_process(
        io: impl Into<PipeStream>,
        identity: &Identity,
        expect: DeviceId,
        label: Label,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let (expect, purpose, label) = (Some(expect), Purpose::Daemon, Some(label));
        Self::connect_over(io.into(), identity, expect, purpose, label, deadline).await
    }

    /// Performs the handshake as client for pairing, with the device `expect` or any device. In the
    /// latter case [`TlsStream::peer_id`] is not yet trusted.
    ///
    /// # Errors
    /// As [`TlsStream::connect`]; [`TlsError::WrongProtocol`] when the server does not offer
    /// pairing.
    pub async fn connect_to_pair(
        io: impl Into<PipeStream>,
        identity: &Identity,
        expect: Option<DeviceId>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let purpose = Purpose::Pairing;
        Self::connect_over(io.into(), identity, expect, purpose, None, deadline).await
    }

    /// Performs the handshake as server; `trust` authorizes the client.
    ///
    /// # Errors
    /// [`TlsError::UntrustedPeer`] when `trust` refuses the client, [`TlsError::Deadline`] after
    /// the deadline, and other errors of the handshake. The client has been sent an alert.
    pub async fn accept(
        io: impl Into<PipeStream>,
        identity: &Identity,
        trust: Arc<dyn Trust>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let purposes = &[Purpose::Daemon];
        Self::accept_over(io.into(), identity, trust, purposes, deadline).await
    }

    /// Performs the handshake as server for pairing only, with any device.
    ///
    /// # Errors
    /// As [`TlsStream::accept`], except [`TlsError::UntrustedPeer`].
    pub async fn accept_to_pair(
        io: impl Into<PipeStream>,
        identity: &Identity,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let nobody: Arc<dyn Trust> = Arc::new(|_: &DeviceId| false);
        let purposes = &[Purpose::Pairing];
        Self::accept_over(io.into(), identity, nobody, purposes, deadline).await
    }

    /// Performs the handshake as server with devices that `trust` authorizes, and with any device
    /// for pairing. The caller must check [`TlsStream::purpose`].
    ///
    /// # Errors
    /// As [`TlsStream::accept`].
    pub async fn accept_either(
        io: impl Into<PipeStream>,
        identity: &Identity,
        trust: Arc<dyn Trust>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let purposes = &[Purpose::Daemon, Purpose::Pairing];
        Self::accept_over(io.into(), identity, trust, purposes, deadline).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Performs the handshake as client over any stream.
    ///
    /// # Errors
    /// As [`TlsStream::connect`] and [`TlsStream::connect_to_pair`].
    pub async fn connect_over(
        mut io: S,
        identity: &Identity,
        expect: Option<DeviceId>,
        purpose: Purpose,
        label: Option<Label>,
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let done = handshake::connect(&mut io, identity, expect, purpose, label, deadline).await?;
        Ok(Self::new(io, done))
    }

    /// Performs the handshake as server over any stream, for one of these purposes.
    ///
    /// # Errors
    /// As [`TlsStream::accept`].
    pub async fn accept_over(
        mut io: S,
        identity: &Identity,
        trust: Arc<dyn Trust>,
        purposes: &[Purpose],
        deadline: Instant,
    ) -> Result<Self, TlsError> {
        let done = handshake::accept(&mut io, identity, trust, purposes, deadline).await?;
        Ok(Self::new(io, done))
    }

    fn new(io: S, done: Established) -> Self {
        let block = Block::new(&KeptBlocks::default(), done.received.capacity());
        Self {
            block,
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

    /// Reads once from the socket. `Ok(0)` is the end of the TCP stream; [`TlsStream::next_record`]
    /// then reports whether the TLS stream was closed properly. When the buffer is full of pending
    /// records, nothing is read and the number of pending octets is returned.
    ///
    /// # Errors
    /// Error of read(2).
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
                    self.block.replace(0);
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

    /// Makes room for a read: in the current block if its records have been dropped, else in a new
    /// one.
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
            self.block.replace(wanted);
        }
    }

    /// The next complete record, if one has been received.
    ///
    /// The payload is decrypted in place and shares the receive buffer (short ones are copied).
    /// After the end of the TCP stream, `Ok(None)` means that the peer closed the TLS stream
    /// properly.
    ///
    /// # Errors
    /// [`TlsError::Truncated`] when the TCP stream ended without close_notify, an alert of the
    /// peer, or an invalid record, for which an alert is queued. The stream has then failed.
    pub fn next_record(&mut self) -> Result<Option<Record>, TlsError> {
        if self.failed {
            return Err(TlsError::Closed);
        }
        let result = self.take_record();
        if let Err(e) = &result {
            self.failed = true;
            self.received = BytesMut::new();
            if let TlsError::BadRecord(_) = e {
                // Level fatal, bad_record_mac.
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
                return Err(TlsError::BadRecord("not encrypted"));
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
                        self.block.slice(record.freeze())
                    };
                    return Ok(Some(Record {
                        payload,
                        ciphertext_end: self.ciphertext_opened,
                    }));
                }
                ALERT => self.on_alert(&record)?,
                HANDSHAKE => self.on_handshake_message(&record)?,
                _ => return Err(TlsError::BadRecord("unknown content type")),
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
            _ => Err(TlsError::BadRecord("alert of the wrong length")),
        }
    }

    /// Only KeyUpdate is accepted after the handshake (RFC 8446, section 4.6.3): neither tickets
    /// nor post-handshake authentication are used.
    fn on_handshake_message(&mut self, message: &[u8]) -> Result<(), TlsError> {
        let [24, 0, 0, 1, wants_update @ (0 | 1)] = message else {
            return Err(TlsError::BadRecord(
                "handshake message other than KeyUpdate",
            ));
        };
        self.opener = Opener::new(self.rekey.next_rx()?)?;
        // Several requests of the peer are answered by one KeyUpdate.
        self.owes_key_update |= *wants_update == 1;
        Ok(())
    }

    /// Whether the peer has closed its direction properly.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Encrypts one record and appends it to the send queue. Returns the ciphertext octets from the
    /// start of the TLS stream to the record's end.
    ///
    /// # Errors
    /// [`TlsError::RecordSize`] when the plaintext is empty or longer than
    /// [`MAX_RECORD_PLAINTEXT_BYTES`], [`TlsError::Closed`] after [`TlsStream::close`].
    pub fn queue_record(&mut self, plaintext: &[u8]) -> Result<u64, TlsError> {
        self.queue_record_parts(&[plaintext])
    }

    /// As [`TlsStream::queue_record`], for plaintext in several slices, such as frame headers and
    /// payloads.
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

    /// Ciphertext octets queued and not yet accepted by the socket.
    pub fn queued_bytes(&self) -> usize {
        self.to_send.len()
    }

    /// Writes to the socket until the queue is empty or the socket is full.
    ///
    /// # Errors
    /// Error of write(2).
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

    /// Closes this direction: appends close_notify to the send queue. [`TlsStream::poll_flush`]
    /// must still be called.
    pub fn close(&mut self) {
        if !self.closed {
            self.queue_alert(1, 0);
        }
    }

    fn queue_alert(&mut self, level: u8, description: u8) {
        if !self.closed {
            // Best effort: the stream has ended in any case.
            let _ = self.seal(ALERT, &[&[level, description]], 2);
            self.closed = true;
        }
    }
}

impl<S> TlsStream<S> {
    /// Counts the blocks that payloads keep here, from the next payload on.
    pub fn count_blocks(&mut self, kept: &KeptBlocks) {
        self.block = Block::new(kept, self.received.capacity());
    }

    /// The device at the other end.
    pub fn peer_id(&self) -> DeviceId {
        self.peer_id
    }

    /// Purpose of the connection. In pairing the peer has proven possession of a key and is not
    /// trusted.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Exporter secret of this TLS session (RFC 8446, section 7.5), known only to its two ends, for
    /// channel binding. `label` separates uses.
    pub fn exporter(&self, label: &[u8]) -> [u8; 32] {
        self.exporter.export(label)
    }

    /// Ciphertext octets read from the socket, handshake included.
    pub fn ciphertext_in(&self) -> u64 {
        self.ciphertext_in
    }

    /// Ciphertext octets produced, including handshake and send queue.
    pub fn ciphertext_out(&self) -> u64 {
        self.ciphertext_out
    }

    /// The underlying transport.
    pub fn get_ref(&self) -> &S {
        &self.io
    }
}

impl TlsStream {
    /// The TCP connection underneath, for [`crate::tcp`]'s statistics; `None` over another kind of
    /// pipe.
    pub fn tcp(&self) -> Option<&TcpStream> {
        self.io.tcp()
    }

    /// Registers the socket with the current tokio runtime, so that the thread which continues with
    /// the connection receives its events.
    ///
    /// # Errors
    /// When the socket cannot be registered.
    pub fn rehome(self) -> io::Result<Self> {
        let io = self.io.rehome()?;
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
