//! Rules on names where a client gives an address that it has looked up, in namespaces of the
//! test's own.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use mpbond_testing::has_nft;
use mpbond_testing::names::serve_tcp;
use mpbond_testing::namespaces::{is_called_for, play};

use crate::apart::{Apart, connect_from};
use crate::api::got;
use crate::daemons::{WITHIN, until};
use crate::families::V4;
use crate::policy_intercepted::{answer, client_hello, intercepting, mirror};
use crate::policy_reload::apply;

/// The origin's name.
const NAME: &[u8] = b"\x03www\x05plain\x04test\x00";

/// Looks the origin's addresses up at a public resolver, over TCP.
fn look_up(apart: &Apart) {
    let public = SocketAddr::from(([9, 9, 9, 9], 53));
    let mut stream = connect_from(apart.pid(), public).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let header = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let query = [&header[..], NAME, &[0, 1, 0, 1]].concat();
    let length = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&length, &query[..]].concat()).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut response = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut response).unwrap();
    assert!(response.ends_with(&V4.octets()), "{response:?}");
}

#[test]
fn a_rule_on_a_name_knows_the_addresses_that_were_looked_up() {
    if has_nft() {
        play("-Urnm", "policy_looked_up::role");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = intercepting(&format!("resolvers = \"{V4}\"\n"));
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    serve_tcp(V4, |query| Some(query.answer(&[V4.into()])));
    let web = mirror(80);
    let held = TcpListener::bind((V4, 82)).unwrap();
    let open = connect_from(apart.pid(), held.local_addr().unwrap()).unwrap();
    let _accepted = held.accept().unwrap();
    let stream = format!("GET /v1/streams/{}/explain", open.local_addr().unwrap());
    apply(
        bond,
        "[[rule]]\nname = \"x\"\ndomain = \"*.plain.test\"\nset = \"refuse\"\n",
    );
    let through_proxy = V4.to_string();
    let plain = || answer(&apart, web, b"GET / HTTP/1.1\r\n");
    let asked = format!("{{\"ip\": \"{V4}\", \"port\": 80}}");
    let explained = || got(bond, "POST /v1/explain", &asked);
    assert_eq!(plain().unwrap(), through_proxy);
    assert_eq!(explained()["action"], "carry");

    look_up(&apart);
    let error = plain().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    let explained = explained();
    assert_eq!(explained["action"], "refuse");
    assert_eq!(explained["certainty"], "guessed");
    // Another host has not asked.
    let asked = format!("{{\"ip\": \"{V4}\", \"port\": 80, \"source\": \"10.9.0.77\"}}");
    assert_eq!(got(bond, "POST /v1/explain", &asked)["action"], "carry");
    // Any user may ask about a connection of his own, and is told no name.
    let of_open = got(bond, &stream, "");
    assert_eq!(of_open["now"]["action"], "carry");
    assert!(!of_open.to_string().contains("www.plain"), "{of_open}");
    // The name in a ClientHello goes before. It may be late on a busy machine.
    until("another name is not refused", || {
        let hello = client_hello("www.other.test");
        answer(&apart, web, &hello).is_ok_and(|seen| seen == through_proxy)
    });
}
