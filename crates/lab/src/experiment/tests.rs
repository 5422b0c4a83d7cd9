//! Tests of experiment files: what is read, and which errors name which place.

use std::path::Path;
use std::time::Duration;

use mpbond_units::Size;

use super::*;
use crate::error::Result;

/// A valid file, from which tests of checks depart.
pub(super) const GOOD: &str = r#"
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
fn a_good_file_is_read() {
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
                hold = \"5ms\"\nhold_bytes = 3839\n\
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
    let model = link.model(Direction::Down).unwrap();
    assert_eq!(
        (model.hold, model.hold_bytes),
        (Duration::from_millis(5), 3839)
    );
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
/// error_text about it.
fn error_text(from: &str, to: &str) -> (String, String) {
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
fn errors_name_file_line_key_and_allowed_values() {
    // What replaces what, the place that is named, words of the error.
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
            "devices = 2\nscheduler = \"fixed-ratio\"",
            "scheduler",
            "fixed-ratio=SHARE",
        ),
        (
            "devices = 2",
            "devices = 2\nhand_over = \"whole-chunk\"",
            "name = \"two",
            "only for `combine`",
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
        (
            r#"delay = "25ms""#,
            r#"medium = "sea""#,
            "medium",
            "no medium \"sea\"",
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
            "there is no medium",
        ),
        (
            r#"delay = "25ms""#,
            "burst_loss = { to_bad = 2.0, to_good = 1.0 }",
            "burst_loss",
            "from 0 to 1",
        ),
        (
            r#"delay = "25ms""#,
            "hold_bytes = 3839",
            "name = \"ps\"",
            "hold_bytes needs `hold`",
        ),
        (
            r#"delay = "25ms""#,
            "hold = \"0ms\"",
            "name = \"ps\"",
            "hold is a time above 0",
        ),
    ] {
        let (text, e) = error_text(from, to);
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
    let (_, e) = error_text(r#"name = "hs""#, r#"name = "ps""#);
    assert!(e.contains("link \"ps\" is defined twice"), "{e}");
    for (from, to, words) in [
        (
            r#""helper""#,
            "\"proxy\"\naddress = \"203.0.113.2\"",
            "exactly one",
        ),
        (r#"name = "t""#, r#"name = "../t""#, "name"),
    ] {
        let (_, e) = error_text(from, to);
        assert!(e.starts_with("t.toml: ") && e.contains(words), "{to}: {e}");
    }
}

#[test]
fn faults_and_asserts_refer_to_existing_names() {
    let more = |text: &str| Experiment::parse("t.toml", &format!("{GOOD}{text}"));
    assert!(more("[[workload.fault]]\nat = \"2s\"\nkill = \"phone\"\n").is_ok());
    assert!(more("[[workload.fault]]\nat = \"2s\"\nblackhole = \"hs\"\n").is_ok());
    assert!(more("[[workload.fault]]\nat = \"2s\"\ndown_with_error = \"hs\"\n").is_ok());
    let twice = "[[workload.fault]]\nat = \"2s\"\nblackhole = \"hs\"\ndown_with_error = \"hs\"\n";
    assert!(more(twice).unwrap_err().to_string().contains("one of"));
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
        ("[[workload.fault]]\nat = \"2s\"\n", "one of"),
        ("class = \"urgent\"\n", "`interactive`"),
        ("class = \"realtime\"\n", "class needs `client"),
        ("[[assert]]\nscheme = \"three\"\n", "two"),
        (
            "[[assert]]\nversus = \"three\"\nquantity = \"seconds\"\nat_most = 0.9\n",
            "two",
        ),
        ("[[assert]]\nversus = \"two\"\n", "`versus` needs"),
        ("[[assert]]\nat_most = 0.9\n", "needs `at_most`"),
        (
            "[[assert]]\nquantity = \"ratio\"\nmore_at_most = 1.0\n",
            "needs `versus`",
        ),
        (
            "[[assert]]\nquantity = \"joules\"\nat_most = 0.9\n",
            "energy needs a model",
        ),
        (
            "[[assert]]\nquantity = \"apples\"\nat_most = 0.9\n",
            "unknown variant",
        ),
        ("[[assert]]\nworkload = \"large\"\n", "small"),
    ] {
        let e = more(text).unwrap_err().to_string();
        assert!(e.contains(words), "{text}: {e}");
    }
}

/// The good file, fetched by the lab's own client, with the scheme's lines
/// replaced and more behind.
fn with_scheme(scheme: &str, more: &str) -> Result<Experiment> {
    let text = GOOD
        .replacen("name = \"t\"\n", "name = \"t\"\nclient = \"fetch\"\n", 1)
        .replacen(
            "scheme = \"mpbond\"\ndevices = 2\ninterception = \"socks5\"\n",
            scheme,
            1,
        );
    assert!(text.contains(scheme));
    Experiment::parse("t.toml", &format!("{text}{more}"))
}

#[test]
fn baselines_refuse_keys_that_they_cannot_use() {
    let kibbutz = "scheme = \"kibbutz\"\ndevices = 2\n";
    let combine = "scheme = \"combine\"\ndevices = 2\n";
    let e = with_scheme(kibbutz, "").unwrap();
    let names: Vec<_> = e.schemes[0].helpers(&e).collect();
    assert_eq!(names, ["phone"]);
    assert_eq!(e.schemes[0].direct_links(&e).count(), 1);
    assert_eq!(e.pipe_of("phone").unwrap().name.get_ref(), "pipe");
    assert_eq!(e.uplink_of("phone").unwrap().name.get_ref(), "hs");
    let e = with_scheme(combine, "").unwrap();
    assert_eq!(e.schemes[0].chunk_bytes(), 256 << 10);
    let e = with_scheme(&format!("{combine}chunk = \"64 KiB\"\n"), "").unwrap();
    assert_eq!(e.schemes[0].chunk_bytes(), 64 << 10);

    let up = "[[workload]]\nname = \"up\"\ndirection = \"up\"\nbytes = 1\n";
    let kill = "[[workload.fault]]\nat = \"1s\"\nkill = \"phone\"\n";
    let more = |scheme: &str, line: &str| format!("{scheme}{line}\n");
    for (scheme, behind, words) in [
        ("scheme = \"kibbutz\"\n".into(), "", "two direct links"),
        (
            more(combine, "split = false"),
            "",
            "split = false is only for",
        ),
        (
            more(kibbutz, "interception = \"http\""),
            "",
            "only for `mpbond`",
        ),
        (
            more(kibbutz, "chunk = \"64 KiB\""),
            "",
            "only for `combine`",
        ),
        (more(kibbutz, "paths = []"), "", "direct path"),
        (
            more(kibbutz, "start = \"cold\"\nconnection = \"kept\""),
            "",
            "exclude each other",
        ),
        (more(combine, "chunk = \"1 B\""), "", "from 1 KiB"),
        (combine.into(), up, "only downloads"),
        (kibbutz.into(), kill, "no daemon"),
    ] {
        let e = with_scheme(&scheme, behind).unwrap_err().to_string();
        assert!(
            e.starts_with("t.toml:") && e.contains(words),
            "{scheme}: {e}"
        );
    }
    // curl can do neither.
    for (from, to) in [
        (
            "\"mpbond\"\ndevices = 2\ninterception = \"socks5\"",
            "\"kibbutz\"\ndevices = 2",
        ),
        ("devices = 2", "devices = 2\nconnection = \"kept\""),
    ] {
        let (_, e) = error_text(from, to);
        assert!(e.contains("client = \"fetch\""), "{e}");
    }
}

#[test]
fn changes_of_a_workload_join_those_of_its_links() {
    let change = |line: &str| format!("[[workload.change]]\nat = \"2s\"\n{line}\n");
    let text = GOOD.replacen(
        "name = \"hs\"\n",
        "name = \"hs\"\nchange = [{ at = \"3s\", down = 2 }, { at = \"1s\", up = 1 }]\n",
        1,
    );
    assert!(Experiment::parse("t.toml", &text).is_err(), "times fall");
    let text = text.replacen("\"1s\"", "\"3s\"", 1);
    let both = format!("{text}{}", change("link = \"hs\"\ndown = 1"));
    let e = Experiment::parse("t.toml", &both).unwrap();
    let hs = e.uplink_of("phone").unwrap();
    let at = |w: &Workload| -> Vec<u64> {
        let changes = w.on(hs).changes;
        changes.iter().map(|c| c.at.as_secs()).collect()
    };
    assert_eq!(at(&e.workloads[0]), [2, 3, 3]);
    assert_eq!(e.workloads[0].on(&e.links[0]).changes.len(), 0);
    for (line, words) in [
        ("down = 1", "needs a `link`"),
        ("link = \"core\"\ndown = 1", "ps, hs, pipe"),
        ("link = \"hs\"\nloss = 2.0", "from 0 to 1"),
    ] {
        let wrong = format!("{GOOD}{}", change(line));
        let e = Experiment::parse("t.toml", &wrong).unwrap_err().to_string();
        assert!(e.contains(words), "{line}: {e}");
    }
    let named = text.replacen("{ at", "{ link = \"hs\", at", 1);
    let e = Experiment::parse("t.toml", &named).unwrap_err().to_string();
    assert!(e.contains("take no `link`"), "{e}");
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
                if crate::list::measurement(&path).is_some() {
                    // The program's own tests read these.
                    continue;
                }
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
    for (setting, error_text) in [
        ("link.core = { down = 1 }", "there is no link with rates"),
        ("link.ps = { loss = 1.5 }", "loss is a probability"),
        ("link.ps = { colour = 1 }", "unknown field `colour`"),
    ] {
        let text = format!("{GOOD}[[setting]]\nname = \"s\"\n{setting}\n");
        let error = Experiment::parse("t.toml", &text).unwrap_err().to_string();
        let line = text.lines().count();
        assert!(error.starts_with(&format!("t.toml:{line}: ")), "{error}");
        assert!(error.contains(error_text), "{error}");
    }
    let text = format!("{GOOD}[[assert]]\nsetting = \"s\"\nmax_ratio = 1.0\n");
    let error = Experiment::parse("t.toml", &text).unwrap_err().to_string();
    assert!(error.contains("there is no setting \"s\""), "{error}");
}

#[test]
fn published_figures_refer_to_existing_names() {
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
        ("\"one\"", "\"two\"", "another scheme"),
        ("\"seconds\"", "\"hours\"", "`seconds`"),
        ("\"seconds\"", "\"joules\"", "[[energy]]"),
        ("[-11, -5]", "[-5, -11]", "smallest to the largest"),
        ("[-11, -5]", "\"5 %\"", "[least, greatest]"),
        ("change_percent", "value", "together with"),
        ("change", "more = 1.0\nchange", "together with"),
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

#[test]
fn applications_are_checked() {
    let text = GOOD
        .replacen("name = \"t\"\n", "name = \"t\"\nclient = \"fetch\"\n", 1)
        .replacen("bytes = \"512 KiB\"\n", "", 1);
    let ladder = "ladder = [\"1 Mbit/s\", \"2 Mbit/s\"]";
    let good = format!("video = {{ segment = \"2s\", length = \"20s\", {ladder} }}\n");
    let e = Experiment::parse("t.toml", &format!("{text}{good}")).unwrap();
    assert_eq!(e.workloads[0].most_bytes(), 22 * 250_000);
    for (app, words) in [
        (good.replace("1 Mbit/s", "3 Mbit/s"), "ladder: rising"),
        (good.replace("\"20s\"", "\"1s\""), "at least a segment"),
        ("page = { objects = [] }".into(), "1 to 10000"),
        (
            "stream = { rate = 1, length = \"1s\", message = 8 }".into(),
            "from 16 B",
        ),
        (
            "chunks = { bytes = 1, count = 2, least_gap = \"2s\", most_gap = \"1s\" }".into(),
            "least_gap must not exceed",
        ),
        (
            "messages = { bytes = 1, every = \"1s\", length = \"9s\", after = \"8s\" }".into(),
            "half of the length behind `after`",
        ),
        (
            "messages = { bytes = \"2 MiB\", every = \"1s\", length = \"9s\" }".into(),
            "to 1 MiB",
        ),
        (format!("{good}bytes = 1"), "or one of video"),
    ] {
        let error = Experiment::parse("t.toml", &format!("{text}{app}\n")).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let by_curl = format!("{text}{good}").replacen("client = \"fetch\"\n", "", 1);
    let error = Experiment::parse("t.toml", &by_curl)
        .unwrap_err()
        .to_string();
    assert!(error.contains("client = \"fetch\""), "{error}");
}

#[test]
fn pages_name_lists_and_archives() {
    let folder = tempfile::tempdir().unwrap();
    let text = GOOD
        .replacen("name = \"t\"\n", "name = \"t\"\nclient = \"fetch\"\n", 1)
        .replacen("bytes = \"512 KiB\"\n", "", 1);
    let load = |file: &str, content: &str, more: &str| {
        std::fs::write(folder.path().join(file), content).unwrap();
        let path = folder.path().join("t.toml");
        std::fs::write(
            &path,
            format!("{text}page = {{ list = \"{file}\"{more} }}\n"),
        )
        .unwrap();
        Experiment::load(&path)
    };
    let e = load("p.txt", "5 www at 0s\n7 cdn after 1\n", "").unwrap();
    assert_eq!(e.workloads[0].most_bytes(), 12);
    let entry = "{\"startedDateTime\": \"2024-10-01T12:00:00Z\", \"time\": 1, \"request\": \
                 {\"url\": \"http://h/\"}, \"response\": {\"bodySize\": 9}}";
    let archive = format!("{{\"log\": {{\"entries\": [{entry}]}}}}");
    let e = load("p.HAR", &archive, "").unwrap();
    assert_eq!(e.workloads[0].most_bytes(), 9);
    for (content, more, words) in [
        ("5 www\n", "", "p.txt:1: expected `at TIME`"),
        ("9999999999 www at 0s\n", "", "more than 4 GiB"),
        ("5 www at 0s\n", ", objects = [1]", "either objects or list"),
    ] {
        let e = load("p.txt", content, more).unwrap_err().to_string();
        assert!(e.contains(words) && !e.contains('\n'), "{e}");
    }
    load("p.txt", "5 www at 0s\n", "").unwrap();
    std::fs::remove_file(folder.path().join("p.txt")).unwrap();
    let e = Experiment::load(&folder.path().join("t.toml")).unwrap_err();
    let line = text.matches('\n').count() + 1;
    let place = format!("t.toml:{line}: ");
    let e = e.to_string();
    assert!(
        e.contains(&place) && e.contains("p.txt: No such file"),
        "{e}"
    );
}

#[test]
fn settings_without_their_recordings_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("there.down"), "1\n2\n").unwrap();
    let setting = |name: &str| {
        format!("[[setting]]\nname = \"{name}\"\nlink.ps.down = {{ mahimahi = \"{name}.down\" }}\n")
    };
    let text = format!("{GOOD}{}{}", setting("there"), setting("elsewhere"));
    let mut e = Experiment::parse("t.toml", &text).unwrap();
    e.path = folder.path().join("t.toml");
    let said = e.leave_out_missing_recordings().unwrap();
    assert!(
        said.contains("\"elsewhere\"") && said.contains("elsewhere.down"),
        "{said}"
    );
    assert!(!said.contains("\"there\""), "{said}");
    assert_eq!(e.workloads.len(), 1);
    assert_eq!(e.leave_out_missing_recordings(), None);
}

#[test]
fn unsuitable_workloads_of_a_scheme_are_refused() {
    let scheme = "devices = 2\ninterception = \"socks5\"\n";
    let wrong = |from: &str, to: &str, words: &str| {
        let (_, error_text) = error_text(from, to);
        assert!(error_text.contains(words), "{to}: {error_text}");
    };
    let one = "devices = 1\ninterception = \"socks5\"\nsplit = false\n";
    wrong(scheme, one, "with a helper");
    wrong(scheme, &format!("{scheme}dual = true\n"), "`chunks`");
    let alone = "devices = 1\ninterception = \"socks5\"\ndual = true\n";
    wrong(scheme, alone, "with two devices");
    let killed = "bytes = \"512 KiB\"\n[[workload.fault]]\nat = \"1s\"\nkill = \"phone\"\n";
    let good = GOOD.replace("bytes = \"512 KiB\"\n", killed);
    Experiment::parse("t.toml", &good).unwrap();
    let tethered = good.replace(scheme, &format!("{scheme}split = false\n"));
    let refused = Experiment::parse("t.toml", &tethered)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("only forwards"), "{refused}");
    let fetch = |scheme: &str, work: &str| {
        let text = GOOD.replace("name = \"t\"\n", "name = \"t\"\nclient = \"fetch\"\n");
        let text = text.replace(
            "scheme = \"mpbond\"\ndevices = 2\ninterception = \"socks5\"\n",
            scheme,
        );
        Experiment::parse("t.toml", &text.replace("bytes = \"512 KiB\"\n", work))
    };
    let refused = |scheme: &str, work: &str, words: &str| {
        let refused = fetch(scheme, work).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    };
    refused(
        "scheme = \"combine\"\ndevices = 2\n",
        "for = \"9s\"\n",
        "only downloads files",
    );
    refused(
        "scheme = \"single\"\n",
        "for = \"0s\"\n",
        "more than nothing",
    );
    refused(
        "scheme = \"single\"\n",
        "for = \"1s\"\nbytes = 9\n",
        "one of video",
    );
    let e = fetch("scheme = \"single\"\n", "for = \"9s\"\n").unwrap();
    assert_eq!(e.workloads[0].most_bytes(), 0);
    let seconds = e.expected_duration().unwrap().as_secs_f64();
    assert!((9.0..10.0).contains(&seconds), "{seconds}");
}

#[test]
fn changed_links_are_noticed() {
    let more = "[[workload]]\nname = \"again\"\ndirection = \"down\"\nbytes = 9\n\
                [[workload]]\nname = \"falls\"\ndirection = \"down\"\nbytes = 9\n\
                [[workload.change]]\nlink = \"ps\"\nat = \"1s\"\ndown = 1\n";
    let parse = |more: &str| Experiment::parse("t.toml", &format!("{GOOD}{more}")).unwrap();
    let leaves =
        |e: &Experiment, a: usize, b: usize| e.workloads[a].leaves_other_links(e, &e.workloads[b]);
    let e = parse(more);
    assert!(!leaves(&e, 0, 1) && !leaves(&e, 1, 2));
    assert!(leaves(&e, 2, 0), "what has fallen is as at the start again");
    let settings = "[[setting]]\nname = \"x\"\nlink.ps = { down = 4 }\n\
                    [[setting]]\nname = \"y\"\nlink.ps = { down = 5 }\n";
    let e = parse(settings);
    assert!(leaves(&e, 0, 1) && !leaves(&e, 0, 0));
}
