//! Requests to a helper that wait for the name of its proxy, for which nobody answers, in
//! namespaces of the test's own.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use mpbond_net::control::{Message, RefusalCode, RequestId};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use tokio::time::timeout;

use crate::daemons::{Bond, Ways};
use crate::visitor::{control, runtime};

/// Requests of one primary that may wait.
const WAIT: u64 = 16;

#[test]
fn sixteen_requests_of_a_primary_wait_two_seconds_for_the_proxys_name_and_one_more_is_refused() {
    play("-Urnm", "helper_look_ups::role");
}

fn ask(n: u64) -> Message {
    Message::InitMp {
        request: RequestId(n),
        proxy: "192.0.2.1:4433".parse().unwrap(),
        others: Vec::new(),
        max_segment_bytes: None,
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    sh("ip link set lo up");
    let _silent = UdpSocket::bind("127.0.0.1:53").unwrap();
    let bond = Bond::new(Ways::Helper, "", "");
    let resolv_conf = bond.file("resolv.conf");
    std::fs::write(&resolv_conf, "nameserver 127.0.0.1\n").unwrap();
    sh(&format!(
        "mount --bind {} /etc/resolv.conf",
        resolv_conf.display()
    ));
    let file = bond.file("helper.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let address = format!("proxies = \"{}\"", bond.proxy);
    assert!(config.contains(&address), "{config}");
    let named = config.replace(&address, "proxies = \"proxy.test:4433\"");
    std::fs::write(&file, named).unwrap();
    let helper = bond.start("helper");
    let refusals = runtime().block_on(async {
        let mut control = control(&bond).await;
        let begun = Instant::now();
        for n in 1..=WAIT + 1 {
            control.send(&ask(n)).await.unwrap();
        }
        let mut refusals = Vec::new();
        while refusals.len() < WAIT as usize + 1 {
            let message = timeout(Duration::from_secs(60), control.receive()).await;
            match message {
                Ok(Ok(Some(Message::Refused { request, code, .. }))) => {
                    refusals.push((request, code, begun.elapsed()));
                }
                Ok(Ok(Some(_))) => {}
                other => panic!("{other:?} after {refusals:?}: {}", helper.log()),
            }
        }
        refusals
    });
    let (first, others) = refusals.split_first().unwrap();
    let log = helper.log();
    assert_eq!(
        (first.0, first.1),
        (RequestId(WAIT + 1), RefusalCode::TooMany),
        "{log}"
    );
    for (request, code, after) in others {
        assert_ne!(*code, RefusalCode::TooMany, "{request:?}: {log}");
        assert!(*after >= Duration::from_secs(2), "{request:?}: {log}");
    }
}
