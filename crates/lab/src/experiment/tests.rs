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

#[test]
fn links_may_be_shared_recorded_and_worse() {
    let more = "medium = \"wifi\"\nradio = \"lte-2012\"\nfar_radio = \"wifi-2012\"\n\
                burst_loss = { to_bad = 0.01, to_good = 0.5 }\n\
                [[link.change]]\nat = \"1s\"\ncarrier = false\n\
                [[link.change]]\nat = \"2s\"\nburst_loss = { to_bad = 0.0, to_good = 1.0 }\n\
                [[link.change]]\nat = \"3s\"\nalive = true\n\
                [[medium]]\nname = \"wifi\"\nduplex = \"full\"\n";
    let text = GOOD.replacen("delay = \"25ms\"\n", more, 1);
    let text = text.replacen(
        "down = \"8 Mbit/s\"",
        "down = { profile = \"a.csv\", column = \"DL\", unit = \"kbit/s\", offset = \"12s\" }",
        1,
    );
    let e = Experiment::parse("t.toml", &text).unwrap();
    let link = &e.links[0];
    assert_eq!(e.media[0].duplex, Duplex::Full);
    assert_eq!(link.model(Direction::Up).unwrap().burst_loss.to_good, 0.5);
    let ups: Vec<_> = link.changes.iter().map(Change::is_up).collect();
    assert_eq!(ups, [Some(false), None, Some(true)]);
    assert!(
        link.changes[1]
            .of(Direction::Up)
            .burst_loss
            .unwrap()
            .is_none()
    );
}

/// Replaces `from` by `to` in the good file and returns the wrong text and the
/// complaint about it.
fn complaint(from: &str, to: &str) -> (String, String) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    match Experiment::parse("t.toml", &text) {
        Err(e) => {
            assert_eq!(e.exit_code(), 2);
            (text, e.to_string())
        }
        Ok(_) => panic!("{to:?} was accepted"),
    }
}

#[test]
fn complaints_name_file_line_key_and_what_is_allowed() {
    // What replaces what, the place that is named, words of the complaint.
    for (from, to, place, words) in [
        (r#"delay = "25ms""#, r#"dealy = "25ms""#, "dealy", "dealy"),
        (r#"delay = "25ms""#, r#"delay = "25""#, "delay", r#""25ms""#),
        (
            r#"role = "helper""#,
            r#"role = "friend""#,
            "role = \"fr",
            "`helper`",
        ),
        (r#"to = "phone""#, r#"to = "fone""#, "to = \"fo", "phone"),
        (
            r#"from = "phone""#,
            r#"from = "origin""#,
            "name = \"hs",
            "links go from",
        ),
        ("devices = 2", "devices = 3", "name = \"two", "from 1 to 2"),
        (r#""socks5""#, r#""tun""#, "interception", "`socks5`"),
        (
            r#"interception = "socks5""#,
            "",
            "name = \"two",
            "transparent",
        ),
        (
            r#"scheme = "mpbond""#,
            r#"scheme = "single""#,
            "name = \"two",
            "one device",
        ),
        (r#""512 KiB""#, r#""0 B""#, "name = \"small", "4 GiB"),
        (r#""512 KiB""#, r#""many""#, "bytes", "10 MiB"),
        (
            r#"name = "hs""#,
            r#"name = "a b""#,
            "name = \"a b",
            "letters",
        ),
        ("down = 10\n", "", "name = \"hs", "both `down` and `up`"),
        (
            r#"address = "198.51.100.1""#,
            "",
            "name = \"origin",
            "address",
        ),
        (
            r#"delay = "25ms""#,
            r#"medium = "sea""#,
            "medium",
            "\"sea\" is no medium",
        ),
        (
            r#"delay = "25ms""#,
            r#"radio = "lte-1812""#,
            "radio = \"lte-18",
            "lte-2012",
        ),
        (
            "to = \"origin\"",
            "to = \"origin\"\nradio = \"lte-2012\"",
            "radio",
            "plain wire",
        ),
        (
            r#"down = "8 Mbit/s""#,
            "medium = \"m\"\ndown = { mahimahi = \"a\" }",
            "medium",
            "is no medium",
        ),
        (
            r#"delay = "25ms""#,
            "burst_loss = { to_bad = 2.0, to_good = 1.0 }",
            "burst_loss",
            "from 0 to 1",
        ),
    ] {
        let (text, e) = complaint(from, to);
        let before = text.split(place).next().unwrap();
        let line = before.matches('\n').count() + 1;
        assert!(e.starts_with(&format!("t.toml:{line}: ")), "{to}: {e}");
        assert!(e.contains(words), "{to}: {e}");
        assert!(!e.contains('\n'), "{to}: {e}");
    }
    let text = format!(
        "{}[[medium]]\nname = \"m\"\n",
        GOOD.replacen(
            "down = 10",
            "medium = \"m\"\ndown = { mahimahi = \"a\" }",
            1
        )
    );
    let e = Experiment::parse("t.toml", &text).unwrap_err().to_string();
    assert!(e.contains("do not say how long"), "{e}");
    let (_, e) = complaint(r#"name = "hs""#, r#"name = "ps""#);
    assert!(e.contains("link \"ps\" stands there twice"), "{e}");
    for (from, to, words) in [
        (
            r#""helper""#,
            "\"proxy\"\naddress = \"203.0.113.2\"",
            "exactly one",
        ),
        (r#"name = "t""#, r#"name = "../t""#, "name"),
    ] {
        let (_, e) = complaint(from, to);
        assert!(e.starts_with("t.toml: ") && e.contains(words), "{to}: {e}");
    }
}

#[test]
fn faults_and_asserts_refer_to_what_there_is() {
    let more = |text: &str| Experiment::parse("t.toml", &format!("{GOOD}{text}"));
    assert!(more("[[workload.fault]]\nat = \"2s\"\nkill = \"phone\"\n").is_ok());
    assert!(more("[[workload.fault]]\nat = \"2s\"\nblackhole = \"hs\"\n").is_ok());
    assert!(more("[[workload.fault]]\nat = \"2s\"\ndown_with_error = \"hs\"\n").is_ok());
    let twice = "[[workload.fault]]\nat = \"2s\"\nblackhole = \"hs\"\ndown_with_error = \"hs\"\n";
    assert!(more(twice).unwrap_err().to_string().contains("either"));
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
