//! A session that takes no new streams and has lost its only subflow, which led through a helper.

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
