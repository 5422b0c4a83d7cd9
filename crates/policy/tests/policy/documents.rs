//! docs/policy.md: its examples, its keys and its errors are those of the crate.

use crate::device::{link, parse};

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.md");
    std::fs::read_to_string(path).unwrap()
}

/// The examples.
fn examples(document: &str) -> Vec<&str> {
    let examples = document.split("```toml\n").skip(1);
    examples
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect()
}

/// The keys in the first column of the table with this header.
fn keys(document: &str, header: &str) -> Vec<String> {
    let (_, rest) = document.split_once(header).unwrap();
    let rows = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let key = |row: &str| row.split('`').nth(1).unwrap().to_owned();
    rows.map(key).collect()
}

/// The keys that the error for an unknown one lists.
fn allowed(text: &str) -> Vec<String> {
    let error = parse(text).map(|_| ()).unwrap_err().to_string();
    let (_, list) = error.split_once("allowed here are ").expect(&error);
    list.split(", ").map(str::to_owned).collect()
}

fn assert_same(mut documented: Vec<String>, mut allowed: Vec<String>) {
    documented.sort();
    allowed.sort();
    assert_eq!(documented, allowed);
}

#[test]
fn all_examples_are_in_force() {
    let document = document();
    let policies = examples(&document).into_iter().map(parse);
    let policies = policies.collect::<Result<Vec<_>, _>>();
    let [first, policy, weak, energy] = &policies.unwrap_or_else(|e| panic!("{e}"))[..] else {
        panic!("four examples")
    };
    weak.check_effect().unwrap_or_else(|e| panic!("{e}"));
    let mut links = ["wifi", "phone"].map(|name| link(name, false));
    assert_eq!(weak.behind(&links), ["phone"]);
    links[0].is_weak = true;
    assert!(weak.behind(&links).is_empty());
    assert_eq!(first.rule_count(), 4);
    first.check_effect().unwrap_or_else(|e| panic!("{e}"));
    energy.check_effect().unwrap_or_else(|e| panic!("{e}"));
    assert!(energy.radio("phone").is_some() && energy.radio("tablet").is_none());
    policy.check_effect().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(policy.rule_count(), 4);
    let cap = policy.link("mobile").unwrap().cap.as_ref().unwrap();
    assert_eq!((cap.reset_day, cap.warn_percent), (17, Some(75)));
}

#[test]
fn every_key_is_documented() {
    let document = document();
    let mut rule = keys(&document, "| key | value | holds if |");
    rule.extend(["name".to_owned(), "set".to_owned()]);
    assert_same(rule, allowed("[[rule]]\nx = 1\n"));
    let (_, treatment) = document.split_once("## Treatment").unwrap();
    let header = "| key | value | without it | meaning |";
    assert_same(
        keys(treatment, header),
        allowed("[policy]\ndefault = { x = 1 }\n"),
    );
    let (_, links) = document.split_once("## Links").unwrap();
    let mut link = keys(links, header);
    link.push("name".to_owned());
    assert_same(link, allowed("[[link]]\nx = 1\n"));
    let cap = keys(links, "| key of `cap` | value | without it | meaning |");
    assert_same(cap, allowed("[[link]]\ncap = { x = 1 }\n"));
    let set = allowed("[[rule]]\nset = { budget = { x = 1 } }\n");
    let budget = ["bytes", "resets", "zone", "warn"].map(str::to_owned);
    assert_same(budget.to_vec(), set);
}

#[test]
fn the_documented_errors_are_the_crates() {
    let document = document();
    let (_, errors) = document.split_once("## Errors").unwrap();
    let (_, errors) = errors.split_once("```\n").unwrap();
    let errors: Vec<&str> = errors.split_once("```").unwrap().0.lines().collect();
    let lines = |n: usize| "\n".repeat(n);
    let delay = format!("{}[[rule]]\nname = \"a\"\nport = 1\n", lines(10));
    let delay = parse(&format!("{delay}set = {{ delay = \"2h\" }}\n")).unwrap_err();
    let rule = |name: &str, port: &str| {
        format!("[[rule]]\nname = \"{name}\"\nport = {port}\nset = \"direct\"\n")
    };
    let (web, news) = (rule("web", "[80, 443]"), rule("news", "443"));
    let shadowed = parse(&format!("{}{web}{}{news}", lines(7), lines(8))).unwrap_err();
    assert_eq!([delay.to_string(), shadowed.to_string()], *errors);
}
