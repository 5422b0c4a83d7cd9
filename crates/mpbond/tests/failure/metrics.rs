//! Metrics of real daemons over the loss of a proxy and a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::daemons::{Bond, WITHIN, Ways, origin, until};
use mpbond_testing::free_address;

/// The answer to a request that names this host.
fn get(address: SocketAddr, host: &str) -> String {
    let mut s = TcpStream::connect(address).unwrap();
    s.set_read_timeout(Some(WITHIN)).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    s.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    s.read_to_string(&mut text).unwrap();
    text
}

/// Samples by name and labels, without the one that depends on the load.
fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    let text = get(address, &address.to_string());
    let (head, page) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let lines = page.lines().filter(|l| !l.starts_with('#'));
    let lines = lines.filter(|l| !l.starts_with("mpbond_path_throughput"));
    let samples = lines.map(|l| {
        let (series, value) = l.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

fn names(samples: &BTreeMap<String, f64>) -> BTreeSet<&String> {
    samples.keys().collect()
}

#[test]
fn metrics_of_a_primary_rise_over_sessions_and_keep_their_names_over_restarts() {
    let address = free_address();
    let bond = Bond::new(Ways::Both, &format!("metrics = \"{address}\""), "");
    let origin = origin();
    let proxy = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(2);
    assert!(bond.works(origin));
    // The name of a page that resolves to this address.
    let other = get(address, &format!("example.org:{}", address.port()));
    assert!(other.starts_with("HTTP/1.1 403"), "{other}");
    let first = scrape(address);
    let bytes = |samples: &BTreeMap<String, f64>| -> f64 {
        let paths = ["own", "helper"].map(|path| {
            samples[&format!("mpbond_path_bytes_total{{path=\"{path}\",direction=\"in\"}}")]
        });
        paths.iter().sum()
    };
    for path in ["own", "helper"] {
        assert_eq!(first[&format!("mpbond_path_up{{path=\"{path}\"}}")], 1.0);
        // More where a silent path was replaced.
        assert!(first[&format!("mpbond_path_joins_total{{path=\"{path}\"}}")] >= 1.0);
    }
    assert!(bytes(&first) >= 1_000.0);
    assert_eq!(first["mpbond_direct_connections_total"], 0.0);

    // Without the proxy, connections go direct.
    proxy.kill();
    until("a connection goes direct", || {
        bond.works(origin) && scrape(address)["mpbond_direct_connections_total"] > 0.0
    });
    let lost = scrape(address);
    assert_eq!(lost["mpbond_path_up{path=\"own\"}"], 0.0);
    let _proxy = bond.start("proxy");
    bond.joined(2);
    until("a connection goes over the proxy", || {
        assert!(bond.works(origin));
        bytes(&scrape(address)) >= bytes(&first) + 1_000.0
    });
    let second = scrape(address);
    assert_eq!(names(&first), names(&second));
    for (series, value) in &first {
        if series.contains("_total") {
            assert!(second[series] >= *value, "{series}");
        }
    }
    assert!(second["mpbond_path_joins_total{path=\"own\"}"] >= 2.0);

    primary.kill();
    let _primary = bond.start("primary");
    bond.joined(2);
    assert!(bond.works(origin));
    let third = scrape(address);
    assert_eq!(names(&first), names(&third));
}
