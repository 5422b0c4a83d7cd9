use std::path::Path;

use super::*;

const GOOD: &str = r#"
name = "t"
[[host]]
name = "primary"
role = "primary"
[[host]]
name = "phone"
role = "helper"
[[host]]
name = "proxy"
role = "proxy"
address = "203.0.113.1"
[[host]]
name = "origin"
role = "origin"
address = "198.51.100.1"
[[link]]
name = "ps"
from = "primary"
to = "proxy"
down = "8 Mbit/s"
up = 8
delay = "25ms"
[[link]]
name = "hs"
from = "phone"
to = "proxy"
down = 10
up = 10
[[link]]
name = "pipe"
from = "primary"
to = "phone"
down = 5
up = 5
[[link]]
name = "core"
from = "proxy"
to = "origin"
[[scheme]]
name = "two"
scheme = "mpbond"
devices = 2
interception = "socks5"
[[workload]]
name = "small"
direction = "down"
bytes = "512 KiB"
"#;

#[test]
fn good_one_is_read() {
    let e = Experiment::parse("t.toml", GOOD).unwrap();
    assert_eq!(e.repetitions, 1);
    assert_eq!(e.schemes[0].idle, Duration::from_secs(5));
    assert_eq!(e.workloads[0].bytes, Size(512 << 10));
    assert_eq!(e.helpers().count(), 1);
    let link = &e.links[0];
    let model = link.model(Direction::Down).unwrap();
    assert_eq!(model.delay, Duration::from_millis(25));
    assert!(e.links[3].model(Direction::Up).is_none());
}

/// Replaces `from` by `to` in the good file and returns the complaint.
fn complaint(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    match Experiment::parse("t.toml", &text) {
        Err(e) => {
            assert_eq!(e.exit_code(), 2);
            e.to_string()
        }
        Ok(_) => panic!("{to:?} was accepted"),
    }
}

#[test]
fn complaints_name_file_line_key_and_what_is_allowed() {
    for (from, to, line, words) in [
        ("delay = \"25ms\"", "dealy = \"25ms\"", 23, "dealy"),
        ("delay = \"25ms\"", "delay = \"25\"", 23, "\"25ms\""),
        ("role = \"helper\"", "role = \"friend\"", 8, "`helper`"),
        ("to = \"phone\"", "to = \"fone\"", 33, "phone"),
        ("from = \"phone\"", "from = \"origin\"", 25, "links go from"),
        ("devices = 2", "devices = 3", 42, "from 1 to 2"),
        (
            "interception = \"socks5\"",
            "interception = \"tun\"",
            45,
            "`socks5`",
        ),
        ("interception = \"socks5\"", "", 42, "transparent"),
        (
            "scheme = \"mpbond\"",
            "scheme = \"single\"",
            42,
            "one device",
        ),
        ("bytes = \"512 KiB\"", "bytes = \"0 B\"", 47, "4 GiB"),
        ("bytes = \"512 KiB\"", "bytes = \"many\"", 49, "10 MiB"),
        ("name = \"hs\"", "name = \"ps\"", 25, "twice"),
        (
            "name = \"hs\"",
            "name = \"the helper's link\"",
            25,
            "letters",
        ),
        ("down = 10\n", "", 25, "both `down` and `up`"),
        ("address = \"198.51.100.1\"", "", 14, "address"),
    ] {
        let e = complaint(from, to);
        assert!(e.starts_with(&format!("t.toml:{line}: ")), "{to}: {e}");
        assert!(e.contains(words), "{to}: {e}");
        assert!(!e.contains('\n'), "{to}: {e}");
    }
    for (from, to, words) in [
        (
            "role = \"helper\"",
            "role = \"proxy\"\naddress = \"203.0.113.2\"",
            "proxy",
        ),
        ("name = \"t\"", "name = \"../t\"", "name"),
    ] {
        let e = complaint(from, to);
        assert!(e.starts_with("t.toml: ") && e.contains(words), "{to}: {e}");
    }
}

#[test]
fn faults_and_asserts_refer_to_what_there_is() {
    let more = |text: &str| Experiment::parse("t.toml", &format!("{GOOD}{text}"));
    assert!(more("[[workload.fault]]\nat = \"2s\"\nkill = \"phone\"\n").is_ok());
    assert!(more("[[workload.fault]]\nat = \"2s\"\nblackhole = \"hs\"\n").is_ok());
    assert!(more("[[assert]]\nscheme = \"two\"\nmax_ratio = 1.03\n").is_ok());
    for (text, words) in [
        (
            "[[workload.fault]]\nat = \"2s\"\nkill = \"primary\"\n",
            "phone, proxy",
        ),
        (
            "[[workload.fault]]\nat = \"2s\"\nblackhole = \"core\"\n",
            "ps, hs, pipe",
        ),
        ("[[workload.fault]]\nat = \"2s\"\n", "either"),
        ("[[assert]]\nscheme = \"three\"\n", "two"),
        ("[[assert]]\nworkload = \"large\"\n", "small"),
    ] {
        let e = more(text).unwrap_err().to_string();
        assert!(e.contains(words), "{text}: {e}");
    }
}

#[test]
fn shipped_experiments_are_right() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let e = Experiment::load(&path).unwrap();
            assert_eq!(
                Some(e.name.as_str()),
                path.file_stem().and_then(|s| s.to_str())
            );
            count += 1;
        }
    }
    assert!(count >= 5, "{count} experiments");
}
