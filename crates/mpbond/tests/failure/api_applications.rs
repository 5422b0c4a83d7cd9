//! Applications and rules of connections, in the status.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};

use crate::api::{ask, ask_with, got};
use crate::daemons::{Bond, WITHIN, Ways, is_pattern, origin, socks5_at, until};

/// Bytes for a client that does not read: more than the kernel keeps for it, and less than the
/// primary takes out of a session for it.
const UNREAD: u32 = 200_000;

/// Puts a policy with a rule "own" about this destination in force.
fn put_rule(bond: &Bond, to: SocketAddr) {
    let rule = format!(
        "[[rule]]\nname = \"own\"\nport = {}\nset = {{ class = \"interactive\" }}\n",
        to.port()
    );
    let put = ask_with(bond, "PUT /v1/policy", "If-Match: *\r\n", &rule);
    assert_eq!(put.code, 200);
}

fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[test]
fn the_status_has_applications_and_rules_of_connections_that_are_open_and_that_have_ended() {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    // Opened before there is a rule.
    let _first = bond.connect(origin).unwrap();
    put_rule(&bond, origin);
    let second = bond.connect(origin).unwrap();
    let carried = || got(&bond, "GET /v1/streams", "")["streams"].clone();
    until("both are carried", || {
        carried().as_array().unwrap().len() == 2
    });
    let page = carried();
    let known = &page[0]["application"][0];
    let seen = |states: &[&str]| {
        let status = got(&bond, "GET /v1/status", "");
        let mut transfers = status["transfers"].as_array().unwrap().clone();
        transfers.sort_by_key(|transfer| transfer["stream"].as_u64());
        let found = transfers.iter().map(|transfer| {
            let application = &transfer["application"];
            let fields = ["name", "certainty", "uid"].map(|field| application[field].clone());
            (transfer["state"].clone(), transfer["rule"].clone(), fields)
        });
        let of = [
            known["value"].clone(),
            known["certainty"].clone(),
            uid().into(),
        ];
        let rules = [Value::Null, json!("own"), json!("own")];
        let wanted = states.iter().zip(rules);
        let wanted = wanted.map(|(state, rule)| (json!(state), rule, of.clone()));
        found.eq(wanted)
    };
    until("both are open", || seen(&["open", "open"]));
    drop(second);
    until("one has ended", || seen(&["open", "closed"]));
    let aborted = bond.connect(origin).unwrap();
    until("it is open", || seen(&["open", "closed", "open"]));
    SockRef::from(&aborted)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(aborted);
    until("it has been reset", || seen(&["open", "closed", "closed"]));
    let status = bond.status("primary").unwrap();
    assert!(status.transfers.iter().all(|t| t.application.is_some()));
}

/// A client that has asked for [`UNREAD`] bytes, and reads none of them.
fn that_does_not_read(bond: &Bond, origin: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // The buffer at the other end has room for some segments of this size.
    socket.set_tcp_mss(536).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&bond.socks5.into()).unwrap();
    let mut client = socks5_at(socket.into(), origin);
    client.write_all(&UNREAD.to_be_bytes()).unwrap();
    client
}

#[test]
fn the_status_has_applications_and_rules_of_streams_that_are_over_and_not_read_yet() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    put_rule(&bond, origin);
    let about = |client: &TcpStream| {
        let client = client.local_addr().unwrap();
        ask(&bond, &format!("GET /v1/streams/{client}"), "")
    };
    // The primary goes on taking bytes for a client that does not read when that says something:
    // the end of the stream is to be there by then, which nothing shows.
    let is_over = |client: &TcpStream| {
        until("all bytes have arrived", || {
            let answer = about(client);
            answer.code == 200 && answer.json()["bytes_in"] == UNREAD
        });
        std::thread::sleep(Duration::from_millis(100));
        client.shutdown(Shutdown::Write).unwrap();
        let deadline = Instant::now() + Duration::from_secs(3);
        while about(client).code == 200 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let answer = about(client);
        // It has a client still, and no stream.
        answer.code == 404 && answer.body.contains("not carried now")
    };
    let clients = std::iter::repeat_with(|| that_does_not_read(&bond, origin));
    let mut client = clients.take(5).find(is_over).unwrap();
    let status = got(&bond, "GET /v1/status", "");
    let transfers = status["transfers"].as_array().unwrap();
    // Earlier ones were closed with their clients.
    let over = transfers
        .iter()
        .filter(|transfer| transfer["state"] == "closed")
        .max_by_key(|transfer| transfer["stream"].as_u64());
    let Some(over) = over else {
        panic!("{status}");
    };
    assert_eq!(
        (&over["rule"], &over["application"]["uid"]),
        (&json!("own"), &json!(uid()))
    );
    client.set_read_timeout(Some(WITHIN)).unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.len() == UNREAD as usize && is_pattern(0, &rest));
}
