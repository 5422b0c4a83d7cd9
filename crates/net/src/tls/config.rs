//! Configuration of rustls: cipher suites, protocol names and certificate verifiers.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, KeyLog, SignatureScheme,
    version::TLS13,
};

use super::provider::PROVIDER;
use crate::identity::{DeviceId, Identity};

/// ALPN protocol name (RFC 7301) of sessions and control connections. The number is the major
/// version of the session protocol: peers with different numbers fail in the handshake.
pub const ALPN: &[u8] = b"mpbond/2";

/// ALPN protocol name of pairing ([`crate::pairing`]). A separate name, so that a connection
/// accepted for pairing can never be used for sessions.
pub const PAIRING_ALPN: &[u8] = b"mpbond-pair/1";

/// Purpose of a connection, chosen by the client in ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Sessions and control messages between devices that trust each other.
    Daemon,
    /// Pairing: the certificate proves possession of a key, not trust.
    Pairing,
}

impl Purpose {
    const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Daemon => ALPN,
            Self::Pairing => PAIRING_ALPN,
        }
    }

    /// The purpose of a negotiated protocol name.
    pub(super) fn of_protocol(name: &[u8]) -> Option<Self> {
        [Self::Daemon, Self::Pairing]
            .into_iter()
            .find(|p| p.protocol() == name)
    }
}

/// Authorization of devices. Queried at every handshake, so that a revoked device is refused at its
/// next connection.
pub trait Trust: Send + Sync {
    /// Whether the device with this id may connect.
    fn trusts(&self, id: &DeviceId) -> bool;
}

impl<F: Fn(&DeviceId) -> bool + Send + Sync> Trust for F {
    fn trusts(&self, id: &DeviceId) -> bool {
        self(id)
    }
}

pub(super) fn client(
    identity: &Identity,
    verifier: Arc<Pinned>,
    secret: Arc<ExporterSecret>,
    purpose: Purpose,
    sends_name: bool,
) -> Result<Arc<ClientConfig>, Error> {
    let mut config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(
            identity.certified().clone(),
        )));
    config.alpn_protocols = vec![purpose.protocol().to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = sends_name;
    config.enable_secret_extraction = true;
    config.key_log = secret;
    Ok(Arc::new(config))
}

pub(super) fn server(
    identity: &Identity,
    verifier: Arc<Trusted>,
    secret: Arc<ExporterSecret>,
    purposes: &[Purpose],
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier.clone())
        .with_cert_resolver(Arc::new(Resolver {
            key: identity.certified().clone(),
            verifier,
            offers_pairing: purposes.contains(&Purpose::Pairing),
        }));
    config.alpn_protocols = purposes.iter().map(|p| p.protocol().to_vec()).collect();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.enable_secret_extraction = true;
    config.key_log = secret;
    Ok(Arc::new(config))
}

/// Certificate resolver that also passes the offered protocol names to the verifier: they are in
/// the ClientHello, the client's certificate comes later in its last flight.
struct Resolver {
    key: Arc<CertifiedKey>,
    verifier: Arc<Trusted>,
    offers_pairing: bool,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let wants = |name| {
            hello
                .alpn()
                .is_some_and(|mut names| names.any(|n| n == name))
        };
        // A client that offers both must satisfy the stricter check.
        if self.offers_pairing && wants(PAIRING_ALPN) && !wants(ALPN) {
            self.verifier.only_pairs();
        }
        Some(self.key.clone())
    }
}

/// Captures the exporter secret of one handshake.
///
/// The unbuffered connections of rustls have no exporter interface, but pass its secret to the key
/// log. No other secret is kept.
#[derive(Debug, Default)]
pub(super) struct ExporterSecret(OnceLock<[u8; 32]>);

impl ExporterSecret {
    pub(super) fn get(&self) -> Option<[u8; 32]> {
        self.0.get().copied()
    }
}

impl KeyLog for ExporterSecret {
    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }

    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if self.will_log(label)
            && let Ok(secret) = <[u8; 32]>::try_from(secret)
        {
            // A handshake derives it once; a second value is ignored.
            let _ = self.0.set(secret);
        }
    }
}

/// Verifier of the client: accepts exactly one device, or any device for pairing.
#[derive(Debug)]
pub(super) struct Pinned {
    expect: Option<DeviceId>,
    found: OnceLock<DeviceId>,
}

impl Pinned {
    pub(super) fn new(expect: Option<DeviceId>) -> Self {
        Self {
            expect,
            found: OnceLock::new(),
        }
    }

    /// The server's id, once its certificate has been received.
    pub(super) fn found(&self) -> Option<DeviceId> {
        self.found.get().copied()
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = *self
            .found
            .get_or_init(|| DeviceId::of_certificate(end_entity));
        if self.expect.is_none_or(|expect| expect == found) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(refused())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

/// Verifier of the server: accepts devices that [`Trust`] authorizes, and any device for pairing.
///
/// Authorization is asked for after the proof of possession: otherwise anyone who has seen a
/// device's certificate learns from the alert whether that device is trusted.
pub(super) struct Trusted {
    trust: Arc<dyn Trust>,
    pairing: OnceLock<()>,
    found: OnceLock<DeviceId>,
}

impl std::fmt::Debug for Trusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trusted").finish_non_exhaustive()
    }
}

impl Trusted {
    pub(super) fn new(trust: Arc<dyn Trust>) -> Self {
        Self {
            trust,
            pairing: OnceLock::new(),
            found: OnceLock::new(),
        }
    }

    /// Restricts the connection to pairing, the only protocol that the client offered.
    fn only_pairs(&self) {
        let _ = self.pairing.set(());
    }

    /// Purpose that the accepted client is authorized for.
    pub(super) fn purpose(&self) -> Purpose {
        match self.pairing.get() {
            Some(()) => Purpose::Pairing,
            None => Purpose::Daemon,
        }
    }

    /// The client's id, once its certificate has been received.
    pub(super) fn found(&self) -> Option<DeviceId> {
        self.found.get().copied()
    }
}

impl ClientCertVerifier for Trusted {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.found
            .get_or_init(|| DeviceId::of_certificate(end_entity));
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let proven = verify_signature(message, cert, dss)?;
        let found = self.found().ok_or_else(refused)?;
        if self.purpose() == Purpose::Pairing || self.trust.trusts(&found) {
            Ok(proven)
        } else {
            Err(refused())
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

/// Signature scheme of every [`Identity`].
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ED25519];

/// Verifies possession of the private key. Validity dates and names in the certificate are ignored;
/// the id is public and proves nothing by itself.
fn verify_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature(
        message,
        cert,
        dss,
        &PROVIDER.signature_verification_algorithms,
    )
}

/// The error for an unauthorized device; sent as the alert access_denied.
pub(super) fn refused() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}

fn no_tls12() -> Error {
    Error::General("TLS 1.2 is not supported".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn certificates_are_good_at_any_date() {
        let identity = Identity::generate().unwrap();
        let certificate = &identity.certified().cert[0];
        for seconds in [0, u64::from(u32::MAX), 1 << 40] {
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            let name = ServerName::try_from("a").unwrap();
            let server = Pinned::new(Some(identity.id()));
            let verified = server.verify_server_cert(certificate, &[], &name, &[], now);
            assert!(verified.is_ok(), "{seconds}");
            let client = Trusted::new(Arc::new(|_: &DeviceId| true));
            let verified = client.verify_client_cert(certificate, &[], now);
            assert!(verified.is_ok(), "{seconds}");
        }
    }
}
