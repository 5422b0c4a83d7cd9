//! Bytes that have arrived completely and are not read yet when their session ends: in a namespace
//! of the test's own, in which the kernel keeps few of them for a socket.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use mpbond_testing::namespaces::{is_called_for, play, sh};

use crate::daemons::{Bond, Daemon, WITHIN, Ways, byte, is_pattern, origin, until};

/// Fits into the first window of a stream, so that the proxy takes it from the primary although the
/// origin reads nothing.
const UPLOAD: usize = 1_000_000;

/// Fits into the window that a primary grants a stream.
const DOWNLOAD: usize = 4_000_000;

#[test]
fn a_slow_origin_gets_a_whole_upload_however_its_session_ends() {
    play("-Urn", "delivery::uploads");
}

#[test]
fn a_slow_application_gets_a_whole_download_however_its_session_ends() {
    play("-Urn", "delivery::downloads");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn uploads() {
    if is_called_for() {
        keep_little_in_the_kernel();
        the_proxy_is_upgraded_and_the_session_retires();
        the_primary_stops();
        the_primary_is_gone_for_longer_than_resume_for();
        the_proxy_stops();
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn downloads() {
    if is_called_for() {
        keep_little_in_the_kernel();
        the_proxy_is_killed_during_a_download();
        the_primary_stops_during_a_download();
        the_primary_that_stops_takes_no_further_clients();
    }
}

/// A socket keeps some 100 kB, of the megabytes otherwise.
fn keep_little_in_the_kernel() {
    sh("ip link set lo up
        echo '4096 16384 65536' > /proc/sys/net/ipv4/tcp_wmem
        echo '4096 16384 65536' > /proc/sys/net/ipv4/tcp_rmem");
}

/// An origin that answers at once, and reads when it is told to.
struct SlowOrigin {
    address: SocketAddr,
    go: mpsc::Sender<()>,
    reader: thread::JoinHandle<std::io::Result<Vec<u8>>>,
}

impl SlowOrigin {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (go, told) = mpsc::channel();
        let reader = thread::spawn(move || {
            let (mut s, _) = listener.accept()?;
            s.set_read_timeout(Some(WITHIN))?;
            s.write_all(b"answer")?;
            s.shutdown(Shutdown::Write)?;
            let _ = told.recv();
            let mut got = Vec::new();
            s.read_to_end(&mut got)?;
            Ok(got)
        });
        Self {
            address,
            go,
            reader,
        }
    }

    /// Reads, and checks that everything has come.
    fn has_everything(self) {
        self.go.send(()).unwrap();
        let got = self.reader.join().unwrap().unwrap();
        assert_eq!(got.len(), UPLOAD);
        assert!(is_pattern(0, &got));
    }
}

/// An application uploads, reads the answer to its end, and closes; the proxy has everything, and
/// the origin has read nothing.
fn uploaded(bond: &Bond) -> SlowOrigin {
    let origin = SlowOrigin::new();
    let mut s = bond.connect(origin.address).unwrap();
    let bytes: Vec<u8> = (0..UPLOAD).map(byte).collect();
    s.write_all(&bytes).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    s.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"answer");
    until("the primary knows that the proxy has everything", || {
        let status = bond.status("primary").unwrap();
        status.sessions[0].streams_open == 0 && status.sessions[0].streams_total > 0
    });
    origin
}

/// The proxy and the primary of an upload, joined.
fn started(proxy_more: &str) -> (Bond, Daemon, Daemon) {
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", proxy_more);
    let proxy = bond.start("proxy");
    let primary = bond.start("primary");
    bond.joined(1);
    (bond, proxy, primary)
}

fn the_proxy_is_upgraded_and_the_session_retires() {
    let (bond, mut old, primary) = started("");
    let origin = uploaded(&bond);
    let new = bond.upgrade("proxy").unwrap();
    old.logs("ended by the other end");
    origin.has_everything();
    assert!(old.ends().success(), "{}", primary.log());
    assert!(!new.log().contains("still open, and are reset"));
}

fn the_primary_stops() {
    let (bond, proxy, mut primary) = started("");
    let origin = uploaded(&bond);
    assert!(primary.stop().success());
    proxy.logs("ended by the other end");
    // It counts as a session until then.
    assert_eq!(bond.status("proxy").unwrap().sessions.len(), 1);
    origin.has_everything();
    until("nothing is left of the session", || {
        bond.status("proxy").unwrap().sessions.is_empty()
    });
}

fn the_primary_is_gone_for_longer_than_resume_for() {
    let (bond, proxy, primary) = started("resume_for = \"1s\"");
    let origin = uploaded(&bond);
    primary.kill();
    proxy.logs("no path to the other end for too long");
    origin.has_everything();
}

fn the_proxy_stops() {
    let (bond, mut proxy, _primary) = started("stop_within = \"5min\"");
    let origin = uploaded(&bond);
    proxy.signal(Signal::SIGTERM);
    proxy.logs("ended by the other end");
    origin.has_everything();
    assert!(proxy.ends().success());
    assert!(!proxy.log().contains("still open, and are reset"));
}

/// An application has asked for a download, which the primary has completely, and reads nothing.
fn downloaded(bond: &Bond) -> TcpStream {
    let mut s = bond.connect(origin()).unwrap();
    s.write_all(&(DOWNLOAD as u32).to_be_bytes()).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    until("the proxy knows that the primary has everything", || {
        let status = bond.status("proxy").unwrap();
        status.sessions[0].streams_open == 0 && status.sessions[0].streams_total > 0
    });
    s
}

/// The application reads with pauses, from now on. On a busy machine they are longer, and a primary
/// that stops waits for no longer than 2 s.
fn reads_everything(mut s: TcpStream) -> thread::JoinHandle<std::io::Result<usize>> {
    thread::spawn(move || {
        let (mut all, mut block) = (Vec::new(), vec![0; 200_000]);
        loop {
            match s.read(&mut block)? {
                0 => break,
                n => all.extend_from_slice(&block[..n]),
            }
            thread::sleep(Duration::from_millis(1));
        }
        // Comparing takes longer than reading.
        assert!(is_pattern(0, &all), "wrong bytes");
        Ok(all.len())
    })
}

fn the_proxy_is_killed_during_a_download() {
    let (bond, proxy, primary) = started("");
    let s = downloaded(&bond);
    proxy.kill();
    let _next = bond.start("proxy");
    primary.logs("opening a new session");
    bond.joined(1);
    assert_eq!(reads_everything(s).join().unwrap().unwrap(), DOWNLOAD);
    until("nothing is left of the session", || {
        bond.status("primary").unwrap().sessions.len() == 1
    });
}

fn the_primary_stops_during_a_download() {
    let (bond, _proxy, mut primary) = started("");
    let reader = reads_everything(downloaded(&bond));
    assert!(primary.stop().success());
    assert_eq!(reader.join().unwrap().unwrap(), DOWNLOAD);
}

fn the_primary_that_stops_takes_no_further_clients() {
    let (bond, _proxy, mut primary) = started("");
    let mut s = downloaded(&bond);
    assert!(primary.stop().success());
    let log = primary.log();
    let closed = log.find("no further clients");
    let reset = log.find("applications have not read everything");
    assert!(closed.is_some() && closed < reset, "{log}");
    assert!(s.read_to_end(&mut Vec::new()).is_err(), "it is reset");
}
