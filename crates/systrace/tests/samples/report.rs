//! Reports of all samples.

use mpbond_systrace::{ClassRules, Report, ReportOptions, open};

use super::sample;

/// Every sample gives a complete and self-contained HTML page.
#[test]
fn every_sample_gives_a_page() {
    for dir in ["systrace", "ftrace", "perfetto", "art-trace", "perf"] {
        let Some(path) = sample(dir) else { continue };
        let mut files: Vec<_> = std::fs::read_dir(path)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            let name = file.display().to_string();
            let report = Report::of(open(&file).unwrap(), &ReportOptions::default())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let page = report.html("sample");
            assert!(page.ends_with("</html>\n"), "{name}");
            // Names in a trace may contain URLs; only attributes and styles would load them.
            for outside in [
                "=\"http", "='http", "src=", "href=", "<link", "url(", "@import",
            ] {
                assert!(!page.contains(outside), "{name} refers to {outside}");
            }
            assert!(!report.findings().is_empty(), "{name}");
            for (picture, svg) in report.pictures(&ClassRules::shipped()) {
                assert!(svg.starts_with("<svg xmlns="), "{name}: {picture}");
                assert_eq!(svg.matches("<svg").count(), 1, "{name}: {picture}");
                assert!(svg.ends_with("</svg>\n"), "{name}: {picture}");
            }
            let timeline = page.contains("id=\"timeline-data\"");
            assert_eq!(timeline, report.usage.is_some(), "{name}");
        }
    }
}
