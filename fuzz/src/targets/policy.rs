//! Target for policies and the names that a policy is applied to.

use std::collections::BTreeSet;
use std::path::Path;

use mpbond_policy::{
    Account, Charge, Claim, Device, DomainName, Fact, Flow, LinkState, Permission, Phase, Policy,
    Verdict, application_of,
};

/// A policy, and its decision about a flow; the octets are also names of the flow.
pub fn policy(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    let (first, rest) = text.split_once('\0').unwrap_or((text, text));
    if let Err(e) = toml::from_str::<Account>(first) {
        assert!(!e.message().is_empty(), "an error without text");
    }
    let zones = |name: &str| (name == "Europe/Berlin").then_some(jiff::tz::TimeZone::UTC);
    let policy = match Policy::parse(Path::new("policy.toml"), first, &zones) {
        Ok(policy) => policy,
        Err(e) => {
            super::one_line(&e);
            return;
        }
    };
    let app = application_of(rest);
    if let Some((name, _)) = app.get() {
        assert!(name.len() <= rest.len() && !name.is_empty(), "{name:?}");
    }
    let names: Vec<_> = rest.lines().take(8).filter_map(DomainName::new).collect();
    let flow = Flow {
        app,
        uid: Fact::known(1000, "-"),
        cgroup: Fact::known(rest.to_owned(), "-"),
        dscp: Fact::known(46, "-"),
        domain: Fact::guessed(names, "-"),
        ip: Fact::unknown("-"),
        port: 443,
        source: Fact::known([127, 0, 0, 1].into(), "-"),
        claim: Claim::default(),
    };
    let link = |name: &str, works| LinkState {
        name: name.to_owned(),
        works,
        metered: Fact::unknown("-"),
        roaming: Fact::known(false, "-"),
        charge: Charge::Draining,
        cap_reached: works,
        is_weak: works,
    };
    let device = Device {
        now: Fact::known(jiff::Timestamp::UNIX_EPOCH, "-"),
        battery: Fact::known(15, "-"),
        charging: Fact::unknown("-"),
        links: vec![link("wifi", true), link("mobile", false)],
        spent_budgets: BTreeSet::new(),
    };
    let decision = policy.decide(&flow, &device);
    // A byte order mark is allowed at the begin of a file only.
    if !first.starts_with('\u{feff}') {
        let lower = format!("#\n{first}");
        let lower = Policy::parse(Path::new("policy.toml"), &lower, &zones);
        assert!(lower.is_ok(), "a comment before a policy is an error");
        let below = lower.as_ref().map(|lower| lower.decide(&flow, &device));
        assert!(
            below.is_ok_and(|below| {
                below.rule.map(|rule| (rule.name, rule.line))
                    == decision.rule.map(|rule| (rule.name, rule.line + 1))
                    && below.verdict == decision.verdict
            }),
            "a comment before a policy changes its decision"
        );
    }
    let explanation = policy.explain(&flow, &device);
    let shown = explanation.to_string();
    let printable = |c: char| c == '\n' || !c.is_control();
    assert!(
        shown.chars().all(printable),
        "control characters: {shown:?}"
    );
    if let Verdict::Carry(carriage) = &decision.verdict {
        for link in &device.links {
            let used = policy.judge(carriage, link, Phase::Open).is_ok();
            let stated = policy.link(&link.name).and_then(|link| link.metered);
            let is_allowed = carriage.metered == Permission::Allowed || stated == Some(false);
            assert!(
                !used || (link.works && is_allowed),
                "a link that does not work, or may be metered"
            );
        }
    }
}
