//! Flows, devices and policies of the tests.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::tz::TimeZone;
use mpbond_policy::{
    Charge, Claim, Decision, Device, DomainName, Fact, Flow, LinkState, Policy, Verdict,
};
use mpbond_toml_text::FileError;

/// The zones of the tests: independent of the machine's database.
pub fn zones(name: &str) -> Option<TimeZone> {
    match name {
        "Europe/Berlin" => TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").ok(),
        "Asia/Tokyo" => TimeZone::posix("JST-9").ok(),
        _ => None,
    }
}

pub fn parse(text: &str) -> Result<Policy, FileError> {
    Policy::parse(Path::new("policy.toml"), text, &zones)
}

pub fn policy(text: &str) -> Policy {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// A rule that refuses, with these conditions.
pub fn refusing(conditions: &str) -> Policy {
    policy(&format!(
        "[policy]\nzone = \"Europe/Berlin\"\n[[rule]]\nname = \"x\"\n{conditions}\nset = \"refuse\"\n"
    ))
}

/// A flow of Firefox to a web server.
pub fn flow() -> Flow {
    Flow {
        app: Fact::known("org.mozilla.firefox".to_owned(), "the control group"),
        uid: Fact::known(1000, "sock_diag"),
        cgroup: Fact::known(
            "/user.slice/user-1000.slice/app-firefox-1.scope".to_owned(),
            "sock_diag",
        ),
        dscp: Fact::known(0, "sock_diag"),
        domain: Fact::known(names(&["www.example.org"]), "SOCKS"),
        ip: Fact::known("203.0.113.7".parse().unwrap(), "the client"),
        port: 443,
        source: Fact::known("127.0.0.1".parse().unwrap(), "the client"),
        claim: Claim::default(),
    }
}

pub fn names(names: &[&str]) -> Vec<DomainName> {
    let name = |name: &&str| DomainName::new(name).unwrap();
    names.iter().map(name).collect()
}

/// A laptop with WiFi and a metered modem, on a Monday at 12:00 in Berlin.
pub fn device() -> Device {
    Device {
        now: time("2026-11-02T11:00:00Z"),
        battery: Fact::known(80, "sysfs"),
        charging: Fact::known(false, "sysfs"),
        links: vec![link("wifi", false), link("modem", true)],
        spent_budgets: BTreeSet::new(),
    }
}

pub fn link(name: &str, metered: bool) -> LinkState {
    LinkState {
        name: name.to_owned(),
        works: true,
        metered: Fact::known(metered, "NetworkManager"),
        roaming: Fact::known(false, "NetworkManager"),
        charge: Charge::Sufficient,
        cap_reached: false,
        is_weak: false,
    }
}

pub fn time(text: &str) -> Fact<jiff::Timestamp> {
    Fact::known(text.parse().unwrap(), "the clock")
}

/// The name of the rule that applies.
pub fn rule<'p>(decision: &Decision<'p>) -> Option<&'p str> {
    decision.rule.map(|rule| rule.name)
}

pub fn is_refused(policy: &Policy, flow: &Flow, device: &Device) -> bool {
    policy.decide(flow, device).verdict == Verdict::Refuse
}
