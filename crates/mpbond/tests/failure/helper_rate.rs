//! The rate of its own link, as a helper reports it.

use std::io::Write as _;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use mpbond_net::control::{Message, RequestId, relay_preamble};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};

use crate::daemons::{Bond, WITHIN, Ways};
use crate::visitor::{control, runtime, ticket};

/// What the proxy sends in each interval, 10 Mbit/s at most, and what the primary reads.
const SENT: usize = 25_000;
const READ: usize = 5_000;
const EVERY: Duration = Duration::from_millis(20);

#[test]
fn the_rate_of_the_hs_path_is_reported_until_the_store_is_half_full() {
    let bond = Bond::new(Ways::Helper, "", "");
    let _helper = bond.start("helper");
    let proxy = TcpListener::bind(bond.proxy).unwrap();
    thread::spawn(move || {
        let (mut hs, _) = proxy.accept().unwrap();
        while hs.write_all(&[7; SENT]).is_ok() {
            thread::sleep(EVERY);
        }
    });
    let ask = Message::InitMp {
        request: RequestId(1),
        proxy: bond.proxy,
        others: Vec::new(),
        max_segment_bytes: None,
    };
    runtime().block_on(async {
        let mut control = control(&bond).await;
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
        let (mut rates, mut full) = (Vec::new(), 0);
        // A rate is reported in every second report at most.
        while full < 4 {
            let message = timeout(WITHIN, control.receive()).await.unwrap();
            let Some(Message::Report(report)) = message.unwrap() else {
                continue;
            };
            assert_eq!(report.bound_down_bytes, Some(4 << 20));
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
