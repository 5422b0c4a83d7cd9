//! TLS handshakes as probes: from ClientHello to the end of the server's flight (RFC 8446, section
//! 2), over an established TCP connection.

use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use socket2::Socket;

use crate::asking::Asking;
use crate::error::ProbeError;
use crate::options::Options;
use crate::record::Probe;
use crate::tcp::{local_address, timed_out};

/// Maximum length of a server's flight, certificates included.
const FLIGHT: usize = 128 * 1024;

pub(crate) fn probe(seq: u32, options: &Options, socket: Socket) -> Result<Probe, ProbeError> {
    let lost = || Ok(Probe::lost(seq, options.method));
    match socket.connect(&options.target.into()) {
        Ok(()) => {}
        Err(e) if timed_out(&e) => return lost(),
        Err(e) => return Err(ProbeError::io("connecting")(e)),
    }
    let unfit = |e: Error| ProbeError::Target {
        target: options.target,
        reason: format!("no TLS handshake: {e}"),
    };
    let mut tls = client(options).map_err(unfit)?;
    let mut hello = Vec::new();
    tls.write_tls(&mut hello)
        .map_err(ProbeError::io("a ClientHello"))?;
    let mut asking = Asking::new(socket);
    let mut seen = 0;
    let flight = |bytes: &[u8]| {
        seen += bytes.len();
        let mut from = Cursor::new(bytes);
        while (from.position() as usize) < bytes.len() {
            let read = tls.read_tls(&mut from).map_err(|e| e.to_string())?;
            let state = tls
                .process_new_packets()
                .map_err(|e| format!("no TLS handshake: {e}"))?;
            if read == 0 || state.peer_has_closed() {
                return Err("no TLS handshake: the server closed the connection".to_owned());
            }
        }
        // The client's Finished is next: the flight is complete.
        if !tls.is_handshaking() {
            return Ok(true);
        }
        if seen > FLIGHT {
            return Err("its TLS handshake exceeds the maximum length".to_owned());
        }
        Ok(false)
    };
    let asked = asking.ask(&hello, options, flight)?;
    // Reset instead of close: no state remains at either end.
    let _ = asking.socket().set_linger(Some(Duration::ZERO));
    match asked {
        None => lost(),
        Some(times) => {
            let mut probe = Probe::answered(seq, options.method, times.last(), None);
            probe.local = local_address(asking.socket());
            Ok(probe)
        }
    }
}

fn client(options: &Options) -> Result<ClientConnection, Error> {
    let provider = Arc::new(ring::default_provider());
    let anyone = Anyone(provider.signature_verification_algorithms);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anyone))
        .with_no_client_auth();
    // Each probe is a full handshake.
    config.resumption = rustls::client::Resumption::disabled();
    let name = match &options.server_name {
        Some(name) if name.parse::<IpAddr>().is_err() => ServerName::try_from(name.clone())
            .map_err(|_| Error::General(format!("`{name}` is not a host name")))?,
        _ => ServerName::IpAddress(options.target.ip().into()),
    };
    ClientConnection::new(Arc::new(config), name)
}

/// Certificate verifier that accepts all servers: nothing is sent to them, and nothing they send is
/// used. Only the duration matters, also for hosts whose certificates are not trusted here.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
