//! TLS handshakes through the unbuffered interface of rustls.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::{DnsName, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{CommonState, ConnectionTrafficSecrets, Error, ExtractedSecrets};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::TlsError;
use super::config::{self, ExporterSecret, Pinned, Purpose, Trust, Trusted};
use super::exporter::Exporter;
use super::label::Label;
use super::record::{Opener, Sealer, frame};
use crate::identity::{DeviceId, Identity};

/// Maximum size of a peer's handshake in octets. With the certificates used here a flight takes
/// about 1 KiB.
const MAX_HANDSHAKE_BYTES: u64 = 32 * 1024;
/// Maximum time for a refused peer to read the alert.
const LINGER: Duration = Duration::from_secs(1);

/// Result of a completed handshake.
pub(super) struct Established {
    pub peer_id: DeviceId,
    pub purpose: Purpose,
    pub exporter: Exporter,
    pub rekey: Rekey,
    pub sealer: Sealer,
    pub opener: Opener,
    /// Octets received after the handshake.
    pub received: BytesMut,
    pub ciphertext_in: u64,
    pub ciphertext_out: u64,
}

/// Derivation of the next traffic keys (RFC 8446, section 7.2).
pub(super) enum Rekey {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

impl Rekey {
    pub(super) fn next_tx(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(k) => k.update_tx_secret(),
            Self::Server(k) => k.update_tx_secret(),
        }
    }

    pub(super) fn next_rx(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(k) => k.update_rx_secret(),
            Self::Server(k) => k.update_rx_secret(),
        }
    }
}

pub(super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    identity: &Identity,
    expect: Option<DeviceId>,
    purpose: Purpose,
    label: Option<Label>,
    deadline: Instant,
) -> Result<Established, TlsError> {
    let verifier = Arc::new(Pinned::new(expect));
    let secret = Arc::new(ExporterSecret::default());
    let sends_name = label.is_some();
    let config = config::client(
        identity,
        verifier.clone(),
        secret.clone(),
        purpose,
        sends_name,
    )?;
    // Never verified: the verifier compares ids. Without a label it is a placeholder, not sent.
    let name = label.map_or("mpbond.invalid".to_owned(), Label::server_name);
    let name = DnsName::try_from(name).map_err(|e| Error::General(e.to_string()))?;
    let name = ServerName::DnsName(name);
    let mut conn = UnbufferedClientConnection::new(config, name)?;
    let wire = match shake(io, &mut conn, deadline).await {
        Ok(wire) => wire,
        Err(e) => {
            return Err(match (expect, verifier.found()) {
                (Some(expected), Some(found)) if found != expected => {
                    TlsError::WrongPeer { expected, found }
                }
                _ => e,
            });
        }
    };
    if negotiated(&conn) != Some(purpose) {
        return Err(TlsError::WrongProtocol);
    }
    let peer = verifier
        .found()
        .ok_or(TlsError::Handshake(Error::NoCertificatesPresented))?;
    let (secrets, kernel) = conn.dangerous_into_kernel_connection()?;
    let rekey = Rekey::Client(Box::new(kernel));
    wire.establish(peer, purpose, &secret, secrets, rekey)
}

pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    identity: &Identity,
    trust: Arc<dyn Trust>,
    purposes: &[Purpose],
    deadline: Instant,
) -> Result<Established, TlsError> {
    let verifier = Arc::new(Trusted::new(trust));
    let secret = Arc::new(ExporterSecret::default());
    let config = config::server(identity, verifier.clone(), secret.clone(), purposes)?;
    let mut conn = UnbufferedServerConnection::new(config)?;
    let wire = match shake(io, &mut conn, deadline).await {
        Ok(wire) => wire,
        Err(TlsError::Handshake(e)) if e == config::refused() => {
            return Err(match verifier.found() {
                Some(found) => TlsError::UntrustedPeer { found },
                None => TlsError::Handshake(e),
            });
        }
        Err(e) => return Err(e),
    };
    // The connection may be used only for the purpose that its certificate was verified for.
    let purpose = verifier.purpose();
    if negotiated(&conn) != Some(purpose) || !purposes.contains(&purpose) {
        return Err(TlsError::WrongProtocol);
    }
    let peer = verifier
        .found()
        .ok_or(TlsError::Handshake(Error::NoCertificatesPresented))?;
    let (secrets, kernel) = conn.dangerous_into_kernel_connection()?;
    let rekey = Rekey::Server(Box::new(kernel));
    wire.establish(peer, purpose, &secret, secrets, rekey)
}

/// The negotiated purpose.
fn negotiated(conn: &CommonState) -> Option<Purpose> {
    conn.alpn_protocol().and_then(Purpose::of_protocol)
}

/// Buffers and counters of a handshake in progress.
#[derive(Default)]
struct Wire {
    /// Read from the socket, not yet passed to rustls.
    received: BytesMut,
    /// To be written.
    to_send: Vec<u8>,
    ciphertext_in: u64,
    ciphertext_out: u64,
}

impl Wire {
    fn establish(
        self,
        peer_id: DeviceId,
        purpose: Purpose,
        secret: &ExporterSecret,
        secrets: ExtractedSecrets,
        rekey: Rekey,
    ) -> Result<Established, TlsError> {
        let secret = secret
            .get()
            .ok_or(TlsError::Handshake(Error::HandshakeNotComplete))?;
        Ok(Established {
            peer_id,
            purpose,
            exporter: Exporter::new(secret),
            rekey,
            sealer: Sealer::new(secrets.tx)?,
            opener: Opener::new(secrets.rx)?,
            received: self.received,
            ciphertext_in: self.ciphertext_in,
            ciphertext_out: self.ciphertext_out,
        })
    }

    async fn flush<S: AsyncWrite + Unpin>(&mut self, io: &mut S) -> Result<(), TlsError> {
        io.write_all(&self.to_send).await?;
        self.ciphertext_out += self.to_send.len() as u64;
        self.to_send.clear();
        Ok(())
    }

    /// Appends the next complete record to `handshake`.
    ///
    /// rustls gets one record at a time, so that it never buffers application data that follows the
    /// last flight.
    async fn read_record<S: AsyncRead + Unpin>(
        &mut self,
        io: &mut S,
        handshake: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        loop {
            if let Some((_, len)) = frame(&self.received)?
                && self.received.len() >= len
            {
                handshake.extend_from_slice(&self.received.split_to(len));
                self.ciphertext_in += len as u64;
                if self.ciphertext_in > MAX_HANDSHAKE_BYTES {
                    return Err(TlsError::BadRecord("handshake too long"));
                }
                return Ok(());
            }
            self.received.reserve(4 * 1024);
            if io.read_buf(&mut self.received).await? == 0 {
                return Err(TlsError::Truncated);
            }
        }
    }
}

async fn shake<S, C>(io: &mut S, conn: &mut C, deadline: Instant) -> Result<Wire, TlsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Engine,
{
    let mut wire = Wire::default();
    let result = tokio::time::timeout_at(deadline, run(io, conn, &mut wire)).await;
    match result {
        Ok(Ok(())) => Ok(wire),
        Ok(Err(e)) => {
            // Send the alert, so that the peer can report the cause. A failed connection must not
            // be given further input, only drained: otherwise rustls panics.
            while conn.common().wants_write() {
                if conn.step(&mut [], &mut wire.to_send).1.is_err() {
                    break;
                }
            }
            let until = deadline.min(Instant::now() + LINGER);
            let _ = tokio::time::timeout_at(until, linger(io, &wire.to_send)).await;
            Err(e)
        }
        Err(_) => Err(TlsError::Deadline),
    }
}

async fn run<S, C>(io: &mut S, conn: &mut C, wire: &mut Wire) -> Result<(), TlsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Engine,
{
    let mut handshake = Vec::new();
    loop {
        let (discard, step) = conn.step(&mut handshake, &mut wire.to_send);
        let step = step?;
        handshake.drain(..discard.min(handshake.len()));
        match step {
            Step::Again => {}
            Step::NeedInput => {
                wire.flush(io).await?;
                wire.read_record(io, &mut handshake).await?;
            }
            Step::Done => {
                wire.flush(io).await?;
                if !handshake.is_empty() {
                    return Err(TlsError::BadRecord(
                        "unexpected message after the handshake",
                    ));
                }
                return Ok(());
            }
        }
    }
}

/// Sends the last octets and then reads for a moment: closing a socket with unread bytes would
/// reset the connection and discard the alert.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    last: &[u8],
) -> Result<(), TlsError> {
    io.write_all(last).await?;
    io.shutdown().await?;
    let mut ignored = [0; 4096];
    let mut left = 256 * 1024_usize;
    while left > 0 {
        match io.read(&mut ignored).await? {
            0 => break,
            n => left = left.saturating_sub(n),
        }
    }
    Ok(())
}

enum Step {
    /// Call `step` again.
    Again,
    /// Send the output, then provide the next record.
    NeedInput,
    /// Send the output; the handshake is complete.
    Done,
}

/// One end of a handshake, client or server.
trait Engine {
    /// Advances the handshake and appends output to `out`. Returns the number of octets of
    /// `incoming` consumed.
    fn step(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) -> (usize, Result<Step, TlsError>);
    fn common(&self) -> &CommonState;
}

impl Engine for UnbufferedClientConnection {
    fn step(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) -> (usize, Result<Step, TlsError>) {
        take_step(self.process_tls_records(incoming), out)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Engine for UnbufferedServerConnection {
    fn step(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) -> (usize, Result<Step, TlsError>) {
        take_step(self.process_tls_records(incoming), out)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

fn take_step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
) -> (usize, Result<Step, TlsError>) {
    let discard = status.discard;
    let step = match status.state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(&mut []) {
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                let at = out.len();
                out.resize(at + required_size, 0);
                let room = out.get_mut(at..).unwrap_or_default();
                match data.encode(room) {
                    Ok(n) => {
                        out.truncate(at + n);
                        Ok(Step::Again)
                    }
                    Err(e) => Err(Error::General(e.to_string()).into()),
                }
            }
            Ok(_) => Ok(Step::Again),
            Err(e) => Err(Error::General(e.to_string()).into()),
        },
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::NeedInput),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Done),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(TlsError::Truncated),
        // No early data is offered, and application data is not passed to rustls.
        Ok(_) => Err(TlsError::BadRecord(
            "application data before the end of the handshake",
        )),
        Err(e) => Err(e.into()),
    };
    (discard, step)
}
