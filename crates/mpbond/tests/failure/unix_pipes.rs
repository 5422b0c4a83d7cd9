//! Pipes over Unix sockets: bytes in both directions, a process in the middle that dies and comes
//! back, sockets that are absent or taken, and an upgrade.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::daemons::{Bond, WITHIN, Ways, download, is_pattern, origin, until};
use crate::reload::{read, write};

/// A process that carries bytes from a socket at which it listens to another one.
struct Carrier {
    listen: PathBuf,
    ends: Arc<Mutex<Vec<UnixStream>>>,
}

impl Carrier {
    fn start(listen: &Path, to: &Path) -> Self {
        Self::start_delayed(listen, to, Duration::ZERO)
    }

    /// It holds each block for so long.
    fn start_delayed(listen: &Path, to: &Path, delay: Duration) -> Self {
        let listener = UnixListener::bind(listen).unwrap();
        let (to, ends) = (to.to_owned(), Arc::<Mutex<Vec<UnixStream>>>::default());
        let all = Arc::clone(&ends);
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let Ok(far) = UnixStream::connect(&to) else {
                    continue;
                };
                let both = [&near, &far].map(|s| s.try_clone().unwrap());
                all.lock().unwrap().extend(both);
                let ends = [&near, &far].map(|s| s.try_clone().unwrap());
                let [to_near, to_far] = ends;
                thread::spawn(move || carry(near, to_far, delay));
                thread::spawn(move || carry(far, to_near, delay));
            }
        });
        let listen = listen.to_owned();
        Self { listen, ends }
    }

    /// Ends all connections, and its file is gone.
    fn stop(self) {
        std::fs::remove_file(&self.listen).unwrap();
        for end in self.ends.lock().unwrap().iter() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: UnixStream, mut into: UnixStream, delay: Duration) {
    let mut block = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut block) {
        thread::sleep(delay);
        if into.write_all(&block[..n]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
}

/// A primary and a helper whose pipe is the primary's socket `watch`, and the helper's `phone`.
fn bond(ways: Ways) -> Bond {
    // Bytes on both whatever their delays are.
    let bond = Bond::new(ways, "", "scheduler = \"round-robin\"");
    let (watch, phone) = (bond.file("watch"), bond.file("phone"));
    let tcp = format!("listen = \"{}\"", bond.helper);
    let both = format!(
        "listen = [\"{}\", \"unix:{}\"]",
        bond.helper,
        phone.display()
    );
    write(&bond, "helper", &read(&bond, "helper").replace(&tcp, &both));
    let tcp = format!("address = \"{}\"", bond.helper);
    let unix = format!("address = \"unix:{}\"", watch.display());
    write(
        &bond,
        "primary",
        &read(&bond, "primary").replace(&tcp, &unix),
    );
    bond
}

#[test]
fn a_pipe_over_unix_sockets_carries_both_ways_and_comes_back() {
    let bond = bond(Ways::Both);
    let _daemons = [bond.start("proxy"), bond.start("helper")];
    let carrier = Carrier::start(&bond.file("watch"), &bond.file("phone"));
    let primary = bond.start("primary");
    bond.joined(2);
    let origin = origin();
    // It is read later: buffers do not hold all of it.
    let wanted = 60_000_000_u32;
    let mut download = bond.connect(origin).unwrap();
    download.write_all(&wanted.to_be_bytes()).unwrap();
    until("both carry bytes", || {
        bond.status("primary").is_some_and(|status| {
            let subflows = status.sessions.iter().flat_map(|s| &s.subflows);
            subflows.filter(|s| s.bytes_in > 0).count() == 2
        })
    });
    carrier.stop();
    download.set_read_timeout(Some(WITHIN)).unwrap();
    let mut got = Vec::new();
    download.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), wanted as usize, "{}", primary.log());
    assert!(is_pattern(0, &got));
    // One line with its reason, and another attempt finds the socket again.
    let gone = format!("connecting to unix:{}: ", bond.file("watch").display());
    primary.logs(&format!("{gone}No such file or directory"));
    let _carrier = Carrier::start(&bond.file("watch"), &bond.file("phone"));
    bond.joined(2);
    assert!(bond.works(origin), "{}", primary.log());
}

#[test]
fn a_pipe_over_unix_sockets_alone_will_do() {
    let bond = bond(Ways::Helper);
    let _daemons = [bond.start("proxy"), bond.start("helper")];
    // The helper's own socket, without a process between.
    std::os::unix::fs::symlink(bond.file("phone"), bond.file("watch")).unwrap();
    let primary = bond.start("primary");
    bond.joined(1);
    let wanted = 5_000_000;
    let download = download(&bond, origin(), wanted);
    assert_eq!(
        download.end().unwrap(),
        wanted as usize,
        "{}",
        primary.log()
    );
    assert!(bond.works(origin()), "{}", primary.log());
}

#[test]
fn the_round_trip_time_of_a_unix_pipe_is_measured() {
    let bond = bond(Ways::Helper);
    let _daemons = [bond.start("proxy"), bond.start("helper")];
    let delay = Duration::from_millis(30);
    let _carrier = Carrier::start_delayed(&bond.file("watch"), &bond.file("phone"), delay);
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin(), 400_000);
    let mut rtt = 0.0;
    until("it is no longer the assumed one", || {
        let status = bond.status("primary").unwrap();
        rtt = status.sessions[0].subflows[0].rtt_ms;
        rtt > 20.0
    });
    assert!((60.0..1_500.0).contains(&rtt), "{rtt}: {}", primary.log());
    assert_eq!(running.end().unwrap(), 400_000);
}

/// Without an express it would stand behind all that the helper holds: several seconds of the pipe.
#[test]
fn a_short_exchange_passes_what_a_helper_holds_for_a_slow_unix_pipe() {
    let bond = bond(Ways::Helper);
    // Round robin has no expresses.
    let proxy = read(&bond, "proxy").replace("scheduler = \"round-robin\"", "");
    write(&bond, "proxy", &proxy);
    let _daemons = [bond.start("proxy"), bond.start("helper")];
    // At most 1.1 Mbit/s.
    let delay = Duration::from_millis(30);
    let carrier = Carrier::start_delayed(&bond.file("watch"), &bond.file("phone"), delay);
    let primary = bond.start("primary");
    bond.joined(1);
    let origin = origin();
    let running = download(&bond, origin, 3_000_000);
    let held = || {
        let status = bond.status("helper").unwrap();
        let held = status.relays.iter().map(|relay| relay.level_down_bytes);
        held.max().unwrap_or_default()
    };
    until("there is an express, and the helper holds much", || {
        let status = bond.status("primary").unwrap();
        let mut subflows = status.sessions.iter().flat_map(|s| &s.subflows);
        subflows.any(|s| s.state == "express") && held() > 1_000_000
    });
    assert!(bond.works(origin), "{}", primary.log());
    assert!(held() > 300_000, "{}: {}", held(), primary.log());
    assert!(!running.is_over());
    carrier.stop();
}

/// The new process takes the listening socket over: its file is the same, and nobody is refused.
#[test]
fn a_helper_is_upgraded_with_the_unix_socket_that_it_listens_on() {
    let bond = bond(Ways::Helper);
    let _proxy = bond.start("proxy");
    let mut old = bond.start("helper");
    let file = || std::fs::metadata(bond.file("phone")).unwrap().ino();
    let before = file();
    std::os::unix::fs::symlink(bond.file("phone"), bond.file("watch")).unwrap();
    let primary = bond.start("primary");
    bond.joined(1);
    let new = bond.upgrade("helper").unwrap();
    assert_eq!(file(), before, "{}", new.log());
    // Once nothing is left to it; what works after that is the new one's.
    assert!(old.ends().success());
    bond.joined(1);
    assert!(bond.works(origin()), "{}", primary.log());
    assert_eq!(file(), before);
}

#[test]
fn a_place_that_is_taken_leaves_a_helper_its_other_pipes() {
    let bond = bond(Ways::Helper);
    std::fs::write(bond.file("phone"), "a text").unwrap();
    let address = format!("address = \"unix:{}\"", bond.file("watch").display());
    let tcp = format!("address = \"{}\"", bond.helper);
    write(
        &bond,
        "primary",
        &read(&bond, "primary").replace(&address, &tcp),
    );
    let _proxy = bond.start("proxy");
    let helper = bond.start("helper");
    helper.logs("a file that is no socket is there: move it, or name another place");
    let _primary = bond.start("primary");
    bond.joined(1);
    assert!(bond.works(origin()), "{}", helper.log());
    assert_eq!(std::fs::read(bond.file("phone")).unwrap(), b"a text");
}
