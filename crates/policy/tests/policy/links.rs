//! The links that a flow may use, in their order.

use std::time::Duration;

use mpbond_policy::{
    Admission, Carriage, Charge, Fact, LinkState, LinkUse, Phase, Policy, Refusal, Unusable,
    Verdict,
};

use crate::device::{device, flow, link, policy};

/// A policy with one rule for all flows of the tests, and further lines.
fn with(set: &str, more: &str) -> Policy {
    policy(&format!(
        "[[rule]]\nname = \"x\"\nport = 443\nset = {set}\n{more}"
    ))
}

fn carriage(policy: &Policy) -> Carriage<'_> {
    match policy.decide(&flow(), &device()).verdict {
        Verdict::Carry(carriage) => carriage,
        other => panic!("{other:?}"),
    }
}

fn judge(policy: &Policy, link: &LinkState) -> Result<LinkUse, Unusable> {
    policy.judge(&carriage(policy), link, Phase::New)
}

#[test]
fn never_metered_excludes_also_a_link_that_may_be() {
    let never = with("{ metered = \"never\" }", "");
    assert_eq!(judge(&never, &link("modem", true)), Err(Unusable::Metered));
    assert!(judge(&never, &link("wifi", false)).is_ok());
    let mut unknown = link("eth", false);
    unknown.metered = Fact::unknown("no NetworkManager");
    assert_eq!(judge(&never, &unknown), Err(Unusable::PerhapsMetered));
    unknown.metered = Fact::guessed(false, "NetworkManager");
    assert!(judge(&never, &unknown).is_ok());
    let stated = "[[link]]\nname = \"eth\"\nmetered = false\n";
    unknown.metered = Fact::unknown("no NetworkManager");
    assert!(judge(&with("{ metered = \"never\" }", stated), &unknown).is_ok());
    assert!(judge(&with("{ class = \"bulk\" }", ""), &link("modem", true)).is_ok());
}

#[test]
fn never_roaming_excludes_also_a_link_that_may_be() {
    let never = with("{ roaming = \"never\" }", "");
    let mut modem = link("modem", true);
    assert!(judge(&never, &modem).is_ok());
    modem.roaming = Fact::guessed(true, "NetworkManager");
    assert_eq!(judge(&never, &modem), Err(Unusable::Roaming));
    modem.roaming = Fact::unknown("no NetworkManager");
    assert_eq!(judge(&never, &modem), Err(Unusable::PerhapsRoaming));
}

#[test]
fn only_named_paths_that_work() {
    let wifi = with("{ paths = [\"wifi\", \"phone\"] }", "");
    assert!(judge(&wifi, &link("phone", true)).is_ok());
    assert_eq!(
        judge(&wifi, &link("modem", true)),
        Err(Unusable::NotAllowed)
    );
    let mut down = link("wifi", false);
    down.works = false;
    assert_eq!(judge(&wifi, &down), Err(Unusable::NotWorking));
}

#[test]
fn a_low_battery_drains_before_it_refuses() {
    let policy = with("{ class = \"bulk\" }", "");
    let mut phone = link("phone", false);
    for (charge, new, open) in [
        (Charge::Sufficient, None, None),
        (Charge::Draining, Some(Unusable::Draining), None),
        (
            Charge::Low,
            Some(Unusable::BatteryLow),
            Some(Unusable::BatteryLow),
        ),
    ] {
        phone.charge = charge;
        assert_eq!(judge(&policy, &phone).err(), new, "{charge:?}");
        let judged = policy.judge(&carriage(&policy), &phone, Phase::Open);
        assert_eq!(judged.err(), open, "{charge:?}");
    }
}

#[test]
fn a_link_at_its_cap_is_off_or_on_standby() {
    let cap = |at_cap: &str| {
        let cap = "[[link]]\nname = \"modem\"\ncost = 3\ncap = { bytes = \"20 GB\", resets = 17";
        with(
            "{ class = \"bulk\" }",
            &format!("{cap}, zone = \"Europe/Berlin\"{at_cap} }}\n"),
        )
    };
    let mut modem = link("modem", true);
    modem.cap_reached = true;
    assert_eq!(judge(&cap(""), &modem), Err(Unusable::CapReached));
    assert_eq!(
        judge(&cap(", at_cap = \"off\""), &modem),
        Err(Unusable::CapReached)
    );
    let standby = cap(", at_cap = \"standby\"");
    let used = LinkUse {
        cost: 3,
        standby: true,
        weak: false,
    };
    assert_eq!(judge(&standby, &modem), Ok(used));
    let (own, reset) = (standby.link("modem").unwrap(), 17);
    assert_eq!(
        own.cap.as_ref().map(|cap| (cap.bytes, cap.reset_day)),
        Some((20_000_000_000, reset))
    );
}

#[test]
fn a_metered_link_costs_1_unless_the_policy_states_a_cost() {
    let policy = with(
        "{ class = \"bulk\" }",
        "[[link]]\nname = \"lte\"\ncost = 0\n",
    );
    let cost = |link| judge(&policy, &link).map(|link| link.cost);
    assert_eq!(cost(link("wifi", false)), Ok(0));
    assert_eq!(cost(link("modem", true)), Ok(1));
    assert_eq!(cost(link("lte", true)), Ok(0));
}

#[test]
fn cost_comes_before_round_trip_time_as_the_mode_says() {
    let of = |cost, standby| LinkUse {
        cost,
        standby,
        weak: false,
    };
    let uses = [
        of(3, false),
        of(0, false),
        of(1, false),
        of(0, true),
        of(1, false),
    ];
    for (mode, want) in [
        ("fastest", [(0, 0), (0, 0), (0, 0), (3, 0), (0, 0)]),
        ("balanced", [(0, 2), (0, 0), (0, 1), (3, 0), (0, 1)]),
        ("saver", [(2, 0), (0, 0), (1, 0), (3, 0), (1, 0)]),
    ] {
        let policy = policy(&format!("[policy]\nmode = \"{mode}\"\n"));
        let ranks: Vec<_> = policy
            .ranks(&uses)
            .iter()
            .map(|r| (r.tier, r.turn))
            .collect();
        assert_eq!(ranks, want, "{mode}");
    }
    let balanced = policy("[policy]\nmode = \"balanced\"\n");
    assert_eq!(policy("").ranks(&uses), balanced.ranks(&uses));
}

#[test]
fn a_flow_waits_for_a_link_where_its_rule_has_a_delay() {
    let mut device = device();
    let admit = |policy: &Policy, device: &mpbond_policy::Device| {
        policy.admit(&policy.decide(&flow(), device), device)
    };
    let waiting = with("{ metered = \"never\", delay = \"10min\" }", "");
    let refused = with("{ metered = \"never\" }", "");
    assert_eq!(admit(&waiting, &device), Admission::Now);
    assert_eq!(admit(&refused, &device), Admission::Now);
    device.links[0].works = false;
    assert_eq!(
        admit(&waiting, &device),
        Admission::Wait(Duration::from_secs(600))
    );
    assert_eq!(
        admit(&refused, &device),
        Admission::Refused(Refusal::NoLink)
    );
    let refuse = with("\"refuse\"", "");
    assert_eq!(admit(&refuse, &device), Admission::Refused(Refusal::Rule));
    assert_eq!(admit(&with("\"direct\"", ""), &device), Admission::Now);
}

#[test]
fn a_rule_whose_budget_is_used_up_refuses() {
    let budget = "{ budget = { bytes = \"1 GB\", zone = \"UTC\" }, delay = \"1min\" }";
    let (policy, mut device) = (with(budget, ""), device());
    let admit =
        |device: &mpbond_policy::Device| policy.admit(&policy.decide(&flow(), device), device);
    assert_eq!(admit(&device), Admission::Now);
    device.spent_budgets.insert("another".to_owned());
    assert_eq!(admit(&device), Admission::Now);
    device.spent_budgets.insert("x".to_owned());
    assert_eq!(admit(&device), Admission::Refused(Refusal::BudgetSpent));
}

/// Links with costs 0, 1 and 5, and a capped one without cost.
#[test]
fn links_of_a_higher_tier_than_the_best_that_works_stand_by() {
    let costs = "[policy]\nmode = \"saver\"\nzone = \"UTC\"\n\
                 [[link]]\nname = \"phone\"\ncost = 5\n\
                 [[link]]\nname = \"cable\"\ncap = { bytes = 1, at_cap = \"standby\" }\n";
    let (saver, fastest) = (policy(costs), policy(&costs.replace("saver", "fastest")));
    let all = || {
        [
            ("wifi", false),
            ("modem", true),
            ("phone", false),
            ("cable", false),
        ]
        .map(|(name, metered)| link(name, metered))
    };
    assert_eq!(saver.behind(&all()), ["modem", "phone"]);
    assert!(fastest.behind(&all()).is_empty());
    let mut links = all();
    (links[0].works, links[3].charge) = (false, Charge::Low);
    assert_eq!(saver.behind(&links), ["phone"]);
    links[1].works = false;
    assert!(saver.behind(&links).is_empty(), "the last one");
    links[2].works = false;
    assert!(saver.behind(&links).is_empty(), "none");
    let mut links = all();
    links[3].cap_reached = true;
    assert_eq!(fastest.behind(&links), ["cable"]);
    // Without `at_cap` it is off, and no backup either.
    let off = policy(&costs.replace(", at_cap = \"standby\"", ""));
    assert_eq!(off.behind(&links), ["modem", "phone"]);
}

/// A free cable that is not plugged in, free WiFi, and two links that cost.
#[test]
fn with_a_weak_signal_costlier_links_are_used_beside_it() {
    let text = "[policy]\nmode = \"saver\"\n[[link]]\nname = \"wifi\"\nweak_below = \"-60 dBm\"\n\
                [[link]]\nname = \"abroad\"\ncost = 9\n";
    let saver = policy(text);
    assert!(saver.has_thresholds() && !policy("").has_thresholds());
    assert_eq!(saver.link("wifi").unwrap().weak_below_dbm, Some(-60));
    let mut links = ["cable", "wifi", "modem", "abroad"].map(|name| link(name, name == "modem"));
    links[0].works = false;
    assert_eq!(saver.behind(&links), ["modem", "abroad"]);
    links[1].is_weak = true;
    assert_eq!(saver.behind(&links), ["abroad"]);
    links[2].is_weak = true;
    assert!(saver.behind(&links).is_empty());
    // Another one of its cost suffices, unless it is not used.
    links[0].works = true;
    assert_eq!(saver.behind(&links), ["modem", "abroad"]);
    links[0].charge = Charge::Low;
    assert!(saver.behind(&links).is_empty());
    let balanced = policy(&text.replace("saver", "balanced"));
    let turns = balanced.turns(&links).into_iter().map(|(_, turn)| turn);
    assert_eq!(turns.collect::<Vec<_>>(), [0, 0, 1, 2]);
}
