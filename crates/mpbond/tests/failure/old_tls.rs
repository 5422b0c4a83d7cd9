//! Clients that speak an older version of TLS, at a proxy and at a helper.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::daemons::{Bond, WITHIN, Ways};

/// Alert `protocol_version` (RFC 8446, section 6.2), fatal.
const PROTOCOL_VERSION: [u8; 2] = [2, 70];

/// A ClientHello of TLS 1.2 (RFC 5246, section 7.4.1.2) with ECDHE suites, and extensions without
/// `supported_versions`.
fn client_hello() -> Vec<u8> {
    let extensions = [
        // supported_groups: x25519, secp256r1.
        &[0, 10, 0, 6, 0, 4, 0, 29, 0, 23][..],
        // ec_point_formats: uncompressed.
        &[0, 11, 0, 2, 1, 0],
        // signature_algorithms: ed25519, ecdsa_secp256r1_sha256.
        &[0, 13, 0, 6, 0, 4, 8, 7, 4, 3],
        // extended_master_secret.
        &[0, 23, 0, 0],
    ]
    .concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        // No session; two suites with AES-128-GCM; no compression.
        &[0, 0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    let message = [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
    let length = (message.len() as u16).to_be_bytes();
    [&[22, 3, 1][..], &length, &message].concat()
}

/// Asserts that the answer to such a client is one alert.
fn is_refused(at: SocketAddr) {
    let mut tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(WITHIN)).unwrap();
    tcp.write_all(&client_hello()).unwrap();
    let mut answer = Vec::new();
    // A reset after the alert is an end, too.
    let _ = tcp.read_to_end(&mut answer);
    let [21, 3, _, 0, 2, alert @ ..] = answer.as_slice() else {
        panic!("no alert: {answer:?}");
    };
    assert_eq!(alert, PROTOCOL_VERSION);
}

#[test]
fn clients_of_tls_1_2_are_refused_with_the_alert_protocol_version() {
    let bond = Bond::new(Ways::Both, "", "");
    let (_proxy, _helper) = (bond.start("proxy"), bond.start("helper"));
    is_refused(bond.proxy);
    is_refused(bond.helper);
}
