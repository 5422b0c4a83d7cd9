//! The reference against the parsers, and docs/configuration.md against the reference.

use std::fmt::Write as _;
use std::path::Path;

use super::super::{Changes, ConfigError, HelperConfig, PrimaryConfig, ProxyConfig, Reload, Role};
use super::*;

/// Sections of the shortest file of a role that is accepted, with the keys that must be there.
type Shortest = &'static [(&'static str, &'static [(&'static str, &'static str)])];

const SHORTEST: [Shortest; 3] = [
    &[
        ("", &[]),
        (
            "[proxy]",
            &[("address", "\"203.0.113.1:4433\""), ("id", "\"ID\"")],
        ),
        (
            "[[helper]]",
            &[("address", "\"192.0.2.1:4434\""), ("id", "\"ID\"")],
        ),
    ],
    &[("", &[("proxies", "\"203.0.113.1:4433\"")])],
    &[("", &[])],
];

/// The shortest file of a primary with a helper whose pipe has a section of its own.
const WITH_PIPE: Shortest = &[
    (
        "[proxy]",
        &[("address", "\"203.0.113.1:4433\""), ("id", "\"ID\"")],
    ),
    ("[[helper]]", &[("id", "\"ID\"")]),
    ("[[helper.pipe]]", &[("address", "\"192.0.2.1:4434\"")]),
];

/// The shortest file of a role, with `line` in the section `header` and without the key `without`.
fn file(role: Role, header: &str, line: &str, without: &str) -> String {
    let shortest = match header {
        "[[helper.pipe]]" => WITH_PIPE,
        _ => SHORTEST[role as usize],
    };
    let mut text = String::new();
    let more = (header, &[][..]);
    let is_there = shortest.iter().any(|(h, _)| *h == header);
    for (section, keys) in shortest.iter().chain((!is_there).then_some(&more)) {
        let _ = writeln!(text, "{section}");
        for (key, value) in keys.iter() {
            if !(*section == header && *key == without) {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        if *section == header {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// A configuration as text, so that those of all roles have one type.
fn load(role: Role, text: &str) -> Result<String, ConfigError> {
    fn shown<T: std::fmt::Debug>(config: T) -> String {
        format!("{config:?}")
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    let id = mpbond_net::DeviceId::from_bytes([7; 32]).to_string();
    std::fs::write(&path, text.replace("\"ID\"", &format!("\"{id}\""))).unwrap();
    let loaded = match role {
        Role::Primary => PrimaryConfig::load(&path).map(shown),
        Role::Helper => HelperConfig::load(&path).map(shown),
        Role::Proxy => ProxyConfig::load(&path).map(shown),
    };
    loaded.map(|shown| shown.replace(&folder.path().display().to_string(), ""))
}

/// Every section of every page.
fn sections() -> impl Iterator<Item = (Role, &'static FileSection)> {
    let pages = Role::ALL.into_iter().zip(&PAGES);
    pages.flat_map(|(role, page)| page.sections.iter().map(move |s| (role, s)))
}

fn keys() -> impl Iterator<Item = (Role, &'static str, &'static FileKey)> {
    sections().flat_map(|(role, s)| s.keys.iter().map(move |key| (role, s.header, key)))
}

/// Words of a list at the end of an error.
fn listed<'a>(error: &'a str, behind: &str) -> Vec<&'a str> {
    let (_, list) = error
        .split_once(behind)
        .unwrap_or_else(|| panic!("{error}"));
    let mut words: Vec<_> = list.split(", ").collect();
    words.sort_unstable();
    words
}

/// Texts between quotation marks.
fn quoted(values: &str) -> Vec<&str> {
    values.split('"').skip(1).step_by(2).collect()
}

#[test]
fn the_keys_are_those_that_the_parser_accepts() {
    for (role, section) in sections() {
        let text = file(role, section.header, "no_such_key = 1", "");
        let error = load(role, &text).unwrap_err().to_string();
        let mut accepted = listed(&error, "unknown key; allowed here are ");
        // Tables in this one have sections of their own.
        let name = |section: &FileSection| section.header.trim_matches(['[', ']']);
        for table in PAGES[role as usize].sections.iter().map(name) {
            let (within, table) = table.rsplit_once('.').unwrap_or(("", table));
            if within == name(section) && !table.is_empty() {
                assert!(accepted.contains(&table), "{role}: {table}");
                accepted.retain(|key| *key != table);
            }
        }
        let mut documented: Vec<_> = section.keys.iter().map(|key| key.name).collect();
        documented.sort_unstable();
        assert_eq!(documented, accepted, "{role} {}", section.header);
    }
}

#[test]
fn defaults_are_those_in_effect() {
    for (role, header, key) in keys() {
        if let KeyDefault::Value(value) = key.default {
            let line = format!("{} = {value}", key.name);
            let written = load(role, &file(role, header, &line, ""));
            let absent = load(role, &file(role, header, "", ""));
            assert_eq!(written, absent, "{role} {header} {line}");
        }
    }
}

#[test]
fn required_keys_are_those_without_which_a_file_is_refused() {
    for (role, header, key) in keys() {
        let without = load(role, &file(role, header, "", key.name));
        let required = match key.default {
            KeyDefault::Required => true,
            KeyDefault::Words(words) => words.starts_with("none; required"),
            KeyDefault::Value(_) => false,
        };
        assert_eq!(without.is_err(), required, "{role} {header} {}", key.name);
    }
}

#[test]
fn listed_values_are_those_that_the_parser_accepts() {
    for (role, header, key) in keys() {
        let line = |value: &str| format!("{} = \"{value}\"", key.name);
        let words = quoted(key.values);
        for word in &words {
            let without = file(role, header, &line(&word.replace("SHARE", "0.5")), key.name);
            assert_eq!(load(role, &without).err(), None, "{role} {header} {word}");
        }
        if key.values.starts_with('"') {
            let error = load(role, &file(role, header, &line("no-such-value"), key.name));
            let error = error.unwrap_err().to_string();
            // An explanation may follow the last one.
            let error = error.split(" (").next().unwrap_or_default();
            let accepted = listed(error, "allowed are ");
            let mut words = words;
            words.sort_unstable();
            assert_eq!(words, accepted, "{role} {header} {}", key.name);
        }
    }
}

/// A value of a key that is not its default.
fn other_value(key: &FileKey) -> &'static str {
    let values = key.values;
    match (values, key.default) {
        ("true or false", KeyDefault::Value("true")) => "false",
        ("true or false", _) => "true",
        ("path" | "name of an algorithm", _) => "\"other\"",
        ("IP address", _) => "\"192.0.2.9\"",
        (words, _) if words.starts_with('"') => words.rsplit(' ').next().unwrap_or_default(),
        (words, _) => {
            let known = [
                ("address and port", "\"127.0.0.1:9\""),
                ("IP address, with", "\"192.0.2.9\""),
                ("name of a network interface", "\"eth9\""),
                ("name of a radio", "\"watch-bt\""),
                ("text of 1 to", "\"other\""),
                ("device id", "\"OTHER\""),
                ("span of time", "\"7s\""),
                ("size", "\"7 MiB\""),
                ("whole percentage", "\"7%\""),
                ("number from", "7"),
                ("port, from", "7"),
                ("network, or", "\"192.0.2.0/24\""),
                ("rule, or", "\"192.0.2.0/24\""),
            ];
            let value = known.into_iter().find(|(text, _)| words.starts_with(text));
            value.unwrap_or_else(|| panic!("{words}")).1
        }
    }
}

/// Difference of two configurations.
fn difference(role: Role, [before, after]: [&str; 2]) -> Changes {
    fn changes<C: Reload>(
        load: fn(&Path) -> Result<C, ConfigError>,
        [a, b]: [&Path; 2],
    ) -> Changes {
        load(a).unwrap().reload(load(b).unwrap()).1
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, policy) in [
        ("policy.toml", ""),
        ("direct.toml", "[policy]\ndefault = \"direct\"\n"),
    ] {
        std::fs::write(folder.path().join(name), policy).unwrap();
    }
    let files = ["a.toml", "b.toml"].map(|name| folder.path().join(name));
    for (file, text) in files.iter().zip([before, after]) {
        let id = |n| format!("\"{}\"", mpbond_net::DeviceId::from_bytes([n; 32]));
        let text = text.replace("\"ID\"", &id(7)).replace("\"OTHER\"", &id(9));
        std::fs::write(file, text).unwrap();
    }
    let files = [&*files[0], &*files[1]];
    match role {
        Role::Primary => changes(PrimaryConfig::load, files),
        Role::Helper => changes(HelperConfig::load, files),
        Role::Proxy => changes(ProxyConfig::load, files),
    }
}

#[test]
fn a_reload_applies_the_keys_of_which_the_reference_says_so_and_names_the_others() {
    for (role, header, key) in keys() {
        let value = match key.name {
            // It permits addresses, and has no effect of its own.
            "open" => continue,
            "scheduler" => "\"single\"",
            "policy" => "\"policy.toml\"",
            // It needs the interface.
            "capacity_down" | "capacity_up" => "\"7 Mbit/s\"\ninterface = \"eth9\"",
            // It needs that of the own end.
            "far_radio" => "\"phone-bt\"\nradio = \"watch-bt\"",
            _ => other_value(key),
        };
        // Another budget, not the first one.
        let line = match key.name {
            "max_bytes_per_month" => "max_bytes_per_month = \"1 MiB\"",
            "capacity_down" | "capacity_up" => "interface = \"eth9\"",
            "far_radio" => "radio = \"watch-bt\"",
            _ => "",
        };
        let before = file(role, header, line, "");
        let after = file(role, header, &format!("{} = {value}", key.name), key.name);
        let changes = difference(role, [&before, &after]);
        let remark = (PAGES[role as usize].remark)(header, key.name);
        let place = format!("{role} {header} {}: {changes:?}", key.name);
        assert_eq!(changes.applied.is_empty(), remark.is_empty(), "{place}");
        assert_eq!(changes.restart.is_empty(), !remark.is_empty(), "{place}");
        let mut named = changes.applied.iter().chain(&changes.restart);
        let words = match header {
            "" => key.name,
            // A reload compares pipes, wherever their keys are written.
            "[[helper.pipe]]" => "[[helper]]",
            header => header,
        };
        assert!(named.any(|n| n.starts_with(words)), "{place}");
    }
}

/// The account is a file beside the identity, which the sandbox opens only where there is a budget.
#[test]
fn the_first_budget_of_a_helper_needs_a_restart_and_so_does_its_removal() {
    let with = file(Role::Helper, "", "max_bytes_per_month = \"1 MiB\"", "");
    let without = file(Role::Helper, "", "", "");
    for texts in [[&*with, &without], [&without, &with]] {
        let changes = difference(Role::Helper, texts);
        let (applied, restart) = (Vec::<String>::new(), ["max_bytes_per_month".to_owned()]);
        assert_eq!(
            (changes.applied, &*changes.restart),
            (applied, &restart[..])
        );
    }
}

/// Without it, connections would go direct past the rules that are in force until then.
#[test]
fn a_kill_switch_that_is_removed_keeps_its_policy_until_a_restart() {
    let with = file(
        Role::Primary,
        "[transparent]",
        "kill_switch = \"permanent\"",
        "",
    );
    let without = file(Role::Primary, "[transparent]", "", "");
    for texts in [[&*with, &without], [&without, &with]] {
        let changes = difference(Role::Primary, texts);
        assert_eq!(changes.applied, Vec::<String>::new());
        assert_eq!(changes.restart, ["on_proxy_loss", "[transparent]"]);
    }
}

/// The kill switch that stays until then lets nothing go direct.
#[test]
fn a_direct_policy_waits_for_the_restart_that_removes_a_kill_switch() {
    let with = file(
        Role::Primary,
        "[transparent]",
        "kill_switch = \"permanent\"",
        "",
    );
    let without = file(Role::Primary, "", "policy = \"direct.toml\"", "");
    let changes = difference(Role::Primary, [&with, &without]);
    assert_eq!(changes.applied, Vec::<String>::new());
    let restart = |key| changes.restart.iter().any(|name| name == key);
    assert!(restart("policy") && restart("[transparent]"), "{changes:?}");
}

#[test]
fn paths_and_helpers_are_named_with_the_kind_of_their_change() {
    let head = "[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"ID\"\n";
    let path = |name, more| format!("[[path]]\nname = \"{name}\"\nsource = \"192.0.2.{more}\"\n");
    let helper = "[[helper]]\nname = \"phone\"\naddress = \"discover\"\nid = \"ID\"\n";
    let before = format!("{head}{}{}{helper}", path("one", 1), path("two", 2));
    let after = format!(
        "scheduler = \"single\"\n{head}{}{}",
        path("three", 3),
        path("two", 4)
    );
    let changes = difference(Role::Primary, [&before, &after]);
    let expected = [
        "[[path]] \"three\" added",
        "[[path]] \"two\" changed",
        "[[path]] \"one\" removed",
        "[[helper]] \"phone\" removed",
    ];
    assert_eq!(changes.applied, expected);
    assert_eq!(changes.restart, ["scheduler"]);
    // The order of sections is none of them.
    let swapped = format!("{head}{}{helper}{}", path("two", 2), path("one", 1));
    let none = difference(Role::Primary, [&before, &swapped]);
    assert_eq!(none, Changes::default());
}

/// docs/configuration.md.
fn document() -> String {
    let mut text = String::from(
        "<!-- Written by a test from crates/mpbond/src/config/reference: change that, then\n     \
         MPBOND_TEST_UPDATE=1 cargo test -p mpbond --lib configuration_md -->\n\
         # Configuration\n\n\
         Every key of the configuration files. The same is in the manual pages\n\
         `mpbond-primary.toml(5)`, `mpbond-helper.toml(5)`, `mpbond-proxy.toml(5)` and\n\
         `mpbond-device.toml(5)`.\n",
    );
    for (role, page) in ["primary", "helper", "proxy", "device"]
        .into_iter()
        .zip(&PAGES)
    {
        let _ = writeln!(text, "\n## {role}.toml");
        // The others are the same in all pages.
        let _ = writeln!(text, "{}", page.text[0]);
        for section in page.sections {
            let title = match section.header {
                "" => "Keys before the first section".to_owned(),
                header => format!("`{header}`"),
            };
            let _ = writeln!(text, "\n### {role}.toml: {title}\n{}\n", section.about);
            if section.keys.is_empty() {
                continue;
            }
            let _ = writeln!(
                text,
                "| key | values | default | meaning |\n| --- | --- | --- | --- |"
            );
            for key in section.keys {
                let default = match key.default {
                    KeyDefault::Value(value) => format!("`{value}`"),
                    KeyDefault::Words(words) => words.to_owned(),
                    KeyDefault::Required => "**required**".to_owned(),
                };
                let (name, values, meaning) = (key.name, key.values, key.meaning);
                let remark = (page.remark)(section.header, name);
                let space = if remark.is_empty() { "" } else { " " };
                let _ = writeln!(
                    text,
                    "| `{name}` | {values} | {default} | {meaning}{space}{remark} |"
                );
            }
        }
        let _ = writeln!(
            text,
            "\n### A complete {role}.toml\n```toml\n{}```",
            page.example
        );
    }
    let _ = writeln!(text, "\n## All files");
    for paragraph in &PAGES[0].text[1..] {
        let _ = writeln!(text, "{paragraph}\n");
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn configuration_md_is_up_to_date() {
    const UPDATE: &str = "MPBOND_TEST_UPDATE";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os(UPDATE).is_some() {
        return std::fs::write(file, document()).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        written == document(),
        "docs/configuration.md differs from crates/mpbond/src/config/reference: {UPDATE}=1 writes \
         it anew"
    );
}
