//! Two pipes to one helper of which the best one is used, over two links between namespaces of the
//! test's own: bytes of each link by the kernel's counters, and pauses of a download when the used
//! one is lost, silent or slow.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use mpbond::status::{ChoiceStatus, LinkStatus};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{has_nft, is_within};

use crate::apart::Apart;
use crate::api::ask;
use crate::daemons::{Bond, Daemon, WITHIN, byte, is_pattern, until};
use crate::reload::{read, write};

/// 10 MiB, which the origin sends in 5.2 s: 16 Mbit/s, that is less than the faster link carries,
/// and more than the slower one.
const SIZE: usize = 10 << 20;
const PIECE: usize = 20_000;
const EVERY: Duration = Duration::from_millis(10);

/// Acknowledgements, reports, tickets and handshakes.
const LITTLE: u64 = 400_000;

#[test]
fn a_download_goes_on_over_another_pipe_when_the_used_one_is_lost_and_back() {
    if has_nft() {
        play("-Urnm", "pipe_choice::lost");
    }
}

#[test]
fn a_silent_pipe_is_left() {
    if has_nft() {
        play("-Urnm", "pipe_choice::silent");
    }
}

#[test]
fn a_slow_pipe_is_left() {
    if has_nft() {
        play("-Urnm", "pipe_choice::slow");
    }
}

#[test]
fn a_pipe_with_a_weak_signal_is_left_and_returned_to() {
    if has_nft() {
        play("-Urnm", "pipe_choice::weak");
    }
}

#[test]
fn the_pipe_whose_radio_needs_the_least_is_used_where_radios_are_named() {
    if has_nft() {
        play("-Urnm", "pipe_choice::energy");
    }
}

#[test]
fn two_pipes_bring_together_what_the_link_behind_them_does() {
    if has_nft() {
        play("-Urnm", "pipe_choice::together");
    }
}

/// Namespaces, daemons and counters.
struct Pair {
    apart: Apart,
    primary: Daemon,
    _others: [Daemon; 2],
}

impl Pair {
    /// Two pipes, `wifi` at 20 Mbit/s and `cable` at 10 Mbit/s.
    fn start() -> Self {
        let apart = Apart::with_helper();
        let (bond, helper) = (&apart.bond, apart.helper_pid());
        apart.there(&[
            &format!("link add pipe2 type veth peer name pipe3 netns {helper}"),
            "addr add 10.5.0.1/24 dev pipe2",
            "link set pipe2 up",
        ]);
        apart.helper_runs("ip addr add 10.5.0.2/24 dev pipe3");
        apart.helper_runs("ip link set pipe3 up");
        let port = bond.helper.port();
        let config = read(bond, "helper").replace("listen = \"10.6.0.2", "listen = \"0.0.0.0");
        write(bond, "helper", &config);
        let config = read(bond, "primary").replace("[[path]]\nname = \"own\"\n", "");
        let address = format!("address = \"10.6.0.2:{port}\"\n");
        assert!(config.contains(&address), "{config}");
        let config = config.replace(&address, "pipes = \"best\"\n").replace(
            "[socks5]",
            &format!(
                "[[helper.pipe]]\nname = \"wifi\"\n{address}interface = \"pipe0\"\n\
                 [[helper.pipe]]\nname = \"cable\"\naddress = \"10.5.0.2:{port}\"\n\
                 interface = \"pipe2\"\n[socks5]"
            ),
        );
        write(bond, "primary", &config);
        apart.there_obeys(
            "table inet links {
                 counter wifi { }
                 counter cable { }
                 chain in {
                     type filter hook input priority 0;
                     iifname pipe0 counter name wifi
                     iifname pipe2 counter name cable
                 }
             }",
        );
        let others = [bond.start("proxy"), apart.start_helper()];
        let primary = apart.start_primary();
        let pair = Self {
            apart,
            primary,
            _others: others,
        };
        pair.shape("pipe1", "20mbit");
        pair.shape("pipe3", "10mbit");
        until("both are joined, and the first one is used", || {
            pair.states() == ["used", "standby"] && pair.subflows() == ["up", "backup"]
        });
        pair
    }

    fn bond(&self) -> &Bond {
        &self.apart.bond
    }

    /// Rate of a link towards the primary.
    fn shape(&self, interface: &str, rate: &str) {
        self.apart.helper_runs(&format!(
            "tc qdisc replace dev {interface} root tbf rate {rate} burst 16kb latency 100ms"
        ));
    }

    /// The log says so. The choice itself may have gone on: on a busy machine the first pipe is
    /// tried as soon as it works again.
    fn has_left_what_does_not_work(&self) {
        let log = self.primary.log();
        assert!(log.contains("did not work"), "{log}");
    }

    /// All pipes are used at the same time from now on.
    fn use_all(&self) {
        let config = read(self.bond(), "primary").replace("\"best\"", "\"all\"");
        write(self.bond(), "primary", &config);
        mpbond::status_socket::reload(&self.bond().file("primary.sock")).unwrap();
        until("both are used", || self.subflows() == ["up", "up"]);
        assert!(self.links().iter().all(|link| link.choice.is_none()));
    }

    fn links(&self) -> Vec<LinkStatus> {
        self.bond().status("primary").unwrap().links
    }

    fn choice(&self, link: usize) -> ChoiceStatus {
        self.links()[link].choice.clone().unwrap()
    }

    fn states(&self) -> [String; 2] {
        [0, 1].map(|link| self.choice(link).state)
    }

    /// States of the subflows of `wifi` and `cable`.
    fn subflows(&self) -> Vec<String> {
        let status = self.bond().status("primary").unwrap();
        let all = status.sessions.iter().flat_map(|s| &s.subflows);
        let regular = all.filter(|s| s.state != "express");
        let mut all: Vec<_> = regular.map(|s| (s.name.clone(), s.state.clone())).collect();
        all.sort();
        all.into_iter().rev().map(|(_, state)| state).collect()
    }

    fn subflow_ids(&self) -> Vec<u32> {
        let status = self.bond().status("primary").unwrap();
        let all = status.sessions.iter().flat_map(|s| &s.subflows);
        all.map(|s| s.id).collect()
    }

    /// Bytes that have come over `wifi` and `cable`.
    fn carried(&self) -> [u64; 2] {
        ["wifi", "cable"].map(|name| {
            let text = self
                .apart
                .run_there(&format!("nft list counter inet links {name}"));
            let mut words = text.split_whitespace().skip_while(|word| *word != "bytes");
            words.nth(1).unwrap().parse().unwrap()
        })
    }

    /// Waits until a link has brought so many bytes more.
    fn brings(&self, link: usize, bytes: u64) {
        let before = self.carried()[link];
        let what = format!("link {link} brings {bytes} bytes");
        until(&what, || self.carried()[link] >= before + bytes);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.primary.log());
        }
    }
}

/// An origin that sends at that rate.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                stream.read_exact(&mut [0; 2]).unwrap();
                let begin = Instant::now();
                for (piece, at) in (0..SIZE).step_by(PIECE).enumerate() {
                    let due = begin + EVERY * u32::try_from(piece).unwrap();
                    sleep(due.saturating_duration_since(Instant::now()));
                    let bytes: Vec<u8> = (at..SIZE.min(at + PIECE)).map(byte).collect();
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A download, with the times at which bytes came.
struct Timed(JoinHandle<Vec<Instant>>);

impl Timed {
    fn start(bond: &Bond, origin: SocketAddr) -> Self {
        let mut stream = bond.connect(origin).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream.write_all(b"go").unwrap();
        Self(thread::spawn(move || {
            let (mut times, mut at) = (Vec::new(), 0);
            let mut block = vec![0; 1 << 16];
            loop {
                let n = stream.read(&mut block).unwrap();
                if n == 0 {
                    assert_eq!(at, SIZE);
                    return times;
                }
                assert!(is_pattern(at, &block[..n]), "wrong bytes after {at}");
                at += n;
                times.push(Instant::now());
            }
        }))
    }

    /// The longest time without a byte after this one.
    fn pause_after(self, since: Instant) -> Duration {
        let times = self.0.join().unwrap();
        let pauses = times.windows(2).filter(|pair| pair[1] > since);
        let pauses = pauses.map(|pair| (pair[1] - pair[0], pair[1]));
        let (longest, end) = pauses.max().unwrap();
        eprintln!("longest pause {longest:?}, {:?} later", end - since);
        longest
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn lost() {
    if !is_called_for() {
        return;
    }
    let pair = Pair::start();
    let origin = origin();
    let first_is_used_again = || {
        until("the first one is used again", || {
            pair.states() == ["used", "standby"] && pair.subflows() == ["up", "backup"]
        });
    };
    // A daemon that gets no processor for 250 ms is silent, and the other pipe is used.
    let over_the_first = |_| {
        let (before, begun) = (pair.carried(), Instant::now());
        let download = Timed::start(pair.bond(), origin);
        pair.brings(0, 2_000_000);
        if pair.carried()[1] - before[1] < LITTLE {
            return Some(download);
        }
        download.pause_after(begun);
        first_is_used_again();
        None
    };
    is_within(
        "pause of a download, from one pipe to another and back",
        Duration::from_millis(200),
        || {
            let Some(download) = (0..3).find_map(over_the_first) else {
                panic!("the other pipe carries it, too");
            };
            let lost = Instant::now();
            pair.apart.helper_runs("ip link set pipe1 down");
            pair.brings(1, 1_000_000);
            pair.has_left_what_does_not_work();
            pair.apart.helper_runs("ip link set pipe1 up");
            // Bytes wait for the slower link, and the faster one is tried.
            pair.brings(0, 2_000_000);
            let pause = download.pause_after(lost);
            first_is_used_again();
            pause
        },
    );
    let log = pair.primary.log();
    assert!(log.contains("another pipe to a helper is used"), "{log}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn silent() {
    if !is_called_for() {
        return;
    }
    let pair = Pair::start();
    let origin = origin();
    is_within(
        "pause of a download when its pipe falls silent",
        Duration::from_millis(1_000),
        || {
            let download = Timed::start(pair.bond(), origin);
            pair.brings(0, 2_000_000);
            let silent = Instant::now();
            pair.apart.there_obeys(
                "table inet cut {
                     chain in {
                         type filter hook input priority -10;
                         iifname pipe0 drop
                     }
                 }",
            );
            pair.brings(1, 1_000_000);
            pair.has_left_what_does_not_work();
            pair.apart.there_runs("nft delete table inet cut");
            let pause = download.pause_after(silent);
            until("the first one is used again", || {
                pair.states() == ["used", "standby"] && pair.subflows() == ["up", "backup"]
            });
            pause
        },
    );
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn weak() {
    if !is_called_for() {
        return;
    }
    let pair = Pair::start();
    let download = Timed::start(pair.bond(), origin());
    pair.brings(0, 1_000_000);
    // A program tells the signal of the pipe that is used, which carries all.
    let tell = |dbm: i16| {
        let body = format!("{{\"signal_dbm\": {dbm}}}");
        let answer = ask(pair.bond(), "PATCH /v1/links/wifi", &body);
        assert_eq!(answer.code, 200, "{answer:?}");
        assert_eq!(answer.json()["signal_dbm"], dbm);
    };
    let is_strong = || {
        until("the first one is used again", || {
            tell(-60);
            pair.states() == ["used", "standby"]
        });
    };
    // A daemon that gets no processor for 250 ms is silent, and the other pipe is used for that.
    let is_left = (0..3).any(|_| {
        until("the other one is used", || {
            tell(-90);
            pair.states() == ["standby", "used"]
        });
        let reason = pair.choice(1).reason;
        let is_so = reason == "the signal of \"wifi\" was weak";
        if !is_so {
            assert!(reason.contains("did not work"), "{reason}");
            is_strong();
        }
        is_so
    });
    assert!(is_left, "it did not work each time");
    download.pause_after(Instant::now());
    is_strong();
    let wrong = ask(pair.bond(), "PATCH /v1/links/wifi", "{\"signal_dbm\": 1}");
    assert_eq!(wrong.code, 422, "{wrong:?}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn together() {
    if !is_called_for() {
        return;
    }
    let pair = Pair::start();
    pair.use_all();
    // The helper's own link is slower than either pipe.
    sh("tc qdisc replace dev hs0 root tbf rate 8mbit burst 16kb latency 100ms");
    let (before, begin) = (pair.carried(), Instant::now());
    Timed::start(pair.bond(), origin()).pause_after(begin);
    let took = begin.elapsed().as_secs_f64();
    let after = pair.carried();
    let [wifi, cable] = [0, 1].map(|link| after[link] - before[link]);
    eprintln!("{took:.1} s, {wifi} and {cable} bytes");
    // 10.5 s, and headers.
    assert!(took < 16.0, "{took} s");
    let sent = (wifi + cable) as f64 / SIZE as f64;
    assert!(sent < 1.15, "{sent} times the bytes, with headers");
    assert!(wifi.min(cable) > 500_000, "both carry: {wifi}, {cable}");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn slow() {
    if !is_called_for() {
        return;
    }
    let pair = Pair::start();
    let download = Timed::start(pair.bond(), origin());
    pair.brings(0, 2_000_000);
    let slow = Instant::now();
    pair.shape("pipe1", "1mbit");
    until("the other one is used", || pair.states()[1] == "used");
    let left = slow.elapsed();
    let pause = download.pause_after(slow);
    eprintln!("left after {left:?}; longest pause {pause:?}");
    assert!(left < Duration::from_secs(10), "{left:?}");
    assert!(pause < Duration::from_secs(4), "{pause:?}");
    // What waits in front of 1 Mbit/s may be taken for silence before the other one is tried.
    let why = pair.choice(1).reason;
    let reasons = ["too slow", "did not work"];
    assert!(reasons.iter().any(|reason| why.contains(reason)), "{why}");
    // All bytes of another download take the other one, once the slow one is drained.
    sleep(Duration::from_secs(1));
    let before = pair.carried();
    let whole = Timed::start(pair.bond(), origin());
    whole.pause_after(slow);
    let after = pair.carried();
    let [wifi, cable] = [0, 1].map(|link| after[link] - before[link]);
    // It may be tried once more.
    assert!(cable > 8_000_000 && wifi < 2_000_000, "{wifi} {cable}");
    // Both are used after a reload, which a download survives.
    let running = Timed::start(pair.bond(), origin());
    pair.brings(1, 1_000_000);
    pair.use_all();
    running.pause_after(slow);
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn energy() {
    if !is_called_for() {
        return;
    }
    let pair = Pair::start();
    assert_eq!(pair.choice(0).milliwatts, None);
    let before = pair.subflow_ids();
    let mut config = read(pair.bond(), "primary");
    for (interface, radio) in [("pipe0", "wifi-s4"), ("pipe2", "watch-bt")] {
        let key = format!("interface = \"{interface}\"\n");
        config = config.replace(&key, &format!("{key}radio = \"{radio}\"\n"));
    }
    write(pair.bond(), "primary", &config);
    mpbond::status_socket::reload(&pair.bond().file("primary.sock")).unwrap();
    until("the second one is used", || {
        pair.states() == ["standby", "used"] && pair.subflows() == ["backup", "up"]
    });
    let [wifi, cable] = [0, 1].map(|link| pair.choice(link));
    assert_eq!([wifi.milliwatts, cable.milliwatts], [Some(451), Some(117)]);
    assert!(cable.reason.contains("joules per bit"), "{}", cable.reason);
    assert_eq!(pair.subflow_ids(), before, "none was made anew");
    let _download = Timed::start(pair.bond(), origin());
    until("the used pipe's radio spends joules", || {
        let [wifi, cable] = [0, 1].map(|link| pair.links()[link].pipe_energy.clone().unwrap());
        assert!(wifi.near.radio == "wifi-s4" && wifi.far.is_none());
        let today = cable.near.days.last().map_or(0.0, |day| day.joules);
        cable.near.joules > 0.1 && today > 0.1
    });
}
