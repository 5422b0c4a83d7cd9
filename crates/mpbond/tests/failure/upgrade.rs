//! Upgrades: a new process takes over from one that runs, and a download does not notice.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::daemons::{Bond, Upgraded, WITHIN, Ways, download, origin, text, until};

const MB: u32 = 1_000_000;

/// Number of upgrades in the ordinary tests; `make upgrades` does twenty for each role.
const FEW: usize = 2;

/// Waits until the process that ran before has ended.
fn ends_by_itself(bond: &Bond, role: &str) {
    until("the old one has ended", || {
        let notes = bond.status(role).unwrap().notes;
        !notes.iter().any(|note| note.contains("which ran before"))
    });
}

/// A download runs while the proxy is replaced, again and again; every byte of it is checked.
fn proxies(times: usize) {
    let origin = origin();
    // Nothing may take another way meanwhile.
    let fail = "on_proxy_loss = \"fail\"";
    let bond = Bond::new(Ways::Both, fail, "metrics = \"127.0.0.1:0\"");
    let mut old = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    let mut upgraded: Vec<Upgraded> = Vec::new();
    for n in 0..times {
        bond.joined(2);
        let running = download(&bond, origin, 10 * MB);
        let before = bond.status("proxy").unwrap().process;
        let new = bond.upgrade("proxy").unwrap();
        assert_ne!(new.process, before);
        assert!(bond.works(origin), "{n}: {}", primary.log());
        assert_eq!(running.end().unwrap(), 10 * MB as usize, "{n}");
        // New connections go to the new process, as soon as the primary has a session there.
        let to = origin.to_string();
        until("the new one has served a connection", || {
            assert!(bond.works(origin), "{n}: {}", primary.log());
            let status = bond.status("proxy").unwrap();
            status.transfers.iter().any(|t| t.destination == to)
        });
        ends_by_itself(&bond, "proxy");
        upgraded.push(new);
        assert!(
            !upgraded
                .last()
                .unwrap()
                .log()
                .contains("still open, and are reset")
        );
    }
    assert!(old.ends().success());
    let sandbox = bond.status("proxy").unwrap().sandbox.unwrap();
    assert!(sandbox.no_new_privileges, "{sandbox:?}");
}

#[test]
fn a_download_does_not_notice_that_its_proxy_is_upgraded() {
    proxies(FEW);
}

#[test]
#[ignore = "some minutes; `make upgrades`"]
fn twenty_of_twenty_downloads_do_not_notice_that_their_proxy_is_upgraded() {
    proxies(20);
}

/// The same with the helper, which is the only way; `more` are lines of its configuration.
fn helpers(times: usize, more: &str) {
    let origin = origin();
    let fail = "on_proxy_loss = \"fail\"";
    let bond = Bond::new(Ways::Helper, fail, "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{more}\n{config}")).unwrap();
    let _proxy = bond.start("proxy");
    let mut old = bond.start("helper");
    let primary = bond.start("primary");
    let mut upgraded: Vec<Upgraded> = Vec::new();
    let mut used = 0;
    for n in 0..times {
        bond.joined(1);
        // A helper that was lost within five seconds is dialled again after a pause that doubles.
        thread::sleep(Duration::from_secs(6));
        let running = download(&bond, origin, 10 * MB);
        let before = bond.status("helper").unwrap();
        let new = bond.upgrade("helper").unwrap();
        assert_ne!(new.process, before.process);
        assert!(bond.works(origin), "{n}: {}", primary.log());
        assert_eq!(running.end().unwrap(), 10 * MB as usize, "{n}");
        ends_by_itself(&bond, "helper");
        until("the new one relays", || {
            assert!(bond.works(origin), "{n}: {}", primary.log());
            !bond.status("helper").unwrap().relays.is_empty()
        });
        if let Some(budget) = bond.status("helper").unwrap().budget {
            // What both have relayed counts.
            used += u64::from(10 * MB);
            assert!(budget.used_bytes >= used, "{n}: {budget:?}");
        }
        upgraded.push(new);
    }
    assert!(old.ends().success());
    let log = primary.log();
    assert!(!log.contains("no path to the proxy works"), "{log}");
}

#[test]
fn a_download_does_not_notice_that_its_only_helper_is_upgraded() {
    helpers(FEW, "");
}

#[test]
fn a_monthly_budget_goes_on_through_upgrades() {
    helpers(FEW, "max_bytes_per_month = \"10 GB\"");
}

#[test]
#[ignore = "some minutes; `make upgrades`"]
fn twenty_of_twenty_downloads_do_not_notice_that_their_helper_is_upgraded() {
    helpers(20, "");
}

/// The same with the primary: its old process serves the download until it ends.
fn primaries(times: usize) {
    let origin = origin();
    let bond = Bond::new(Ways::Both, "on_proxy_loss = \"fail\"", "");
    let _proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let mut old = bond.start("primary");
    let mut upgraded: Vec<Upgraded> = Vec::new();
    for n in 0..times {
        bond.joined(2);
        let running = download(&bond, origin, 10 * MB);
        let before = bond.status("primary").unwrap().process;
        let new = bond.upgrade("primary").unwrap();
        assert_ne!(new.process, before);
        assert!(bond.works(origin), "{n}: {}", new.log());
        let transfers = bond.status("primary").unwrap().transfers;
        assert!(!transfers.is_empty(), "{n}: the old one has served it");
        assert_eq!(running.end().unwrap(), 10 * MB as usize, "{n}");
        ends_by_itself(&bond, "primary");
        // Its session has ended at the proxy, which would keep it for a minute.
        until("one session is left", || {
            bond.status("proxy").unwrap().sessions.len() == 1
        });
        upgraded.push(new);
    }
    assert!(old.ends().success());
}

#[test]
fn a_download_does_not_notice_that_its_primary_is_upgraded() {
    primaries(FEW);
}

#[test]
#[ignore = "some minutes; `make upgrades`"]
fn twenty_of_twenty_downloads_do_not_notice_that_their_primary_is_upgraded() {
    primaries(20);
}

/// The service manager follows the daemon from process to process.
#[test]
fn a_new_process_tells_the_service_manager_that_it_is_the_daemon() {
    let bond = Bond::new(Ways::Own, "", "");
    let manager = UnixDatagram::bind(bond.file("notify.sock")).unwrap();
    manager.set_read_timeout(Some(WITHIN)).unwrap();
    let told = |process: u32| {
        let mut text = [0; 100];
        let n = manager.recv(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..n]);
        assert_eq!(text, format!("READY=1\nMAINPID={process}\n"));
    };
    let line = format!(
        "NOTIFY_SOCKET={} exec \"$0\" \"$@\"",
        text(&bond.file("notify.sock"))
    );
    let old = bond.start_by("proxy", &line);
    told(old.process());
    let new = bond.upgrade("proxy").unwrap();
    told(new.process);
}

/// The paths of the new primary take longer than a connection waits for one.
#[test]
fn the_old_primary_serves_new_connections_until_the_new_one_has_a_path() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", "");
    let wire = Wire::to(bond.proxy);
    let file = bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let config = config.replace(&bond.proxy.to_string(), &wire.address.to_string());
    std::fs::write(&file, config).unwrap();
    let _proxy = bond.start("proxy");
    let mut old = bond.start("primary");
    bond.joined(1);
    *wire.pause.lock().unwrap() = Duration::from_millis(2500);
    let new = bond.upgrade("primary").unwrap();
    assert!(bond.works(origin), "{}", new.log());
    assert!(old.ends().success());
}

/// Connections to a daemon that a test can cut.
pub struct Wire {
    pub address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// New connections from this address are taken, and go no further.
    pub holds: Arc<Mutex<Option<IpAddr>>>,
    /// Before each connection goes on to the daemon.
    pub pause: Arc<Mutex<Duration>>,
    /// Number of connections that have come, and of those that go on.
    pub begun: Arc<AtomicUsize>,
    pub passes: Arc<AtomicUsize>,
}

impl Wire {
    pub fn to(proxy: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let pause: Arc<Mutex<Duration>> = Arc::default();
        let (begun, passes) = (
            Arc::<AtomicUsize>::default(),
            Arc::new(AtomicUsize::new(usize::MAX)),
        );
        let holds: Arc<Mutex<Option<IpAddr>>> = Arc::default();
        let (all, before) = (Arc::clone(&open), Arc::clone(&pause));
        let held = Arc::clone(&holds);
        let (number, most) = (Arc::clone(&begun), Arc::clone(&passes));
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if *held.lock().unwrap() == Some(near.peer_addr().unwrap().ip()) {
                    all.lock().unwrap().push(near);
                    continue;
                }
                let pause = *before.lock().unwrap();
                thread::sleep(pause);
                let own = number.fetch_add(1, Ordering::SeqCst);
                while own >= most.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(5));
                }
                let Ok(far) = TcpStream::connect(proxy) else {
                    continue;
                };
                let mut open = all.lock().unwrap();
                for (a, b) in [(&near, &far), (&far, &near)] {
                    let (mut a, mut b) = (a.try_clone().unwrap(), b.try_clone().unwrap());
                    thread::spawn(move || {
                        let mut block = vec![0; 1 << 16];
                        while let Ok(n @ 1..) = a.read(&mut block) {
                            if b.write_all(&block[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = b.shutdown(Shutdown::Both);
                    });
                }
                open.extend([near, far]);
            }
        });
        Self {
            address,
            open,
            holds,
            pause,
            begun,
            passes,
        }
    }

    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// What joins a session of the old process again reaches the new one first.
#[test]
fn a_session_of_the_old_proxy_is_joined_again_through_the_new_one() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let wire = Wire::to(bond.proxy);
    let file = bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let config = config.replace(&bond.proxy.to_string(), &wire.address.to_string());
    std::fs::write(&file, config).unwrap();
    let mut old = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin, 40 * MB);
    // Twice: the one in the middle passes on what is for the first.
    let middle = bond.upgrade("proxy").unwrap();
    bond.joined(1);
    let new = bond.upgrade("proxy").unwrap();
    assert_ne!(middle.process, new.process);
    wire.cut();
    assert_eq!(running.end().unwrap(), 40 * MB as usize);
    assert!(old.ends().success());
    let log = new.log();
    // Once by each process; again where a path that is silent on a busy machine is joined anew.
    assert!(log.matches("passed on label=").count() >= 2, "{log}");
    bond.joined(1);
    assert!(bond.works(origin));
}

#[test]
fn an_upgrade_that_fails_leaves_the_old_daemon_as_it_was() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "", "");
    let mut old = bond.start("proxy");
    let _primary = bond.start("primary");
    bond.joined(1);
    let file = bond.file("proxy.toml");
    let right = std::fs::read_to_string(&file).unwrap();
    // It fails when it has the listeners already.
    let other = format!("listen = [\"{}\", \"192.0.2.1:9\"]", bond.proxy);
    let wrong = right.replace(&format!("listen = \"{}\"", bond.proxy), &other);
    assert_ne!(wrong, right);
    std::fs::write(&file, wrong).unwrap();
    let Err(log) = bond.upgrade("proxy") else {
        panic!("it was upgraded");
    };
    assert!(log.contains("the new proxy has ended"), "{log}");
    assert_eq!(bond.status("proxy").unwrap().process, old.process());
    assert!(bond.works(origin));
    std::fs::write(&file, right).unwrap();
    let new = bond.upgrade("proxy").unwrap();
    assert_eq!(bond.status("proxy").unwrap().process, new.process);
    assert!(old.ends().success());
    assert!(bond.works(origin));
    // Once it stops, nothing is left of either.
    let process = nix::unistd::Pid::from_raw(new.process as i32);
    nix::sys::signal::kill(process, Signal::SIGTERM).unwrap();
    until("its sockets are gone", || {
        !bond.file("proxy.sock").exists() && !bond.file("proxy.sock.upgrade").exists()
    });
}
