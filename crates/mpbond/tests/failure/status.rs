//! What `mpbond status` says of paths that carry data, and of those that cannot.

use std::process::Command;

use crate::apart::Apart;
use crate::daemons::{Bond, Ways, download, origin, text, until};
use mpbond_testing::namespaces::{is_called_for, play, sh};

fn status(bond: &Bond) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["status", "--socket", text(&bond.file("primary.sock"))])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn status_shows_rates_of_each_path_and_their_sum() {
    let bond = Bond::new(Ways::Both, "", "");
    let _daemons = ["proxy", "helper", "primary"].map(|role| bond.start(role));
    bond.joined(2);
    let _download = download(&bond, origin(), 1_000_000_000);
    let mut said = String::new();
    until("both rates are shown", || {
        said = status(&bond);
        assert!(said.lines().all(|l| l.chars().count() <= 80), "{said}");
        assert!(!said.contains('\u{1b}'), "no colours into a pipe: {said}");
        // PATH, then IN and OUT with units, then both rates.
        let total = said.lines().find(|l| l.starts_with("  total "));
        let Some(total) = total else { return false };
        let words: Vec<&str> = total.split_whitespace().collect();
        let rates = words[5..].iter().map(|w| w.parse::<f64>());
        let rates: Vec<f64> = rates.map_while(Result::ok).collect();
        matches!(rates[..], [incoming, _] if incoming > 0.1)
    });
    assert!(
        said.contains("127.0.0.1:"),
        "its own user sees destinations: {said}"
    );
}

/// Streams that have ended and are kept for the status of a daemon.
const ENDED: usize = 64;

#[test]
fn status_has_the_last_64_streams_that_have_ended() {
    let bond = Bond::new(Ways::Own, "on_proxy_loss = \"fail\"", "");
    let _daemons = ["proxy", "primary"].map(|role| bond.start(role));
    bond.joined(1);
    let origin = origin();
    for _ in 0..ENDED + 6 {
        assert!(bond.works(origin));
    }
    for role in ["proxy", "primary"] {
        until("all have ended", || {
            let transfers = bond.status(role).unwrap().transfers;
            assert!(transfers.len() >= ENDED, "{role}: {}", transfers.len());
            transfers.iter().all(|t| t.state != "open")
        });
        let transfers = bond.status(role).unwrap().transfers;
        assert_eq!(transfers.len(), ENDED, "{role}");
        let mut streams: Vec<u64> = transfers.iter().map(|t| t.stream).collect();
        streams.dedup();
        assert_eq!(streams.len(), ENDED, "{role}: {streams:?}");
    }
}

#[test]
fn the_cause_of_a_failed_connection_is_named_once() {
    let bond = Bond::new(Ways::Both, "", "");
    let primary = bond.start("primary");
    let mut links = Vec::new();
    until("both links have failed", || {
        links = bond.status("primary").unwrap().links;
        links.iter().all(|l| l.error.is_some())
    });
    let errors = links.iter().map(|l| l.error.as_deref().unwrap());
    let (errors, log) = (errors.collect::<Vec<_>>(), primary.log());
    assert_eq!(errors.len(), 2);
    let refused = "Connection refused (os error 111)";
    for text in errors.into_iter().chain(log.lines()) {
        assert!(text.matches(refused).count() <= 1, "{text}");
    }
    let named = |text: &str| text.contains(refused);
    assert!(links.iter().all(|l| l.error.as_deref().is_some_and(named)));
    assert!(log.lines().filter(|line| named(line)).count() >= 2, "{log}");
}

#[test]
fn a_path_whose_interface_has_no_carrier_is_down() {
    play("-Urnm", "status::role_carrier");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_carrier() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let file = apart.bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let bound = config.replace(
        "name = \"own\"\n",
        "name = \"own\"\ninterface = \"near0\"\n",
    );
    assert_ne!(config, bound);
    std::fs::write(&file, bound).unwrap();
    let _proxy = apart.bond.start("proxy");
    let _primary = apart.start_primary();
    apart.bond.joined(1);
    // The other end of the cable.
    sh("ip link set far0 down");
    until("the path is down", || {
        let status = apart.bond.status("primary").unwrap();
        let link = &status.links[0];
        let mut subflows = status.sessions.iter().flat_map(|s| &s.subflows);
        link.state == "down"
            && link.error.as_deref() == Some("near0 has no carrier")
            && subflows.all(|f| f.state == "down")
    });
    sh("ip link set far0 up");
    apart.bond.joined(1);
}
