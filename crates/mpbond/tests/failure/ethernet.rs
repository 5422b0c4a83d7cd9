//! Relays over Ethernet frames in place of TCP, between network namespaces of the test's own: they
//! carry what TCP carried, and TCP takes over where they do not work.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mpbond::status::{EthernetStatus, RelayStatus};
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use nix::sys::signal::Signal;

use crate::apart::Apart;
use crate::daemons::{
    Bond, Daemon, Download, WITHIN, byte, download, is_pattern, origin, text, until, until_within,
};
use crate::reload::{read, write};

const SIZE: u32 = 20_000_000;

/// Control connection, names, and the application's own packets beside so many bytes.
const LITTLE: u64 = 2_000_000;

#[test]
fn relays_run_over_ethernet_frames_in_both_directions() {
    play("-Urnm", "ethernet::carried");
}

#[test]
fn nothing_is_lost_when_a_link_loses_all_ethernet_frames() {
    if has_nft() {
        play("-Urnm", "ethernet::silent");
    }
}

#[test]
fn a_link_that_loses_five_per_cent_of_the_frames_is_left_to_tcp() {
    if has_nft() {
        play("-Urnm", "ethernet::lossy");
    }
}

#[test]
fn nothing_is_lost_when_the_helpers_interface_goes_down() {
    play("-Urnm", "ethernet::down");
}

#[test]
fn nothing_is_lost_when_the_primarys_interface_is_removed() {
    play("-Urnm", "ethernet::gone");
}

#[test]
fn nothing_is_lost_when_a_helper_that_carries_frames_stands_still() {
    play("-Urnm", "ethernet::stands_still");
}

#[test]
fn nothing_is_lost_when_a_helper_that_carries_frames_is_killed() {
    play("-Urnm", "ethernet::killed");
}

#[test]
fn a_primary_that_owes_nothing_is_told_of_the_end_of_its_channel() {
    play("-Urnm", "ethernet::idle");
}

#[test]
fn without_the_capability_or_the_helpers_consent_tcp_is_used_and_doctor_says_why() {
    play("-Urnm", "ethernet::refused");
}

#[test]
fn a_helper_behind_a_router_is_reached_by_tcp() {
    play("-Urnm", "ethernet::routed");
}

/// Namespaces and the daemons there.
struct Bonded {
    apart: Apart,
    primary: Daemon,
    helper: Daemon,
    _proxy: Daemon,
}

/// With `ethernet_frames` at both ends; the way through the helper is the only one unless `own`.
fn apart(own: bool) -> Apart {
    let apart = Apart::with_helper();
    let bond = &apart.bond;
    let config = "ethernet_frames = true\n".to_owned() + &read(bond, "helper");
    write(bond, "helper", &config);
    let mut config = read(bond, "primary");
    config = config.replace("[[helper]]\n", "[[helper]]\nethernet_frames = true\n");
    if !own {
        config = config.replace("[[path]]\nname = \"own\"\n", "");
    }
    assert!(config.contains("ethernet_frames"), "{config}");
    write(bond, "primary", &config);
    apart
}

/// Daemons with bytes on the own way and through the helper, whatever their delays are.
fn both_ways() -> Bonded {
    let apart = apart(true);
    let config = "scheduler = \"round-robin\"\n".to_owned() + &read(&apart.bond, "proxy");
    write(&apart.bond, "proxy", &config);
    Bonded::start(apart, 2)
}

impl Bonded {
    fn start(apart: Apart, subflows: usize) -> Self {
        let proxy = apart.bond.start("proxy");
        let helper = apart.start_helper();
        let primary = apart.start_primary();
        apart.bond.joined(subflows);
        Self {
            apart,
            primary,
            helper,
            _proxy: proxy,
        }
    }

    fn bond(&self) -> &Bond {
        &self.apart.bond
    }

    /// Use of Ethernet frames as the primary tells it.
    fn frames(&self) -> EthernetStatus {
        let links = self.bond().status("primary").unwrap().links;
        let link = links.into_iter().find(|link| link.name == "helper");
        link.unwrap().ethernet.unwrap()
    }

    fn relays(&self) -> Vec<RelayStatus> {
        self.bond().status("helper").unwrap().relays
    }

    /// Bytes that the relays over pipes of this kind have carried.
    fn carried(&self, kind: &str) -> [u64; 2] {
        let relays = self.relays();
        let of_kind = || relays.iter().filter(|relay| relay.pipe == kind);
        [
            of_kind().map(|relay| relay.bytes_down).sum(),
            of_kind().map(|relay| relay.bytes_up).sum(),
        ]
    }

    /// Bytes of IP packets that have arrived at the primary, as the kernel counts them.
    fn ip_bytes(&self) -> u64 {
        let text = self.apart.run_there("cat /proc/net/netstat");
        let mut lines = text.lines().filter(|line| line.starts_with("IpExt:"));
        let names = lines.next().unwrap().split_whitespace();
        let values = lines.next().unwrap().split_whitespace();
        let mut pairs = names.zip(values);
        let (_, octets) = pairs.find(|(name, _)| *name == "InOctets").unwrap();
        octets.parse().unwrap()
    }
}

/// Daemons, and a download of which frames have carried so many bytes. All starts again, up to
/// three times, where TCP has taken over before: a process that gets no processor for 300 ms is a
/// peer that has fallen silent.
fn carrying(start: impl Fn() -> Bonded, bytes: u64) -> (Bonded, Download) {
    for _ in 0..3 {
        let bonded = start();
        let download = download(bonded.bond(), origin(), SIZE);
        let mut carried = 0;
        until("frames carry", || {
            carried = bonded.carried("ethernet")[0];
            carried > bytes || !bonded.frames().used
        });
        let frames = bonded.frames();
        if carried > bytes && frames.used {
            return (bonded, download);
        }
        let silent = |reason: &String| reason.contains("does not answer");
        assert!(frames.reason.as_ref().is_none_or(silent), "{frames:?}");
    }
    panic!("TCP has taken over each time");
}

impl Drop for Bonded {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}\n{}", self.primary.log(), self.helper.log());
        }
    }
}

/// A destination that takes octets of the pattern to their end; their number.
fn sink() -> (SocketAddr, JoinHandle<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut at, mut block) = (0, vec![0; 1 << 16]);
        loop {
            match stream.read(&mut block).unwrap() {
                0 => return at,
                n => {
                    assert!(is_pattern(at, &block[..n]), "wrong bytes after {at}");
                    at += n;
                }
            }
        }
    });
    (address, thread)
}

/// An upload of so many octets of the pattern, once all have arrived.
fn upload(bond: &Bond, bytes: usize) {
    let (sink, arrived) = sink();
    let mut stream = bond.connect(sink).unwrap();
    stream.set_write_timeout(Some(WITHIN)).unwrap();
    let octets: Vec<u8> = (0..bytes).map(byte).collect();
    stream.write_all(&octets).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(arrived.join().unwrap(), bytes);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn carried() {
    if !is_called_for() {
        return;
    }
    // A process that gets no processor for 300 ms is a peer that has fallen silent.
    assert!((0..3).any(|_| is_carried()), "TCP has taken over each time");
}

/// Whether frames have carried all the time.
fn is_carried() -> bool {
    let bonded = Bonded::start(apart(false), 1);
    let before = bonded.ip_bytes();
    let download = download(bonded.bond(), origin(), SIZE);
    assert_eq!(download.end().unwrap(), SIZE as usize);
    let over_ip = bonded.ip_bytes() - before;
    upload(bonded.bond(), SIZE as usize);
    // The MTU of the interface has shrunk: the channel that is open adopts it.
    bonded.apart.there(&["link set pipe0 mtu 1300"]);
    upload(bonded.bond(), 3_000_000);
    let EthernetStatus { used, reason } = bonded.frames();
    if let Some(reason) = reason {
        assert!(!used && reason.contains("does not answer"), "{reason}");
        return false;
    }
    assert!(used && over_ip < LITTLE, "{over_ip}");
    let [down, up] = bonded.carried("ethernet");
    let sizes = [SIZE.into(), u64::from(SIZE) + 3_000_000];
    assert!(down >= sizes[0] && up >= sizes[1], "{down} {up}");
    // In text, too.
    let socket = bonded.bond().file("primary.sock");
    let program = env!("CARGO_BIN_EXE_mpbond");
    let shown = sh(&format!("{program} status --socket {}", text(&socket)));
    assert!(shown.contains("helper: over Ethernet frames"), "{shown}");
    true
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn silent() {
    if !is_called_for() {
        return;
    }
    let (bonded, download) = carrying(|| Bonded::start(apart(false), 1), 1_000_000);
    // TCP passes as before.
    bonded.apart.there_obeys(
        "table netdev cut {
             chain in {
                 type filter hook ingress device pipe0 priority 0;
                 ether type 0x88b5 drop
             }
         }",
    );
    assert_eq!(download.end().unwrap(), SIZE as usize);
    assert!(bonded.carried("tcp")[0] > 1_000_000);
    upload(bonded.bond(), 1_000_000);
    let frames = bonded.frames();
    assert!(!frames.used, "{frames:?}");
    let why = "the peer does not answer over Ethernet frames: TCP has to be used";
    assert_eq!(frames.reason.as_deref(), Some(why));
    let log = bonded.primary.log();
    assert_eq!(log.matches("TCP is used in place of").count(), 1, "{log}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn lossy() {
    if !is_called_for() {
        return;
    }
    // As in `carrying`.
    let mut reasons = (0..3).map(|_| reason_of_loss());
    let reason = reasons.find(|reason| !reason.contains("does not answer"));
    let why = "more than 1 % of the Ethernet frames are lost: TCP has to be used";
    // If the RESET is faster than the message, the next offer is refused with it.
    let ends_with_it = reason.as_ref().is_some_and(|reason| reason.ends_with(why));
    assert!(ends_with_it, "{reason:?}");
}

/// Why frames are not used any more over a link that loses five per cent of them.
fn reason_of_loss() -> String {
    let bonded = Bonded::start(apart(false), 1);
    bonded.apart.there_obeys(
        "table netdev cut {
             chain in {
                 type filter hook ingress device pipe0 priority 0;
                 ether type 0x88b5 numgen random mod 100 < 5 drop
             }
         }",
    );
    let download = download(bonded.bond(), origin(), SIZE);
    assert_eq!(download.end().unwrap(), SIZE as usize);
    assert!(bonded.carried("tcp")[0] > 1_000_000);
    let frames = bonded.frames();
    assert!(!frames.used, "{frames:?}");
    frames.reason.unwrap()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn down() {
    if !is_called_for() {
        return;
    }
    let (bonded, download) = carrying(both_ways, 500_000);
    bonded.apart.helper_runs("ip link set pipe1 down");
    bonded
        .helper
        .logs("Ethernet frames on pipe1: Network is down");
    bonded.apart.helper_runs("ip link set pipe1 up");
    assert_eq!(download.end().unwrap(), SIZE as usize);
    bonded.bond().joined(2);
    upload(bonded.bond(), 1_000_000);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn gone() {
    if !is_called_for() {
        return;
    }
    let (bonded, download) = carrying(both_ways, 500_000);
    bonded.apart.there(&["link del pipe0"]);
    assert_eq!(download.end().unwrap(), SIZE as usize);
    upload(bonded.bond(), 1_000_000);
    bonded.primary.logs("Ethernet frames on pipe0: ");
    let log = bonded.primary.log();
    assert_eq!(log.matches("TCP is used in place of").count(), 1, "{log}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn stands_still() {
    if !is_called_for() {
        return;
    }
    let (bonded, download) = carrying(|| Bonded::start(apart(false), 1), 500_000);
    bonded.helper.signal(Signal::SIGSTOP);
    let why = "the peer does not answer over Ethernet frames: TCP has to be used";
    until("the primary knows", || !bonded.frames().used);
    assert_eq!(bonded.frames().reason.as_deref(), Some(why));
    bonded.helper.signal(Signal::SIGCONT);
    assert_eq!(download.end().unwrap(), SIZE as usize);
    assert!(bonded.carried("tcp")[0] > 1_000_000);
    let log = bonded.primary.log();
    assert_eq!(log.matches("TCP is used in place of").count(), 1, "{log}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn killed() {
    if !is_called_for() {
        return;
    }
    let (mut bonded, download) = carrying(both_ways, 500_000);
    bonded.helper.signal(Signal::SIGKILL);
    assert_eq!(download.end().unwrap(), SIZE as usize);
    bonded.primary.logs("control connection lost: ");
    bonded.helper = bonded.apart.start_helper();
    bonded.bond().joined(2);
    upload(bonded.bond(), 1_000_000);
    let log = bonded.primary.log();
    assert_eq!(log.matches("control connection lost: ").count(), 1, "{log}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn idle() {
    if !is_called_for() {
        return;
    }
    // A process that gets no processor for 300 ms is a peer that has fallen silent.
    assert!((0..3).any(|_| is_told()), "TCP has taken over each time");
}

/// Whether frames are used until the primary is told.
fn is_told() -> bool {
    let bonded = Bonded::start(apart(false), 1);
    assert!(bonded.bond().works(origin()));
    // Until nothing is owed.
    thread::sleep(Duration::from_secs(2));
    bonded.apart.helper_runs("ip link set pipe1 down");
    bonded.apart.helper_runs("ip link set pipe1 up");
    // By itself, a primary that owes nothing would ask after 30 s.
    until_within(Duration::from_secs(15), "the primary knows", || {
        !bonded.frames().used
    });
    let reason = bonded.frames().reason.unwrap();
    assert!(bonded.bond().works(origin()));
    if reason.contains("does not answer") {
        return false;
    }
    let why = "Ethernet frames on pipe1: Network is down (os error 100)";
    assert_eq!(reason, why);
    true
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn refused() {
    if !is_called_for() {
        return;
    }
    let apart = apart(false);
    let bond = &apart.bond;
    let _proxy = bond.start("proxy");
    let without = |pid: u32| {
        format!("exec nsenter -t {pid} -n setpriv --bounding-set=-net_raw \"$0\" \"$@\"")
    };
    let mut helper = bond.start_by("helper", &without(apart.helper_pid()));
    let mut primary = apart.start_primary();
    bond.joined(1);
    let reason = || {
        let links = bond.status("primary").unwrap().links;
        let ethernet = links[0].ethernet.clone().unwrap();
        assert!(!ethernet.used, "{ethernet:?}");
        ethernet.reason.unwrap()
    };
    let why = "no Ethernet frames without CAP_NET_RAW: pipes use TCP";
    assert_eq!(reason(), format!("the helper refuses: {why}"));
    assert!(bond.works(origin()), "{}", primary.log());
    assert_eq!(bond.status("helper").unwrap().relays[0].pipe, "tcp");
    assert_eq!(helper.log().matches(why).count(), 1, "{}", helper.log());
    let doctor = |role: &str, pid: u32| {
        let (program, file) = (
            env!("CARGO_BIN_EXE_mpbond"),
            bond.file(&format!("{role}.toml")),
        );
        let command = format!("{program} doctor {role} --config {}", text(&file));
        sh(&format!("nsenter -t {pid} -n {command} || true"))
    };
    let found = doctor("helper", apart.helper_pid());
    let line = format!("TCP is used in place of Ethernet frames: {why}");
    assert!(unwrapped(&found).contains(&line), "{found}");
    let found = doctor("primary", apart.pid());
    assert!(
        unwrapped(&found).contains("Ethernet frames: the helper refuses"),
        "{found}"
    );
    // The other way round.
    primary.stop();
    helper.stop();
    let config = read(bond, "helper").replace("ethernet_frames = true\n", "");
    write(bond, "helper", &config);
    let _helper = apart.start_helper();
    let mut primary = apart.start_primary();
    bond.joined(1);
    let refusal = "the helper refuses: `ethernet_frames` is not set there";
    assert_eq!(reason(), refusal);
    assert!(bond.works(origin()));
    // The primary without it.
    primary.stop();
    let before = primary.log().len();
    let primary = bond.start_by("primary", &without(apart.pid()));
    bond.joined(1);
    assert_eq!(reason(), why);
    assert!(bond.works(origin()));
    let log = &primary.log()[before..];
    assert_eq!(log.matches(why).count(), 1, "{log}");
    let found = doctor("primary", apart.pid());
    assert!(unwrapped(&found).contains(&line), "{found}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn routed() {
    if !is_called_for() {
        return;
    }
    let apart = apart(false);
    let bond = &apart.bond;
    // The helper's other address, which is behind this host.
    sh("echo 1 > /proc/sys/net/ipv4/ip_forward");
    apart.there(&["route add 10.7.0.0/24 via 10.9.0.1"]);
    for role in ["helper", "primary"] {
        let config = read(bond, role).replace("\"10.6.0.2:", "\"10.7.0.2:");
        write(bond, role, &config);
    }
    let bonded = Bonded::start(apart, 1);
    let frames = bonded.frames();
    assert!(!frames.used, "{frames:?}");
    let why = "the helper is not on a link of this device's own";
    assert_eq!(frames.reason.as_deref(), Some(why));
    upload(bonded.bond(), 1_000_000);
}

/// A text in one line.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
