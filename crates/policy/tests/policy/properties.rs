//! Properties of every policy and every flow, from random ones.

use std::fmt::Write as _;

use mpbond_policy::{Certainty, Fact, Flow, Phase, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::device::{device, flow, names, parse, rule, time};

/// Cases are those of a fixed seed; an input that failed becomes a test of its own.
fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

fn condition() -> impl Strategy<Value = (&'static str, String)> {
    let domain = prop_oneof![Just("*.b"), Just("a.b"), Just("*.a.b"), Just("c.a.b")];
    prop_oneof![
        (1_u16..6, 0_u16..3).prop_map(|(p, n)| ("port", format!("port = \"{p}-{}\"", p + n))),
        vec(0_u32..5, 1..4).prop_map(|uids| ("uid", format!("uid = {uids:?}"))),
        vec(prop_oneof![Just("x"), Just("y"), Just("z")], 1..3)
            .prop_map(|apps| ("app", format!("app = {apps:?}"))),
        vec(domain, 1..3).prop_map(|names| ("domain", format!("domain = {names:?}"))),
        (6_u8..=8).prop_map(|n| ("ip", format!("ip = \"0.0.0.0/{n}\""))),
        any::<bool>().prop_map(|on| ("metered", format!("metered = {on}"))),
        any::<bool>().prop_map(|on| ("charging", format!("charging = {on}"))),
        (1_u8..4).prop_map(|n| ("battery", format!("battery = \"< {}%\"", n * 25))),
        (0_u8..23).prop_map(|hour| ("time", format!("time = \"{hour}:00-{}:00\"", hour + 1))),
    ]
}

fn action() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("\"direct\""),
        Just("\"refuse\""),
        Just("{ class = \"interactive\" }"),
        Just("{ paths = [\"wifi\"] }"),
        Just("{ metered = \"never\", delay = \"1min\" }"),
    ]
}

type RuleText = (Vec<(&'static str, String)>, &'static str);

fn rules() -> impl Strategy<Value = Vec<RuleText>> {
    vec((vec(condition(), 1..4), action()), 0..8)
}

/// The text of a policy. Of several conditions of a kind, a rule has the first.
fn text(rules: &[RuleText]) -> String {
    let mut text = "[policy]\nzone = \"UTC\"\n".to_owned();
    for (index, (conditions, action)) in rules.iter().enumerate() {
        writeln!(text, "[[rule]]\nname = \"{index}\"").unwrap();
        for (at, (kind, condition)) in conditions.iter().enumerate() {
            if conditions.iter().position(|(other, _)| other == kind) == Some(at) {
                writeln!(text, "{condition}").unwrap();
            }
        }
        writeln!(text, "set = {action}").unwrap();
    }
    text
}

/// Facts of a flow, and the state of the battery and of the second link.
fn flows() -> impl Strategy<Value = (Flow, u8, Option<bool>, bool)> {
    let app = prop_oneof![Just("x"), Just("y"), Just("w")];
    let domain = prop_oneof![Just("a.b"), Just("c.a.b"), Just("b"), Just("d")];
    let ip = any::<u32>();
    let facts = (app, 0_u32..6, vec(domain, 1..3), ip, 1_u16..9, 0_u8..8);
    (facts, 0_u8..=100, any::<Option<bool>>(), any::<bool>()).prop_map(
        |((app, uid, domains, ip, port, unknown), battery, charging, works)| {
            let mut flow = flow();
            flow.app = Fact::known(app.to_owned(), "-");
            flow.uid = Fact::known(uid, "-");
            flow.domain = Fact::guessed(names(&domains), "-");
            flow.ip = Fact::known(std::net::Ipv4Addr::from(ip >> 5).into(), "-");
            flow.port = port;
            if unknown & 1 > 0 {
                flow.app = Fact::unknown("-");
            }
            if unknown & 2 > 0 {
                flow.domain = Fact::unknown("-");
            }
            if unknown & 4 > 0 {
                flow.uid = Fact::unknown("-");
            }
            (flow, battery, charging, works)
        },
    )
}

proptest! {
    #![proptest_config(config())]

    /// A rule alone selects a flow exactly when it would do so among others, if no earlier one did.
    #[test]
    fn the_first_of_the_rules_that_select_a_flow_alone_applies(
        rules in rules(), (flow, battery, charging, works) in flows(),
    ) {
        let mut device = device();
        device.battery = Fact::known(battery, "-");
        device.charging = charging.map_or(Fact::unknown("-"), |on| Fact::known(on, "-"));
        device.links[0].works = works;
        device.now = time("2026-11-02T11:30:00Z");
        let Ok(all) = parse(&text(&rules)) else { return Ok(()) };
        let alone = |rule: &RuleText| {
            let policy = parse(&text(std::slice::from_ref(rule))).unwrap();
            policy.decide(&flow, &device).rule.is_some()
        };
        let want = rules.iter().position(alone).map(|index| index.to_string());
        let decision = all.decide(&flow, &device);
        prop_assert_eq!(rule(&decision), want.as_deref());

        let explanation = all.explain(&flow, &device);
        // Only the names of the destination are a guess.
        let is_guess = |rule: &RuleText| rule.0.iter().any(|(kind, _)| *kind == "domain");
        let guessed = decision.rule.is_some_and(|rule| is_guess(&rules[rule.index]));
        let certainty = if guessed { Certainty::Guessed } else { Certainty::Known };
        prop_assert_eq!(explanation.certainty, certainty);
        let passed = decision.rule.map_or(rules.len(), |rule| rule.index);
        prop_assert_eq!(explanation.passed.len(), passed);
        let mut lines = explanation.passed.iter();
        let unknown = lines.find(|line| line.certainty == Certainty::Unknown);
        prop_assert_eq!(unknown.map(|line| line.rule), decision.undecided);
    }

    /// A rule that is refused as one that never applies is indeed selected by no flow.
    #[test]
    fn a_rule_that_never_applies_never_would(
        rules in rules(), flows in vec(flows(), 20),
    ) {
        let mut good: Vec<RuleText> = Vec::new();
        for rule in rules {
            good.push(rule.clone());
            let Err(error) = parse(&text(&good)) else { continue };
            good.pop();
            prop_assert!(error.to_string().contains("never applies"), "{}", error);
            let earlier = parse(&text(&good)).unwrap();
            let alone = parse(&text(std::slice::from_ref(&rule))).unwrap();
            for (flow, battery, charging, works) in &flows {
                let mut device = device();
                device.battery = Fact::known(*battery, "-");
                device.charging = charging.map_or(Fact::unknown("-"), |on| Fact::known(on, "-"));
                device.links[0].works = *works;
                if alone.decide(flow, &device).rule.is_some() {
                    prop_assert!(earlier.decide(flow, &device).rule.is_some());
                }
            }
        }
    }

    /// What a rule forbids is never used.
    #[test]
    fn a_flow_uses_no_link_that_its_rule_forbids(
        rules in rules(), (flow, ..) in flows(), known in any::<Option<bool>>(),
    ) {
        let Ok(policy) = parse(&text(&rules)) else { return Ok(()) };
        let mut device = device();
        device.links[0].metered = known.map_or(Fact::unknown("-"), |on| Fact::guessed(on, "-"));
        if let Verdict::Carry(carriage) = policy.decide(&flow, &device).verdict {
            for link in &device.links {
                if policy.judge(&carriage, link, Phase::Open).is_ok() {
                    prop_assert!(carriage.paths.contain(&link.name));
                    let unmetered = matches!(link.metered.get(), Some((false, _)));
                    let never = carriage.metered == mpbond_policy::Permission::Never;
                    prop_assert!(unmetered || !never);
                }
            }
        }
    }

    /// Any text is a policy or an error of one line.
    #[test]
    fn any_text_is_a_policy_or_an_error_of_one_line(
        lines in vec(prop_oneof![
            Just("[policy]".to_owned()),
            Just("[[rule]]".to_owned()),
            Just("[[link]]".to_owned()),
            condition().prop_map(|(_, text)| text),
            action().prop_map(|set| format!("set = {set}")),
            "name = \"\\PC{0,3}\"",
            "(app|ip|time|port|zone|cap|cost|default) = (\\PC{0,8}|\"\\PC{0,8}\"|[0-9]{1,9})",
        ], 0..12),
    ) {
        if let Err(error) = parse(&lines.join("\n")) {
            let text = error.to_string();
            prop_assert!(text.starts_with("policy.toml:"), "{}", text);
            prop_assert!(text.chars().all(mpbond_units::is_printable), "{:?}", text);
        }
    }
}
