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
        (
            "devices = 2",
            "devices = 2\ndirect_share = 0.5",
            "name = \"two",
            "with the scheduler `fixed-ratio`",
        ),
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
    ] {
        let (text, e) = complaint(from, to);
        let before = text.split(place).next().unwrap();
        let line = before.matches('\n').count() + 1;
        assert!(e.starts_with(&format!("t.toml:{line}: ")), "{to}: {e}");
        assert!(e.contains(words), "{to}: {e}");
        assert!(!e.contains('\n'), "{to}: {e}");
    }
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
    let mut folders = vec![folder.to_owned()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                let e = Experiment::load(&path).unwrap();
                let stem = path.file_stem().and_then(|s| s.to_str());
                assert_eq!(Some(e.name.as_str()), stem);
                count += 1;
            }
        }
    }
    assert!(count >= 7, "{count} experiments");
}

const SETTINGS: &str = r#"
[[setting]]
name = "slow"
link.ps = { down = 1, up = 1, delay = "40ms" }
[[setting]]
name = "falls"
[[setting.link.hs.change]]
at = "2s"
down = 1
[[assert]]
workload = "small"
setting = "slow"
max_ratio = 1.5
"#;

#[test]
fn each_workload_runs_in_each_setting() {
    let e = Experiment::parse("t.toml", &format!("{GOOD}{SETTINGS}")).unwrap();
    let names: Vec<&str> = e
        .workloads
        .iter()
        .map(|w| w.name.get_ref().as_str())
        .collect();
    assert_eq!(names, ["small, slow", "small, falls"]);
    let (slow, falls) = (&e.workloads[0], &e.workloads[1]);
    assert!(slow.is_called("small") && slow.is_called("small, slow"));
    assert!(!slow.is_called("small, falls"));
    assert!(e.schemes[0].carries(falls));
    let (ps, hs) = (&e.links[0], &e.links[1]);
    assert_eq!(slow.on(ps).delay, Duration::from_millis(40));
    assert_ne!(slow.on(ps).down, ps.down);
    assert_eq!(falls.on(ps).delay, Duration::from_millis(25));
    assert_eq!(falls.on(ps).down, ps.down);
    assert_eq!(falls.on(hs).changes.len(), 1);
    assert_eq!(slow.on(hs).changes.len(), 0);
}

#[test]
fn wrong_settings_are_named() {
    for (setting, complaint) in [
        ("link.core = { down = 1 }", "is no link with rates"),
        ("link.ps = { loss = 1.5 }", "loss is a probability"),
        ("link.ps = { colour = 1 }", "unknown field `colour`"),
    ] {
        let text = format!("{GOOD}[[setting]]\nname = \"s\"\n{setting}\n");
        let error = Experiment::parse("t.toml", &text).unwrap_err().to_string();
        let line = text.lines().count();
        assert!(error.starts_with(&format!("t.toml:{line}: ")), "{error}");
        assert!(error.contains(complaint), "{error}");
    }
    let text = format!("{GOOD}[[assert]]\nsetting = \"s\"\nmax_ratio = 1.0\n");
    let error = Experiment::parse("t.toml", &text).unwrap_err().to_string();
    assert!(error.contains("\"s\" is no setting"), "{error}");
}

#[test]
fn figures_of_the_paper_refer_to_what_there_is() {
    let one = "[[scheme]]\nname = \"one\"\nscheme = \"single\"\n";
    let more = |text: &str| Experiment::parse("t.toml", &format!("{GOOD}{one}[[paper]]\n{text}"));
    let good = "figure = \"Fig. 9\"\nscheme = \"two\"\nversus = \"one\"\n\
                quantity = \"seconds\"\nchange_percent = [-11, -5]\n";
    let e = more(good).unwrap();
    assert_eq!(e.papers[0].workloads(&e).collect::<Vec<_>>(), ["small"]);
    let change = e.papers[0].change_percent.unwrap();
    assert_eq!(change.ends(), (-11.0, -5.0));
    for (from, to, words) in [
        ("\"two\"", "\"three\"", "two, one"),
        ("\"one\"", "\"two\"", "the scheme itself"),
        ("\"seconds\"", "\"hours\"", "`seconds`"),
        ("\"seconds\"", "\"joules\"", "[[energy]]"),
        ("[-11, -5]", "[-5, -11]", "least to the greatest"),
        ("[-11, -5]", "\"5 %\"", "[least, greatest]"),
        ("change_percent", "value", "together with"),
        ("versus = \"one\"\n", "", "together with"),
        ("versus", "workload", "no workload"),
        ("versus", "setting", "no setting"),
        ("versus", "model", "no energy model"),
    ] {
        let text = good.replacen(from, to, 1);
        let e = more(&text).unwrap_err().to_string();
        assert!(e.starts_with("t.toml:") && e.contains(words), "{to}: {e}");
        assert!(!e.contains('\n'), "{e}");
    }
}
