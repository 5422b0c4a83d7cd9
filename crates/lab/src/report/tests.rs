//! Tests of reports: joined records, HTML, Markdown and pictures.

use mpbond_price::EnergyMode;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::figures::quantity::Quantity;
use crate::record::Standing;

const SCHEMES: [&str; 2] = ["plain <one>", "two & more"];

/// An experiment of two schemes and one workload, with this behind it.
fn experiment(schemes: [&str; 2], workload: &str, more: &str) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = String::from("name = \"t\"\ntitle = \"a <title>\"\n");
    for (name, role, address) in [
        ("primary", "primary", ""),
        ("proxy", "proxy", "address = \"203.0.113.1\"\n"),
        ("origin", "origin", "address = \"198.51.100.1\"\n"),
    ] {
        text += &format!("[[host]]\nname = \"{name}\"\nrole = \"{role}\"\n{address}");
    }
    text += "[[link]]\nname = \"ps\"\nfrom = \"primary\"\nto = \"proxy\"\ndown = 8\nup = 8\n\
             [[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n";
    for scheme in schemes {
        let scheme = quoted(scheme);
        text += &format!("[[scheme]]\nname = {scheme}\nscheme = \"single\"\n");
    }
    let workload = quoted(workload);
    text += &format!(
        "[[workload]]\nname = {workload}\ndirection = \"down\"\nbytes = \"1 MB\"\n\
         [[energy]]\nname = \"model\"\nwwan = \"lte-2012\"\npipe = \"wifi-s4\"\n{more}"
    );
    text
}

fn transfer(scheme: &str, workload: &str, repetition: u32, seconds: f64) -> Value {
    json!({
        "scheme": "single", "name": scheme, "workload": workload, "repetition": repetition,
        "direction": "down", "devices": 1, "interception": "none", "congestion": "cubic",
        "bytes": 1_000_000, "seconds": seconds, "ideal_seconds": 1.0, "ratio": seconds,
        "redundant_bytes": 0, "sha256_ok": true, "first_byte_s": 0.1,
        "longest_stall_s": seconds / 100.0, "subflows": [], "cpu_s": {"primary": 0.5},
        "energy": [{"model": "model", "joules": seconds + 10.0,
            "joules_without_last_tail": seconds, "joules_band": [0.0, 0.0], "devices": []}],
        "fit": true, "unfit_because": null,
        "lateness_us": {"p50": 1.0, "p99": 12.0, "max": 30.0, "realtime": true},
    })
}

fn record(source: &str, file: &str, transfers: Vec<Value>) -> Saved {
    let text = json!({
        "experiment": "t", "title": "old", "date": format!("2026-01-01T{source}"),
        "commit": "c0ffee", "kernel": "6.1", "transfers": transfers, "file": file,
    });
    Saved::parse(source, &text.to_string()).unwrap()
}

const MORE: &str = "[[assert]]\nmax_seconds = 1.4\n\
    [[paper]]\nfigure = \"Fig. 9\"\nscheme = \"plain <one>\"\nversus = \"two & more\"\n\
    quantity = \"seconds\"\nchange_percent = [-30, -10]\n\
    [[paper]]\nfigure = \"Table 1\"\nscheme = \"two & more\"\n\
    quantity = \"joules-without-last-tail\"\nvalue = 1.4\n";

/// "plain" takes 1.2 s, 1.0 s; "two" 1.5 s, 1.5 s.
fn study() -> Study {
    let all = [(0, 1.2, 1.5), (1, 1.0, 1.5)];
    let both = |(r, a, b)| {
        [
            transfer(SCHEMES[0], "w", r, a),
            transfer(SCHEMES[1], "w", r, b),
        ]
    };
    let transfers = all.into_iter().flat_map(both).collect();
    let one = record("1", &experiment(SCHEMES, "w", MORE), transfers);
    join(vec![one], &[]).unwrap().remove(0)
}

#[test]
fn a_run_without_fit_transfers_still_has_pictures_and_a_warning() {
    let unfit = |(scheme, seconds)| {
        let mut one = transfer(scheme, "w", 0, seconds);
        one["fit"] = json!(false);
        one["unfit_because"] = json!("it failed");
        one
    };
    let transfers = SCHEMES.into_iter().zip([1.2, 1.5]).map(unfit).collect();
    let record = record("1", &experiment(SCHEMES, "w", ""), transfers);
    let study = join(vec![record], &[]).unwrap().remove(0);
    assert!(
        study
            .pictures()
            .iter()
            .any(|(name, _)| name.ends_with("-time-1"))
    );
    let page = to_html("t", "now", &[study]);
    assert!(
        page.contains("Some rows have no fit transfer. The pictures"),
        "{page}"
    );
    assert!(page.contains("repetition 1: it failed</li>"), "{page}");
    assert!(!page.contains("too busy"), "{page}");
    assert!(
        page.contains("<svg ") && page.contains(">time (s)<"),
        "{page}"
    );
    // Of the rows only one is fit: the others are drawn, and named.
    let mut transfers = vec![transfer(SCHEMES[0], "w", 0, 1.2)];
    transfers.push(unfit((SCHEMES[1], 1.5)));
    let record = self::record("1", &experiment(SCHEMES, "w", ""), transfers);
    let page = to_html("t", "now", &join(vec![record], &[]).unwrap());
    assert!(page.contains("(w, two &amp; more)"), "{page}");
    // Nothing of the kind where all are fit.
    let page = to_html("t", "now", &[self::study()]);
    assert!(!page.contains("Some rows have no fit transfer"), "{page}");
}

#[test]
fn results_are_told_in_sentences() {
    let page = to_html("t", "now", &[study()]);
    let sentence = "<li>w: plain &lt;one&gt; is the fastest with 1.10 s; two &amp; more takes \
                    36 % longer.</li>";
    assert!(page.contains(sentence), "{page}");
}

#[test]
fn the_page_holds_the_numbers() {
    let study = study();
    let report = study.report();
    // (1.2 / 1.5 - 1 + 1.0 / 1.5 - 1) / 2
    let change = report.paper[0].ours.unwrap().mean;
    assert!((change - -26.666_667).abs() < 1e-5, "{change}");
    assert_eq!(report.paper[0].standing, Some(Standing::Within));
    assert_eq!(report.paper[1].standing, Some(Standing::Worse));
    let holds: Vec<_> = report.asserts.iter().map(|j| j.holds).collect();
    assert_eq!(holds, [Some(true), Some(false)]);

    let page = to_html("All <results>", "today", &[study]);
    for text in [
        "<title>All &lt;results&gt;</title>",
        "t: a &lt;title&gt; <span class=\"verdict failed\">asserts MISSED</span>",
        "Commit c0ffee, Linux 6.1, from 1 (4 transfers, 2026-01-01T1)",
        "at most 12 µs late",
        "<td class=\"n\">-30 to -10 %</td><td class=\"n\">-26.7 %</td>",
        "<td>as published</td>",
        "<td>ok</td>",
        "<td>MISSED</td>",
        // Two values 0.2 apart: sd 0.1414, interval 12.706 * 0.1.
        "<td>w</td><td>plain &lt;one&gt;</td><td class=\"n\">2</td><td class=\"n\">0</td>\
         <td class=\"n\">0</td><td class=\"n\">1.100</td><td class=\"n\">0.141</td><td class=\"n\">-0.171-2.371</td>",
        "8 Mbit/s",
        "<h3>Time</h3>",
        "<h3>Energy without last tail, by model</h3>",
        "[[paper]]\nfigure = &quot;Fig. 9&quot;\n",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // Nothing is fetched from anywhere.
    for text in ["src=", "href=", "@import", "url(http"] {
        assert!(!page.contains(text), "{text}");
    }
}

#[test]
fn markdown_has_the_tables() {
    let text = to_markdown(&[study()]);
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| ")).collect();
    assert!(rows[2].starts_with(
        "| t | a &lt;title&gt; | 4 | 0 | 0 | 1 of 2 hold | 1 of 2 reached | asserts MISSED |"
    ));
    assert!(
        text.contains("| Fig. 9 | w | plain &lt;one&gt; |"),
        "{text}"
    );
    let mut columns = 0;
    for line in text.lines() {
        let bars = line.matches('|').count();
        if line.is_empty() || !line.starts_with('|') {
            columns = 0;
        } else if columns == 0 {
            columns = bars;
        }
        assert_eq!(bars, columns, "{line}");
    }
}

#[test]
fn damaged_and_unfit_transfers_show() {
    let mut late = transfer(SCHEMES[0], "w", 0, 9.0);
    late["fit"] = json!(false);
    late["unfit_because"] = json!("links were <late>");
    let mut wrong = transfer(SCHEMES[1], "w", 0, 1.0);
    wrong["sha256_ok"] = json!(false);
    let one = record("1", &experiment(SCHEMES, "w", ""), vec![late, wrong]);
    let studies = join(vec![one], &[]).unwrap();
    let page = to_html("x", "today", &studies);
    for text in [
        "<h3>Unfit transfers: 1</h3>",
        "<li>plain &lt;one&gt;, w, repetition 1: links were &lt;late&gt;</li>",
        "<h3>Damaged transfers</h3>",
        "<li>two &amp; more, w, repetition 1</li>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("9.000"), "an unfit transfer is in a figure");
}

#[test]
fn disturbed_transfers_show_whether_they_count() {
    let disturbed = |scheme, repetition, seconds| {
        let mut one = transfer(scheme, "w", repetition, seconds);
        one["disturbed"] = json!("it waited <long>");
        one["waited"] = json!({"seconds": seconds, "waited_s": seconds / 10.0,
            "longest": ["mpbond proxy", seconds / 20.0], "steal_s": 0.0});
        one
    };
    let left_out = |mut one: Value| {
        (one["fit"], one["left_out"]) = (json!(false), json!(true));
        one
    };
    let file = experiment(SCHEMES, "w", "");
    let one = vec![
        transfer(SCHEMES[0], "w", 0, 1.2),
        transfer(SCHEMES[1], "w", 0, 1.2),
        left_out(disturbed(SCHEMES[0], 1, 9.0)),
        left_out(transfer(SCHEMES[1], "w", 1, 9.0)),
    ];
    // Of another run, which had no others.
    let other = vec![disturbed(SCHEMES[1], 0, 1.5)];
    let records = vec![record("1", &file, one), record("2", &file, other)];
    let page = to_html("x", "today", &join(records, &[]).unwrap());
    for text in [
        "<h3>Disturbed transfers: 2</h3>",
        "<li>plain &lt;one&gt;, w, repetition 2: it waited &lt;long&gt;; left out</li>",
        "<li>two &amp; more, w, repetition 3: it waited &lt;long&gt;; counted</li>",
        "<li>2 of 5 transfers are of disturbed repetitions and enter no figure.</li>",
        "<li>1 of 5 transfers were disturbed and enter figures, since too few repetitions were not",
        "<td>1 of 2, left out</td>",
        "<td>mpbond proxy: 5.00</td>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(
        !page.contains("<h3>Unfit") && !page.contains("9.000"),
        "{page}"
    );
}

#[test]
fn runs_are_joined() {
    let file = experiment(SCHEMES, "w", MORE);
    let t = |r, seconds| transfer(SCHEMES[0], "w", r, seconds);
    // The second took up the first; the third is a run of its own.
    let first = record("1", &file, vec![t(0, 1.0)]);
    let again = record("2", &file, vec![t(0, 1.0), t(1, 1.1)]);
    let other = record("3", &file, vec![t(0, 1.2), t(1, 1.3)]);
    let later = file.replace("a <title>", "another").replace("1.4", "9");
    let named = [("t.toml".to_owned(), later)];
    let studies = join(vec![other, again, first], &named).unwrap();
    let [study] = studies.as_slice() else {
        panic!("{} studies", studies.len());
    };
    let report = study.report();
    let all: Vec<(u32, f64)> = report
        .transfers
        .iter()
        .map(|d| (d.repetition, d.seconds))
        .collect();
    assert_eq!(all, [(0, 1.0), (1, 1.1), (2, 1.2), (3, 1.3)]);
    assert_eq!(report.summary[0].fit, 4);
    // The named file's title and bounds.
    assert_eq!(report.title, "another");
    assert_eq!(report.asserts[0].target, 9.0);
}

#[test]
fn the_later_record_says_whether_a_transfer_is_left_out() {
    let file = experiment(SCHEMES, "w", "");
    let t = |r, seconds, is_left_out: bool| {
        let mut one = transfer(SCHEMES[0], "w", r, seconds);
        (one["fit"], one["left_out"]) = (json!(!is_left_out), json!(is_left_out));
        one
    };
    // The first run had too few others to do without its disturbed one; and the other way round.
    let first = record("1", &file, vec![t(0, 9.0, false), t(1, 1.0, true)]);
    let again = vec![t(0, 9.0, true), t(1, 1.0, false), t(2, 1.1, false)];
    let studies = join(vec![record("2", &file, again), first], &[]).unwrap();
    let report = studies[0].report();
    let all = report.transfers.iter().map(|d| (d.fit, d.left_out));
    let fit = (true, false);
    assert_eq!(all.collect::<Vec<_>>(), [(false, true), fit, fit]);
    assert_eq!(report.summary[0].fit, 2);
}

#[test]
fn transfers_of_different_seeds_are_no_pairs() {
    let file = experiment(SCHEMES, "w", "");
    let of = |source: &str, scheme: usize, seed: u64| {
        let mut one = transfer(SCHEMES[scheme], "w", 0, 1.0);
        one["seed"] = json!(seed);
        record(source, &file, vec![one])
    };
    let repetitions = |records: Vec<Saved>| {
        let studies = join(records, &[]).unwrap();
        let all = studies[0].report().transfers.iter();
        all.map(|d| d.repetition).collect::<Vec<_>>()
    };
    assert_eq!(repetitions(vec![of("1", 0, 7), of("2", 1, 7)]), [0, 0]);
    assert_eq!(repetitions(vec![of("1", 0, 7), of("2", 1, 500)]), [0, 1]);
}

/// The schemes of an oracle may be in different records, and one record alone may lack some.
#[test]
fn an_oracle_is_that_of_all_records_together() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/mpbond/energy-price.toml"
    );
    let file = std::fs::read_to_string(path).unwrap();
    let file = file.replace("name = \"energy-price\"", "name = \"t\"");
    let of = |scheme, joules: f64| {
        let mut one = transfer(scheme, "100 kB, 8/10/5", 0, 1.0);
        one["seed"] = json!(7);
        one["energy"][0]["model"] = json!("LTE of 2012");
        one["energy"][0]["joules"] = json!(joules);
        one
    };
    let mut priced = of("balanced, LTE of 2012", 40.0);
    priced["noticed"] = json!({"cost-over-oracle": 9.0});
    let first = record("1", &file, vec![of("alone", 30.0), priced]);
    let other = record("2", &file, vec![of("fastest", 20.0)]);
    let cost_over_oracle = |records: Vec<Saved>| {
        let studies = join(records, &[]).unwrap();
        let all = studies[0].report().transfers.iter();
        let noticed = all.filter_map(|d| d.noticed.get(&Quantity::CostOverOracle).copied());
        noticed.collect::<Vec<_>>()
    };
    let second = EnergyMode::Balanced.joules_per_second();
    let expected = (40.0 + second) / (20.0 + second);
    assert_eq!(cost_over_oracle(vec![first.clone(), other]), [expected]);
    assert_eq!(cost_over_oracle(vec![first]), [0.0; 0]);
}

#[test]
fn records_of_different_runs_are_not_joined() {
    let file = experiment(SCHEMES, "w", MORE);
    let good = || record("1", &file, vec![transfer(SCHEMES[0], "w", 0, 1.0)]);
    let error_text = |change: &dyn Fn(&mut Saved), named: &[(String, String)]| {
        let mut other = good();
        other.source = "2".into();
        change(&mut other);
        let e = join(vec![good(), other], named).unwrap_err();
        assert_eq!(e.exit_code(), 2);
        e.to_string()
    };
    assert_eq!(
        error_text(&|s| s.commit = Some("beef".into()), &[]),
        "2: cannot be joined with 1: commit beef, not c0ffee"
    );
    let e = error_text(&|s| s.kernel = "5.0".into(), &[]);
    assert!(e.contains("kernel 5.0, not 6.1"), "{e}");
    let slower = file.replace("down = 8", "down = 7");
    let e = error_text(&|s| s.file = Some(slower.clone()), &[]);
    assert!(e.contains("`link` of the experiment differs"), "{e}");
    let e = error_text(&|_| (), &[("t.toml".into(), slower.clone())]);
    assert!(e.contains("differs from t.toml in `link`"), "{e}");
    let e = error_text(&|s| s.transfers[0].name = "three".into(), &[]);
    assert!(e.contains("transfer 1: scheme \"three\""), "{e}");
    let no_file = |s: &mut Saved| {
        s.experiment = "u".into();
        s.file = None;
    };
    let e = error_text(&no_file, &[]);
    assert!(e.contains("--experiment"), "{e}");
    let e = Saved::parse("x.json", "{\n\"experiment\": 5}").unwrap_err();
    assert!(e.to_string().starts_with("x.json:2: not a record"), "{e}");
    assert!(!e.to_string().contains('\n'));
}

/// Tags in the order that they open, and whether each closes: enough of XML
/// to see that no name has become markup.
fn tags(svg: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let mut all = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        let name: String = tag
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '/')
            .collect();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name), "{svg}"),
            None => {
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                all.push(name.clone());
                if !tag.ends_with('/') {
                    open.push(name);
                }
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stay open");
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever schemes and workloads are called, pictures and page have the
    /// same elements as with plain names.
    #[test]
    fn any_names_are_escaped(
        a in "[^\u{0}]{1,12}",
        b in "[<>&\"'|/=a-z\u{1}-\u{20}]{1,20}",
        w in "[<>&\"'|`\\\\*\n]{1,8}",
    ) {
        prop_assume!(a != b);
        let transfers = |names: [&str; 2], w: &str| {
            names.iter().map(|n| transfer(n, w, 0, 1.0)).collect()
        };
        let all = |names: [&str; 2], w: &str| {
            let one = record("1", &experiment(names, w, ""), transfers(names, w));
            join(vec![one], &[]).unwrap()
        };
        let plain = all(["x", "y"], "z");
        let wild = all([&a, &b], &w);
        for ((_, p), (_, q)) in plain[0].pictures().iter().zip(wild[0].pictures()) {
            let mut p = tags(p);
            let mut q = tags(&q);
            // How names are laid out depends on their length, nothing else does.
            p.retain(|t| t != "path" && t != "rect");
            q.retain(|t| t != "path" && t != "rect");
            prop_assert_eq!(p, q);
            }
        let page = to_html(&a, &b, &wild);
        prop_assert!(!page.contains("<script"));
        // As many cells in each row: what ends a cell is a bar without a
        // backslash before it that is none itself.
        let cells = |text: &str| {
            let rows = text.lines().map(|line| {
                let plain = line.replace("\\\\", "").replace("\\|", "");
                plain.matches('|').count()
            });
            rows.collect::<Vec<_>>()
        };
        prop_assert_eq!(cells(&to_markdown(&wild)), cells(&to_markdown(&plain)));
    }
}
