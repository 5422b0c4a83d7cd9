//! Whole ablations.

use super::*;

fn options() -> AblationOptions {
    AblationOptions {
        settings: 1,
        seed: vec![1],
        repeat: 0,
        worlds: 2,
        mechanisms: vec![Mechanism::Deferral, Mechanism::NearBound],
        json: None,
        html: None,
        markdown: None,
        threads: Some(2),
        quiet: true,
    }
}

#[test]
fn each_mechanism_has_effects_on_each_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| Some(folder.path().join(name));
    let report = ablation(&AblationOptions {
        json: file("a.json"),
        html: file("a.html"),
        markdown: file("a.md"),
        ..options()
    })
    .unwrap();
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.mechanism, f.alone))
        .collect();
    let expected = [
        ("deferral", false),
        ("near-bound", false),
        ("deferral", true),
        ("near-bound", true),
    ];
    assert_eq!(found, expected);
    let groups: Vec<_> = report.findings[0]
        .effects
        .iter()
        .map(|e| (&*e.group, e.worlds))
        .collect();
    let expected = [
        ("smooth down small", 1),
        ("smooth down large", 2),
        ("smooth up small", 1),
        ("smooth up large", 2),
        ("worlds", 2),
    ];
    assert_eq!(groups, expected);
    // Without the limit on the near hop, helpers and own links are given more than they can use.
    let changed = |f: &Finding| {
        f.effects
            .iter()
            .any(|e| e.time.is_some_and(|t| t.mean != 0.0))
    };
    assert!(changed(&report.findings[1]), "{report:?}");
    for name in ["a.json", "a.html", "a.md"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.contains("near-bound"), "{name}");
    }
}

#[test]
fn without_worlds_there_is_no_ablation() {
    let none = AblationOptions {
        settings: 0,
        worlds: 0,
        ..options()
    };
    let error = ablation(&none).unwrap_err().to_string();
    assert!(error.contains("no world is selected"), "{error}");
}

#[test]
fn the_document_names_each_mechanism() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ablation.md");
    let text = std::fs::read_to_string(path).unwrap();
    for mechanism in Mechanism::ALL {
        let (name, part_of) = (format!("`{mechanism}`"), mechanism.part_of());
        let part_of = part_of.map_or(String::new(), |whole| format!("`{whole}`"));
        // The last column tells what it stays for.
        let named = |line: &str| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, first, _, third, last, _] = cells[..] else {
                return false;
            };
            (first, third) == (&name, &part_of) && !last.is_empty()
        };
        assert!(text.lines().any(named), "{mechanism}");
    }
}
