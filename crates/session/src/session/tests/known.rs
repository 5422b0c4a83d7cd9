//! What connections have shown of a path, and the next connections over it.

use crate::FarReport;
use crate::KnownPaths;
use crate::SubflowId;
use crate::config::SessionConfig;
use crate::mechanism::Mechanism;
use crate::session::Session;
use crate::wire::Role;

use super::pair::{Pair, at, download, hop};

/// Rate of the far hop that the server knows of a subflow through a helper, in Mbit/s.
fn known_to_server(p: &mut Pair, id: SubflowId) -> Option<f64> {
    let now = p.now;
    let all = p.server().subflows(now);
    let helper = all.iter().find(|s| s.id == id).expect("joined");
    helper.far_throughput.map(|rate| rate.mbps())
}

/// Downloads over a direct path and a helper, whose pipe is the slower hop. Then the helper's
/// connection is lost, and there is another one.
fn after_a_loss(config: SessionConfig) -> Option<f64> {
    let mut p = Pair::new(config);
    p.join_on(1, Role::Regular, &[hop(8.0, 25)]);
    let helper = [hop(5.0, 2), hop(10.0, 25)];
    let first = p.join_on(2, Role::Regular, &helper);
    p.run(at(1_000), |_| false);
    download(&mut p, 2 << 20, 10_000);
    assert!(known_to_server(&mut p, first).is_some());
    p.kill(first);
    let second = p.join_on(2, Role::Regular, &helper);
    let joined = p.now + std::time::Duration::from_millis(500);
    p.run(joined, |_| false);
    known_to_server(&mut p, second)
}

#[test]
fn a_path_is_known_when_its_connection_is_lost() {
    let known = after_a_loss(SessionConfig::default()).expect("a rate");
    assert!((4.0..6.0).contains(&known), "{known} Mbit/s");
    let mut config = SessionConfig::default();
    config.leave_out(Mechanism::KnownPaths);
    assert_eq!(after_a_loss(config), None);
}

#[test]
fn another_session_knows_the_paths() {
    let helper = [hop(5.0, 2), hop(10.0, 25)];
    let known = |after: u64, known: KnownPaths| {
        let mut p = Pair::new(SessionConfig::default());
        p.join_on(1, Role::Regular, &[hop(8.0, 25)]);
        p.run(at(after), |_| false);
        p.server().remember(known);
        let id = p.join_on(2, Role::Regular, &helper);
        p.run(at(after + 500), |_| false);
        let before = known_to_server(&mut p, id);
        download(&mut p, 2 << 20, 10_000);
        (before, Session::known_paths(p.server()))
    };
    let (none, shown) = known(500, KnownPaths::default());
    assert_eq!(none, None);
    assert!(known(30_000, shown.clone()).0.is_some());
    assert_eq!(known(610_000, shown).0, None, "too old");
}

/// The primary hands on a report of its helper during a download.
#[test]
fn a_proxy_does_not_remember_the_rate_at_which_a_helper_holds_bytes_back() {
    let helper = [hop(5.0, 2), hop(10.0, 25)];
    let remembered = |held_back: bool| {
        let mut p = Pair::new(SessionConfig::default());
        p.join_on(1, Role::Regular, &[hop(8.0, 25)]);
        let id = p.join_on(2, Role::Regular, &helper);
        p.run(at(1_000), |_| false);
        download(&mut p, 2 << 20, 10_000);
        let report = FarReport {
            held_back,
            ..FarReport::default()
        };
        p.client.relay_report(p.now, id, report);
        let arrives = p.now + std::time::Duration::from_millis(200);
        p.run(arrives, |_| false);
        let known = Session::known_paths(p.server());
        let mut next = Pair::new(SessionConfig::default());
        next.join_on(1, Role::Regular, &[hop(8.0, 25)]);
        next.run(at(500), |_| false);
        next.server().remember(known);
        let id = next.join_on(2, Role::Regular, &helper);
        next.run(at(1_000), |_| false);
        known_to_server(&mut next, id)
    };
    assert!(remembered(false).is_some());
    assert_eq!(remembered(true), None);
}
