//! The rate of its own link, as a helper reports it.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::status::LimitStatus;
use mpbond_net::control::{ControlChannel, Message, RelayReport, RequestId, relay_preamble};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use crate::daemons::{Bond, Daemon, WITHIN, Ways};
use crate::visitor::{control, runtime, ticket};

/// What the proxy sends in each interval, 10 Mbit/s at most, and what a slow primary reads.
const SENT: usize = 25_000;
const READ: usize = 5_000;
const EVERY: Duration = Duration::from_millis(20);

/// Sends to the first one who connects to the place of the proxy.
fn send_as_proxy(bond: &Bond) {
    let proxy = TcpListener::bind(bond.proxy).unwrap();
    thread::spawn(move || {
        let (mut hs, _) = proxy.accept().unwrap();
        while hs.write_all(&[7; SENT]).is_ok() {
            thread::sleep(EVERY);
        }
    });
}

/// Opens a relay, and reads this much of it in each interval. Returns the control connection.
async fn relay(bond: &Bond, read: usize) -> ControlChannel {
    let ask = Message::InitMp {
        request: RequestId(1),
        proxy: bond.proxy,
        others: Vec::new(),
        max_segment_bytes: None,
    };
    let mut control = control(bond).await;
    let ticket = ticket(&mut control, &ask).await.unwrap();
    let pipe = TcpSocket::new_v4().unwrap();
    // With a large one the pipe would stand still until much of it is free again.
    pipe.set_recv_buffer_size(16 << 10).unwrap();
    let mut pipe = pipe.connect(bond.helper).await.unwrap();
    pipe.write_all(&relay_preamble(&ticket)).await.unwrap();
    tokio::spawn(async move {
        let mut block = vec![0; read];
        while pipe.read_exact(&mut block).await.is_ok() {
            sleep(EVERY).await;
        }
    });
    control
}

async fn report(control: &mut ControlChannel) -> RelayReport {
    loop {
        let message = timeout(WITHIN, control.receive()).await.unwrap();
        if let Some(Message::Report(report)) = message.unwrap() {
            return report;
        }
    }
}

#[test]
fn the_rate_of_the_hs_path_is_reported_until_the_store_is_half_full() {
    let bond = Bond::new(Ways::Helper, "", "");
    let _helper = bond.start("helper");
    send_as_proxy(&bond);
    runtime().block_on(async {
        let mut control = relay(&bond, READ).await;
        let (mut rates, mut full) = (Vec::new(), 0);
        // A rate is reported in every second report at most.
        while full < 4 {
            let report = report(&mut control).await;
            assert_eq!(report.bound_down_bytes, Some(4 << 20));
            assert_eq!(report.limit_down, None);
            let is_full = report.level_down_bytes > 2 << 20;
            match report.th_hs_down {
                Some(rate) => rates.push(rate.bps() as f64 / 1e6),
                None if is_full => full += 1,
                None => {}
            }
            assert!(!is_full || report.th_hs_down.is_none(), "{report:?}");
        }
        // What waited while the helper got no processor comes at once: one rate may be much higher.
        rates.sort_by(f64::total_cmp);
        let usual = rates.get(rates.len() / 2).copied().unwrap_or_default();
        assert!(
            rates.len() >= 3 && (2.0..20.0).contains(&usual),
            "{rates:?}"
        );
    });
}

#[test]
fn a_limit_that_holds_relays_back_is_reported_and_no_rate() {
    play("-Urn", "helper_rate::held_back");
}

#[test]
fn beside_a_limit_that_holds_nothing_back_the_rate_is_reported() {
    play("-Urn", "helper_rate::beside_a_call");
}

/// A helper with this capacity of the interface `lo`, on which all else is own traffic: this many
/// bytes in each interval, and what the helper sends.
fn with_own_traffic(mbps: u32, own_bytes: usize) -> (Bond, Daemon) {
    sh("ip link set lo up");
    let bond = Bond::new(Ways::Helper, "", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let capacity = format!("{mbps} Mbit/s");
    let uplink = format!("uplink = {{ interface = \"lo\", capacity_down = \"{capacity}\" }}\n");
    std::fs::write(&file, uplink + &config).unwrap();
    let helper = bond.start("helper");
    send_as_proxy(&bond);
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.connect(own.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        // The kernel drops most of it, since nobody reads.
        while own.send(&vec![7; own_bytes]).is_ok() {
            thread::sleep(EVERY);
        }
    });
    (bond, helper)
}

/// Beside 17 Mbit/s.
#[test]
#[ignore = "a role of another test"]
fn held_back() {
    if !is_called_for() {
        return;
    }
    let (bond, _helper) = with_own_traffic(20, 42_500);
    runtime().block_on(async {
        let lent = || bond.status("helper").unwrap().lent.unwrap();
        assert_eq!(lent().interface, "lo");
        assert_eq!(lent().limits, LimitStatus::default(), "nothing moves");
        // More than the limit, or the store would soon be full, and the pipe the slower hop. Less
        // than the proxy sends: without a limit a rate would be in every second report.
        let mut control = relay(&bond, SENT / 2).await;
        let mut held_back = 0;
        let begun = Instant::now();
        while held_back < 6 {
            assert!(begun.elapsed() < WITHIN, "{held_back} of 6");
            let report = report(&mut control).await;
            assert_eq!(
                (report.limit_up, report.held_back_up),
                (None, false),
                "none is stated"
            );
            if report.held_back_down {
                held_back += 1;
                assert!(
                    report.limit_down.is_some_and(|limit| limit.mbps() < 20.0),
                    "{report:?}"
                );
                assert_eq!(report.th_hs_down, None, "{report:?}");
            }
        }
        let is_told = || {
            let limits = lent().limits;
            assert_eq!(limits.limit_up_mbps, None);
            let down = limits.limit_down_mbps;
            down.is_some_and(|down| (0.1..20.0).contains(&down))
        };
        let told = async {
            while !is_told() {
                report(&mut control).await;
            }
        };
        assert!(
            timeout(WITHIN, told).await.is_ok(),
            "the status has no limit"
        );
    });
}

/// Beside 15 Mbit/s relays have 75: more than the proxy sends.
#[test]
#[ignore = "a role of another test"]
fn beside_a_call() {
    if !is_called_for() {
        return;
    }
    let (bond, _helper) = with_own_traffic(100, 12_500);
    runtime().block_on(async {
        let mut control = relay(&bond, SENT).await;
        let rates = async {
            loop {
                let report = report(&mut control).await;
                if let (Some(limit), Some(rate)) = (report.limit_down, report.th_hs_down) {
                    assert!(!report.held_back_down && rate < limit, "{report:?}");
                    break;
                }
            }
        };
        assert!(
            timeout(WITHIN, rates).await.is_ok(),
            "no rate beside a limit"
        );
    });
}
