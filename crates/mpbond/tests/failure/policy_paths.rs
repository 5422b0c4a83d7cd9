//! Rules on paths: which link carries the bytes of a connection, by the kernel's counters, and what
//! becomes of connections whose links do not work.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use nix::sys::signal::Signal;

use crate::api::{ask, ask_with};
use crate::daemons::{Bond, Daemon, WITHIN, Ways, byte, download_over, is_pattern, origin, until};
use crate::reload::{read, write};

pub const SIZE: u32 = 4_000_000;

/// Feedback, keep-alives, packet headers, and other connections' ends.
pub const LITTLE: u64 = 400_000;

/// Address of the own path's connections, none of which a helper has.
const OWN: &str = "127.0.0.2";

/// In this namespace, packets of the own path and of the pipe are counted.
pub struct Counters;

impl Counters {
    fn new(bond: &Bond) -> Self {
        let pipe = bond.helper.port();
        sh(&format!(
            "nft -f - <<'END'\ntable inet links {{\n counter own {{ }}\n counter pipe {{ }}\n \
             chain in {{\n  type filter hook input priority 0;\n  \
             ip saddr {OWN} counter name own\n  ip daddr {OWN} counter name own\n  \
             tcp dport {pipe} counter name pipe\n  tcp sport {pipe} counter name pipe\n }}\n\
             }}\nEND"
        ));
        Self
    }

    /// Bytes of the own path and of the helper's pipe.
    pub fn links(&self) -> [u64; 2] {
        ["own", "pipe"].map(|name| {
            let text = sh(&format!("nft list counter inet links {name}"));
            let mut words = text.split_whitespace().skip_while(|word| *word != "bytes");
            words.nth(1).unwrap().parse().unwrap()
        })
    }

    /// Bytes that the own path and the helper's pipe carry meanwhile.
    pub fn carried(&self, transfer: impl FnOnce()) -> [u64; 2] {
        let before = self.links();
        transfer();
        let after = self.links();
        [after[0] - before[0], after[1] - before[1]]
    }

    /// Whether a transfer leaves a link at rest in one of three attempts. A daemon that gets no
    /// processor for 250 ms is silent, and others take over.
    pub fn spares(&self, link: usize, transfer: impl Fn()) -> bool {
        self.carries(transfer, |carried| carried[link] < LITTLE)
    }

    /// Whether bytes of both links are such in one of three transfers.
    pub fn carries(&self, transfer: impl Fn(), are_such: impl Fn([u64; 2]) -> bool) -> bool {
        (0..3).any(|_| {
            let carried = self.carried(&transfer);
            eprintln!("carried: {carried:?}");
            are_such(carried)
        })
    }
}

pub fn put(bond: &Bond, policy: &str) {
    let answer = ask_with(bond, "PUT /v1/policy", "If-Match: *\r\n", policy);
    assert_eq!(answer.code, 200, "{answer:?}");
}

pub fn download(bond: &Bond, origin: SocketAddr) {
    let stream = bond.connect(origin).unwrap();
    assert_eq!(download_over(stream, SIZE).end().unwrap(), SIZE as usize);
}

fn upload(bond: &Bond) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    });
    let mut stream = bond.connect(to).unwrap();
    let bytes: Vec<u8> = (0..SIZE as usize).map(crate::daemons::byte).collect();
    stream.write_all(&bytes).unwrap();
    drop(stream);
    assert!(is_pattern(0, &reader.join().unwrap()));
}

/// Daemons on a loopback interface of their own, both of whose ends use all paths in turn.
pub fn start(more: &str) -> (Bond, Counters, [Daemon; 3]) {
    start_with(more, |_| ())
}

/// The same after a preparation that needs the configurations.
pub fn start_with<T>(
    more: &str,
    prepare: impl FnOnce(&Bond) -> T,
) -> (Bond, Counters, [Daemon; 3]) {
    start_scheduled("round-robin", more, prepare)
}

/// The same with this scheduler at both ends.
pub fn start_scheduled<T>(
    scheduler: &str,
    more: &str,
    prepare: impl FnOnce(&Bond) -> T,
) -> (Bond, Counters, [Daemon; 3]) {
    sh(&format!("ip link set lo up; ip addr add {OWN}/8 dev lo"));
    let scheduler = format!("scheduler = \"{scheduler}\"");
    let bond = Bond::new(Ways::Both, &format!("{scheduler}\n{more}"), &scheduler);
    std::fs::write(bond.file("policy.toml"), "").unwrap();
    let config = read(&bond, "primary");
    let own = "name = \"own\"\n";
    assert_eq!(config.matches(own).count(), 1);
    write(
        &bond,
        "primary",
        &config.replace(own, &format!("{own}source = \"{OWN}\"\n")),
    );
    let counters = Counters::new(&bond);
    prepare(&bond);
    let daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    (bond, counters, daemons)
}

/// Plays a role in such a namespace, and one of mounts.
pub fn play_with_counters(role: &str) {
    if sh("command -v nft || true").is_empty() {
        return Need::Nft.is_missing(format_args!("nft is not installed"));
    }
    play("-Urnm", role);
}

#[test]
fn bytes_go_over_the_links_that_a_rule_allows_only() {
    play_with_counters("policy_paths::links_of_rules");
}

#[test]
fn a_connection_leaves_a_link_that_turns_out_to_be_metered() {
    play_with_counters("policy_paths::metered_meanwhile");
}

#[test]
fn a_connection_without_a_path_of_its_rule_is_refused_or_waits() {
    play_with_counters("policy_paths::without_a_path");
}

#[test]
fn a_connection_has_one_path_at_a_time_and_another_one_when_that_fails() {
    play_with_counters("policy_paths::one_path");
}

#[test]
fn a_helper_that_a_rule_names_is_used_in_full_beside_an_idle_path() {
    play_with_counters("policy_paths::helper_beside_idle");
}

#[test]
#[ignore = "a role of another test"]
fn helper_beside_idle() {
    if !is_called_for() {
        return;
    }
    // Without pauses, unlike the other origin.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = listener.local_addr().unwrap();
    let (bond, counters, _daemons) = start_scheduled("mpbond", "", |_| ());
    put(&bond, "[policy]\ndefault = { paths = [\"helper\"] }\n");
    let size = 6 * SIZE;
    let begun = Instant::now();
    let carried = counters.carried(|| {
        let client = bond.connect(origin).unwrap();
        let (mut sends, _) = listener.accept().unwrap();
        thread::spawn(move || {
            let bytes: Vec<u8> = (0..size as usize).map(byte).collect();
            sends.read_exact(&mut [0; 4])?;
            sends.write_all(&bytes)
        });
        let running = download_over(client, size);
        assert_eq!(running.end().unwrap(), size as usize);
    });
    assert!(carried[0] < LITTLE, "{carried:?}");
    // 43 KB with each ACK would take 13 s.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
#[ignore = "a role of another test"]
fn one_path() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, [_proxy, helper, _primary]) = start("");
    let mode = |link: &str, mode: &str| {
        let body = format!("{{\"mode\": \"{mode}\"}}");
        let answer = ask(&bond, &format!("PATCH /v1/links/{link}"), &body);
        assert_eq!(answer.code, 200, "{answer:?}");
    };
    let both = |carried: [u64; 2]| carried.iter().all(|bytes| *bytes > LITTLE);
    for set in [
        "multipath = \"interactive\"",
        "class = \"realtime\"",
        "multipath = \"handover\"",
    ] {
        put(&bond, &format!("[policy]\ndefault = {{ {set} }}\n"));
        let is_on_one = counters.carries(|| download(&bond, origin), |carried| !both(carried));
        assert!(is_on_one, "{set}");
    }
    // It begins on the only one, and stays there when the other one comes.
    let size = 6 * SIZE;
    let carry = |bytes: u64| {
        let before = counters.links();
        let mut carried = [0; 2];
        until("one of them carries it", || {
            let now = counters.links();
            carried = [now[0] - before[0], now[1] - before[1]];
            carried.iter().any(|of_link| *of_link > bytes)
        });
        carried
    };
    let begins_and_stays = |_| {
        mode("own", "off");
        bond.joined(1);
        let running = download_over(bond.connect(origin).unwrap(), size);
        mode("own", "bonded");
        bond.joined(2);
        carry(SIZE.into());
        let carried = carry(u64::from(SIZE) / 2);
        eprintln!("carried beside the other one: {carried:?}");
        let stays = carried[0] < LITTLE && carried[1] > LITTLE;
        if !stays {
            assert_eq!(running.end().unwrap(), size as usize);
            return None;
        }
        Some(running)
    };
    // As in `Counters::spares`.
    let Some(running) = (0..3).find_map(begins_and_stays) else {
        panic!("it does not stay on the helper");
    };
    // Its path falls silent.
    helper.signal(Signal::SIGSTOP);
    let silent = Instant::now();
    let own = counters.links()[0];
    until("the own path carries it", || {
        counters.links()[0] - own > u64::from(SIZE) / 4
    });
    let gap = silent.elapsed();
    // An idle machine takes 0.6 s, 0.2 s of them for these bytes.
    assert!(gap < Duration::from_secs(5), "{gap:?}");
    assert_eq!(running.end().unwrap(), size as usize);
    helper.signal(Signal::SIGCONT);
}

#[test]
#[ignore = "a role of another test"]
fn links_of_rules() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, _daemons) = start("");
    let rule = |set: &str| format!("[[rule]]\nname = \"it\"\nip = \"127.0.0.0/8\"\nset = {set}\n");
    // Costs have no effect.
    let metered = |own: bool, helper: bool| {
        let link = |(name, is)| format!("[[link]]\nname = \"{name}\"\nmetered = {is}\n");
        let links = [("own", own), ("helper", helper)].map(link).concat();
        format!("{links}[policy]\nmode = \"fastest\"\n")
    };
    let never = rule("{ metered = \"never\" }");
    let by_default = "[policy]\ndefault = { paths = [\"helper\"] }\n";
    let by_claim = "[[rule]]\nname = \"it\"\nmetered = true\nset = { paths = [\"helper\"] }\n";
    for (policy, expected) in [
        (String::new(), [true, true]),
        (rule("{ paths = [\"own\"] }"), [true, false]),
        (rule("{ paths = [\"helper\"] }"), [false, true]),
        (rule("{ paths = [\"helper\", \"own\"] }"), [true, true]),
        (by_default.to_owned(), [false, true]),
        (never.clone() + &metered(false, true), [true, false]),
        (never.clone() + &metered(true, false), [false, true]),
        (by_claim.to_owned() + &metered(true, true), [false, true]),
        (by_claim.to_owned() + &metered(true, false), [true, true]),
    ] {
        put(&bond, &policy);
        let transfers: [(_, &dyn Fn()); 2] = [
            ("download", &|| download(&bond, origin)),
            ("upload", &|| upload(&bond)),
        ];
        for (what, transfer) in transfers {
            let carried = counters.carried(transfer);
            for (bytes, uses) in carried.iter().zip(expected) {
                let (least, most) = match uses {
                    true if expected != [true; 2] => (u64::from(SIZE), u64::MAX),
                    // Downloads use both, as the proxy's scheduler says.
                    true if what == "download" => (u64::from(SIZE) / 8, u64::MAX),
                    true => (0, u64::MAX),
                    false => (0, LITTLE),
                };
                let holds = (least..=most).contains(bytes);
                assert!(holds, "{what} with {policy:?}: {carried:?}, {expected:?}");
            }
        }
    }
    // Neither is known not to be metered.
    put(&bond, &never);
    assert_eq!(bond.connect(origin).err(), Some(2));
}

#[test]
#[ignore = "a role of another test"]
fn metered_meanwhile() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, _daemons) = start("");
    let policy = |own: bool| {
        format!(
            "[policy]\ndefault = {{ metered = \"never\" }}\n\
             [[link]]\nname = \"own\"\nmetered = {own}\n\
             [[link]]\nname = \"helper\"\nmetered = false\n"
        )
    };
    put(&bond, &policy(false));
    let size = 6 * SIZE;
    let [first, rest] = {
        let mut at_end = [0; 2];
        let first = counters.carried(|| {
            let stream = bond.connect(origin).unwrap();
            let running = download_over(stream, size);
            let start = counters.links();
            until("both carry", || {
                let now = counters.links();
                now.iter()
                    .zip(start)
                    .all(|(now, start)| now - start > 300_000)
            });
            put(&bond, &policy(true));
            // What is under way arrives where it was sent.
            until("the own link rests", || {
                let before = counters.links();
                until("the helper carries it", || {
                    counters.links()[1] - before[1] > u64::from(SIZE) / 8
                });
                counters.links()[0] - before[0] < LITTLE / 8
            });
            at_end = counters.carried(|| assert_eq!(running.end().unwrap(), size as usize));
        });
        [first, at_end]
    };
    assert!(first[0] > 300_000, "{first:?}");
    assert!(rest[0] < LITTLE && rest[1] > u64::from(SIZE), "{rest:?}");
}

#[test]
#[ignore = "a role of another test"]
fn without_a_path() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, _, [_proxy, helper, primary]) = start("");
    let rule = |delay: &str| format!("[policy]\ndefault = {{ paths = [\"helper\"]{delay} }}\n");
    put(&bond, &rule(""));
    assert!(bond.works(origin));
    // Parked, and there again with its path.
    let mut kept = bond.connect(origin).unwrap();
    kept.set_read_timeout(Some(WITHIN)).unwrap();
    helper.kill();
    until("the helper is gone", || {
        bond.connect(origin).err() == Some(2)
    });
    primary.logs("connections are refused by the policy");
    put(&bond, &rule(", delay = \"1s\""));
    let begun = Instant::now();
    assert_eq!(bond.connect(origin).err(), Some(2));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    put(&bond, &rule(", delay = \"1min\""));
    thread::scope(|scope| {
        let waits = scope.spawn(|| bond.works_within(WITHIN, origin));
        let listed = || bond.status("primary").unwrap().waiting;
        until("it is listed", || {
            listed().first().is_some_and(|w| w.waits_for == "path")
        });
        let waiting = &listed()[0];
        assert_eq!(waiting.destination, origin.to_string());
        assert_eq!(waiting.rule, None);
        let delay = waiting.waited_s + waiting.left_s.unwrap();
        assert!((delay - 60.0).abs() < 0.001, "{waiting:?}");
        assert!(!waits.is_finished());
        let _helper = bond.start("helper");
        assert!(waits.join().unwrap());
        assert_eq!(bond.status("primary").unwrap().waiting_count, Some(0));
        kept.write_all(&1_000_u32.to_be_bytes()).unwrap();
        let mut bytes = [0; 1_000];
        kept.read_exact(&mut bytes).unwrap();
        assert!(is_pattern(0, &bytes));
    });
}
