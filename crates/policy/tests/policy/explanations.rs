//! Explanations as text and as JSON, and the flows that another policy treats differently.

use mpbond_policy::{Fact, Verdict, changes};

use crate::device::{device, flow, link, policy};

const RULES: &str = "[policy]
mode = \"saver\"
[[rule]]
name = \"ssh\"
port = 22
set = { class = \"interactive\" }
[[rule]]
name = \"backups\"
app = \"restic.service\"
set = { class = \"background\" }
[[rule]]
name = \"calls\"
domain = \"*.example.org\"
set = { class = \"realtime\", priority = 3, metered = \"never\" }
[[rule]]
name = \"rest\"
port = 443
set = \"refuse\"
";

#[test]
fn an_explanation_names_rule_facts_and_links() {
    let policy = policy(RULES);
    let (mut flow, mut device) = (flow(), device());
    flow.app = Fact::unknown("the socket has gone");
    flow.cgroup = Fact::unknown("the socket has gone");
    flow.domain = Fact::guessed(crate::device::names(&["www.example.org"]), "the DNS stub");
    let mut old = link("eth", false);
    old.works = false;
    device.links.push(old);
    let text = policy.explain(&flow, &device).to_string();
    let want = "\
rule \"calls\" in line 11: carried by a session (a fact of the rule is guessed)
  app: unknown (the socket has gone)
  uid: 1000 (sock_diag)
  cgroup: unknown (the socket has gone)
  dscp: 0 (sock_diag)
  domain: www.example.org, guessed from the DNS stub
  ip: 203.0.113.7 (the client)
  port: 443 (the client)
  source: 127.0.0.1 (the client)
  metered: false (the links)
  roaming: false (the links)
  battery: 80% (sysfs)
  charging: false (sysfs)
  time: Mon 2026-11-02 11:00 +00:00 (the clock)
  not rule \"ssh\" in line 3: port does not hold
  not rule \"backups\" in line 7: app is unknown
  link wifi: cost 0, used first
  link modem: is metered
  link eth: does not work
";
    assert_eq!(text, want);
}

#[test]
fn a_condition_that_fails_by_a_guess_says_so() {
    let (policy, mut flow) = (policy(RULES), flow());
    flow.domain = Fact::guessed(crate::device::names(&["a.example.com"]), "the DNS stub");
    let explanation = policy.explain(&flow, &device());
    let text = explanation.to_string();
    let line = "  not rule \"calls\" in line 11: domain does not hold (guessed)\n";
    assert!(text.contains(line), "{text}");
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["passed"][1]["certainty"], "known");
    assert_eq!(json["passed"][2]["certainty"], "guessed");
}

#[test]
fn the_time_is_that_of_the_policys_zone() {
    let policy = policy("[policy]\nzone = \"Europe/Berlin\"\n");
    let text = policy.explain(&flow(), &device()).to_string();
    let want = "  time: Mon 2026-11-02 12:00 +01:00 (the clock)\n";
    assert!(text.contains(want), "{text}");
}

#[test]
fn an_explanation_as_json() {
    let (policy, mut flow) = (policy(RULES), flow());
    flow.domain = Fact::unknown("no name");
    let json = serde_json::to_value(policy.explain(&flow, &device())).unwrap();
    assert_eq!(json["rule"]["name"], "rest");
    assert_eq!(json["rule"]["line"], 15);
    assert_eq!(json["action"], "refuse");
    assert_eq!(json["admission"]["refused"], "rule");
    assert_eq!(json["passed"][2]["name"], "calls");
    assert_eq!(json["passed"][2]["condition"], "domain");
    assert_eq!(json["passed"][2]["certainty"], "unknown");
    let app = serde_json::json!({
        "name": "app",
        "value": "org.mozilla.firefox",
        "certainty": "known",
        "origin": "the control group",
    });
    assert_eq!(json["facts"][0], app);
    flow.port = 22;
    let json = serde_json::to_value(policy.explain(&flow, &device())).unwrap();
    assert_eq!(json["class"], "interactive");
    assert_eq!(json["class_from"], "rule");
    assert_eq!(json["admission"], "now");
    assert_eq!(json["links"][1]["name"], "modem");
    assert_eq!(json["links"][1]["use"]["cost"], 1);
    assert_eq!(json["links"][1]["rank"]["tier"], 1);
    let mut weak = device();
    weak.links[0].is_weak = true;
    let explanation = policy.explain(&flow, &weak);
    let json = serde_json::to_value(&explanation).unwrap();
    let is_weak = [0, 1].map(|n| json["links"][n]["use"]["weak"].as_bool());
    assert_eq!(is_weak, [Some(true), Some(false)]);
    let line = "link wifi: cost 0, used first, its signal is weak\n";
    assert!(explanation.to_string().contains(line), "{explanation}");
}

#[test]
fn a_wait_is_explained_with_its_time() {
    let rule = "[[rule]]\nname = \"x\"\nport = 443\n";
    let policy = policy(&format!(
        "{rule}set = {{ paths = [\"phone\"], delay = \"10min\" }}\n"
    ));
    let explanation = policy.explain(&flow(), &device());
    let text = explanation.to_string();
    let want = "  waits for a link that it may use, for 10 min at most\n";
    assert!(text.contains(want), "{text}");
    let json = serde_json::to_value(explanation).unwrap();
    assert_eq!(json["admission"]["wait"], "600s");
}

#[test]
fn hostile_names_are_shown_without_control_characters() {
    let (mut flow, mut device) = (flow(), device());
    flow.app = Fact::known("\u{1b}[2J<img>\n".repeat(100), "the control group");
    device.links.push(link("\u{202e}x", false));
    let text = policy("").explain(&flow, &device).to_string();
    let printable = |c: char| c == '\n' || mpbond_units::is_printable(c);
    assert!(text.chars().all(printable), "{text:?}");
    assert!(text.lines().all(|line| line.len() < 400), "{text}");
    assert!(text.starts_with("no rule applies, the default does: carried by a session\n"));
}

#[test]
fn a_dry_run_lists_the_flows_that_change() {
    let (old, device) = (policy(RULES), device());
    let new = policy(&RULES.replace("\"realtime\", priority", "\"bulk\", priority"));
    let mut ssh = flow();
    ssh.port = 22;
    let flows = [ssh, flow()];
    let found = changes(&old, &new, &flows, &device);
    assert_eq!(
        found.iter().map(|change| change.flow).collect::<Vec<_>>(),
        [1]
    );
    assert!(matches!(found[0].after.verdict, Verdict::Carry(_)));
    let renamed = policy(&format!(
        "# a line more\n{}",
        RULES.replace("\"calls\"", "\"talks\"")
    ));
    assert_eq!(changes(&old, &renamed, &flows, &device), []);
    // The class comes from the default instead, and paths are in another order.
    let default = RULES.replace("[policy]", "[policy]\ndefault = { class = \"realtime\" }");
    let default = policy(&default.replace("class = \"realtime\", priority", "priority"));
    assert_eq!(changes(&old, &default, &flows, &device), []);
    let [one, other] = ["[\"wifi\", \"modem\"]", "[\"modem\", \"wifi\"]"].map(|paths| {
        let paths = format!("paths = {paths}, priority");
        policy(&RULES.replace("priority", &paths))
    });
    assert_eq!(changes(&one, &other, &flows, &device), []);
    // The same verdict, but a link of another cost.
    let dearer = policy(&format!("{RULES}[[link]]\nname = \"wifi\"\ncost = 9\n"));
    assert_eq!(changes(&old, &dearer, &flows, &device).len(), 2);
}

#[test]
fn what_is_known_of_a_link_beside_the_policy_is_shown_as_far_as_it_is_known() {
    let known = mpbond_policy::Measured {
        rtt_ms: Some(23.4),
        pad_ms: Some(31.0),
        cap_left_bytes: Some(1_200_000_000),
        signal_dbm: Some(-63),
        radio_awake: Some(false),
        joules: Some(3.21),
    };
    let text = ", round-trip time 23.4 ms, PAD 31.0 ms, 1.20 GB of its cap left, signal -63 dBm, \
                radio asleep, 3.21 J since the start";
    assert_eq!(known.to_string(), text);
    assert_eq!(mpbond_policy::Measured::default().to_string(), "");
}
