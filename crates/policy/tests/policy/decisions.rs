//! The rule that applies to a flow, and the treatment that it sets.

use std::time::Duration;

use mpbond_policy::{
    Carriage, Certainty, Claim, Class, Device, Fact, Flow, Multipath, Origin, Paths, Permission,
    Policy, Verdict,
};

use crate::device::{device, flow, is_refused, names, policy, refusing, rule, time};

fn carriage<'p>(policy: &'p Policy, flow: &Flow, device: &Device) -> Carriage<'p> {
    match policy.decide(flow, device).verdict {
        Verdict::Carry(carriage) => carriage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_rule_that_selects_a_flow_applies() {
    let policy = policy(
        "[[rule]]\nname = \"one\"\nport = 22\nset = \"refuse\"\n\
         [[rule]]\nname = \"two\"\nport = 443\nset = \"direct\"\n\
         [[rule]]\nname = \"three\"\nuid = 1000\nset = \"refuse\"\n",
    );
    let decision = policy.decide(&flow(), &device());
    assert_eq!(rule(&decision), Some("two"));
    assert_eq!(
        decision.rule.map(|rule| (rule.line, rule.index)),
        Some((5, 1))
    );
    assert_eq!(decision.verdict, Verdict::Direct);
    assert_eq!(decision.certainty, Certainty::Known);
    let mut other = flow();
    other.port = 80;
    assert_eq!(rule(&policy.decide(&other, &device())), Some("three"));
    other.uid = Fact::known(7, "sock_diag");
    let decision = policy.decide(&other, &device());
    assert_eq!(rule(&decision), None);
    assert!(matches!(decision.verdict, Verdict::Carry(_)), "the default");
}

#[test]
fn all_conditions_of_a_rule_must_hold_and_one_value_of_each() {
    let policy = refusing("port = [80, 443]\nuid = [7, 1000]");
    for (port, uid, refused) in [
        (443, 1000, true),
        (80, 7, true),
        (443, 8, false),
        (1, 7, false),
    ] {
        let mut flow = flow();
        flow.port = port;
        flow.uid = Fact::known(uid, "sock_diag");
        assert_eq!(
            is_refused(&policy, &flow, &device()),
            refused,
            "{port} {uid}"
        );
    }
}

#[test]
fn each_condition_of_a_flow() {
    for (condition, selects) in [
        ("app = \"org.mozilla.firefox\"", true),
        ("app = \"org.mozilla\"", false),
        ("uid = \"1000-1001\"", true),
        ("uid = 0", false),
        ("cgroup = \"/user.slice\"", true),
        ("cgroup = \"/system.slice\"", false),
        ("dscp = \"CS0\"", true),
        ("dscp = 46", false),
        ("domain = \"*.example.org\"", true),
        ("domain = \"example.org\"", false),
        ("ip = \"203.0.113.0/24\"", true),
        ("ip = \"2001:db8::/32\"", false),
        ("port = \"440-450\"", true),
        ("port = \"80-442\"", false),
        ("source = [\"127.0.0.0/8\", \"::1\"]", true),
        ("source = \"192.168.0.0/16\"", false),
    ] {
        assert_eq!(
            is_refused(&refusing(condition), &flow(), &device()),
            selects,
            "{condition}"
        );
    }
}

#[test]
fn each_condition_of_the_device() {
    for (condition, selects) in [
        ("metered = false", true),
        ("metered = true", false),
        ("roaming = false", true),
        ("roaming = true", false),
        ("battery = \"< 81%\"", true),
        ("battery = \"< 80%\"", false),
        ("battery = \">= 80%\"", true),
        ("battery = \">= 81%\"", false),
        ("charging = false", true),
        ("charging = true", false),
        ("time = \"12:00-12:01\"", true),
        ("time = \"11:59-12:00\"", false),
        ("time = \"mon 0:00-24:00\"", true),
        ("time = \"tue-sun 0:00-24:00\"", false),
    ] {
        assert_eq!(
            is_refused(&refusing(condition), &flow(), &device()),
            selects,
            "{condition}"
        );
    }
}

#[test]
fn a_device_is_metered_when_every_working_link_is() {
    let policy = refusing("metered = true");
    let mut device = device();
    device.links[0].works = false;
    assert!(is_refused(&policy, &flow(), &device));
    device.links[0].works = true;
    assert!(!is_refused(&policy, &flow(), &device));
    // The user's own word takes precedence over what was found out.
    let stated = "[[link]]\nname = \"wifi\"\nmetered = true\n";
    let rule = "[[rule]]\nname = \"x\"\nmetered = true\nset = \"refuse\"\n";
    assert!(is_refused(
        &crate::device::policy(&format!("{stated}{rule}")),
        &flow(),
        &device
    ));
}

#[test]
fn times_are_those_of_the_zone_in_summer_and_winter() {
    let policy = refusing("time = \"22:00-06:00\"");
    for (at, refused) in [
        ("2026-11-02T20:59:59Z", false),
        ("2026-11-02T21:00:00Z", true),
        ("2026-11-03T04:59:59Z", true),
        ("2026-11-03T05:00:00Z", false),
        ("2026-07-02T20:00:00Z", true),
        ("2026-07-02T19:59:59Z", false),
    ] {
        let mut device = device();
        device.now = time(at);
        assert_eq!(is_refused(&policy, &flow(), &device), refused, "{at}");
    }
}

#[test]
fn a_condition_on_an_unknown_fact_does_not_hold_either_way() {
    let mut device = device();
    device.charging = Fact::unknown("no battery");
    device.battery = Fact::unknown("no battery");
    device.now = Fact::unknown("the clock is not set");
    device.links.clear();
    let mut flow = flow();
    flow.app = Fact::unknown("the socket has gone");
    flow.ip = Fact::unknown("the client named a domain");
    for condition in [
        "charging = true",
        "charging = false",
        "battery = \"< 20%\"",
        "battery = \">= 20%\"",
        "metered = true",
        "metered = false",
        "roaming = false",
        "time = \"0:00-24:00\"",
        "ip = [\"0.0.0.0/0\", \"::/0\"]",
        "app = \"org.mozilla.firefox\"",
    ] {
        let policy = refusing(condition);
        let decision = policy.decide(&flow, &device);
        assert_eq!(rule(&decision), None, "{condition}");
        assert_eq!(
            decision.undecided.map(|rule| rule.name),
            Some("x"),
            "{condition}"
        );
    }
    let policy = refusing("app = \"org.mozilla.firefox\"\nport = 22");
    let decision = policy.decide(&flow, &device);
    assert_eq!(decision.undecided, None, "the port excludes it in any case");
}

#[test]
fn a_guessed_fact_selects_and_is_said() {
    let policy = refusing("domain = \"*.example.net\"\nport = 443");
    let mut flow = flow();
    flow.domain = Fact::guessed(names(&["a.example.org", "b.example.net"]), "the DNS stub");
    let decision = policy.decide(&flow, &device());
    assert_eq!(rule(&decision), Some("x"), "one of the names is enough");
    assert_eq!(decision.certainty, Certainty::Guessed);
}

#[test]
fn a_rule_wins_over_a_claim_and_a_claim_over_the_default() {
    let policy = policy(
        "[policy]\ndefault = { class = \"bulk\", multipath = \"interactive\", priority = 2 }\n\
         [[rule]]\nname = \"class\"\nport = 443\nset = { class = \"background\" }\n\
         [[rule]]\nname = \"other\"\nport = 80\nset = { priority = 5 }\n",
    );
    let mut flow = flow();
    flow.claim = Claim {
        class: Some(Class::Interactive),
        multipath: Some(Multipath::Handover),
    };
    for (port, class, from, multipath, priority) in [
        (443, Class::Background, Origin::Rule, Multipath::Handover, 2),
        (
            80,
            Class::Interactive,
            Origin::Claim,
            Multipath::Handover,
            5,
        ),
        (
            22,
            Class::Interactive,
            Origin::Claim,
            Multipath::Handover,
            2,
        ),
    ] {
        flow.port = port;
        let got = carriage(&policy, &flow, &device());
        assert_eq!((got.class, got.class_from), (class, from), "{port}");
        assert_eq!(
            (got.multipath, got.priority),
            (multipath, priority),
            "{port}"
        );
    }
    flow.claim = Claim::default();
    let got = carriage(&policy, &flow, &device());
    assert_eq!((got.class, got.class_from), (Class::Bulk, Origin::Default));
    assert_eq!(got.multipath, Multipath::Interactive);
}

#[test]
fn a_realtime_flow_has_one_path_whoever_made_it_realtime() {
    let policy = policy("[policy]\ndefault = { multipath = \"aggregate\" }\n");
    let mut flow = flow();
    flow.claim.class = Some(Class::Realtime);
    flow.claim.multipath = Some(Multipath::Aggregate);
    assert_eq!(
        carriage(&policy, &flow, &device()).multipath,
        Multipath::Handover
    );
}

#[test]
fn a_rule_of_several_paths_wins_over_a_class_of_one_path() {
    let policy = policy(
        "[policy]\ndefault = { class = \"realtime\" }\n\
         [[rule]]\nname = \"x\"\nport = 443\nset = { multipath = \"aggregate\" }\n",
    );
    for claimed in [Some(Class::Realtime), None] {
        let mut flow = flow();
        flow.claim.class = claimed;
        let got = carriage(&policy, &flow, &device());
        assert_eq!(
            (got.class, got.multipath),
            (Class::Interactive, Multipath::Aggregate)
        );
        flow.port = 80;
        let got = carriage(&policy, &flow, &device());
        assert_eq!(
            (got.class, got.multipath),
            (Class::Realtime, Multipath::Handover)
        );
    }
}

#[test]
fn a_rule_without_delay_has_not_the_defaults() {
    let policy = policy(
        "[policy]\ndefault = { delay = \"1min\" }\n\
         [[rule]]\nname = \"x\"\nport = 443\nset = { delay = \"0s\" }\n",
    );
    assert_eq!(carriage(&policy, &flow(), &device()).delay, Duration::ZERO);
}

#[test]
fn the_papers_whitelist_is_a_default_of_direct() {
    let policy = policy(
        "[policy]\ndefault = \"direct\"\n\
         [[rule]]\nname = \"video\"\napp = \"tv\"\nset = { paths = [\"phone\"], priority = 1 }\n",
    );
    assert_eq!(policy.decide(&flow(), &device()).verdict, Verdict::Direct);
    let mut flow = flow();
    flow.app = Fact::known("tv".to_owned(), "the control group");
    let carriage = carriage(&policy, &flow, &device());
    assert_eq!(carriage.paths, &Paths::Named(["phone".to_owned()].into()));
    assert_eq!(carriage.class, Class::Bulk);
    // A claim changes nothing about a flow that no session carries.
    flow.app = Fact::unknown("-");
    flow.claim.class = Some(Class::Realtime);
    assert_eq!(policy.decide(&flow, &device()).verdict, Verdict::Direct);
}

#[test]
fn a_rule_takes_from_the_default_what_it_does_not_set() {
    let policy = policy(
        "[policy]\nzone = \"UTC\"\n\
         default = { paths = [\"wifi\"], metered = \"never\", roaming = \"never\", \
         delay = \"1min\" }\n\
         [[rule]]\nname = \"x\"\nport = 443\n\
         set = { metered = \"allowed\", budget = { bytes = \"1 GB\", resets = 31 } }\n",
    );
    let carried = carriage(&policy, &flow(), &device());
    assert_eq!(carried.paths, &Paths::Named(["wifi".to_owned()].into()));
    assert_eq!(
        (carried.metered, carried.roaming),
        (Permission::Allowed, Permission::Never)
    );
    assert_eq!(carried.delay, Duration::from_secs(60));
    let budget = carried.budget.unwrap();
    assert_eq!((budget.bytes, budget.reset_day), (1_000_000_000, 31));
    assert_eq!(
        policy.budgets().map(|(name, _)| name).collect::<Vec<_>>(),
        ["x"]
    );
    let mut other = flow();
    other.port = 80;
    assert_eq!(carriage(&policy, &other, &device()).budget, None);
}

#[test]
fn an_empty_policy_carries_everything() {
    for policy in [policy(""), policy("[policy]\n")] {
        let got = carriage(&policy, &flow(), &device());
        assert_eq!((got.class, got.priority), (Class::Bulk, 0));
        assert_eq!((got.paths, got.delay), (&Paths::All, Duration::ZERO));
        assert_eq!(
            (got.metered, got.roaming),
            (Permission::Allowed, Permission::Allowed)
        );
        assert_eq!(got.multipath, Multipath::Aggregate);
    }
}

/// The classes are those of the session: a daemon passes them on.
#[test]
fn classes_have_the_names_of_the_sessions_classes() {
    let own = [
        Class::Realtime,
        Class::Interactive,
        Class::Bulk,
        Class::Background,
    ];
    let own = own.map(|class| serde_json::to_value(class).unwrap());
    let sessions = mpbond_session::StreamClass::IN_ORDER.map(|class| class.name());
    assert_eq!(own.to_vec(), sessions.to_vec());
}
