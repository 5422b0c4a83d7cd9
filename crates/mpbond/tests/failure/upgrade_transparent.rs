//! Upgrades of a primary that intercepts, in namespaces of the test's own: no application notices,
//! nothing passes the proxy by, and nothing is left in the end.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::apart::{Apart, connect_from};
use crate::daemons::{Daemon, Upgraded, WITHIN, download_over, is_pattern, origin_at, until};
use crate::families::{V4, V6, resolver};
use mpbond_testing::Need;
use mpbond_testing::names::resolv_conf;
use mpbond_testing::namespaces::{is_called_for, play, sh};

const MB: u32 = 1_000_000;

/// Number of upgrades in the ordinary test; `make upgrades` does twenty.
const FEW: usize = 3;

fn upgrades(role: &str) {
    let nft = std::process::Command::new("nft").arg("--version").output();
    if !nft.is_ok_and(|o| o.status.success()) {
        return Need::Nft.is_missing("there is no nft");
    }
    if let Err(e) = File::options().write(true).open("/dev/net/tun") {
        return Need::Namespaces.is_missing(format_args!("/dev/net/tun: {e}"));
    }
    play("-Urnm", &format!("upgrade_transparent::{role}"));
}

#[test]
fn no_application_notices_that_its_redirecting_primary_is_upgraded() {
    upgrades("role_redirect");
}

#[test]
fn no_application_notices_that_its_tproxy_primary_is_upgraded() {
    upgrades("role_tproxy");
}

#[test]
#[ignore = "some minutes; `make upgrades`"]
fn twenty_of_twenty_intercepted_downloads_do_not_notice_that_their_primary_is_upgraded() {
    upgrades("role_twenty_redirect");
    upgrades("role_twenty_tproxy");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_redirect() {
    if is_called_for() {
        play_upgrades("redirect", FEW);
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_tproxy() {
    if is_called_for() {
        play_upgrades("tproxy", FEW);
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_twenty_redirect() {
    if is_called_for() {
        play_upgrades("redirect", 20);
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_twenty_tproxy() {
    if is_called_for() {
        play_upgrades("tproxy", 20);
    }
}

/// Origins and a resolver behind the proxy. Everything is counted that arrives from the primary's
/// link, except at the proxy.
fn set_up(apart: &Apart) {
    sh("ip addr add 11.0.0.1/32 dev lo
        ip addr add 2600::1/128 dev lo
        ip addr add fd00:9::1/64 dev far0 nodad");
    apart.there(&[
        "addr add fd00:9::2/64 dev near0 nodad",
        "route add default via 10.9.0.1",
        "-6 route add default via fd00:9::1",
    ]);
    let bond = &apart.bond;
    let path = bond.file("proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text.replace("\"127.0.0.0/8\"", "[\"11.0.0.0/8\", \"2600::/16\"]");
    assert_ne!(text, more);
    std::fs::write(path, more).unwrap();
    let port = bond.proxy.port();
    let file = bond.file("leaks.nft");
    let table = format!(
        "table inet leaks {{
             counter leaks {{ }}
             chain arriving {{
                 type filter hook prerouting priority -300;
                 iifname \"far0\" tcp dport {port} accept
                 iifname \"far0\" meta l4proto {{ tcp, udp }} counter name leaks
             }}
         }}"
    );
    std::fs::write(&file, table).unwrap();
    sh(&format!("nft -f {}", file.display()));
    resolv_conf(&bond.file("resolv.conf"), "nameserver 9.9.9.9\n");
    resolver();
}

fn leaks() -> String {
    sh("nft list counter inet leaks leaks")
}

/// A small exchange with an origin.
fn exchange(mut s: TcpStream) -> std::io::Result<()> {
    s.set_read_timeout(Some(WITHIN))?;
    s.write_all(&1_000_u32.to_be_bytes())?;
    let mut got = [0; 1_000];
    s.read_exact(&mut got)?;
    assert!(is_pattern(0, &got));
    Ok(())
}

/// A query for the addresses of a name, and its answer, for which a client waits five seconds
/// before it asks again.
fn look_up() -> std::io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let header = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let query = [&header[..], b"\x04dual\x04test\x00\x00\x01\x00\x01"].concat();
    // A packet may pass the NAT chains by the rules before a change and the kill switch by those
    // after it: rarely, one is refused. Resolvers send it again.
    if socket.send_to(&query, "9.9.9.9:53").is_err() {
        socket.send_to(&query, "9.9.9.9:53")?;
    }
    let mut answer = [0; 512];
    let (n, from) = socket.recv_from(&mut answer)?;
    assert_eq!(from, "9.9.9.9:53".parse().unwrap());
    assert!(answer[..n].ends_with(&V4.octets()), "{:?}", &answer[..n]);
    Ok(())
}

/// Applications in the primary's namespace that make connections and look names up all the time,
/// each of which must succeed.
struct Busy {
    log: std::path::PathBuf,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Busy {
    fn start(apart: &Apart, origins: [SocketAddr; 2]) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let run = |what: &'static str, act: Box<dyn Fn() -> std::io::Result<()> + Send>| {
            let there = File::open(format!("/proc/{}/ns/net", apart.pid())).unwrap();
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                setns(there, CloneFlags::CLONE_NEWNET).unwrap();
                while !stop.load(SeqCst) {
                    if let Err(e) = act() {
                        panic!("{what}: {e}");
                    }
                    done.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(2));
                }
            })
        };
        let connect = move || {
            for origin in origins {
                exchange(TcpStream::connect_timeout(&origin, WITHIN)?)?;
            }
            Ok(())
        };
        let threads = vec![
            run("a connection", Box::new(connect)),
            run("a look-up", Box::new(look_up)),
        ];
        Self {
            log: apart.bond.file("primary.log"),
            stop,
            done,
            threads,
        }
    }

    /// Waits until some more have succeeded.
    fn goes_on(&self) {
        let before = self.done.load(SeqCst);
        until("applications go on", || {
            let failed = self.threads.iter().any(|thread| thread.is_finished());
            let log = || std::fs::read_to_string(&self.log).unwrap();
            assert!(!failed, "see above what has failed; the log: {}", log());
            self.done.load(SeqCst) > before + 4
        });
    }

    fn end(self) {
        self.goes_on();
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Tables of interception and of the kill switch, interfaces, and preferences of routing rules over
/// there.
fn there(apart: &Apart) -> Vec<String> {
    let text = apart.run_there("nft list tables inet; ip -o link; ip rule; ip -6 rule");
    let ours = text.lines().filter_map(|line| {
        let words = line.split([' ', ':', '\t']).filter(|word| {
            let is_rule = word.len() == 4 && word.starts_with("90");
            word.starts_with("mpbond") || is_rule
        });
        words.map(str::to_owned).next()
    });
    let mut ours: Vec<_> = ours.collect();
    ours.sort();
    ours.dedup();
    ours
}

/// Whether there is all of a primary with this number, and nothing of another one.
fn only(apart: &Apart, process: u32) -> bool {
    let there = there(apart);
    let count = |beginning: &str| there.iter().filter(|w| w.starts_with(beginning)).count();
    let own = count(&format!("mpbond_{process}_"));
    // The kill switch may be there, which belongs to no process.
    let tables = count("mpbond_") - count("mpbond_kill_switch");
    let interfaces = count("mpbond") - count("mpbond_");
    let slots = [count("900"), count("901")].map(|rules| rules > 0);
    own == 1 && tables == 1 && interfaces == 1 && slots[0] != slots[1]
}

fn ends_by_itself(apart: &Apart) {
    until("the old ones have ended", || {
        let notes = apart.bond.status("primary").unwrap().notes;
        !notes.iter().any(|note| note.contains("which ran before"))
    });
}

fn play_upgrades(mode: &str, times: usize) {
    let apart = Apart::with("on_proxy_loss = \"fail\"", "");
    set_up(&apart);
    let bond = &apart.bond;
    let origins = [V4.into(), V6.into()].map(|ip: IpAddr| origin_at((ip, 80).into()));
    let plain = std::fs::read_to_string(bond.file("primary.toml")).unwrap();
    let configure = |kill_switch: &str| {
        let more = format!(
            "[transparent]\nmode = \"{mode}\"\nresolvers = \"11.0.0.1\"\n\
             kill_switch = \"{kill_switch}\"\n"
        );
        std::fs::write(bond.file("primary.toml"), plain.clone() + &more).unwrap();
    };
    configure("off");
    let _proxy = bond.start("proxy");
    let mut primary = apart.start_primary();
    bond.joined(1);
    let begin =
        |bytes| origins.map(|o| download_over(connect_from(apart.pid(), o).unwrap(), bytes));

    // Every connection and look-up from here on must succeed.
    let busy = Busy::start(&apart, origins);
    busy.goes_on();
    // Some of the downloads go on over more than one upgrade.
    let mut upgraded: Vec<Upgraded> = Vec::new();
    let mut running = vec![begin(20 * MB)];
    for n in 0..times {
        running.push(begin(3 * MB));
        // A changed configuration takes effect.
        let (kill_switch, is) = match n % 2 {
            0 => ("permanent", "on\n"),
            _ => ("off", "off\n"),
        };
        configure(kill_switch);
        let before = bond.status("primary").unwrap().process;
        let new = apart.upgrade_primary().unwrap();
        assert_ne!(new.process, before);
        for origin in origins {
            exchange(connect_from(apart.pid(), origin).unwrap()).unwrap();
        }
        let names = apart.run_there("getent ahosts dual.test || true");
        assert!(names.contains("11.0.0.1"), "{n}: {names}");
        busy.goes_on();
        until("rules of the new process alone are there", || {
            only(&apart, new.process)
        });
        let switch = format!("{} kill-switch", env!("CARGO_BIN_EXE_mpbond"));
        assert_eq!(apart.run_there(&switch), is, "{n}");
        upgraded.push(new);
    }
    for (n, downloads) in running.into_iter().enumerate() {
        let bytes = if n == 0 { 20 * MB } else { 3 * MB };
        for download in downloads {
            assert_eq!(download.end().unwrap(), bytes as usize, "{n}");
        }
    }
    ends_by_itself(&apart);
    assert!(primary.ends().success());
    busy.end();
    let last = upgraded.pop().unwrap();
    drop(upgraded);
    assert!(!last.log().contains("still open, and are reset"));

    // Told to stop while the old process serves, both end, and applications hear of it.
    configure("permanent");
    let running = begin(400 * MB);
    let new = apart.upgrade_primary().unwrap();
    ends_with_resets(&apart, &new, Signal::SIGTERM, running);
    let left = there(&apart);
    assert_eq!(left, ["mpbond_kill_switch"]);

    // Killed, too.
    let mut primary: Daemon = apart.start_primary();
    bond.joined(1);
    let running = begin(400 * MB);
    let new = apart.upgrade_primary().unwrap();
    ends_with_resets(&apart, &new, Signal::SIGKILL, running);
    assert!(primary.ends().success());

    // Nothing went past the proxy, except in the end, which shows that it would have been counted.
    let counted = leaks();
    assert!(counted.contains("packets 0 bytes 0"), "{counted}");
    let off = format!("{} kill-switch off", env!("CARGO_BIN_EXE_mpbond"));
    assert!(apart.run_there(&off).starts_with("off: "));
    drop(connect_from(apart.pid(), origins[0]));
    let counted = leaks();
    assert!(!counted.contains("packets 0 bytes 0"), "{counted}");
}

/// The newer process gets this signal; both end, downloads do as well, and the rules are removed.
fn ends_with_resets(
    apart: &Apart,
    new: &Upgraded,
    signal: Signal,
    running: [crate::daemons::Download; 2],
) {
    until("the new process alone intercepts", || {
        only(apart, new.process)
    });
    kill(Pid::from_raw(new.process as i32), signal).unwrap();
    for download in running {
        let end = download.end().unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset, "{}", new.log());
    }
    until("the rules are removed", || {
        there(apart) == ["mpbond_kill_switch"]
    });
    assert!(connect_from(apart.pid(), (V4, 80).into()).is_err());
}
