//! A session that takes no new streams and has lost all of its subflows: it is joined again through
//! a helper.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};

use crate::daemons::{Bond, Ways, download, origin};
use crate::upgrade::Wire;

const BYTES: u32 = 40_000_000;

#[test]
fn a_session_that_retires_is_joined_again_through_a_helper() {
    let bond = Bond::new(Ways::Helper, "on_proxy_loss = \"fail\"", "");
    let wire = Wire::to(bond.helper);
    let file = bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let config = config.replace(&bond.helper.to_string(), &wire.address.to_string());
    std::fs::write(&file, config).unwrap();
    let mut old = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    bond.joined(1);
    let running = download(&bond, origin(), BYTES);
    let new = bond.upgrade("proxy").unwrap();
    primary.logs("open connections stay with the session that retires");
    wire.cut();
    assert_eq!(running.end().unwrap(), BYTES as usize, "{}", primary.log());
    assert!(old.ends().success());
    assert!(new.log().contains("passed on label="), "{}", new.log());
    assert!(bond.works(origin()));
}

/// An attempt over the own path takes ten seconds, after which the line would be in the log.
#[test]
fn a_session_that_retires_does_not_wait_for_a_path_that_is_dead() {
    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let bond = Bond::new(Ways::Both, "on_proxy_loss = \"fail\"", "");
    let wire = Wire::to(bond.proxy);
    let own = [
        "name = \"own\"",
        &format!("name = \"own\"\nsource = \"{OWN}\""),
    ];
    let proxy = [&*bond.proxy.to_string(), &*wire.address.to_string()];
    for (role, [from, to]) in [("primary", own), ("primary", proxy), ("helper", proxy)] {
        let file = bond.file(&format!("{role}.toml"));
        let config = std::fs::read_to_string(&file).unwrap();
        assert!(config.contains(from), "{config}");
        std::fs::write(&file, config.replace(from, to)).unwrap();
    }
    let _old = bond.start("proxy");
    let _helper = bond.start("helper");
    let primary = bond.start("primary");
    // Status marks the own path as down: the address is not in the host's list.
    primary.logs("subflow up subflow=1");
    primary.logs("subflow up subflow=2");
    let mut app = bond.connect(origin()).unwrap();
    // A part of what it asks for.
    app.write_all(&[0]).unwrap();
    let new = bond.upgrade("proxy").unwrap();
    primary.logs("open connections stay with the session that retires");
    *wire.holds.lock().unwrap() = Some(OWN);
    wire.cut();
    // The rest, a single byte, and that byte.
    app.write_all(&[0, 0, 1]).unwrap();
    assert_eq!(app.read(&mut [0xff; 1]).unwrap(), 1);
    let log = primary.log();
    let waited = |line: &str| line.contains("not joined again") && line.contains("own");
    assert!(!log.lines().any(waited), "{log}");
    assert!(new.log().contains("passed on label="), "{}", new.log());
}
