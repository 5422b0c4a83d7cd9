//! The rate of its own link, as a helper reports it.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use mpbond::status::LimitStatus;
use mpbond_net::control::{ControlChannel, Message, RelayReport, RequestId, relay_preamble};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use crate::daemons::{Bond, WITHIN, Ways};
use crate::visitor::{control, runtime, ticket};

/// What the proxy sends in each interval, 10 Mbit/s at most, and what the primary reads.
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

/// Opens a relay, and reads what it brings. Returns the control connection.
async fn relay(bond: &Bond) -> ControlChannel {
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
        let mut block = [0; READ];
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
        let mut control = relay(&bond).await;
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
        let most = rates.iter().copied().fold(0.0, f64::max);
        assert!(rates.len() >= 3 && (2.0..20.0).contains(&most), "{rates:?}");
    });
}

/// Of the interface `lo`, on which all else is own traffic.
#[test]
fn beside_own_traffic_the_limit_of_relays_is_reported_and_no_rate() {
    let bond = Bond::new(Ways::Helper, "", "");
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let uplink = "uplink = { interface = \"lo\", capacity_down = \"20 Mbit/s\" }\n";
    std::fs::write(&file, uplink.to_owned() + &config).unwrap();
    let _helper = bond.start("helper");
    send_as_proxy(&bond);
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.connect(own.local_addr().unwrap()).unwrap();
    thread::spawn(move || {
        // 5 Mbit/s; the kernel drops most of it, since nobody reads.
        while own.send(&[7; SENT / 2]).is_ok() {
            thread::sleep(EVERY);
        }
    });
    runtime().block_on(async {
        let lent = || bond.status("helper").unwrap().lent.unwrap();
        assert_eq!(lent().interface, "lo");
        assert_eq!(lent().limits, LimitStatus::default(), "nothing moves");
        let mut control = relay(&bond).await;
        let mut limited = 0;
        // A rate would be in every second one.
        while limited < 6 {
            let report = report(&mut control).await;
            assert_eq!(report.limit_up, None, "none is stated");
            if let Some(limit) = report.limit_down {
                limited += 1;
                assert!(limit.mbps() < 20.0, "{report:?}");
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
