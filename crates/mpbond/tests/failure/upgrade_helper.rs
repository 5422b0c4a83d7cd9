//! Upgrades of a helper that has given tickets: they are used after it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use mpbond_net::control::{
    ControlChannel, Message, RequestId, TICKET_LIFETIME, Ticket, relay_preamble,
};

use crate::daemons::{Bond, Upgraded, WITHIN, Ways, download, origin, until};
use crate::upgrade::Wire;
use crate::visitor::{control, runtime, ticket};

/// Sends back what it gets.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut octets = [0; 100];
                if let Ok(n) = stream.read(&mut octets) {
                    let _ = stream.write_all(&octets[..n]);
                }
            });
        }
    });
    address
}

/// Puts an address in place of another one in a configuration.
fn replace(bond: &Bond, role: &str, (from, to): (SocketAddr, SocketAddr)) {
    let file = bond.file(&format!("{role}.toml"));
    let config = std::fs::read_to_string(&file).unwrap();
    let (from, to) = (format!("\"{from}\""), format!("\"{to}\""));
    assert_eq!(config.matches(&from).count(), 1, "{config}");
    std::fs::write(&file, config.replace(&from, &to)).unwrap();
}

/// A control connection of the primary, and tickets for relays to this address.
async fn tickets(bond: &Bond, to: SocketAddr, count: u64) -> (ControlChannel, Vec<Ticket>) {
    let mut control = control(bond).await;
    let mut tickets = Vec::new();
    for n in 1..=count {
        let ask = Message::InitMp {
            request: RequestId(n),
            proxy: to,
            others: Vec::new(),
            max_segment_bytes: None,
        };
        tickets.push(ticket(&mut control, &ask).await.unwrap());
    }
    (control, tickets)
}

/// Uses a ticket; the opening comes in two parts, the first with part of the label.
fn is_good(bond: &Bond, ticket: &Ticket, word: &[u8]) -> bool {
    let mut relay = TcpStream::connect(bond.helper).unwrap();
    relay.set_nodelay(true).unwrap();
    relay.set_read_timeout(Some(WITHIN)).unwrap();
    let opening = relay_preamble(ticket);
    relay.write_all(&opening[..6]).unwrap();
    thread::sleep(Duration::from_millis(20));
    let sent = relay.write_all(&[&opening[6..], word].concat());
    let mut answer = vec![0; word.len()];
    sent.is_ok() && relay.read_exact(&mut answer).is_ok() && answer == word
}

/// Whether each of ten tickets opens a relay after so many upgrades; `None` where these took so
/// long that tickets may have expired.
fn ten_after(
    bond: &Bond,
    to: SocketAddr,
    upgrades: usize,
    upgraded: &mut Vec<Upgraded>,
) -> Option<Vec<bool>> {
    let begun = Instant::now();
    let runtime = runtime();
    let (mut control, tickets) = runtime.block_on(tickets(bond, to, 10));
    upgraded.extend((0..upgrades).map(|_| bond.upgrade("helper").unwrap()));
    let end = runtime.block_on(control.receive());
    assert!(matches!(end, Ok(None)), "{end:?}");
    let good = tickets
        .iter()
        .enumerate()
        .map(|(n, ticket)| is_good(bond, ticket, format!("word {n}").as_bytes()))
        .collect();
    let late = begun.elapsed() > TICKET_LIFETIME.mul_f64(0.8);
    (!late).then_some(good)
}

#[test]
fn twenty_of_twenty_tickets_of_a_helper_are_used_after_its_upgrade() {
    let to = echo();
    let bond = Bond::new(Ways::Helper, "", "");
    replace(&bond, "helper", (bond.proxy, to));
    let (mut first, mut upgraded) = (bond.start("helper"), Vec::new());
    for upgrades in [1, 2] {
        let good = (0..5).find_map(|_| ten_after(&bond, to, upgrades, &mut upgraded));
        assert_eq!(good, Some(vec![true; 10]), "{upgrades}: {}", first.log());
    }
    assert!(first.ends().success());
}

/// The relay's connection reaches the helper when another process has taken over.
#[test]
fn a_relay_that_is_being_joined_while_its_helper_is_upgraded_works() {
    let origin = origin();
    let bond = Bond::new(Ways::Helper, "on_proxy_loss = \"fail\"", "");
    let wire = Wire::to(bond.helper);
    replace(&bond, "primary", (bond.helper, wire.address));
    let _proxy = bond.start("proxy");
    let mut old = bond.start("helper");
    // The control connection alone.
    wire.passes.store(1, Ordering::SeqCst);
    let primary = bond.start("primary");
    until("the relay is being joined", || {
        wire.begun.load(Ordering::SeqCst) == 2
    });
    let begun = Instant::now();
    let new = bond.upgrade("helper").unwrap();
    primary.logs("control connection lost");
    let late = begun.elapsed() > TICKET_LIFETIME / 2;
    wire.passes.store(usize::MAX, Ordering::SeqCst);
    bond.joined(1);
    let running = download(&bond, origin, 2_000_000);
    assert_eq!(running.end().unwrap(), 2_000_000, "{}", primary.log());
    // On a machine that is so busy, the ticket may have expired.
    if !late {
        assert!(new.log().contains("passed on label="), "{}", new.log());
        assert!(!primary.log().contains("helper lost"), "{}", primary.log());
    }
    // Once the relay is idle.
    assert!(old.ends().success());
}

/// Two processes cannot keep one account, so a ticket ends with its process. At the goodbye the
/// primary drops the relay that it is joining, and asks the new process for another one.
#[test]
fn a_relay_that_is_being_joined_while_a_helper_with_a_budget_is_upgraded_is_asked_for_again() {
    let origin = origin();
    let bond = Bond::new(Ways::Helper, "on_proxy_loss = \"fail\"", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config + "max_bytes_per_month = \"10 GB\"\n").unwrap();
    let wire = Wire::to(bond.helper);
    replace(&bond, "primary", (bond.helper, wire.address));
    let _proxy = bond.start("proxy");
    let mut old = bond.start("helper");
    // The control connection alone.
    wire.passes.store(1, Ordering::SeqCst);
    let primary = bond.start("primary");
    until("the relay is being joined", || {
        wire.begun.load(Ordering::SeqCst) == 2
    });
    let _new = bond.upgrade("helper").unwrap();
    primary.logs("the helper leaves");
    assert!(old.ends().success());
    wire.passes.store(usize::MAX, Ordering::SeqCst);
    bond.joined(1);
    let running = download(&bond, origin, 2_000_000);
    assert_eq!(running.end().unwrap(), 2_000_000, "{}", primary.log());
}
