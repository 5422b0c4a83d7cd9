//! Decides about new connections of this host with a policy of 1,000 rules, 200 of which have a
//! budget, and 8 links with caps and floors: the owner of the socket from the kernel, the path of
//! its control group, the budgets that are used up, the decision. Prints the median and the 99th
//! percentile, which a reading of all control groups, or a second question to the kernel, would
//! show.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpbond::policy::{Cgroups, Client, InForce, Reading, device, flow};
use mpbond::usage::{Budgets, Usage};
use mpbond_intercept::{Destination, Via};
use mpbond_net::sock_diag::SockDiag;
use mpbond_policy::{Charge, Device, Fact, LinkState, Policy};
use mpbond_units::Timestamp;

const RULES: usize = 1_000;
const LINKS: usize = 8;
const CONNECTIONS: usize = 2_000;

/// Maximum of the median: a small part of a handshake with a server.
const MAX_MEDIAN: Duration = Duration::from_micros(150);

/// Maximum of the 99th percentile: nothing else is served meanwhile.
const MAX_99TH: Duration = Duration::from_millis(5);

/// Rules that select none of the connections, of kinds that people write.
fn rules() -> String {
    let mut text = String::new();
    for n in 0..RULES {
        let condition = match n % 5 {
            0 => format!("port = [{}, \"{}-{}\"]", 1 + n, 2_000 + n, 2_001 + n),
            1 => format!("app = [\"org.example.app{n}\", \"app{n}.service\"]"),
            2 => format!("domain = [\"*.site{n}.example\", \"site{n}.example\"]"),
            3 => format!(
                "ip = [\"10.{}.{}.0/24\", \"2001:db8:{n:x}::/48\"]",
                n / 256,
                n % 256
            ),
            _ => format!(
                "cgroup = \"/user.slice/user-{n}.slice\"\nuid = {}",
                5_000_000 + n
            ),
        };
        let name = format!("name = \"{n}\"");
        let set = match n % 5 {
            0 => "{ budget = { bytes = \"1 GB\", zone = \"UTC\" } }",
            _ => "\"refuse\"",
        };
        writeln!(text, "[[rule]]\n{name}\n{condition}\nset = {set}").unwrap();
    }
    for n in 0..LINKS {
        let limits = "cap = { bytes = \"1 GB\", zone = \"UTC\" }\nbattery_floor = \"20%\"";
        writeln!(text, "[[link]]\nname = \"{n}\"\n{limits}").unwrap();
    }
    text
}

/// State of the links as a primary keeps it.
fn links() -> Vec<LinkState> {
    let state = |n: usize| LinkState {
        name: n.to_string(),
        works: true,
        metered: Fact::known(n == 0, "this bench"),
        roaming: Fact::unknown("nobody says it"),
        charge: Charge::Sufficient,
        cap_reached: false,
        is_weak: false,
    };
    (0..LINKS).map(state).collect()
}

fn main() -> ExitCode {
    let policy = Policy::parse(Path::new("policy.toml"), &rules(), &|_| None).unwrap();
    let rules = InForce::new(Arc::new(policy), None);
    assert!(rules.depends_on_cgroups());
    assert_eq!(rules.budgets().count(), RULES / 5);
    let folder = tempfile::tempdir().unwrap();
    let mut usage = Usage::load(&folder.path().join("identity.pem")).unwrap();
    // Half of the rules have carried connections.
    let mut budgets = Budgets::default();
    for (rule, cap) in rules.budgets().step_by(2) {
        budgets.of(&usage, rule, cap).moved(1_000);
    }
    let started = Instant::now();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let (groups, diag) = (Cgroups::mounted(), SockDiag::open().unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let destination = Destination::Addr(([203, 0, 113, 7], 443).into());
    let (mut times, mut found) = (Vec::with_capacity(CONNECTIONS), 0);
    for _ in 0..CONNECTIONS {
        let _client = TcpStream::connect(at).unwrap();
        let (_front, peer) = listener.accept().unwrap();
        let begin = Instant::now();
        let owner = diag.find(peer, at).unwrap();
        let id = owner.and_then(|owner| owner.cgroup);
        let cgroup = id.and_then(|id| runtime.block_on(groups.path_of(id)));
        found += usize::from(cgroup.is_some());
        let flow = flow(&Client {
            via: Via::Socks,
            address: peer.ip(),
            destination: &destination,
            owner,
            cgroup,
            claim: None,
        });
        let now = Timestamp::ZERO + started.elapsed();
        let device = Device {
            spent_budgets: budgets.spent(&mut usage, || rules.budgets(), now, |_, _| {}),
            ..device(Reading::default(), links())
        };
        assert_eq!(rules.decide(&flow, &device).rule, None);
        times.push(begin.elapsed());
        assert!(owner.is_some(), "the kernel knows the socket");
    }
    times.sort();
    let (median, late) = (times[CONNECTIONS / 2], times[CONNECTIONS * 99 / 100]);
    println!("{CONNECTIONS} connections, {RULES} rules; control group found of {found}");
    println!("median           {median:9.1?}  target {MAX_MEDIAN:?}");
    println!("99th percentile  {late:9.1?}  target {MAX_99TH:?}");
    if median > MAX_MEDIAN || late > MAX_99TH {
        println!("missed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
