//! Files that are refused, each with one line that names the place and the reason.

use std::fmt::Write as _;

use mpbond_policy::{MAX_FILE_BYTES, MAX_LINKS, MAX_RULES};
use mpbond_toml_text::Place;

use crate::device::{parse, policy};

/// A file with one rule, which begins in line 3, and the rule's further lines from line 5.
fn with_rule(lines: &str) -> String {
    format!("[policy]\nzone = \"Europe/Berlin\"\n[[rule]]\nname = \"x\"\n{lines}\n")
}

fn error(text: &str) -> String {
    parse(text).map(|_| ()).expect_err(text).to_string()
}

#[test]
fn each_error_names_line_key_and_reason() {
    for (lines, want) in [
        (
            "site = \"a.org\"\nset = \"direct\"",
            "5: rule.site: unknown key; allowed here are name",
        ),
        (
            "set = \"direct\"",
            "3: rule: a rule without a condition selects every flow",
        ),
        ("port = 1", "3: rule: the key \"set\" is missing"),
        (
            "port = []\nset = \"direct\"",
            "5: rule.port: an empty list is not allowed",
        ),
        (
            "port = [1, 0]\nset = \"direct\"",
            "5: rule.port: 0 is not a port from 1 to 65535",
        ),
        (
            "port = 1.5\nset = \"direct\"",
            "5: rule.port: invalid type: floating point",
        ),
        (
            "app = \"\"\nset = \"direct\"",
            "5: rule.app: a name has 1 to 128 octets",
        ),
        (
            "app = \"/usr/bin/x\"\nset = \"direct\"",
            "5: rule.app: \"/usr/bin/x\" is not an appl",
        ),
        (
            "uid = \"me\"\nset = \"direct\"",
            "5: rule.uid: \"me\" is not a user id",
        ),
        (
            "cgroup = \"/\"\nset = \"direct\"",
            "5: rule.cgroup: every process is in or below",
        ),
        (
            "dscp = 64\nset = \"direct\"",
            "5: rule.dscp: 64 is not a code point from 0 to 63",
        ),
        (
            "domain = \"a*.org\"\nset = \"direct\"",
            "5: rule.domain: \"a*.org\" is not a domain",
        ),
        (
            "domain = \"münchen.de\"\nset = \"direct\"",
            "5: rule.domain: write the name in its ASC",
        ),
        (
            "domain = \"192.0.2.1\"\nset = \"direct\"",
            "5: rule.domain: 192.0.2.1 is an address",
        ),
        (
            "ip = \"10.0.0.1/8\"\nset = \"direct\"",
            "5: rule.ip: 10.0.0.1/8 has bits beyond its p",
        ),
        (
            "source = \"x\"\nset = \"direct\"",
            "5: rule.source: \"x\" is not an address",
        ),
        (
            "metered = \"yes\"\nset = \"direct\"",
            "5: rule.metered: invalid type: string \"yes\", ",
        ),
        (
            "battery = \"20%\"\nset = \"direct\"",
            "5: rule.battery: \"20%\" is not a limit such as",
        ),
        (
            "battery = \"< 0%\"\nset = \"direct\"",
            "5: rule.battery: no level is below 0%",
        ),
        (
            "battery = \">= 0%\"\nset = \"direct\"",
            "5: rule.battery: every level is 0% or more",
        ),
        (
            "time = \"8:00-8:00\"\nset = \"direct\"",
            "5: rule.time: \"8:00-8:00\" is empty",
        ),
        (
            "time = [\"8:00-10:00\", \"9:00-11:00\"]\nset = \"direct\"",
            "5: rule.time: \"8:00-10:00\" and \"9:00-11:00\" overlap",
        ),
        (
            "port = 1\nset = \"proxy\"",
            "6: rule.set: \"proxy\" is not allowed; allowed are direct",
        ),
        (
            "port = 1\nset = {}",
            "6: rule.set: an empty table sets nothing",
        ),
        (
            "port = 1\nset = { clas = \"bulk\" }",
            "6: rule.set.clas: unknown key; allowed here are",
        ),
        (
            "port = 1\nset = { class = \"x\" }",
            "6: rule.set.class: \"x\" is not allowed; allowed a",
        ),
        (
            "port = 1\nset = { priority = 8 }",
            "6: rule.set.priority: 8 is not a priority from 0",
        ),
        (
            "port = 1\nset = { paths = [] }",
            "6: rule.set.paths: no path is allowed",
        ),
        (
            "port = 1\nset = { paths = \"wifi\" }",
            "6: rule.set.paths: \"wifi\" is not \"all\"",
        ),
        (
            "port = 1\nset = { paths = [\"a\", \"a\"] }",
            "6: rule.set.paths: \"a\" occurs twice",
        ),
        (
            "port = 1\nset = { delay = \"2h\" }",
            "6: rule.set.delay: \"2h\" is not a span of time",
        ),
        (
            "port = 1\nset = { delay = \"999ms\" }",
            "6: rule.set.delay: \"999ms\" is not a span of time such as \"10min\", from 1s to 1h",
        ),
        (
            "port = 1\nset = { budget = { bytes = 0 } }",
            "6: rule.set.budget: a budget of 0 allows",
        ),
        (
            "port = 1\nset = { budget = \"1 GB\" }",
            "6: rule.set.budget: invalid type: string \"1 GB\", expected a table such as { bytes = \"1 GB\" }",
        ),
        (
            "port = 1\nset = { class = \"realtime\", multipath = \"aggregate\" }",
            "6: rule.set: a realtime flow has one path at a time",
        ),
        (
            "port = 1\nport = 2\nset = \"direct\"",
            "6: port: duplicate key",
        ),
        ("port = 1\nset = \"direct\"\n]", "7: "),
        (
            "metered = true\nset = { metered = \"never\" }",
            "6: rule.set: metered = true and metered = \"never\" refuse each flow",
        ),
        (
            "port = 1\nset = { paths = [\"m\"], metered = \"never\" }\n[[link]]\nname = \"m\"\n\
             metered = true",
            "6: rule.set: all of its paths are metered, and metered = \"never\" forbids them",
        ),
        (
            "port = 1\nset = \"direct\"\n[[rule]]\nname = \"x\"\nport = 2\nset = \"direct\"",
            "8: rule.name: the rule in line 3 has this name",
        ),
    ] {
        let error = error(&with_rule(lines));
        let want = format!("policy.toml:{want}");
        assert!(
            error.starts_with(&want),
            "{lines}\n want {want}\n  got {error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn errors_of_links_caps_and_the_policy_itself() {
    let link = |lines: &str| format!("[[link]]\nname = \"m\"\n{lines}\n");
    for (text, want) in [
        (
            "[police]".to_owned(),
            "1: police: unknown key; allowed here are policy, rule, link",
        ),
        (
            "[policy]\nmode = \"fast\"".to_owned(),
            "2: policy.mode: \"fast\" is not allowed",
        ),
        (
            "[policy]\nzone = \"Berlin\"".to_owned(),
            "2: policy.zone: the time zone \"Berlin\" is",
        ),
        (
            "[policy]\nzone = \"/etc/x\"".to_owned(),
            "2: policy.zone: \"/etc/x\" is not a time zon",
        ),
        (
            "[policy]\nzone = \"../x\"".to_owned(),
            "2: policy.zone: \"../x\" is not a time zone",
        ),
        (
            "[policy]\ndefault = { budget = { bytes = 1 } }".to_owned(),
            "2: policy.default.budget: a budget belongs to a rule",
        ),
        (
            "[policy]\ndefault = {}".to_owned(),
            "2: policy.default: an empty table sets nothing",
        ),
        (
            "[policy]\ndefault = { delay = \"0s\" }".to_owned(),
            "2: policy.default.delay: no delay: leave the key out",
        ),
        (
            link("metered = true\n[policy]\ndefault = { paths = [\"m\"], metered = \"never\" }"),
            "5: policy.default: all of its paths are metered, and metered = \"never\" forbids",
        ),
        (
            "[policy]\ndefault = { roaming = \"never\" }\n[[rule]]\nname = \"n\"\nroaming = true\n\
             set = { class = \"bulk\" }"
                .to_owned(),
            "6: rule.set: roaming = true and roaming = \"never\" of `default` refuse each flow",
        ),
        (
            link("cap = \"20 GB\""),
            "3: link.cap: invalid type: string \"20 GB\", expected a table such as { bytes = \"20 GB\" }",
        ),
        (
            "[rule]\nname = \"n\"".to_owned(),
            "1: rule: a file may have several: write its name in two brackets, [[rule]]",
        ),
        (
            "rule = [1]".to_owned(),
            "1: rule: invalid type: integer \"1\", expected a section [[rule]]",
        ),
        (
            "policy = 1".to_owned(),
            "1: policy: invalid type: integer \"1\", expected a section [policy]",
        ),
        (link(""), "1: link: sets nothing"),
        (
            link("cost = -1"),
            "3: link.cost: -1 is not a cost from 0 to 1000",
        ),
        (
            link("battery_floor = \"0%\""),
            "3: link.battery_floor: no level is below 0%",
        ),
        (
            link("battery_floor = \"101%\""),
            "3: link.battery_floor: \"101%\" is not a whole perc",
        ),
        (
            link("battery_floor = 20"),
            "3: link.battery_floor: 20 is not a whole percentage",
        ),
        (
            link("weak_below = \"60 dBm\""),
            "3: link.weak_below: \"60 dBm\" is not a strength such as \"-60 dBm\", from -150 to -1",
        ),
        (
            link("weak_below = \"-60%\""),
            "3: link.weak_below: \"-60%\" is not a strength",
        ),
        (
            link("weak_below = -60"),
            "3: link.weak_below: -60 is not a strength",
        ),
        (
            link("radio = \"lte\""),
            "3: link.radio: \"lte\" is not the name of a radio, such as \"lte-2020-tmobile\"; radios \
             are wifi-s4, umts-2012, ",
        ),
        (
            link("cap = { bytes = 0, zone = \"UTC\" }"),
            "3: link.cap: a cap of 0 allows nothing",
        ),
        (
            link("cap = { bytes = 1 }"),
            "3: link.cap: the zone of its reset day is missing",
        ),
        (
            link("cap = { bytes = -1 }"),
            "3: link.cap.bytes: a size must not be negative",
        ),
        (
            link("cap = { bytes = \"20 GB\", resets = 0, zone = \"UTC\" }"),
            "3: link.cap.resets: 0 is not a day from 1 to 31",
        ),
        (
            link("cap = { bytes = \"20 GB\", resets = 32, zone = \"UTC\" }"),
            "3: link.cap.resets: 32 is not a day from 1 to 31; in a month without this day, its",
        ),
        (
            link("cap = { bytes = \"20 GB\", zone = \"Berlin\" }"),
            "3: link.cap.zone: the time zone \"Berlin\" is not known here",
        ),
        (
            link("cap = { bytes = \"20 GB\", zone = \"UTC\", warn = \"0%\" }"),
            "3: link.cap: warn = \"0%\" warns before anything is used",
        ),
        (
            link("cap = { bytes = \"20 GB\", zone = \"UTC\", at_cap = \"slow\" }"),
            "3: link.cap.at_cap: \"slow\" is not allowed; allowed are off, standby",
        ),
        (
            link("cost = 1\n[[link]]\nname = \"m\"\ncost = 2"),
            "5: link.name: the link in line 1 has this name",
        ),
        (
            "[[rule]]\nname = \"n\"\ntime = \"8:00-9:00\"\nset = \"direct\"".to_owned(),
            "3: rule.time: its zone is missing",
        ),
    ] {
        let error = error(&text);
        let want = format!("policy.toml:{want}");
        assert!(
            error.starts_with(&want),
            "{text}\n want {want}\n  got {error}"
        );
    }
}

/// A rule that begins in line 1 and one that begins in line 5.
fn two(first: &str, second: &str) -> String {
    format!(
        "[[rule]]\nname = \"a\"\n{first}\nset = \"direct\"\n\
         [[rule]]\nname = \"b\"\n{second}\nset = \"refuse\"\n[policy]\nzone = \"Europe/Berlin\"\n"
    )
}

#[test]
fn a_rule_whose_flows_an_earlier_one_selects_never_applies() {
    let shadowed = "policy.toml:5: rule: \"b\" never applies: \"a\" in line 1 selects all of its \
                    flows first";
    for (first, second) in [
        ("port = [80, 443]", "port = 443"),
        ("port = \"1-1000\"", "port = [\"2-5\", 7]\napp = \"x\""),
        ("port = [\"1-4\", \"5-9\"]", "port = \"3-6\""),
        ("uid = \"1000-1999\"", "uid = 1500"),
        ("dscp = [46, 34]", "dscp = \"EF\""),
        ("app = [\"y\", \"x\"]", "app = \"x\""),
        ("cgroup = \"/a\"", "cgroup = \"/a/b\""),
        (
            "domain = \"*.org\"",
            "domain = [\"example.org\", \"*.example.org\"]",
        ),
        ("ip = \"10.0.0.0/8\"", "ip = \"10.1.0.0/16\""),
        (
            "ip = [\"10.0.0.0/9\", \"10.128.0.0/9\"]",
            "ip = \"10.0.0.0/8\"",
        ),
        ("source = \"::/0\"", "source = \"2001:db8::1\""),
        ("metered = true", "metered = true\nport = 1"),
        ("battery = \"< 30%\"", "battery = \"< 20%\""),
        ("battery = \">= 20%\"", "battery = \">= 30%\""),
        ("time = \"8:00-18:00\"", "time = \"mon 9:00-10:00\""),
    ] {
        assert_eq!(error(&two(first, second)), shadowed, "{first} / {second}");
    }
    for (first, second) in [
        ("port = 443", "port = [80, 443]"),
        ("port = 443\napp = \"x\"", "port = 443"),
        ("app = \"x\"", "uid = 7"),
        ("domain = \"*.example.org\"", "domain = \"example.org\""),
        ("ip = \"0.0.0.0/0\"", "ip = \"::/0\""),
        ("metered = true", "metered = false"),
        ("battery = \"< 20%\"", "battery = \">= 20%\""),
        ("time = \"22:00-6:00\"", "time = \"6:00-22:00\""),
    ] {
        let text = two(first, second);
        assert!(parse(&text).is_ok(), "{first} / {second}: {}", error(&text));
    }
}

#[test]
fn a_wait_for_another_link_is_no_contradiction() {
    let text = with_rule("metered = true\nset = { metered = \"never\", delay = \"10min\" }");
    assert!(parse(&text).is_ok());
    let none = with_rule("metered = true\nset = { metered = \"never\", delay = \"0s\" }");
    assert!(error(&none).contains("refuse each flow"));
    let direct = with_rule("metered = true\nset = \"direct\"");
    assert!(parse(&direct).is_ok());
}

#[test]
fn an_error_has_line_and_column() {
    let error = parse("[[rule]]\nname = \"é\"\nport = [1,\n  0]\nset = \"direct\"\n").unwrap_err();
    assert_eq!(error.place(), Some(Place { line: 4, column: 3 }));
    assert!(
        error
            .to_string()
            .starts_with("policy.toml:4: rule.port: 0 is not"),
        "{error}"
    );
}

#[test]
fn sizes_are_bounded() {
    let long = format!("# {}", "x".repeat(MAX_FILE_BYTES));
    assert_eq!(
        error(&long),
        format!("policy.toml: longer than {MAX_FILE_BYTES} bytes")
    );
    let mut rules = String::new();
    for n in 0..=MAX_RULES {
        writeln!(
            rules,
            "[[rule]]\nname = \"{n}\"\nuid = {n}\nset = \"direct\""
        )
        .unwrap();
    }
    let line = 4 * MAX_RULES + 1;
    assert!(error(&rules).starts_with(&format!("policy.toml:{line}: rule: more than {MAX_RULES}")));
    let mut links = String::new();
    for n in 0..=MAX_LINKS {
        writeln!(links, "[[link]]\nname = \"{n}\"\ncost = 1").unwrap();
    }
    assert!(error(&links).contains(&format!("link: more than {MAX_LINKS} sections")));
    let ports: Vec<_> = (1..=1025).map(|n| n.to_string()).collect();
    let list = with_rule(&format!("port = [{}]\nset = \"direct\"", ports.join(",")));
    assert!(error(&list).contains("rule.port: more than 1024 values"));
    let paths: Vec<_> = (0..65).map(|n| format!("\"{n}\"")).collect();
    let paths = paths.join(",");
    let list = with_rule(&format!("port = 1\nset = {{ paths = [{paths}] }}"));
    assert!(error(&list).contains("more than 64 paths"));
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(error(&deep).starts_with("policy.toml:1: "));
}

#[test]
fn hostile_text_reaches_no_terminal() {
    for text in [
        "\"\\u001b[2J\" = 1",
        "[[rule]]\nname = \"\\u001b\"",
        "[[rule]]\nname = \"x\\u202e\"\nport = 1\nset = \"direct\"",
        "[policy]\nmode = \"\\u0007\"",
        "[[rule]]\nname = \"x\"\napp = \"\\u001b/\"\nset = \"direct\"",
    ] {
        let error = error(text);
        assert!(error.chars().all(mpbond_units::is_printable), "{error:?}");
    }
}

#[test]
fn an_error_is_short_however_long_the_value_is() {
    let long = "x".repeat(MAX_FILE_BYTES / 2);
    for (text, want) in [
        (format!("{long} = 1"), "unknown key"),
        (with_rule(&format!("{long} = 1")), "unknown key"),
        (
            with_rule(&format!("app = \"/{long}\"")),
            "is not an application",
        ),
        (
            with_rule(&format!("port = 1\nset = \"{long}\"")),
            "is not allowed",
        ),
        (
            with_rule(&format!("port = 1\nset = {{ paths = \"{long}\" }}")),
            "is not \"all\"",
        ),
        (
            with_rule(&format!("time = \"{} 8:00-8:00\"", "mon,".repeat(9999))),
            "is not a time",
        ),
        (format!("[policy]\nmode = \"{long}\""), "is not allowed"),
        (format!("[policy]\nzone = \"{long}\""), "is not a time zone"),
        (
            format!("[[link]]\nname = \"m\"\ncap = \"{long}\""),
            "invalid type",
        ),
    ] {
        let error = error(&text);
        let shown: String = error.chars().take(1000).collect();
        assert!(error.len() < 900 && error.contains(want), "{want}: {shown}");
    }
}

#[test]
fn names_of_links_that_do_not_exist_are_found() {
    let known = ["wifi", "phone"];
    let with = |text: &str| policy(text).check_paths(&known);
    let rule = "[[rule]]\nname = \"x\"\nport = 1\nset = { paths = [\"wifi\", \"lte\"] }\n";
    let error = with(rule).unwrap_err().to_string();
    assert_eq!(
        error,
        "policy.toml:4: rule.set.paths: no path or helper has the name \"lte\""
    );
    let link = "[[link]]\nname = \"wifi\"\ncost = 1\n[[link]]\nname = \"lte\"\ncost = 2\n";
    let error = with(link).unwrap_err().to_string();
    assert_eq!(
        error,
        "policy.toml:4: link.name: no path or helper has the name \"lte\""
    );
    assert_eq!(with(&rule.replace("lte", "phone")), Ok(()));
    let default = "[policy]\ndefault = { paths = [\"wfi\"] }\n";
    let error = with(default).unwrap_err().to_string();
    assert_eq!(
        error,
        "policy.toml:2: policy.default.paths: no path or helper has the name \"wfi\""
    );
    assert_eq!(with(&default.replace("wfi", "wifi")), Ok(()));
}

#[test]
fn what_has_no_effect_is_refused_by_its_key() {
    let rule = |condition: &str, set: &str| {
        format!("\n[[rule]]\nname = \"x\"\n{condition}\nset = {set}\n")
    };
    let set = |set: &str| rule("port = 1", set);
    let when = |condition: &str| rule(condition, "\"refuse\"");
    for mode in ["auto", "fastest", "balanced", "saver"] {
        let text = format!("\n[policy]\nmode = \"{mode}\"\n");
        let error = policy(&text).check_effect().expect_err(&text).to_string();
        let want = "policy.toml:3: policy.mode: it has no effect: ";
        assert!(error.starts_with(want), "{error}");
    }
    for text in [
        "[policy]\nzone = \"UTC\"\ndefault = \"direct\"\n".to_owned(),
        "[policy]\ndefault = { class = \"bulk\", paths = \"all\" }\n".to_owned(),
        "[policy]\nmode = \"saver\"\n[[link]]\nname = \"phone\"\nradio = \"lte-2012\"\n".to_owned(),
        "[policy]\nmode = \"saver\"\n[[link]]\nname = \"wifi\"\nweak_below = \"-60 dBm\"\n"
            .to_owned(),
        set("\"refuse\""),
        set("{ class = \"realtime\", priority = 7, delay = \"1s\" }"),
        set("{ paths = [\"wifi\"], metered = \"never\", roaming = \"never\" }"),
        set("{ class = \"bulk\", budget = { bytes = \"1 GB\", zone = \"UTC\" } }"),
        "\n\n[[link]]\nname = \"wifi\"\ncost = 1\n".to_owned(),
        "[policy]\nmode = \"balanced\"\n[[link]]\nname = \"a\"\nradio = \"wifi-s4\"\ncost = 1\n"
            .to_owned(),
        "[[link]]\nname = \"wifi\"\nmetered = true\nbattery_floor = \"20%\"\n".to_owned(),
        "[policy]\nmode = \"saver\"\nzone = \"UTC\"\n[[link]]\nname = \"wifi\"\ncost = 1\n\
         cap = { bytes = \"1 GB\" }\n"
            .to_owned(),
        set("{ metered = \"allowed\", roaming = \"allowed\", multipath = \"aggregate\" }"),
        set("{ multipath = \"handover\" }")
            + &set("{ multipath = \"interactive\" }")
                .replace('x', "y")
                .replace('1', "2"),
        "[policy]\nzone = \"UTC\"\n".to_owned()
            + &when(
                "app = \"x\"\nuid = 1\ncgroup = \"/a\"\ndscp = 8\ndomain = \"b\"\nip = \"::/8\"\n\
                 port = 1\nsource = \"::/8\"\ntime = \"8:00-9:00\"\nbattery = \"< 20%\"\n\
                 charging = true\nmetered = false\nroaming = true",
            ),
    ] {
        assert_eq!(policy(&text).check_effect(), Ok(()), "{text}");
    }
}

#[test]
fn a_direct_flow_is_refused_where_none_may_be() {
    let rule = |set: &str| format!("[[rule]]\nname = \"x\"\nport = 1\nset = {set}\n");
    for (text, want) in [
        (
            "[policy]\ndefault = \"direct\"\n",
            Some("2: policy.default: no"),
        ),
        (&*rule("\"direct\""), Some("4: rule.set: no")),
        (&*rule("\"refuse\""), None),
        ("", None),
    ] {
        let error = policy(text).check_no_direct("no").err();
        let want = want.map(|want| format!("policy.toml:{want}"));
        assert_eq!(error.map(|e| e.to_string()), want);
    }
}
